//! Contenders whose clients ask in turn, within one run: what is slow for a moment is slow for all of them.
//!
//! A run of one contender alone takes seconds, in which the machine may be busier than in the next one's. So the first of a round
//! that is run has all servers started and all clients asking, and the others find what came of theirs.

use super::ends::{Ends, TwoEnds};
use crate::{
    Trial,
    figure::BARE,
    order::order_of_round,
    sample::Reading,
    server::Running,
    subjects::Subject,
    trial::{is_of_others, longest_beside},
};
use anyhow::Context;
use palisade_policy::Policy;
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

/// Those who are asked together. Who is dropped is asked no more.
pub(in crate::rows) struct Meeting<'a> {
    ends: &'a Ends,
    /// What each run must tell.
    measures: Vec<&'static str>,
    members: Rc<Members>,
}

#[derive(Default)]
struct Members {
    turns: usize,
    members: RefCell<Vec<Weak<Member>>>,
    /// The longest that a client with no wall has asked.
    longest_bare: Cell<Option<Duration>>,
}

/// One of them.
struct Member {
    is_bare: bool,
    is_of_others: bool,
    ends: RefCell<TwoEnds>,
    /// It was asked alone before.
    was_tried: Cell<bool>,
    /// Of the last time that all were asked, until it is taken.
    told: RefCell<Option<anyhow::Result<Vec<Reading>>>>,
}

/// A member whose server runs.
struct Present<'a> {
    member: &'a Member,
    server: Running,
    readings: Vec<Reading>,
}

impl<'a> Meeting<'a> {
    pub(in crate::rows) fn new(ends: &'a Ends, measures: Vec<&'static str>) -> Self {
        let members = Members {
            turns: ends.turns,
            ..Members::default()
        };
        Self {
            ends,
            measures,
            members: Rc::new(members),
        }
    }

    /// Takes one more in.
    pub(in crate::rows) fn join(
        &self,
        subject: &dyn Subject,
        policy: &Policy,
    ) -> anyhow::Result<Taking> {
        let ends = TwoEnds::new(self.ends, subject, policy, self.measures.clone())?;
        let member = Rc::new(Member {
            is_bare: subject.name() == BARE,
            is_of_others: is_of_others(subject.name()),
            ends: RefCell::new(ends),
            was_tried: Cell::default(),
            told: RefCell::default(),
        });
        let members = &self.members;
        members.members.borrow_mut().push(Rc::downgrade(&member));
        Ok(Taking {
            members: Rc::clone(members),
            member,
        })
    }
}

impl Members {
    /// Each member finds what came of it.
    fn ask_all(&self) {
        let mut members = self.members.borrow_mut();
        members.retain(|member| member.strong_count() > 0);
        let members: Vec<Rc<Member>> = members.iter().filter_map(Weak::upgrade).collect();
        let members: Vec<&Member> = members.iter().map(Rc::as_ref).collect();
        self.ask(&members, self.turns);
    }

    /// Client by client, and of each everybody's in turn. Who fails is asked no more.
    fn ask(&self, members: &[&Member], turns: usize) {
        let mut present: Vec<Present<'_>> = members
            .iter()
            .filter_map(|member| member.keeping(|ends| Present::of(member, ends)))
            .collect();
        for turn in 0..turns {
            let clients = members.first().map_or(0, |one| one.ends.borrow().clients());
            for client in 0..clients {
                let mut failed = Vec::new();
                for place in order_of_round(turn, present.len()) {
                    let one = &mut present[place];
                    let member = one.member;
                    let asked = member.keeping(|ends| {
                        let limit = self.limit(member);
                        let began = Instant::now();
                        let told = ends.ask(client, &mut one.server, turn == 0, limit)?;
                        self.note(member, began.elapsed());
                        Ok(told)
                    });
                    match asked {
                        Some(told) => one.take(told),
                        None => failed.push(place),
                    }
                }
                failed.sort_unstable();
                for place in failed.into_iter().rev() {
                    present.remove(place);
                }
            }
        }
        for Present {
            member, readings, ..
        } in present
        {
            let told = member.ends.borrow().whole(readings);
            *member.told.borrow_mut() = Some(told);
        }
    }

    /// How long a client may ask: ours and that with no wall as long as they like.
    fn limit(&self, member: &Member) -> Option<Duration> {
        let longest = self.longest_bare.get();
        member.is_of_others.then(|| longest_beside(longest))
    }

    fn note(&self, member: &Member, took: Duration) {
        if member.is_bare {
            self.longest_bare
                .set(self.longest_bare.get().max(Some(took)));
        }
    }
}

impl Member {
    /// What comes of its ends, or nothing: it finds the error then.
    fn keeping<T>(&self, work: impl FnOnce(&mut TwoEnds) -> anyhow::Result<T>) -> Option<T> {
        let done = work(&mut self.ends.borrow_mut());
        done.map_err(|error| *self.told.borrow_mut() = Some(Err(error)))
            .ok()
    }
}

impl<'a> Present<'a> {
    fn of(member: &'a Member, ends: &mut TwoEnds) -> anyhow::Result<Self> {
        Ok(Self {
            member,
            server: ends.start()?,
            readings: Vec::new(),
        })
    }

    /// Another turn of the same measure is one value more.
    fn take(&mut self, told: Vec<Reading>) {
        for reading in told {
            let mut known = self.readings.iter_mut();
            match known.find(|known| known.measure == reading.measure) {
                Some(known) => known.values.extend(reading.values),
                None => self.readings.push(reading),
            }
        }
    }
}

/// One contender's part.
pub(in crate::rows) struct Taking {
    members: Rc<Members>,
    member: Rc<Member>,
}

impl Trial for Taking {
    /// The first time it is tried alone, in one turn.
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        if !self.member.was_tried.replace(true) {
            self.members.ask(&[&self.member], 1);
        } else if self.member.told.borrow().is_none() {
            self.members.ask_all();
        }
        let told = self.member.told.take();
        told.context("it was not asked")?
    }

    /// Where all are asked, each client has a limit of its own.
    fn is_bounded(&self) -> bool {
        self.member.was_tried.get()
    }
}
