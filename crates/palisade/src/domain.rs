//! A running guest.

mod asks;
mod builder;

pub use builder::{Builder, Prepared};

use crate::{Error, Level, Report};
use rustix::event::{PollFd, PollFlags};
use std::{
    ffi::OsStr,
    io::{PipeReader, PipeWriter, Read},
    os::fd::AsFd,
    time::Duration,
};

/// A guest behind a wall. Dropping it ends the guest and everything the guest started.
#[derive(Debug)]
pub struct Domain {
    pub(crate) inner: Box<dyn palisade_wall::Domain>,
    /// The guest's standard input, if it was piped. Drop it to give the guest an end of file.
    pub stdin: Option<PipeWriter>,
    /// The guest's standard output, if it was piped.
    pub stdout: Option<PipeReader>,
    /// The guest's standard error, if it was piped.
    pub stderr: Option<PipeReader>,
    /// Whether stdout and stderr were piped at the start.
    pub(crate) piped: [bool; 2],
    pub(crate) output_bytes: Option<u64>,
}

/// What a guest wrote, and how it ended.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub report: Report,
    /// What it wrote to a piped standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to a piped standard error.
    pub stderr: Vec<u8>,
}

impl Domain {
    /// A guest to be: this program, with nothing granted but the read-only system view.
    pub fn builder(program: impl AsRef<OsStr>) -> Builder {
        Builder::new(program.as_ref().into())
    }

    /// Pid of the domain's first process on the host.
    pub fn id(&self) -> u32 {
        self.inner.pid()
    }

    /// Grants the guest more while it runs: a flag of `palisade run` with its value. Single hosts, names and networks, places to
    /// listen, files and folders by absolute paths, of a guest that was started with [`Builder::grantable`].
    ///
    /// ```no_run
    /// use palisade::Domain;
    ///
    /// let domain = Domain::builder("npm").arg("ci").write("/srv/app").grantable().spawn()?;
    /// domain.grant("--connect tcp://registry.npmjs.org:443")?;
    /// domain.grant("--read /srv/data")?;
    /// # Ok::<(), palisade::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When it was not, or this takes a start.
    pub fn grant(&self, flag: &str) -> Result<(), Error> {
        self.inner.give(flag).map_err(Error::NotGranted)
    }

    /// Takes back what was granted so. What is open stays open.
    ///
    /// # Errors
    ///
    /// When nothing was granted by this flag while the guest runs.
    pub fn revoke(&self, flag: &str) -> Result<(), Error> {
        self.inner.take_back(flag).map_err(Error::NotGranted)
    }

    /// Sends the guest's process group a signal, by its number.
    ///
    /// # Errors
    ///
    /// When the guest has ended.
    pub fn signal(&self, number: i32) -> Result<(), Error> {
        self.inner.signal(number).map_err(Error::Domain)
    }

    /// Ends the guest and everything it started.
    ///
    /// # Errors
    ///
    /// When the guest has ended.
    pub fn kill(&self) -> Result<(), Error> {
        self.inner.kill().map_err(Error::Domain)
    }

    /// Waits until the guest has ended and nothing of the domain is left. Standard input is closed
    /// first. With a launcher that parks ahead ([`Launcher::park_ahead`](crate::Launcher::park_ahead)) every process of the guest's
    /// is gone then, and palisade's own, the domain's first, may still be ending.
    ///
    /// # Errors
    ///
    /// When the wall itself failed while the guest ran.
    pub fn wait(mut self) -> Result<Report, Error> {
        drop(self.stdin.take());
        let report = self.inner.wait().map_err(Error::Domain)?;
        Ok(with_output_uncounted(self.piped, report))
    }

    /// The report, if the guest has ended and nothing of the domain is left, as [`Domain::wait`] tells it; `None` while it
    /// runs. Never waits for the guest, and leaves its standard input open.
    ///
    /// Once there is a report, it is given again by every later call, and by [`Domain::wait`]. A domain that is
    /// dropped instead is ended, as ever.
    ///
    /// ```no_run
    /// use palisade::Domain;
    ///
    /// let mut domain = Domain::builder("make").write("/srv/build").spawn()?;
    /// match domain.try_wait()? {
    ///     Some(report) => println!("it ended: {}", report.exit),
    ///     None => println!("it runs"),
    /// }
    /// # Ok::<(), palisade::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the wall itself failed while the guest ran.
    pub fn try_wait(&mut self) -> Result<Option<Report>, Error> {
        self.wait_no_longer_than(Duration::ZERO)
    }

