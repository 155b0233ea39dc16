//! Questions to the person at the terminal.
//!
//! A guest may print what it likes before and after one, and type nothing: an answer is a whole word and the end of a line,
//! typed after the question was there. What a guest chose stands in it in ASCII.

use super::job;
use crate::commands::why::opens;
use anyhow::Context;
use palisade_wall::ask::{Answer, Question, Told, Verdict};
use rustix::{
    event::PollFlags,
    fs::{Mode, OFlags},
    io::Errno,
    termios::QueueSelector,
};
use std::{
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
};

/// A question is shorter than this; whoever sends more is not the wall.
const MOST_HEARD_BYTES: usize = 64 * 1024;
/// Of the name of a process.
const MOST_NAME_CHARS: usize = 32;

/// Where questions are put.
pub(super) struct Desk {
    channel: UnixStream,
    heard: Vec<u8>,
    terminal: OwnedFd,
    typed: Vec<u8>,
    /// Of the policy that answers are written to.
    policy: Option<String>,
    open: Option<Question>,
    is_shown: bool,
    is_over: bool,
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
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).context(
            "usage: nobody can be asked without a terminal: --ask-program or --ask-socket says who answers",
        )?;
        channel.set_nonblocking(true).context("host: a socket")?;
        Ok(Self {
            channel,
            heard: Vec::new(),
            terminal,
            typed: Vec::new(),
            policy: policy.map(|path| in_ascii(&path.to_string_lossy(), usize::MAX)),
            open: None,
            is_shown: false,
            is_over: false,
        })
    }

    /// What to wait for: questions, and answers to one that is shown.
    pub(super) fn waits(&self) -> [Option<(BorrowedFd<'_>, PollFlags)>; 2] {
        let read = |fd| (fd, PollFlags::IN);
        [
            (!self.is_over).then(|| read(self.channel.as_fd())),
            self.is_shown.then(|| read(self.terminal.as_fd())),
        ]
    }

    /// Whether the terminal is this desk's.
    pub(super) fn has_terminal(&self) -> bool {
        self.is_shown
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
        let was_shown = self.is_shown;
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(Told::Question(question)) => self.open = Some(question),
                Ok(Told::Withdrawn { question }) => self.withdraw(question),
                Err(_) => self.is_over = true,
            }
        }
        if self.is_over {
            self.open = None;
            self.is_shown = false;
        }
        match was_shown && !self.is_shown {
            true => Change::Given,
            false => self.look_around(),
        }
    }

    /// Nobody waits for an answer any more.
    pub(super) fn close(&mut self) -> Change {
        let open = self.open.as_ref().map(|open| open.question);
        let was_shown = self.is_shown;
        open.into_iter().for_each(|number| self.withdraw(number));
        self.is_over = true;
        match was_shown {
            true => Change::Given,
            false => Change::Nothing,
        }
    }

    /// Shows the question once the terminal is palisade's to ask at.
    pub(super) fn look_around(&mut self) -> Change {
        match &self.open {
            Some(_) if !self.is_shown && self.is_in_front() => Change::Taken,
            _ => Change::Nothing,
        }
    }

    /// Shows it, on a terminal whose lines the kernel edits. What was typed before is no answer.
    pub(super) fn show(&mut self) {
        let Some(question) = &self.open else { return };
        self.is_shown = true;
        self.typed.clear();
        let _ = rustix::termios::tcflush(&self.terminal, QueueSelector::IFlush);
        let text = format!("{RESET}{}", describe(question, self.policy.as_deref()));
        self.print(&text);
    }

    /// Reads what was typed.
    pub(super) fn read(&mut self) -> Change {
        let mut buffer = [0; 1024];
        match rustix::io::read(&self.terminal, &mut buffer) {
            Err(Errno::AGAIN | Errno::INTR) => return Change::Nothing,
            Ok(length @ 1..) => self.typed.extend_from_slice(&buffer[..length]),
            // Ctrl-D, or a terminal that is gone.
            Ok(_) | Err(_) => self.typed.extend_from_slice(b"no\n"),
        }
        let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') else {
            return Change::Nothing;
        };
        let line = String::from_utf8_lossy(&self.typed[..end]).into_owned();
        self.typed.clear();
        match (self.verdict(line.trim()), self.open.take()) {
            (Some(verdict), Some(question)) => {
                self.answer(question.question, verdict);
                self.is_shown = false;
                self.print("-- the guest goes on --\r\n");
                Change::Given
            }
            (_, open) => {
                self.open = open;
                self.print(&format!("{}: ", self.choices()));
                Change::Nothing
            }
        }
    }

    fn verdict(&self, word: &str) -> Option<Verdict> {
        Some(match word {
            "once" => Verdict::Once,
            "run" => Verdict::Run,
            "always" if self.policy.is_some() => Verdict::Always,
            "n" | "no" => Verdict::No,
            "never" => Verdict::Never,
            _ => return None,
        })
    }

    fn choices(&self) -> &'static str {
        match self.policy {
            Some(_) => "once, run, always, no or never",
            None => "once, run, no or never",
        }
    }

    fn answer(&mut self, question: u64, verdict: Verdict) {
        let answer = Answer { question, verdict };
        let mut line = serde_json::to_vec(&answer).unwrap_or_default();
        line.push(b'\n');
        // Whoever does not hear it says no by himself.
        let _ = rustix::io::write(&self.channel, &line);
    }

    /// No, to a question that is shown.
    pub(super) fn decline(&mut self) -> Change {
        let Some(question) = self.open.take_if(|_| self.is_shown) else {
            return Change::Nothing;
        };
        self.answer(question.question, Verdict::No);
        self.is_shown = false;
        self.print("\r\n");
        Change::Given
    }

    fn withdraw(&mut self, number: u64) {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.question == number)
        {
            self.open = None;
            if std::mem::take(&mut self.is_shown) {
                self.print("\r\n-- no answer is needed any more --\r\n");
            }
        }
    }

    /// In the background a terminal that is read stops who reads it.
    fn is_in_front(&self) -> bool {
        let group = rustix::termios::tcgetpgrp(&self.terminal);
        group.is_ok_and(|group| Some(group.as_raw_pid()) == job::own_group())
    }

    fn print(&self, text: &str) {
        let mut bytes = text.as_bytes();
        // One that takes no more shows no more.
        while let Ok(written @ 1..) = rustix::io::write(&self.terminal, bytes) {
            bytes = &bytes[written..];
            if bytes.is_empty() {
                return;
            }
        }
    }
}

