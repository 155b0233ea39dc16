//! How many instructions the shortest paths take, each in this process: requests between their heads and their answers'
//! heads, through routes, filters and the service of files; a call of a guest; and the plan of a start. No socket, no HTTP. And
//! how many a guest's connection takes, in the threads that make it.
//!
//! ```text
//! palisade-lab-instructions NAME                COUNT
//! palisade-lab-instructions times NAME          NS NS …
//! palisade-lab-instructions addresses NAME      ADDRESS ADDRESS …: addr2line(1) names them
//! palisade-lab-instructions first PROGRAM [ARGUMENT…]
//!                                               ADDRESS ADDRESS …: of another program, each where it first comes there
//! ```
//!
//! A count is of user space and of the thread that asks: a processor's single steps, which virtual machines have too, where
//! they have no counter of instructions. It differs from processor to processor by what the C library and the compiler of guests
//! make of each. What is done once only — the file read, the filter started — is done before.
//!
//! `palisade-compiler` and `palisade-worker` are to lie beside it.

mod call;
mod connect;
mod first;
mod plan;
mod requests;
#[cfg_attr(not(target_arch = "x86_64"), path = "sys_elsewhere.rs")]
#[allow(
    unsafe_code,
    reason = "steps are taken by a flag of the processor, and counted by a signal's handler"
)]
mod sys;

use anyhow::{Context, bail, ensure};
use std::{env, path::PathBuf, process::ExitCode, time::Instant};

/// The exit code where nothing can be counted.
const CANNOT_COUNT: u8 = 77;

/// Passes before the first that is counted: what is done at the first few only, of allocators and of measured callbacks.
const WARM_UP: usize = 300;
/// Passes that are counted, each by itself. The median leaves out what is done at each so many.
const COUNTED: usize = 5;
/// With so many instructions those that were counted are enough: each takes some µs.
const ENOUGH: u64 = 2_000_000;
/// Batches whose time is told, and passes in each.
const BATCHES: usize = 400;
const IN_BATCH: u32 = 100;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-lab-instructions: {error:#}");
            match error.is::<sys::NoSteps>() {
                true => ExitCode::from(CANNOT_COUNT),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn run() -> anyhow::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (tell, name): (Tell, _) = match words[..] {
        [connect::NAME] => return connect::tell(),
        [connect::HOST] => return connect::host(),
        [connect::GUEST, address] => return connect::guest(address),
        [name] => (tell_count, name),
        ["times", name] => (tell_times, name),
        ["addresses", name] => (tell_addresses, name),
        ["first", program, ref arguments @ ..] => return first::tell(program, arguments),
        _ => bail!(
            "usage: palisade-lab-instructions [times|addresses] {}|{}|{}, {} or first PROGRAM [ARGUMENT…]",
            call::NAME,
            plan::NAME,
            requests::names().join("|"),
            connect::NAME
        ),
    };
    match name {
        call::NAME => call::run(tell),
        plan::NAME => plan::run(tell),
        _ => requests::run(name, tell),
    }
}

/// The folder of this program, where the compiler is.
fn beside() -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("host: this program has no path")?;
    let folder = own.parent().context("host: this program has no folder")?;
    Ok(folder.into())
}

/// Something that is done again and again.
struct Work<'a> {
    /// Sees to what has to be seen to now and then, such as whether a file has changed: no pass is to meet that.
    before: &'a mut dyn FnMut(),
    /// Does it once. Whether that was done as it is nearly always.
    pass: &'a mut dyn FnMut() -> bool,
}

/// Tells of it.
type Tell = fn(Work<'_>) -> anyhow::Result<()>;

fn warm_up(work: &mut Work<'_>) -> anyhow::Result<()> {
    let done = (0..WARM_UP).filter(|_| (work.pass)()).count();
    (work.before)();
    ensure!(done > WARM_UP / 2, "host: what is to be counted fails");
    Ok(())
}

fn tell_count(mut work: Work<'_>) -> anyhow::Result<()> {
    warm_up(&mut work)?;
    let empty = sys::count(&mut || {})?.unwrap_or_default();
    let mut counts = Vec::with_capacity(COUNTED);
    for _ in 0..4 * COUNTED {
        if counts.len() < COUNTED && counts.iter().sum::<u64>() < ENOUGH {
            let mut is_done = false;
            (work.before)();
            let count = sys::count(&mut || is_done = (work.pass)())?;
            counts.extend(count.filter(|_| is_done));
        }
    }
    ensure!(
        counts.len() == COUNTED || counts.iter().sum::<u64>() >= ENOUGH,
        "host: hardly a pass can be counted to its end"
    );
    println!("{}", median(counts) - empty);
    Ok(())
}

/// Of at least one.
fn median(mut counts: Vec<u64>) -> u64 {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

fn tell_times(mut work: Work<'_>) -> anyhow::Result<()> {
    warm_up(&mut work)?;
    let times = (0..BATCHES).map(|_| {
        let began = Instant::now();
        (0..IN_BATCH).for_each(|_| _ = (work.pass)());
        let took_ns = began.elapsed().as_nanos() as f64;
        format!("{:.1}", took_ns / f64::from(IN_BATCH))
    });
    println!("{}", times.collect::<Vec<_>>().join(" "));
    Ok(())
}

fn tell_addresses(mut work: Work<'_>) -> anyhow::Result<()> {
    warm_up(&mut work)?;
    let addresses = sys::addresses(&mut || _ = (work.pass)())?;
    let addresses = addresses.iter().map(|address| format!("{address:x}"));
    println!("{}", addresses.collect::<Vec<_>>().join(" "));
    Ok(())
}
