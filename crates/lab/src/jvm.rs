//! The jar of `lab/jvm`: the workloads for Java's machine, built by Maven where that was not done since the
//! sources changed.

use crate::subjects::on_path;
use anyhow::{Context, bail, ensure};
use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::SystemTime,
};

/// A folder that holds `jvm`, where that of the checkout that this was built from shall not be used.
const PLACE: &str = "PALISADE_LAB";
const INSTALL: &str = "apt-get install default-jdk-headless maven";

/// A `java` that runs the jar.
#[derive(Clone, Debug)]
pub(crate) struct Java {
    /// The executable, with no links in its path.
    pub(crate) program: PathBuf,
}

impl Java {
    /// The one in `PATH`.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let program = on_path("java")
            .with_context(|| format!("host: there is no java in PATH: {INSTALL}"))?;
        let program = fs::canonicalize(&program)
            .with_context(|| format!("host: cannot read {}", program.display()))?;
        Ok(Self { program })
    }

    /// The first line of what it says about itself: `openjdk 17.0.15 2025-04-15`.
    pub(crate) fn version(&self) -> Option<String> {
        let output = Command::new(&self.program).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().next().map(ToOwned::to_owned)
    }

    /// Where its libraries lie, unless a guest sees them anyway.
    pub(crate) fn own_folder(&self) -> Option<&Path> {
        let folder = self.program.parent()?.parent()?;
        (!folder.starts_with("/usr")).then_some(folder)
    }
}

/// Builds the jar if it is missing or older than its sources; gives its path. A line on stderr tells
/// of a build: the first one downloads components.
///
/// # Errors
///
/// When the sources are not there, Maven is not installed, or the build fails.
pub fn jar() -> anyhow::Result<PathBuf> {
    let project = Project::find()?;
    // Two rows, or two tests, at one time would build into one folder.
    let lock = File::open(project.description()).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.with_context(|| project.fault("cannot be locked"))?;
    if !project
        .is_built()
        .with_context(|| project.fault("cannot be read"))?
    {
        project.build()?;
    }
    Ok(project.jar())
}

/// The Maven project.
struct Project {
    folder: PathBuf,
}

impl Project {
    /// In `$PALISADE_LAB`, the checkout that this was built from, or beside this program.
    fn find() -> anyhow::Result<Self> {
        if let Some(place) = env::var_os(PLACE) {
            let project = Self::in_lab(Path::new(&place));
            let there = project.description().is_file();
            ensure!(
                there,
                "host: {PLACE} names {}, which has no jvm/pom.xml",
                place.display()
            );
            return Ok(project);
        }
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab");
        let beside = env::current_exe()
            .ok()
            .and_then(|own| Some(own.parent()?.join("lab")));
        let places = [fs::canonicalize(checkout).ok(), beside];
        let found = places.into_iter().flatten().map(|lab| Self::in_lab(&lab));
        found.into_iter().find(|project| project.description().is_file()).with_context(|| {
            format!("host: the sources of the workloads are not here: set {PLACE} to the folder lab of palisade's repository")
        })
    }

    fn in_lab(lab: &Path) -> Self {
        Self {
            folder: lab.join("jvm"),
        }
    }

    fn description(&self) -> PathBuf {
        self.folder.join("pom.xml")
    }

    fn jar(&self) -> PathBuf {
        self.folder.join("target/benchmarks.jar")
    }

    fn fault(&self, what: &str) -> String {
        format!("host: {} {what}", self.folder.display())
    }

    fn is_built(&self) -> io::Result<bool> {
        let Ok(jar) = fs::metadata(self.jar()) else {
            return Ok(false);
        };
        let changed = newest(&self.description())?.max(newest(&self.folder.join("src"))?);
        Ok(jar.modified()? >= changed)
    }

    fn build(&self) -> anyhow::Result<()> {
        let maven = on_path("mvn").with_context(|| {
            self.fault(&format!(
                "is not built, and there is no mvn in PATH: {INSTALL}"
            ))
        })?;
        eprintln!(
            "building {} (the first time this downloads components)",
            self.jar().display()
        );
        let output = Command::new(maven)
            .args(["-q", "-B", "-Dstyle.color=never", "package"])
            .current_dir(&self.folder)
            .output()
            .context("host: cannot run mvn")?;
        if !output.status.success() {
            bail!(
                "{}",
                self.fault(&format!("was not built: {}; {ADVICE}", complaint(&output)))
            );
        }
        ensure!(
            self.jar().is_file(),
            "{}",
            self.fault("was built, but there is no jar")
        );
        Ok(())
    }
}

const ADVICE: &str = "the first build needs a network, each a JDK of 17 or newer and a folder to write to (PALISADE_LAB names another)";

/// The first error that Maven tells of.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find_map(|line| line.split_once("[ERROR]"));
    first.map_or_else(
        || output.status.to_string(),
        |(_, error)| error.replace("-> [Help 1]", "").trim().to_owned(),
    )
}

/// When the youngest file at or below `path` was changed.
fn newest(path: &Path) -> io::Result<SystemTime> {
    let metadata = fs::metadata(path)?;
    let mut newest = metadata.modified()?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            newest = newest.max(self::newest(&entry?.path())?);
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

    fn project() -> (tempfile::TempDir, Project) {
        let lab = tempfile::tempdir().unwrap();
        let project = Project::in_lab(lab.path());
        fs::create_dir_all(project.folder.join("src/main")).unwrap();
        fs::create_dir_all(project.folder.join("target")).unwrap();
        for path in [
            project.description(),
            project.jar(),
            project.folder.join("src/main/Main.java"),
        ] {
            fs::write(path, "").unwrap();
        }
        (lab, project)
    }

    fn set_time(path: &Path, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_jar_that_is_older_than_any_source_is_built_again() {
        let (_lab, project) = project();
        let source = project.folder.join("src/main/Main.java");
        for folder in ["src", "src/main"] {
            set_time(&project.folder.join(folder), 10);
        }
        for (description, code, expected) in [(10, 10, true), (30, 10, false), (10, 30, false)] {
            set_time(&project.description(), description);
            set_time(&source, code);
            set_time(&project.jar(), 20);
            assert_eq!(
                project.is_built().unwrap(),
                expected,
                "{description} {code}"
            );
        }
        fs::remove_file(project.jar()).unwrap();
        assert!(!project.is_built().unwrap());
    }

    #[test]
    fn a_failed_build_is_told_with_its_first_error() {
        let output = |stdout: &str| Output {
            status: ExitStatus::from_raw(1 << 8),
            stdout: stdout.into(),
            stderr: Vec::new(),
        };
        let log = "[INFO] x\n[ERROR] Could not resolve y -> [Help 1]\n[ERROR] z\n";
        assert_eq!(complaint(&output(log)), "Could not resolve y");
        assert_eq!(complaint(&output("")), "exit status: 1");
    }

    #[test]
    fn libraries_outside_usr_are_named() {
        let folder = |program: &str| {
            Java {
                program: program.into(),
            }
            .own_folder()
            .map(Path::to_owned)
        };
        assert_eq!(folder("/usr/lib/jvm/java-17/bin/java"), None);
        assert_eq!(folder("/opt/jdk/bin/java"), Some("/opt/jdk".into()));
    }
}
