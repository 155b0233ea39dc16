//! A wall of plain data: it holds nothing and remembers what it was asked.

use crate::{Command, Domain, Ending, Exit, REPORT_VERSION, Report, Usage, Wall};
use palisade_policy::Policy;
use serde::Serialize;
use std::{cell::RefCell, convert::Infallible, fmt, rc::Rc};

/// A wall whose guests end at once, with an exit chosen beforehand.
#[derive(Clone, Debug)]
pub struct MockWall {
    exit: Exit,
    signals: Rc<RefCell<Vec<i32>>>,
}

/// The command, unchanged.
#[derive(Clone, Debug, Serialize)]
pub struct MockPlan {
    command: Vec<String>,
}

/// A guest that has ended already.
#[derive(Debug)]
pub struct MockDomain {
    wall: MockWall,
    command: Vec<String>,
}

impl MockWall {
    /// A wall whose guests end this way.
    pub fn new(exit: Exit) -> Self {
        Self {
            exit,
            signals: Rc::default(),
        }
    }

    /// The signals its domains were sent, in order.
    pub fn signals(&self) -> Vec<i32> {
        self.signals.borrow().clone()
    }
}

impl Wall for MockWall {
    type Plan = MockPlan;
    type Domain = MockDomain;
    type Error = Infallible;

    fn plan(&self, _policy: &Policy, command: &Command) -> Result<MockPlan, Infallible> {
        Ok(MockPlan {
            command: command.words(),
        })
    }

    fn launch(&self, plan: &MockPlan) -> Result<MockDomain, Infallible> {
        Ok(MockDomain {
            wall: self.clone(),
            command: plan.command.clone(),
        })
    }
}

impl Domain for MockDomain {
    type Error = Infallible;

    fn wait(self) -> Result<Report, Infallible> {
        Ok(Report {
            version: REPORT_VERSION,
            wall: "mock".into(),
            command: self.command,
            exit: self.wall.exit,
            ending: Ending::Guest,
            exit_code: self.wall.exit.shell_code(),
            trap: None,
            lost: None,
            enforcement: Vec::new(),
            denials: Vec::new(),
            phases: Vec::new(),
            usage: Usage::default(),
        })
    }

    fn signal(&self, number: i32) -> Result<(), Infallible> {
        self.wall.signals.borrow_mut().push(number);
        Ok(())
    }
}

impl fmt::Display for MockPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "run {}", self.command.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive<W: Wall>(wall: &W, signal: i32) -> Report
    where
        W::Error: fmt::Debug,
    {
        let plan = wall
            .plan(&Policy::nothing(), &Command::new("guest"))
            .unwrap();
        let domain = wall.launch(&plan).unwrap();
        domain.signal(signal).unwrap();
        domain.wait().unwrap()
    }

    #[test]
    fn a_wall_can_be_driven_without_knowing_which() {
        let wall = MockWall::new(Exit::Code(3));
        let report = drive(&wall, 15);
        assert_eq!((report.exit_code, wall.signals()), (3, vec![15]));
    }
}
