use super::*;
use palisade_command_line::workplace::Workplace;
use std::{fs::Permissions, rc::Rc, sync::Arc};
use tempfile::TempDir;

/// A folder of the user's with a script and data in it.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("data"), "").unwrap();
    fs::write(folder.path().join("job.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(folder.path().join("job.sh"), Permissions::from_mode(0o755)).unwrap();
    folder
}

fn options(source: &Path, words: &[&str]) -> Options {
    Options {
        command: Command {
            program: words[0].into(),
            arguments: words[1..].iter().map(OsString::from).collect(),
        },
        policy: Policy::default(),
        workplace: Rc::new(Workplace::copy_of(source.to_owned(), "").unwrap()),
        around: [None, None],
        ignore_failure: false,
        palisade: "/bin/palisade".into(),
        peers: None,
        warm_up_rounds: 0,
        rounds: None,
        budget: None,
        out: None,
        command_line: Vec::new(),
        interrupted: Arc::default(),
        progress: Box::new(|_| {}),
    }
}

fn resolve(options: &Options) -> anyhow::Result<Task> {
    Task::resolve(options, Path::new("/usr/bin/true"))
}

#[test]
fn a_plain_command_gets_the_folder_and_nothing_else() {
    let source = folder();
    let options = options(source.path(), &["sort", "-o", "out", "data"]);
    let task = resolve(&options).unwrap();
    assert_eq!(task.command.program, "/usr/bin/sort");
    assert_eq!(task.command.arguments, ["-o", "out", "data"]);
    assert_eq!(
        task.recommended(),
        "palisade run --write . -- sort -o out data"
    );
    let notes = task.notes();
    assert_eq!(
        notes[0],
        "granted: write . (each run has a fresh copy, the folder stays as it is)"
    );
    assert!(
        notes[1].starts_with("variables: HOME, ") && notes.len() == 2,
        "{notes:?}"
    );
    assert_eq!(task.theirs.grants.cwd, Some(options.workplace.inside()));
    assert_eq!(
        task.ours.grants.cwd, None,
        "palisade starts where it is started"
    );
}

#[test]
fn paths_mean_the_same_files_wherever_the_command_runs() {
    let (source, other) = (folder(), folder());
    let other = other.path().to_str().unwrap();
    let below = format!("{}/data", source.path().display());
    let outside = format!("{other}/data");
    let relative = format!(
        "../{}/job.sh",
        Path::new(other).file_name().unwrap().display()
    );
    let words = [
        "sort",
        &below,
        &format!("--files={outside}"),
        &relative,
        "/dev/null",
        "x",
    ];
    let options = options(source.path(), &words);
    let task = resolve(&options).unwrap();
    let inside = options.workplace.inside();
    let script = format!("{other}/job.sh");
    let expected: [OsString; 5] = [
        inside.join("data").into(),
        format!("--files={outside}").into(),
        script.clone().into(),
        "/dev/null".into(),
        "x".into(),
    ];
    assert_eq!(task.command.arguments, expected);
    let granted = task.ours.grants.files.iter();
    let granted: Vec<_> = granted.map(|one| (one.access, one.host.clone())).collect();
    assert_eq!(
        granted,
        [
            (Access::Write, inside),
            (Access::Read, outside.clone().into()),
            (Access::Read, script.clone().into()),
            (Access::Read, source.path().into()),
            (Access::Read, "/usr/bin/true".into()),
        ]
    );
    assert!(
        task.notes()
            .contains(&format!("argument: {relative} is given as {script}"))
    );
    assert!(
        task.recommended().starts_with(&format!(
            "palisade run --write . --read {outside} --read {script} -- sort "
        )),
        "{}",
        task.recommended()
    );
}

#[test]
fn a_program_in_the_folder_may_be_executed_there() {
    let source = folder();
    let options = options(source.path(), &["./job.sh", "it's"]);
    let task = resolve(&options).unwrap();
    assert_eq!(
        task.command.program,
        options.workplace.inside().join("job.sh")
    );
    assert_eq!(
        task.recommended(),
        "palisade run --write . --exec job.sh -- ./job.sh \"it's\""
    );
    assert!(task.notes()[0].ends_with(", exec job.sh"));
    assert_eq!(task.name(), "job.sh");
}

/// What was typed is meant for the folder and holds in its copy.
#[test]
fn grants_of_the_users_own_hold_in_the_copy() {
    let source = folder();
    let mut options = options(source.path(), &["sort", "data"]);
    options
        .policy
        .grants
        .files
        .push(grant(Access::Protect, &source.path().join("data")));
    let task = resolve(&options).unwrap();
    let protected = &task.ours.grants.files[0];
    assert_eq!(protected.host, options.workplace.inside().join("data"));
    assert_eq!(
        task.recommended(),
        "palisade run --protect data --write . -- sort data"
    );
}

#[test]
fn values_of_variables_are_in_no_command_line() {
    let (source, beside) = (folder(), folder());
    let file = beside.path().join("secrets.env");
    fs::write(&file, "TOKEN=hunter2\n").unwrap();
    let mut options = options(source.path(), &["sort", "data"]);
    options.policy.grants.env_files.push(file.clone());
    options.policy.grants.env.push(EnvGrant {
        name: "MODE".to_owned(),
        value: Some("fast".to_owned()),
    });
    let task = resolve(&options).unwrap();
    let given = |name: &str| {
        let mut all = task.theirs.grants.env.iter();
        all.find(|one| one.name == name)?.value.as_deref()
    };
    assert_eq!(
        (given("TOKEN"), given("MODE")),
        (Some("hunter2"), Some("fast"))
    );
    let measured = policy_flags(&task.ours).join(OsStr::new(" "));
    let measured = measured.to_str().unwrap();
    let file = file.to_str().unwrap();
    let named = format!("--env MODE --env-file {file}");
    assert!(measured.contains(&named), "{measured}");
    assert_eq!(
        task.recommended(),
        format!("palisade run --write . --env 'MODE=fast' --env-file {file} -- sort data")
    );
}

/// As `palisade run` would be: what is printed as the command to use must work.
#[test]
fn a_file_of_variables_in_the_folder_is_refused() {
    let source = folder();
    let file = source.path().join("secrets.env");
    fs::write(&file, "TOKEN=hunter2\n").unwrap();
    let mut options = options(source.path(), &["sort", "data"]);
    options.policy.grants.env_files.push(file);
    let refusal = resolve(&options).unwrap_err().to_string();
    assert!(
        refusal.starts_with("policy: the guest could rewrite the file of variables "),
        "{refusal}"
    );
}

#[test]
fn what_is_no_program_is_told_apart() {
    let source = folder();
    let refusal = |word| {
        resolve(&options(source.path(), &[word]))
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(refusal("no-such-program"), @"guest: no-such-program was not found: is it installed?");
    insta::assert_snapshot!(refusal("./nothing"), @"guest: ./nothing was not found");
    insta::assert_snapshot!(refusal("job.sh"), @"guest: job.sh was not found in a guest's PATH: for the file in this folder write ./job.sh");
    insta::assert_snapshot!(refusal("./data"), @"guest: ./data cannot be executed: it is not marked executable: chmod +x");
    insta::assert_snapshot!(refusal("/usr"), @"guest: /usr cannot be executed: it is a folder");
}
