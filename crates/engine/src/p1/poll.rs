//! `poll_oneoff`: one ppoll(2) over descriptors and the nearest clock.
//!
//! CPU time does not pass while the guest, which has one thread, waits: its clocks are refused here.

use super::{
    Context,
    abi::Rights,
    clock::{clock, now},
    errno::Errno,
    memory::{GuestMemory, u16_at, u32_at, u64_at},
    table::{MOST, Table},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno as Kernel, ioctl_fionread},
    time::{ClockId, Timespec},
};
use std::os::fd::AsFd;

const SUBSCRIPTION_BYTES: u32 = 48;
const EVENT_BYTES: usize = 32;

/// `subclockflags`
const ABSTIME: u16 = 1;
/// `eventrwflags`
const HANGUP: u16 = 1;

/// What a subscription waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// A clock to show a time, in ns.
    Clock { clock: ClockId, at_ns: u64 },
    /// A descriptor to have bytes, or room for some.
    Descriptor { number: u32, flags: PollFlags },
    /// Nothing: it is an error.
    Error(Errno),
}

#[derive(Clone, Copy, Debug)]
struct Subscription {
    userdata: u64,
    kind: u8,
    awaited: Awaited,
}

/// What a subscription came to.
struct Event {
    error: Errno,
    bytes: u64,
    flags: u16,
}

impl Context {
    pub(super) fn poll_oneoff(
        &mut self,
        mut memory: GuestMemory<'_>,
        subscriptions: u32,
        events: u32,
        count: u32,
        stored: u32,
    ) -> Result<(), Errno> {
        memory.check(stored, 4)?;
        // As poll(2), which takes no more than there can be open.
        if count == 0 || count as usize > MOST {
            return Err(Errno::INVALID);
        }
        memory.check(events, count * EVENT_BYTES as u32)?;
        let bytes = memory.bytes(subscriptions, count * SUBSCRIPTION_BYTES)?;
        // Copied before an event is written: the two lists may overlap.
        let subscriptions: Vec<_> = bytes
            .chunks_exact(SUBSCRIPTION_BYTES as usize)
            .map(|record| Subscription::read(record, &self.table))
            .collect();
        let happened = wait(&subscriptions, &self.table)?;
        let records = memory.bytes_mut(events, (happened.len() * EVENT_BYTES) as u32)?;
        for (out, event) in records.chunks_exact_mut(EVENT_BYTES).zip(&happened) {
            out.copy_from_slice(event);
        }
        memory.put_u32(stored, happened.len() as u32)
    }
}

impl Subscription {
    fn read(record: &[u8], table: &Table) -> Self {
        let kind = record[8];
        let awaited = match kind {
            0 => awaited_clock(record),
            1 => awaited_descriptor(record, PollFlags::IN, table),
            2 => awaited_descriptor(record, PollFlags::OUT, table),
            _ => Awaited::Error(Errno::INVALID),
        };
        Self {
            userdata: u64_at(record, 0),
            kind,
            awaited,
        }
    }

    fn event(&self, event: &Event) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes[..8].copy_from_slice(&self.userdata.to_le_bytes());
        bytes[8..10].copy_from_slice(&event.error.0.to_le_bytes());
        bytes[10] = self.kind;
        bytes[16..24].copy_from_slice(&event.bytes.to_le_bytes());
        bytes[24..26].copy_from_slice(&event.flags.to_le_bytes());
        bytes
    }
}

fn awaited_clock(record: &[u8]) -> Awaited {
    let clock = match clock(u32_at(record, 16)) {
        Ok(clock @ (ClockId::Realtime | ClockId::Monotonic)) => clock,
        Ok(_) => return Awaited::Error(Errno::NOT_SUPPORTED),
        Err(error) => return Awaited::Error(error),
    };
    let timeout = u64_at(record, 24);
    match u16_at(record, 40) {
        0 => Awaited::Clock {
            clock,
            at_ns: now(clock).saturating_add(timeout),
        },
        ABSTIME => Awaited::Clock {
            clock,
            at_ns: timeout,
        },
        _ => Awaited::Error(Errno::INVALID),
    }
}

fn awaited_descriptor(record: &[u8], flags: PollFlags, table: &Table) -> Awaited {
    let number = u32_at(record, 16);
    let usable = table
        .get(number)
        .and_then(|descriptor| descriptor.with(Rights::POLL_FD_READWRITE));
    match usable {
        Ok(_) => Awaited::Descriptor { number, flags },
        Err(error) => Awaited::Error(error),
    }
}

/// Waits until something has happened, and gives all that has.
fn wait(subscriptions: &[Subscription], table: &Table) -> Result<Vec<[u8; EVENT_BYTES]>, Errno> {
    let mut polled = Vec::new();
    for subscription in subscriptions {
        if let Awaited::Descriptor { number, flags } = subscription.awaited {
            polled.push(PollFd::from_borrowed_fd(table.get(number)?.file(), flags));
        }
    }
    loop {
        match poll(&mut polled, timeout(subscriptions).as_ref()) {
            Ok(_) => {}
            Err(Kernel::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let happened = happened(subscriptions, &polled);
        // A clock that was set back is waited for again.
        if !happened.is_empty() {
            return Ok(happened);
        }
    }
}

/// How long until the first clock shows its time; `None` without a clock.
fn timeout(subscriptions: &[Subscription]) -> Option<Timespec> {
    let left = subscriptions
        .iter()
        .filter_map(|subscription| match subscription.awaited {
            Awaited::Clock { clock, at_ns } => Some(at_ns.saturating_sub(now(clock))),
            Awaited::Error(_) => Some(0),
            Awaited::Descriptor { .. } => None,
        })
        .min()?;
    Some(Timespec {
        tv_sec: (left / 1_000_000_000) as i64,
        tv_nsec: (left % 1_000_000_000) as i64,
    })
}

fn happened(subscriptions: &[Subscription], polled: &[PollFd<'_>]) -> Vec<[u8; EVENT_BYTES]> {
    let mut polled = polled.iter();
    let mut events = Vec::new();
    for subscription in subscriptions {
        let event = match subscription.awaited {
            Awaited::Error(error) => Some(Event::failed(error)),
            Awaited::Clock { clock, at_ns } => (now(clock) >= at_ns).then_some(Event::SUCCESS),
            Awaited::Descriptor { flags, .. } => polled
                .next()
                .and_then(|descriptor| Event::of_descriptor(descriptor, flags)),
        };
        events.extend(event.map(|event| subscription.event(&event)));
    }
    events
}

impl Event {
    const SUCCESS: Self = Self {
        error: Errno(0),
        bytes: 0,
        flags: 0,
    };

    fn failed(error: Errno) -> Self {
        Self {
            error,
            ..Self::SUCCESS
        }
    }

    fn of_descriptor(descriptor: &PollFd<'_>, asked: PollFlags) -> Option<Self> {
        let found = descriptor.revents();
        if found.is_empty() {
            return None;
        }
        if found.contains(PollFlags::NVAL) {
            return Some(Self::failed(Errno::BAD_DESCRIPTOR));
        }
        let bytes = match asked {
            // What cannot say how much there is, such as a listener, has something.
            PollFlags::IN => ioctl_fionread(descriptor.as_fd()).unwrap_or(1),
            _ => 1,
        };
        let flags = match found.contains(PollFlags::HUP) {
            true => HANGUP,
            false => 0,
        };
        Some(Self {
            bytes,
            flags,
            ..Self::SUCCESS
        })
    }
}
