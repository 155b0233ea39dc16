//! A wall of plain data: it holds nothing and remembers what it was asked.

use crate::{
    Cause, ChromiumFlags, Command, Domain, Ending, Enforcement, Error, Event, Exit, InnerNetwork,
    Plan, PlanResult, Prepared, REPORT_VERSION, Relied, Report, Spec, Streams, TerminalPosition,
    Usage, View, Wall, WriteGrant,
};
use palisade_policy::FileGrant;
use rustix::io::Errno;
use serde::Serialize;
use std::{
    ffi::OsString,
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A wall whose guests end at once, with an exit chosen beforehand.
#[derive(Clone, Debug)]
pub struct MockWall {
    exit: Exit,
    signals: Arc<Mutex<Vec<i32>>>,
}

/// The command, unchanged.
#[derive(Clone, Debug, Serialize)]
pub struct MockPlan {
    command: Vec<String>,
    #[serde(skip)]
    wall: MockWall,
}

/// A guest that has ended already.
#[derive(Debug)]
pub struct MockDomain {
    wall: MockWall,
    command: Vec<String>,
    /// Readable: it is at its end.
    ended: io::PipeReader,
}

impl MockWall {
    /// A wall whose guests end this way.
    pub fn new(exit: Exit) -> Self {
        Self {
            exit,
            signals: Arc::default(),
        }
    }

    /// The report of such a guest.
    pub fn report(&self, command: &Command) -> Report {
        report(self.exit, command.words())
    }

    /// The signals its domains were sent, in order.
    pub fn signals(&self) -> Vec<i32> {
        let signals = self.signals.lock();
        signals.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn report(exit: Exit, command: Vec<String>) -> Report {
    Report {
        version: REPORT_VERSION,
        wall: "mock".into(),
        command,
        called: None,
        exit,
        ending: Ending::Guest,
        exit_code: exit.shell_code(),
        trap: None,
        lost: None,
        enforcement: Vec::new(),
        denials: Vec::new(),
        phases: Vec::new(),
        usage: Usage::default(),
        had: Vec::new(),
        granted: Vec::new(),
    }
}

impl Wall for MockWall {
    type Machine = ();
    type Launcher = ();

    fn name(&self) -> &'static str {
        "mock"
    }

    fn plan(&self, spec: &Spec<'_, ()>) -> PlanResult<()> {
        Ok(Some(Box::new(MockPlan {
            command: spec.command.words(),
            wall: self.clone(),
        })))
    }
}

impl Plan for MockPlan {
    type Launcher = ();

    fn wall(&self) -> &'static str {
        "mock"
    }

    fn view(&self) -> &dyn View {
        self
    }

    fn is_native(&self) -> bool {
        true
    }

    fn fixed_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn prepare(&self, (): &(), _caches: Option<&Path>) -> Result<Prepared, Error> {
        Ok(Prepared::default())
    }

    fn prepare_in_time(&self, (): &(), _caches: Option<&Path>) -> Result<Prepared, Error> {
        Ok(Prepared::default())
    }

    fn launch(
        &self,
        _prepared: &Prepared,
        (): &(),
        _streams: &Streams<'_>,
    ) -> Result<Box<dyn Domain>, Error> {
        let (ended, _) = io::pipe().map_err(|error| Error::new(Cause::Other, error))?;
        Ok(Box::new(MockDomain {
            wall: self.wall.clone(),
            command: self.command.clone(),
            ended,
        }))
    }
}

/// It sees nothing.
impl View for MockPlan {
    fn cwd(&self) -> &Path {
        Path::new("/")
    }

    fn candidates(&self) -> &[OsString] {
        &[]
    }

    fn environment(&self) -> &[OsString] {
        &[]
    }

    fn enforcement(&self) -> &[Enforcement] {
        &[]
    }

    fn output_bytes(&self) -> Option<u64> {
        None
    }

    fn absent(&self) -> &[PathBuf] {
        &[]
    }

    fn of_profiles(&self) -> &[FileGrant] {
        &[]
    }

    fn kept_for_git(&self) -> &[PathBuf] {
        &[]
    }

    fn writable_home(&self) -> Option<&Path> {
        None
    }

    fn chromium_flags(&self) -> Option<ChromiumFlags> {
        None
    }

    fn is_of_host(&self) -> bool {
        false
    }

    fn shows(&self, _path: &Path) -> bool {
        false
    }

    fn has_private_folder(&self) -> bool {
        false
    }

    fn find_relied(&self, _relied: &mut dyn Iterator<Item = Relied>) -> Option<Relied> {
        None
    }

    fn host_path(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    fn find_program_at(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    fn exec_place(&self, _path: &Path) -> Option<&Path> {
        None
    }

    fn write_grants_without_exec(&self) -> Vec<WriteGrant> {
        Vec::new()
    }

    fn refuses_sockets_in(&self, _folder: &Path) -> Option<bool> {
        None
    }
}

impl AsFd for MockDomain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl Domain for MockDomain {
    fn pid(&self) -> u32 {
        0
    }

    fn take_terminal(&mut self) -> Option<OwnedFd> {
        None
    }

    fn inner_network(&self) -> io::Result<Option<Box<dyn InnerNetwork>>> {
        Ok(None)
    }

    fn confine_supervisor(&self, _listed: &[BorrowedFd<'_>]) -> Result<(), Error> {
        Ok(())
    }

    fn signal(&self, number: i32) -> Result<(), Error> {
        let signals = self.wall.signals.lock();
        signals.unwrap_or_else(PoisonError::into_inner).push(number);
        Ok(())
    }

    fn resume(&self, _position: TerminalPosition) -> Result<(), Error> {
        Ok(())
    }

    fn kill(&self) -> Result<(), Error> {
        Ok(())
    }

    fn end_for_output(&mut self) {}

    fn next_event(&mut self) -> Result<Event, Error> {
        Ok(Event::Ended)
    }

    fn relayed(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn leave_relayed(&mut self) {}

    fn relay_failure(&self) -> Option<(&'static str, Errno)> {
        None
    }

    fn wait(self: Box<Self>) -> Result<Report, Error> {
        Ok(report(self.wall.exit, self.command))
    }

    fn wait_timeout(&mut self, _most: Duration) -> Result<Option<Report>, Error> {
        Ok(Some(report(self.wall.exit, self.command.clone())))
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
    use crate::Surroundings;
    use palisade_policy::Policy;

    /// As a front end does, with a wall of which it knows nothing.
    fn drive(
        wall: &dyn Wall<Machine = (), Launcher = ()>,
        signal: i32,
    ) -> Result<(String, Report), Error> {
        let (policy, command) = (Policy::nothing(), Command::new("guest"));
        let surroundings = Surroundings::default();
        let plan = wall.plan(&Spec::new(&policy, &command, &(), &surroundings))?;
        let plan = plan.expect("it takes every command");
        let prepared = plan.prepare_in_time(&(), None)?;
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let streams = Streams {
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            terminal: None,
            passed: &[],
            questions: None,
            journal: None,
        };
        let mut domain = plan.launch(&prepared, &(), &streams)?;
        domain.signal(signal)?;
        assert_eq!(domain.next_event()?, Event::Ended);
        let shown = format!("{plan} {}", serde_json::to_string(&*plan).unwrap());
        Ok((shown, domain.wait()?))
    }

    #[test]
    fn a_wall_can_be_driven_without_knowing_which() {
        let wall = MockWall::new(Exit::Code(3));
        let (shown, report) = drive(&wall, 15).unwrap();
        assert_eq!((report.exit_code, wall.signals()), (3, vec![15]));
        assert_eq!(shown, r#"run guest {"command":["guest"]}"#);
    }
}
