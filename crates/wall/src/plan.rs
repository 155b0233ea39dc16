//! From a policy and a command to a plan, and from a plan to a running guest.

use crate::{Command, Domain, Enforcement, Error, Streams, Surroundings};
use palisade_policy::{FileGrant, Policy};
use serde::Serialize;
use std::{
    any::Any,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// What there is to plan: all that a front end makes of flags, a file or calls.
#[derive(Debug)]
pub struct Spec<'a, Machine> {
    /// What the guest may reach and use.
    pub policy: &'a Policy,
    /// The program and its arguments.
    pub command: &'a Command,
    /// What the machine can do.
    pub machine: &'a Machine,
    /// Where and as what palisade was started.
    pub surroundings: &'a Surroundings,
    /// The folder of the wall's own programs, if they are not in the usual places.
    pub libexec: Option<&'a Path>,
}

impl<Machine> Clone for Spec<'_, Machine> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Machine> Copy for Spec<'_, Machine> {}

impl<'a, Machine> Spec<'a, Machine> {
    /// With the wall's own programs in the usual places.
    pub fn new(
        policy: &'a Policy,
        command: &'a Command,
        machine: &'a Machine,
        surroundings: &'a Surroundings,
    ) -> Self {
        Self {
            policy,
            command,
            machine,
            surroundings,
            libexec: None,
        }
    }
}

/// A mechanism around guests.
pub trait Wall: Sync {
    /// What it must know of the machine.
    type Machine;
    /// What starts its domains.
    type Launcher;

    /// What policies and reports call it.
    fn name(&self) -> &'static str;

    /// Works out every step that this means on this machine. Changes nothing. `None`: the command is for
    /// another wall.
    ///
    /// # Errors
    ///
    /// When the policy names what does not exist, or asks for what can't be enforced here.
    fn plan(&self, spec: &Spec<'_, Self::Machine>) -> PlanResult<Self::Launcher>;

    /// The same for a launcher, which may remember what was planned for it before. The plan is no other for that.
    ///
    /// # Errors
    ///
    /// Those of [`Wall::plan`].
    fn plan_for(
        &self,
        spec: &Spec<'_, Self::Machine>,
        _: &Self::Launcher,
    ) -> PlanResult<Self::Launcher> {
        self.plan(spec)
    }
}

/// What a wall says to a [`Spec`].
pub type PlanResult<Launcher> = Result<Option<Box<dyn Plan<Launcher = Launcher>>>, Error>;

/// Every step of one launch: data, for people by `Display` and for programs by `Serialize`.
pub trait Plan: fmt::Debug + fmt::Display + erased_serde::Serialize + Send + Sync {
    /// See [`Wall::Launcher`].
    type Launcher;

    /// The wall's name.
    fn wall(&self) -> &'static str;

    /// What the guest sees and can change.
    fn view(&self) -> &dyn View;

    /// Whether the kernel executes the command's program, as the guest finds it. Else the wall reads it for the guest,
    /// which need not see it.
    fn is_native(&self) -> bool;

    /// The host's file that the wall reads for the guest, without links: it is open, and whatever comes to lie there is not
    /// read. Empty: nobody can tell where it lies. `None`: the kernel executes what the guest finds.
    fn opened_program(&self) -> Option<PathBuf> {
        None
    }

    /// Files of the host's that every start of this plan executes or is told of and that the guest cannot change: the
    /// program, and what its arguments name. None: there is no program.
    fn fixed_files(&self) -> Vec<PathBuf>;

    /// Paths of the host's at which [`Plan::fixed_files`] were looked for, whether something is there or not. As long as
    /// the same lies at each, and at what is granted, another plan has the same of them.
    fn looked_for(&self) -> Vec<PathBuf> {
        self.fixed_files()
    }

    /// Makes what a launch needs beside the plan, once for many of them. It is kept below `caches`, or where the user's
    /// caches are, if it can be used again.
    ///
    /// # Errors
    ///
    /// When the program can't be read or made ready.
    fn prepare(&self, launcher: &Self::Launcher, caches: Option<&Path>) -> Result<Prepared, Error>;

    /// The same for a run that is about to begin: what it takes is the guest's time, whichever plan is launched with it.
    ///
    /// # Errors
    ///
    /// As those of [`Plan::prepare`], and when the time is up.
    fn prepare_in_time(
        &self,
        launcher: &Self::Launcher,
        caches: Option<&Path>,
    ) -> Result<Prepared, Error>;

    /// Starts the guest, with what was prepared for this plan or one that differs in the machine alone.
    ///
    /// # Errors
    ///
    /// When a step of the plan fails. Nothing of the domain is left then.
    fn launch(
        &self,
        prepared: &Prepared,
        launcher: &Self::Launcher,
        streams: &Streams<'_>,
    ) -> Result<Box<dyn Domain>, Error>;
}

impl<Launcher> Serialize for dyn Plan<Launcher = Launcher> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(self, serializer)
    }
}

