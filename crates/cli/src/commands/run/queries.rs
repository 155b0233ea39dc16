//! Whether what a guest printed has the terminal answer.
//!
//! Terminals answer questions (`ESC[6n` for the cursor's place) by typing. An answer that comes when the
//! guest has ended is typed into whatever reads the terminal next, and a guest can have some terminals
//! answer with text of its choice (CVE-2003-0063, CVE-2022-45063): a shell would run it.
//!
//! What is not known to go unanswered counts as a question. Nothing is changed or held back.

/// Reads along with what is shown.
#[derive(Debug, Default)]
pub(super) struct Queries {
    state: State,
    asked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// So many bytes of a character are to come.
    Character(u8),
    /// Two bytes that are a control character of its own in some terminals.
    Latin,
    /// Behind ESC.
    Escape,
    /// Behind ESC and an intermediate byte.
    Intermediate,
    /// Behind `ESC[`: whether there was anything but digits and semicolons.
    Sequence { marked: bool },
    /// Behind `ESC]`: the number so far.
    Command(u16),
    /// The rest of a string that the terminal keeps to itself.
    String,
}

const ENQUIRY: u8 = 0x05;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
const BELL: u8 = 0x07;
const ESCAPE: u8 = 0x1b;
const STRING_END: u8 = 0x9c;

/// Last bytes of unmarked sequences that only move, erase, colour or set.
const QUIET: &[u8] = b"@ABCDEFGHIJKLMPSTXZ`adefghlmrsu";
/// The same where a mark (`?`, `>`, a blank, …) stands before.
const QUIET_MARKED: &[u8] = b"hlmJKrs";
/// Commands that set title, folder, link, or tell where a prompt is.
const QUIET_COMMANDS: [u16; 6] = [0, 1, 2, 7, 8, 133];

impl Queries {
    /// Looks at the next piece of output.
    pub(super) fn read(&mut self, printed: &[u8]) {
        for byte in printed {
            self.state = self.step(*byte);
        }
    }

    /// Whether an answer may come. What began and did not end could be a question with what is printed
    /// next.
    pub(super) fn may_be_answered(&self) -> bool {
        let is_inside = !matches!(self.state, State::Text | State::Character(_));
        self.asked || is_inside
    }

    fn step(&mut self, byte: u8) -> State {
        match (self.state, byte) {
            (_, ESCAPE) => State::Escape,
            (State::Latin, 0x80..=0x9f) => self.escape(byte - 0x40),
            (State::Character(left), 0x80..=0xbf) => match left {
                1 => State::Text,
                left => State::Character(left - 1),
            },
            (_, CANCEL | SUBSTITUTE) => State::Text,
            (State::Command(_) | State::String, BELL | STRING_END) => State::Text,
            (State::Text | State::Character(_) | State::Latin, byte) => self.text(byte),
            (State::Escape, 0x20..=0x2f) => State::Intermediate,
            (State::Escape, byte) => self.escape(byte),
            (State::Intermediate, 0x20..=0x2f) => State::Intermediate,
            (State::Intermediate, _) => State::Text,
            (State::Sequence { marked }, byte) => self.sequence(marked, byte),
            (State::Command(number), byte) => self.command(number, byte),
            (State::String, _) => State::String,
        }
    }

    fn text(&mut self, byte: u8) -> State {
        self.asked |= byte == ENQUIRY;
        match byte {
            0xc2 => State::Latin,
            0xc3..=0xdf => State::Character(1),
            0xe0..=0xef => State::Character(2),
            0xf0..=0xf7 => State::Character(3),
            0x80..=0x9f => self.escape(byte - 0x40),
            _ => State::Text,
        }
    }

    fn escape(&mut self, byte: u8) -> State {
        match byte {
            b'[' => State::Sequence { marked: false },
            b']' => State::Command(0),
            b'P' | b'X' | b'^' | b'_' => {
                self.asked = true;
                State::String
            }
            byte => {
                self.asked |= byte == b'Z';
                State::Text
            }
        }
    }

    fn sequence(&mut self, marked: bool, byte: u8) -> State {
        match byte {
            b'0'..=b'9' | b';' | b':' => State::Sequence { marked },
            0x20..=0x3f => State::Sequence { marked: true },
            0x40..=0x7e => {
                let quiet = if marked { QUIET_MARKED } else { QUIET };
                self.asked |= !quiet.contains(&byte);
                State::Text
            }
            // Control characters act in the middle of a sequence as elsewhere.
            byte => {
                self.asked |= byte == ENQUIRY;
                State::Sequence { marked }
            }
        }
    }

    fn command(&mut self, number: u16, byte: u8) -> State {
        match byte {
            b'0'..=b'9' => {
                let digit = u16::from(byte - b'0');
                State::Command(number.saturating_mul(10).saturating_add(digit))
            }
            byte => {
                self.asked |= byte != b';' || !QUIET_COMMANDS.contains(&number);
                State::String
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(printed: &[u8]) -> bool {
        let mut queries = Queries::default();
        queries.read(printed);
        let mut piecemeal = Queries::default();
        printed.iter().for_each(|byte| piecemeal.read(&[*byte]));
        assert_eq!(queries.may_be_answered(), piecemeal.may_be_answered());
        queries.may_be_answered()
    }

    #[test]
    fn what_programs_print_is_no_question() {
        for printed in [
            &b"plain\r\ntext\t\x07\x08"[..],
            "größer – 日本語 🦀 \u{a0}".as_bytes(),
            b"\x1b[1;31mred\x1b[0m\x1b[K\x1b[2J\x1b[3A\x1b[10;20H",
            b"\x1b[?25l\x1b[?2004h\x1b[?1049h\x1b[>4;2m\x1b(B\x1b7\x1b8\x1bM\x1b=",
            b"\x1b]0;title?\x07\x1b]8;;https://example.com/?q\x1b\\link\x1b]8;;\x1b\\",
            b"\x1b[38:2::1:2:3mcolour",
        ] {
            assert!(!asks(printed), "{printed:?}");
        }
    }

    #[test]
    fn questions_are_noticed() {
        for printed in [
            &b"\x1b[6n"[..],
            b"\x1b[?6n",
            b"\x1b[c",
            b"\x1b[>c",
            b"\x1b[21t",
            b"\x1b[?1$p",
            b"\x1b[>q",
            b"\x1b[?u",
            b"\x1b[x",
            b"\x1bZ",
            b"\x05",
            b"\x1b[1\x05m",
            b"\x1bP$qm\x1b\\",
            b"\x1bP+q544e\x1b\\",
            b"\x1b_Gi=1,a=q;AAAA\x1b\\",
            b"\x1b]52;c;?\x07",
            b"\x1b]11;?\x1b\\",
            b"\x1b]50;?\x07",
            b"\x9b6n",
            b"\xc2\x9b6n",
            b"\x1b]0;a\x1b[6n",
            b"\xe2\x1b[6n",
        ] {
            assert!(asks(printed), "{printed:?}");
        }
    }

    /// The next program's output would end it.
    #[test]
    fn half_a_question_is_one() {
        for printed in [&b"\x1b"[..], b"\x1b[", b"\x1b[6", b"\x1b]2;x", b"\xc2"] {
            assert!(asks(printed), "{printed:?}");
        }
        assert!(!asks(b"\x1b[6\x18n"), "taken back");
        assert!(!asks(b"\x1b[6\x1b[1m"), "another began");
    }
}
