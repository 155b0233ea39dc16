//! A program whose file is replaced, or taken away, under a server that runs.

use super::served;
use crate::{control::Fixture, raw_http::Client};
use std::{fs, path::Path};

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
    fs::copy(served(), &new).unwrap();
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
