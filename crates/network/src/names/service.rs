//! A resolver elsewhere: in another process, or a thread, that may do what looking names up takes.
//!
//! ```text
//!  asker                                              service
//!    │ one datagram: the question, one end of a pair     │
//!    ├──────────────────────────────────────────────────▶│ a thread for it
//!    │ one datagram on the other end: the answer         │
//!    ◀───────────────────────────────────────────────────┤
//! ```
//!
//! Questions do not wait for each other. The service ends when nobody can ask any more.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Answer, Resolve, ResolveError};
use crate::{
    datagrams::{MOST_BYTES, pair, receive, send},
    wait::until_readable,
};
use palisade_policy::HostName;

/// Longer than any lookup takes: each has time-outs of its own.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of one name.
const MOST_ADDRESSES: usize = 512;

/// Questions at a time, as many as the proxy has connections.
const MOST_QUESTIONS: usize = 128;

/// Stack of a thread that looks a name up.
const STACK_BYTES: usize = 256 * 1024;

/// Asks a service.
#[derive(Debug)]
pub struct RemoteResolver {
    service: OwnedFd,
}

/// The two ends between an asker and its service.
///
/// # Errors
/// When the kernel has no more sockets.
pub fn connect() -> io::Result<(RemoteResolver, OwnedFd)> {
    let (service, theirs) = pair()?;
    Ok((RemoteResolver { service }, theirs))
}

/// Answers until all who could ask are gone.
pub fn serve(asked: &OwnedFd, resolver: &Arc<dyn Resolve>) {
    let underway = Arc::new(AtomicUsize::new(0));
    while let Ok(Some((question, Some(reply)))) = receive(asked.as_fd()) {
        if underway.fetch_add(1, Ordering::Relaxed) >= MOST_QUESTIONS {
            underway.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (resolver, underway) = (Arc::clone(resolver), Arc::clone(&underway));
        let answer = move || {
            // Whoever asked may be gone.
            let _ = send(reply.as_fd(), &answer(&question, &*resolver), None);
            underway.fetch_sub(1, Ordering::Relaxed);
        };
        let builder = thread::Builder::new().name("lookup".into());
        // Without a thread the reply's end is closed, and that is an answer too.
        let _ = builder.stack_size(STACK_BYTES).spawn(answer);
    }
}

impl AsFd for RemoteResolver {
    /// What it asks through.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.service.as_fd()
    }
}

