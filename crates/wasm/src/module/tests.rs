use super::*;
use palisade_policy::PolicyLayer;
use std::fs;

const MODULE: &[u8] = b"\0asm\x01\0\0\0";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(stage.path("bin")).unwrap();
        for (name, content) in [
            ("a.wasm", MODULE),
            ("ls", MODULE),
            ("bin/b", COMPONENT),
            ("text.wasm", b"no module"),
            ("short.wasm", b"\0as"),
        ] {
            fs::write(stage.path(name), content).unwrap();
        }
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn find(&self, program: &str, policy: &str) -> Result<Option<(PathBuf, Kind)>, ModuleError> {
        let layer = PolicyLayer::from_toml(policy, "policy", self.folder.path()).unwrap();
        let surroundings = Surroundings {
            cwd: Some(self.folder.path().into()),
            ..Surroundings::default()
        };
        let found = find(
            program.as_ref(),
            &Policy::from_layers([layer]),
            &surroundings,
        )?;
        Ok(found.map(|module| (module.path, module.kind)))
    }

    #[track_caller]
    fn finds(&self, program: &str, policy: &str, name: &str, kind: Kind) {
        let found = self.find(program, policy).unwrap();
        assert_eq!(found, Some((self.path(name), kind)), "{program}");
    }
}

#[test]
fn the_file_decides() {
    let stage = Stage::new();
    stage.finds("./a.wasm", "", "./a.wasm", Kind::Module);
    stage.finds("a.wasm", "", "a.wasm", Kind::Module);
    stage.finds("bin/b", "", "bin/b", Kind::Component);
    for native in [
        "/bin/sh",
        "./text.wasm",
        "text.wasm",
        "short.wasm",
        "gone.wasm",
        "./bin",
    ] {
        assert_eq!(stage.find(native, "").unwrap(), None, "{native}");
    }
}

/// Else a file left in the current folder would run in the place of a program of the system's.
#[test]
fn a_native_programs_name_is_not_looked_up_in_the_current_folder() {
    let stage = Stage::new();
    assert_eq!(stage.find("ls", "").unwrap(), None);
    stage.finds("./ls", "", "./ls", Kind::Module);
    stage.finds("ls", "wall = 'wasm'", "ls", Kind::Module);
}

#[test]
fn a_path_is_the_guests_before_it_is_the_hosts() {
    let stage = Stage::new();
    let policy = "[grants]\nread = ['bin:/programs', 'a.wasm:/programs/nested/c']";
    stage.finds("/programs/b", policy, "bin/b", Kind::Component);
    stage.finds("/programs/nested/../b", policy, "bin/b", Kind::Component);
    stage.finds("/programs/nested/c", policy, "a.wasm", Kind::Module);
    stage.finds(
        "nested/c",
        &format!("cwd = '/programs'\n{policy}"),
        "a.wasm",
        Kind::Module,
    );
    assert_eq!(stage.find("/programs/gone", policy).unwrap(), None);
}

/// Inside, the path is the granted program: a file of the host's that it hides is another one.
#[test]
fn a_granted_native_program_is_not_skipped_for_a_module_that_it_hides() {
    let stage = Stage::new();
    fs::write(stage.path("bin/ls"), b"#!/bin/sh\n").unwrap();
    std::os::unix::fs::symlink("/inside/ls", stage.path("bin/a.wasm")).unwrap();
    let here = stage.folder.path().display();
    let policy = format!("[grants]\nread = ['bin:{here}']");
    for hidden in ["ls", "a.wasm"] {
        let program = format!("{here}/{hidden}");
        assert_eq!(stage.find(&program, &policy).unwrap(), None, "{program}");
        let insists = format!("wall = 'wasm'\n{policy}");
        let refused = stage.find(&program, &insists).unwrap_err();
        assert!(matches!(refused, ModuleError::IsNative { .. }), "{refused}");
        stage.finds(&program, "", hidden, Kind::Module);
    }
}

#[test]
fn a_wall_that_does_not_suit_the_file_is_refused() {
    let stage = Stage::new();
    let refused = |program, wall| {
        stage
            .find(program, &format!("wall = '{wall}'"))
            .unwrap_err()
    };
    assert!(matches!(
        refused("./a.wasm", "process"),
        ModuleError::IsWasm { .. }
    ));
    assert!(matches!(
        refused("text.wasm", "wasm"),
        ModuleError::IsNative { .. }
    ));
    assert!(matches!(
        refused("gone.wasm", "wasm"),
        ModuleError::NotFound { .. }
    ));
    assert_eq!(stage.find("/bin/sh", "wall = 'process'").unwrap(), None);
}

#[test]
fn what_is_no_file_holds_nobody_up() {
    let stage = Stage::new();
    let fifo = stage.path("fifo.wasm");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert_eq!(stage.find("./fifo.wasm", "").unwrap(), None);
    // Held open, so that there is something to read.
    let mut writer = File::options().read(true).write(true).open(&fifo).unwrap();
    std::io::Write::write_all(&mut writer, MODULE).unwrap();
    let error = stage.find("./fifo.wasm", "").unwrap_err();
    assert!(matches!(error, ModuleError::NotAFile { .. }), "{error}");
}

#[test]
fn a_module_is_read_whole_or_not_at_all() {
    let stage = Stage::new();
    let path = stage.path("a.wasm");
    let module = Module::open(&path).unwrap().unwrap();
    assert_eq!(module.read().unwrap(), MODULE);
    let longer = [COMPONENT, b"sections"].concat();
    fs::write(stage.path("bin/b"), &longer).unwrap();
    let component = Module::open(&stage.path("bin/b")).unwrap().unwrap();
    assert_eq!(
        (component.kind, component.read().unwrap()),
        (Kind::Component, longer)
    );
    fs::write(&path, b"something else").unwrap();
    assert!(matches!(module.read(), Err(ModuleError::Changed { .. })));
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(MOST_MODULE_BYTES + 1).unwrap();
    assert!(matches!(module.read(), Err(ModuleError::TooLarge { .. })));
}
