//! Questions to the person at the terminal.
//!
//! ```text
//!  a question ──the terminal is ours──▶ written whole ──nobody types──▶ asked ──a word──▶ answered
//!       ▲                                                                 │
//!       └──────────────────── taken back, or the guest has ended ◀────────┘
//! ```
//!
//! A guest may print what it likes before and after, and type nothing. It may have somebody type for it, though: so an answer
//! is a whole word that was begun when the whole question had stood there for a while with nobody typing. What a
//! guest chose stands in it in ASCII. One palisade asks at a terminal at a time.

use super::job;
use crate::commands::why::opens;
use anyhow::Context;
use palisade_wall::ask::{Answer, Question, Told, Verdict};
use rustix::{
    event::PollFlags,
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
    termios::{InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, Termios},
};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};

/// A question is shorter than this; whoever sends more is not the wall.
const MOST_HEARD_BYTES: usize = 64 * 1024;
/// Of the name of a process.
const MOST_NAME_CHARS: usize = 32;
/// Of a line that a guest chose the words of.
const MOST_LINE_CHARS: usize = 60;
/// So long nobody types before an answer may begin.
const QUIET: Duration = Duration::from_secs(1);
/// How often to look whether the terminal is to be had.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// Where questions are put.
pub(super) struct Desk {
    channel: UnixStream,
    heard: Vec<u8>,
    terminal: OwnedFd,
    /// Of the policy that answers are written to.
    policy: Option<String>,
    open: Option<Question>,
    /// While the terminal is ours.
    stage: Option<Stage>,
    is_over: bool,
}

/// How far a question is.
struct Stage {
    /// The settings to put back.
    found: Termios,
    /// What the terminal has not taken yet.
    unshown: Vec<u8>,
    /// Until the terminal has shown it all.
    echo: Option<Echo>,
    /// Since when nobody has typed, until the question is asked.
    quiet_since: Option<Instant>,
    /// Of an answer.
    typed: Vec<u8>,
}

/// What becomes of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// It is this desk's from now on.
    Taken,
    /// It is the guest's again.
    Given,
}

impl Desk {
    pub(super) fn open(channel: UnixStream, policy: Option<&Path>) -> anyhow::Result<Self> {
        let terminal = open_terminal().context(
            "usage: nobody can be asked without a terminal: --ask-program or --ask-socket says who answers",
        )?;
        channel.set_nonblocking(true).context("host: a socket")?;
        Ok(Self {
            channel,
            heard: Vec::new(),
            terminal,
            policy: policy.map(|path| in_ascii(&path.to_string_lossy(), usize::MAX)),
            open: None,
            stage: None,
            is_over: false,
        })
    }

