//! What `run` and `explain` were asked for, and its plan on a machine.

use super::{last, run::events, sensitive};
use crate::args::AskArgs;
use anyhow::{Context, bail};
use palisade_command_line::{
    args::{GuestArgs, PolicyArgs},
    env_files::EnvFiles,
    home::home_dir,
};
use palisade_policy::{Capability, Policy};
use palisade_process::Machine;
use palisade_wall::{Command, Spec, Surroundings, View};
use palisade_walls::{Plan, make_plan};
use palisade_wasm::{cache, programs};
use std::path::{Path, PathBuf};

/// All that a plan is made of but the machine.
pub(super) struct Request {
    pub(super) policy: Policy,
    pub(super) command: Command,
    pub(super) surroundings: Surroundings,
    env_files: EnvFiles,
    policy_file: Option<PathBuf>,
    report: Option<PathBuf>,
    asker: Option<PathBuf>,
    events: Option<PathBuf>,
}

impl Request {
    pub(super) fn new(
        policy: &PolicyArgs,
        guest: GuestArgs,
        has_terminal: bool,
    ) -> anyhow::Result<Self> {
        let policy_file = policy.file.clone();
        let mut policy = policy.resolve()?;
        let env_files = EnvFiles::take(&mut policy)?;
        let surroundings = Surroundings {
            file_variables: env_files.variables(),
            ..Surroundings::here(has_terminal)
        };
        Ok(Self {
            policy,
            command: guest.into(),
            surroundings,
            env_files,
            policy_file,
            report: None,
            asker: None,
            events: None,
        })
    }

    /// With a report of the files that the guest asks for in vain, if that is wanted.
    pub(super) fn with_watch(mut self, is_wanted: bool) -> Self {
        self.surroundings.watch = is_wanted;
        self
    }

    /// With what the user keeps from every guest, where somebody could be told of it or asked about it.
    ///
    /// # Errors
    ///
    /// When that cannot be read.
    pub(super) fn with_sensitive(mut self) -> anyhow::Result<Self> {
        if self.reads_sensitive() {
            self.surroundings.sensitive = sensitive::read()?;
        }
        Ok(self)
    }

    fn reads_sensitive(&self) -> bool {
        self.surroundings.watch || self.surroundings.asks_files
    }

    /// With the possibility of more grants while it runs, if that is wanted.
    pub(super) fn with_grants(mut self, is_wanted: bool) -> Self {
        self.surroundings.grantable = is_wanted;
        self
    }

    /// With an account of what happens while it does, to this file or socket.
    pub(super) fn with_events(mut self, to: Option<&Path>) -> Self {
        self.surroundings.tells = to.is_some();
        self.events = to.map(events::path).map(Path::to_path_buf);
        self
    }

    /// With questions about what no grant covers, if they are wanted; to this program, if to one.
    pub(super) fn with_questions(mut self, args: &AskArgs, program: Option<&Path>) -> Self {
        self.surroundings.asks = args.is_wanted().then_some(args.ask_time);
        self.surroundings.asks_files = args.ask_files;
        let asker = program.or(args.ask_socket.as_deref());
        self.asker = asker.map(Path::to_path_buf);
        self
    }

    /// With a report to be written to this file; `-` is none.
    pub(super) fn with_report(mut self, path: Option<&Path>) -> Self {
        self.report = path
            .filter(|path| *path != Path::new("-"))
            .map(Path::to_path_buf);
        self
    }

    /// Whether the guest may run without namespaces.
    pub(super) fn may_lack_namespaces(&self) -> bool {
        self.policy.allow_degraded.contains(&Capability::Namespaces)
    }

    /// The plan. What another machine's plan kept from the guest, this one may not: all is looked at for each.
    ///
    /// # Errors
    ///
    /// When there is none, or the guest could change what palisade uses outside the wall, now or the next time.
    pub(super) fn plan_on(&self, machine: &Machine) -> anyhow::Result<Plan> {
        let mut surroundings = self.surroundings.clone();
        if surroundings.grantable || surroundings.asks.is_some() {
            surroundings.relied = self.relied(machine)?;
        }
        let (policy, command) = (&self.policy, &self.command);
        let plan = make_plan(&Spec::new(policy, command, machine, &surroundings))?;
        self.refuse_reach(plan.view(), machine.uid)?;
        if self.reads_sensitive() {
            for file in sensitive::files() {
                refuse_in_reach(
                    plan.view(),
                    &file,
                    "the list of what is kept from every guest,",
                )?;
            }
        }
        Ok(plan)
    }

