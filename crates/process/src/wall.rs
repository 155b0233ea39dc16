//! The process wall as one of many walls.

use crate::{
    Domain, DomainError, InnerNetwork, LaunchError, Launcher, Machine, ThisHost,
    cgroup::{Freezer, MemoryMeter},
    grants::{Change, Changed},
    launch,
    plan::{NAME, Options, Plan, PlanError, make_plan},
};
use palisade_policy::FileGrant;
use palisade_wall::{
    Cause, ChromiumFlags, Enforcement, Error, Event, PlanResult, Prepared, Relied, Report, Spec,
    Streams, TerminalPosition, View, Wall, WriteGrant,
};
use rustix::io::Errno;
use std::{
    ffi::OsString,
    io,
    net::IpAddr,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

/// The wall around native programs. It takes every command.
#[derive(Clone, Copy, Debug)]
pub struct ProcessWall;

impl Wall for ProcessWall {
    type Machine = Machine;
    type Launcher = Launcher;

    fn name(&self) -> &'static str {
        NAME
    }

    fn plan(&self, spec: &Spec<'_, Machine>) -> PlanResult<Launcher> {
        let plan = make_plan(spec, &ThisHost, &Options::default())?;
        Ok(Some(Box::new(plan)))
    }

    fn plan_for(&self, spec: &Spec<'_, Machine>, launcher: &Launcher) -> PlanResult<Launcher> {
        let plan = launcher.memory().make_plan(spec, &ThisHost)?;
        Ok(Some(Box::new(plan)))
    }
}

impl palisade_wall::Plan for Plan {
    type Launcher = Launcher;

    fn wall(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> &dyn View {
        self
    }

    fn is_native(&self) -> bool {
        true
    }

    fn fixed_files(&self) -> Vec<PathBuf> {
        Self::fixed_files(self)
    }

    fn looked_for(&self) -> Vec<PathBuf> {
        Self::looked_for(self)
    }

    fn prepare(&self, launcher: &Launcher, _: Option<&Path>) -> Result<Prepared, Error> {
        let prepared = launch::Prepared::of(self, launcher)?;
        Ok(prepared.map_or_else(Prepared::default, |prepared| Prepared::new(prepared, None)))
    }

    fn prepare_in_time(&self, _: &Launcher, _: Option<&Path>) -> Result<Prepared, Error> {
        Ok(Prepared::default())
    }

    fn launch(
        &self,
        prepared: &Prepared,
        launcher: &Launcher,
        streams: &Streams<'_>,
    ) -> Result<Box<dyn palisade_wall::Domain>, Error> {
        let launched = launcher.launch_prepared(self, prepared.get(), streams);
        Ok(Box::new(launched?))
    }
}

impl View for Plan {
    fn cwd(&self) -> &Path {
        self.guest_cwd()
    }

    fn candidates(&self) -> &[OsString] {
        &self.candidates
    }

    fn environment(&self) -> &[OsString] {
        &self.environment
    }

    fn enforcement(&self) -> &[Enforcement] {
        &self.enforcement
    }

    fn process_wall(&self) -> &[Enforcement] {
        self.around_runner.as_ref().unwrap_or(&self.enforcement)
    }

    fn output_bytes(&self) -> Option<u64> {
        self.output_bytes
    }

    fn absent(&self) -> &[PathBuf] {
        &self.absent
    }

    fn of_profiles(&self) -> &[FileGrant] {
        &self.of_profiles
    }

    fn kept_for_git(&self) -> &[PathBuf] {
        &self.kept_for_git
    }

    fn writable_home(&self) -> Option<&Path> {
        self.writable_home.as_deref()
    }

    fn chromium_flags(&self) -> Option<ChromiumFlags> {
        self.chromium_flags
    }

    fn is_of_host(&self) -> bool {
        self.tier == crate::Tier::Bare
    }

    fn shows(&self, path: &Path) -> bool {
        Self::shows(self, path)
    }

    fn hides(&self, path: &Path) -> bool {
        self.layout().is_some_and(|layout| layout.is_hidden(path))
    }

    fn has_private_folder(&self) -> bool {
        Self::has_private_folder(self)
    }

    fn find_relied(&self, relied: &mut dyn Iterator<Item = Relied>) -> Option<Relied> {
        Self::find_relied(self, relied)
    }

    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        self.layout()?.host_path(path)
    }

