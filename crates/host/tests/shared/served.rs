//! A program that answers on descriptor 3, and looks around where it runs.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, process::Command, sync::OnceLock};

/// The program, compiled once, where any user can execute it.
pub(crate) fn served() -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let anybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), anybody).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/program/served.c");
        let status = Command::new("gcc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"])
            .args(["-static", "-pthread", "-o"])
            .args([folder.path().join("served").as_path(), source.as_ref()])
            .status()
            .expect("gcc is installed: `make test` sees to it");
        assert!(status.success());
        folder
    });
    folder.path().join("served")
}
