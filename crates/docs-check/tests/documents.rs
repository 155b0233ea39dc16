//! The documents say what is true of the tree and of the binary.

use palisade_docs::{Document, Session, Shell, documents};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    // Asked at run time: checkouts that share a target folder share this binary too.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo test sets it");
    fs::canonicalize(Path::new(&package).join("../..")).expect("the workspace's root")
}

fn all() -> Vec<Document> {
    let found = documents(&root());
    assert!(found.len() >= 8, "the documents were not found: {found:?}");
    found
}

fn named(name: &str) -> Document {
    let path = root().join(name);
    all()
        .into_iter()
        .find(|document| document.path == path)
        .unwrap_or_else(|| panic!("there is no {name}"))
}

/// Fails with all problems at once, each with the place to mend.
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn place(document: &Document, line: usize) -> String {
    format!(
        "{}:{line}",
        document
            .path
            .strip_prefix(root())
            .unwrap_or(&document.path)
            .display()
    )
}

/// `$PALISADE_BIN`, or the binary that cargo built beside this test.
fn palisade() -> PathBuf {
    if let Some(path) = std::env::var_os("PALISADE_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().expect("this test's own path");
    let beside = own
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("palisade"))
        .find(|path| path.is_file());
    beside.expect("no palisade binary beside the tests: `cargo build --bins` makes it, `make test` calls that")
}

