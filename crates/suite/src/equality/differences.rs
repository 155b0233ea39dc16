//! Where a program shows something else as WebAssembly, and why. `docs/walls/README.md` tells users.

use super::{Case, Line};
use crate::guests::Probe;

/// Something that differs, in all its lines.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// How its row in the table of `docs/walls/README.md` begins.
    pub row: &'static str,
    /// The probes that show it.
    pub probes: &'static [Probe],
    /// Their cases; all of them where this is empty.
    pub cases: &'static [&'static str],
    /// The lines.
    pub lines: Lines,
}

/// What differs.
#[derive(Clone, Copy, Debug)]
pub enum Lines {
    /// These, each of which must be there: what is called, what it gives natively and what as WebAssembly.
    These(&'static [(&'static str, Value, Value)]),
    /// Any: the module finds nothing at the place but `ENOTCAPABLE`, and stops where the program goes on.
    OutOfReach,
}

/// What a call gives; nothing where it has no line.
pub type Value = Option<&'static str>;

/// Probes that work at a place.
const FILES: &[Probe] = &[
    Probe::Reading,
    Probe::Folders,
    Probe::Writing,
    Probe::Making,
    Probe::Removing,
    Probe::Moving,
    Probe::Spelling,
];
/// Places that a module reaches by no path of the same spelling.
const OUT_OF_REACH: &[&str] = &[
    "absolute-link",
    "absolute-link-to-hidden",
    "climb-over-all",
    "relative",
];

/// Places that it reaches, and that have a folder `sub`.
const IN_REACH: &[&str] = &[
    "readable",
    "writable",
    "protected",
    "read-below-write",
    "write-below-read",
    "read-elsewhere",
    "write-elsewhere",
    "link-to-readable",
    "link-to-writable",
    "climb-to-readable",
    "here",
];

const OUT: &str = "a path that leads out of a folder";
const WORKING_DIRECTORY: &str = "`getcwd`";
const VARIABLES: &str = "variables that nobody granted";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const fn these(
    row: &'static str,
    probe: &'static [Probe],
    cases: &'static [&'static str],
    lines: &'static [(&'static str, Value, Value)],
) -> Difference {
    Difference {
        row,
        probes: probe,
        cases,
        lines: Lines::These(lines),
    }
}

