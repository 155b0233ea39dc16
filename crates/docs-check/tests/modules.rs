//! No crate's modules need each other in a circle.
//!
//! A module is what lies right below a crate's root; it needs another that its code names by `crate::`, or of which it names
//! there what the root passes on. Parents and children are one module here, and tests do not count. A program below a
//! crate's sources (a folder with a `main.rs`) is a crate of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The modules that each module needs.
type Needs = BTreeMap<String, BTreeSet<String>>;

fn crates() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo test sets it");
    fs::canonicalize(Path::new(&package).join("..")).expect("the folder of crates")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The folders of the programs below a crate's sources.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let below = entries(folder);
    let folders = below.iter().filter(|path| path.is_dir());
    let found = folders.flat_map(|path| match path.join("main.rs").is_file() {
        true => vec![path.clone()],
        false => programs(path),
    });
    found.collect()
}

/// The files of a module: its own, and all below its folder but for those of programs.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.join("main.rs").is_file() {
        return Vec::new();
    }
    if path.is_dir() {
        return entries(path)
            .iter()
            .flat_map(|path| sources(path))
            .collect();
    }
    let is_test = stem(path) == "tests" || path.iter().any(|part| part == "tests");
    let is_source = path.extension().is_some_and(|end| end == "rs") && !is_test;
    is_source.then(|| path.to_path_buf()).into_iter().collect()
}

/// Code without comments, and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = code.unwrap_or(&text).lines();
    let lines = lines.map(|line| line.split("//").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// What follows each `crate::` in code: one name, or the names right inside braces.
fn named(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(list) => names.extend(outermost(list)),
            None => names.extend(identifier(after)),
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let text = text.trim_start();
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &text[..length.unwrap_or(text.len())];
    (!name.is_empty()).then(|| name.to_owned())
}

/// The first name of each item of a list in braces, which may hold further ones.
fn outermost(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut item) = (0, Vec::new(), String::new());
    for c in list.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(identifier(&std::mem::take(&mut item))),
            _ => {}
        }
        item.push(if c == ',' && depth == 0 { ' ' } else { c });
    }
    names.extend(identifier(&item));
    names
}

/// What a crate's root passes on, by the module that has it.
fn passed_on(root: &str) -> BTreeMap<String, String> {
    let uses = root.split("pub use ").skip(1);
    let uses = uses.filter_map(|text| text.split(';').next()?.split_once("::"));
    let names = uses.flat_map(|(module, names)| {
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.map(move |name| (name.to_owned(), module.to_owned()))
    });
    names.collect()
}

fn needs(sources_of_crate: &Path) -> Needs {
    let roots = ["lib", "main", "bin"];
    let passed_on = passed_on(&code(&sources_of_crate.join("lib.rs")));
    let modules: BTreeSet<_> = entries(sources_of_crate)
        .iter()
        .map(|path| stem(path))
        .filter(|name| !roots.contains(&name.as_str()))
        .collect();
    let mut needs = Needs::new();
    for path in entries(sources_of_crate) {
        let module = stem(&path);
        if !modules.contains(&module) {
            continue;
        }
        let files = sources(&path).into_iter();
        let names = files.flat_map(|file| named(&code(&file)));
        let named = names
            .map(|name| passed_on.get(&name).cloned().unwrap_or(name))
            .collect();
        let others: BTreeSet<_> = modules.intersection(&named).cloned().collect();
        needs.entry(module).or_default().extend(others);
    }
    for (module, others) in &mut needs {
        others.remove(module);
    }
    needs
}

/// All that a module needs, also by what it needs.
fn reach(needs: &Needs, module: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module.to_owned()];
    while let Some(module) = next.pop() {
        for other in needs.get(&module).into_iter().flatten() {
            if reached.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    reached
}

/// Modules that need each other, in groups.
fn knots(needs: &Needs) -> BTreeSet<String> {
    let reached: BTreeMap<_, _> = needs
        .keys()
        .map(|name| (name, reach(needs, name)))
        .collect();
    let knots = reached
        .iter()
        .filter(|(name, reached)| reached.contains(**name));
    let knots = knots.map(|(name, others)| {
        let both = others.iter().filter(|other| reached[other].contains(*name));
        both.map(String::as_str).collect::<Vec<_>>().join(" ")
    });
    knots.collect()
}

#[test]
fn no_crate_has_a_knot() {
    let mut found = BTreeSet::new();
    for path in entries(&crates()) {
        let sources = path.join("src");
        let own = [(stem(&path), sources.clone())];
        let programs = programs(&sources).into_iter();
        let programs =
            programs.map(|program| (format!("{}/{}", stem(&path), stem(&program)), program));
        for (name, sources) in own.into_iter().chain(programs) {
            let knots = knots(&needs(&sources));
            found.extend(knots.into_iter().map(|knot| (name.clone(), knot)));
        }
    }
    assert!(
        found.is_empty(),
        "modules need each other in a circle: {found:#?}"
    );
}

/// The crates of this workspace that a crate links.
fn linked(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]");
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ']).next());
    let ours = names.filter(|name| name.starts_with("palisade"));
    ours.map(|name| name.trim_start_matches("palisade-").to_owned())
        .collect()
}

/// Each is part of a program of its own, so that what starts guests is small and starts fast.
#[test]
fn the_command_links_no_engine_no_server_and_no_workload() {
    let mut needs = Needs::new();
    for path in entries(&crates()) {
        let name = stem(&path);
        needs.insert(name.clone(), linked(&name).into_iter().collect());
    }
    let reached = reach(&needs, "cli");
    assert!(reached.contains("command-line") && reached.contains("process"));
    for other in ["engine", "compiler", "filter", "service", "host", "lab"] {
        assert!(!reached.contains(other), "palisade links {other}");
    }
}

#[test]
fn names_are_found_in_lists_and_alone() {
    let code = "use crate::{\n    a::{b, crate_c},\n    d,\n    e::F,\n};\nfn x() -> crate::g::H { crate::i() }";
    let found = named(code).into_iter().collect::<Vec<_>>();
    assert_eq!(found, ["a", "d", "e", "g", "i"]);
}

#[test]
fn a_circle_is_a_knot_and_a_way_is_none() {
    let needs = |pairs: &[(&str, &str)]| {
        let mut needs = Needs::new();
        for (from, to) in pairs {
            needs
                .entry((*from).into())
                .or_default()
                .insert((*to).into());
            needs.entry((*to).into()).or_default();
        }
        needs
    };
    assert!(knots(&needs(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let knotted = knots(&needs(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(knotted.into_iter().collect::<Vec<_>>(), ["b c"]);
}
