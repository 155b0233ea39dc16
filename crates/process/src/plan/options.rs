//! What another wall asks of this one beyond a policy, for the program that is its own part.

use super::{Attributes, Plan, PlanError, Rlimit, Step, layout};
use crate::{host::Host, layout::in_root_place, machine::Tier};
use palisade_policy::{Access, FileGrant, Policy};
use palisade_wall::{Command, Enforcement};
use std::{ffi::OsString, fmt, path::Path};

/// What is asked for, given before there is a plan. The default is nothing.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// No `/proc`: a program that opens paths in somebody else's name must not open its own memory there.
    pub without_proc: bool,
    /// More limits of each process.
    pub rlimits: Vec<Rlimit>,
    /// A program that runs the command's in its stead.
    pub runner: Option<Runner<'a>>,
}

/// A program that reads a guest and runs it itself, behind this wall in its stead: it is executed, and what it is told
/// follows from what its domain shows.
///
/// It lies at no path of the guest's, nothing else is executed, and it gets descriptors beside the guest's.
pub struct Runner<'a> {
    /// What the wall is called that has it.
    pub wall: &'static str,
    /// Its file, on the host.
    pub file: &'a Path,
    /// Where its domain has it; one without mounts has it where it lies.
    pub inside: &'a Path,
    /// Threads that it needs beside the guest's one.
    pub threads: u64,
    /// What it holds itself: a capability, and how. This wall holds the same around it.
    pub holds: &'a [(&'a str, &'a str)],
    /// What it adds to what is enforced.
    pub enforcement: &'a [Enforcement],
    /// What to tell it, by the plan so far and by where a granted root is mounted, if one is.
    pub instruct: &'a dyn Fn(&Plan, Option<&Path>) -> Instructions,
}

/// What a runner is told, and needs for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Its own name and its arguments.
    pub arguments: Vec<OsString>,
    /// Descriptors beside the guest's.
    pub files: u64,
}

impl fmt::Debug for Runner<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Runner")
            .field("file", &self.file)
            .field("inside", &self.inside)
            .finish_non_exhaustive()
    }
}

impl Runner<'_> {
    fn inside(&self, tier: Tier) -> &Path {
        match tier {
            Tier::Bare => self.file,
            _ => self.inside,
        }
    }

    /// The policy with its own file in view, which is mounted beside a granted root ([`Plan::add_program`]).
    pub(super) fn policy(&self, policy: &Policy, tier: Tier) -> Policy {
        let mut policy = policy.clone();
        if !policy.grants.files.iter().any(FileGrant::is_root) {
            policy.grants.files.push(FileGrant {
                access: Access::Read,
                host: self.file.into(),
                guest: Some(self.inside(tier).into()),
            });
        }
        policy
    }

    /// What is executed.
    pub(super) fn command(&self, tier: Tier) -> Command {
        Command::new(self.inside(tier))
    }
}

impl Plan {
    /// The last step of planning.
    pub(super) fn apply(
        &mut self,
        options: &Options<'_>,
        host: &dyn Host,
    ) -> Result<(), PlanError> {
        self.rlimits.extend(options.rlimits.iter().copied());
        if options.without_proc && self.tier != Tier::Bare {
            self.leave_proc_out();
        }
        match &options.runner {
            Some(runner) => self.run_by(runner, host),
            None => Ok(()),
        }
    }

    fn run_by(&mut self, runner: &Runner<'_>, host: &dyn Host) -> Result<(), PlanError> {
        self.passes = true;
        self.told_wall = runner.wall;
        let root = self.granted_root().filter(|_| self.tier != Tier::Bare);
        let root = root.map(Path::to_path_buf);
        let Instructions { arguments, files } = (runner.instruct)(self, root.as_deref());
        self.arguments = arguments;
        self.add_descriptors(files);
        self.around_runner = Some(self.enforcement.clone());
        for row in self.enforcement.iter_mut() {
            let mut held = runner.holds.iter();
            if let Some((_, how)) = held.find(|(capability, _)| *capability == row.capability) {
                row.mechanism = format!("{how}; {} around the worker", row.mechanism);
            }
        }
        self.enforcement.extend_from_slice(runner.enforcement);
        if self.tier == Tier::Bare {
            return Ok(());
        }
        self.keep_root_apart();
        if root.is_some() {
            self.add_program(host, runner.file, runner.inside)?;
        }
        self.execute_only(runner.inside);
        Ok(())
    }

