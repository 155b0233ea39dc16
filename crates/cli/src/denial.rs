//! A denial in words. Guests choose names and addresses: all of it is made visible, and a flag is
//! quoted so that a shell takes it as the one word it is.

use palisade_network::address::is_metadata;
use palisade_policy::{ConnectGrant, HostPattern, visible};
use palisade_process::places::IN_PART;
use palisade_wall::Denial;

/// What is to be had at [`is_metadata`]'s addresses: whoever reads a flag types it, and should know.
pub(crate) const CREDENTIALS: &str = "a cloud may hand out this machine's credentials";

/// `a connection to tcp://192.0.2.1:443 (curl, 3 times): --connect tcp://192.0.2.1:443`
pub(crate) fn line(denial: &Denial) -> String {
    let name = denial
        .process
        .as_ref()
        .map(|process| visible(&process.name));
    let around: Vec<_> = name
        .into_iter()
        .chain(times(denial).map(Into::into))
        .chain(is_of_metadata(denial).then(|| format!("{CREDENTIALS} there").into()))
        .collect();
    let around = match around.as_slice() {
        [] => String::new(),
        around => format!(" ({})", around.join(", ")),
    };
    let flag = denial.grant.as_deref().map(flag);
    let flag = flag.unwrap_or_else(|| without_flag(denial).to_owned());
    format!("{}{around}: {flag}", visible(&denial.what))
}

/// What is said in place of a flag.
pub(crate) fn without_flag(denial: &Denial) -> &'static str {
    let reason = denial.reason.as_deref().unwrap_or_default();
    match reason.ends_with(IN_PART) {
        true => IN_PART,
        false => "no flag allows it",
    }
}

/// Whether it would have reached what hands out a machine's credentials.
fn is_of_metadata(denial: &Denial) -> bool {
    let address = denial.address.as_deref();
    match address.and_then(|address| address.parse().ok()) {
        Some(ConnectGrant::Internet {
            host: HostPattern::Network(network),
            ..
        }) => is_metadata(network.address),
        _ => false,
    }
}

/// How often, where it was more than once.
pub(crate) fn times(denial: &Denial) -> Option<String> {
    let count = denial.count.filter(|count| *count > 1)?;
    Some(format!("{count} times"))
}

/// A flag and its value as they can be typed.
pub(crate) fn flag(grant: &str) -> String {
    let grant = visible(grant);
    match grant.split_once(' ') {
        Some((flag, value)) => format!("{} {}", quote(flag), quote(value)),
        None => quote(&grant),
    }
}

/// `word` as a shell's word.
pub(crate) fn quote(word: &str) -> String {
    // Only a NUL byte cannot be quoted, and there is none left in visible text.
    shlex::try_quote(word).map_or_else(|_| String::from("''"), |quoted| quoted.into_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use palisade_wall::Process;

    /// What the broker denies: `name` tried `call` with `address`.
    pub(crate) fn refused(call: &str, address: &str, flag: &str) -> Denial {
        let noun = match call {
            "listen" | "bind" => "a listener at",
            _ => "a connection to",
        };
        Denial {
            what: format!("{noun} {address}"),
            call: Some(call.into()),
            address: Some(address.into()),
            reason: Some("no grant covers it".into()),
            process: Some(Process::new(1234, b"curl")),
            count: Some(1),
            grant: Some(format!("{flag} {address}")),
            ..Denial::default()
        }
    }

    #[test]
    fn a_line_has_the_flag_as_it_is_typed() {
        let mut denial = refused("connect", "tcp://192.0.2.1:443", "--connect");
        insta::assert_snapshot!(line(&denial), @"a connection to tcp://192.0.2.1:443 (curl): --connect tcp://192.0.2.1:443");
        denial.count = Some(3);
        insta::assert_snapshot!(line(&denial), @"a connection to tcp://192.0.2.1:443 (curl, 3 times): --connect tcp://192.0.2.1:443");
        let denial = refused("connect", "tcp://[2001:db8::1]:443", "--connect");
        insta::assert_snapshot!(line(&denial), @"a connection to tcp://[2001:db8::1]:443 (curl): --connect 'tcp://[2001:db8::1]:443'");
        let denial = refused("connect", "tcp://169.254.169.254:80", "--connect");
        insta::assert_snapshot!(line(&denial), @"a connection to tcp://169.254.169.254:80 (curl, a cloud may hand out this machine's credentials there): --connect tcp://169.254.169.254:80");
        let nobody = Denial {
            what: "a socket of AF_ALG".into(),
            ..Denial::default()
        };
        insta::assert_snapshot!(line(&nobody), @"a socket of AF_ALG: no flag allows it");
    }

    #[test]
    fn what_a_guest_chose_acts_on_no_terminal_and_no_shell() {
        let mut denial = refused("connect", "unix:/tmp/$(rm x);'\x1b[2J\n", "--connect");
        denial.process = Some(Process {
            pid: 1,
            name: "\x1b]0;x\x07\u{202e}".into(),
        });
        let line = line(&denial);
        assert!(
            !line.contains(|c: char| c.is_control() || c == '\u{202e}'),
            "{line:?}"
        );
        let flag = flag(denial.grant.as_deref().unwrap());
        assert_eq!(
            shlex::split(&flag).unwrap(),
            ["--connect", r"unix:/tmp/$(rm x);'\u{1b}[2J\n"]
        );
        assert_eq!(super::flag("$(rm x)"), "'$(rm' 'x)'");
    }
}
