//! What a process may do with its memory: proc_pid_maps(5).

use super::last_errno;
use rustix::io::Errno;
use std::{
    fs::File,
    io::{BufRead, BufReader, Seek},
    os::fd::AsRawFd,
};

/// Which mapping lies at an address: `_IOWR('f', 17, struct procmap_query)` (linux/fs.h).
pub(crate) const PROCMAP_QUERY: u64 = 0xc068_6611;

/// `struct procmap_query` (linux/fs.h).
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    /// Of the mapping, its page size, offset and inode.
    about: [u64; 4],
    /// Its device, and the lengths of two buffers that nobody asks for.
    numbers: [u32; 4],
    buffers: [u64; 2],
}

/// The end of the mapping at this address, if its process may write there. `maps` is a process's own,
/// opened while that was surely the one that is meant.
pub(crate) fn writable_until(maps: &File, address: u64) -> Result<Option<u64>, Errno> {
    match query(maps, address) {
        // Before Linux 6.11.
        Err(Errno::NOTTY) => search(maps, address),
        found => found,
    }
}

fn query(maps: &File, address: u64) -> Result<Option<u64>, Errno> {
    const VMA_WRITABLE: u64 = 2;
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: VMA_WRITABLE,
        address,
        ..Query::default()
    };
    // SAFETY: the kernel reads and writes a structure of this layout and size; the addresses of buffers
    // in it are null with length 0.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    match result {
        0 => Ok(Some(query.end)),
        _ => match last_errno() {
            Errno::NOENT => Ok(None),
            errno => Err(errno),
        },
    }
}

/// The same from the text.
fn search(mut maps: &File, address: u64) -> Result<Option<u64>, Errno> {
    let bad = |_| Errno::FAULT;
    maps.rewind().map_err(bad)?;
    for line in BufReader::new(maps).split(b'\n') {
        let line = line.map_err(bad)?;
        let Some((start, end, is_writable)) = parse(&line) else {
            return Err(Errno::FAULT);
        };
        if address < end {
            return Ok((start <= address && is_writable).then_some(end));
        }
    }
    Ok(None)
}

/// `START-END rwxp …`
fn parse(line: &[u8]) -> Option<(u64, u64, bool)> {
    let mut words = line.split(|byte| *byte == b' ');
    let (range, rights) = (words.next()?, words.next()?);
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some((number(start)?, number(end)?, rights.get(1) == Some(&b'w')))
}

const _: () = assert!(size_of::<Query>() == 104);

#[cfg(test)]
mod tests {
    use super::*;

    static CONSTANT: u64 = 7;

    #[test]
    fn the_text_tells_what_the_question_does() {
        let maps = File::open("/proc/self/maps").unwrap();
        let local = 0u64;
        let [local, constant] = [&raw const local as u64, &raw const CONSTANT as u64];
        for address in [local, constant, 0, u64::MAX] {
            let told = search(&maps, address);
            assert_eq!(told.map(|end| end.is_some()), Ok(address == local));
            match query(&maps, address) {
                Err(errno) => assert_eq!(errno, Errno::NOTTY),
                Ok(end) => assert_eq!(end.is_some(), address == local),
            }
        }
    }

    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        let line = b"7f00-7fff rw-p 00000000 00:00 0    [heap]";
        assert_eq!(parse(line), Some((0x7f00, 0x7fff, true)));
        assert_eq!(
            parse(b"0-ffffffffffffffff r-xp"),
            Some((0, u64::MAX, false))
        );
        for odd in [&b""[..], b"7f00", b"7f00-7fff", b"x-y rw-p"] {
            assert_eq!(parse(odd), None);
        }
    }
}
