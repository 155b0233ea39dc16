//! What a worker is told: its command line.
//!
//! ```text
//!  palisade-worker --code=3 --status=4 --listeners=0 --cwd=/work --preopen=/usr … -- prog.wasm ARGUMENT…
//! ```
//!
//! Its environment and its standard streams are the guest's own.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// One guest, to a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The descriptor of the compiled code, open for reading.
    pub code: i32,
    /// The descriptor that takes [`crate::status`] lines. Without one nobody reads them: how the guest ended is told on its
    /// stderr.
    pub status: Option<i32>,
    /// Descriptors from 3 on that the guest finds open: sd_listen_fds(3).
    pub listeners: i32,
    /// The folder that is `/` to the guest, where that is not the worker's own.
    pub root: Option<PathBuf>,
    /// The guest's working directory.
    pub cwd: PathBuf,
    /// Folders that the guest finds open under their own path.
    pub preopens: Vec<PathBuf>,
    /// Bytes of all linear memories and tables together.
    pub memory_bytes: Option<u64>,
    /// Files that the guest may have open at one time: streams, listeners, preopens and its own.
    pub files: Option<u64>,
    /// The guest's own name and its arguments.
    pub arguments: Vec<OsString>,
}

/// A worker was started by something else than the wasm wall of its own version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// No such option.
    #[error(
        "host: palisade-worker knows no option {0:?}: it is started by `palisade run`, of the same version"
    )]
    Unknown(String),
    /// Not a number.
    #[error("host: palisade-worker: {0:?} is not a number that {1} can be")]
    Number(String, &'static str),
    /// No guest.
    #[error("host: palisade-worker is started by `palisade run`, not by hand")]
    NoGuest,
}

impl Order {
    /// The names of all folders that the guest finds open, in this order. The last is the working directory, by
    /// the name that C programs know it by, unless that is `/`.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let root = Path::new("/");
        let is_root = self.cwd == root && self.preopens.iter().any(|path| path == root);
        let preopens = self.preopens.iter().map(PathBuf::as_path);
        preopens.chain((!is_root).then_some(Path::new(".")))
    }

    /// Where the folder of that name lies, relative to `root`.
    pub fn place<'path>(&'path self, name: &'path Path) -> &'path Path {
        match name == Path::new(".") {
            true => &self.cwd,
            false => name,
        }
    }

    /// The worker's arguments, without its own name.
    pub fn to_arguments(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![format!("--code={}", self.code).into()];
        words.extend(
            self.status
                .map(|status| format!("--status={status}").into()),
        );
        words.push(format!("--listeners={}", self.listeners).into());
        let option = |name: &str, value: &OsStr| {
            let mut word = OsString::from(name);
            word.push(value);
            word
        };
        let root = self.root.iter();
        words.extend(root.map(|path| option("--root=", path.as_os_str())));
        words.push(option("--cwd=", self.cwd.as_os_str()));
        words.extend(
            self.preopens
                .iter()
                .map(|path| option("--preopen=", path.as_os_str())),
        );
        words.extend(
            self.memory_bytes
                .map(|bytes| format!("--memory={bytes}").into()),
        );
        words.extend(self.files.map(|files| format!("--files={files}").into()));
        words.push("--".into());
        words.extend(self.arguments.iter().cloned());
        words
    }

    /// Reads what [`Order::to_arguments`] wrote.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn from_arguments(words: impl IntoIterator<Item = OsString>) -> Result<Self, OrderError> {
        let mut order = Self::default();
        let mut words = words.into_iter();
        for word in words.by_ref() {
            if word == "--" {
                order.arguments = words.collect();
                break;
            }
            order.take_option(&word)?;
        }
        match order.arguments.is_empty() {
            true => Err(OrderError::NoGuest),
            false => Ok(order),
        }
    }

    fn take_option(&mut self, word: &OsStr) -> Result<(), OrderError> {
        let unknown = || OrderError::Unknown(word.to_string_lossy().into_owned());
        let bytes = word.as_bytes();
        let at = bytes
            .iter()
            .position(|byte| *byte == b'=')
            .ok_or_else(unknown)?;
        let (name, value) = (&bytes[..at], &bytes[at + 1..]);
        let path = || PathBuf::from(OsString::from_vec(value.to_vec()));
        match name {
            b"--code" => self.code = number(value, "--code")?,
            b"--status" => self.status = Some(number(value, "--status")?),
            b"--listeners" => self.listeners = number(value, "--listeners")?,
            b"--root" => self.root = Some(path()),
            b"--cwd" => self.cwd = path(),
            b"--preopen" => self.preopens.push(path()),
            b"--memory" => self.memory_bytes = Some(number(value, "--memory")?),
            b"--files" => self.files = Some(number(value, "--files")?),
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(value: &[u8], option: &'static str) -> Result<T, OrderError> {
    let text = String::from_utf8_lossy(value);
    text.parse()
        .map_err(|_| OrderError::Number(text.into_owned(), option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            code: 5,
            status: Some(6),
            listeners: 2,
            root: None,
            cwd: "/work".into(),
            preopens: vec![
                "/usr".into(),
                PathBuf::from(OsString::from_vec(vec![b'/', 0xff])),
            ],
            memory_bytes: Some(1 << 30),
            files: Some(64),
            arguments: vec!["prog.wasm".into(), "--".into(), "--code=9".into()],
        }
    }

    #[test]
    fn an_order_reads_back() {
        assert_eq!(Order::from_arguments(order().to_arguments()), Ok(order()));
        let plain = Order {
            status: None,
            root: Some("/.root".into()),
            memory_bytes: None,
            files: None,
            preopens: Vec::new(),
            ..order()
        };
        assert_eq!(Order::from_arguments(plain.to_arguments()), Ok(plain));
    }

    #[test]
    fn the_working_directory_is_open_by_one_more_name() {
        let names = |cwd: &str, preopens: &[&str]| {
            let order = Order {
                cwd: cwd.into(),
                preopens: preopens.iter().map(PathBuf::from).collect(),
                ..order()
            };
            let folders = order.folders().map(|name| (name, order.place(name)));
            let told =
                folders.map(|(name, place)| format!("{} {}", name.display(), place.display()));
            told.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(names("/work", &["/", "/usr"]), "/ /, /usr /usr, . /work");
        assert_eq!(names("/", &["/", "/usr"]), "/ /, /usr /usr");
        assert_eq!(names("/", &["/data"]), "/data /data, . /");
    }

    #[test]
    fn what_is_no_order_is_refused() {
        let read = |words: &[&str]| Order::from_arguments(words.iter().map(OsString::from));
        assert_eq!(read(&[]), Err(OrderError::NoGuest));
        assert_eq!(read(&["--code=3", "--"]), Err(OrderError::NoGuest));
        assert!(matches!(
            read(&["--code=x", "--", "a"]),
            Err(OrderError::Number(..))
        ));
        assert!(matches!(read(&["--help"]), Err(OrderError::Unknown(_))));
    }
}
