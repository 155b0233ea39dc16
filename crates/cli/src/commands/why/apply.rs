//! `palisade why --apply`: the grants that a guest missed, written to a policy once somebody has said yes to each.
//!
//! ```text
//!  missed ──ask──▶ wanted ──edit──▶ text ──read as a policy──▶ beside the file ──rename──▶ the file
//! ```
//!
//! What stands in the file stays as it is, comments and order too.

use super::remedy::Missed;
mod edit;

pub(in crate::commands) use edit::{PROFILES, Value};

use crate::{beside, say};
use anyhow::{Context, anyhow, bail};
use edit::{edit, has, parse};
use palisade_command_line::read;
use palisade_policy::{PolicyLayer, visible};
use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
};

/// More than anybody writes by hand.
const MOST_POLICY_BYTES: u64 = 4 << 20;

/// Asks about each grant, unless all are agreed to, and writes those with a yes.
pub(super) fn apply(file: &Path, missed: &[Missed], agrees: bool) -> anyhow::Result<u8> {
    let shown = visible(&file.to_string_lossy()).into_owned();
    if missed.is_empty() {
        say::line(&format!("{shown}: nothing to add"));
        return Ok(0);
    }
    // A link leads to the file that is edited, and stays.
    let file = fs::canonicalize(file).with_context(|| {
        format!("usage: cannot find {shown} (`palisade init` writes a policy to begin with)")
    })?;
    let text = read_text(&file).with_context(|| format!("usage: cannot read {shown}"))?;
    let new: Vec<_> = without_granted(&text, missed, &shown)?;
    if new.is_empty() {
        say::line(&format!("{shown} has all of it"));
        return Ok(0);
    }
    let wanted = match agrees {
        true => new,
        false => {
            let terminal = Terminal::open()?;
            ask(
                terminal.input,
                terminal.output,
                &new,
                &format!("write it to {shown}"),
            )?
        }
    };
    if wanted.is_empty() {
        say::line(&format!("{shown} stays as it was"));
        return Ok(0);
    }
    let wanted: Vec<_> = wanted.iter().map(Missed::as_value).collect();
    add_all(&file, &text, &wanted, &shown)?;
    Ok(0)
}

/// Adds values that a file has not, and says which. Nobody is asked.
pub(in crate::commands) fn merge(file: &Path, wanted: &[Value]) -> anyhow::Result<()> {
    let shown = visible(&file.to_string_lossy()).into_owned();
    let (text, new) = new_to(file, wanted)?;
    if new.is_empty() {
        say::line(&format!("{shown} has all of it"));
        return Ok(());
    }
    add_all(file, &text, &new, &shown)?;
    for value in &new {
        say::line(&format!("new: {value}"));
    }
    Ok(())
}

/// A file's text, and those values that it has not.
pub(in crate::commands) fn new_to(
    file: &Path,
    wanted: &[Value],
) -> anyhow::Result<(String, Vec<Value>)> {
    let shown = visible(&file.to_string_lossy()).into_owned();
    let text = read_text(file).with_context(|| format!("usage: cannot read {shown}"))?;
    let document = parse(&text, &shown)?;
    let new = wanted.iter().filter(|value| !has(&document, value));
    let new = new.cloned().collect();
    Ok((text, new))
}

fn add_all(file: &Path, text: &str, wanted: &[Value], shown: &str) -> anyhow::Result<()> {
    let edited = edit(text, wanted, shown)?;
    check(&edited, file, shown)?;
    replace(file, text, &edited).with_context(|| format!("host: cannot write {shown}"))?;
    let count = wanted.len();
    let plural = if count == 1 { "" } else { "s" };
    say::line(&format!("{shown}: {count} grant{plural} added"));
    Ok(())
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let bytes = read::read_regular_file(file, MOST_POLICY_BYTES)?;
    String::from_utf8(bytes).map_err(|_| anyhow!("it is no text in UTF-8"))
}

/// The terminal itself: stdin may be the report.
pub(in crate::commands) struct Terminal {
    pub(in crate::commands) input: BufReader<File>,
    pub(in crate::commands) output: File,
}

impl Terminal {
    pub(in crate::commands) fn open() -> anyhow::Result<Self> {
        let open = || OpenOptions::new().read(true).write(true).open("/dev/tty");
        let terminal = open().and_then(|output| Ok((open()?, output)));
        let (input, output) = terminal
            .context("usage: nobody can be asked without a terminal: --yes agrees to all")?;
        Ok(Self {
            input: BufReader::new(input),
            output,
        })
    }
}

