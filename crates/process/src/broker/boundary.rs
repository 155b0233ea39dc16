//! The guest's bytes as the broker reads them, for fuzz targets and their companion tests.

use super::request::{self, MOST_DATA, Message, Source};
use crate::address::{Address, MOST_BYTES};
use rustix::io::Errno;
use std::net::SocketAddr;

/// A guest's whole memory, from address 0 on.
struct Bytes<'a>(&'a [u8]);

impl Source for Bytes<'_> {
    fn read(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let from = usize::try_from(address).map_err(|_| Errno::FAULT)?;
        let rest = self.0.get(from..).ok_or(Errno::FAULT)?;
        rest.get(..length).map(<[u8]>::to_vec).ok_or(Errno::FAULT)
    }

    fn read_parts(&self, parts: &[(u64, usize)]) -> Result<Vec<u8>, Errno> {
        let read = |(address, length): &(u64, usize)| self.read(*address, *length);
        Ok(parts
            .iter()
            .map(read)
            .collect::<Result<Vec<_>, _>>()?
            .concat())
    }
}

/// An internet address of these bytes, if that is what they are.
///
/// # Errors
///
/// The error number that the guest gets.
pub fn address(bytes: &[u8]) -> Result<Option<SocketAddr>, i32> {
    match Address::parse(&bytes[..bytes.len().min(MOST_BYTES)]) {
        Ok(Address::Internet(address)) => Ok(Some(address)),
        Ok(_) => Ok(None),
        Err(errno) => Err(errno.raw_os_error()),
    }
}

/// A `struct msghdr` at the beginning of a guest's memory, with all it points to there: how many bytes
/// of data were copied, and of how many.
///
/// # Errors
///
/// The error number that the guest gets.
pub fn message(memory: &[u8]) -> Result<(usize, u64), i32> {
    let message = Message::copy(&Bytes(memory), 0, 0).map_err(Errno::raw_os_error)?;
    assert!(message.data.len() <= MOST_DATA && message.data.len() as u64 <= message.length);
    controls(&message.control)?;
    Ok((message.data.len(), message.length))
}

/// Where the data of each entry of a control block stands.
///
/// # Errors
///
/// The error number that the guest gets.
pub fn controls(block: &[u8]) -> Result<Vec<std::ops::Range<usize>>, i32> {
    let entries = request::controls(block).map_err(Errno::raw_os_error)?;
    Ok(entries.into_iter().map(|entry| entry.data).collect())
}
