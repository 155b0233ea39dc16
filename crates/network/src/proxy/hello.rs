//! The first message of TLS, ClientHello, and the name in it: RFC 8446, section 4.1.2, and RFC
//! 6066, section 3.
//!
//! It is read here rather than by a library: those that only parse bring a parser generator each,
//! those that also speak TLS bring cryptography. Nothing is decrypted, nothing is changed: the
//! bytes go on as they came.

pub use crate::HelloFault;
use palisade_policy::HostName;

/// The longest ClientHello, with the headers of its records. Those of today, with their
/// post-quantum keys, have two thousand bytes. What a client sends byte by byte is read anew with
/// each: the limit bounds what that costs.
pub const MAX_HELLO_BYTES: usize = 16 << 10;

/// The longest name that DNS has.
const MAX_NAME_CHARS: usize = 255;

const HANDSHAKE_RECORD: u8 = 22;
const MAX_RECORD_BYTES: usize = 1 << 14;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// `encrypted_client_hello`, RFC 9849, and the draft before it, `encrypted_server_name`.
const ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// Reads the name in the ClientHello that `bytes` start with; `None` if they are only the beginning
/// of one. It may lie in several records.
///
/// # Errors
/// As soon as no more bytes can make a ClientHello of it that has a name in the clear.
pub fn read_hello(bytes: &[u8]) -> Result<Option<HostName>, HelloFault> {
    match read_message(bytes)? {
        Some(message) => read_name(&message).map(Some),
        None if bytes.len() >= MAX_HELLO_BYTES => Err(HelloFault::TooLong),
        None => Ok(None),
    }
}

/// The message's body, put together from its records; `None` while a part is missing. It ends with
/// a record: a client has nothing else to say before it has an answer.
fn read_message(bytes: &[u8]) -> Result<Option<Vec<u8>>, HelloFault> {
    let mut input = Reader(bytes);
    let mut message = Vec::new();
    loop {
        let Some(fragment) = read_record(&mut input)? else {
            return Ok(None);
        };
        message.extend(fragment);
        if message[0] != CLIENT_HELLO {
            return Err(HelloFault::NotTls);
        }
        let Some(&[_, high, middle, low]) = message.first_chunk::<4>() else {
            continue;
        };
        let length = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
        if length > MAX_HELLO_BYTES {
            return Err(HelloFault::TooLong);
        }
        match message.len().cmp(&length) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Ok(Some(message.split_off(4))),
            std::cmp::Ordering::Greater => return Err(HelloFault::Malformed),
        }
    }
}

/// The content of the next record, never empty; `None` if it is not whole yet. Its header is
/// checked as far as it is there, so that what is not TLS is refused with its first byte.
fn read_record<'a>(input: &mut Reader<'a>) -> Result<Option<&'a [u8]>, HelloFault> {
    match input.0 {
        [kind, ..] if *kind != HANDSHAKE_RECORD => return Err(HelloFault::NotTls),
        [_, major, ..] if *major != 3 => return Err(HelloFault::NotTls),
        [_, _, _, high, low, ..] => {
            let length: usize = u16::from_be_bytes([*high, *low]).into();
            if !(1..=MAX_RECORD_BYTES).contains(&length) {
                return Err(HelloFault::Malformed);
            }
        }
        _ => return Ok(None),
    }
    let mut record = Reader(&input.0[3..]);
    let content = record.vector_u16();
    if content.is_some() {
        *input = record;
    }
    Ok(content)
}

fn read_name(message: &[u8]) -> Result<HostName, HelloFault> {
    let extensions = read_extensions(message).ok_or(HelloFault::Malformed)?;
    if extensions.iter().any(|(kind, _)| ENCRYPTED.contains(kind)) {
        return Err(HelloFault::Encrypted);
    }
    let mut names = extensions.iter().filter(|(kind, _)| *kind == SERVER_NAME);
    let (_, list) = names.next().ok_or(HelloFault::NoName)?;
    if names.next().is_some() {
        return Err(HelloFault::Malformed);
    }
    let name = read_name_list(list).ok_or(HelloFault::Malformed)?;
    let text = str::from_utf8(name).map_err(|_| HelloFault::Malformed)?;
    // A dot at the end is not part of the name there.
    let name = text.parse().ok().filter(|_| !text.ends_with('.'));
    name.ok_or_else(|| HelloFault::OtherName(text.chars().take(MAX_NAME_CHARS).collect()))
}

/// The extensions, as (type, content); `None` if the message is malformed.
fn read_extensions(message: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let mut input = Reader(message);
    let _version = input.u16()?;
    let _random = input.take(32)?;
    let _session = input.vector_u8().filter(|id| id.len() <= 32)?;
    let _ciphers = input
        .vector_u16()
        .filter(|list| list.len() >= 2 && list.len() % 2 == 0)?;
    let _compression = input.vector_u8().filter(|list| !list.is_empty())?;
    let mut extensions = Vec::new();
    if input.is_empty() {
        return Some(extensions);
    }
    let mut list = Reader(input.vector_u16()?);
    while !list.is_empty() {
        extensions.push((list.u16()?, list.vector_u16()?));
    }
    input.is_empty().then_some(extensions)
}

/// The one host name of the list; `None` if there is another number of them, or anything else.
fn read_name_list(extension: &[u8]) -> Option<&[u8]> {
    let mut extension = Reader(extension);
    let mut list = Reader(extension.vector_u16()?);
    let kind = list.u8()?;
    let name = list.vector_u16()?;
    (kind == HOST_NAME && list.is_empty() && extension.is_empty()).then_some(name)
}

/// Bytes in the order and with the lengths that TLS writes, RFC 8446, section 3.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector_u8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    fn vector_u16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }
}

#[cfg(test)]
pub(super) mod tests;
