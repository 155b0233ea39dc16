//! A guest's words → a question's line; an asker's words → an answer.

#![no_main]

#[path = "../checks/question_line.rs"]
mod question_line;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    question_line::check(bytes);
});
