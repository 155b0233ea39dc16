//! What can be typed.

use crate::help;
use anyhow::Context;
use clap::{ArgGroup, Args, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use palisade_command_line::args::{BenchArgs, CostArgs, GuestArgs, PolicyArgs};
use palisade_policy::{ConnectGrant, EnvGrant, ListenGrant, Profile};
use std::{ffi::OsString, fmt::Display, path::PathBuf, str::FromStr, time::Duration};

/// Run code you do not trust behind the thinnest wall that holds it.
///
/// The guest sees a read-only view of the system's programs, a private /tmp and its own processes.
/// It has no network, no home, none of your environment and none of your files, unless a flag or a
/// policy file grants them.
#[derive(Debug, Parser)]
#[command(
    name = "palisade",
    bin_name = "palisade",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = help::FIRST_STEPS
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Reads what was typed. `palisade run` is started often and shall start fast: it is read without
    /// building the other commands (measured: half the time). What is wrong with it, or a question
    /// for help, is for the whole command to answer.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let after_palisade = || std::env::args_os().skip(1);
        if after_palisade().next().is_some_and(|verb| verb == "run") {
            let run = RunArgs::augment_args(clap::Command::new("run"));
            let read = run.try_get_matches_from(after_palisade());
            if let Ok(args) = read.and_then(|matches| RunArgs::from_arg_matches(&matches)) {
                return Ok(Self {
                    command: Command::Run(args),
                });
            }
        }
        Self::try_parse()
    }
}

/// What to do.
// The flags of a command that was not asked for are not made. What a command is about is said here alone: a doc
// comment on a structure of flags would be heard last.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Run a program behind the wall
    #[command(
        override_usage = help::RUN_USAGE,
        after_help = help::RUN_MORE,
        after_long_help = help::RUN_DETAILS
    )]
    Run(RunArgs),
    /// Print what `run` would do, without doing it
    #[command(override_usage = help::EXPLAIN_USAGE)]
    Explain(ExplainArgs),
    /// Write a policy for a project to start from
    ///
    /// Looks at the names in the project's folder: what it is built with, what of it others trust. Writes
    /// `policy.toml` there, with a word about each line.
    #[command(after_help = help::INIT_EXAMPLES)]
    Init(InitArgs),
    /// Write the policy that a command needs
    ///
    /// Runs it behind the wall in a copy of the project, asks about what it misses, and runs it again
    /// until it ends well; then once more behind the least policy that came of it. What it writes is
    /// thrown away. Keys, passwords and what all users share are never granted.
    #[command(override_usage = help::LEARN_USAGE, after_help = help::LEARN_EXAMPLES)]
    Learn(LearnArgs),
    /// Explain what a guest was denied, and how it ended
    ///
    /// Reads a report that `palisade run --report` wrote. Each denial is told in a sentence: who
    /// tried what, why it was refused, and what the flag that would allow it would open.
    #[command(after_help = help::WHY_EXAMPLES)]
    Why(WhyArgs),
    /// Say what this machine offers a wall, what is missing and how to get it
    ///
    /// Starts a trial domain. The exit code is 0 if `palisade run` works here with the full wall,
    /// else 1.
    #[command(override_usage = help::DOCTOR_USAGE)]
    Doctor(DoctorArgs),
    /// Serve requests through filters and services, each behind a wall
    ///
    /// Routes lead requests through filters (proxy-wasm modules) to a service: a wasi:http component, a
    /// program behind the process wall, files, or another server. Everything is said in one file,
    /// docs/serve.md explains it.
    #[command(after_help = help::SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Reload a running server, and say whether it serves the new configuration
    ///
    /// Nothing is lost: requests under way are finished with the old configuration. What cannot be
    /// served leaves the old configuration serving, and is shown; the exit code is 1.
    Reload(ReloadArgs),
    /// Say how a server and its guests are
    Status(StatusArgs),
    /// List the running domains of this user
    ///
    /// Whoever started them: `palisade run`, a program that embeds palisade, `palisade serve`. Those of
    /// other users and in containers are not seen.
    Ps(PsArgs),
    /// Show what running domains use, again and again
    ///
    /// Who uses most of the processors comes first. Ctrl-C ends it.
    Top(TopArgs),
    /// Run a further program in a running domain
    ///
    /// Behind the same wall as its guest: with the same files, limits, user and environment, and with a
    /// terminal of its own if there is one here. It ends with the domain, or with this command. What of
    /// the host's network the guest is granted is the guest's alone.
    #[command(override_usage = help::EXEC_USAGE)]
    Exec(ExecArgs),
    /// Grant a running guest more
    ///
    /// One that was started with --grantable or --ask: single hosts, networks and names, places to listen, files and folders. All
    /// else, wildcards and local sockets for example, is granted at the start of a guest alone.
    Grant(GrantArgs),
    /// Take back what a running guest was granted with `grant`, or by an answer
    ///
    /// What is open stays so: connections, files, and folders that a process stands in.
    Revoke(GrantArgs),
    /// End running domains, and everything in them
    ///
    /// Whoever started one is told so in its report. The exit code is 0 once nothing of them runs.
    Kill(KillArgs),
    /// Print what a filter or service of a server has said
    ///
    /// From the file that the server's configuration names: the guest's own, or its lines among those of
    /// all. The server need not run.
    Logs(LogsArgs),
    /// Measure what the wall costs on this machine
    Bench(BenchArgs),
    /// Measure what the wall costs a command of yours
    ///
    /// Runs the command with no wall, behind palisade's and under other tools that are installed, in
    /// turn, and says what each takes. The command sees a fresh copy of this folder in each run; the
    /// folder itself stays as it is. With no wall nothing else holds it: measure commands you trust.
    #[command(
        override_usage = help::COST_USAGE,
        after_help = help::COST_MORE,
        after_long_help = help::COST_DETAILS
    )]
    Cost(CostArgs),
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS_PLACES)]
    Completions(CompletionsArgs),
    /// Print the manual page
    #[command(after_help = help::MAN_PLACE)]
    Man,
}

