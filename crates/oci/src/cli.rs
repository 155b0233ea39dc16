//! The command line: that of runc, which engines speak.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Runs containers behind palisade's wall: `podman --runtime palisade-oci`
#[derive(Debug, Parser)]
#[command(name = "palisade-oci", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What goes before the command's name.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Where the state of containers lies
    #[arg(long, value_name = "FOLDER", global = true)]
    pub(crate) root: Option<PathBuf>,
    /// Write errors to this file too
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) log: Option<PathBuf>,
    /// The form of what is written there
    #[arg(long, value_name = "FORM", default_value = "text", global = true)]
    pub(crate) log_format: LogFormat,
    /// Least severe messages to write there; palisade-oci has errors and warnings
    #[arg(long, value_name = "LEVEL", default_value = "info", global = true)]
    pub(crate) log_level: String,
    /// For `--log-level debug`
    #[arg(long, global = true)]
    pub(crate) debug: bool,
    /// Have control groups made by systemd
    #[arg(long, global = true)]
    pub(crate) systemd_cgroup: bool,
    /// Do without control groups that nobody may make: true, false or auto
    // Before the command alone: `spec` has a flag of the same name.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) rootless: Rootless,
    /// Accepted, for there is no such program
    #[arg(long, value_name = "PROGRAM", hide = true, global = true)]
    pub(crate) criu: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rootless {
    Auto,
    True,
    False,
}

// Of all commands' flags those of one are built: that is a tenth of a container's start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Create a container; `start` starts its program
    Create(Create),
    /// Start the program of a container that was created
    Start(Id),
    /// Create and start a container, and wait for its end
    Run(Run),
    /// Print what a container is doing, as JSON
    State(Id),
    /// Send a container's program a signal
    Kill(Kill),
    /// Remove what is left of a container
    Delete(Delete),
    /// Start a further process in a container
    Exec(Exec),
    /// List containers
    List(List),
    /// List the processes of a container
    Ps(Ps),
    /// Stop all processes of a container where they are
    Pause(Id),
    /// Let them go on
    Resume(Id),
    /// Change the limits of a container
    Update(Update),
    /// Print what a container uses, as JSON lines
    Events(Events),
    /// Write a config.json to begin with
    Spec(Spec),
    /// Print what this runtime knows of the specification, as JSON
    Features,
    /// Print what a container asked for, beside what the kernel says of it
    Report(Id),
    /// Print every step that a bundle comes to, and do nothing
    Explain(Explain),
}

#[derive(Debug, Args)]
pub(crate) struct Id {
    /// The container's name
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) bundle: Bundle,
    /// Write the pid of its first process there
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) making: Making,
    /// The container's name
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Bundle {
    /// The folder with config.json
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    pub(crate) bundle: PathBuf,
}

