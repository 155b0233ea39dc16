//! Which mounts refuse to execute.

use super::{Running, open_proc};
use crate::{kernel, text::Text};

/// As far as it was asked. A domain's mounts do not change, and to ask a file system
/// (statfs(2)) might have to wait for it.
#[derive(Default)]
pub(super) struct Mounts {
    known: [(u64, bool); Self::MOST],
    count: usize,
}

impl Mounts {
    const MOST: usize = 32;

    pub(super) fn refuse(&mut self, running: &Running, mount: u64) -> bool {
        let known = &self.known[..self.count];
        if let Some((_, refuses)) = known.iter().find(|(known, _)| *known == mount) {
            return *refuses;
        }
        let refuses = is_noexec(running, mount).unwrap_or(false);
        if let Some(place) = self.known.get_mut(self.count) {
            *place = (mount, refuses);
            self.count += 1;
        }
        refuses
    }
}

fn is_noexec(running: &Running, mount: u64) -> Option<bool> {
    let mut name = Text::default();
    name.text(b"self/mountinfo\0");
    let file = open_proc(running, &name, kernel::O_RDONLY).ok()?;
    let mut lines = Lines::new(mount);
    let mut buffer = [0; 2048];
    let mut found = None;
    while let (None, Ok(length @ 1..)) = (found, kernel::read(file, &mut buffer)) {
        found = buffer[..length].iter().find_map(|byte| lines.take(*byte));
    }
    kernel::close(file);
    found
}

/// Walks through proc_pid_mountinfo(5): a line begins with the mount's number and has its options as sixth field.
struct Lines {
    mount: u64,
    field: usize,
    number: u64,
    option: Text,
}

impl Lines {
    const OPTIONS: usize = 5;

    fn new(mount: u64) -> Self {
        Self {
            mount,
            field: 0,
            number: 0,
            option: Text::default(),
        }
    }

    /// Tells whether the mount refuses to execute, once that is known.
    fn take(&mut self, byte: u8) -> Option<bool> {
        match (byte, self.field) {
            (b'\n', _) => *self = Self::new(self.mount),
            (b'0'..=b'9', 0) => {
                self.number = self
                    .number
                    .wrapping_mul(10)
                    .wrapping_add(u64::from(byte - b'0'));
            }
            (b' ' | b',', Self::OPTIONS) if self.number == self.mount => {
                if self.option.bytes() == b"noexec" {
                    return Some(true);
                }
                if byte == b' ' {
                    return Some(false);
                }
                self.option = Text::default();
            }
            (b' ', _) => self.field += 1,
            (_, Self::OPTIONS) => drop(self.option.text(&[byte])),
            _ => {}
        }
        None
    }
}
