//! Names and numbers of signals.

use anyhow::{Context, bail};

/// From 1 on (signal(7)).
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

const MOST: i32 = 64;
const FIRST_OF_REAL_TIME: i32 = 34;

/// `15`, `TERM`, `SIGTERM`, `RTMIN+3`; 0 asks whether there is somebody (kill(2)).
pub(super) fn number(word: &str) -> anyhow::Result<i32> {
    if let Ok(number) = word.parse::<i32>() {
        return match number {
            0..=MOST => Ok(number),
            _ => bail!("policy: there is no signal {number}"),
        };
    }
    let name = word.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    if let Some(at) = NAMES.iter().position(|known| *known == name) {
        return Ok(at as i32 + 1);
    }
    let real_time = |text: &str, from: i32, sign: i32| {
        let by = match text {
            "" => Some(0),
            text => text.trim_start_matches(['+', '-']).parse::<i32>().ok(),
        };
        by.map(|by| from + sign * by)
            .filter(|number| (FIRST_OF_REAL_TIME..=MOST).contains(number))
    };
    let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(rest), _) => real_time(rest, FIRST_OF_REAL_TIME, 1),
        (_, Some(rest)) => real_time(rest, MOST, -1),
        _ => match name {
            "POLL" => Some(29),
            "IOT" => Some(6),
            _ => None,
        },
    };
    number.with_context(|| format!("policy: unknown signal {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn names_and_numbers_are_understood() {
        let cases = [
            ("0", 0),
            ("9", 9),
            ("KILL", 9),
            ("SIGKILL", 9),
            ("sigterm", 15),
            ("SYS", 31),
            ("RTMIN", 34),
            ("SIGRTMIN+3", 37),
            ("RTMAX-1", 63),
        ];
        for (word, expected) in cases {
            assert_eq!(number(word).unwrap(), expected, "{word}");
        }
        for word in ["65", "NONE", "RTMIN+99", "-1", ""] {
            assert!(number(word).is_err(), "{word}");
        }
    }
}
