//! Calls that a container's filters refuse, told of: they are left to the supervisor, which refuses them in the filters' place. None
//! of them is ever let go on.

use super::{
    budget::{Budget, Meter},
    denials::Denials,
    guest,
    maker::Maker,
    small_thread,
};
use crate::{
    capabilities::CAPABILITIES,
    confine::Kept,
    seccomp::{Action, Filter, Remedy, call_name, container, container_remedy},
    sys::notify::{self, Notification},
};
use palisade_network::Process;
use palisade_wall::journal::{Entry, Judgement};
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// The filters around a container's first process, whose refusals its supervisor answers with.
#[derive(Clone, Debug)]
pub struct Filters {
    /// Palisade's own.
    pub own: Filter,
    /// The engine's.
    pub engines: Option<Filter>,
}

/// What they refuse, and where that is told.
#[derive(Debug)]
pub(crate) struct Refusals {
    filters: Filters,
    /// Palisade's own, of a process with no capability: who is put in later may have fewer than the first.
    least: Filter,
    /// Calls on addresses are left to the supervisor, too.
    has_network: bool,
    denials: Arc<Denials>,
}

/// Of whom a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Own,
    Engine,
    Both,
}

impl Refusals {
    pub(crate) fn new(filters: Filters, has_network: bool, denials: Arc<Denials>) -> Self {
        Self {
            filters,
            has_network,
            least: container(0, None),
            denials,
        }
    }

    /// What a call returns, unless it is left to the supervisor for another reason. It is told of.
    pub(super) fn refuse(
        &self,
        listener: BorrowedFd<'_>,
        call: &Notification,
        maker: &Maker,
    ) -> Option<Result<i64, Errno>> {
        let number = call.call as u32;
        let (errno, by) = self.decide(number, &call.arguments)?;
        let name = call_name(number).unwrap_or("unknown call").to_owned();
        let target = self.target(number, &call.arguments);
        self.denials.refused(&name, &target, || {
            let who = caller(listener, call, maker);
            let (reason, grant) = told(number, by, self.has_network);
            Entry::Verdict {
                verdict: Judgement::Deny,
                call: name.clone(),
                target: target.clone(),
                process: palisade_wall::Process::new(who.pid, who.name.as_bytes()),
                reason: Some(reason),
                grant,
                probe: false,
                count: 1,
            }
        });
        Some(match errno {
            // A filter may say that all went well.
            0 => Ok(0),
            errno => Err(Errno::from_raw_os_error(errno.into())),
        })
    }

    fn decide(&self, number: u32, arguments: &[u64; 6]) -> Option<(u16, By)> {
        let errno = |action| match action {
            Action::Errno(errno) => Some(errno),
            _ => None,
        };
        let of_own = self.filters.own.decide(number, arguments);
        let engines = self.filters.engines.as_ref();
        let of_engine = engines.map(|filter| filter.decide(number, arguments));
        match (errno(of_own), of_engine.and_then(errno)) {
            (Some(own), None) => Some((own, By::Own)),
            // Of two error numbers the kernel takes the newer filter's (seccomp(2)), which is the engine's.
            (Some(_), Some(engines)) => Some((engines, By::Both)),
            (None, Some(engines)) => Some((engines, By::Engine)),
            (None, None) if of_own == Action::Notify => None,
            (None, None) => {
                let of_least = errno(self.least.decide(number, arguments));
                Some((of_least.unwrap_or(libc::EPERM as u16), By::Own))
            }
        }
    }

    /// The arguments that decided, the first being 1.
    fn target(&self, number: u32, arguments: &[u64; 6]) -> String {
        if call_name(number).is_none() {
            return format!("number {number}");
        }
        let mut looked_at = self.filters.own.looked_at(number);
        let engines = self.filters.engines.as_ref();
        for (at, mask) in engines.iter().flat_map(|filter| filter.looked_at(number)) {
            *looked_at.entry(at).or_default() |= mask;
        }
        let told = |(at, mask): (u8, u64)| {
            let value = arguments[usize::from(at)] & mask;
            format!("argument {} = {value:#x}", at + 1)
        };
        let told: Vec<String> = looked_at.into_iter().map(told).collect();
        told.join(", ")
    }
}

/// Who made a call; nobody, if it waits no more: somebody else may have the number by now.
fn caller(listener: BorrowedFd<'_>, call: &Notification, maker: &Maker) -> Process {
    let who = guest::identify(maker, call.thread);
    match notify::is_waiting(listener, call.id) {
        true => who,
        false => Process {
            pid: call.thread,
            name: String::new(),
        },
    }
}

/// Why it is refused, and the engine's flags that would allow it.
fn told(number: u32, by: By, has_network: bool) -> (String, Option<String>) {
    const PROFILE: &str = "--security-opt seccomp=PROFILE";
    const WITHOUT_OWN: &str = "--annotation palisade.seccomp=engine";
    if by == By::Engine {
        return (
            "the engine's filter refuses it".into(),
            Some(PROFILE.into()),
        );
    }
    let (reason, flags) = match container_remedy(number, has_network) {
        // Engines let their own filters have most of what a capability is for.
        Remedy::Capability(capability) => {
            let name = CAPABILITIES
                .get(capability as usize)
                .copied()
                .unwrap_or_default();
            let reason = format!("palisade's filter has it only with the capability {name}");
            (reason, Some(format!("--cap-add {name}")))
        }
        Remedy::NoFilter(reason) => {
            let flags = match by {
                By::Both => format!("{WITHOUT_OWN} {PROFILE}"),
                By::Own | By::Engine => WITHOUT_OWN.to_owned(),
            };
            let reason = format!("palisade's filter refuses it: {reason}");
            (reason, Some(flags))
        }
        Remedy::Nothing(reason) => (format!("palisade's filter refuses it: {reason}"), None),
    };
    let of_both = match by {
        By::Both => "; so does the engine's filter",
        By::Own | By::Engine => "",
    };
    (format!("{reason}{of_both}"), flags)
}