    /// Waits as [`Domain::wait`] does, no longer than `most`; `None` if the guest runs still. Standard input is
    /// closed first.
    ///
    /// The guest goes on after a `None`: wait again, [`kill`](Domain::kill) it, or drop the domain. One that
    /// should end by itself is given [`Builder::time`]. Nobody reads its piped streams meanwhile: a guest that
    /// writes more to one than a pipe holds waits for its reader.
    ///
    /// ```no_run
    /// use palisade::Domain;
    /// use std::time::Duration;
    ///
    /// let mut domain = Domain::builder("make").write("/srv/build").spawn()?;
    /// while domain.wait_timeout(Duration::from_secs(1))?.is_none() {
    ///     println!("still building");
    /// }
    /// # Ok::<(), palisade::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the wall itself failed while the guest ran.
    pub fn wait_timeout(&mut self, most: Duration) -> Result<Option<Report>, Error> {
        drop(self.stdin.take());
        self.wait_no_longer_than(most)
    }

    fn wait_no_longer_than(&mut self, most: Duration) -> Result<Option<Report>, Error> {
        let report = self.inner.wait_timeout(most).map_err(Error::Domain)?;
        Ok(report.map(|report| with_output_uncounted(self.piped, report)))
    }

    /// Reads the piped streams to their end, then waits. The limit on output is held here, for all that is still to
    /// be read; a stream that was taken out before is not counted, and the report says so.
    ///
    /// # Errors
    ///
    /// When the wall failed while the guest ran, or a stream can't be read.
    pub fn wait_with_output(mut self) -> Result<Output, Error> {
        drop(self.stdin.take());
        let counts_all = [&self.stdout, &self.stderr].map(Option::is_some) == self.piped;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut left = self.output_bytes.unwrap_or(u64::MAX);
        while self.stdout.is_some() || self.stderr.is_some() {
            let [from_stdout, from_stderr] = self.wait_for_streams()?;
            let fits = (!from_stdout || collect(&mut self.stdout, &mut stdout, &mut left)?)
                & (!from_stderr || collect(&mut self.stderr, &mut stderr, &mut left)?);
            if !fits {
                self.inner.end_for_output();
                break;
            }
        }
        let mut report = self.inner.wait().map_err(Error::Domain)?;
        if !counts_all {
            report = with_output_uncounted(self.piped, report);
        }
        report.usage.output_bytes = Some((stdout.len() + stderr.len()) as u64);
        Ok(Output {
            report,
            stdout,
            stderr,
        })
    }

    /// Which of stdout and stderr have something to read.
    fn wait_for_streams(&self) -> Result<[bool; 2], Error> {
        let streams = [self.stdout.as_ref(), self.stderr.as_ref()];
        let mut fds: Vec<_> = streams
            .iter()
            .flatten()
            .map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN))
            .collect();
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))
            .map_err(std::io::Error::from)?;
        let mut events = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok(streams.map(|stream| stream.is_some() && events.next().unwrap_or(false)))
    }
}

/// The report of a guest whose piped streams were left to the host program: it counts, if anybody does.
fn with_output_uncounted(piped: [bool; 2], mut report: Report) -> Report {
    let rows = report.enforcement.iter_mut();
    for row in rows.filter(|row| row.capability == "output" && piped != [false; 2]) {
        row.actual = Level::None;
        row.mechanism =
            "the host program reads the streams itself, rather than by wait_with_output".into();
    }
    report
}

/// Takes what a stream has; closes it at its end. `false` if it has more than is left.
fn collect(
    stream: &mut Option<PipeReader>,
    into: &mut Vec<u8>,
    left: &mut u64,
) -> Result<bool, Error> {
    let Some(reader) = stream else {
        return Ok(true);
    };
    let mut buffer = [0; 64 * 1024];
    let length = reader.read(&mut buffer)?;
    if length == 0 {
        *stream = None;
    }
    let kept = length.min(usize::try_from(*left).unwrap_or(usize::MAX));
    into.extend_from_slice(&buffer[..kept]);
    *left -= kept as u64;
    Ok(kept == length)
}
