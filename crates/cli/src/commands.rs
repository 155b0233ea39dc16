//! One module a verb.

mod completions;
mod disk;
mod doctor;
mod domains;
mod exec;
mod explain;
mod grant;
mod init;
mod kill;
mod lab;
mod last;
mod learn;
mod logs;
mod man;
mod policy_text;
mod program;
mod ps;
mod reload;
mod request;
mod run;
mod secrets;
mod sensitive;
mod serve;
mod server;
mod status;
mod top;
mod why;

use crate::args::Command;
use grant::What;
use palisade_process::Launcher;

/// Does what was asked for; gives the exit code.
pub(crate) fn perform(command: Command, early: Option<Launcher>) -> anyhow::Result<u8> {
    match command {
        Command::Run(args) => run::run(args, early),
        Command::Explain(args) => explain::explain(args),
        Command::Init(args) => init::init(&args),
        Command::Learn(args) => learn::learn(args),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Bench(_) | Command::Cost(_) => lab::measure(),
        Command::Why(args) => why::why(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Reload(args) => reload::reload(&args),
        Command::Status(args) => status::status(&args),
        Command::Ps(args) => ps::ps(&args),
        Command::Top(args) => top::top(&args),
        Command::Grant(args) => grant::grant(&args, What::Grant),
        Command::Revoke(args) => grant::grant(&args, What::Revoke),
        Command::Kill(args) => kill::kill(&args),
        Command::Exec(args) => exec::exec(&args),
        Command::Logs(args) => logs::logs(&args),
        Command::Completions(args) => completions::completions(args.shell),
        Command::Man => man::man(),
    }
}
