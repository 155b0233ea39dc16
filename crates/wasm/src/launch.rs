//! Carrying a plan out: code from the cache or the compiler, a worker in its domain, a report.

use crate::{
    cache::Cache,
    code::{self, Compiler},
    plan::Plan,
    programs::{ProgramInReach, Programs},
    status::{self, Status, not_run},
};
use palisade_policy::visible;
use palisade_process::{Domain, DomainError, Launcher, Machine, ReportHook};
use palisade_wall::{Exit, Phase, Purpose, Report, Streams};
use rustix::pipe::PipeFlags;
use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

pub use crate::{code::Code, error::StartError};

/// Nothing that a worker says is longer.
const STATUS_BYTES: u64 = 64 * 1024;
/// A report has no more phases: a worker whose guest took it over could tell of any number.
const MOST_PHASES: usize = 32;
/// The exit code of a worker that could not run its guest.
const NOT_RUN: Exit = Exit::Code(125);

impl Plan {
    /// The guest's code: from the cache, or made anew and kept there. The cache lies in the folder
    /// `palisade` of `caches`, or of the user's caches ([`crate::cache::usual_base`]).
    ///
    /// # Errors
    ///
    /// When the module can't be read or compiled, or the guest could change the cache, the worker or the compiler.
    pub fn code(&self, machine: &Machine, caches: Option<&Path>) -> Result<Code, StartError> {
        self.code_within(None, machine, caches)
    }

    /// The same for a run that is about to begin: its limit of time bounds the compiler, too.
    ///
    /// # Errors
    ///
    /// As those of [`Plan::code`], and when the time is up.
    pub fn code_in_time(
        &self,
        machine: &Machine,
        caches: Option<&Path>,
    ) -> Result<Code, StartError> {
        self.code_within(self.worker.time, machine, caches)
    }

    /// With what is left of the guest's time.
    pub(crate) fn with_time_until(&self, until: Instant) -> Self {
        /// A limit of none would be no limit.
        const LEAST: Duration = Duration::from_millis(1);
        let mut plan = self.clone();
        plan.worker.time = Some(until.saturating_duration_since(Instant::now()).max(LEAST));
        plan
    }

    fn code_within(
        &self,
        within: Option<Duration>,
        machine: &Machine,
        caches: Option<&Path>,
    ) -> Result<Code, StartError> {
        let cache = code::open_cache(caches);
        self.refuse_reach(cache.as_ref().ok())?;
        code::obtain(
            &self.module,
            Purpose::Program,
            &Compiler {
                path: &self.programs.compiler,
                machine,
                allow_degraded: &self.allow_degraded,
                within,
            },
            cache,
        )
    }

    /// What runs later guests, and their code, are none of this one's.
    fn refuse_reach(&self, cache: Option<&Cache>) -> Result<(), StartError> {
        let Programs { worker, compiler } = &self.programs;
        let kept = cache.into_iter().flat_map(Cache::paths);
        let all = kept.chain([worker.clone(), compiler.clone()]);
        match (self.worker.find_changeable(all), cache) {
            (None, _) => Ok(()),
            (Some(path), Some(cache)) if cache.paths().contains(&path) => {
                let path = cache.path.clone();
                Err(StartError::CacheInReach { path })
            }
            (Some(path), _) => Err(ProgramInReach { path }.into()),
        }
    }

    /// Starts the guest.
    ///
    /// # Errors
    ///
    /// When a step of the plan fails. Nothing of the domain is left then.
    pub fn launch(
        &self,
        code: &Code,
        launcher: &Launcher,
        streams: &Streams<'_>,
    ) -> Result<Domain, StartError> {
        let code = code.open()?;
        let (status, status_of_worker) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(StartError::Pipe)?;
        let own = [code.as_fd(), status_of_worker.as_fd()];
        let passed: Vec<_> = streams.passed.iter().copied().chain(own).collect();
        let streams = Streams {
            questions: None,
            passed: &passed,
            terminal: streams.terminal.clone(),
            ..*streams
        };
        let domain = launcher.launch(&self.worker, &streams)?;
        let program = self.worker.command.first().cloned().unwrap_or_default();
        Ok(
            domain.with_report_hook(ReportHook::new(move |report, ordered_ns| {
                let told = status::read(&read_status(status));
                complete(report, &program, ordered_ns, told)
            })),
        )
    }
}

/// The worker is gone, and with it whoever could write; should its end be held elsewhere all the same,
/// nobody waits.
fn read_status(pipe: OwnedFd) -> String {
    let _ = rustix::io::ioctl_fionbio(&pipe, true);
    let mut bytes = Vec::new();
    // What was read before an error counts.
    let _ = File::from(pipe).take(STATUS_BYTES).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The report of the guest, from that of its worker.
fn complete(
    mut report: Report,
    program: &str,
    ordered_ns: u64,
    told: Vec<Status>,
) -> Result<Report, DomainError> {
    report.wall = crate::plan::NAME.into();
    name_processes(&mut report, program);
    for status in told {
        match status {
            Status::Phase { .. } if report.phases.len() >= MOST_PHASES => {}
            Status::Phase { name, at_ns } => report.phases.push(Phase {
                name: visible(&name).into_owned(),
                done_us: at_ns.saturating_sub(ordered_ns) as f64 / 1000.0,
            }),
            Status::Trap(text) if report.trap.is_none() => {
                report.trap = Some(visible(&text).into_owned());
            }
            Status::Refused(text) if report.exit == NOT_RUN => {
                return Err(DomainError::NotRun(not_run(program.as_ref(), &text)));
            }
            Status::Stale(text) if report.exit == NOT_RUN => {
                return Err(DomainError::NotRun(format!(
                    "host: palisade-worker and palisade-compiler do not belong together ({}): build both anew",
                    visible(&text)
                )));
            }
            Status::Trap(_) | Status::Refused(_) | Status::Stale(_) => {}
        }
    }
    report
        .phases
        .sort_by(|one, other| one.done_us.total_cmp(&other.done_us));
    Ok(report)
}

/// The only process of the domain is the worker, and what it does is the guest's doing.
fn name_processes(report: &mut Report, program: &str) {
    let name = Path::new(program).file_name().unwrap_or_default();
    for process in report
        .denials
        .iter_mut()
        .filter_map(|denial| denial.process.as_mut())
    {
        process.name = visible(&name.to_string_lossy()).into_owned();
    }
}

#[cfg(test)]
mod tests;