fn help(arguments: &[&str]) -> String {
    let output = Command::new(palisade())
        .args(arguments)
        .arg("--help")
        .output()
        .expect("palisade starts");
    assert!(
        output.status.success(),
        "palisade {arguments:?} --help: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Verbs of the command line, as `palisade --help` lists them.
fn verbs() -> BTreeSet<String> {
    let text = help(&[]);
    let listed = text
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    listed
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let documents = all();
    let mut problems = Vec::new();
    for document in &documents {
        for (line, target) in document.links() {
            if let Some(why) = broken(document, &target, &documents) {
                problems.push(format!("{}: {target}: {why}", place(document, line)));
            }
        }
    }
    assert_none(&problems);
}

/// Links out of the repository are left alone: a test needs no network.
fn broken(document: &Document, target: &str, documents: &[Document]) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = document.path.parent().unwrap_or(Path::new("/"));
    let path = if path.is_empty() {
        document.path.clone()
    } else {
        folder.join(path)
    };
    let Ok(path) = fs::canonicalize(path) else {
        return Some("no such file");
    };
    let to = documents.iter().find(|document| document.path == path);
    let has_anchor = to.is_some_and(|to| to.anchors().iter().any(|known| known == anchor));
    (!anchor.is_empty() && !has_anchor).then_some("no such heading")
}

#[test]
fn every_path_that_is_named_exists() {
    let mut problems = Vec::new();
    for document in all() {
        for (line, code) in document.code() {
            if is_path_of_the_tree(&code) && !root().join(&code).exists() {
                problems.push(format!("{}: there is no {code}", place(&document, line)));
            }
        }
    }
    assert_none(&problems);
}

/// Inline code that begins with a folder of the repository's root. A word in capitals stands for
/// any name: `crates/suite/src/attacks/FAMILY.rs`.
fn is_path_of_the_tree(code: &str) -> bool {
    const FOLDERS: [&str; 9] = [
        "crates/", "guests/", "docs/", "tools/", "demo/", "lab/", "runs/", ".ci/", ".cargo/",
    ];
    let stem = Path::new(code)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let stands_for_any = stem != "README" && stem.chars().all(|letter| letter.is_ascii_uppercase());
    FOLDERS.iter().any(|folder| code.starts_with(folder))
        && !code.contains([' ', '<', '*', '…'])
        && !stands_for_any
}

#[test]
fn the_codemap_names_every_crate() {
    let codemap = named("ARCHITECTURE.md")
        .section("Codemap")
        .expect("ARCHITECTURE.md has a codemap");
    let code: BTreeSet<_> = codemap.code().into_iter().map(|(_, code)| code).collect();
    let crates = fs::read_dir(root().join("crates")).expect("crates/");
    let missing: Vec<_> = crates
        .map(|entry| {
            format!(
                "crates/{}",
                entry
                    .expect("an entry of crates/")
                    .file_name()
                    .to_string_lossy()
            )
        })
        .filter(|path| !code.contains(path))
        .collect();
    assert_none(&missing);
}

#[test]
fn every_command_that_is_named_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let verbs = verbs();
    let mut problems = Vec::new();
    for document in all() {
        for (line, code) in document.code() {
            let mut words = code.split_whitespace();
            let known = match (words.next(), words.next()) {
                (Some("make"), Some(target)) => makefile.contains(&format!("\n{target}:")),
                (Some("palisade"), Some(verb)) if verb.starts_with(char::is_lowercase) => {
                    verbs.contains(verb)
                }
                _ => true,
            };
            if !known {
                problems.push(format!("{}: there is no `{code}`", place(&document, line)));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_flag_that_is_named_exists() {
    let known: String = verbs()
        .iter()
        .filter(|verb| *verb != "help")
        .map(|verb| help(&[verb]))
        .collect();
    let mut problems = Vec::new();
    for document in all()
        .iter()
        .filter(|document| !document.path.ends_with("CONTRIBUTING.md"))
    {
        for (line, code) in document.code() {
            let flag = code.split([' ', '=']).next().unwrap_or_default();
            if flag.len() > 2 && flag.starts_with("--") && !has_word(&known, flag) {
                problems.push(format!(
                    "{}: palisade has no flag {flag}",
                    place(document, line)
                ));
            }
        }
    }
    assert_none(&problems);
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-')
        .any(|found| found == word)
}

/// A claim is held by tests, by rows of the attack table, or is marked pending with the reason.
#[test]
fn every_claim_names_what_holds_it() {
    let claims = named("CLAIMS.md");
    let (tests, attacks) = (test_names(), attack_names());
    let mut problems = Vec::new();
    let rows = claims.table_rows();
    assert!(rows.len() > 30, "the claims were not found");
    for (line, cells) in rows {
        let Some(holder) = cells.last() else { continue };
        let problem = problem_with(holder, &tests, &attacks);
        problems.extend(problem.map(|problem| format!("{}: {problem}", place(&claims, line))));
    }
    assert_none(&problems);
}

fn problem_with(
    holder: &str,
    tests: &BTreeSet<String>,
    attacks: &BTreeSet<String>,
) -> Option<String> {
    if let Some(reason) = holder.strip_prefix("pending: ") {
        return reason
            .is_empty()
            .then(|| "pending without a reason".to_owned());
    }
    let names: Vec<_> = holder.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        return Some(format!("neither a test nor `pending: …`: {holder}"));
    }
    let unknown = |name: &&str| match name.split_once('/') {
        Some(("process" | "bare" | "equality" | "pod-palisade", attack)) => {
            !attacks.contains(attack)
        }
        Some(("wasm", attack)) if attacks.contains(attack) => false,
        _ => !tests.contains(*name),
    };
    names
        .into_iter()
        .find(unknown)
        .map(|name| format!("there is no test {name}"))
}

/// Names of all test functions of the workspace, and `MODULE/CASE` of the cases that suites without
/// the standard harness make of functions.
fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in rust_files(&root().join("crates")) {
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        names.extend(marked_functions(&text));
        names.extend(cases(&path, &text));
        let is_shared = path
            .ancestors()
            .any(|folder| folder.ends_with("tests/foreign") || folder.ends_with("tests/service"));
        if is_shared || text.contains("libtest_mimic::run") {
            names.extend(text.lines().filter_map(shared_function_name));
        }
    }
    names.extend(cases_of_the_machine());
    names
}

/// `vm/CASE` of those that `tools/vm-test` runs on other kernels.
fn cases_of_the_machine() -> impl Iterator<Item = String> {
    let inside = fs::read_to_string(root().join("tools/vm/inside")).unwrap();
    let (_, list) = inside.split_once("all_cases='").unwrap();
    let (list, _) = list.split_once('\'').unwrap();
    let names: Vec<_> = list
        .split_whitespace()
        .map(|name| format!("vm/{name}"))
        .collect();
    names.into_iter()
}

/// Of a suite that makes its cases of functions which its modules share.
fn shared_function_name(line: &str) -> Option<String> {
    function_name(line.strip_prefix("pub(crate) ").unwrap_or(line))
        .filter(|_| !line.starts_with(' '))
}

fn marked_functions(text: &str) -> Vec<String> {
    let mut lines = text.lines();
    let mut names = Vec::new();
    while lines.any(|line| matches!(line.trim(), "#[test]" | "#[tokio::test]")) {
        names.extend(lines.find_map(function_name));
    }
    names
}

/// The functions of a suite's module that its list of cases names. A module in a folder of its suite has
/// the folder's name before its own.
fn cases(path: &Path, text: &str) -> Vec<String> {
    const SUITE: &str = "cli";
    let name = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let module = match path.parent().map(name) {
        Some(folder) if folder != SUITE => format!("{folder}_{}", name(path)),
        _ => name(path),
    };
    let list = text
        .split_once("cases![")
        .and_then(|(_, rest)| rest.split_once("];"));
    let Some((list, functions)) = list else {
        return Vec::new();
    };
    let listed: BTreeSet<_> = list.split(',').map(str::trim).collect();
    let functions = functions.lines().filter_map(function_name);
    let is_listed = |name: &String| listed.contains(name.as_str());
    functions
        .filter(is_listed)
        .map(|name| format!("{module}/{name}"))
        .collect()
}

fn function_name(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.strip_prefix("async ").unwrap_or(line);
    let name = line.strip_prefix("fn ")?.split(['(', '<']).next()?;
    Some(name.to_owned())
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a folder's entry").path());
    let below = |path: PathBuf| match path.is_dir() {
        true => rust_files(&path),
        false => vec![path],
    };
    paths
        .flat_map(below)
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// Names as the matrix and the suite of equality print them: with hyphens, where C has underscores.
fn attack_names() -> BTreeSet<String> {
    let lists = [
        "guests/hostile/attacks.def",
        "guests/wasi/attacks/attacks.def",
        "guests/portable/probes.def",
    ];
    let text = lists.map(|list| fs::read_to_string(root().join(list)).expect("a list of guests"));
    let names = text
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("ATTACK(").or(line.strip_prefix("PROBE(")))
        .filter_map(|rest| rest.strip_suffix(')'));
    names.map(|name| name.replace('_', "-")).collect()
}

/// Rust in a document is a copy of an example in the library's documentation, which the compiler
/// checks as a doctest.
#[test]
fn rust_examples_are_compiled_ones() {
    let sources: String = rust_files(&root().join("crates/palisade/src"))
        .iter()
        .map(|path| fs::read_to_string(path).expect("a source file"))
        .collect();
    let documentation: Vec<_> = sources
        .lines()
        .filter_map(|line| line.trim().strip_prefix("//"))
        .map(|line| {
            line.trim_start_matches(['!', '/'])
                .strip_prefix(' ')
                .unwrap_or_default()
        })
        .collect();
    let mut problems = Vec::new();
    for document in all() {
        for fence in document
            .fences()
            .iter()
            .filter(|fence| fence.info == "rust")
        {
            let is_copied = documentation
                .windows(fence.content.len())
                .any(|lines| lines == fence.content);
            if !is_copied {
                let at = place(&document, fence.line);
                problems.push(format!("{at}: stands in no documentation of the library"));
            }
        }
    }
    assert_none(&problems);
}

/// Every `console run` block prints what it shows.
#[test]
fn examples_do_as_shown() {
    let mut problems = Vec::new();
    let sessions: Vec<_> = all()
        .into_iter()
        .filter_map(|document| Some((Session::of_document(&document)?, document.path)))
        .collect();
    assert!(!sessions.is_empty(), "no example was found");
    for (session, path) in sessions {
        // Not /tmp: a domain has one of its own, and a grant below it is a special case with a note.
        let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        let told = session.play(&Shell::new(folder.path(), &palisade()));
        problems.extend(
            told.into_iter()
                .map(|problem| format!("{}, {problem}", path.display())),
        );
    }
    assert_none(&problems);
}

/// Palisade takes what a unit has systemd start, with the policy or configuration that the same document shows. Folders that
/// are the service's own are made for it.
#[test]
fn units_start_what_palisade_takes() {
    let mut started = BTreeSet::new();
    for document in all() {
        let fences = document.fences().iter();
        let of_kind = |kind| fences.clone().filter(move |fence| fence.info == kind);
        let lines = of_kind("ini").flat_map(|fence| &fence.content);
        let commands = lines.filter_map(|line| {
            let line = line.strip_prefix("ExecStart=");
            line.and_then(|line| line.strip_prefix("/usr/local/bin/palisade "))
        });
        let files = of_kind("toml").map(|fence| fence.content.join("\n"));
        let (servers, policies) = files.partition::<Vec<_>, _>(|file| file.contains("[[listen]]"));
        for line in commands {
            let words: Vec<_> = line.split(' ').collect();
            let problem = match words.as_slice() {
                ["run", words @ ..] => {
                    problem_of_unit(&["explain", "--allow-degraded", "memory"], words, &policies)
                }
                ["serve", words @ ..] => problem_of_unit(&["serve", "--check"], words, &servers),
                _ => Some("it is neither `palisade run` nor `palisade serve`".to_owned()),
            };
            assert_eq!(problem, None, "{}: {line}", document.path.display());
            started.insert(words[0].to_owned());
        }
    }
    assert_eq!(started.len(), 2, "a unit was not found: {started:?}");
}

/// What `palisade` says against these `words` of a unit, asked by `verb` whether it takes them. (Who runs this may have no
/// control group.)
fn problem_of_unit(verb: &[&str], words: &[&str], files: &[String]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [file] = files else {
        return Some("there is not one file beside it".to_owned());
    };
    let mut file = file.clone();
    for own in [
        "/srv/greeter",
        "/var/lib/greeter",
        "/srv/www",
        "/run/palisade",
        "/var/log/palisade",
    ] {
        let made = folder.path().join(&own[1..]);
        fs::create_dir_all(&made).expect("a folder");
        file = file.replace(own, &made.to_string_lossy());
    }
    let path = folder.path().join("file.toml");
    fs::write(&path, file).expect("a file");
    let words = words
        .iter()
        .map(|word| match word.starts_with("/etc/palisade/") {
            true => path.clone(),
            false => PathBuf::from(word),
        });
    let told = Command::new(palisade()).args(verb).args(words).output();
    let told = told.expect("palisade starts");
    (!told.status.success()).then(|| String::from_utf8_lossy(&told.stderr).into_owned())
}

/// The units beside the documents are those that these show, and systemd takes them.
#[test]
fn published_units_are_those_of_the_document_and_valid() {
    let units = root().join("docs/systemd");
    let document = named("docs/systemd.md");
    let shown: Vec<_> = document
        .fences()
        .iter()
        .filter(|fence| fence.info == "ini")
        .map(|fence| fence.content.join("\n") + "\n")
        .collect();
    let mut verified = 0;
    for entry in fs::read_dir(&units).expect("units").flatten() {
        let text = fs::read_to_string(entry.path()).expect("a unit");
        assert!(
            shown.contains(&text),
            "{:?} is not what the document shows",
            entry.path()
        );
        let problem = problem_of_systemd(&entry.file_name(), &text);
        assert_eq!(problem, None, "{:?}", entry.path());
        verified += 1;
    }
    assert_eq!(verified, 2, "a unit was not found");
    let unknown = problem_of_systemd(
        "x.service".as_ref(),
        "[Service]\nExecStart=/bin/true\nNoNewPrivilege=yes\n",
    );
    assert!(
        unknown.is_some_and(|told| told.contains("NoNewPrivilege")),
        "a mistake is found"
    );
}

/// What `systemd-analyze verify` says against a unit. `tools/setup` sees to it that it is there.
fn problem_of_systemd(name: &std::ffi::OsStr, text: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let version = Command::new("systemd-analyze").arg("--version").output();
    let version = version
        .expect("systemd-analyze is there: the package systemd has it")
        .stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    let version = version
        .split(' ')
        .nth(1)
        .and_then(|version| version.parse::<u32>().ok());
    let mut text = text.replace("/usr/local/bin/palisade", "/bin/true");
    if version.expect("a version") < 253 {
        // As the document says.
        text = text.replace("Type=notify-reload", "Type=notify");
    }
    let unit = folder.path().join(name);
    fs::write(&unit, text).expect("a unit");
    // A socket is for a service.
    let service = folder.path().join("palisade.service");
    if !service.exists() {
        fs::write(&service, "[Service]\nExecStart=/bin/true\n").expect("a unit");
    }
    let told = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&unit)
        .output();
    let told = told.expect("systemd-analyze starts");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    // Of other units of this machine it may complain as well.
    let of_it: Vec<_> = said
        .lines()
        .filter(|line| line.contains(&*name.to_string_lossy()))
        .collect();
    (!of_it.is_empty() || !told.status.success()).then(|| said.clone())
}

/// Sections, settings and empty lines, and nothing else.
#[test]
fn units_are_written_as_systemd_reads_them() {
    let documents = all();
    let fences = documents.iter().flat_map(|document| document.fences());
    // Others are files of variables.
    let begins_a_unit = |line: &String| line.starts_with('[');
    let units = fences
        .filter(|fence| fence.info == "ini" && fence.content.first().is_some_and(begins_a_unit));
    let lines = units.flat_map(|fence| &fence.content);
    let is_section = |line: &str| ["[Unit]", "[Service]", "[Socket]", "[Install]"].contains(&line);
    let is_setting = |line: &str| {
        let name = line.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    let odd: Vec<_> = lines
        .filter(|line| !line.is_empty() && !is_section(line) && !is_setting(line))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}