    /// The runner needs some of what the policy bounds for itself. The guest's share is the runner's to hold.
    fn add_descriptors(&mut self, files: u64) {
        let mut limits = self.rlimits.iter_mut();
        if let Some(limit) = limits.find(|limit| limit.name == "NOFILE") {
            limit.value = limit.value.saturating_add(files);
        }
    }

    /// Where a granted root is mounted, if one is.
    fn granted_root(&self) -> Option<&Path> {
        self.steps.iter().find_map(|step| match step {
            Step::LeaveHost { root } => root.as_deref(),
            _ => None,
        })
    }

    /// Takes `/proc` out of the domain: for a program that opens paths in somebody else's name, and
    /// must not open its own memory there. Init keeps one to add up processor times.
    fn leave_proc_out(&mut self) {
        let in_granted_root = in_root_place(Path::new("/proc"));
        let is_inside =
            |path: &Path| path.starts_with("/proc") || path.starts_with(&in_granted_root);
        self.steps.retain_mut(|step| match step {
            Step::MountProc { .. } => {
                *step = Step::OpenProc;
                true
            }
            Step::MakeFolder { path, .. } => !is_inside(path),
            Step::Mount { target, .. } => !is_inside(target),
            Step::MakeSymlink { target, .. } => !is_inside(target),
            _ => true,
        });
    }

    /// Keeps a granted root, if there is one, where it is mounted, and the domain's own `tmpfs` for the root: for
    /// a program that opens paths in a guest's name, and lies at none of them itself.
    fn keep_root_apart(&mut self) {
        let root = self.steps.iter_mut().find_map(|step| match step {
            Step::LeaveHost { root } => root.take(),
            _ => None,
        });
        if root.is_none() {
            return;
        }
        let rules = self
            .landlock
            .iter_mut()
            .flat_map(|landlock| &mut landlock.rules);
        for rule in rules.filter(|rule| rule.path != Path::new("/")) {
            rule.path = in_root_place(&rule.path);
        }
        let guarded = self.steps.iter_mut().find_map(|step| match step {
            Step::Guard { targets } => Some(targets),
            _ => None,
        });
        for target in guarded.into_iter().flatten() {
            *target = in_root_place(target);
        }
        for place in &mut self.meeting_places {
            *place = in_root_place(place);
        }
        self.guest_cwd = Some(std::mem::replace(&mut self.cwd, "/".into()));
    }

    /// Mounts a program of the host's beside a granted root.
    fn add_program(
        &mut self,
        host: &dyn Host,
        path: &Path,
        inside: &Path,
    ) -> Result<(), PlanError> {
        let steps = layout::mount_program(host, path, inside)?;
        let end = self
            .steps
            .iter()
            .position(|step| matches!(step, Step::LeaveHost { .. }));
        let end = end.unwrap_or(self.steps.len());
        self.steps.splice(end..end, steps);
        Ok(())
    }

    /// Lets the domain execute nothing but `program`, a path inside: for a program that runs its guest
    /// itself. Such a one may use openat2(2) where modes are guarded ([`crate::seccomp::open_how`]).
    ///
    /// Mounts hold it, and for streams, which lie outside of them, Landlock. Without mounts all stays as
    /// it is.
    pub(super) fn execute_only(&mut self, program: &Path) {
        if self.tier == Tier::Bare {
            return;
        }
        for step in self.steps.iter_mut() {
            match step {
                Step::Mount {
                    target, attributes, ..
                } if target != program => *attributes = *attributes | Attributes::NOEXEC,
                Step::Remount { set, clear, .. } => {
                    *set = *set | Attributes::NOEXEC;
                    *clear = clear.without(Attributes::NOEXEC);
                }
                Step::Hide { attributes, .. } => *attributes = *attributes | Attributes::NOEXEC,
                Step::Show { set, .. } => *set = *set | Attributes::NOEXEC,
                _ => {}
            }
        }
        let landlock = self.landlock.as_mut();
        let is_held = landlock.is_some_and(|landlock| landlock.execute_only(program));
        if let Some(groups) = &mut self.seccomp {
            groups.constant_open_how = is_held && groups.guard_setuid;
            // Its own opens are few, and Landlock holds it either way.
            groups.special_files_ruled = false;
            groups.clone3 = false;
            groups.observed = false;
            groups.watched = false;
        }
    }
}
