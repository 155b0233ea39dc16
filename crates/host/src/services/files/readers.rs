//! Who opens and reads what is served: threads that Landlock holds to the folders of one configuration.
//!
//! A worker finds the file of a request, and would find it outside the folder if one check of a name or a link were
//! wrong. So workers open nothing themselves. Rules hold for a thread, not for a process (landlock(7)), and are never
//! widened: another configuration has other threads. Threads share memory, so this holds what goes astray, and not
//! whoever executes code of his own in the server.

use super::load::Fault;
use palisade_process::{ConfineError, Confinement};
use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// They wait for disks: more of them only wait longer.
const MOST_THREADS: usize = 16;

/// How long one of them waits for more to do. A tenant has its own, thousands may have been asked for something a second
/// ago, and another thread is made in less time than a disk takes.
const KEPT: Duration = Duration::from_millis(200);

/// Why nobody reads.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum ReadersError {
    #[error("host: cannot start a thread that reads what is served: {0}")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Confine(#[from] ConfineError),
}

thread_local! {
    static IS_CONFINED: Cell<bool> = const { Cell::new(false) };
}

/// The threads. They are started when there is something to do, and hold nothing open before: a server has as many of these as
/// tenants with files.
#[derive(Debug)]
pub(super) struct Readers {
    folders: Arc<[Arc<OwnedFd>]>,
    landlock_abi: Option<u32>,
    /// From the first request until this is dropped. One without drivers opens nothing, and so can be built.
    runtime: OnceLock<Option<Runtime>>,
}

impl Readers {
    /// Those who read below `folders`; without `landlock_abi` they are held by nothing.
    pub(super) fn new(
        folders: impl IntoIterator<Item = Arc<OwnedFd>>,
        landlock_abi: Option<u32>,
    ) -> Result<Self, ReadersError> {
        let folders: Arc<[_]> = folders.into_iter().collect();
        if let Some(abi) = landlock_abi {
            try_rules(confinement(&folders, abi)?)?;
        }
        Ok(Self {
            folders,
            landlock_abi,
            runtime: OnceLock::new(),
        })
    }

    fn runtime(&self) -> Option<&Runtime> {
        let build = || {
            let threads = Builder::new_current_thread()
                .max_blocking_threads(MOST_THREADS)
                .thread_keep_alive(KEPT)
                .thread_name("files")
                .build();
            threads.ok()
        };
        self.runtime.get_or_init(build).as_ref()
    }

    /// Has one of them do something that may wait for a disk.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let Some(runtime) = self.runtime() else {
            return Err(Fault::Busy);
        };
        let (folders, landlock_abi) = (Arc::clone(&self.folders), self.landlock_abi);
        // Rules that were accepted once can be refused later only for want of memory, and not for ever.
        let work = move || match is_confined(&folders, landlock_abi) {
            true => work(),
            false => Err(Fault::Busy),
        };
        // A panic was told of by its hook.
        let done = runtime.spawn_blocking(work).await;
        done.unwrap_or(Err(Fault::Busy))
    }
}

/// Whether this thread, which reads for one configuration alone, has its rules: it takes them on before it first reads.
fn is_confined(folders: &[Arc<OwnedFd>], landlock_abi: Option<u32>) -> bool {
    let confine = |abi| confinement(folders, abi)?.enter();
    if !IS_CONFINED.get() {
        IS_CONFINED.set(landlock_abi.is_none_or(|abi| confine(abi).is_ok()));
    }
    IS_CONFINED.get()
}

fn confinement(folders: &[Arc<OwnedFd>], abi: u32) -> Result<Confinement, ConfineError> {
    Confinement::to_read(folders.iter().map(|folder| folder.as_fd()), abi)
}

/// What the kernel says of such rules is said now, and not at the first request. That a thread may have them is the same for
/// all, and tried once.
fn try_rules(confinement: Confinement) -> Result<(), ReadersError> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    if ARE_TAKEN.load(Ordering::Relaxed) {
        return Ok(());
    }
    let thread = thread::Builder::new().spawn(move || confinement.enter());
    let entered = thread.map_err(ReadersError::Thread)?.join();
    let broken = || ReadersError::Thread(io::ErrorKind::Other.into());
    entered.map_err(|_| broken())??;
    ARE_TAKEN.store(true, Ordering::Relaxed);
    Ok(())
}

impl Drop for Readers {
    /// Who waits for a disk may wait for ever.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take().flatten() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, time::Instant};

    fn threads_called(name: &str) -> usize {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|found| found.trim() == name).count()
    }

    /// Rules are a descriptor each.
    #[test]
    fn readers_hold_nothing_open_beside_their_folders() {
        const MANY: usize = 40;
        let abi = palisade_process::Machine::probe().landlock_abi;
        let folder = Arc::new(OwnedFd::from(fs::File::open("/").unwrap()));
        let all: Vec<_> = (0..MANY)
            .map(|_| Readers::new([Arc::clone(&folder)], abi).unwrap())
            .collect();
        let runtime = Builder::new_current_thread().build().unwrap();
        for readers in &all {
            let is_there = || Ok(fs::exists("/").unwrap());
            assert!(matches!(runtime.block_on(readers.read(is_there)), Ok(true)));
        }
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        let rules = links.filter(|link| link.to_string_lossy().contains("landlock"));
        // Other tests may have some.
        assert!(rules.count() < MANY / 2);
    }

    #[test]
    fn readers_of_many_that_were_asked_once_do_not_wait_for_more() {
        const MANY: usize = 40;
        let all: Vec<_> = (0..MANY).map(|_| Readers::new([], None).unwrap()).collect();
        let runtime = Builder::new_current_thread().build().unwrap();
        for readers in &all {
            let done = runtime.block_on(readers.read(|| Ok(7)));
            assert!(matches!(done, Ok(7)));
        }
        // Other tests have such threads as well, for as long as they run.
        let (began, most) = (Instant::now(), MANY / 2);
        while threads_called("files") > most {
            assert!(began.elapsed() < Duration::from_secs(5), "they wait");
            thread::yield_now();
        }
    }
}
