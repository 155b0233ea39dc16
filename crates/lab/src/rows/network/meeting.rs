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
    ops::Range,
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
    /// Turns that were taken together: in the next round others begin. Who is asked first meets a machine that has just started
    /// servers, and ended those before.
    taken: Cell<usize>,
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
        let first = self.taken.get();
        self.taken.set(first + self.turns);
        self.ask(&members, first..first + self.turns);
    }

    /// Client by client, and of each everybody's in turn.
    fn ask(&self, members: &[&Member], turns: Range<usize>) {
        let clients = members.first().map_or(0, |one| one.ends.borrow().clients());
        let starting = members.iter().filter_map(|member| Present::start(member));
        let mut present: Vec<Present<'_>> = starting.collect();
        for turn in turns.clone() {
            for client in 0..clients {
                self.ask_in_turn(&mut present, (turn, turn == turns.start), client);
            }
        }
        for one in present {
            let told = one.member.ends.borrow().whole(one.readings);
            *one.member.told.borrow_mut() = Some(told);
        }
    }

    /// Who fails is asked no more.
    fn ask_in_turn(
        &self,
        present: &mut Vec<Present<'_>>,
        (turn, is_first): (usize, bool),
        client: usize,
    ) {
        let mut has_told = vec![false; present.len()];
        for place in order_of_round(turn, present.len()) {
            has_told[place] = self
                .ask_one(&mut present[place], is_first, client)
                .is_some();
        }
        let mut has_told = has_told.into_iter();
        present.retain(|_| has_told.next() == Some(true));
    }

    fn ask_one(&self, one: &mut Present<'_>, is_first: bool, client: usize) -> Option<()> {
        let member = one.member;
        let began = Instant::now();
        let told = member
            .keeping(|ends| ends.ask(client, &mut one.server, is_first, self.limit(member)))?;
        self.note(member, began.elapsed());
        one.take(told);
        Some(())
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
    fn start(member: &'a Member) -> Option<Self> {
        let server = member.keeping(TwoEnds::start)?;
        Some(Self {
            member,
            server,
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
            self.members.ask(&[&self.member], 0..1);
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

#[cfg(test)]
mod tests {
    use super::{
        super::ends::{Client, Hello, Place, Side},
        *,
    };
    use crate::{network::Transport, rows::operations::parse_lines, sample::Unit, subjects::Bare};
    use palisade_wall::Command;
    use std::{fs, path::Path};

    /// Servers that do nothing, and a client that writes its port down and fails where a file says so.
    fn ends(folder: &Path) -> Ends {
        let script = |text: String| Command {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), text.into()],
        };
        let server = move |_: &Place| Ok(script("echo ready; exec /bin/sleep 600".to_owned()));
        let folder = folder.display().to_string();
        let client = move |place: &Place| {
            let port = place.port;
            Ok(script(format!(
                "cd {folder} && echo {port} >> asked && test ! -e fails-{port} && echo asking 5"
            )))
        };
        Ends {
            inside: Side::Server,
            transport: Transport::Tcp,
            refuses_root: false,
            is_apart: false,
            server: Box::new(server),
            hello: Hello::Says("ready"),
            clients: vec![Client {
                command: Box::new(client),
                read: Rc::new(|said| parse_lines(said, Unit::Microseconds)),
                most_repeats: 0,
                may_hang: false,
                is_asked_once: false,
            }],
            turns: 3,
        }
    }

    fn asked(folder: &Path) -> Vec<String> {
        let asked = fs::read_to_string(folder.join("asked")).unwrap();
        fs::remove_file(folder.join("asked")).unwrap();
        asked.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn clients_ask_in_turn_and_who_fails_or_is_gone_is_asked_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let ends = ends(folder.path());
        let meeting = Meeting::new(&ends, vec!["asking"]);
        let mut taking = [0, 1].map(|_| Some(meeting.join(&Bare, &Policy::default()).unwrap()));
        let run = |who: usize, taking: &mut [Option<Taking>; 2]| {
            let told = taking[who].as_mut().unwrap().run_once();
            told.map(|readings| readings[0].values.len())
        };
        let alone = [0, 1].map(|who| run(who, &mut taking).unwrap());
        let ports = asked(folder.path());
        let [first, second] = [&ports[0], &ports[1]];
        assert_eq!((alone, ports.len()), ([1, 1], 2));

        let together = [1, 0].map(|who| run(who, &mut taking).unwrap());
        assert_eq!(together, [3, 3]);
        let in_turn = [first, second, second, first, second, first];
        assert_eq!(asked(folder.path()), in_turn.map(Clone::clone));

        let together = [1, 0].map(|who| run(who, &mut taking).unwrap());
        assert_eq!(together, [3, 3]);
        let in_turn = [first, second, first, second, second, first];
        let why = "the order goes on where the round before ended";
        assert_eq!(asked(folder.path()), in_turn.map(Clone::clone), "{why}");

        fs::write(folder.path().join(format!("fails-{second}")), "").unwrap();
        assert_eq!(run(0, &mut taking).unwrap(), 3);
        assert!(run(1, &mut taking).is_err());
        let without = [second, first, first, first];
        assert_eq!(asked(folder.path()), without.map(Clone::clone));

        taking[1] = None;
        assert_eq!(run(0, &mut taking).unwrap(), 3);
        assert_eq!(
            asked(folder.path()),
            [first, first, first].map(Clone::clone)
        );
    }
}
