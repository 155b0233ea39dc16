//! Flags of other tools that start programs behind a wall, and what palisade has in their place.
//!
//! Only where there is a true counterpart: bubblewrap 0.8, firejail 0.9.72, `docker run`, nono and sandlock.

/// What stands in palisade for a flag of another tool's.
#[derive(Clone, Copy)]
enum Counterpart {
    /// What the flag does there, and what to write here.
    Flag(&'static str, &'static str),
    /// It holds for every guest.
    Always(&'static str),
}

use Counterpart::{Always, Flag};

const READS: Counterpart = Flag("grants a path for reading", "--read PATH:GUEST");
const WRITES: Counterpart = Flag("grants a path for writing", "--write PATH:GUEST");
const READS_IN_PLACE: Counterpart = Flag("grants a path for reading", "--read PATH");
const WRITES_IN_PLACE: Counterpart = Flag("grants a path for writing", "--write PATH");
const SETS: Counterpart = Flag("sets a variable", "--env NAME=VALUE");
const CONNECTS: Counterpart = Flag("grants connections", "--connect tcp://HOST:PORT");
const LISTENS: Counterpart = Flag("grants a port to listen at", "--listen tcp://ADDRESS:PORT");
const MEMORY: Counterpart = Flag("bounds memory", "--memory SIZE");
const PROCESSES: Counterpart = Flag("bounds processes", "--processes N");
const STARTS_IN: Counterpart = Flag("sets the working directory", "--cwd DIR");
const DEVICE: Counterpart = Flag("grants a device", "--device PATH");
const TIME: Counterpart = Flag("bounds time", "--time TIME");
const FILES: Counterpart = Flag("bounds open files", "--files N");

const NAMESPACES: Counterpart = Always("every domain has namespaces of its own");
const NO_NETWORK: Counterpart =
    Always("a guest has no network unless `--connect tcp://HOST:PORT` grants some");
const NO_CAPABILITIES: Counterpart = Always("no guest has capabilities");
const NO_NEW_PRIVILEGES: Counterpart = Always("no guest can gain privileges");
const FILTERED: Counterpart =
    Always("every guest is behind a seccomp filter and can gain no privileges");
const OWN_TMP: Counterpart =
    Always("a guest has a private /tmp and /dev/shm, bounded by `--tmp-size SIZE`");
const OWN_DEVICES: Counterpart =
    Always("a guest has a /dev of five harmless devices, and what `--device PATH` grants");
const OWN_PROC: Counterpart = Always("a guest has a /proc of its own processes");
const ENDS_TOGETHER: Counterpart = Always("no guest outlives palisade");
const NO_HOME: Counterpart = Always(
    "a guest sees no home, and of others' files what `--read PATH` or `--write PATH` grants",
);
const NOT_THERE: Counterpart = Always("what is not granted is not there");
const NO_VARIABLES: Counterpart =
    Always("a guest gets no variables of yours but for language and terminal");
const STREAMS: Counterpart = Always(
    "a guest has palisade's streams, and a terminal of its own if one of them is a terminal",
);
const LEAVES_NOTHING: Counterpart = Always("nothing of a domain stays");
const READ_ONLY: Counterpart = Always("what `--write PATH` does not grant is read-only");
const NO_PROFILE: Counterpart = Always("there is no profile unless `--profile NAME` adds one");

/// Sorted by tool: bubblewrap, firejail, docker, nono, sandlock. The first row of a name counts.
const FLAGS: &[(&str, Counterpart)] = &[
    ("--ro-bind", READS),
    ("--ro-bind-try", READS),
    ("--bind", WRITES),
    ("--bind-try", WRITES),
    ("--dev-bind", DEVICE),
    ("--dev-bind-try", DEVICE),
    ("--tmpfs", OWN_TMP),
    ("--proc", OWN_PROC),
    ("--dev", OWN_DEVICES),
    ("--unshare-all", NAMESPACES),
    ("--unshare-user", NAMESPACES),
    ("--unshare-user-try", NAMESPACES),
    ("--unshare-ipc", NAMESPACES),
    ("--unshare-pid", NAMESPACES),
    ("--unshare-uts", NAMESPACES),
    ("--unshare-cgroup", NAMESPACES),
    ("--unshare-cgroup-try", NAMESPACES),
    ("--unshare-net", NO_NETWORK),
    ("--share-net", CONNECTS),
    ("--setenv", SETS),
    ("--clearenv", NO_VARIABLES),
    ("--unsetenv", NO_VARIABLES),
    ("--chdir", STARTS_IN),
    ("--die-with-parent", ENDS_TOGETHER),
    ("--new-session", STREAMS),
    ("--cap-drop", NO_CAPABILITIES),
    ("--seccomp", FILTERED),
    ("--net", NO_NETWORK),
    ("--private", NO_HOME),
    ("--private-tmp", OWN_TMP),
    ("--private-dev", OWN_DEVICES),
    ("--whitelist", READS_IN_PLACE),
    ("--read-only", READ_ONLY),
    ("--read-write", WRITES_IN_PLACE),
    ("--blacklist", NOT_THERE),
    ("--noprofile", NO_PROFILE),
    ("--ipc-namespace", NAMESPACES),
    ("--noroot", NO_CAPABILITIES),
    ("--nonewprivs", NO_NEW_PRIVILEGES),
    ("--caps.drop", NO_CAPABILITIES),
    ("--timeout", TIME),
    ("--rlimit-nofile", FILES),
    ("--rlimit-nproc", PROCESSES),
    (
        "--rlimit-fsize",
        Flag("bounds each file", "--file-size SIZE"),
    ),
    (
        "--rlimit-cpu",
        Flag("bounds processor time", "--cpu-time TIME"),
    ),
    ("--rlimit-as", MEMORY),
    ("-v", WRITES),
    ("--volume", WRITES),
    ("--network", NO_NETWORK),
    ("--publish", LISTENS),
    ("--workdir", STARTS_IN),
    ("--rm", LEAVES_NOTHING),
    ("-i", STREAMS),
    ("-t", STREAMS),
    ("--interactive", STREAMS),
    ("--tty", STREAMS),
    ("-m", MEMORY),
    ("--cpus", Flag("bounds processors", "--cpu CORES")),
    ("--pids-limit", PROCESSES),
    ("--security-opt", FILTERED),
    ("--allow", WRITES_IN_PLACE),
    ("--allow-file", WRITES_IN_PLACE),
    ("--read-file", READS_IN_PLACE),
    ("--write-file", WRITES_IN_PLACE),
    ("--block-net", NO_NETWORK),
    ("--net-block", NO_NETWORK),
    ("--fs-read", READS_IN_PLACE),
    ("--fs-write", WRITES_IN_PLACE),
    ("--net-allow", CONNECTS),
    ("--net-allow-bind", LISTENS),
    ("--max-memory", MEMORY),
    ("--max-processes", PROCESSES),
    ("--max-open-files", FILES),
    ("--clean-env", NO_VARIABLES),
];

/// The verbs that take a policy.
const VERBS: [&str; 3] = ["run", "explain", "cost"];

/// What to write in the place of a flag of another tool's, where palisade has the same.
pub(crate) fn advise(verb: &str, flag: &str) -> Option<String> {
    if !VERBS.contains(&verb) {
        return None;
    }
    let row = FLAGS.iter().find(|(name, _)| *name == flag)?;
    Some(match row.1 {
        Flag(does, ours) => format!("palisade has no {flag}, which {does}: write `{ours}`"),
        Always(why) => format!("palisade has no {flag}: {why}, so leave it out"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory;

    /// All flags of `run`, with their dashes.
    fn own_flags() -> Vec<String> {
        let command = Arguments::command();
        let mut run = command.find_subcommand("run").unwrap().clone();
        run.build();
        let long = run.get_opts().filter_map(|flag| flag.get_long());
        let long = long.map(|name| format!("--{name}"));
        let short = run.get_opts().filter_map(|flag| flag.get_short());
        long.chain(short.map(|name| format!("-{name}"))).collect()
    }

    #[test]
    fn no_flag_of_palisades_own_is_foreign() {
        let own = own_flags();
        assert!(own.len() > 20, "{own:?}");
        for (name, _) in FLAGS {
            assert!(!own.iter().any(|flag| flag == name), "{name}");
        }
    }

    #[test]
    fn every_counterpart_is_a_flag() {
        let own = own_flags();
        for (name, counterpart) in FLAGS {
            let text = match counterpart {
                Flag(_, ours) => *ours,
                Always(why) => why,
            };
            let words = text.split(['`', ' ']);
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(own.iter().any(|own| own == flag), "{name}: {flag}");
            }
        }
    }

    #[test]
    fn other_verbs_and_flags_have_none() {
        assert_eq!(advise("bench", "--ro-bind"), None);
        assert_eq!(advise("run", "--bogus"), None);
    }
}
