//! `run`: `create`, `start` and, at the end, `delete`.

use super::{
    create::{self, Asked},
    delete, start,
};
use crate::{
    cli::{self, Global},
    console::Relay,
    log::Log,
    state::Folder,
};
use rustix::process::{Pid, Signal, WaitOptions};
use std::{os::fd::OwnedFd, process::ExitCode};

pub(super) fn run(global: &Global, asked: &cli::Run, log: &Log) -> anyhow::Result<ExitCode> {
    let made = Asked::new(&asked.create, !asked.detach);
    let created = create::create(global, &made, log)?;
    let folder = Folder::of(global, made.id)?;
    let state = folder.read()?;
    if let Err(error) = start::start(&folder, &state, log) {
        let _ = rustix::process::pidfd_send_signal(&created.pidfd, Signal::KILL);
        wait(created.pid);
        delete::delete(&folder, &state, log)?;
        return Err(error);
    }
    if asked.detach {
        return Ok(ExitCode::SUCCESS);
    }
    let terminal = created
        .terminal
        .filter(|_| made.making.console_socket.is_none());
    let code = attend(created.pid, &created.pidfd, terminal)?;
    if !asked.keep {
        delete::delete(&folder, &state, log)?;
    }
    Ok(code)
}

/// Passes signals and a terminal on until the process has ended, which is this one's child.
pub(super) fn attend(
    pid: u32,
    process: &OwnedFd,
    terminal: Option<OwnedFd>,
) -> anyhow::Result<ExitCode> {
    let relay = terminal.map(|master| {
        if let Some((rows, columns)) = crate::console::size() {
            let size = rustix::termios::Winsize {
                ws_row: rows,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            let _ = rustix::termios::tcsetwinsize(&master, size);
        }
        Relay::new(master)
    });
    let handed = crate::sys::hand_signals_on(process, relay.as_ref().map(Relay::master))?;
    if let Some(relay) = &relay {
        relay.run();
    }
    let code = wait(pid);
    drop(handed);
    Ok(ExitCode::from(code))
}

fn wait(pid: u32) -> u8 {
    let Some(pid) = Pid::from_raw(pid as i32) else {
        return 255;
    };
    let ended =
        rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty()));
    match ended {
        Ok(Some((_, status))) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code as u8,
            (_, Some(signal)) => (128 + signal) as u8,
            _ => 255,
        },
        _ => 255,
    }
}
