//! Longer help texts, shared by `--help` and the manual page.

/// How the verbs that take a guest are typed.
pub(crate) const RUN_USAGE: &str = "palisade run [GRANTS] [LIMITS] [--] PROGRAM [ARGS]...";
pub(crate) const EXPLAIN_USAGE: &str =
    "palisade explain [GRANTS] [LIMITS] [--json] [--] PROGRAM [ARGS]...";
pub(crate) const COST_USAGE: &str = "palisade cost [OPTIONS] [GRANTS] [--] PROGRAM [ARGS]...";
pub(crate) const LEARN_USAGE: &str = "palisade learn [OPTIONS] [--] PROGRAM [ARGS]...";
pub(crate) const EXEC_USAGE: &str = "palisade exec ID|NAME [--] PROGRAM [ARGS]...";
pub(crate) const DOCTOR_USAGE: &str = "palisade doctor [--json]";

/// For who has never used it.
pub(crate) const FIRST_STEPS: &str = "\
Examples:
  palisade doctor
      see what this machine offers
  palisade run -- python3 -c 'print(\"hello\")'
      no network, no home, no files but the system's own
  palisade run --read src --write out -- make -C src
      grant one folder for reading and one for writing
  palisade run --connect tcp://example.com:443 -- curl -sS https://example.com
      grant one port of one host
  palisade run --memory 512M --processes 64 --time 1m -- ./program
      bound what it may use
  palisade init
      write a policy for the project in this folder
  palisade explain --write . --protect .git -- make
      see each step that this would take, without taking it
  palisade cost -- bzip2 -k FILE
      measure what the wall costs a command, in a copy of this folder

`palisade run --help` has all grants, limits and exit codes.";

/// At the end of `run -h`.
pub(crate) const RUN_MORE: &str = "`palisade run --help` has examples and all exit codes.";

/// At the end of `run --help`.
pub(crate) const RUN_DETAILS: &str = "\
A path may be granted under another name, HOST:GUEST. The deepest grant at or above a path
decides, so a folder may be read-only with one writable file in it, or the reverse. HOST is a name,
*.NAME, an address or a network as 10.0.0.0/8 (IPv6 in brackets), `localhost` is this machine's own
loopback; PORT may be a range as 8000-8099, or *. After ADDR:PORT may stand `,host-port=N`, the port
outside, and `,ready`, to get the socket ready-made; `inherited` passes on palisade's own. SIZE is
bytes, or 64K, 512M, 2G; TIME is seconds, or 500ms, 10s, 1h30m. What is left out is not granted, or
not limited.

Exit codes:
  any    the guest's own, but for
  124    it ran longer than --time
  125    palisade refused or failed; one line on stderr says why and what to do
  126    the program cannot be executed
  127    the program was not found
  128+n  signal n ended the guest
  137    it used more than --memory (128 + SIGKILL)
  152    it used more than --cpu-time (128 + SIGXCPU)
  153    it wrote more than --output or --file-size (128 + SIGXFSZ)

Examples:
  palisade run --read script.py -- python3 script.py
  palisade run --write . --protect .git --protect .env -- make test
  palisade run --read data:/data --env MODE=fast -- ./program /data
  palisade run --connect tcp://localhost:5432 --listen tcp://127.0.0.1:8080 -- ./server
  palisade run --policy policy.toml --report report.json -- ./program";

/// At the end of `init -h`.
pub(crate) const INIT_EXAMPLES: &str = "\
Examples:
  palisade init
      for builds of the project in this folder; then: palisade run --policy policy.toml -- make
  palisade init --agent --print ~/src/site
      for a coding agent that works on another one; only shown
  palisade init --from ~/.claude/settings.json
      for one whose own sandbox has settings already";

/// At the end of `learn -h`.
pub(crate) const LEARN_EXAMPLES: &str = "\
Examples:
  palisade learn -- make
      then: palisade run --policy policy.toml -- make
  palisade learn --yes -- ./configure
      files that it misses are granted without a question, but for keys and the like
  palisade learn --allow-network --env CARGO_HOME=/tmp/cargo -- cargo build
      the network that it misses is granted, and no file beside the project";

/// At the end of `cost -h`.
pub(crate) const COST_MORE: &str = "`palisade cost --help` has examples and says what is granted.";

/// At the end of `cost --help`.
pub(crate) const COST_DETAILS: &str = "\
The command may write in this folder (its copy), read what its arguments name, and execute its own
program. GRANTS add to that, as with `palisade run`; limits come from a --policy file. Everybody
gets the variables that palisade gives a guest, an empty stdin, and no network. Output is thrown
away, but for the last words of a run that fails.

Examples:
  palisade cost -- bzip2 -k FILE
  palisade cost --runs 30 -- python3 script.py
  palisade cost --peers none --time 5m -- make -j2
  palisade cost --in-place --cleanup 'rm -f out.bin' -- ./build.sh

Exit codes: 0, also when a wall turns out to be dear; 125 if it could not be measured, 126 or 127 if
there is no such program, 130 after Ctrl-C, which keeps and prints what was measured.";

/// At the end of `why --help`.
pub(crate) const WHY_EXAMPLES: &str = "\
Examples:
  palisade run --report report.json -- ./program
  palisade why report.json
  palisade why report.json --apply policy.toml";

/// At the end of `serve --help`.
pub(crate) const SERVE_EXAMPLES: &str = "\
Examples:
  palisade serve --init site
      write a file that serves a page, with a filter and a component
  palisade serve site/host.toml
      serve it; SIGHUP or a changed file reloads, SIGTERM lets requests finish
  palisade serve --check site/host.toml
      say whether it could be served
  palisade status site/host.toml
      see how each filter and service is

Exit codes: 0 once a signal has ended it, 125 if it cannot serve, 128+n if a second signal n came.";

/// At the end of `completions --help`.
pub(crate) const COMPLETIONS_PLACES: &str = "\
Examples:
  palisade completions bash > ~/.local/share/bash-completion/completions/palisade
  palisade completions zsh > \"${fpath[1]}/_palisade\"
  palisade completions fish > ~/.config/fish/completions/palisade.fish";

/// At the end of `man --help`.
pub(crate) const MAN_PLACE: &str = "\
Example:
  palisade man > ~/.local/share/man/man1/palisade.1";
