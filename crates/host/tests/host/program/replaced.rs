//! A program whose file is replaced, or taken away, under a server that runs.

use super::{Heard, served, settings};
use crate::{control::Fixture, raw_http::Client};
use palisade_host::services::program::{Program, Settings};
use palisade_policy::{Access, FileGrant};
use palisade_process::Machine;
use palisade_suite::executable::copy_program;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::Arc,
};

fn configure(fixture: &Fixture, program: &Path) {
    let folder = program.parent().unwrap();
    fixture.write(&format!(
        "admin = 'unix:admin.sock'\nworkers = 1\nlog.format = 'json'\n[[listen]]\naddress = '127.0.0.1:0'\n\
         [services.program]\nprogram = [{program:?}]\npolicy.grants.read = [{folder:?}]\n\
         [[route]]\nservice = 'program'\n"
    ));
}

/// As a deployment does it.
fn put(program: &Path) {
    let new = program.with_extension("new");
    copy_program(&served(), &new).unwrap();
    fs::rename(new, program).unwrap();
}

#[test]
fn a_program_that_was_replaced_is_started_by_a_reload() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("app")).unwrap();
    let program = fixture.path("app/program");
    put(&program);
    configure(&fixture, &program);
    let server = fixture.start(&["--no-watch"]);
    let status = |path: &str| Client::connect(server.address()).get(path).status;
    assert_eq!((status("/unwell"), status("/health")), (200, 500));
    assert_eq!(server.admin("POST /reload").0, 200);
    assert_eq!(status("/health"), 500, "it is the same process");
    put(&program);
    assert_eq!(status("/health"), 500, "nobody has asked for it");
    assert_eq!(server.admin("POST /reload").0, 200);
    assert_eq!(status("/health"), 200, "it is the new program's");
}

#[test]
fn a_program_that_is_not_there_is_refused_at_check_and_reload() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("app")).unwrap();
    let program = fixture.path("app/program");
    configure(&fixture, &program);
    let check = || {
        let output = fixture.command(&["--check"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = check();
    let names_it =
        |said: &str| said.contains("service program: policy: the guest finds no program");
    assert!(code != Some(0) && names_it(&said), "{code:?}: {said}");
    put(&program);
    assert_eq!(check().0, Some(0));
    let server = fixture.start(&["--no-watch"]);
    assert_eq!(Client::connect(server.address()).get("/health").status, 200);
    fs::remove_file(&program).unwrap();
    let (code, said) = server.admin("POST /reload");
    assert!(code == 422 && names_it(&said.to_string()), "{code}: {said}");
    assert_eq!(Client::connect(server.address()).get("/health").status, 200);
}

/// A program is looked at by a reload with a few calls: a plan takes a hundred times as long.
#[test]
fn what_decides_about_a_program_is_looked_at_without_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let at = |name: &str| folder.join(name);
    for version in ["v1", "v2"] {
        fs::create_dir(at(version)).unwrap();
        put(&at(version).join("program"));
        fs::write(at(version).join("data"), version).unwrap();
    }
    symlink("v1", at("app")).unwrap();
    let mut made: Settings = settings(&[]);
    made.program.command = vec![
        at("app/program").to_str().unwrap().into(),
        at("app/data").to_str().unwrap().into(),
        at("app/later").to_str().unwrap().into(),
    ];
    made.policy.grants.files.push(FileGrant {
        access: Access::Read,
        host: at("app"),
        guest: None,
    });
    let machine = Machine::probe();
    // What no program can be planned for.
    let mut none = machine.clone();
    none.landlock_abi = None;
    let program = || Program::new(made.clone(), Arc::new(Heard::default()), &machine).unwrap();
    assert!(Program::new(made.clone(), Arc::new(Heard::default()), &none).is_err());
    let of_v1 = program();
    assert!(of_v1.is_current(&none), "a plan was made");
    let acts: [(&str, &dyn Fn()); 5] = [
        ("another file", &|| put(&at("v1/program"))),
        ("what an argument names", &|| {
            fs::write(at("v1/data"), "other").unwrap();
        }),
        ("what one names that was not there", &|| {
            fs::write(at("v1/later"), "").unwrap();
        }),
        ("a link that turns", &|| {
            symlink("v2", at("next")).unwrap();
            fs::rename(at("next"), at("app")).unwrap();
        }),
        ("what may not be executed", &|| {
            fs::set_permissions(at("v2/program"), fs::Permissions::from_mode(0o644)).unwrap();
        }),
    ];
    for (what, act) in acts {
        let program = program();
        assert!(program.is_current(&none), "{what}");
        act();
        assert!(!program.is_current(&machine), "{what}");
    }
    fs::set_permissions(at("v2/program"), fs::Permissions::from_mode(0o755)).unwrap();
    let of_v2 = program();
    // What comes to lie beside them is no reason to start anew.
    fs::write(at("v2/other"), "").unwrap();
    assert!(of_v2.is_current(&none));
    // Nor are permissions; and a plan is made once for that.
    fs::set_permissions(at("v2/program"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(of_v2.is_current(&machine) && of_v2.is_current(&none));
}
