//! `palisade cost`: what the wall costs on a command of the user's own.

use crate::{
    INTERRUPTED, Origin, catch_interrupts,
    page::{try_page, write_page},
    peers, progress,
    report::{print, print_json},
};
use anyhow::Context;
use palisade_command_line::{args::CostArgs, say, workplace::Workplace};
use palisade_lab::cost::{Options, cost as cost_of};
use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

/// Where a folder is not copied.
const ADVICE: &str = "go to a folder with only what the command needs, or run in the folder itself with --in-place, where --cleanup COMMAND takes away what a run leaves";

/// Measures a command and prints what came out.
pub(crate) fn cost(args: CostArgs, origin: &Origin) -> anyhow::Result<u8> {
    try_page(args.html.as_deref())?;
    let interrupted = catch_interrupts()?;
    let here = std::env::current_dir().context("host: cannot tell the working directory")?;
    let options = Options {
        command: args.guest.into(),
        policy: args.policy.resolve()?,
        workplace: Rc::new(match args.in_place {
            true => Workplace::in_place(here),
            false => Workplace::copy_of(here, ADVICE)?,
        }),
        around: [args.setup, args.cleanup],
        ignore_failure: args.ignore_failure,
        palisade: origin.measured(args.palisade),
        peers: peers::resolve(&args.peers)?,
        warm_up_rounds: args.warm_up,
        rounds: args.runs,
        budget: args.time,
        out: args.out,
        command_line: origin.command_line(),
        interrupted: Arc::clone(&interrupted),
        progress: progress::bar(),
    };
    let outcome = cost_of(&options);
    // With it goes what was drawn of the progress.
    drop(options);
    let was_interrupted = interrupted.load(Ordering::Relaxed);
    let outcome = match outcome {
        Err(_) if was_interrupted => {
            say::line("interrupted before the first round was complete");
            return Ok(INTERRUPTED);
        }
        outcome => outcome?,
    };
    match args.json {
        true => print_json(&outcome)?,
        false => print(&outcome.to_string())?,
    };
    if let Some(file) = &args.html {
        write_page(file, &outcome.as_run())?;
    }
    Ok(if was_interrupted { INTERRUPTED } else { 0 })
}
