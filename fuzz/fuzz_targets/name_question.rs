//! A guest's question for a name → the answer.

#![no_main]

#[path = "../checks/name_question.rs"]
mod name_question;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    name_question::check(bytes);
});