/// Who refuses, where nothing else is left to the supervisor.
#[derive(Debug)]
pub(crate) struct Refuser {
    refusals: Arc<Refusals>,
    maker: Arc<Maker>,
    budget: Arc<Budget>,
}

impl Refuser {
    /// Answering takes no more of the processors than the container may have.
    pub(crate) fn new(refusals: Refusals, maker: Maker, processors: Option<f64>) -> Self {
        Self {
            refusals: Arc::new(refusals),
            maker: Arc::new(maker),
            budget: Arc::new(Budget::new(processors, None)),
        }
    }

    /// Begins to answer what arrives at this listener.
    ///
    /// # Errors
    ///
    /// When no thread can be made.
    pub(crate) fn answer(&self, listener: OwnedFd) -> io::Result<()> {
        let walls = Kept::of_broker(false).walls(None);
        let walls = walls.map_err(io::Error::other)?;
        // Refused by older kernels, where calls take longer.
        let _ = notify::hand_over_processor(listener.as_fd());
        let (refusals, maker, budget) = (
            Arc::clone(&self.refusals),
            Arc::clone(&self.maker),
            Arc::clone(&self.budget),
        );
        small_thread("palisade-watch", move || {
            if let Err(error) = walls.around_this_thread() {
                panic!("{error}");
            }
            let mut meter = Meter::of_this_thread(&budget);
            while waits_for_call(&listener) {
                match notify::receive(listener.as_fd()) {
                    Ok(call) => {
                        let refused = refusals.refuse(listener.as_fd(), &call, &maker);
                        let result = refused.unwrap_or(Err(Errno::PERM));
                        let _ = notify::answer(listener.as_fd(), call.id, result);
                        meter.keep();
                    }
                    // Taken back before it was read.
                    Err(Errno::NOENT | Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        })
        .map(drop)
    }
}

/// `false` where nobody is left who could call.
fn waits_for_call(listener: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let waited = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None));
    waited.is_ok() && fds[0].revents().contains(PollFlags::IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::{Check, HostNetwork, call_number, long};

    fn refusals(own: Filter, engines: Option<Filter>) -> Refusals {
        let file = rustix::fs::memfd_create("denials", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        Refusals::new(Filters { own, engines }, false, Denials::to(file.into()))
    }

    fn number(name: &str) -> u32 {
        call_number(name).unwrap()
    }

    #[test]
    fn a_call_ends_as_the_filters_would_have_ended_it() {
        let mut engines = Filter::new(Action::Errno(libc::ENOTSUP as u16));
        engines.set(number("read"), Action::Allow);
        engines.set(number("mount"), Action::Errno(libc::ENOTSUP as u16));
        let refusals = refusals(container(0, None), Some(engines));
        let decided = |name: &str| refusals.decide(number(name), &[0; 6]);
        assert_eq!(decided("mount"), Some((libc::ENOTSUP as u16, By::Both)));
        assert_eq!(decided("uname"), Some((libc::ENOTSUP as u16, By::Engine)));
        // Of a process with other capabilities than the first.
        assert_eq!(decided("read"), Some((libc::EPERM as u16, By::Own)));
    }

    #[test]
    fn what_is_left_for_another_reason_is_not_refused() {
        let network = HostNetwork {
            tcp: true,
            brokered: true,
            ..HostNetwork::default()
        };
        let refusals = refusals(container(0, Some(network)), None);
        assert_eq!(refusals.decide(number("connect"), &[0; 6]), None);
        let more = self::refusals(container(u64::MAX, None), None);
        let of_fewer = more.decide(number("mount"), &[0; 6]);
        assert_eq!(of_fewer, Some((libc::EPERM as u16, By::Own)));
    }

    #[test]
    fn arguments_that_decide_are_told() {
        let mut engines = Filter::new(Action::Allow);
        let check = Check::otherwise(Action::Errno(1)).when([long(1).is(7)], Action::Allow);
        engines.set(number("personality"), check);
        let refusals = refusals(container(0, None), Some(engines));
        let target = |name: &str| refusals.target(number(name), &[5, 6, 0, 0, 0, 0]);
        assert_eq!(target("personality"), "argument 2 = 0x6");
        assert_eq!(target("ioctl"), "argument 2 = 0x6");
        assert_eq!(target("mount"), "");
    }

    #[test]
    fn what_would_allow_it_is_told() {
        let (reason, flag) = told(number("mount"), By::Both, false);
        assert!(
            reason.contains("SYS_ADMIN") && reason.contains("engine's"),
            "{reason}"
        );
        assert_eq!(flag.as_deref(), Some("--cap-add SYS_ADMIN"));
        let (_, flags) = told(number("io_uring_setup"), By::Both, false);
        let flags = flags.unwrap();
        assert!(flags.contains("palisade.seccomp=engine") && flags.contains("--security-opt"));
        let (_, flag) = told(number("uname"), By::Engine, false);
        assert!(flag.unwrap().starts_with("--security-opt"));
        assert_eq!(told(9999, By::Own, false).1, None);
    }
}
