//! What a connection takes that palisade is asked for: the instructions of all threads that answer a guest's socket(2) and
//! connect(2), from its call to its return.
//!
//! ```text
//!  this program ── steps the threads of ──▶ itself as host ──▶ itself as guest
//!       └── a byte: once more ───────────────────────────────────▶ │ socket, connect, close
//!       ◀── a byte: done ──────────────────────────────────────────┘
//! ```
//!
//! Those threads block signals, so that they can't count their own steps: another process does (ptrace(2)).

use crate::{median, sys};
use anyhow::{Context, bail, ensure};
use palisade::{Domain, Policy, Stdio};
use std::{
    env, fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    path::Path,
    process::{Command, Stdio as Piped},
};

pub(crate) const NAME: &str = "connect";
/// The words by which this program is the other two.
pub(crate) const HOST: &str = "connect-host";
pub(crate) const GUEST: &str = "connect-guest";

/// Connections before the first that is counted.
const WARM_UP: usize = 3;
const COUNTED: usize = 7;

/// Prints the count.
pub(crate) fn tell() -> anyhow::Result<()> {
    let own = env::current_exe().context("host: this program has no path")?;
    let mut host = Command::new(own)
        .arg(HOST)
        .stdin(Piped::piped())
        .stdout(Piped::piped())
        .spawn()
        .context("host: this program cannot be run again")?;
    let counts = count(&mut host);
    // Its domain ends with it.
    let _ = host.kill();
    sys::wait_for_all();
    println!("{}", median(counts?));
    Ok(())
}

fn count(host: &mut std::process::Child) -> anyhow::Result<Vec<u64>> {
    let (mut ask, mut hear) = host
        .stdin
        .take()
        .zip(host.stdout.take())
        .context("no pipes")?;
    // The guest runs, and so, by the host's word, do all threads that answer it. Where there is no wall nothing can be counted.
    hear.read_exact(&mut [0; 2])
        .map_err(sys::NoSteps::because)?;
    let mut threads =
        sys::Threads::of(host.id(), &answering(host.id())?).map_err(sys::NoSteps::because)?;
    let mut counts = Vec::with_capacity(COUNTED);
    for turn in 0..WARM_UP + COUNTED {
        ask.write_all(&[0]).context("wall: the guest has ended")?;
        let steps = threads.step_until(|| has_answered(&mut hear))?;
        if turn >= WARM_UP {
            counts.push(steps);
        }
    }
    match counts.iter().all(|count| *count > 0) {
        true => Ok(counts),
        false => Err(sys::NoSteps::none().into()),
    }
}

/// All threads but the first, which waits for the guest's end.
fn answering(pid: u32) -> anyhow::Result<Vec<i32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("host: /proc can't be read")?;
    let names = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.filter(|thread| *thread != pid as i32).collect())
}

fn has_answered(hear: &mut std::process::ChildStdout) -> anyhow::Result<bool> {
    if !sys::is_readable(hear.as_fd()) {
        return Ok(false);
    }
    let heard = hear.read(&mut [0]).context("host: a pipe can't be read")?;
    ensure!(heard == 1, "guest: it cannot connect, see above");
    Ok(true)
}

/// Runs the guest to its end, with streams of this program's.
pub(crate) fn host() -> anyhow::Result<()> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("host: nothing can be listened on")?;
    let address = listener.local_addr().context("host: no address")?;
    let own = env::current_exe().context("host: this program has no path")?;
    let text = format!("[grants]\nread = [{own:?}]\nconnect = [\"tcp://{address}\"]\n");
    let policy = Policy::from_toml(&text, "policy.toml", Path::new("/"))
        .context("wall: this is no policy")?;
    let domain = Domain::builder(&own)
        .args([GUEST, &address.to_string()])
        .policy(policy)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()
        .context("wall: no guest")?;
    io::stdout()
        .write_all(&[0])
        .and_then(|()| io::stdout().flush())
        .context("nobody hears")?;
    let report = domain.wait().context("wall: no report")?;
    ensure!(
        report.exit_code == 0,
        "the guest ended with {}",
        report.exit
    );
    Ok(())
}

/// Connects once for each byte.
pub(crate) fn guest(address: &str) -> anyhow::Result<()> {
    let address: SocketAddr = address.parse().context("no address")?;
    let (mut asked, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut tell = || answers.write_all(&[0]).and_then(|()| answers.flush());
    tell().context("nobody hears")?;
    while asked.read(&mut [0]).context("nobody asks")? == 1 {
        if let Err(error) = TcpStream::connect(address) {
            bail!("cannot connect to {address}: {error}");
        }
        tell().context("nobody hears")?;
    }
    Ok(())
}