// `palisade run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Write a report in JSON to FILE, or to stdout
    #[arg(long, value_name = "FILE|-", help_heading = "Report", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Tell of files that the guest asks for and is not granted. Each call that names a file takes longer for it
    #[arg(long, help_heading = "Report")]
    pub(crate) watch: bool,
    /// Write what happens to a file or FIFO, or to a local socket, as it happens: a JSON object a line
    #[arg(long, value_name = "FILE|unix:PATH", help_heading = "Report", value_hint = ValueHint::FilePath)]
    pub(crate) events: Option<PathBuf>,
    /// Let `palisade grant` grant more while the guest runs; --ask does, too
    #[arg(long, help_heading = "Questions")]
    pub(crate) grantable: bool,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
    // For `palisade learn`, which tells of it itself.
    #[arg(long, hide = true)]
    pub(crate) untold: bool,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
}

// Who is asked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Questions")]
pub(crate) struct AskArgs {
    /// Ask on the terminal about connections that no grant covers, while the guest waits
    #[arg(long, group = "asker")]
    pub(crate) ask: bool,
    /// Ask PROGRAM instead: questions are lines of its input, and its output's the answers, in JSON
    #[arg(long, value_name = "PROGRAM", group = "asker", value_hint = ValueHint::ExecutablePath)]
    pub(crate) ask_program: Option<PathBuf>,
    /// Ask whoever listens at the local socket PATH, by the same lines
    #[arg(long, value_name = "PATH", group = "asker", value_hint = ValueHint::FilePath)]
    pub(crate) ask_socket: Option<PathBuf>,
    /// Ask about files that no grant covers, too: each call that names one takes longer
    #[arg(long, requires = "asker")]
    pub(crate) ask_files: bool,
    /// No answer for so long means no
    #[arg(long, value_name = "TIME", value_parser = palisade_policy::value::parse_duration, default_value = "2m")]
    pub(crate) ask_time: Duration,
}

