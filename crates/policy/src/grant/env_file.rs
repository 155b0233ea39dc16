//! Files of variables: `NAME=VALUE`, one a line.
//!
//! The form is what `docker run` and systemd have in common. Where they differ nothing is guessed: a value in quotes
//! is refused, and nothing is put in the place of `$NAME`. Values may be secrets: no error shows any text of the file.

use super::EnvGrant;
use crate::value::Reason;

/// A line of such a file that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: {problem}; accepted are NAME=VALUE, comments that begin with # and empty lines"
)]
pub struct EnvFileError {
    /// Counted from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub problem: EnvFileProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvFileProblem {
    /// A name alone, or something else.
    #[error("there is no `=`")]
    NoEquals,
    /// Some programs take them off, others do not.
    #[error("the value begins with a quote, which would be a part of it: write the value without")]
    Quoted,
    /// No environment can hold it.
    #[error("{0}")]
    Variable(Reason),
}

/// Reads the text of such a file. Of two lines with the same name the last counts. A line may end in `\r\n`.
///
/// ```
/// let variables = palisade_policy::parse_env_file("# a comment\nMODE=fast\n").unwrap();
/// assert_eq!(variables[0].to_string(), "MODE=fast");
/// ```
///
/// # Errors
/// The first line that is no variable, comment or empty line.
pub fn parse_env_file(text: &str) -> Result<Vec<EnvGrant>, EnvFileError> {
    let lines = text.lines().enumerate();
    let told = lines.filter(|(_, line)| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#')
    });
    told.map(|(index, line)| {
        parse_line(line).map_err(|problem| EnvFileError {
            line: index + 1,
            problem,
        })
    })
    .collect()
}

fn parse_line(line: &str) -> Result<EnvGrant, EnvFileProblem> {
    let (name, value) = line.split_once('=').ok_or(EnvFileProblem::NoEquals)?;
    if value.starts_with(['"', '\'']) {
        return Err(EnvFileProblem::Quoted);
    }
    let grant = EnvGrant {
        name: name.to_owned(),
        value: Some(value.to_owned()),
    };
    match grant.fault() {
        Some(reason) => Err(EnvFileProblem::Variable(reason)),
        None => Ok(grant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let variables = parse_env_file(text).unwrap();
        variables.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_variable_a_line() {
        let text = "# of the service\n\nA=1\r\n  # more\nEMPTY=\nURL=postgres://u:p=x@h/#d $HOME `x`  \n\tx.y=\"\n";
        let error = parse_env_file(text).unwrap_err();
        assert_eq!(error.line, 7);
        assert_eq!(
            texts(&text[..text.len() - 7]),
            ["A=1", "EMPTY=", "URL=postgres://u:p=x@h/#d $HOME `x`  "]
        );
        assert_eq!(texts(""), [""; 0]);
        assert_eq!(texts("A=1"), ["A=1"]);
    }

    #[test]
    fn no_error_shows_the_text() {
        for (text, line) in [
            ("A=1\nhunter2\n", 2),
            ("hunter2=x\0", 1),
            ("=hunter2", 1),
            ("export hunter2=hunter2", 1),
            ("A='hunter2'", 1),
            ("A=\"hunter2\"", 1),
            ("\u{feff}A\u{202e}=hunter2", 1),
        ] {
            let error = parse_env_file(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        insta::assert_snapshot!(parse_env_file("\nTOKEN").unwrap_err(), @"line 2: there is no `=`; accepted are NAME=VALUE, comments that begin with # and empty lines");
        insta::assert_snapshot!(parse_env_file("A='x'").unwrap_err(), @"line 1: the value begins with a quote, which would be a part of it: write the value without; accepted are NAME=VALUE, comments that begin with # and empty lines");
        insta::assert_snapshot!(parse_env_file("A B=x").unwrap_err(), @"line 1: the name has a space or an unprintable character in it; accepted are NAME=VALUE, comments that begin with # and empty lines");
    }
}
