//! What each case must show: `guests/portable/expected/PROBE.txt`.
//!
//! ```text
//! == readable, read-elsewhere          cases that show the same
//! stat file: file 18
//! …
//! exit: 0
//! host: writable/new: "written", …     what is otherwise on the host now
//! ```
//!
//! A case that ends otherwise for one user has a section for each: `single-file/root`. `PALISADE_BLESS=1` writes what came out behind the process wall. Read the difference before you believe it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use super::{Case, Line, all, file_name};
use crate::guests::Probe;
use crate::user::User;

const HEADING: &str = "== ";

/// Case, or `CASE/USER`, → its lines.
pub type Sections = BTreeMap<String, Vec<Line>>;

/// What a case must show to this user.
#[must_use]
pub fn of_case<'a>(sections: &'a Sections, case: &Case, user: User) -> Option<&'a Vec<Line>> {
    let own = sections.get(&own_name(case, user));
    own.or_else(|| sections.get(case.name))
}

fn own_name(case: &Case, user: User) -> String {
    format!("{}/{}", case.name, user.name())
}

fn path(probe: Probe) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../guests/portable/expected")
        .join(file_name(probe))
}

/// What the cases of a probe must show.
///
/// # Errors
///
/// If there is no file for it.
pub fn read(probe: Probe) -> io::Result<Sections> {
    Ok(parse(&fs::read_to_string(path(probe))?))
}

fn parse(text: &str) -> Sections {
    let mut sections = Sections::new();
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix(HEADING) {
            names = heading.split(", ").collect();
        }
        for name in &names {
            let lines = sections.entry((*name).to_owned()).or_default();
            if !line.starts_with(HEADING) {
                lines.push(Line(line.to_owned()));
            }
        }
    }
    sections
}

/// Writes what the cases of a probe have shown, each to its users (`CASE/USER`); a case that did not run keeps
/// what it had.
///
/// # Errors
///
/// If it can't be written.
pub fn write(probe: Probe, seen: &Sections) -> io::Result<()> {
    let mut sections = read(probe).unwrap_or_default();
    for case in all().iter().filter(|case| case.probe == probe) {
        for user in User::BOTH {
            let lines = of_case(seen, case, user).or_else(|| of_case(&sections, case, user));
            if let Some(lines) = lines.cloned() {
                sections.insert(own_name(case, user), lines);
            }
        }
        join_users(&mut sections, case);
    }
    let file = path(probe);
    fs::create_dir_all(file.with_file_name(""))?;
    fs::write(file, text(probe, &sections))
}

/// One section for a case that shows the same to everybody who could run it.
fn join_users(sections: &mut Sections, case: &Case) {
    let names = User::BOTH.map(|user| own_name(case, user));
    let mut seen: Vec<_> = names
        .iter()
        .filter_map(|name| sections.get(name).cloned())
        .collect();
    seen.dedup();
    sections.remove(case.name);
    if seen.len() == 1 {
        sections.retain(|name, _| !names.contains(name));
        sections.extend(seen.pop().map(|lines| (case.name.to_owned(), lines)));
    }
}

/// In the table's order, cases that show the same together.
fn text(probe: Probe, sections: &Sections) -> String {
    let mut groups: Vec<(Vec<String>, &[Line])> = Vec::new();
    for case in all().iter().filter(|case| case.probe == probe) {
        let own = User::BOTH.map(|user| own_name(case, user));
        for name in own.into_iter().chain([case.name.to_owned()]) {
            let Some(lines) = sections.get(&name) else {
                continue;
            };
            match groups
                .iter_mut()
                .find(|(_, other)| *other == lines.as_slice())
            {
                Some((names, _)) => names.push(name),
                None => groups.push((vec![name], lines)),
            }
        }
    }
    groups
        .iter()
        .map(|(names, lines)| section(names, lines))
        .collect()
}

fn section(names: &[String], lines: &[Line]) -> String {
    let lines: String = lines.iter().map(|line| format!("{}\n", line.0)).collect();
    format!("{HEADING}{}\n{lines}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{Line, of_case, parse, read, text};
    use crate::equality::all;
    use crate::guests::Probe;
    use crate::user::User;

    #[test]
    fn cases_that_show_the_same_stand_together() {
        let sections = parse("== none, plain\nargument 0: x\n== odd\nexit: 0\n");
        assert_eq!(sections["plain"], [Line("argument 0: x".to_owned())]);
        assert_eq!(
            text(Probe::Arguments, &sections),
            "== none, plain\nargument 0: x\n== odd\nexit: 0\n"
        );
    }

    #[test]
    fn every_case_has_an_expectation_and_every_expectation_a_case() {
        for probe in Probe::ALL {
            let sections = read(*probe).expect("a file of expectations");
            let cases: Vec<_> = all()
                .into_iter()
                .filter(|case| case.probe == *probe)
                .collect();
            for case in &cases {
                for user in User::BOTH {
                    assert!(of_case(&sections, case, user).is_some(), "{}", case.title());
                }
            }
            for name in sections.keys() {
                let case = name.split_once('/').map_or(name.as_str(), |(case, _)| case);
                assert!(
                    cases.iter().any(|known| known.name == case),
                    "{}: {name}",
                    probe.name()
                );
            }
        }
    }
}
