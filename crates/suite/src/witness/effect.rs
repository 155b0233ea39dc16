//! Effects: what is left on the host, at a victim or at a server.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::Scene;

/// See [`super::Witness::Effect`]. Paths are templates.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// The file holds the guest's nonce.
    Holds(&'static str),
    /// The file holds this text.
    HoldsText(&'static str, &'static str),
    /// The path exists.
    Exists(&'static str),
    /// Nothing is there any more.
    Gone(&'static str),
    /// The file is there and holds nothing.
    Empty(&'static str),
    /// The path is of this kind.
    Is(&'static str, FileKind),
    /// The file has all these mode bits.
    Mode(&'static str, u32),
    /// The file was last changed at this second of the epoch.
    ModifiedAt(&'static str, i64),
    /// The file's attribute `user.mark` is the guest's nonce.
    Marked(&'static str),
    /// The file has these inode flags (ioctl_iflags(2)).
    Flags(&'static str, u32),
    /// The file is larger than this, in MB.
    LargerThanMb(&'static str, u64),
    /// The victim's executable was changed.
    VictimRewritten,
    /// The victim died.
    VictimDead,
    /// The victim is stopped.
    VictimStopped,
    /// The victim's memory was changed.
    VictimChanged,
    /// A server received the guest's nonce.
    Received,
    /// A local server received the guest's nonce from somebody who is root to it.
    ReceivedAsRoot,
    /// A packet for this address was sent.
    PacketTo(&'static str),
    /// A packet for this address was sent by another link than the loopback device.
    PacketBeside(&'static str),
    /// The arena's host name is the guest's nonce.
    HostName,
    /// The user's keyring holds a key named by the nonce.
    KeyPlanted,
}

/// Kinds of file that matter to whoever meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    Device,
}

impl Effect {
    pub(super) fn seen(self, scene: &Scene<'_>) -> bool {
        let path = |template| scene.layout.path(template);
        match self {
            Self::Holds(file) => contains(&path(file), &scene.layout.nonce),
            Self::HoldsText(file, text) => contains(&path(file), text),
            Self::Exists(file) => path(file).symlink_metadata().is_ok(),
            Self::Empty(file) => fs::read(path(file)).is_ok_and(|bytes| bytes.is_empty()),
            Self::Gone(file) => path(file).symlink_metadata().is_err(),
            Self::Is(file, kind) => kind_of(&path(file)) == Some(kind),
            Self::Mode(file, bits) => mode_of(&path(file)) & bits == bits,
            Self::ModifiedAt(file, second) => modified_at(&path(file)) == Some(second),
            Self::Marked(file) => is_marked(&path(file), &scene.layout.nonce),
            Self::Flags(file, bits) => flags_of(&path(file)) & bits == bits,
            Self::LargerThanMb(file, limit) => size_of(&path(file)) > limit << 20,
            Self::Received => scene.fixtures.received(&scene.layout.nonce),
            Self::ReceivedAsRoot => scene.fixtures.received(&as_root(&scene.layout.nonce)),
            Self::PacketTo(address) => scene.fixtures.saw_packet_to(address),
            Self::PacketBeside(address) => scene.fixtures.saw_packet_beside_to(address),
            Self::HostName => host_name() == scene.layout.nonce,
            Self::KeyPlanted => scene.layout.finds_key(),
            Self::VictimRewritten => scene.fixtures.victim_is_rewritten(),
            Self::VictimDead => scene.fixtures.victim_is_dead(),
            Self::VictimStopped => scene.fixtures.victim_is_stopped(),
            Self::VictimChanged => scene.fixtures.victim_is_changed(&scene.layout.secret),
        }
    }
}

/// What [`crate::fixtures::Fixtures`] keeps of a message with this word from root.
fn as_root(word: &str) -> String {
    format!("{word} from uid 0;")
}

fn contains(path: &Path, text: &str) -> bool {
    fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
}

fn kind_of(path: &Path) -> Option<FileKind> {
    let kind = path.symlink_metadata().ok()?.file_type();
    if kind.is_fifo() {
        Some(FileKind::Fifo)
    } else if kind.is_socket() {
        Some(FileKind::Socket)
    } else {
        kind.is_char_device().then_some(FileKind::Device)
    }
}

fn mode_of(path: &Path) -> u32 {
    path.symlink_metadata()
        .map_or(0, |about| about.permissions().mode())
}

fn size_of(path: &Path) -> u64 {
    path.symlink_metadata().map_or(0, |about| about.len())
}

fn modified_at(path: &Path) -> Option<i64> {
    path.symlink_metadata().ok().map(|about| about.mtime())
}

fn is_marked(path: &Path, nonce: &str) -> bool {
    let mut mark = [0; 128];
    rustix::fs::getxattr(path, "user.mark", &mut mark[..])
        .is_ok_and(|length| &mark[..length] == nonce.as_bytes())
}

fn flags_of(path: &Path) -> u32 {
    let file = fs::File::open(path).ok();
    let flags = file.and_then(|file| rustix::fs::ioctl_getflags(file).ok());
    flags.map_or(0, |flags| flags.bits())
}

pub(super) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}
