//! The suites of `mk-1`: each is a shell script that runs tests of somebody else's with `$HOME` as the only
//! place to write to, and what reads the results it leaves there.

use super::results::{Results, go_results, junit_results};
use crate::{rows::Extent, subjects::on_path, workloads::Workloads};
use anyhow::{Context, ensure};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A suite of tests.
pub(super) struct Suite {
    /// What it is called in tables.
    pub(super) title: &'static str,
    /// How to get it.
    pub(super) install: &'static str,
    /// Lays out what it needs; gives the script, or `None` where it is not installed or too long for the extent.
    pub(super) script: fn(&Workloads, Extent) -> anyhow::Result<Option<String>>,
    /// What the script left in its home.
    pub(super) results: fn(&Path) -> anyhow::Result<Results>,
    /// The least extent that has time for it.
    pub(super) least: Extent,
}

pub(super) static SUITES: [Suite; 3] = [
    Suite {
        title: "CPython: os, io, threads",
        install: "apt-get install libpython3.11-testsuite",
        script: python,
        results: |home| junit_results(&[home.join("results.xml")]),
        least: Extent::Tiny,
    },
    Suite {
        title: "Go: os, io, bufio, os/exec",
        install: "apt-get install golang",
        script: go,
        results: |home| go_results(&home.join(SAID)),
        least: Extent::Full,
    },
    Suite {
        title: "Java: Commons IO",
        install: "apt-get install default-jre-headless maven, then lab/suites/fetch",
        script: java,
        results: |home| junit_results(&xml_files(&home.join("reports"))?),
        least: Extent::Full,
    },
];

/// What a script says, in its home.
pub(super) const SAID: &str = "said";

/// Debian's own interpreter: others lie in homes, which a guest does not see.
const PYTHON: &str = "/usr/bin/python3";

/// Neither `test_socket` nor whatever else is about a network, which there is none of on either side.
fn python(_: &Workloads, extent: Extent) -> anyhow::Result<Option<String>> {
    let finds = ["-c", "import test.test_os"];
    let is_there = Command::new(PYTHON).args(finds).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return Ok(None);
    }
    let modules = match extent {
        Extent::Full => {
            "test_os test_posix test_io test_fileio test_file test_tempfile test_shutil test_pathlib \
             test_threading test_thread test_subprocess test_select test_selectors test_poll \
             test_epoll"
        }
        Extent::Quick => "test_os test_posix test_fileio test_tempfile test_pathlib test_select",
        Extent::Tiny => "test_fileio test_tempfile",
    };
    Ok(Some(format!(
        "exec {PYTHON} -m test -v -j2 --junit-xml \"$HOME/results.xml\" {modules}"
    )))
}

const GO_PACKAGES: [&str; 4] = ["os", "io", "bufio", "os/exec"];

/// The tests are compiled here and run there, in a copy of their package's folder, as `go test` does it.
/// Go's listeners would be MPTCP's: those Landlock cannot refuse outside, and inside there are none.
fn go(workloads: &Workloads, _: Extent) -> anyhow::Result<Option<String>> {
    let Some(go) = on_path("go") else {
        return Ok(None);
    };
    let root = Command::new(&go)
        .args(["env", "GOROOT"])
        .output()
        .context("go env GOROOT")?;
    let root = String::from_utf8_lossy(&root.stdout).trim().to_owned();
    if !root.starts_with("/usr/") || !Path::new(&root).join("src/os/os_test.go").is_file() {
        return Ok(None);
    }
    let mut script = format!("export GOROOT={root} PATH={root}/bin:$PATH GODEBUG=multipathtcp=0\n");
    for package in GO_PACKAGES {
        let tests = workloads.folder().join(package.replace('/', "_") + ".test");
        compile_go_tests(&go, package, &tests)?;
        script += &format!(
            "mkdir -p \"$HOME/src/{package}\"; cp -r {root}/src/{package}/. \"$HOME/src/{package}\"\n\
             cd \"$HOME/src/{package}\"; echo \"package {package}\"; {} -test.v -test.short\n",
            tests.display()
        );
    }
    Ok(Some(script))
}

fn compile_go_tests(go: &Path, package: &str, tests: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(go);
    command.args(["test", "-c", "-o"]).arg(tests).arg(package);
    if env::var_os("HOME").is_none() && env::var_os("GOCACHE").is_none() {
        command.env("GOCACHE", tests.with_extension("cache"));
    }
    let output = command
        .output()
        .with_context(|| format!("host: cannot run {}", go.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the tests of Go's {package} do not compile: {said}"
    );
    Ok(())
}

/// Where `lab/suites/fetch` puts archives.
fn fetched(suite: &str) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("palisade/suites").join(suite))
}

/// Classes whose tests wait for seconds, for a file's age or another thread: half of the suite's time, and no
/// more of the system than others use.
const WAITING: &str =
    ".*(Tailer|Cleaner|FileCleaning|LastModified|FileAlteration|WaitFor|AccumulatorPath).*";

fn java(workloads: &Workloads, _: Extent) -> anyhow::Result<Option<String>> {
    let archives = fetched("commons-io").map(|folder| files_in(&folder, ".jar"));
    let archives = archives.and_then(Result::ok).unwrap_or_default();
    let has = |part: &str| {
        archives
            .iter()
            .any(|path| path.to_string_lossy().contains(part))
    };
    if !Path::new("/usr/bin/java").exists() || !has("-tests.jar") || !has("console-standalone") {
        return Ok(None);
    }
    let (mut class_path, mut tests, mut console) = (Vec::new(), String::new(), String::new());
    for archive in archives {
        let name = archive
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let copy = workloads.add_copy(&name, &archive)?.display().to_string();
        match () {
            () if name.contains("console-standalone") => console = copy.clone(),
            () if name.ends_with("-tests.jar") => tests = copy.clone(),
            () => {}
        }
        if copy != console {
            class_path.push(copy);
        }
    }
    Ok(Some(format!(
        "exec /usr/bin/java -Djava.io.tmpdir=\"$HOME\" -jar {console} execute -cp {} \
         --scan-class-path={tests} --exclude-classname='{WAITING}' --details=none --disable-banner --reports-dir=\"$HOME/reports\"",
        class_path.join(":")
    )))
}

fn xml_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    files_in(folder, ".xml")
        .with_context(|| format!("the suite left nothing in {}", folder.display()))
}

fn files_in(folder: &Path, ending: &str) -> std::io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    Ok(paths)
}