/// Takes back what a guest may have set: a sequence that it began (CAN, ST), modes (DECSTR), character sets, colours, the margins, a hidden
/// cursor; and clears what is below.
const RESET: &str = "\x18\x1b\\\x1b[!p\x1b(B\x0f\x1b[0m\x1b[r\x1b[?25h\r\n\x1b[J";

fn describe(question: &Question, policy: Option<&str>) -> String {
    let name = &question.process.name;
    let shown = in_ascii(name, MOST_NAME_CHARS);
    let target = in_ascii(&question.target, usize::MAX);
    let wants = match question.call.as_str() {
        "bind" | "listen" => "listen at",
        "send" => "send to",
        _ => "connect to",
    };
    let mut text = String::new();
    let mut line = |line: &str| {
        text += line;
        text += "\r\n";
    };
    line("-- palisade asks ------------------------------------------------");
    line(&format!(
        "\"{shown}\" (process {}) wants to {wants} {target}",
        question.process.pid
    ));
    if shown != *name {
        line("  The program's name is of its own choosing, and not all of it is plain letters.");
    }
    if let Some(found_by) = &question.found_by {
        line(&format!(
            "  It was found by the name {}, and is no public address: who answers for the name chose it.",
            in_ascii(found_by, usize::MAX)
        ));
    }
    if target.contains("xn--") {
        line("  A part of the name (xn--) stands for letters that may look like others.");
    }
    if let Some(opened) = opens::describe(&question.grant) {
        line(&format!("  It would open {opened}."));
    }
    line(match wants {
        "listen at" => "  Others could reach what it serves there.",
        _ => "  Whatever runs behind the wall could send there all that it can read.",
    });
    if question.waiting + question.unasked > 0 {
        line(&format!(
            "  {} more wait; {} were refused unasked.",
            question.waiting, question.unasked
        ));
    }
    line("  once    this time");
    line("  run     until the guest ends");
    if let Some(policy) = policy {
        line(&format!(
            "  always  the same, and \"{target}\" is written to {policy}"
        ));
    }
    line("  no      and not again");
    line("  never   no to this and to all that follows");
    text + "Your word: "
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
            grant: format!("--connect {target}"),
            waiting: 0,
            unasked: 0,
        }
    }

    #[test]
    fn a_question_says_what_an_answer_means() {
        let shown = describe(&question("node", "tcp://a.example:443"), Some("p.toml"));
        insta::assert_snapshot!(shown.replace('\r', ""), @r#"
        -- palisade asks ------------------------------------------------
        "node" (process 7) wants to connect to tcp://a.example:443
          It would open tcp port 443 of a.example, at the public addresses that it has.
          Whatever runs behind the wall could send there all that it can read.
          once    this time
          run     until the guest ends
          always  the same, and "tcp://a.example:443" is written to p.toml
          no      and not again
          never   no to this and to all that follows
        Your word: 
        "#);
    }

    #[test]
    fn a_guest_cannot_write_into_a_question() {
        let name = "a\x1b[2J\r\npalisade asks: say run\u{202e}\u{430}";
        let shown = describe(&question(name, "tcp://xn--80ak6aa92e.com:443"), None);
        assert!(
            shown
                .bytes()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\r' | b'\n'))
        );
        assert!(
            shown.contains(r#""a\u{1b}[2J\r\npalisade asks: say run\u{202e}\u{430}" (process 7)"#),
            "{shown}"
        );
        assert!(shown.contains("not all of it is plain letters"));
        assert!(shown.contains("may look like others"));
        assert!(!shown.contains("always"), "there is no policy to write to");
    }
}
