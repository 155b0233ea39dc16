//! What must hold of whatever a guest puts into a question, and of whatever an asker says.
//!
//! The fuzz target and an ordinary test call the same function.

use palisade_wall::{
    Process,
    ask::{Answer, Question, Told},
};

/// Checks both directions. Tells whether the bytes are an answer.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let words = String::from_utf8_lossy(bytes).into_owned();
    let told = Told::Question(Question {
        question: bytes.len() as u64,
        process: Process::new(1, bytes),
        call: "openat".into(),
        target: words.clone(),
        found_by: Some(words.clone()),
        sought: Some(words.clone()),
        is_folder: true,
        secret: Some(words.clone()),
        grant: format!("--read {words}"),
        has_once: false,
        waiting: 0,
        unasked: u64::MAX,
    });
    let line = told.line();
    let (end, rest) = line.split_last().expect("a line has an end");
    assert!(*end == b'\n' && rest.iter().all(|byte| (b' '..=b'~').contains(byte)));
    assert_eq!(Told::read(&line), Some(told), "one question, and all of it");
    let answer = Answer::read(bytes);
    if let Some(answer) = answer {
        assert_eq!(Answer::read(&answer.line()), Some(answer));
        assert!(!bytes.is_empty());
    }
    // Who is asked reads no answer out of a question.
    assert_eq!(Answer::read(&line), None);
    answer.is_some()
}
