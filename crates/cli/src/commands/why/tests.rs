use super::{sentences::explain, *};
use crate::denial::tests::refused;
use palisade_wall::{Command, Denial, Ending, Exit, Process, mock::MockWall};

fn report(exit: Exit, denials: Vec<Denial>) -> Report {
    let mut command = Command::new("curl");
    command.arguments = ["-s".into(), "http://a b/".into()].into();
    let report = MockWall::new(exit).report(&command);
    Report { denials, ..report }
}

fn bytes(report: &Report) -> Vec<u8> {
    serde_json::to_vec(report).unwrap()
}

fn refusal(text: &str) -> String {
    parse(text.as_bytes(), "x.json").unwrap_err().to_string()
}

/// The sentence of one denial.
fn told(denial: Denial) -> String {
    let text = explain(&report(Exit::Code(0), vec![denial]), &[]);
    text.lines().nth(1).unwrap().to_owned()
}

fn told_of(address: &str) -> String {
    told(refused("connect", address, "--connect"))
}

#[test]
fn a_report_reads_back() {
    let report = report(
        Exit::Code(7),
        vec![refused("connect", "tcp://[::1]:80", "--connect")],
    );
    assert_eq!(parse(&bytes(&report), "x").unwrap(), report);
}

#[test]
fn a_trap_is_told_and_acts_on_no_terminal() {
    let report = Report {
        trap: Some("unreachable\u{1b}[2J; at abort".into()),
        ..report(Exit::Signal(6), Vec::new())
    };
    let text = explain(&report, &[]);
    let told = text.lines().nth(1).unwrap();
    assert_eq!(
        told,
        "It broke a rule of WebAssembly: unreachable\\u{1b}[2J; at abort."
    );
}

