//! A second guest beside the one that attacks.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Order, filled, guest_arguments, host_without_namespaces};
use crate::fixtures::{Fixture, Fixtures, Layout};
use crate::policy::Grant;
use crate::tools::Launch;

/// Its own mark: what has the nonce in its arguments is the attacker's.
const MARK: &str = "accomplice";
const ROLE: &str = "role=giver";

/// It ends with the arena.
pub(super) struct Accomplice {
    _launcher: Child,
}

impl Accomplice {
    /// Starts the attack's second guest, if it has one, and waits until that holds.
    pub(super) fn of(
        order: &Order,
        layout: &Layout,
        fixtures: &Fixtures,
        program: &Path,
    ) -> io::Result<Option<Self>> {
        let mut wanted = order.attack.fixtures.iter();
        let grants = wanted.find_map(|fixture| match fixture {
            Fixture::Accomplice(grants) => Some(*grants),
            _ => None,
        });
        grants
            .map(|grants| Self::start(order, layout, fixtures, program, grants))
            .transpose()
    }

    fn start(
        order: &Order,
        layout: &Layout,
        fixtures: &Fixtures,
        program: &Path,
        grants: &[Grant],
    ) -> io::Result<Self> {
        let errors = layout.path("{case}/accomplice.stderr");
        let mut command = command(order, layout, fixtures, program, grants)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(&errors)?);
        let mut launcher = command.spawn()?;
        let output = launcher.stdout.take().map(BufReader::new);
        let mut lines = output.into_iter().flat_map(BufRead::lines);
        let holds = lines.any(|line| line.is_ok_and(|line| line == "held"));
        if holds {
            return Ok(Self {
                _launcher: launcher,
            });
        }
        let said = fs::read_to_string(errors).unwrap_or_default();
        Err(io::Error::other(format!(
            "the accomplice did not get ready: {said}"
        )))
    }
}

fn command(
    order: &Order,
    layout: &Layout,
    fixtures: &Fixtures,
    program: &Path,
    grants: &[Grant],
) -> io::Result<Command> {
    let mut arguments = guest_arguments(order, layout, fixtures);
    MARK.clone_into(&mut arguments[1]);
    arguments.insert(2, ROLE.to_owned());
    let launch = Launch {
        grants: filled(grants.iter().copied(), layout, fixtures),
        guest_arguments: arguments,
        bin: layout.path("{bin}"),
        fixture_program: layout.path("{tools}/fixture"),
        folder: layout.path("{case}/accomplice"),
        uid: layout.user(),
        has_terminal: false,
    };
    fs::create_dir(&launch.folder)?;
    let mut words = host_without_namespaces(order, layout, &launch);
    words.extend(order.tool.command_line(program, &launch));
    layout.give_away(&launch.folder)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.env("XDG_CACHE_HOME", layout.cache(order.user));
    if !order.tool.lacks_namespaces() {
        layout.as_user(&mut command);
    }
    // Signals to the attacker's group are not for it.
    command.process_group(0);
    Ok(command)
}