impl AskArgs {
    /// The program to ask, by its path: the same that is looked at is executed.
    pub(crate) fn program(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(named) = &self.ask_program else {
            return Ok(None);
        };
        if named.components().count() > 1 || named.is_absolute() {
            return Ok(Some(std::path::absolute(named)?));
        }
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&folders).map(|folder| folder.join(named));
        let found = all.find(|path| path.is_file());
        let found = found.with_context(|| {
            format!(
                "usage: no program {} in PATH: name it with ./",
                named.display()
            )
        })?;
        Ok(Some(std::path::absolute(found)?))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.ask || self.ask_program.is_some() || self.ask_socket.is_some()
    }
}

// `palisade explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
}

// `palisade init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The project
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// For an agent that works on the project, rather than for its builds
    #[arg(long)]
    pub(crate) agent: bool,
    /// Begin with what the settings of an agent's sandbox allow: Claude Code, sandbox-runtime, Codex
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) from: Option<PathBuf>,
    /// Replace the policy that is there
    #[arg(long, conflicts_with = "print")]
    pub(crate) force: bool,
    /// Print the policy, and write nothing
    #[arg(long)]
    pub(crate) print: bool,
}

// `palisade learn`.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    /// Where the policy goes
    #[arg(long, value_name = "FILE", default_value = "policy.toml", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,
    /// Replace the policy that is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Add what it needs to the policy that is there
    #[arg(long, conflicts_with = "force")]
    pub(crate) merge: bool,
    /// Print what the policy that is there lacks, and write nothing
    #[arg(long, conflicts_with_all = ["force", "merge"])]
    pub(crate) diff: bool,
    /// Leave out what a fresh checkout has not: what .gitignore names, and folders that tools make
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Keep what the last round made of the project, as a new folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
    /// Agree to files that it misses, but for what is not asked about at all; not beside a network, to which it could send them
    #[arg(long, conflicts_with_all = ["allow_network", "connect", "listen"])]
    pub(crate) yes: bool,
    /// Agree to the network that it misses. No file beside the project is granted then
    #[arg(long)]
    pub(crate) allow_network: bool,
    /// Grant a connection from the first round on
    #[arg(long, short, value_name = "PROTO://HOST:PORTS")]
    pub(crate) connect: Vec<ConnectGrant>,
    /// Grant a listener from the first round on
    #[arg(long, value_name = "PROTO://ADDRESS:PORTS")]
    pub(crate) listen: Vec<ListenGrant>,
    /// Grant an environment variable; with a value, that stands in the policy
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<EnvGrant>,
    /// Begin with a profile, beside those of the tools that the project's files name
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Vec<Profile>,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
}

// `palisade why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// A report's file, or `-` for stdin; without it, that of the last run that failed at a terminal
    #[arg(value_name = "REPORT", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Write the grants that would have allowed it to this policy, after asking about each
    #[arg(long, value_name = "POLICY", value_hint = ValueHint::FilePath)]
    pub(crate) apply: Option<PathBuf>,
    /// Agree to all of them
    #[arg(long, requires = "apply")]
    pub(crate) yes: bool,
}

// `palisade doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print findings and facts as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

// `palisade serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// What to serve
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE, value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Write a file that serves something at once, with what it needs, to this folder; then end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["file", "check", "workers", "no_watch"])]
    pub(crate) init: Option<PathBuf>,
    /// Read and load everything, and serve nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Threads that serve; without it one for each processor, or what the file says
    #[arg(long, value_name = "N", value_parser = palisade_policy::value::parse_count::<u32>)]
    pub(crate) workers: Option<u32>,
    /// Do not reload when a file changes
    #[arg(long)]
    pub(crate) no_watch: bool,
}

// Which server is meant.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// What it serves: its `admin` says where it is reached
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE, value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Where it is reached, in place of what FILE says
    #[arg(long, value_name = "ADDR:PORT|unix:PATH", conflicts_with = "file")]
    pub(crate) admin: Option<String>,
    /// A file with the token that the server wants, in place of what FILE says
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
}