impl RemoteResolver {
    fn ask(&self, question: &Question<'_>) -> io::Result<Vec<u8>> {
        let (ours, theirs) = pair()?;
        send(
            self.service.as_fd(),
            &question.encode(),
            Some(theirs.as_fd()),
        )?;
        drop(theirs);
        until_readable(&ours, None::<&OwnedFd>, Instant::now() + PATIENCE)?;
        match receive(ours.as_fd())? {
            Some((answer, _)) => Ok(answer),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Resolve for RemoteResolver {
    fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
        let answer = self.ask(&Question::Addresses(name.as_str()));
        answer.map_or(Err(ResolveError::Broken), |answer| {
            decode_addresses(&answer).unwrap_or(Err(ResolveError::Broken))
        })
    }

    fn interface(&self, zone: &str) -> Option<u32> {
        let answer = self.ask(&Question::Interface(zone)).ok()?;
        Some(u32::from_ne_bytes(answer.try_into().ok()?))
    }
}

/// What is asked: a letter and a text.
#[derive(Debug, PartialEq, Eq)]
enum Question<'a> {
    Addresses(&'a str),
    Interface(&'a str),
}

impl<'a> Question<'a> {
    fn encode(&self) -> Vec<u8> {
        let (letter, text) = match self {
            Self::Addresses(name) => (b'a', name),
            Self::Interface(zone) => (b'i', zone),
        };
        [&[letter], text.as_bytes()].concat()
    }

    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (letter, text) = bytes.split_first()?;
        let text = std::str::from_utf8(text).ok()?;
        match letter {
            b'a' => Some(Self::Addresses(text)),
            b'i' => Some(Self::Interface(text)),
            _ => None,
        }
    }
}

fn answer(question: &[u8], resolver: &dyn Resolve) -> Vec<u8> {
    match Question::decode(question) {
        Some(Question::Addresses(name)) => {
            let name = name.parse().map_err(|_| ResolveError::Broken);
            encode_addresses(&name.and_then(|name| resolver.addresses(&name)))
        }
        Some(Question::Interface(zone)) => resolver
            .interface(zone)
            .map_or(Vec::new(), |index| index.to_ne_bytes().into()),
        None => Vec::new(),
    }
}

/// `+`, the time in ms, then each address behind its length; or another sign and a text.
fn encode_addresses(answer: &Result<Answer, ResolveError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match answer {
        Ok(answer) => {
            let ttl_ms = u64::try_from(answer.ttl.as_millis()).unwrap_or(u64::MAX);
            bytes.push(b'+');
            bytes.extend(ttl_ms.to_ne_bytes());
            for address in answer.addresses.iter().take(MOST_ADDRESSES) {
                match address {
                    IpAddr::V4(address) => bytes.extend([&[4][..], &address.octets()].concat()),
                    IpAddr::V6(address) => bytes.extend([&[16][..], &address.octets()].concat()),
                }
            }
        }
        Err(ResolveError::NotFound) => bytes.push(b'-'),
        Err(ResolveError::NoAnswer(why)) => {
            bytes.push(b'?');
            bytes.extend(why.bytes().take(MOST_BYTES - 1));
        }
        Err(ResolveError::NoProgram) => bytes.push(b'0'),
        // Nothing is withheld before a grant is looked at.
        Err(ResolveError::Broken | ResolveError::Withheld(_)) => bytes.push(b'!'),
    }
    bytes
}

fn decode_addresses(bytes: &[u8]) -> Option<Result<Answer, ResolveError>> {
    let (sign, mut rest) = bytes.split_first()?;
    match sign {
        b'-' => return Some(Err(ResolveError::NotFound)),
        b'0' => return Some(Err(ResolveError::NoProgram)),
        b'?' => {
            let why = String::from_utf8_lossy(rest).into_owned();
            return Some(Err(ResolveError::NoAnswer(why)));
        }
        b'+' => {}
        _ => return None,
    }
    let (ttl_ms, addresses) = rest.split_first_chunk()?;
    rest = addresses;
    let mut answer = Answer {
        addresses: Vec::new(),
        ttl: Duration::from_millis(u64::from_ne_bytes(*ttl_ms)),
    };
    while let Some((length, behind)) = rest.split_first() {
        let (address, behind) = behind.split_at_checked(usize::from(*length))?;
        answer.addresses.push(match length {
            4 => Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).into(),
            16 => Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).into(),
            _ => return None,
        });
        rest = behind;
    }
    (!answer.addresses.is_empty()).then_some(Ok(answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// Knows what the name says.
    struct ByName(Barrier);

    impl Resolve for ByName {
        fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
            match name.as_str() {
                "both.example" => Ok(Answer {
                    addresses: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
                    ttl: Duration::from_millis(1500),
                }),
                "silent.example" => Err(ResolveError::NoAnswer("it sleeps".into())),
                "together.example" => {
                    self.0.wait();
                    Err(ResolveError::NotFound)
                }
                _ => Err(ResolveError::NotFound),
            }
        }

        fn interface(&self, zone: &str) -> Option<u32> {
            (zone == "lo").then_some(1)
        }
    }

    fn with_service(act: impl FnOnce(&RemoteResolver) + Send) {
        let (asker, asked) = connect().unwrap();
        thread::scope(|scope| {
            let resolver: Arc<dyn Resolve> = Arc::new(ByName(Barrier::new(2)));
            scope.spawn(move || serve(&asked, &resolver));
            act(&asker);
            // Or the service would never end.
            drop(asker);
        });
    }

    #[test]
    fn answers_are_the_same_as_nearby() {
        with_service(|asker| {
            let nearby = ByName(Barrier::new(2));
            for name in ["both.example", "silent.example", "nobody.example"] {
                let name = name.parse().unwrap();
                assert_eq!(asker.addresses(&name), nearby.addresses(&name));
            }
            assert_eq!(asker.interface("lo"), Some(1));
            assert_eq!(asker.interface("nope"), None);
        });
    }

    #[test]
    fn questions_do_not_wait_for_each_other() {
        with_service(|asker| {
            let ask = || asker.addresses(&"together.example".parse().unwrap());
            thread::scope(|scope| {
                let other = scope.spawn(ask);
                assert_eq!(ask(), Err(ResolveError::NotFound));
                assert_eq!(other.join().unwrap(), Err(ResolveError::NotFound));
            });
        });
    }

    #[test]
    fn a_service_that_is_gone_is_an_error() {
        let (asker, asked) = connect().unwrap();
        drop(asked);
        let name = "both.example".parse().unwrap();
        assert_eq!(asker.addresses(&name), Err(ResolveError::Broken));
    }

    #[test]
    fn no_answer_makes_decoding_panic() {
        for bytes in [
            &b""[..],
            b"+",
            b"+12345678",
            b"+12345678\x04abc",
            b"+12345678\x07abcdefg",
            b"x",
        ] {
            assert_eq!(decode_addresses(bytes), None, "{bytes:?}");
        }
    }
}
