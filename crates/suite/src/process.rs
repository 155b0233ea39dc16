//! The guest's processes, as `/proc` of an outer pid namespace shows them.

use std::fs;
use std::io;
use std::path::PathBuf;

/// What a guest's first argument ends in: its own name, or the loader that runs it.
const GUEST_NAMES: [&str; 3] = ["hostile", "ld-linux-x86-64.so.2", "palisade-worker"];

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
}

impl Process {
    /// Every process in sight.
    pub(crate) fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .map(|pid| Self { pid })
            .collect()
    }

    /// The processes whose command line says that they are the guest with this nonce.
    pub(crate) fn marked(nonce: &str) -> Vec<Self> {
        Self::all()
            .into_iter()
            .filter(|process| process.is_marked(nonce))
            .collect()
    }

    fn is_marked(self, nonce: &str) -> bool {
        let line = self.read("cmdline");
        let mut words = line.split('\0');
        let is_guest = words
            .next()
            .is_some_and(|first| GUEST_NAMES.iter().any(|name| first.ends_with(name)));
        is_guest && words.any(|word| word == nonce)
    }

    /// Alive, as opposed to a zombie.
    pub(crate) fn is_alive(self) -> bool {
        self.stat(3)
            .is_some_and(|state| state != "Z" && state != "X")
    }

    pub(crate) fn path(self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.pid))
    }

    /// The file's text; empty if it cannot be read.
    pub(crate) fn read(self, file: &str) -> String {
        let bytes = fs::read(self.path(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What the magic link says; empty if it cannot be read.
    pub(crate) fn link(self, name: &str) -> String {
        let target = fs::read_link(self.path(name));
        target
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Field `number` of `/proc/PID/stat`, counted from 1 as in proc(5), from the third on.
    pub(crate) fn stat(self, number: usize) -> Option<String> {
        let line = self.read("stat");
        // The command name may hold spaces and parentheses: fields begin after the last one.
        let (_, fields) = line.rsplit_once(") ")?;
        fields
            .split_whitespace()
            .nth(number.checked_sub(3)?)
            .map(str::to_owned)
    }

    /// The value of `NAME:` in `/proc/PID/status`.
    pub(crate) fn status(self, name: &str) -> Option<String> {
        let text = self.read("status");
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim().to_owned())
    }

    /// A number in `/proc/PID/status`, its unit left out.
    pub(crate) fn status_number(self, name: &str) -> u64 {
        let value = self.status(name).unwrap_or_default();
        value
            .split_whitespace()
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    }

    /// Its open descriptors.
    pub(crate) fn descriptors(self) -> Vec<Descriptor> {
        let entries = fs::read_dir(self.path("fd"))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .map(|number| Descriptor {
                owner: self,
                number,
            })
            .collect()
    }
}

/// One open descriptor of another process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    owner: Process,
    number: u32,
}

impl Descriptor {
    pub(crate) fn path(self) -> PathBuf {
        self.owner.path(&format!("fd/{}", self.number))
    }

    pub(crate) fn link(self) -> String {
        self.owner.link(&format!("fd/{}", self.number))
    }

    /// The value of `NAME:` in its fdinfo.
    pub(crate) fn info(self, name: &str) -> Option<String> {
        let text = self.owner.read(&format!("fdinfo/{}", self.number));
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim().to_owned())
    }

    /// Whether it was opened for writing.
    pub(crate) fn is_writable(self) -> bool {
        const ACCESS_MODE: u32 = 0o3;
        let flags = self
            .info("flags")
            .and_then(|text| u32::from_str_radix(&text, 8).ok());
        flags.is_some_and(|flags| flags & ACCESS_MODE != 0)
    }

    /// The protocol name that the socket filesystem keeps, such as `NETLINK`.
    pub(crate) fn protocol(self) -> io::Result<String> {
        let mut name = [0_u8; 64];
        let length = rustix::fs::getxattr(self.path(), "system.sockprotoname", &mut name[..])?;
        let text = String::from_utf8_lossy(&name[..length]);
        Ok(text.trim_end_matches('\0').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Process;

    fn own() -> Process {
        Process {
            pid: i32::try_from(std::process::id()).expect("a pid"),
        }
    }

    #[test]
    fn a_process_sees_itself() {
        assert!(Process::all().contains(&own()));
        assert!(own().is_alive());
        assert_eq!(own().stat(4).as_deref(), own().status("PPid").as_deref());
        assert!(own().status_number("VmRSS") > 0);
    }

    #[test]
    fn a_socket_tells_its_protocol() {
        let _socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
        let protocols: Vec<_> = own()
            .descriptors()
            .into_iter()
            .filter_map(|d| d.protocol().ok())
            .collect();
        assert!(protocols.iter().any(|name| name == "UDP"), "{protocols:?}");
    }

    #[test]
    fn the_suite_itself_is_not_marked() {
        assert!(Process::marked("no such nonce").is_empty());
    }
}