/// What a launch needs beside its plan: nothing, or something of the wall's own, as compiled code.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    thing: Option<Arc<dyn Any + Send + Sync>>,
    /// Why it could not be kept for the next run.
    pub not_kept: Option<String>,
    /// When the guest's time is up, if it has begun.
    pub until: Option<Instant>,
}

impl Prepared {
    /// Holds this.
    pub fn new(thing: impl Any + Send + Sync, not_kept: Option<String>) -> Self {
        Self {
            thing: Some(Arc::new(thing)),
            not_kept,
            until: None,
        }
    }

    /// What it holds, if it is of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.thing.as_deref()?.downcast_ref()
    }
}

/// What a guest sees and can change. Paths are absolute, the guest's own unless they are said to be the host's.
pub trait View {
    /// Its working directory.
    fn cwd(&self) -> &Path;

    /// Paths to try for the program, in order.
    fn candidates(&self) -> &[OsString];

    /// Its variables, `NAME=VALUE` each. Values may be secrets.
    fn environment(&self) -> &[OsString];

    /// Per capability: requested and actual.
    fn enforcement(&self) -> &[Enforcement];

    /// The same of the process wall alone, which is around other walls too.
    fn process_wall(&self) -> &[Enforcement] {
        self.enforcement()
    }

    /// Limit on bytes of stdout and stderr together.
    fn output_bytes(&self) -> Option<u64>;

    /// The host's paths of grants that may be missing, and are.
    fn absent(&self) -> &[PathBuf];

    /// What the policy's profiles grant beside it, as far as it is there.
    fn of_profiles(&self) -> &[FileGrant];

    /// What git executes in a checkout, and the guest finds read-only although the policy does not protect it.
    fn kept_for_git(&self) -> &[PathBuf];

    /// The starter's home, where all of it is granted for writing and the policy does not say that this is meant.
    fn writable_home(&self) -> Option<&Path>;

    /// Whether Chromium is told to do without its own sandbox, where the policy asks for that.
    fn chromium_flags(&self) -> Option<ChromiumFlags>;

    /// Whether it has the host's own file system, of which rules show a part, rather than one of its own.
    fn is_of_host(&self) -> bool;

    /// Whether it finds the host's path under the same name.
    fn shows(&self, path: &Path) -> bool;

    /// Whether nothing is found at a path inside because the policy hides it.
    fn hides(&self, _path: &Path) -> bool {
        false
    }

    /// Whether it has private folders to write to.
    fn has_private_folder(&self) -> bool;

    /// The first of these that it could change: the file itself, or any folder or link on the way, by whatever name.
    fn find_relied(&self, relied: &mut dyn Iterator<Item = Relied>) -> Option<Relied>;

    /// The first of the host's paths for which it could change what they lead to.
    fn find_changeable(&self, paths: &mut dyn Iterator<Item = PathBuf>) -> Option<PathBuf> {
        let found = self.find_relied(&mut paths.map(Relied::Content));
        found.map(Relied::into_path)
    }

    /// Where on the host lies what it finds at a path, without links on the way to what was mounted there. The launch
    /// mounts that very file or nothing. `None`: it is not the host's.
    fn host_path(&self, path: &Path) -> Option<PathBuf>;

    /// Whether that is so for this one.
    fn can_change(&self, path: &Path) -> bool {
        self.find_changeable(&mut std::iter::once(path.into()))
            .is_some()
    }

    /// The host's file that it would execute at one path; `None` if it finds none there.
    fn find_program_at(&self, path: &Path) -> Option<PathBuf>;

    /// What `--exec` takes, so that it may execute and map what lies at a path: the place around it that it can write
    /// to. `None` where it may already.
    fn exec_place(&self, path: &Path) -> Option<&Path>;

    /// The host's folders that it can write to, and from which it can execute and load nothing.
    fn write_grants_without_exec(&self) -> Vec<WriteGrant>;

    /// Whether it can make no sockets and FIFOs in a private folder of its own, because something below it is granted
    /// for writing; `None` where it has no such folder.
    fn refuses_sockets_in(&self, folder: &Path) -> Option<bool>;
}

/// A path that somebody outside the wall uses while guests run, and what of it a guest must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relied {
    /// What lies there, and that the path leads to it: what is read, executed or listened at.
    Content(PathBuf),
    /// That the path leads where it does. What lies in the folder may be a guest's.
    Place(PathBuf),
}

impl Relied {
    /// The path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Content(path) | Self::Place(path) => path,
        }
    }

    /// The path itself.
    pub fn into_path(self) -> PathBuf {
        match self {
            Self::Content(path) | Self::Place(path) => path,
        }
    }
}

/// A folder of the host's that a guest can write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteGrant {
    /// Where the guest finds it.
    pub guest: PathBuf,
    /// Where it lies, without links.
    pub host: PathBuf,
}

/// What the profile of Chromium came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChromiumFlags {
    /// Its start script tells it to do without its own sandbox.
    Set,
    /// The domain has no scripts in which it could be told.
    NoPlace,
}
