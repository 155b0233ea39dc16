//! The wasm wall's worker with no wall around it: the engine, and every folder of the root open.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{FilledGrant, Launch, palisade, text};
use crate::executable::copy_program;

pub(super) const WORKER: &str = "palisade-worker";
const COMPILER: &str = "palisade-compiler";
/// Machine code of the hostile module, as [`WORKER`] takes it.
const CODE: &str = "hostile.code";
/// Executes its arguments with the code and a status pipe that nobody reads.
const WITH_CODE: &str = r#"code=$1; shift; exec "$@" 3<"$code" 4>/dev/null"#;

pub(super) fn command_line(launch: &Launch) -> Vec<String> {
    let tools = launch.fixture_program.with_file_name("");
    let mut words = ["sh", "-c", WITH_CODE, "sh"].map(str::to_owned).to_vec();
    words.extend([text(&tools.join(CODE)), text(&tools.join(WORKER))]);
    words.extend(["--code=3", "--status=4", "--listeners=0"].map(str::to_owned));
    words.extend(folders_of_root().map(|folder| format!("--preopen={folder}")));
    words.push(format!("--cwd={}", folder(launch)));
    words.push("--".to_owned());
    words.extend(launch.guest_called("hostile.wasm"));
    words
}

/// The guest finds open what the wasm wall gives it of a domain, and more: `/proc` and all else.
fn folders_of_root() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/").into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| text(&entry.path()))
}

fn folder(launch: &Launch) -> String {
    let cwd = launch.grants.iter().find_map(|grant| match grant {
        FilledGrant::Cwd(path) => Some(path.clone()),
        _ => None,
    });
    cwd.unwrap_or_else(|| "/".to_owned())
}

/// Copies the parts, and compiles the module for the worker alone.
pub(super) fn equip(folder: &Path) -> io::Result<()> {
    for name in [WORKER, COMPILER] {
        if let Some(part) = palisade::find_part(name) {
            copy_program(&part, &folder.join(name))?;
        }
    }
    let module = Path::new(crate::BUILT).join("hostile.wasm");
    if !module.is_file() || !folder.join(COMPILER).is_file() {
        return Ok(());
    }
    let status = Command::new(folder.join(COMPILER))
        .arg("program")
        .stdin(File::open(module)?)
        .stdout(File::create(folder.join(CODE))?)
        .stderr(Stdio::inherit())
        .status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other("the compiler refuses hostile.wasm"))
}
