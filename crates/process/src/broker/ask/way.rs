//! Where a call may go whose guest is asked about: what is granted, what an answer allows, what a name comes to.

use super::{Asking, How, Judged, Ticket, Wish};
use crate::{
    address,
    broker::{
        call::{Brokered, DONE, Outcome, address_towards},
        observe::NAME_SERVERS,
    },
    seen,
};
use palisade_network::{
    Call, Reason, Refusal, Target,
    address::{canonical, destination, is_public},
    is_withheld,
};
use palisade_policy::{HostName, Transport};
use rustix::io::Errno;
use std::{net::SocketAddr, os::fd::OwnedFd, sync::Arc};

impl Brokered<'_> {
    /// Where a call that connects or sends may go: by a grant, or by an answer for this one call. A name's stand-in is
    /// the name, whatever is granted.
    ///
    /// # Errors
    ///
    /// How the call fails, unless it waits for something first.
    pub(in crate::broker) fn find_way(
        &self,
        asking: &Arc<Asking>,
        socket: &OwnedFd,
        (transport, asked): (Transport, SocketAddr),
    ) -> Result<SocketAddr, Errno> {
        if let Some(name) = asking.name(canonical(asked).ip()) {
            return self.find_name(asking, socket, (transport, &name), asked);
        }
        let refusal = match self.shared.gate.connect(transport, asked) {
            Ok(target) => {
                self.tell_of_allowed(self.kind(), || Target::Address(transport, target));
                return Ok(target);
            }
            Err(refusal) => refusal,
        };
        let to = destination(asked);
        if refusal.reason.may_be_asked()
            && let Some(wish) = self.wish(transport, asked)
            && self.is_allowed_once(asking, socket, &wish)
        {
            self.tell_of_allowed(self.kind(), || Target::Address(transport, to));
            return Ok(to);
        }
        Err(self.ask_or_refuse(transport, asked, refusal))
    }

    /// A datagram socket that is connected to where no grant leads: a lookup, which asks for names, or learns the route to what
    /// it has found and sends nothing.
    pub(in crate::broker) fn connect_for_lookup(
        &self,
        asking: &Asking,
        socket: &OwnedFd,
        asked: SocketAddr,
    ) -> Option<Outcome> {
        let name = asking.name(canonical(asked).ip());
        let gate = &self.shared.gate;
        let (udp, port) = (Transport::Udp, asked.port());
        match name {
            Some(name) if gate.gives_name(udp, &name, port) => None,
            Some(name) if gate.network().addresses_of(udp, &name, port).is_some() => None,
            Some(name) => {
                // Whoever sends there hears that nobody is there.
                let refusal = Refusal {
                    reason: Reason::NotGranted,
                    grant: Some(Wish::Name(udp, name.clone(), port).grant()),
                };
                let observations = &self.shared.observations;
                let target = Target::Host(name);
                observations.record(Call::Connect, target, self.who(), Some(refusal), true);
                Some(
                    connect_near(socket, asked, asking.nowhere)
                        .map(drop)
                        .and(DONE),
                )
            }
            None if port == NAME_SERVERS && gate.connect(udp, asked).is_err() => {
                let own = connect_near(socket, asked, asking.server_address);
                Some(own.and_then(|own| {
                    own.into_iter().for_each(|own| asking.admit(own));
                    DONE
                }))
            }
            None => None,
        }
    }

    fn find_name(
        &self,
        asking: &Arc<Asking>,
        socket: &OwnedFd,
        (transport, name): (Transport, &HostName),
        asked: SocketAddr,
    ) -> Result<SocketAddr, Errno> {
        let (gate, port, call) = (&self.shared.gate, asked.port(), self.kind());
        let by_name = Wish::Name(transport, name.clone(), port);
        let granted = gate.network().addresses_of(transport, name, port);
        let found = match granted {
            Some(found) => found,
            None => {
                if !gate.gives_name(transport, name, port)
                    && !self.is_allowed_once(asking, socket, &by_name)
                {
                    let judged = asking.judge(&by_name, call.into(), || self.who());
                    return Err(self.follow(judged, &by_name));
                }
                let Some(found) = asking.find(name) else {
                    self.ticket.set(Some(Ticket::Lookup(name.clone())));
                    return Err(Errno::ACCESS);
                };
                found
            }
        };
        let reachable = found.into_iter().map(|ip| SocketAddr::new(ip, port));
        let candidates: Vec<_> = reachable
            .filter(|to| to.is_ipv4() || asked.is_ipv6())
            .collect();
        let may = |to: &SocketAddr| match is_public(to.ip()) {
            true => !is_withheld(*to),
            false => {
                gate.connect(transport, *to).is_ok()
                    || !is_withheld(*to)
                        && self.is_allowed_once(
                            asking,
                            socket,
                            &Wish::Address(transport, destination(*to)),
                        )
            }
        };
        if let Some(to) = candidates.iter().copied().find(may) {
            self.tell_of_allowed(call, || Target::Name(transport, name.clone(), port));
            return Ok(to);
        }
        // Who answers for the name must not choose what is reached inside.
        let Some(to) = candidates.into_iter().find(|to| !is_withheld(*to)) else {
            let refusal = Refusal {
                reason: Reason::Unfound,
                grant: None,
            };
            let target = Target::Host(name.clone());
            let observations = &self.shared.observations;
            observations.record(Call::Lookup, target, self.who(), Some(refusal), false);
            return Err(Errno::HOSTUNREACH);
        };
        let by_address = Wish::Address(transport, destination(to));
        let how = How {
            found_by: Some(name),
            ..How::from(call)
        };
        let judged = asking.judge(&by_address, how, || self.who());
        Err(self.follow(judged, &by_address))
    }

    /// By an answer to this call, or to an earlier one of the same socket.
    fn is_allowed_once(&self, asking: &Asking, socket: &OwnedFd, wish: &Wish) -> bool {
        if self.allowed.contains(wish) {
            if self.kind() == Call::Connect && !asking.was_spent(socket, wish) {
                asking.spend(socket, wish.clone());
            }
            return true;
        }
        self.kind() == Call::Connect && asking.was_spent(socket, wish)
    }

    /// How it fails, unless it waits.
    fn follow(&self, judged: Judged, wish: &Wish) -> Errno {
        match judged {
            Judged::Waits => self.ticket.set(Some(Ticket::Answer(wish.clone()))),
            Judged::No { was_asked } => {
                let refusal = Refusal {
                    reason: declined(was_asked, Reason::NotGranted),
                    grant: Some(wish.grant()),
                };
                let observations = &self.shared.observations;
                if let Some(target) = wish.of_call() {
                    observations.record(self.kind(), target, self.who(), Some(refusal), false);
                }
            }
        }
        Errno::ACCESS
    }

    /// How a call fails that no grant covers, unless it waits for an answer first.
    pub(in crate::broker) fn ask_or_refuse(
        &self,
        transport: Transport,
        asked: SocketAddr,
        mut refusal: Refusal,
    ) -> Errno {
        if let Some(asking) = &self.shared.asking
            && refusal.reason.may_be_asked()
            && let Some(wish) = self.wish(transport, asked)
        {
            match asking.judge(&wish, self.kind().into(), || self.who()) {
                Judged::Waits => {
                    self.ticket.set(Some(Ticket::Answer(wish)));
                    return Errno::ACCESS;
                }
                Judged::No { was_asked } => refusal.reason = declined(was_asked, refusal.reason),
            }
        }
        self.refuse(transport, asked, refusal);
        Errno::ACCESS
    }

    /// What this call is about. Nobody is asked about a probe.
    fn wish(&self, transport: Transport, asked: SocketAddr) -> Option<Wish> {
        match self.kind() {
            Call::Bind => Some(Wish::Listen(transport, canonical(asked))),
            // The kernel has picked the port, and picks another one next time.
            Call::Listen => {
                let mut at = canonical(asked);
                at.set_port(0);
                Some(Wish::Listen(transport, at))
            }
            call => {
                let to = destination(asked);
                let is_probe = seen::is_probe(call, &Target::Address(transport, to));
                // The guest has it from its file of names.
                let wish = match self.shared.gate.pinned_name(to.ip()) {
                    Some(name) => Wish::Name(transport, name, to.port()),
                    None => Wish::Address(transport, to),
                };
                (!is_probe).then_some(wish)
            }
        }
    }
}

fn declined(was_asked: bool, reason: Reason) -> Reason {
    match was_asked {
        true => Reason::Declined,
        false => reason,
    }
}

/// Connects a datagram socket to an address of the loopback's instead. Gives its own.
fn connect_near(
    socket: &OwnedFd,
    asked: SocketAddr,
    to: SocketAddr,
) -> Result<Option<SocketAddr>, Errno> {
    let to = address::in_family_of(asked, to);
    let own = address_towards(socket, to)?;
    rustix::net::connect(socket, &to)?;
    Ok(own)
}
