//! The file itself, and those that it names.

use super::{
    Config, ConfigError, ConfigProblem,
    error::Found,
    read::{Reader, read_document},
};
use rustix::fs::{Mode, OFlags};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Files are written by hand.
const MOST_BYTES: u64 = 4 << 20;

/// Reads a file that the configuration names, by its absolute path.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// A configuration and what reading it came upon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFile {
    /// What the file asks for.
    pub config: Config,
    /// Policies and configurations of filters that were read because the file names them.
    pub files: Vec<PathBuf>,
    /// What is allowed and probably not meant, each with its line.
    pub warnings: Vec<String>,
}

impl ConfigFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It can't be read, or the first thing in it that can't be meant.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.to_string_lossy();
        let unreadable = |error: io::Error| {
            ConfigError::new(
                &name,
                "",
                Found::nowhere(ConfigProblem::File(error.to_string())),
            )
        };
        let canonical = std::fs::canonicalize(path).map_err(unreadable)?;
        let text = read_regular_file(&canonical).map_err(unreadable)?;
        let base_dir = canonical.parent().unwrap_or(Path::new("/"));
        Self::from_text(&text, &name, base_dir, &read_regular_file)
    }

    /// Reads a file's text. What it names is read by `read_file`.
    ///
    /// # Errors
    /// The first thing in `text` that can't be meant.
    pub fn from_text(
        text: &str,
        source_name: &str,
        base_dir: &Path,
        read_file: ReadFile<'_>,
    ) -> Result<Self, ConfigError> {
        let reader = Reader::new(text, base_dir, read_file);
        match read_document(&reader) {
            Ok(config) => Ok(reader.into_file(config)),
            Err(found) => Err(ConfigError::new(source_name, text, found)),
        }
    }
}

/// Reads a file without waiting for anybody: a FIFO in its place would hold the server up for ever.
pub(super) fn read_regular_file(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    read_open_file(file, MOST_BYTES)
}

/// Reads an open file, if it is one, up to so many bytes.
pub(super) fn read_open_file(file: File, most_bytes: u64) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let reason = format!("it is larger than {} MiB", most_bytes >> 20);
        return Err(io::Error::other(reason));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}
