//! The tools that projects are built with, by the files that say so.

/// A tool, and what its builds need.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct Tool {
    pub(in crate::commands) name: &'static str,
    /// Any of these in the project's folder.
    pub(in crate::commands) markers: &'static [&'static str],
    pub(in crate::commands) profiles: &'static [&'static str],
    /// Where it executes what it has made, beside the project: each with the reason.
    pub(in crate::commands) executes: &'static [(&'static str, &'static str)],
    /// Where it fetches from.
    pub(in crate::commands) hosts: &'static [&'static str],
    /// By which it keeps what it fetches in the domain's own `/tmp`.
    pub(in crate::commands) cache: Option<&'static str>,
    /// What to try behind the policy.
    pub(in crate::commands) example: &'static str,
}

const PROJECT: (&str, &str) = (".", "what is built, and the project's own scripts");

/// All of them; the first that fits gives the example.
pub(in crate::commands) const TOOLS: [Tool; 8] = [
    Tool {
        name: "Cargo",
        markers: &["Cargo.toml"],
        profiles: &["rust"],
        executes: &[PROJECT, ("/tmp", "Cargo: tests in documentation")],
        hosts: &["index.crates.io", "static.crates.io"],
        cache: Some("CARGO_HOME=/tmp/cargo"),
        example: "cargo build --offline",
    },
    Tool {
        name: "npm",
        markers: &["package.json"],
        profiles: &["node"],
        executes: &[PROJECT],
        hosts: &["registry.npmjs.org"],
        cache: None,
        example: "npm test",
    },
    Tool {
        name: "Python",
        markers: &[
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "requirements.txt",
            "Pipfile",
        ],
        profiles: &["python"],
        executes: &[PROJECT],
        hosts: &["pypi.org", "files.pythonhosted.org"],
        cache: None,
        example: ".venv/bin/python -m pytest",
    },
    Tool {
        name: "Go",
        markers: &["go.mod"],
        profiles: &["go"],
        executes: &[PROJECT, ("/tmp", "Go: tests, which it builds there")],
        hosts: &["proxy.golang.org", "sum.golang.org"],
        cache: Some("GOMODCACHE=/tmp/gomod"),
        example: "go build ./...",
    },
    Tool {
        name: "Maven",
        markers: &["pom.xml"],
        profiles: &["java", "maven"],
        executes: &[PROJECT],
        hosts: &["repo.maven.apache.org"],
        cache: Some("MAVEN_ARGS=-Dmaven.repo.local=/tmp/maven"),
        example: "mvn -o package",
    },
    Tool {
        name: "CMake",
        markers: &["CMakeLists.txt"],
        profiles: &[],
        executes: &[PROJECT],
        hosts: &[],
        cache: None,
        example: "cmake -B build",
    },
    Tool {
        name: "make",
        markers: &["Makefile", "makefile", "GNUmakefile", "configure"],
        profiles: &[],
        executes: &[PROJECT],
        hosts: &[],
        cache: None,
        example: "make",
    },
    Tool {
        name: "git",
        markers: &[".git"],
        profiles: &["git"],
        executes: &[],
        hosts: &[],
        cache: None,
        example: "git status",
    },
];
