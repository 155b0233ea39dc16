//! Servers that are asked in turn, a few requests at a time, within one run: what is slow for a moment is slow for all.
//!
//! The contenders of a row are run one after the other, though, each for its own readings. So the first of a round
//! that is asked for them has all servers started and asked, and the others find theirs.

use super::{load::Load, sites::Site};
use crate::{Trial, pin::Apart, pin::Pin, sample::Reading};
use anyhow::{Context, anyhow};
use std::{
    cell::RefCell,
    path::PathBuf,
    rc::{Rc, Weak},
};

/// Those who are asked together. Who is dropped is asked no more.
pub(in crate::rows) struct Turns {
    load: Load,
    requests: usize,
    posted: Option<Body>,
    apart: Apart,
    members: RefCell<Vec<Weak<Member>>>,
}

/// What is posted, and how long its answer is.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) file: PathBuf,
    pub(super) answer_bytes: u64,
}

/// A server of some contenders, and it may be of several.
pub(in crate::rows) type Shared<T> = Rc<RefCell<T>>;

/// One of them.
struct Member {
    site: Shared<Site>,
    url: String,
    /// Of the last time that all were asked, until it is taken.
    told: RefCell<Option<anyhow::Result<Vec<Reading>>>>,
}

impl Turns {
    pub(super) fn new(load: Load, requests: usize, posted: Option<Body>, apart: Apart) -> Rc<Self> {
        Rc::new(Self {
            load,
            requests,
            posted,
            apart,
            members: RefCell::default(),
        })
    }

    /// Takes one more in.
    pub(in crate::rows) fn join(self: &Rc<Self>, site: Shared<Site>, url: String) -> Turn {
        let member = Rc::new(Member {
            site,
            url,
            told: RefCell::default(),
        });
        self.members.borrow_mut().push(Rc::downgrade(&member));
        Turn {
            turns: Rc::clone(self),
            member,
        }
    }

    /// Each member finds what came of it.
    fn ask_all(&self) {
        self.members
            .borrow_mut()
            .retain(|member| member.strong_count() > 0);
        let members: Vec<Rc<Member>> = self
            .members
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        if let Err(error) = self.ask(&members) {
            // It is nobody's fault more than another's.
            for member in members {
                *member.told.borrow_mut() = Some(Err(anyhow!("{error:#}")));
            }
        }
    }

    fn ask(&self, members: &[Rc<Member>]) -> anyhow::Result<()> {
        let pin = Pin::to(&self.apart.inside)?;
        let mut sites: Vec<(&Shared<Site>, bool)> = Vec::new();
        let mut running = Vec::new();
        for member in members {
            if !sites.iter().any(|(site, _)| Rc::ptr_eq(site, &member.site)) {
                let started = member.site.borrow_mut().start();
                sites.push((&member.site, started.is_ok()));
                match started {
                    Ok(servers) => running.extend(servers),
                    Err(error) => *member.told.borrow_mut() = Some(Err(error)),
                }
            }
        }
        drop(pin);
        let is_up = |member: &&Rc<Member>| {
            let is_its =
                |(site, is_up): &(&Shared<Site>, bool)| *is_up && Rc::ptr_eq(site, &member.site);
            sites.iter().any(is_its)
        };
        let up: Vec<&Rc<Member>> = members.iter().filter(is_up).collect();
        let urls: Vec<&str> = up.iter().map(|member| member.url.as_str()).collect();
        let _pin = Pin::to(&self.apart.outside)?;
        let file = self.posted.as_ref().map(|body| body.file.as_path());
        let answer_bytes = self.posted.as_ref().map(|body| body.answer_bytes);
        let told = self.load.ask_in_turn(self.requests, file, &urls);
        let told = told.with_context(|| format!("the client of {}", urls.join(" and ")))?;
        for (member, paired) in up.into_iter().zip(told) {
            *member.told.borrow_mut() = Some(paired.readings(answer_bytes));
        }
        Ok(())
    }
}

/// One contender's part.
pub(in crate::rows) struct Turn {
    turns: Rc<Turns>,
    member: Rc<Member>,
}

impl Trial for Turn {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        if self.member.told.borrow().is_none() {
            self.turns.ask_all();
        }
        let told = self.member.told.take();
        told.context("its server did not start")?
    }
}
