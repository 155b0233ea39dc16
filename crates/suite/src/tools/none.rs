//! No wall: a launcher that forks, executes and waits, and changes nothing.

use super::{FilledGrant, Launch, text};

pub(super) fn command_line(launch: &Launch) -> Vec<String> {
    let program = text(&launch.fixture_program);
    let mut words = vec![program.clone(), "launch".to_owned()];
    for grant in &launch.grants {
        if let FilledGrant::Cwd(path) = grant {
            words.push(format!("enter={path}"));
        }
    }
    words.extend([
        "--".to_owned(),
        program,
        "supervise".to_owned(),
        "--".to_owned(),
    ]);
    words.extend(launch.guest_at(&text(&launch.bin)));
    words
}
