//! Files that a user names to be read whole.

use rustix::fs::{Mode, OFlags};
use std::{
    fs,
    io::{self, Read},
    path::Path,
};

/// Reads a file without waiting for anybody: a FIFO in its place would hold palisade up for ever.
pub fn read_regular_file(path: &Path, most_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    anyhow::ensure!(metadata.is_file(), "it is not a regular file");
    refuse_larger(metadata.len(), most_bytes)?;
    read_at_most(file, most_bytes)
}

/// Reads to the end, if that comes in time.
pub fn read_at_most(from: impl Read, most_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(most_bytes + 1).read_to_end(&mut bytes)?;
    refuse_larger(read as u64, most_bytes)?;
    Ok(bytes)
}

fn refuse_larger(bytes: u64, most_bytes: u64) -> anyhow::Result<()> {
    anyhow::ensure!(bytes <= most_bytes, "it is larger than {most_bytes} bytes");
    Ok(())
}

/// The bytes as text.
pub fn text_of(bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_is_refused() {
        assert_eq!(read_at_most(&b"1234"[..], 4).unwrap(), b"1234");
        assert!(read_at_most(&b"12345"[..], 4).is_err());
        assert!(read_at_most(io::repeat(0), 1 << 16).is_err(), "without end");
    }
}
