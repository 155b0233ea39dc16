//! Waiting for what the kernel still does when a program has ended.
//!
//! It takes network namespaces down in a thread of its own, some milliseconds long, and whatever is started meanwhile shares a
//! processor with that: it would stand in the figure of whoever comes next.

use crate::{Trial, sample::Reading};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Looks in a row at which nobody else wants a processor. Each takes some 0.1 ms.
const QUIET_LOOKS: usize = 40;
/// Somebody else may want one all the time.
const LONGEST: Duration = Duration::from_millis(50);

/// A trial that begins when that is done.
pub(crate) struct Rested(pub(crate) Box<dyn Trial>);

impl Trial for Rested {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        wait_for_rest();
        self.0.run_once()
    }
}

fn wait_for_rest() {
    let began = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET_LOOKS && began.elapsed() < LONGEST {
        quiet = match running() {
            // This one.
            Some(..=1) => quiet + 1,
            Some(_) => 0,
            None => return,
        };
        thread::yield_now();
    }
}

/// How many processes and threads of all have a processor or wait for one (proc_stat(5)).
fn running() -> Option<u32> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let running = stat
        .lines()
        .find_map(|line| line.strip_prefix("procs_running "))?;
    running.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_how_many_run() {
        assert!(running().is_some_and(|running| running >= 1));
        let began = Instant::now();
        wait_for_rest();
        assert!(began.elapsed() < LONGEST * 20, "it is bounded");
    }
}