/// Those with a yes. The end of the input is a no to all that is left.
pub(in crate::commands) fn ask(
    mut input: impl BufRead,
    mut output: impl Write,
    missed: &[Missed],
    question: &str,
) -> anyhow::Result<Vec<Missed>> {
    let mut wanted = Vec::new();
    for one in missed {
        write!(
            output,
            "{} = {}\n  would open {}\n  {question}? [y]es, [N]o, [q]uit: ",
            one.key,
            toml_edit::Value::from(&one.value),
            one.opened(),
        )?;
        output.flush()?;
        let mut answer = String::new();
        if input.read_line(&mut answer)? == 0 {
            break;
        }
        match answer.trim() {
            "y" | "yes" => wanted.push(one.clone()),
            "q" | "quit" => return Ok(Vec::new()),
            _ => {}
        }
    }
    Ok(wanted)
}

/// What the file does not say yet, by the letter.
fn without_granted(text: &str, missed: &[Missed], shown: &str) -> anyhow::Result<Vec<Missed>> {
    let document = parse(text, shown)?;
    let new = missed.iter().filter(|one| !has(&document, &one.as_value()));
    Ok(new.cloned().collect())
}

/// Whether what comes out is a policy.
fn check(text: &str, file: &Path, shown: &str) -> anyhow::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    PolicyLayer::from_toml(text, shown, folder)
        .map(drop)
        .map_err(|error| anyhow!("policy: {error}"))
}

/// Puts another text in the file's place, with its mode, unless somebody else has done so meanwhile.
fn replace(file: &Path, before: &str, text: &str) -> anyhow::Result<()> {
    let mode = fs::metadata(file)?.permissions();
    beside::replace(file, |made| {
        made.set_permissions(mode)?;
        made.write_all(text.as_bytes())?;
        made.sync_all()?;
        if read_text(file)? != before {
            bail!("somebody else has written to it meanwhile: try again");
        }
        Ok(())
    })
}

#[cfg(test)]
#[path = "../../../../../fuzz/checks/policy_edit.rs"]
mod policy_edit;

