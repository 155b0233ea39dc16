//! What was typed and is no command, said like every other refusal: one line, whose fault, what to
//! do.

use crate::{args::Arguments, foreign};
use clap::{
    CommandFactory,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{error::Error, ffi::OsStr};

/// One line for stderr. `verb` is the first word that was typed.
pub(crate) fn describe(error: &clap::Error, verb: Option<&OsStr>) -> String {
    let verb = known_verb(verb);
    let help = match &verb {
        Some(verb) => format!("see `palisade {verb} --help`"),
        None => "see `palisade --help`".to_owned(),
    };
    let foreign = || foreign::advise(verb.as_deref()?, unknown_flag(error)?);
    match (error.kind(), error.source()) {
        (ErrorKind::ValueValidation, Some(cause)) => format!("policy: {}: {cause}", flag_of(error)),
        (ErrorKind::MissingRequiredArgument, _) => describe_missing(error, &help),
        (ErrorKind::UnknownArgument, _) if let Some(advice) = foreign() => {
            format!("usage: {advice}; {help}")
        }
        _ => format!("usage: {}; {help}", first_sentences(error)),
    }
}

/// The word, if it is one of palisade's verbs.
fn known_verb(word: Option<&OsStr>) -> Option<String> {
    let word = word?.to_str()?;
    let command = Arguments::command();
    let mut verbs = command.get_subcommands();
    verbs
        .any(|verb| verb.get_name() == word)
        .then(|| word.to_owned())
}

fn unknown_flag(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => Some(flag),
        _ => None,
    }
}

fn describe_missing(error: &clap::Error, help: &str) -> String {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.first().map_or("", String::as_str),
        _ => "",
    };
    if let Some(several) = missing.strip_prefix("<--") {
        let flags = several.split("|--").map(first_word);
        let flags: Vec<_> = flags.map(|flag| format!("--{flag}")).collect();
        return format!("usage: one of {} is missing; {help}", flags.join(", "));
    }
    if missing.starts_with("--") {
        return format!("usage: {missing} is missing; {help}");
    }
    let word = missing.trim_start_matches('<');
    let end = word.find(|c: char| !c.is_ascii_uppercase());
    match &word[..end.unwrap_or(word.len())] {
        "" | "PROGRAM" => {
            "usage: there is no PROGRAM to run: name it after the flags, as in `-- ls -l`".into()
        }
        word => format!("usage: {word} is missing; {help}"),
    }
}

/// `--memory` of `--memory <SIZE>`.
fn flag_of(error: &clap::Error) -> String {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => first_word(argument).to_owned(),
        _ => "a flag".to_owned(),
    }
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
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
        let verb = typed.first().map(OsStr::new);
        let typed = ["palisade"].iter().chain(typed);
        describe(&Arguments::try_parse_from(typed).unwrap_err(), verb)
    }

    #[test]
    fn one_of_several_flags_is_missing() {
        insta::assert_snapshot!(said(&["grant", "1"]), @"usage: one of --connect, --listen, --read, --write is missing; see `palisade grant --help`");
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
        insta::assert_snapshot!(said(&["run", "--writ", "x", "ls"]), @"usage: unexpected argument '--writ' found; a similar argument exists: '--write'; see `palisade run --help`");
        insta::assert_snapshot!(said(&["rnu"]), @"usage: unrecognized subcommand 'rnu'; see `palisade --help`");
        insta::assert_snapshot!(said(&["completions", "cmd"]), @"usage: invalid value 'cmd' for '<SHELL>'; possible values: bash, elvish, fish, powershell, zsh; see `palisade completions --help`");
    }

    #[test]
    fn a_flag_of_another_tool_gets_the_counterpart() {
        insta::assert_snapshot!(said(&["run", "--ro-bind", "/a", "/b", "ls"]), @"usage: palisade has no --ro-bind, which grants a path for reading: write `--read PATH:GUEST`; see `palisade run --help`");
        insta::assert_snapshot!(said(&["explain", "--net=none", "ls"]), @"usage: palisade has no --net: a guest has no network unless `--connect tcp://HOST:PORT` grants some, so leave it out; see `palisade explain --help`");
        insta::assert_snapshot!(said(&["run", "-v", "a:/a", "ls"]), @"usage: palisade has no -v, which grants a path for writing: write `--write PATH:GUEST`; see `palisade run --help`");
        insta::assert_snapshot!(said(&["run", "-it", "ls"]), @"usage: palisade has no -i: a guest has palisade's streams, and a terminal of its own if one of them is a terminal, so leave it out; see `palisade run --help`");
        assert!(!said(&["bench", "--ro-bind"]).contains("--read"));
    }

    #[test]
    fn a_missing_program_is_asked_for() {
        for verb in ["run", "explain", "cost"] {
            assert!(said(&[verb, "--read", "x"]).contains("no PROGRAM"));
        }
    }

    #[test]
    fn other_missing_words_are_asked_for() {
        insta::assert_snapshot!(said(&["completions"]), @"usage: SHELL is missing; see `palisade completions --help`");
    }

    #[test]
    fn everything_is_one_line() {
        for typed in [
            &["run", "--bogus", "ls"][..],
            &["run"],
            &["frob"],
            &["doctor", "x"],
            &["why", "a", "b"],
            &["completions", "cmd.exe"],
        ] {
            assert!(!said(typed).contains('\n'), "{}", said(typed));
        }
    }
}
