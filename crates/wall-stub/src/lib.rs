//! A third wall for tests: it hands everything on to the process wall.
//!
//! What a wall must bring is this file, and a line where walls are chosen: `palisade-walls` has it with its feature
//! `stub`. The command's own suite passes behind it.

use palisade_process::{Launcher, Machine, ProcessWall};
use palisade_wall::{
    Domain, Error, Event, Freezer, InnerNetwork, MemoryMeter, Plan, PlanResult, Prepared, Report,
    Spec, Streams, TerminalPosition, View, Wall,
};
use rustix::io::Errno;
use serde::{Serialize, Serializer};
use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

/// The name of the stub.
pub const NAME: &str = "stub";

/// Takes what the process wall would.
#[derive(Clone, Copy, Debug)]
pub struct StubWall;

#[derive(Debug)]
struct StubPlan(Box<dyn Plan<Launcher = Launcher>>);

#[derive(Debug)]
struct StubDomain(Box<dyn Domain>);

impl Wall for StubWall {
    type Machine = Machine;
    type Launcher = Launcher;

    fn name(&self) -> &'static str {
        NAME
    }

    fn plan(&self, spec: &Spec<'_, Machine>) -> PlanResult<Launcher> {
        let plan = ProcessWall.plan(spec)?;
        Ok(plan.map(|plan| Box::new(StubPlan(plan)) as _))
    }
}

impl Plan for StubPlan {
    type Launcher = Launcher;

    fn wall(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> &dyn View {
        self.0.view()
    }

    fn is_native(&self) -> bool {
        self.0.is_native()
    }

    fn fixed_files(&self) -> Vec<PathBuf> {
        self.0.fixed_files()
    }

    fn looked_for(&self) -> Vec<PathBuf> {
        self.0.looked_for()
    }

    fn prepare(&self, launcher: &Launcher, caches: Option<&Path>) -> Result<Prepared, Error> {
        self.0.prepare(launcher, caches)
    }

    fn prepare_in_time(
        &self,
        launcher: &Launcher,
        caches: Option<&Path>,
    ) -> Result<Prepared, Error> {
        self.0.prepare_in_time(launcher, caches)
    }

    fn launch(
        &self,
        prepared: &Prepared,
        launcher: &Launcher,
        streams: &Streams<'_>,
    ) -> Result<Box<dyn Domain>, Error> {
        let domain = self.0.launch(prepared, launcher, streams)?;
        Ok(Box::new(StubDomain(domain)))
    }
}

impl fmt::Display for StubPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for StubPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl AsFd for StubDomain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Domain for StubDomain {
    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.0.take_terminal()
    }

    fn inner_network(&self) -> io::Result<Option<Box<dyn InnerNetwork>>> {
        self.0.inner_network()
    }

    fn memory_meter(&self) -> Option<Box<dyn MemoryMeter>> {
        self.0.memory_meter()
    }

    fn freezer(&self) -> Option<Box<dyn Freezer>> {
        self.0.freezer()
    }

    fn confine_supervisor(&self, listed: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.0.confine_supervisor(listed)
    }

    fn signal(&self, number: i32) -> Result<(), Error> {
        self.0.signal(number)
    }

    fn resume(&self, position: TerminalPosition) -> Result<(), Error> {
        self.0.resume(position)
    }

    fn kill(&self) -> Result<(), Error> {
        self.0.kill()
    }

    fn end_for_output(&mut self) {
        self.0.end_for_output();
    }

    fn next_event(&mut self) -> Result<Event, Error> {
        self.0.next_event()
    }

    fn relayed(&self) -> Option<BorrowedFd<'_>> {
        self.0.relayed()
    }

    fn leave_relayed(&mut self) {
        self.0.leave_relayed();
    }

    fn relay_failure(&self) -> Option<(&'static str, Errno)> {
        self.0.relay_failure()
    }

    fn wait(self: Box<Self>) -> Result<Report, Error> {
        self.0.wait()
    }

    fn wait_timeout(&mut self, most: Duration) -> Result<Option<Report>, Error> {
        self.0.wait_timeout(most)
    }
}