// `palisade reload`.
#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Look at no other tenant's files than this one's; may be given again
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Vec<String>,
}

// `palisade status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print what the server answers, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

// `palisade ps`.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Print them as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

// `palisade top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print one table, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub(crate) every: f64,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "it takes a number from 0.1 to 86400".to_owned())
}

// `palisade exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// What `palisade ps` shows as its id, or a name that no other running domain has
    #[arg(value_name = "ID|NAME")]
    pub(crate) domain: String,
    /// A path, or a name looked up in the guest's PATH; then its own arguments
    #[arg(
        value_names = ["PROGRAM", "ARGS"],
        required = true,
        num_args = 1..,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) command: Vec<OsString>,
}

// `palisade grant` and `palisade revoke`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("granted").required(true).multiple(true))]
pub(crate) struct GrantArgs {
    /// What `palisade ps` shows as its id, or a name that no other running domain has
    #[arg(value_name = "ID|NAME")]
    pub(crate) domain: String,
    /// Connections, as `palisade run --connect` takes them
    #[arg(long, value_name = "WHERE", value_parser = grant::<ConnectGrant>, group = "granted")]
    pub(crate) connect: Vec<String>,
    /// A place to listen, as `palisade run --listen` takes it
    #[arg(long, value_name = "WHERE", value_parser = grant::<ListenGrant>, group = "granted")]
    pub(crate) listen: Vec<String>,
    /// A file or folder to read, as `palisade run --read` takes it
    #[arg(long, value_name = "PATH[:GUEST]", value_hint = ValueHint::AnyPath, group = "granted")]
    pub(crate) read: Vec<PathBuf>,
    /// A file or folder to write to, as `palisade run --write` takes it
    #[arg(long, value_name = "PATH[:GUEST]", value_hint = ValueHint::AnyPath, group = "granted")]
    pub(crate) write: Vec<PathBuf>,
}

/// As it was typed, if it is a grant.
fn grant<T: FromStr<Err: Display>>(text: &str) -> Result<String, String> {
    match text.parse::<T>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

// `palisade kill`.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// What `palisade ps` shows as its id, or a name that no other running domain has
    #[arg(value_name = "ID|NAME", required = true)]
    pub(crate) domains: Vec<String>,
}

// `palisade logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// What the configuration calls the filter or service; of a tenant, TENANT/NAME
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The server's configuration
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE, value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print at most so many lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    pub(crate) lines: usize,
    /// Go on with new lines, until a signal ends it
    #[arg(long, short)]
    pub(crate) follow: bool,
}

/// The file of a server where none is named.
const DEFAULT_FILE: &str = "host.toml";

// `palisade completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn guest(typed: &[&str]) -> palisade_wall::Command {
        let typed = ["palisade", "run"].iter().chain(typed);
        let Command::Run(run) = Arguments::try_parse_from(typed).unwrap().command else {
            panic!("not run");
        };
        run.guest.into()
    }

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn whatever_follows_the_program_is_its_own() {
        for typed in [
            &["ls", "--read", "x", "--", "-l"][..],
            &["--", "ls", "--read", "x", "--", "-l"],
            &["--no-system", "ls", "--read", "x", "--", "-l"],
        ] {
            let command = guest(typed);
            assert_eq!(command.program, "ls");
            assert_eq!(command.arguments, ["--read", "x", "--", "-l"]);
        }
        assert_eq!(guest(&["ls", "--help"]).arguments, ["--help"]);
    }

    #[test]
    fn a_program_may_look_like_a_flag_after_two_dashes() {
        assert_eq!(guest(&["--", "--read", "x"]).program, "--read");
        assert!(Arguments::try_parse_from(["palisade", "run", "--unknown", "ls"]).is_err());
        assert!(Arguments::try_parse_from(["palisade", "run", "--"]).is_err());
    }
}
