//! Asks servers over HTTP/1.1 and tells how long they took: the clients of the lab's rows of servers. One thread,
//! one epoll instance, connections that are kept; no runtime whose own work would be in the figures.
//!
//! ```text
//! palisade-lab-load [--sleep] paired [--post FILE] REQUESTS CONNECTIONS URL URL …
//! palisade-lab-load [--sleep] offered RATE[,RATE…] MS CONNECTIONS URL
//! palisade-lab-load [--sleep] busy MS CONNECTIONS URL
//! palisade-lab-load [--sleep] among MS CONNECTIONS zipf|even LIST
//! palisade-lab-load [--sleep] each LIST
//! palisade-lab-load [--sleep] paced HERTZ MS CLIENTS LIST
//! ```
//!
//! - `paired` asks one at a time, each URL once before any is asked again, in an order that turns, and keeps every
//!   latency: what is slow for a moment is slow for all. With `--post` each request has the file as its body.
//! - `offered` sends at fixed times whatever comes back (an open loop) and counts a latency from the time at which
//!   the request was due: a server that falls behind cannot hide it by being asked less.
//! - `busy` asks again on each connection as soon as it is answered (a closed loop).
//! - `among` does so for any of many addresses of one server, all as often or by Zipf's law, the first the most.
//! - `each` asks for each address once, one after the other.
//! - `paced` has so many clients of each address ask at a steady pace.
//!
//! A LIST is a file with an address on each line: `URL`, or `URL HOST` where another host is asked for than the server's
//! address.
//!
//! It prints JSON. An answer other than 200, one that breaks off, and one of another length than the first are
//! counted as [`failures::Failures`]; who reads the figures decides. Give it a processor of its own (taskset(1)):
//! it looks for answers without sleeping, for the time that a processor takes to wake up is longer than many an
//! answer. `--sleep` is for machines that have one processor only.

mod address;
mod busy;
mod choice;
mod connection;
mod each;
mod failures;
mod figures;
mod offered;
mod paced;
mod paired;
#[cfg(test)]
mod tests;
mod watch;

use address::Address;
use anyhow::{Context, bail};
use choice::{Choice, Popularity};
use std::{env, fs, process::ExitCode, time::Duration};
use watch::Wait;

const USAGE: &str =
    "usage: palisade-lab-load [--sleep] paired [--post FILE] REQUESTS CONNECTIONS URL URL …
       palisade-lab-load [--sleep] offered RATE[,RATE…] MS CONNECTIONS URL
       palisade-lab-load [--sleep] busy MS CONNECTIONS URL
       palisade-lab-load [--sleep] among MS CONNECTIONS zipf|even LIST
       palisade-lab-load [--sleep] each LIST
       palisade-lab-load [--sleep] paced HERTZ MS CLIENTS LIST";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("palisade-lab-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> anyhow::Result<String> {
    let (wait, words) = match words {
        ["--sleep", words @ ..] => (Wait::Sleep, words),
        words => (Wait::Spin, words),
    };
    let told = match words {
        ["paired", "--post", file, words @ ..] => {
            let body = fs::read(file).with_context(|| format!("host: cannot read {file}"))?;
            serde_json::to_string(&ask_paired(words, wait, |address| address.posting(&body))?)
        }
        ["paired", words @ ..] => {
            serde_json::to_string(&ask_paired(words, wait, |address| address)?)
        }
        ["offered", rates, ms, connections, url] => {
            let rates: anyhow::Result<Vec<usize>> = rates.split(',').map(number).collect();
            let how = offered::How {
                rates: rates?,
                time: milliseconds(ms)?,
                connections: number(connections)?,
                wait,
            };
            serde_json::to_string(&offered::ask(&url.parse()?, &how)?)
        }
        ["busy", ms, connections, url] => {
            let how = busy::How {
                time: milliseconds(ms)?,
                connections: number(connections)?,
                wait,
            };
            let address = url.parse()?;
            let choice = Choice::new(1, Popularity::Even);
            serde_json::to_string(&busy::ask(&[address], choice, &how)?)
        }
        ["among", ms, connections, popularity, list] => {
            let how = busy::How {
                time: milliseconds(ms)?,
                connections: number(connections)?,
                wait,
            };
            let addresses = listed(list)?;
            let choice = Choice::new(addresses.len(), popularity_of(popularity)?);
            serde_json::to_string(&busy::ask(&addresses, choice, &how)?)
        }
        ["each", list] => serde_json::to_string(&each::ask(&listed(list)?, wait)?),
        ["paced", hertz, ms, clients, list] => {
            let how = paced::How {
                hertz: number(hertz)?,
                time: milliseconds(ms)?,
                clients: number(clients)?,
                wait,
            };
            serde_json::to_string(&paced::ask(&listed(list)?, &how)?)
        }
        _ => bail!("{USAGE}"),
    };
    told.context("host: cannot write figures")
}

/// `REQUESTS CONNECTIONS URL URL …`
fn ask_paired(
    words: &[&str],
    wait: Wait,
    ask_for: impl Fn(Address) -> Address,
) -> anyhow::Result<paired::Told> {
    let [requests, connections, urls @ ..] = words else {
        bail!("{USAGE}");
    };
    let how = paired::How {
        requests: number(requests)?,
        connections: number(connections)?,
        wait,
    };
    let addresses = urls.iter().map(|url| Ok(ask_for(url.parse()?)));
    let addresses: Vec<Address> = addresses.collect::<anyhow::Result<_>>()?;
    if addresses.len() < 2 {
        bail!("{USAGE}");
    }
    paired::ask(&addresses, &how)
}

fn listed(file: &str) -> anyhow::Result<Vec<Address>> {
    let list = fs::read_to_string(file).with_context(|| format!("host: cannot read {file}"))?;
    Address::listed(&list).with_context(|| file.to_owned())
}

fn popularity_of(word: &str) -> anyhow::Result<Popularity> {
    match word {
        "even" => Ok(Popularity::Even),
        "zipf" => Ok(Popularity::Zipf),
        _ => bail!("{word:?} is neither `zipf` nor `even`\n{USAGE}"),
    }
}

/// One at least.
fn number(word: &str) -> anyhow::Result<usize> {
    match word.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => bail!("{word:?} is no number above 0\n{USAGE}"),
    }
}

fn milliseconds(word: &str) -> anyhow::Result<Duration> {
    Ok(Duration::from_millis(number(word)? as u64))
}