/// Every difference.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        row: OUT,
        probes: FILES,
        cases: OUT_OF_REACH,
        lines: Lines::OutOfReach,
    },
    these(
        OUT,
        &[Probe::Folders],
        IN_REACH,
        &[
            ("open above it", Some("ok"), Some(NO_WAY)),
            ("open far above it", Some("ok"), Some(NO_WAY)),
        ],
    ),
    // The link leads above the working directory, or above the one folder of the root that the place is in.
    these(
        OUT,
        &[Probe::Reading],
        &["here"],
        &[("stat up", Some("folder"), Some(NO_WAY))],
    ),
    these(
        OUT,
        &[Probe::Making],
        &["here", "tmp", "write-elsewhere"],
        &[("stat through it", Some("ENOENT"), Some(NO_WAY))],
    ),
    these(
        OUT,
        &[Probe::Spelling],
        &["here"],
        &[
            ("open up/", Some("ok"), Some(NO_WAY)),
            ("lstat up/", Some("folder"), Some(NO_WAY)),
            ("mkdir ..", Some("EEXIST"), Some(NO_WAY)),
            ("rename empty to ..", Some("EBUSY"), Some(NO_WAY)),
        ],
    ),
    these(
        OUT,
        &[Probe::Place],
        &[],
        &[("stat ..", Some("folder"), Some(NO_WAY))],
    ),
    these(
        OUT,
        &[Probe::Place],
        &["granted", "below"],
        &[("open ../readable/file", Some("ok"), Some(NO_WAY))],
    ),
    these(
        OUT,
        &[Probe::Place],
        &["below"],
        &[("open ../file", Some("ok"), Some(NO_WAY))],
    ),
    these(
        OUT,
        &[Probe::Place],
        &["default"],
        &[
            ("open ../readable/file", Some("ENOENT"), Some(NO_WAY)),
            ("open ../file", Some("ENOENT"), Some(NO_WAY)),
        ],
    ),
    these(
        WORKING_DIRECTORY,
        &[Probe::Place],
        &["granted"],
        &[("getcwd gave", Some("{base}/writable"), Some("/"))],
    ),
    these(
        WORKING_DIRECTORY,
        &[Probe::Place],
        &["below"],
        &[("getcwd gave", Some("{base}/writable/sub"), Some("/"))],
    ),
    these(
        WORKING_DIRECTORY,
        &[Probe::GoGiven],
        &["granted"],
        &[("folder", Some("{base}/writable"), Some("{base}/./writable"))],
    ),
    these(
        VARIABLES,
        &[Probe::Environment, Probe::GoGiven],
        &[],
        &[
            ("LOGNAME", Some("guest"), None),
            ("PATH", Some(PATH), None),
            ("USER", Some("guest"), None),
        ],
    ),
    these(
        VARIABLES,
        &[Probe::Environment],
        &["alone"],
        &[("HOME", Some("/tmp"), None)],
    ),
    these(
        VARIABLES,
        &[Probe::GoGiven],
        &[],
        &[("HOME", Some("/tmp"), None)],
    ),
    these(
        OUT,
        &[Probe::Root],
        &[],
        &[("stat /usr/..", Some("folder"), Some(NO_WAY))],
    ),
    these(
        "removing a folder of the root",
        &[Probe::Root],
        &[],
        &[
            ("rmdir /usr", Some("EROFS"), Some("EINVAL")),
            ("rmdir /", Some("EBUSY"), Some("EINVAL")),
        ],
    ),
    these(
        "listing `/`",
        &[Probe::Root],
        &["cwd"],
        &[
            ("/usr is listed", Some("yes"), Some("no")),
            ("stat /./usr", Some("folder"), Some("ENOENT")),
            ("create /new", Some("EROFS"), Some("ok")),
            ("mkdir /folder", Some("EROFS"), Some("ok")),
            ("host", None, Some("writable/folder: folder")),
            ("host", None, Some("writable/new: \"\", 1 names")),
        ],
    ),
    these(
        "the empty path",
        &[Probe::Spelling],
        &[],
        &[
            ("stat nothing", Some("ENOENT"), Some("folder")),
            ("open nothing", Some("ENOENT"), Some("ok")),
        ],
    ),
    these(
        "`/proc`",
        &[Probe::Processes],
        &[],
        &[
            ("stat /proc", Some("folder"), Some("ENOENT")),
            ("stat /proc/self/mem", Some("file 0"), Some("ENOENT")),
        ],
    ),
    these(
        "a fault",
        &[Probe::Fault],
        &["trap"],
        &[("exit", Some("132"), Some("134"))],
    ),
    these(
        "address 0",
        &[Probe::Fault],
        &["write-at-null"],
        &[
            ("null", None, Some("written")),
            ("exit", Some("139"), Some("0")),
        ],
    ),
    these(
        "descriptors from 3 on",
        &[Probe::Serve],
        &["none"],
        &[
            ("fstat", Some("EBADF"), Some("ok")),
            ("accept", Some("EBADF"), Some("ENOTSOCK")),
        ],
    ),
    these(
        "system calls",
        &[Probe::Absent],
        &[],
        &[
            ("fork", Some("ok"), Some("no such call")),
            ("execve", Some("ENOENT"), Some("no such call")),
            ("socket", Some("ok"), Some("no such call")),
            ("chmod", Some("ok"), Some("no such call")),
            ("pipe", Some("ok"), Some("no such call")),
            ("dup", Some("ok"), Some("no such call")),
            ("kill", Some("ok"), Some("no such call")),
            ("mmap", Some("ok"), Some("no such call")),
        ],
    ),
];

/// Whether the module can't reach the place of a case at all.
#[must_use]
pub fn is_out_of_reach(case: &Case) -> bool {
    let mut concerned = DIFFERENCES
        .iter()
        .filter(|difference| difference.concerns(case));
    concerned.any(|difference| matches!(difference.lines, Lines::OutOfReach))
}

impl Difference {
    fn concerns(&self, case: &Case) -> bool {
        self.probes.contains(&case.probe)
            && (self.cases.is_empty() || self.cases.contains(&case.name))
    }
}

/// What a module is told that has no way to a place.
const NO_WAY: &str = "ENOTCAPABLE";