#[test]
fn ends() {
    let end = |exit, ending| {
        let report = report(exit, Vec::new());
        let exit_code = ending_code(ending, exit);
        let report = Report {
            ending,
            exit_code,
            ..report
        };
        explain(&report, &[])
    };
    fn ending_code(ending: Ending, exit: Exit) -> u8 {
        ending.shell_code(exit)
    }
    let all = [
        end(Exit::Code(0), Ending::Guest),
        end(Exit::Code(7), Ending::Guest),
        end(Exit::Signal(11), Ending::Guest),
        end(Exit::Signal(9), Ending::TimeLimit),
        end(Exit::Signal(9), Ending::CpuTimeLimit),
        end(Exit::Signal(9), Ending::OutputLimit),
        end(Exit::Signal(9), Ending::MemoryLimit),
        end(Exit::Signal(15), Ending::Supervisor),
    ];
    let first_lines: Vec<_> = all.iter().filter_map(|text| text.lines().next()).collect();
    insta::assert_snapshot!(first_lines.join("\n"), @r"
    `curl -s 'http://a b/'` ended well.
    `curl -s 'http://a b/'` ended itself with exit code 7.
    `curl -s 'http://a b/'` was ended by SIGSEGV; palisade answered with exit code 139.
    `curl -s 'http://a b/'` was ended, for it ran longer than --time allows; palisade answered with exit code 124.
    `curl -s 'http://a b/'` was ended, for it used more processor time than --cpu-time allows; palisade answered with exit code 152.
    `curl -s 'http://a b/'` was ended, for it wrote more than --output allows; palisade answered with exit code 153.
    `curl -s 'http://a b/'` was ended by the kernel, for it used more memory than --memory allows; palisade answered with exit code 137.
    `curl -s 'http://a b/'` was ended by whoever had started it; palisade answered with exit code 143.
    ");
    assert!(
        all.iter()
            .all(|text| text.ends_with("Nothing was denied that the wall could tell of.\n"))
    );
}

#[test]
fn connections() {
    let mut often = refused("connect", "tcp://192.0.2.1:443", "--connect");
    often.count = Some(3);
    insta::assert_snapshot!(told(often), @"- curl (process 1234) wanted a connection to tcp://192.0.2.1:443 3 times: no grant covers it; `--connect tcp://192.0.2.1:443` would open tcp port 443 of 192.0.2.1 and nothing else.");
    insta::assert_snapshot!(told_of("tcp://127.0.0.1:5432"), @"- curl (process 1234) wanted a connection to tcp://127.0.0.1:5432: no grant covers it; `--connect tcp://127.0.0.1:5432` would open tcp port 5432 of this machine's own loopback, where services may trust whoever reaches them.");
    insta::assert_snapshot!(told_of("tcp://169.254.169.254:80"), @"- curl (process 1234) wanted a connection to tcp://169.254.169.254:80: no grant covers it; `--connect tcp://169.254.169.254:80` would open tcp port 80 of 169.254.169.254, where a cloud may hand out this machine's credentials.");
    insta::assert_snapshot!(told_of("udp://[fe80::1%2]:53"), @"- curl (process 1234) wanted a connection to udp://[fe80::1%2]:53: no grant covers it; `--connect 'udp://[fe80::1%2]:53'` would open udp port 53 of fe80::1%2 and nothing else.");
    insta::assert_snapshot!(told_of("tcp://a.example.com:443"), @"- curl (process 1234) wanted a connection to tcp://a.example.com:443: no grant covers it; `--connect tcp://a.example.com:443` would open tcp port 443 of a.example.com, at the public addresses that it has.");
    insta::assert_snapshot!(told_of("tcp://*.example.com:443"), @"- curl (process 1234) wanted a connection to tcp://*.example.com:443: no grant covers it; `--connect 'tcp://*.example.com:443'` would open tcp port 443 of every host below example.com, by way of a proxy.");
    insta::assert_snapshot!(told_of("udp://10.0.0.0/8:1-9"), @"- curl (process 1234) wanted a connection to udp://10.0.0.0/8:1-9: no grant covers it; `--connect udp://10.0.0.0/8:1-9` would open udp ports 1 to 9 of every address in 10.0.0.0/8.");
    insta::assert_snapshot!(told_of("unix:/run/docker.sock"), @"- curl (process 1234) wanted a connection to unix:/run/docker.sock: no grant covers it; `--connect unix:/run/docker.sock` would open the socket /run/docker.sock and all that the service behind it does for who connects.");
    for (address, words) in [
        (
            "tcp://[fd00:ec2::254]:*",
            "every tcp port of fd00:ec2::254, where a cloud",
        ),
        (
            "tcp://168.63.129.16:80",
            "tcp port 80 of 168.63.129.16, where a cloud",
        ),
        ("tcp://localhost:80", "own loopback"),
        ("tcp://[::1]:80", "own loopback"),
        ("tcp://127.0.0.0/8:80", "own loopback"),
    ] {
        assert!(told_of(address).contains(words), "{}", told_of(address));
    }
}

#[test]
fn places_to_listen_at() {
    let told_of = |address: &str| told(refused("listen", address, "--listen"));
    insta::assert_snapshot!(told_of("tcp://*:8080"), @"- curl (process 1234) wanted a listener at tcp://*:8080: no grant covers it; `--listen 'tcp://*:8080'` would open tcp port 8080 of this machine to whoever reaches it, on every interface.");
    insta::assert_snapshot!(told_of("tcp://127.0.0.1:8080"), @"- curl (process 1234) wanted a listener at tcp://127.0.0.1:8080: no grant covers it; `--listen tcp://127.0.0.1:8080` would open tcp port 8080 of this machine to programs on this machine alone.");
    insta::assert_snapshot!(told_of("udp://192.0.2.1:0"), @"- curl (process 1234) wanted a listener at udp://192.0.2.1:0: no grant covers it; `--listen udp://192.0.2.1:0` would open a udp port that the kernel picks of this machine to whoever reaches 192.0.2.1.");
}

#[test]
fn limits_probes_and_what_nothing_allows() {
    let of_nobody = |what: &str, grant: Option<&str>| Denial {
        what: what.into(),
        grant: grant.map(str::to_owned),
        ..Denial::default()
    };
    insta::assert_snapshot!(told(of_nobody("more time", Some("--time"))), @"- The guest wanted more time: it is beyond the limit --time; a larger `--time` would allow it.");
    insta::assert_snapshot!(told(of_nobody("a socket of AF_ALG", None)), @"- The guest wanted a socket of AF_ALG: no policy can allow it.");
    insta::assert_snapshot!(told(of_nobody("x", Some("--frobnicate y"))), @"- The guest wanted x: no grant covers it; `--frobnicate y` would allow it.");
    let rest = Denial {
        count: Some(12),
        reason: Some("the report tells only so many apart".into()),
        ..of_nobody("more on the network", None)
    };
    insta::assert_snapshot!(told(rest), @"- The guest wanted more on the network 12 times: the report tells only so many apart.");
    let unheard_of = Denial {
        grant: None,
        ..refused("connect", "tcp://192.0.2.1:0", "--connect")
    };
    insta::assert_snapshot!(told(unheard_of), @"- curl (process 1234) wanted a connection to tcp://192.0.2.1:0: no grant covers it; no flag allows it.");
    let because = Denial {
        reason: Some("it is granted at other ports only".into()),
        ..of_nobody(
            "a connection to tcp://a.example:1",
            Some("--connect tcp://a.example:1"),
        )
    };
    insta::assert_snapshot!(told(because), @"- The guest wanted a connection to tcp://a.example:1: it is granted at other ports only; `--connect tcp://a.example:1` would open tcp port 1 of a.example, at the public addresses that it has.");
    let probe = Denial {
        probe: true,
        ..refused("connect", "udp://192.0.2.1:443", "--connect")
    };
    insta::assert_snapshot!(told(probe), @"- curl (process 1234) tried the route for a connection to udp://192.0.2.1:443, as getaddrinfo(3) does with each address of a name: nothing is lost by it, and a grant is needed only if the program fails.");
}

#[test]
fn what_a_failed_process_was_denied_comes_first() {
    let denied = |what: &str, ended: Option<Exit>, probe: bool| Denial {
        what: what.into(),
        ended,
        probe,
        ..refused("openat", "", "--read /x")
    };
    let explained = report(
        Exit::Code(1),
        vec![
            denied("a probe", Some(Exit::Code(1)), true),
            denied("one", Some(Exit::Code(0)), false),
            denied("another", None, false),
            denied("what it failed for", Some(Exit::Code(2)), false),
            denied("what killed it", Some(Exit::Signal(11)), false),
            denied("left behind", Some(Exit::Signal(9)), false),
            Denial {
                grant: Some("--time".into()),
                ..denied("more time", None, false)
            },
        ],
    );
    let text = explain(&explained, &[]);
    let order = [
        "more time",
        "what it failed for",
        "what killed it",
        "one",
        "another",
        "a probe",
    ];
    let places = order.map(|what| {
        text.find(&format!("wanted {what}"))
            .or_else(|| text.find(what))
    });
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
    assert!(
        text.contains("curl (process 1234), which ended with exit code 2, wanted"),
        "{text}"
    );
    assert!(
        text.contains("which was ended by SIGSEGV, wanted"),
        "{text}"
    );
}

#[test]
fn nothing_in_a_report_acts_on_the_terminal() {
    let mut hostile = report(
        Exit::Code(1),
        vec![Denial {
            process: Some(Process {
                pid: 1,
                name: "\x1b[2J\u{202e}".into(),
            }),
            reason: Some("\x1b[2J".into()),
            ..refused("connect", "unix:/\x1b[2J", "--connect")
        }],
    );
    hostile.command = vec!["\x1b[2J".into(), "x".repeat(10_000)];
    let text = explain(&hostile, &[]);
    assert!(
        !text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'),
        "{text:?}"
    );
    assert_eq!(text.lines().count(), 2);
    assert!(text.lines().next().unwrap().chars().count() < 200, "{text}");
    let field = "{\"version\": 1, \"\\u001b[2J\": 1}";
    assert!(!refusal(field).contains('\x1b'));
}

#[test]
fn what_is_not_a_report_is_refused() {
    insta::assert_snapshot!(refusal(""), @"usage: x.json is not a report of `palisade run --report`: EOF while parsing a value at line 1 column 0");
    insta::assert_snapshot!(refusal("[]"), @"usage: x.json is not a report of `palisade run --report`: invalid length 0, expected struct Head with 1 element at line 1 column 2");
    insta::assert_snapshot!(refusal("{\"version\": 2, \"and\": \"more\"}"), @"usage: x.json is a report of version 2, and this palisade reads up to 1: use the one that wrote it, or a newer one");
    insta::assert_snapshot!(refusal("{\"version\": 1}"), @"usage: x.json is not a report of `palisade run --report`: missing field `wall` at line 1 column 14");
    assert!(refusal(&"[".repeat(100_000)).contains("not a report"));
}
