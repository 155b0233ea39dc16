//! A second guest beside the one that attacks.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Order, Props, guest_arguments, host_without_namespaces, placed};
use crate::arena::CACHES;
use crate::attack::{Grant, Prop};
use crate::stage::Stage;
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
        stage: &Stage,
        props: &Props,
        program: &Path,
    ) -> io::Result<Option<Self>> {
        let mut wanted = order.attack.props.iter();
        let grants = wanted.find_map(|prop| match prop {
            Prop::Accomplice(grants) => Some(*grants),
            _ => None,
        });
        grants
            .map(|grants| Self::start(order, stage, props, program, grants))
            .transpose()
    }

    fn start(
        order: &Order,
        stage: &Stage,
        props: &Props,
        program: &Path,
        grants: &[Grant],
    ) -> io::Result<Self> {
        let errors = stage.path("{case}/accomplice.stderr");
        let mut command = command(order, stage, props, program, grants)?;
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
    stage: &Stage,
    props: &Props,
    program: &Path,
    grants: &[Grant],
) -> io::Result<Command> {
    let mut arguments = guest_arguments(order, stage, props);
    MARK.clone_into(&mut arguments[1]);
    arguments.insert(2, ROLE.to_owned());
    let launch = Launch {
        grants: placed(grants.iter().copied(), stage, props),
        guest_arguments: arguments,
        bin: stage.path("{bin}"),
        stagehand: stage.path("{tools}/stagehand"),
        folder: stage.path("{case}/accomplice"),
        uid: stage.user(),
    };
    fs::create_dir(&launch.folder)?;
    let mut words = host_without_namespaces(order, stage, &launch);
    words.extend(order.tool.command_line(program, &launch));
    stage.give_away(&launch.folder)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let cache = stage.base.join(CACHES).join(order.user.name());
    command.env("XDG_CACHE_HOME", cache);
    if !order.tool.lacks_namespaces() {
        stage.as_user(&mut command);
    }
    // Signals to the attacker's group are not for it.
    command.process_group(0);
    Ok(command)
}
