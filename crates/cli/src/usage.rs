//! What was typed and is no command, said like every other refusal: one line, whose fault, what to
//! do.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;

/// One line for stderr.
pub(crate) fn describe(error: &clap::Error) -> String {
    match (error.kind(), error.source()) {
        (ErrorKind::ValueValidation, Some(cause)) => format!("policy: {}: {cause}", flag_of(error)),
        (ErrorKind::MissingRequiredArgument, _) => describe_missing(error),
        _ => format!("usage: {}; see `palisade --help`", first_sentences(error)),
    }
}

fn describe_missing(error: &clap::Error) -> String {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.first().map_or("", String::as_str),
        _ => "",
    };
    let word = missing.trim_start_matches('<');
    let end = word.find(|c: char| !c.is_ascii_uppercase());
    match &word[..end.unwrap_or(word.len())] {
        "" | "PROGRAM" => {
            "usage: there is no PROGRAM to run: name it after the flags, as in `-- ls -l`".into()
        }
        word => format!("usage: {word} is missing; see `palisade --help`"),
    }
}

/// `--memory` of `--memory <SIZE>`.
fn flag_of(error: &clap::Error) -> String {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => {
            argument.split(' ').next().unwrap_or(argument).to_owned()
        }
        _ => "a flag".to_owned(),
    }
}

/// What is wrong and what may have been meant, without usage and without the advice to make a
/// program of it.
fn first_sentences(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim);
    let problem = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    lines
        .filter_map(|line| {
            line.strip_prefix("tip: ")
                .or_else(|| line.strip_prefix('[')?.strip_suffix(']'))
        })
        .filter(|tip| !tip.starts_with("to pass"))
        .fold(problem.to_owned(), |line, tip| format!("{line}; {tip}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::Parser;

    fn said(typed: &[&str]) -> String {
        let typed = ["palisade"].iter().chain(typed);
        describe(&Arguments::try_parse_from(typed).unwrap_err())
    }

    #[test]
    fn a_bad_value_names_its_flag() {
        insta::assert_snapshot!(said(&["run", "--time", "12 parsecs", "ls"]), @"policy: --time: `12 parsecs` is not a valid length of time: the unit `parsecs` is not known; accepted is a number of seconds, or numbers with d, h, m, s and ms, the longest first, as in `1h30m`");
        assert!(
            said(&["run", "--profile", "cobol", "ls"]).starts_with("policy: --profile: `cobol`")
        );
    }

    #[test]
    fn an_unknown_flag_names_the_nearest() {
        insta::assert_snapshot!(said(&["run", "--writ", "x", "ls"]), @"usage: unexpected argument '--writ' found; a similar argument exists: '--write'; see `palisade --help`");
        insta::assert_snapshot!(said(&["rnu"]), @"usage: unrecognized subcommand 'rnu'; see `palisade --help`");
        insta::assert_snapshot!(said(&["completions", "cmd"]), @"usage: invalid value 'cmd' for '<SHELL>'; possible values: bash, elvish, fish, powershell, zsh; see `palisade --help`");
    }

    #[test]
    fn a_missing_program_is_asked_for() {
        for verb in ["run", "explain", "cost"] {
            assert!(said(&[verb, "--read", "x"]).contains("no PROGRAM"));
        }
    }

    #[test]
    fn other_missing_words_are_asked_for() {
        insta::assert_snapshot!(said(&["why"]), @"usage: REPORT is missing; see `palisade --help`");
        insta::assert_snapshot!(said(&["completions"]), @"usage: SHELL is missing; see `palisade --help`");
    }

    #[test]
    fn everything_is_one_line() {
        for typed in [
            &["run", "--bogus", "ls"][..],
            &["run"],
            &["frob"],
            &["doctor", "x"],
            &["why"],
            &["completions", "cmd.exe"],
        ] {
            assert!(!said(typed).contains('\n'), "{}", said(typed));
        }
    }
}