    /// What of the host's is used outside of the wall: [`Request::refuse_reach`] asks of each whether the guest could change it.
    fn relied(&self, machine: &Machine) -> anyhow::Result<Vec<PathBuf>> {
        let named = [&self.policy_file, &self.report, &self.events, &self.asker];
        let named = named.into_iter().flatten();
        let named = named.chain(self.env_files.paths()).map(std::path::absolute);
        let named = named.collect::<Result<Vec<_>, _>>();
        let mut relied = named.context("host: cannot tell the working directory")?;
        relied.extend(programs::relied_on());
        relied.extend(cache::usual_paths().into_iter().flatten());
        relied.extend(sensitive::files());
        relied.push(last::place(machine.uid));
        Ok(relied)
    }

    fn refuse_reach(&self, view: &dyn View, uid: u32) -> anyhow::Result<()> {
        if let Some(file) = &self.policy_file {
            refuse_writable_policy(view, file)?;
        }
        self.env_files.refuse_in_reach(view)?;
        if let Some(report) = &self.report {
            refuse_in_reach(view, report, "the report")?;
        }
        if let Some(events) = &self.events {
            refuse_in_reach(view, events, "the file or socket of --events")?;
        }
        if let Some(asker) = &self.asker {
            refuse_in_reach(view, asker, "who is to be asked,")?;
        }
        // A report that a guest has written would be explained as palisade's own.
        let last = last::place(uid);
        if view.can_change(&last) && last::has_session(&last) {
            refuse_in_reach(view, &last, "the report that `palisade why` explains,")?;
        }
        programs::refuse_reach(view)?;
        refuse_writable_cache(view)
    }
}

/// A guest that can write its own policy has none the next time.
fn refuse_writable_policy(view: &dyn View, file: &Path) -> anyhow::Result<()> {
    let absolute = std::path::absolute(file).context("host: cannot tell the working directory")?;
    if view.can_change(&absolute) {
        let canonical = std::fs::canonicalize(file).unwrap_or(absolute);
        bail!(
            "policy: the guest could rewrite its own policy {}: keep it outside the granted folder, or add --protect {}",
            canonical.display(),
            file.display()
        );
    }
    Ok(())
}

/// In a folder that the guest can write to, any part of the path may be a link by now or soon, and who answers there another.
fn refuse_in_reach(view: &dyn View, path: &Path, what: &str) -> anyhow::Result<()> {
    let absolute = std::path::absolute(path).context("host: cannot tell the working directory")?;
    if view.can_change(&absolute) {
        bail!(
            "policy: {what} {} lies where the guest can write: put it outside the granted folder",
            path.display()
        );
    }
    Ok(())
}

/// What lies there runs in the worker of a later guest, and in a server's own process.
fn refuse_writable_cache(view: &dyn View) -> anyhow::Result<()> {
    let mut paths = std::iter::once_with(cache::usual_paths).flatten().flatten();
    let changeable = view.find_changeable(&mut paths);
    if let Some(path) = changeable.filter(|path| !goes_with_home(view, path)) {
        let folder = path.parent().unwrap_or(&path);
        bail!(
            "policy: the guest could change {}, where palisade keeps machine code for later guests: keep it outside the \
             granted folder, or add --protect {}",
            path.display(),
            folder.display()
        );
    }
    Ok(())
}

/// Whether it lies in a home in which the guest may write to what its owner's shells execute: that says as much, and it
/// is told.
fn goes_with_home(view: &dyn View, path: &Path) -> bool {
    let home = home_dir().filter(|home| path.starts_with(home));
    home.is_some_and(|home| view.can_change(&home.join(".profile")))
}