    /// What to wait for: questions, and the terminal while it is ours.
    pub(super) fn waits(&self) -> [Option<(BorrowedFd<'_>, PollFlags)>; 2] {
        let terminal = self.stage.as_ref().map(|stage| {
            let mut events = PollFlags::IN;
            events.set(PollFlags::OUT, !stage.unshown.is_empty());
            (self.terminal.as_fd(), events)
        });
        [
            (!self.is_over).then(|| (self.channel.as_fd(), PollFlags::IN)),
            terminal,
        ]
    }

    /// And for how long at most.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.stage {
            None => self.open.as_ref().map(|_| LOOK_AGAIN),
            Some(stage) if !stage.unshown.is_empty() => None,
            Some(Stage {
                echo: Some(echo), ..
            }) => Some(echo.until.saturating_duration_since(Instant::now())),
            Some(stage) => {
                let since = stage.quiet_since?;
                Some(QUIET.saturating_sub(since.elapsed()))
            }
        }
    }

    /// Hears what the wall says.
    pub(super) fn hear(&mut self) -> Change {
        let mut buffer = [0; 4096];
        while !self.is_over {
            match rustix::io::read(&self.channel, &mut buffer) {
                Err(Errno::AGAIN | Errno::INTR) => break,
                Ok(length @ 1..) if self.heard.len() < MOST_HEARD_BYTES => {
                    self.heard.extend_from_slice(&buffer[..length]);
                }
                _ => self.is_over = true,
            }
        }
        let mut change = Change::Nothing;
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            match Told::read(&line) {
                Some(Told::Question(question)) => self.open = Some(question),
                Some(Told::Withdrawn { question }) if self.asks(question) => {
                    change = self.give_up("\n-- no answer is needed any more --\n");
                }
                Some(Told::Withdrawn { .. }) => {}
                None => self.is_over = true,
            }
        }
        match self.is_over {
            true => self.close(),
            false => change,
        }
    }

    fn asks(&self, number: u64) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.question == number)
    }

    /// Nobody waits for an answer any more, and nobody will.
    pub(super) fn close(&mut self) -> Change {
        self.is_over = true;
        self.give_up("\n")
    }

    /// No, to a question that is shown.
    pub(super) fn decline(&mut self) -> Change {
        match (&self.open, &self.stage) {
            (Some(question), Some(_)) => {
                self.answer(question.question, Verdict::No);
                self.give_up("\n")
            }
            _ => Change::Nothing,
        }
    }

    fn give_up(&mut self, words: &str) -> Change {
        self.open = None;
        let Some(stage) = self.stage.take() else {
            return Change::Nothing;
        };
        // One that takes no more shows no more.
        let _ = rustix::io::write(&self.terminal, words.as_bytes());
        let _ = rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &stage.found);
        let _ = rustix::fs::flock(&self.terminal, FlockOperation::NonBlockingUnlock);
        Change::Given
    }

    /// Goes on: takes the terminal for a question where it is to be had, shows what is left of it, asks when nobody types.
    pub(super) fn go_on(&mut self) -> Change {
        let Some(stage) = &mut self.stage else {
            return match &self.open {
                Some(_) if self.is_ours() => Change::Taken,
                _ => Change::Nothing,
            };
        };
        if !stage.unshown.is_empty() {
            match rustix::io::write(&self.terminal, &stage.unshown) {
                Ok(written) => drop(stage.unshown.drain(..written)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return self.close(),
            }
            if stage.unshown.is_empty() && stage.quiet_since.is_some() {
                stage.quiet_since = Some(Instant::now());
                stage.echo.iter_mut().for_each(Echo::begin);
            }
            return Change::Nothing;
        }
        if let Some(echo) = &stage.echo {
            if Instant::now() < echo.until {
                return Change::Nothing;
            }
            stage.echo = None;
            stage.quiet_since = Some(Instant::now());
        }
        if stage
            .quiet_since
            .is_some_and(|since| since.elapsed() >= QUIET)
        {
            stage.quiet_since = None;
            let _ = rustix::termios::tcflush(&self.terminal, QueueSelector::IFlush);
            set(
                &self.terminal,
                &stage.found,
                LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHOE,
            );
            stage.unshown = b"Your word: ".to_vec();
            return self.go_on();
        }
        Change::Nothing
    }

    /// Begins to show it.
    pub(super) fn show(&mut self) {
        let Some(question) = &self.open else { return };
        let Ok(found) = rustix::termios::tcgetattr(&self.terminal) else {
            return;
        };
        // What is typed is seen key by key, and nothing of it.
        set(&self.terminal, &found, LocalModes::empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let echo = (!is_dumb).then(Echo::new);
        let asked = echo.as_ref().map_or_else(String::new, Echo::question);
        let text = describe(question, self.policy.as_deref());
        self.stage = Some(Stage {
            found,
            unshown: format!("{RESET}{text}{asked}").into_bytes(),
            echo,
            quiet_since: Some(Instant::now()),
            typed: Vec::new(),
        });
    }

    /// Reads what was typed.
    pub(super) fn read(&mut self) -> Change {
        let Some(stage) = &mut self.stage else {
            return Change::Nothing;
        };
        let mut buffer = [0; 1024];
        match rustix::io::read(&self.terminal, &mut buffer) {
            Err(Errno::AGAIN | Errno::INTR) => return Change::Nothing,
            // Typed to the guest, or for it.
            Ok(length @ 1..) if stage.quiet_since.is_some() => {
                stage.quiet_since = Some(Instant::now());
                stage.echo.take_if(|echo| echo.hear(&buffer[..length]));
                return Change::Nothing;
            }
            Ok(length @ 1..) => stage.typed.extend_from_slice(&buffer[..length]),
            // Ctrl-D.
            Ok(_) if rustix::termios::tcgetpgrp(&self.terminal).is_ok() => return self.decline(),
            // A terminal that has hung up.
            Ok(_) | Err(_) => return self.close(),
        }
        // Another palisade that begins here may have made the terminal raw.
        let ends_line = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let Some(end) = stage.typed.iter().position(ends_line) else {
            return Change::Nothing;
        };
        let line = String::from_utf8_lossy(&stage.typed[..end]).into_owned();
        stage.typed.clear();
        let number = self.open.as_ref().map(|open| open.question);
        match (self.verdict(line.trim()), number) {
            (Some(verdict), Some(number)) => {
                self.answer(number, verdict);
                self.give_up("-- the guest goes on --\n")
            }
            _ => {
                let again = format!("{}: ", self.choices());
                if let Some(stage) = &mut self.stage {
                    stage.unshown = again.into_bytes();
                }
                Change::Nothing
            }
        }
    }

    fn verdict(&self, word: &str) -> Option<Verdict> {
        let has_once = self.open.as_ref().is_some_and(|open| open.has_once);
        Some(match word {
            "once" if has_once => Verdict::Once,
            "run" => Verdict::Run,
            "always" if self.policy.is_some() => Verdict::Always,
            "n" | "no" => Verdict::No,
            "never" => Verdict::Never,
            _ => return None,
        })
    }

    fn choices(&self) -> String {
        let has_once = self.open.as_ref().is_some_and(|open| open.has_once);
        let once = if has_once { "once, " } else { "" };
        let always = if self.policy.is_some() {
            "always, "
        } else {
            ""
        };
        format!("{once}run, {always}no or never")
    }

    fn answer(&self, question: u64, verdict: Verdict) {
        let answer = Answer { question, verdict };
        // Whoever does not hear it says no by himself.
        let _ = rustix::io::write(&self.channel, &answer.line());
    }

    /// Whether another palisade asks at the terminal: what is typed there is its answer.
    pub(super) fn is_asked_elsewhere(&self) -> bool {
        self.stage.is_none() && !self.lock_if_free(false)
    }

    /// Whether it may be asked here now: in the background a terminal that is read stops who reads it, and another palisade
    /// may ask.
    fn is_ours(&self) -> bool {
        let group = rustix::termios::tcgetpgrp(&self.terminal);
        let is_in_front = group.is_ok_and(|group| Some(group.as_raw_pid()) == job::own_group());
        is_in_front && self.lock_if_free(true)
    }

    fn lock_if_free(&self, keep: bool) -> bool {
        let lock = |operation| rustix::fs::flock(&self.terminal, operation);
        let is_free = lock(FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_free && !keep {
            let _ = lock(FlockOperation::NonBlockingUnlock);
        }
        is_free
    }
}

/// By its own name, which each terminal has: `/dev/tty` is one file for all, and nothing for one to lock.
fn open_terminal() -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let controlling = rustix::fs::open("/dev/tty", flags, Mode::empty())?;
    let named = job::terminal().and_then(|name| rustix::fs::open(name, flags, Mode::empty()).ok());
    // A name may be another terminal's, where /dev is another namespace's.
    let session = rustix::termios::tcgetsid(&controlling);
    let named = named.filter(|named| rustix::termios::tcgetsid(named) == session);
    Ok(named.unwrap_or(controlling))
}

/// Has the terminal say where its cursor is, at three places that nobody can guess: it answers when it has shown all
/// before that.
struct Echo {
    columns: [u16; 3],
    heard: Vec<u8>,
    until: Instant,
}

impl Echo {
    /// A terminal that does not know the question (ECMA-48, DSR) is taken at its word after a while.
    const PATIENCE: Duration = Duration::from_secs(5);

    fn new() -> Self {
        let random = || 2 + (RandomState::new().build_hasher().finish() % 70) as u16;
        Self {
            columns: [random(), random(), random()],
            heard: Vec::new(),
            until: Instant::now() + Self::PATIENCE,
        }
    }

    /// It has been asked.
    fn begin(&mut self) {
        self.until = Instant::now() + Self::PATIENCE;
    }

    fn question(&self) -> String {
        let ask = |column: &u16| format!("\x1b[{column}G\x1b[6n");
        self.columns.iter().map(ask).collect::<String>() + "\r"
    }

    /// Whether the last three answers are what was asked for.
    fn hear(&mut self, typed: &[u8]) -> bool {
        const MOST_BYTES: usize = 4096;
        self.heard.extend_from_slice(typed);
        let excess = self.heard.len().saturating_sub(MOST_BYTES);
        self.heard.drain(..excess);
        let text = String::from_utf8_lossy(&self.heard);
        let columns: Vec<u16> = text
            .split("\x1b[")
            .filter_map(|answer| answer.split_once('R')?.0.split_once(';')?.1.parse().ok())
            .collect();
        columns.ends_with(&self.columns)
    }
}

/// Settings in which lines end as they should, and Ctrl-C is a signal.
fn set(terminal: &OwnedFd, found: &Termios, local: LocalModes) {
    let mut settings = found.clone();
    let all = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHOE;
    settings.local_modes = settings.local_modes.difference(all) | local | LocalModes::ISIG;
    settings.input_modes |= InputModes::ICRNL;
    settings.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    let _ = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &settings);
}