/// How a container is made.
#[derive(Debug, Args)]
pub(crate) struct Making {
    /// A socket that the other end of its terminal is sent to
    #[arg(long, value_name = "SOCKET")]
    pub(crate) console_socket: Option<PathBuf>,
    /// The root is one that nothing can be pivoted out of (an initramfs)
    #[arg(long)]
    pub(crate) no_pivot: bool,
    /// Let it use its starter's session keyring
    #[arg(long)]
    pub(crate) no_new_keyring: bool,
    /// So many descriptors beside the streams stay open
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) preserve_fds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) create: Create,
    /// Do not wait for its end
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Leave what is left of it, for `delete`
    #[arg(long)]
    pub(crate) keep: bool,
    /// Accepted: this process is the parent of the container's first process and of none of its descendants
    #[arg(long, hide = true)]
    pub(crate) no_subreaper: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// Send it to all processes of the container
    #[arg(short, long)]
    pub(crate) all: bool,
    /// The container's name
    pub(crate) id: String,
    /// A name or number
    #[arg(default_value = "TERM", allow_hyphen_values = true)]
    pub(crate) signal: String,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// End it first, if it runs
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The container's name
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// A socket that the other end of its terminal is sent to
    #[arg(long, value_name = "SOCKET")]
    pub(crate) console_socket: Option<PathBuf>,
    /// Its working directory
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// One more variable, NAME=VALUE
    #[arg(short, long, value_name = "VARIABLE")]
    pub(crate) env: Vec<String>,
    /// Give it a terminal
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// A number, or two: UID:GID
    #[arg(short, long)]
    pub(crate) user: Option<String>,
    /// One more group
    #[arg(short = 'g', long, value_name = "GID")]
    pub(crate) additional_gids: Vec<u32>,
    /// A file with the process, as config.json has it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) process: Option<PathBuf>,
    /// Do not wait for its end
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Write its pid there
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// SELinux label
    #[arg(long, value_name = "LABEL")]
    pub(crate) process_label: Option<String>,
    /// AppArmor profile
    #[arg(long, value_name = "PROFILE")]
    pub(crate) apparmor: Option<String>,
    /// No program gives it more rights
    #[arg(long)]
    pub(crate) no_new_privs: bool,
    /// One more capability
    #[arg(short, long, value_name = "NAME")]
    pub(crate) cap: Vec<String>,
    /// So many descriptors beside the streams stay open
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) preserve_fds: u32,
    /// Put it into a control group below the container's, which is there: `[CONTROLLER[,CONTROLLER]:]PATH`
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<String>,
    /// Enter a container that is paused, too
    #[arg(long)]
    pub(crate) ignore_paused: bool,
    /// The container's name
    pub(crate) id: String,
    /// What to execute
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// The form
    #[arg(short, long, default_value = "table")]
    pub(crate) format: Form,
    /// Names alone
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Table,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// The form
    #[arg(short, long, default_value = "table")]
    pub(crate) format: Form,
    /// The container's name
    pub(crate) id: String,
    /// What ps(1) is asked for
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) options: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// A file with resources as config.json has them, or `-`
    #[arg(short, long, value_name = "FILE")]
    pub(crate) resources: Option<PathBuf>,
    /// Weight of block devices' time
    #[arg(long)]
    pub(crate) blkio_weight: Option<u16>,
    /// Period of the limit on processors in µs
    #[arg(long)]
    pub(crate) cpu_period: Option<u64>,
    /// What of it may be used, in µs
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) cpu_quota: Option<i64>,
    /// Share of the processors' time
    #[arg(long)]
    pub(crate) cpu_share: Option<u64>,
    /// Period of the limit on real-time tasks in µs
    #[arg(long)]
    pub(crate) cpu_rt_period: Option<u64>,
    /// What of it they may use, in µs
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) cpu_rt_runtime: Option<i64>,
    /// Which processors
    #[arg(long)]
    pub(crate) cpuset_cpus: Option<String>,
    /// Which memory nodes
    #[arg(long)]
    pub(crate) cpuset_mems: Option<String>,
    /// Bytes of memory, with a unit if one is given (50M); -1 is no limit
    #[arg(long, allow_hyphen_values = true, value_parser = bytes)]
    pub(crate) memory: Option<i64>,
    /// Bytes kept for it
    #[arg(long, allow_hyphen_values = true, value_parser = bytes)]
    pub(crate) memory_reservation: Option<i64>,
    /// Bytes of memory and swap
    #[arg(long, allow_hyphen_values = true, value_parser = bytes)]
    pub(crate) memory_swap: Option<i64>,
    /// How many processes
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) pids_limit: Option<i64>,
    /// The container's name
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// How long between two lines, in seconds or with a unit
    #[arg(long, default_value = "5s")]
    pub(crate) interval: String,
    /// One line, and no more
    #[arg(long)]
    pub(crate) stats: bool,
    /// The container's name
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Spec {
    #[command(flatten)]
    pub(crate) bundle: Bundle,
    /// For an ordinary user
    #[arg(long)]
    pub(crate) rootless: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) bundle: Bundle,
}

/// A number, with a unit of 1024 and its powers: `50M`, `50m`, `50MiB`.
fn bytes(text: &str) -> Result<i64, String> {
    const UNITS: &str = "KMGTP";
    let letters = text.find(|letter: char| letter.is_ascii_alphabetic());
    let (number, unit) = text.split_at(letters.unwrap_or(text.len()));
    let unit = unit.to_ascii_uppercase();
    let unit = unit.strip_suffix('B').unwrap_or(&unit);
    let unit = unit.strip_suffix('I').unwrap_or(unit);
    let power = match unit {
        "" => Some(0),
        unit if unit.len() == 1 => UNITS.find(unit).map(|at| at as u32 + 1),
        _ => None,
    };
    let of = |power| number.parse::<i64>().ok()?.checked_mul(1024i64.pow(power));
    power
        .and_then(of)
        .ok_or_else(|| format!("{text:?} is no number of bytes"))
}

#[cfg(test)]
mod tests {
    use super::{Cli, bytes};
    use clap::CommandFactory as _;

    /// Two flags of one name, say, are found by nothing else before somebody types them.
    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        let cases = [
            ("-1", Some(-1)),
            ("1000", Some(1000)),
            ("50M", Some(50 << 20)),
            ("1k", Some(1024)),
            ("2GiB", Some(2 << 30)),
            ("3gb", Some(3 << 30)),
            ("", None),
            ("M", None),
            ("1x", None),
            ("1MM", None),
            ("9999999P", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }
}
