//! The addresses of servers, kept for as long as they hold.

use super::UpstreamError;
use palisade_network::{Answer, Resolve, ResolveError};
use palisade_policy::{ConnectGrant, HostName, HostPattern};
use std::{
    cell::RefCell,
    collections::HashMap,
    net::IpAddr,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// Answers are kept no longer, however long they hold: an operator changes names by hand.
const MOST_TTL: Duration = Duration::from_secs(60);
/// And no shorter: each lookup costs a thread.
const LEAST_TTL: Duration = Duration::from_secs(1);

/// Names that are known at one time, beside those that somebody waits for: guests may name any number.
const MOST_NAMES: usize = 256;

/// Names and their addresses, of one worker.
#[derive(Debug)]
pub(super) struct Names {
    resolver: Resolver,
    known: RefCell<HashMap<Box<str>, Entry>>,
}

/// Held by whoever asks, until there is an answer.
type Entry = Rc<Mutex<Option<Known>>>;

struct Resolver(Arc<dyn Resolve>);

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Resolver")
    }
}

#[derive(Clone, Debug)]
struct Known {
    answer: Result<Rc<[IpAddr]>, ResolveError>,
    until: Instant,
}

impl Names {
    pub(super) fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self {
            resolver: Resolver(resolver),
            known: RefCell::default(),
        }
    }

    /// The addresses of `host`, never none. Whoever asks while somebody else does waits for the same
    /// answer. Where nobody answers, an older answer does.
    pub(super) async fn addresses(
        &self,
        server: &Arc<str>,
        host: &str,
    ) -> Result<Rc<[IpAddr]>, UpstreamError> {
        if let Some(address) = parse_address(host) {
            return Ok(Rc::new([address]));
        }
        let entry = self.entry(host);
        let mut known = entry.lock().await;
        let is_fresh = |known: &&Known| known.until > Instant::now();
        if known.as_ref().filter(is_fresh).is_none() {
            let (answer, ttl) = match (self.look_up(host).await, known.take()) {
                (Ok(found), _) => (Ok(found.addresses.into()), found.ttl),
                (Err(ResolveError::NoAnswer(_)), Some(old)) => (old.answer, LEAST_TTL),
                (Err(error), _) => (Err(error), LEAST_TTL),
            };
            *known = Some(Known {
                answer,
                until: Instant::now() + ttl.clamp(LEAST_TTL, MOST_TTL),
            });
        }
        let answer = known.as_ref().map(|known| known.answer.clone());
        answer
            .unwrap_or(Err(ResolveError::Broken))
            .map_err(|source| UpstreamError::Resolve {
                server: Arc::clone(server),
                source,
            })
    }

    fn entry(&self, host: &str) -> Entry {
        let mut known = self.known.borrow_mut();
        if let Some(entry) = known.get(host) {
            return Rc::clone(entry);
        }
        if known.len() >= MOST_NAMES {
            forget(&mut known);
        }
        Rc::clone(known.entry(host.into()).or_default())
    }

    async fn look_up(&self, host: &str) -> Result<Answer, ResolveError> {
        let name = host_name(host).ok_or(ResolveError::NotFound)?;
        let resolver = Arc::clone(&self.resolver.0);
        let answer = tokio::task::spawn_blocking(move || resolver.addresses(&name));
        answer.await.map_err(|_| ResolveError::Broken)?
    }
}

/// Forgets what holds no longer, or everything where that does not make room.
fn forget(known: &mut HashMap<Box<str>, Entry>) {
    let now = Instant::now();
    let is_waited_for = |entry: &Entry| Rc::strong_count(entry) > 1;
    let holds = |entry: &Entry| {
        let known = entry.try_lock();
        known.is_ok_and(|known| known.as_ref().is_some_and(|known| known.until > now))
    };
    known.retain(|_, entry| is_waited_for(entry) || holds(entry));
    if known.len() >= MOST_NAMES {
        known.retain(|_, entry| is_waited_for(entry));
    }
}

/// An IPv6 address may stand in brackets, as in a URL.
pub(super) fn without_brackets(host: &str) -> &str {
    let bare = host.strip_prefix('[');
    bare.and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn parse_address(host: &str) -> Option<IpAddr> {
    without_brackets(host).parse().ok()
}

/// The form of names is the policy's.
fn host_name(host: &str) -> Option<HostName> {
    let grant: ConnectGrant = format!("tcp://{host}:1").parse().ok()?;
    match grant {
        ConnectGrant::Internet {
            host: HostPattern::Name(name),
            ..
        } => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counting {
        asked: AtomicUsize,
        ttl: Duration,
    }

    impl Resolve for Counting {
        fn addresses(&self, name: &HostName) -> Result<Answer, ResolveError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            match name.as_str() {
                "one.example" => Ok(Answer {
                    addresses: vec![IpAddr::from([192, 0, 2, 1])],
                    ttl: self.ttl,
                }),
                _ => Err(ResolveError::NotFound),
            }
        }

        fn interface(&self, _zone: &str) -> Option<u32> {
            None
        }
    }

    #[test]
    fn a_name_is_looked_up_once_while_its_answer_holds() {
        let resolver = Arc::new(Counting {
            asked: AtomicUsize::new(0),
            ttl: Duration::from_secs(600),
        });
        let names = Names::new(Arc::clone(&resolver) as Arc<dyn Resolve>);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let one = Arc::from("http://one.example:80");
            let (first, second) = tokio::join!(
                names.addresses(&one, "one.example"),
                names.addresses(&one, "one.example")
            );
            assert_eq!(*first.unwrap(), [IpAddr::from([192, 0, 2, 1])]);
            assert_eq!(*second.unwrap(), [IpAddr::from([192, 0, 2, 1])]);
            assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
            for _ in 0..2 {
                let none = names.addresses(&one, "no.example").await;
                assert!(matches!(none, Err(UpstreamError::Resolve { .. })));
            }
            // That there is none is known for a moment too.
            assert_eq!(resolver.asked.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn names_are_forgotten() {
        let names = Names::new(Arc::new(Counting {
            asked: AtomicUsize::new(0),
            ttl: Duration::from_secs(600),
        }));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let waited_for = names.entry("waited-for.example");
            for number in 0..2 * MOST_NAMES {
                let name = format!("{number}.example");
                let none = names.addresses(&Arc::from("a server"), &name).await;
                assert!(none.is_err());
                assert!(names.known.borrow().len() <= MOST_NAMES + 1);
            }
            assert!(Rc::ptr_eq(&waited_for, &names.entry("waited-for.example")));
        });
    }

    #[test]
    fn addresses_are_not_looked_up() {
        assert_eq!(parse_address("[::1]"), "::1".parse().ok());
        assert_eq!(parse_address("192.0.2.7"), "192.0.2.7".parse().ok());
        assert_eq!(parse_address("one.example"), None);
        assert_eq!(host_name("one.example").unwrap().as_str(), "one.example");
        assert_eq!(host_name("../etc"), None);
    }
}
