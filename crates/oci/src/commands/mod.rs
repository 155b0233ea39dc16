//! One module for each command, or two of a kind.

mod create;
mod delete;
mod exec;
mod explain;
mod features;
mod kill;
mod list;
mod pause;
mod report;
mod run;
mod signal;
mod spec;
mod start;
mod update;
mod usage;

use crate::{
    cli::{Cli, Command},
    log::Log,
    state::Folder,
};
use std::process::ExitCode;

pub(crate) fn run(cli: &Cli, log: &Log) -> anyhow::Result<ExitCode> {
    let global = &cli.global;
    match &cli.command {
        Command::Create(asked) => create::run(global, asked, log)?,
        Command::Start(id) => start::run(global, &id.id, log)?,
        Command::Run(asked) => return run::run(global, asked, log),
        Command::State(id) => {
            let state = Folder::of(global, &id.id)?.read()?;
            print(&state.document(state.status_word(), state.pid()))?;
        }
        Command::Kill(asked) => kill::run(global, asked)?,
        Command::Delete(asked) => delete::run(global, asked, log)?,
        Command::Exec(asked) => return exec::run(global, asked),
        Command::List(asked) => list::run(global, asked)?,
        Command::Ps(asked) => return list::processes(global, asked),
        Command::Pause(id) => pause::run(global, &id.id, true)?,
        Command::Resume(id) => pause::run(global, &id.id, false)?,
        Command::Update(asked) => update::run(global, asked)?,
        Command::Events(asked) => usage::run(global, asked)?,
        Command::Spec(asked) => spec::run(asked)?,
        Command::Features => print(&features::document())?,
        Command::Report(id) => report::run(global, &id.id)?,
        Command::Explain(asked) => explain::run(asked)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// One document on stdout.
fn print(document: &serde_json::Value) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)?;
    Ok(())
}