#[cfg(test)]
#[path = "../../../../../fuzz/checks/edits.rs"]
mod edits;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::disk::Disk;
    use crate::commands::why::remedy::missed;
    use crate::denial::tests::refused;
    use palisade_process::LocalMounts;
    use palisade_wall::{Command, Exit, Report, mock::MockWall};

    fn report() -> Report {
        let report = MockWall::new(Exit::Code(7)).report(&Command::new("guest"));
        let denials = vec![
            refused("connect", "tcp://a.example:443", "--connect"),
            refused("connect", "tcp://b.example:443", "--connect"),
            refused("listen", "tcp://127.0.0.1:80", "--listen"),
        ];
        Report { denials, ..report }
    }

    fn edited(text: &str) -> String {
        let report = report();
        let missed = missed(&report, &Disk::of(None, &[], LocalMounts::here()));
        let new = without_granted(text, &missed, "x.toml").unwrap();
        let new: Vec<_> = new.iter().map(Missed::as_value).collect();
        let edited = edit(text, &new, "x.toml").unwrap();
        check(&edited, Path::new("/x.toml"), "x.toml").unwrap();
        edited
    }

    #[test]
    fn what_stands_there_stays() {
        insta::assert_snapshot!(edited("# Mine.\nlimits.time = \"5s\" # long enough\n"), @r#"
        # Mine.
        limits.time = "5s" # long enough

        [grants]
        connect = ["tcp://a.example:443", "tcp://b.example:443"]
        listen = ["tcp://127.0.0.1:80"]
        "#);
        let long = "[grants]\nread = [\".\"]\nconnect = [\n  # The one.\n  \"tcp://a.example:443\", # of all\n]\n\n[limits]\ntime = \"5s\"\n";
        insta::assert_snapshot!(edited(long), @r#"
        [grants]
        read = ["."]
        connect = [
          # The one.
          "tcp://a.example:443", # of all
          "tcp://b.example:443",
        ]
        listen = ["tcp://127.0.0.1:80"]

        [limits]
        time = "5s"
        "#);
        // Without a comma behind the last.
        insta::assert_snapshot!(edited("grants.connect = [\n\t\"tcp://a.example:443\" # of all\n]\n"), @r#"
        grants.connect = [
        	"tcp://a.example:443", # of all
        	"tcp://b.example:443",
        ]
        grants.listen = ["tcp://127.0.0.1:80"]
        "#);
        insta::assert_snapshot!(edited("grants = { connect = [\"tcp://a.example:443\"] }\n"), @r#"grants = { connect = ["tcp://a.example:443", "tcp://b.example:443"], listen = ["tcp://127.0.0.1:80"] }"#);
    }

    #[test]
    fn profiles_and_reasons_are_written_too() {
        let value = |key, text: &str, why: Option<&str>| Value {
            key,
            text: text.into(),
            why: why.map(Into::into),
        };
        let wanted = [
            value("read", "data", Some("read by cat")),
            value("read", "more", Some("read by ls")),
            value("connect", "tcp://a.example:443", None),
            value(PROFILES, "rust", None),
        ];
        let edited = edit(
            "profiles = [\"git\"]\n\n[grants]\nwrite = [\"out\"]\n",
            &wanted,
            "x.toml",
        );
        let edited = edited.unwrap();
        check(&edited, Path::new("/x.toml"), "x.toml").unwrap();
        insta::assert_snapshot!(edited, @r#"
        profiles = ["git", "rust"]

        [grants]
        write = ["out"]
        read = [
            "data", # read by cat
            "more", # read by ls
        ]
        connect = ["tcp://a.example:443"]
        "#);
        let document = parse(&edited, "x.toml").unwrap();
        assert!(wanted.iter().all(|value| has(&document, value)));
        let alone = edit("", &wanted[3..], "x.toml").unwrap();
        assert_eq!(alone, "profiles = [\"rust\"]\n");
    }

    #[test]
    fn what_is_no_policy_is_not_edited() {
        let report = report();
        let missed = missed(&report, &Disk::of(None, &[], LocalMounts::here()));
        let missed: Vec<_> = missed.iter().map(Missed::as_value).collect();
        let refusal = |text: &str| format!("{:#}", edit(text, &missed, "x.toml").unwrap_err());
        assert!(refusal("grants = 1").contains("`grants` is no table"));
        assert!(refusal("grants.connect = 1").contains("it is no list"));
        assert!(refusal("[").starts_with("policy: x.toml"));
        assert!(check("frobnicate = 1", Path::new("/x.toml"), "x.toml").is_err());
    }

    #[test]
    fn each_is_asked_about_and_no_answer_is_no() {
        let report = report();
        let missed = missed(&report, &Disk::of(None, &[], LocalMounts::here()));
        let answered = |answers: &str| {
            let mut shown = Vec::new();
            let wanted = ask(answers.as_bytes(), &mut shown, &missed, "x.toml").unwrap();
            let values: Vec<_> = wanted.into_iter().map(|one| one.value).collect();
            (values, String::from_utf8(shown).unwrap())
        };
        let (values, shown) = answered("y\nno\nyes\n");
        assert_eq!(values, ["tcp://a.example:443", "tcp://127.0.0.1:80"]);
        insta::assert_snapshot!(shown.lines().take(2).collect::<Vec<_>>().join("\n"), @r#"
        connect = "tcp://a.example:443"
          would open tcp port 443 of a.example, at the public addresses that it has
        "#);
        assert_eq!(answered("y\n").0, ["tcp://a.example:443"]);
        assert_eq!(answered("").0, [""; 0]);
        assert_eq!(answered("y\nq\n").0, [""; 0], "who quits writes nothing");
        assert_eq!(answered("\n\ny").0, ["tcp://127.0.0.1:80"]);
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.toml");
        fs::write(&file, "# 2\n").unwrap();
        assert!(replace(&file, "# 1\n", "# 3\n").is_err());
        replace(&file, "# 2\n", "# 3\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "# 3\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    const ROUNDS: usize = 4_000;

    /// Pieces that mean something in a list.
    const PIECES: &[&[u8]] = &[
        b"[grants]\n",
        b"grants.",
        b"profiles = [",
        b"read = [",
        b"\"a\",",
        b"# said of it\n",
        b"]\n",
        b"{ ",
        b" }",
        b"\n",
        b"'",
        b"\"\"\"",
        b"\r\n",
    ];

    #[test]
    fn edited_seeds_keep_what_stands_there() {
        let seeds = edits::seeds("policy_edit");
        assert!(seeds.iter().all(|seed| policy_edit::check(seed)));
        let (taken, refused) = edits::check_edits(&seeds, PIECES, ROUNDS, |bytes| {
            usize::from(policy_edit::check(bytes))
        });
        assert!(taken > ROUNDS / 10 && refused > ROUNDS / 10, "{taken}");
    }
}
