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
    os::fd::{AsFd, OwnedFd},
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
    pub(crate) fn new(filters: Filters, denials: Arc<Denials>) -> Self {
        Self {
            filters,
            least: container(0, None),
            denials,
        }
    }

    /// With what a call ends, unless it is left to the supervisor for another reason. It is told of.
    pub(super) fn refuse(
        &self,
        call: &Notification,
        who: impl FnOnce() -> Process,
    ) -> Option<Errno> {
        let number = call.call as u32;
        let (errno, by) = self.decide(number, &call.arguments)?;
        let name = call_name(number).map_or_else(|| format!("call {number}"), str::to_owned);
        let target = self.target(number, &call.arguments);
        self.denials.tell(&name, &target, || {
            let who = who();
            let (reason, grant) = told(number, by);
            Entry::Verdict {
                verdict: Judgement::Deny,
                call: name.clone(),
                target: target.clone(),
                process: palisade_wall::Process::new(who.pid, who.name.as_bytes()),
                reason: Some(reason),
                grant: Some(grant),
                probe: false,
                count: 1,
            }
        });
        Some(errno)
    }

    fn decide(&self, number: u32, arguments: &[u64; 6]) -> Option<(Errno, By)> {
        let errno = |action| match action {
            Action::Errno(errno) => Some(Errno::from_raw_os_error(errno.into())),
            _ => None,
        };
        let of_own = self.filters.own.decide(number, arguments);
        let engines = self.filters.engines.as_ref();
        let of_engine = engines.map(|filter| filter.decide(number, arguments));
        match (errno(of_own), of_engine.and_then(errno)) {
            (Some(own), None) => Some((own, By::Own)),
            // Of two error numbers the kernel takes the newer filter's (seccomp(2)).
            (Some(own), Some(_)) => Some((own, By::Both)),
            (None, Some(engines)) => Some((engines, By::Engine)),
            (None, None) if of_own == Action::Notify => None,
            (None, None) => {
                let of_least = errno(self.least.decide(number, arguments));
                Some((of_least.unwrap_or(Errno::PERM), By::Own))
            }
        }
    }

    /// The arguments that decided, the first being 1.
    fn target(&self, number: u32, arguments: &[u64; 6]) -> String {
        let mut looked_at = self.filters.own.looked_at(number);
        let engines = self.filters.engines.as_ref();
        looked_at.extend(engines.iter().flat_map(|filter| filter.looked_at(number)));
        looked_at.sort_unstable();
        looked_at.dedup();
        let told: Vec<String> = looked_at
            .iter()
            .map(|at| format!("argument {} = {:#x}", at + 1, arguments[usize::from(*at)]))
            .collect();
        told.join(", ")
    }
}

/// Why it is refused, and the engine's flag that would allow it.
fn told(number: u32, by: By) -> (String, String) {
    const PROFILE: &str = "--security-opt seccomp=PROFILE";
    if by == By::Engine {
        return ("the engine's filter refuses it".into(), PROFILE.into());
    }
    let of_both = if by == By::Both {
        "; so does the engine's filter"
    } else {
        ""
    };
    match container_remedy(number) {
        // Engines let their own filters have what a capability is for.
        Remedy::Capability(capability) => {
            let name = crate::container::CAPABILITIES
                .get(capability as usize)
                .copied()
                .unwrap_or_default();
            (
                format!("palisade's filter has it only with the capability {name}{of_both}"),
                format!("--cap-add {name}"),
            )
        }
        Remedy::NoFilter(reason) => {
            let own = "--annotation palisade.seccomp=engine";
            let flags = match by {
                By::Both => format!("{own} {PROFILE}"),
                By::Own | By::Engine => own.to_owned(),
            };
            (
                format!("palisade's filter refuses it: {reason}{of_both}"),
                flags,
            )
        }
    }
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
                        let who = || guest::identify(&maker, call.thread);
                        let errno = refusals.refuse(&call, who).unwrap_or(Errno::PERM);
                        let _ = notify::answer(listener.as_fd(), call.id, Err(errno));
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
        Refusals::new(Filters { own, engines }, Denials::to(file.into()))
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
        assert_eq!(decided("mount"), Some((Errno::PERM, By::Both)));
        assert_eq!(decided("uname"), Some((Errno::NOTSUP, By::Engine)));
        // Of a process with other capabilities than the first.
        assert_eq!(decided("read"), Some((Errno::PERM, By::Own)));
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
        assert_eq!(of_fewer, Some((Errno::PERM, By::Own)));
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
        let (reason, flag) = told(number("mount"), By::Both);
        assert!(
            reason.contains("SYS_ADMIN") && reason.contains("engine's"),
            "{reason}"
        );
        assert_eq!(flag, "--cap-add SYS_ADMIN");
        let (_, flags) = told(number("io_uring_setup"), By::Both);
        assert!(flags.contains("palisade.seccomp=engine") && flags.contains("--security-opt"));
        let (_, flag) = told(number("uname"), By::Engine);
        assert!(flag.starts_with("--security-opt"));
    }
}