/// Takes back what a guest may have set: a sequence that it began (CAN, ST), modes (DECSTR, and those that some terminals leave out of
/// it: wrapping, insertion, origin, reverse, margins, the mouse, focus, pastes, keys), character sets and colours; and
/// clears what is below. Some of these send the cursor home, which comes back.
const RESET: &str = "\x18\x1b\\\x1b[!p\x1b7\x1b[?6l\x1b[?69l\x1b[r\x1b8\x1b[?7h\x1b[4l\x1b[?5l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\
                     \x1b[?2026l\x1b[=0u\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b(B\x0f\x1b[0m\x1b[?25h\n\x1b[J";

fn describe(question: &Question, policy: Option<&str>) -> String {
    let name = &question.process.name;
    let shown = in_ascii(name, MOST_NAME_CHARS);
    let target = in_ascii(&question.target, usize::MAX);
    let flag = question.grant.split(' ').next().unwrap_or_default();
    let wants = match (flag, question.call.as_str()) {
        ("--read", _) if question.is_folder => "read the folder",
        ("--write", _) if question.is_folder => "write to the folder",
        ("--read", _) => "read",
        ("--write", _) => "write to",
        (_, "bind" | "listen") => "listen at",
        (_, "send") => "send to",
        _ => "connect to",
    };
    let mut text = String::new();
    let mut line = |line: &str| {
        text += line;
        text += "\n";
    };
    line("-- palisade asks ------------------------------------------------");
    let who = format!("\"{shown}\" (process {})", question.process.pid);
    let lines = in_lines(&target);
    match &lines[..] {
        [all] => line(&format!("{who} wants to {wants} {all}")),
        // However wide the terminal is, what counts is the end of it.
        parts => {
            line(&format!("{who} wants to {wants} what has a long name:"));
            parts.iter().for_each(|part| line(&format!("    {part}")));
            line(&format!(
                "  It ends in ...{}",
                parts.last().map_or("", String::as_str)
            ));
        }
    }
    if shown != *name {
        line("  The program's name is of its own choosing, and not all of it is plain letters.");
    }
    if let Some(found_by) = &question.found_by {
        line(
            "  It was found by a name, and is no public address: who answers for the name chose it.",
        );
        line(&in_block(found_by));
    }
    if let Some(sought) = &question.sought {
        line("  It named another path, which this would give it:");
        line(&in_block(sought));
    }
    if let Some(secret) = &question.secret {
        line("  In it lies what may be a key or a password:");
        line(&in_block(secret));
    }
    if flag == "--connect" && target.contains("xn--") {
        line("  A part of the name (xn--) stands for letters that may look like others.");
    }
    if lines.len() == 1
        && let Some(opened) = opens::describe(&question.grant)
    {
        line(&format!("  It would open {opened}."));
    }
    line(match wants {
        "read" => "  Whatever runs behind the wall could read it, and pass it on where it may.",
        "read the folder" => {
            "  Whatever runs behind the wall could read all that lies in it, hidden files too."
        }
        "write to the folder" => {
            "  Whatever runs behind the wall could read all that lies in it, and change or remove it."
        }
        "write to" => {
            "  Whatever runs behind the wall could read it, and change or remove what lies there."
        }
        "listen at" if target.starts_with("udp") => {
            "  Others could reach what it serves there, and it could send to anybody from there."
        }
        "listen at" => "  Others could reach what it serves there.",
        _ => "  Whatever runs behind the wall could send there all that it can read.",
    });
    if question.waiting + question.unasked > 0 {
        line(&format!(
            "  {} more wait; {} were refused unasked.",
            question.waiting, question.unasked
        ));
    }
    if question.has_once {
        line("  once    this time");
    }
    line("  run     until the guest ends");
    if let Some(policy) = policy {
        line("  always  the same, and it is written to the policy:");
        in_lines(policy)
            .iter()
            .for_each(|part| line(&format!("    {part}")));
    }
    line("  no      and not again");
    line("  never   no to this and to all that follows");
    text
}