/// Whether the module shows `wasm` where the program shows `native`, but for what is listed.
///
/// # Errors
///
/// Every line that differs without being listed, and every listed one that does not differ.
pub fn compare(case: &Case, native: &[Line], wasm: &[Line]) -> Result<(), String> {
    let found = differing(native, wasm);
    let mut excused = vec![false; found.len()];
    let mut text = String::new();
    for difference in DIFFERENCES
        .iter()
        .filter(|difference| difference.concerns(case))
    {
        let before = text.len();
        match difference.lines {
            Lines::These(lines) => {
                for line in lines {
                    match found.iter().position(|pair| is(pair, line)) {
                        Some(index) => excused[index] = true,
                        None => text += &format!("  no difference any more: {line:?}\n"),
                    }
                }
            }
            Lines::OutOfReach => {
                for (excuse, pair) in excused.iter_mut().zip(&found) {
                    *excuse |= pair.0.is_some() && pair.1.is_none_or(|line| line.value() == NO_WAY);
                }
                if !wasm.iter().any(|line| line.value() == NO_WAY) {
                    text += "  the module reaches the place\n";
                }
            }
        }
        if text.len() > before {
            text += &format!("    of the row {:?}\n", difference.row);
        }
    }
    for (pair, _) in found.iter().zip(excused).filter(|(_, excused)| !excused) {
        let line = |line: Option<&Line>| line.map_or("(nothing)".to_owned(), |line| line.0.clone());
        text += &format!("  native  {}\n  wasm    {}\n", line(pair.0), line(pair.1));
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}

fn is(pair: &Pair<'_>, (call, native, wasm): &(&str, Value, Value)) -> bool {
    let shows = |line: Option<&Line>, value: &Value| match (line, value) {
        (Some(line), Some(value)) => line.call() == *call && line.value() == *value,
        (None, None) => true,
        _ => false,
    };
    shows(pair.0, native) && shows(pair.1, wasm)
}

/// A line of each, or of one only.
type Pair<'a> = (Option<&'a Line>, Option<&'a Line>);

/// Walks both lists; where they part, a line that comes later in the other one is where they meet again.
fn differing<'a>(native: &'a [Line], wasm: &'a [Line]) -> Vec<Pair<'a>> {
    let (mut ours, mut theirs) = (native, wasm);
    let mut found = Vec::new();
    while let (Some(one), Some(other)) = (ours.first(), theirs.first()) {
        let later = |lines: &[Line], call: &str| lines.iter().any(|line| line.call() == call);
        let (comes_later, goes_on) = (later(theirs, one.call()), later(ours, other.call()));
        if one.call() == other.call() || comes_later == goes_on {
            if one != other {
                found.push((Some(one), Some(other)));
            }
            (ours, theirs) = (&ours[1..], &theirs[1..]);
        } else if comes_later {
            found.push((None, Some(other)));
            theirs = &theirs[1..];
        } else {
            found.push((Some(one), None));
            ours = &ours[1..];
        }
    }
    found.extend(ours.iter().map(|line| (Some(line), None)));
    found.extend(theirs.iter().map(|line| (None, Some(line))));
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{DIFFERENCES, compare, differing};
    use crate::equality::{Line, all};

    fn lines(text: &str) -> Vec<Line> {
        text.lines().map(|line| Line(line.to_owned())).collect()
    }

    #[test]
    fn users_are_told_of_every_difference() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/walls/README.md");
        let text = fs::read_to_string(page).expect("read docs/walls/README.md");
        for difference in DIFFERENCES {
            let begins = |line: &str| line.starts_with(&format!("| {}", difference.row));
            assert!(text.lines().any(begins), "no row {:?}", difference.row);
        }
    }

    #[test]
    fn every_difference_is_of_a_case() {
        for difference in DIFFERENCES {
            for name in difference.cases {
                let is_there = |case: &crate::equality::Case| {
                    case.name == *name && difference.probes.contains(&case.probe)
                };
                assert!(all().iter().any(is_there), "{difference:?}: no case {name}");
            }
        }
    }

    #[test]
    fn lists_part_and_meet_again() {
        let (native, wasm) = (lines("a: 1\nb: 1\nc: 1"), lines("a: 2\nnew: 1\nc: 1"));
        let found = differing(&native, &wasm);
        assert_eq!(found[0], (Some(&native[0]), Some(&wasm[0])));
        assert_eq!(found[1], (Some(&native[1]), Some(&wasm[1])));
        assert_eq!(found.len(), 2);
        let more = lines("a: 1\nnew: 1\nb: 1\nc: 1");
        assert_eq!(differing(&native, &more), [(None, Some(&more[1]))]);
        assert_eq!(differing(&more, &native), [(Some(&more[1]), None)]);
    }

    #[test]
    fn what_is_not_listed_or_no_longer_differs_is_an_error() {
        let case = |title: &str| all().into_iter().find(|case| case.title() == title);
        let reading = case("reading/readable").expect("a case");
        let told = compare(&reading, &lines("open: ok"), &lines("open: EPERM"));
        assert!(told.is_err_and(|text| text.contains("wasm    open: EPERM")));
        let trap = case("fault/trap").expect("a case");
        let same = lines("exit: 132");
        assert!(
            compare(&trap, &same, &same).is_err_and(|text| text.contains("no difference any more"))
        );
        assert_eq!(compare(&trap, &same, &lines("exit: 134")), Ok(()));
        let beyond = case("reading/absolute-link").expect("a case");
        assert!(compare(&beyond, &lines("open: ENOENT"), &lines("open: ok")).is_err());
        assert_eq!(
            compare(
                &beyond,
                &lines("open: ok\nread: x"),
                &lines("open: ENOTCAPABLE")
            ),
            Ok(())
        );
    }
}
