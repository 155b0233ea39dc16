//! The sentences: how the guest ended, and each denial.

use super::opens;
use crate::{denial, say};
use palisade_policy::{ConnectGrant, HostPattern, visible};
use palisade_wall::{Denial, Ending, Exit, Report};
use std::net::{IpAddr, Ipv4Addr};

/// A command line longer than this is cut.
const MOST_COMMAND_CHARS: usize = 120;

/// The whole explanation, in lines.
pub(super) fn explain(report: &Report) -> String {
    let mut text = format!("{}\n", describe_end(report));
    if report.denials.is_empty() {
        text += "Nothing was denied that the wall could tell of.\n";
    }
    for denial in &report.denials {
        text += &format!("- {}\n", describe(denial));
    }
    text
}

fn describe_end(report: &Report) -> String {
    let how = match (report.ending, report.exit) {
        (Ending::Guest, Exit::Code(0)) => "ended well".to_owned(),
        (Ending::Guest, Exit::Code(code)) => format!("ended itself with exit code {code}"),
        (Ending::Guest, Exit::Signal(signal)) => {
            format!("was ended by {}", say::signal_name(signal))
        }
        (Ending::TimeLimit, _) => "was ended, for it ran longer than --time allows".to_owned(),
        (Ending::CpuTimeLimit, _) => {
            "was ended, for it used more processor time than --cpu-time allows".to_owned()
        }
        (Ending::OutputLimit, _) => "was ended, for it wrote more than --output allows".to_owned(),
        (Ending::MemoryLimit, _) => {
            "was ended by the kernel, for it used more memory than --memory allows".to_owned()
        }
        (Ending::Supervisor, _) => "was ended by whoever had started it".to_owned(),
    };
    let code = match report.exit {
        Exit::Code(code) if report.exit_code == code => String::new(),
        _ => format!("; palisade answered with exit code {}", report.exit_code),
    };
    format!("{} {how}{code}.", command_of(report))
}

fn command_of(report: &Report) -> String {
    let words = report
        .command
        .iter()
        .map(|word| denial::quote(&visible(word)));
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_COMMAND_CHARS) {
        Some((end, _)) => format!("`{} …`", &line[..end]),
        None => format!("`{line}`"),
    }
}

/// Who tried what, why it was refused, which flag would allow it, what that would open.
fn describe(denial: &Denial) -> String {
    let who = match &denial.process {
        Some(process) => format!("{} (process {})", visible(&process.name), process.pid),
        None => "The guest".to_owned(),
    };
    let times = denial::times(denial).map_or_else(String::new, |times| format!(" {times}"));
    let what = visible(&denial.what);
    if denial.probe {
        return format!(
            "{who} tried the route for {what}{times}, as getaddrinfo(3) does with each address of a \
             name: nothing is lost by it, and a grant is needed only if the program fails."
        );
    }
    format!(
        "{who} wanted {what}{times}, {}; {}.",
        reason_of(denial),
        advise(denial)
    )
}

fn reason_of(denial: &Denial) -> String {
    let grant = denial.grant.as_deref().unwrap_or_default();
    match grant.split_once(' ') {
        None if grant.is_empty() => "which no policy can allow".to_owned(),
        None => format!("which is beyond the limit {}", visible(grant)),
        Some(("--listen", _)) => "which no --listen grant covers".to_owned(),
        Some(_) => match denial.address.as_deref().and_then(single_address) {
            Some(address) => reason_of_address(address).to_owned(),
            None => "which no grant covers".to_owned(),
        },
    }
}

/// The one address of `tcp://192.0.2.1:443`.
fn single_address(address: &str) -> Option<IpAddr> {
    match address.parse() {
        Ok(ConnectGrant::Internet {
            host: HostPattern::Network(network),
            ..
        }) if network.is_single() => Some(network.address),
        _ => None,
    }
}

/// The ranges that only a grant of their own opens come first.
fn reason_of_address(address: IpAddr) -> &'static str {
    match address {
        _ if opens::is_metadata(address) => {
            "a cloud's metadata service, which only a grant of that very address opens"
        }
        _ if address.is_loopback() => {
            "this machine's own loopback, which only a grant that names it opens"
        }
        _ if is_link_local(address) => {
            "a link-local address, which only a grant within that range opens"
        }
        _ if address.is_multicast() || address == Ipv4Addr::BROADCAST => {
            "the address of a group, which only a grant within that range opens"
        }
        _ if is_private(address) => {
            "a private address, which no grant covers (a granted name does not lead to one)"
        }
        _ => "which no grant covers",
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// RFC 1918, RFC 6598 (carriers' own), RFC 4193.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            address.is_private() || first == 100 && second & 0xc0 == 64
        }
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

fn advise(denial: &Denial) -> String {
    let Some(flag) = denial::flag(denial) else {
        return "no flag changes that".to_owned();
    };
    let grant = denial.grant.as_deref().unwrap_or_default();
    match opens::describe(grant) {
        Some(opened) => format!("`{flag}` would open {opened}"),
        None if grant.contains(' ') => format!("`{flag}` would allow it"),
        None => format!("a larger `{flag}` would allow it"),
    }
}
