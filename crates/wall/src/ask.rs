//! Questions to whoever started a guest, about what no grant covers, and answers: JSON lines on one stream.
//!
//! ```text
//!  guest ──call──▶ supervisor ──{"type":"question","question":1,"target":"tcp://…",…}──▶ asker
//!        waits                ◀──────────────{"question":1,"verdict":"run"}────────────
//! ```
//!
//! One question is open at a time. One that nobody waits for any more is taken back (`withdrawn`), and so is one that
//! was not answered in time, which means no. So does an asker that hangs up.

use crate::Process;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An answer is no longer than this: what goes on without an end of line is not read.
pub const MOST_ANSWER_BYTES: usize = 4096;

/// What an asker is told, one line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Told {
    /// May the guest have this?
    Question(Question),
    /// Nobody waits for the answer to this question any more.
    Withdrawn {
        /// Its number.
        question: u64,
    },
}

/// What a guest tries that no grant covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The number that its answer names.
    pub question: u64,
    /// Who tries it. The name is of its own choosing.
    pub process: Process,
    /// By which call: `connect`, `send`, `bind` or `listen`; of files by its own name, `openat`.
    pub call: String,
    /// What about, as a grant names it: `tcp://example.com:443`, or a path of the host's.
    pub target: String,
    /// The name by which the guest found an address that is not public, so that the name alone does not grant it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// The path that the guest named, where the grant is of another: of the folder around it, of what it has of its user's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sought: Option<String>,
    /// It is a folder: all that lies in it is granted with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_folder: bool,
    /// Something in a folder that may be a key or a password, by its name: the first that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The flag that would grant it.
    pub grant: String,
    /// Whether `once` is an answer: what is bound stays so, and what is mounted.
    pub has_once: bool,
    /// Others that wait to be asked about.
    pub waiting: u64,
    /// Tries that were refused without a question, because too many waited.
    pub unasked: u64,
}

/// What an asker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The question's number.
    pub question: u64,
    /// What it says.
    pub verdict: Verdict,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// This once, where the question has it; else it means no.
    Once,
    /// As long as the guest runs.
    Run,
    /// The same, and it is to be written down ([`crate::Granted`]).
    Always,
    /// No, and no to the same question again.
    No,
    /// No to all from now on.
    Never,
}

/// The JSON schema of what is said in both directions: [`Told`] and [`Answer`].
pub fn schema() -> serde_json::Value {
    #[derive(JsonSchema)]
    #[schemars(untagged, title = "Line")]
    #[allow(dead_code, reason = "only its schema is used")]
    enum Line {
        /// To the asker.
        Told(Told),
        /// From it.
        Answer(Answer),
    }
    schemars::schema_for!(Line).to_value()
}

impl Answer {
    /// Reads a line; `None` for what is none.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// As one line.
    pub fn line(&self) -> Vec<u8> {
        as_line(self)
    }
}

impl Told {
    /// As one line.
    pub fn line(&self) -> Vec<u8> {
        as_line(self)
    }

    /// Reads a line; `None` for what is none.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// In printable ASCII, whatever a guest calls itself: who is asked may show it as it comes.
fn as_line(said: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_string(said).unwrap_or_default();
    let mut line = Vec::with_capacity(text.len() + 1);
    for letter in text.chars() {
        match letter {
            // Only words hold others, and are read back the same (RFC 8259, 7).
            ' '..='~' => line.push(letter as u8),
            letter => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    line.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_one_line_whatever_a_guest_calls_itself() {
        let told = Told::Question(Question {
            question: 7,
            process: Process::new(9, b"a\n\x1b[2J\"}"),
            call: "connect".into(),
            target: "tcp://example.com:443".into(),
            found_by: None,
            sought: None,
            secret: None,
            is_folder: false,
            grant: "--connect tcp://example.com:443".into(),
            has_once: true,
            waiting: 0,
            unasked: 2,
        });
        let line = told.line();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(!line.contains(&0x1b));
        assert_eq!(serde_json::from_slice::<Told>(&line).unwrap(), told);
    }

    #[test]
    fn an_answer_is_read_and_nothing_else() {
        let answer = Answer {
            question: 3,
            verdict: Verdict::Run,
        };
        assert_eq!(
            Answer::read(br#"{"question":3,"verdict":"run"}"#),
            Some(answer)
        );
        for line in [
            &b""[..],
            b"run",
            br#"{"question":3}"#,
            br#"{"question":-1,"verdict":"run"}"#,
            br#"{"question":3,"verdict":"yes"}"#,
            b"\xff",
        ] {
            assert_eq!(Answer::read(line), None, "{line:?}");
        }
    }
}