    fn find_program_at(&self, path: &Path) -> Option<PathBuf> {
        Self::find_program_at(self, path)
    }

    fn exec_place(&self, path: &Path) -> Option<&Path> {
        Self::exec_place(self, path)
    }

    fn write_grants_without_exec(&self) -> Vec<WriteGrant> {
        Self::write_grants_without_exec(self)
    }

    fn refuses_sockets_in(&self, folder: &Path) -> Option<bool> {
        Self::refuses_sockets_in(self, folder)
    }
}

fn done(changed: &Changed) -> Result<(), Error> {
    match changed.refused.first() {
        None => Ok(()),
        Some((_, why)) => Err(Error::new(Cause::Other, format!("policy: {why}"))),
    }
}

impl palisade_wall::Domain for Domain {
    fn pid(&self) -> u32 {
        Self::pid(self)
    }

    fn take_terminal(&mut self) -> Option<OwnedFd> {
        Self::take_terminal(self)
    }

    fn inner_network(&self) -> io::Result<Option<Box<dyn palisade_wall::InnerNetwork>>> {
        let network = Self::inner_network(self)?;
        Ok(network.map(|network| Box::new(network) as _))
    }

    fn memory_meter(&self) -> Option<Box<dyn palisade_wall::MemoryMeter>> {
        Self::memory_meter(self).map(|meter| Box::new(meter) as _)
    }

    fn freezer(&self) -> Option<Box<dyn palisade_wall::Freezer>> {
        Self::freezer(self).map(|freezer| Box::new(freezer) as _)
    }

    fn give(&self, flag: &str) -> Result<(), Error> {
        done(&self.change(&Change {
            grant: vec![flag.into()],
            ..Change::default()
        }))
    }

    fn take_back(&self, flag: &str) -> Result<(), Error> {
        done(&self.change(&Change {
            revoke: vec![flag.into()],
            ..Change::default()
        }))
    }

    fn confine_supervisor(&self, listed: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let confined = self.confine_supervisor_to(listed);
        confined.map_err(|error| Error::new(Cause::Other, error))
    }

    fn signal(&self, number: i32) -> Result<(), Error> {
        Ok(Self::signal(self, number)?)
    }

    fn resume(&self, position: TerminalPosition) -> Result<(), Error> {
        Ok(Self::resume(self, position)?)
    }

    fn kill(&self) -> Result<(), Error> {
        Ok(Self::kill(self)?)
    }

    fn end_for_output(&mut self) {
        Self::end_for_output(self);
    }

    fn next_event(&mut self) -> Result<Event, Error> {
        Ok(Self::next_event(self)?)
    }

    fn relayed(&self) -> Option<BorrowedFd<'_>> {
        Self::relayed(self)
    }

    fn leave_relayed(&mut self) {
        Self::leave_relayed(self);
    }

    fn relay_failure(&self) -> Option<(&'static str, Errno)> {
        Self::relay_failure(self)
    }

    fn wait(self: Box<Self>) -> Result<Report, Error> {
        Ok(Self::wait(*self)?)
    }

    fn wait_timeout(&mut self, most: Duration) -> Result<Option<Report>, Error> {
        Ok(Self::wait_timeout(self, most)?)
    }
}

impl palisade_wall::Freezer for Freezer {
    fn freeze(&self, most: Duration) -> io::Result<()> {
        Self::freeze(self, most)
    }

    fn thaw(&self) -> io::Result<()> {
        Self::thaw(self)
    }
}

impl palisade_wall::MemoryMeter for MemoryMeter {
    fn bytes(&self) -> Option<u64> {
        Self::bytes(self)
    }
}

impl palisade_wall::InnerNetwork for InnerNetwork {
    fn ask(&self, family_of: IpAddr) -> io::Result<OwnedFd> {
        Ok(Self::ask(self, family_of)?.into())
    }

    fn take(&self, asked: OwnedFd) -> io::Result<OwnedFd> {
        crate::inside::InnerSocket::from(asked).take()
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        Self::new(Cause::Other, error)
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Self {
        Self::new(error.cause(), error)
    }
}

impl From<DomainError> for Error {
    fn from(error: DomainError) -> Self {
        Self::new(Cause::Other, error)
    }
}
