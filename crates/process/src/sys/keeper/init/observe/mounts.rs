//! What there is to know of a mount: whether it refuses to execute, and who has its files.

use super::{Running, open_proc};
use crate::{kernel, text::Text};

/// Those that do not refuse, as far as it was asked: to ask a file system (statfs(2)) might have to wait for it. One that refuses is
/// looked up each time, for the number of a mount that was granted and taken back may be another's later. (One that refuses and has
/// the number of one here is missed.)
#[derive(Default)]
pub(super) struct Mounts {
    known: [u64; Self::MOST],
    count: usize,
}

struct Mount {
    /// Nothing on it is executed.
    refuses: bool,
    /// Nobody but this machine has its files.
    is_local: bool,
}

/// File systems of memory and of disks. An overlay may lie on somebody else's.
const LOCAL: [&[u8]; 9] = [
    b"bcachefs",
    b"btrfs",
    b"ext2",
    b"ext3",
    b"ext4",
    b"f2fs",
    b"tmpfs",
    b"xfs",
    b"zfs",
];

impl Mounts {
    const MOST: usize = 32;

    pub(super) fn refuse(&mut self, running: &Running, mount: u64) -> bool {
        if self.known[..self.count].contains(&mount) {
            return false;
        }
        let refuses = find(running, mount).is_some_and(|mount| mount.refuses);
        if let Some(place) = self.known.get_mut(self.count).filter(|_| !refuses) {
            *place = mount;
            self.count += 1;
        }
        refuses
    }
}

/// Whether nobody else has to be asked for what lies on a mount, of which something is held open: until that is closed the number
/// is no other's.
pub(super) fn is_local(running: &Running, mount: u64) -> bool {
    find(running, mount).is_some_and(|mount| mount.is_local)
}

fn find(running: &Running, mount: u64) -> Option<Mount> {
    let mut name = Text::default();
    name.text(b"self/mountinfo\0");
    let file = open_proc(running, &name, kernel::O_RDONLY).ok()?;
    let mut lines = Lines::new(mount);
    let mut buffer = [0; 2048];
    let mut found = None;
    while let (None, Ok(length @ 1..)) = (&found, kernel::read(file, &mut buffer)) {
        found = buffer[..length].iter().find_map(|byte| lines.take(*byte));
    }
    kernel::close(file);
    found
}

/// Walks through proc_pid_mountinfo(5): a line begins with the mount's number, has its options as sixth field, and the kind of
/// its file system behind a hyphen.
struct Lines {
    mount: u64,
    field: usize,
    number: u64,
    word: Text,
    refuses: bool,
    is_behind_hyphen: bool,
}

impl Lines {
    const OPTIONS: usize = 5;

    fn new(mount: u64) -> Self {
        Self {
            mount,
            field: 0,
            number: 0,
            word: Text::default(),
            refuses: false,
            is_behind_hyphen: false,
        }
    }

    /// Tells of the mount, once all is known.
    fn take(&mut self, byte: u8) -> Option<Mount> {
        match (byte, self.field) {
            (b'\n', _) => *self = Self::new(self.mount),
            (b'0'..=b'9', 0) => {
                self.number = self
                    .number
                    .wrapping_mul(10)
                    .wrapping_add(u64::from(byte - b'0'));
            }
            (b',', Self::OPTIONS) => self.end_word(),
            (b' ', _) => {
                if self.is_behind_hyphen && self.number == self.mount {
                    return Some(Mount {
                        refuses: self.refuses,
                        is_local: LOCAL.contains(&self.word.bytes()),
                    });
                }
                self.end_word();
                self.field += 1;
            }
            (_, Self::OPTIONS..) => drop(self.word.text(&[byte])),
            _ => {}
        }
        None
    }

    fn end_word(&mut self) {
        self.refuses |= self.field == Self::OPTIONS && self.word.bytes() == b"noexec";
        self.is_behind_hyphen |= self.field > Self::OPTIONS && self.word.bytes() == b"-";
        self.word = Text::default();
    }
}