/// What a guest chose, on lines of its own.
fn in_block(text: &str) -> String {
    let lines = in_lines(&in_ascii(text, usize::MAX));
    let lines = lines.iter().map(|part| format!("    {part}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// So that none is longer than a terminal is wide.
fn in_lines(text: &str) -> Vec<String> {
    let chars: Vec<_> = text.chars().collect();
    let parts = chars.chunks(MOST_LINE_CHARS);
    parts.map(|part| part.iter().collect()).collect()
}

/// What a guest chose, so that it looks like nothing else.
fn in_ascii(text: &str, most: usize) -> String {
    let cut: String = text.chars().take(most).collect();
    cut.escape_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_wall::Process;

    fn question(name: &str, target: &str) -> Question {
        Question {
            question: 1,
            process: Process {
                pid: 7,
                name: name.into(),
            },
            call: "connect".into(),
            target: target.into(),
            found_by: None,
            sought: None,
            secret: None,
            is_folder: false,
            grant: format!("--connect {target}"),
            has_once: true,
            waiting: 0,
            unasked: 0,
        }
    }

    #[test]
    fn a_question_says_what_an_answer_means() {
        let shown = describe(&question("node", "tcp://a.example:443"), Some("p.toml"));
        insta::assert_snapshot!(shown, @r#"
        -- palisade asks ------------------------------------------------
        "node" (process 7) wants to connect to tcp://a.example:443
          It would open tcp port 443 of a.example, at the public addresses that it has.
          Whatever runs behind the wall could send there all that it can read.
          once    this time
          run     until the guest ends
          always  the same, and it is written to the policy:
            p.toml
          no      and not again
          never   no to this and to all that follows
        "#);
    }

    #[test]
    fn a_question_about_a_folder_says_what_it_holds() {
        let folder = Question {
            call: "openat".into(),
            grant: "--read /data".into(),
            has_once: false,
            sought: Some("/data/x\u{1b}".into()),
            secret: Some("/data/.env".into()),
            is_folder: true,
            ..question("cat", "/data")
        };
        insta::assert_snapshot!(describe(&folder, None), @r#"
        -- palisade asks ------------------------------------------------
        "cat" (process 7) wants to read the folder /data
          It named another path, which this would give it:
            /data/x\u{1b}
          In it lies what may be a key or a password:
            /data/.env
          It would open /data to be read and executed.
          Whatever runs behind the wall could read all that lies in it, hidden files too.
          run     until the guest ends
          no      and not again
          never   no to this and to all that follows
        "#);
    }

    #[test]
    fn a_guest_cannot_write_into_a_question() {
        let name = "a\x1b[2J\r\npalisade asks: say run\u{202e}\u{430}";
        let shown = describe(&question(name, "tcp://xn--80ak6aa92e.com:443"), None);
        assert!(
            shown
                .bytes()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
        );
        assert!(
            shown.contains(r#""a\u{1b}[2J\r\npalisade asks: say run\u{202e}\u{430}" (process 7)"#),
            "{shown}"
        );
        assert!(shown.contains("not all of it is plain letters"));
        assert!(shown.contains("may look like others"));
        assert!(!shown.contains("always"), "there is no policy to write to");
    }
    #[test]
    fn the_end_of_a_long_name_is_shown_whatever_the_terminal_does_with_long_lines() {
        let target = format!(
            "tcp://registry.npmjs.org.{}evil.test:443",
            "cdn-".repeat(40)
        );
        let shown = describe(&question("node", &target), None);
        assert!(shown.lines().all(|line| line.len() <= 100), "{shown}");
        let last = shown
            .lines()
            .find(|line| line.contains("It ends in"))
            .unwrap();
        assert!(last.ends_with("evil.test:443"), "{last}");
    }
    #[test]
    fn a_terminal_has_shown_all_when_it_answers_at_the_places_that_were_asked_for() {
        let mut echo = Echo {
            columns: [7, 70, 23],
            ..Echo::new()
        };
        assert_eq!(
            echo.question(),
            "\x1b[7G\x1b[6n\x1b[70G\x1b[6n\x1b[23G\x1b[6n\r"
        );
        // Answers to what a guest asked before, and keys.
        assert!(!echo.hear(b"\x1b[1;7R\x1b[1;70Rrun\n\x1b[3;7R\x1b[3;70"));
        assert!(!echo.hear(b"R\x1b[3;2"));
        assert!(echo.hear(b"3R"));
    }
}
