//! No wall: a launcher that forks, executes and waits, and changes nothing.

use super::{Launch, Placed, text};

pub(super) fn command_line(launch: &Launch) -> Vec<String> {
    let stagehand = text(&launch.stagehand);
    let mut words = vec![stagehand.clone(), "launch".to_owned()];
    for grant in &launch.grants {
        if let Placed::Cwd(path) = grant {
            words.push(format!("enter={path}"));
        }
    }
    words.extend([
        "--".to_owned(),
        stagehand,
        "supervise".to_owned(),
        "--".to_owned(),
    ]);
    words.extend(launch.guest_at(&text(&launch.bin)));
    words
}
