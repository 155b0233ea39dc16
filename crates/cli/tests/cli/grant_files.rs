//! `palisade grant` and `palisade revoke` of files: what a guest that runs is granted it finds there, and what it is not stays as
//! it was, whatever the guest does meanwhile.

use super::{
    fixture::{Fixture, User, cases},
    grant::{Guest, operate},
};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::{fs, os::unix::fs::MetadataExt};

cases![
    a_folder_is_granted_for_reading,
    a_folder_is_granted_for_writing,
    a_file_is_granted,
    it_appears_at_another_path,
    what_is_granted_in_a_granted_folder_has_its_place_there,
    reading_becomes_writing_and_reading_again,
    what_is_granted_is_taken_back,
    what_holds_another_grant_is_taken_back_after_it,
    a_part_of_what_is_executed_is_not_granted_for_writing,
    a_part_becomes_the_whole,
    what_is_covered_is_not_granted_for_writing,
    what_is_open_of_it_stays_open,
    a_path_is_relative_to_who_grants_it,
    the_report_and_the_events_have_files,
    what_is_written_is_not_executed,
    no_socket_is_made_or_reached_in_it,
    what_takes_a_start_is_refused,
    what_is_there_is_not_taken_away,
    what_no_start_grants_is_refused,
    a_checkout_is_not_granted_for_writing,
    what_palisade_relies_on_is_not_granted,
    what_the_guest_leads_elsewhere_is_not_granted,
    the_policy_may_say_so_again,
    a_guest_that_moves_it_loses_it_all_the_same,
    a_guest_that_kills_everybody_is_granted_more,
    who_mounts_it_is_gone_with_the_guest,
    what_is_written_is_not_executed_by_another_name,
    what_is_open_of_it_executes_nothing_that_is_written,
    nothing_is_written_below_the_own_tmp,
    nothing_is_made_in_a_folder_that_is_the_root,
    grants_are_taken_back_wherever_they_lie,
    who_does_not_answer_does_nothing_later,
    links_of_a_former_grant_lead_nowhere,
    what_resolves_names_is_not_granted,
    what_is_mounted_below_is_granted_by_itself,
    who_mounts_it_leaves_no_processes,
    what_runs_where_another_grant_was_is_no_denial,
];

/// Says what each line of its input comes to.
pub(super) const EVALUATES: &str = "
import errno, os, socket, stat, subprocess, sys
kept = []
def keeps(path): kept.append(open(path)); return 'kept'
def writes(path): open(path, 'w').write('by the guest'); return 'written'
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
    except Exception as error: print(repr(error), flush=True)
";

impl Guest {
    pub(super) fn evaluates(&mut self, expression: &str) -> String {
        self.says(&format!("{expression}\n"));
        self.hears()
    }

    pub(super) fn reads(&mut self, path: &str) -> String {
        self.evaluates(&format!("open({path:?}).read()"))
    }

    pub(super) fn writes(&mut self, path: &str) -> String {
        self.evaluates(&format!("writes({path:?})"))
    }
}

fn start(fixture: &Fixture, flags: &[&str]) -> Guest {
    let flags = [&["--grantable"], flags].concat();
    Guest::start(fixture, &flags, EVALUATES)
}

fn gives(fixture: &Fixture, guest: &Guest, flag: &str, path: &str) {
    operate(fixture, "grant", guest, &[flag, path]).is_silent(0);
}

fn takes(fixture: &Fixture, guest: &Guest, flag: &str, path: &str) {
    let taken = operate(fixture, "revoke", guest, &[flag, path]);
    taken.is(0);
    assert!(
        taken.stderr.contains("files that are open stay so"),
        "{taken:?}"
    );
}

fn refuses(fixture: &Fixture, guest: &Guest, (verb, flag, path): (&str, &str, &str), why: &str) {
    let refused = operate(fixture, verb, guest, &[flag, path]);
    assert_eq!(refused.code(), 125, "{refused:?}");
    assert!(refused.stderr.contains(why), "{why}: {refused:?}");
}

fn a_folder_is_granted_for_reading(fixture: &Fixture) {
    fixture.write("data/deep/file", "content");
    let (folder, file) = (fixture.text("data"), fixture.text("data/deep/file"));
    let mut guest = start(fixture, &[]);
    assert_eq!(guest.reads(&file), "ENOENT");
    gives(fixture, &guest, "--read", &folder);
    assert_eq!(guest.reads(&file), "content");
    assert_eq!(guest.writes(&file), "EROFS");
    assert_eq!(guest.writes(&fixture.text("data/new")), "EROFS");
    guest.ends().is(0);
}

/// What the guest writes belongs to who owns the folder.
fn a_folder_is_granted_for_writing(fixture: &Fixture) {
    fixture.make_folder("out");
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--write", &fixture.text("out"));
    assert_eq!(guest.writes(&fixture.text("out/new")), "written");
    assert_eq!(fixture.read("out/new"), "by the guest");
    let [new, folder] = ["out/new", "out"].map(|name| fs::metadata(fixture.path(name)).unwrap());
    assert_eq!((new.uid(), new.gid()), (folder.uid(), folder.gid()));
    guest.ends().is(0);
}

fn a_file_is_granted(fixture: &Fixture) {
    fixture.write("one", "content");
    fixture.write("other", "content");
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--read", &fixture.text("one"));
    assert_eq!(guest.reads(&fixture.text("one")), "content");
    assert_eq!(guest.reads(&fixture.text("other")), "ENOENT");
    takes(fixture, &guest, "--read", &fixture.text("one"));
    assert_eq!(guest.reads(&fixture.text("one")), "", "a place is left");
    guest.ends().is(0);
}

fn it_appears_at_another_path(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let mut guest = start(fixture, &[]);
    for place in [
        "/data",
        "/a/b/c",
        "/etc/data",
        "/tmp/data",
        "/usr/share/doc",
    ] {
        let moved = format!("{}:{place}", fixture.text("data"));
        gives(fixture, &guest, "--read", &moved);
        assert_eq!(guest.reads(&format!("{place}/file")), "content");
    }
    guest.ends().is(0);
}

fn what_is_granted_in_a_granted_folder_has_its_place_there(fixture: &Fixture) {
    fixture.write("data/file", "content");
    fixture.make_folder("work/place");
    let mut guest = start(fixture, &["--read", "work"]);
    let at = |place: &str| format!("{}:{}", fixture.text("data"), fixture.text(place));
    gives(fixture, &guest, "--read", &at("work/place"));
    assert_eq!(guest.reads(&fixture.text("work/place/file")), "content");
    let missing = at("work/missing");
    refuses(
        fixture,
        &guest,
        ("grant", "--read", &missing),
        "work/missing does not exist",
    );
    guest.ends().is(0);
    assert!(!fixture.exists("work/missing"));
}

fn reading_becomes_writing_and_reading_again(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let (folder, file) = (fixture.text("data"), fixture.text("data/file"));
    let mut guest = start(fixture, &["--read", "data"]);
    assert_eq!(guest.writes(&file), "EROFS");
    gives(fixture, &guest, "--write", &folder);
    assert_eq!(guest.writes(&file), "written");
    takes(fixture, &guest, "--write", &folder);
    assert_eq!(guest.writes(&file), "EROFS");
    assert_eq!(guest.reads(&file), "by the guest");
    guest.ends().is(0);
}

fn what_is_granted_is_taken_back(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let (folder, file) = (fixture.text("data"), fixture.text("data/file"));
    let mut guest = start(fixture, &[]);
    for _ in 0..3 {
        gives(fixture, &guest, "--read", &folder);
        assert_eq!(guest.reads(&file), "content");
        takes(fixture, &guest, "--read", &folder);
        assert_eq!(guest.reads(&file), "ENOENT");
    }
    refuses(
        fixture,
        &guest,
        ("revoke", "--read", &folder),
        "it was not granted while the guest runs",
    );
    guest.ends().is(0);
}

fn what_holds_another_grant_is_taken_back_after_it(fixture: &Fixture) {
    fixture.write("data/inner/file", "content");
    fixture.write("other/file", "other");
    let outer = fixture.text("data");
    let inner = format!("{}:{outer}/inner", fixture.text("other"));
    let file = fixture.text("data/inner/file");
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--read", &outer);
    gives(fixture, &guest, "--write", &inner);
    assert_eq!(guest.reads(&file), "other");
    refuses(
        fixture,
        &guest,
        ("revoke", "--read", &outer),
        "data/inner\" lies in it: take that back before",
    );
    takes(fixture, &guest, "--write", &inner);
    assert_eq!(guest.reads(&file), "content");
    takes(fixture, &guest, "--read", &outer);
    assert_eq!(guest.reads(&file), "ENOENT");
    guest.ends().is(0);
}

/// What the guest may execute there it could have open.
fn a_part_of_what_is_executed_is_not_granted_for_writing(fixture: &Fixture) {
    fixture.make_folder("data/inner");
    let inner = fixture.text("data/inner");
    let guest = start(fixture, &["--read", "data"]);
    refuses(
        fixture,
        &guest,
        ("grant", "--write", &inner),
        "may not what it writes",
    );
    gives(fixture, &guest, "--write", &fixture.text("data"));
    guest.ends().is(0);
}

/// Nobody waits for what is part of more.
fn a_part_becomes_the_whole(fixture: &Fixture) {
    fixture.write("data/file", "content");
    fixture.write("data/other", "content");
    let [folder, file, other] = ["data", "data/file", "data/other"].map(|name| fixture.text(name));
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--read", &file);
    gives(fixture, &guest, "--read", &folder);
    assert_eq!(guest.reads(&other), "content");
    refuses(
        fixture,
        &guest,
        ("revoke", "--read", &file),
        "it is a part of",
    );
    takes(fixture, &guest, "--read", &folder);
    assert_eq!([guest.reads(&file), guest.reads(&other)], ["", "ENOENT"]);
    guest.ends().is(0);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let granted = report["granted"].as_array().unwrap();
    assert!(
        granted.iter().all(|one| one["revoked_at_us"].is_u64()),
        "{granted:?}"
    );
}

/// It may be open.
fn what_is_covered_is_not_granted_for_writing(fixture: &Fixture) {
    fixture.make_folder("data/inner");
    fixture.make_folder("cover");
    let [data, cover] = ["data", "cover"].map(|name| fixture.text(name));
    for is_from_start in [true, false] {
        let flags = ["--read", "data"];
        let guest = start(fixture, if is_from_start { &flags } else { &[] });
        if !is_from_start {
            gives(fixture, &guest, "--read", &data);
        }
        gives(fixture, &guest, "--read", &format!("{cover}:{data}/inner"));
        for write in [format!("{data}:/other"), format!("{data}/inner:/other")] {
            refuses(fixture, &guest, ("grant", "--write", &write), "execute");
        }
        guest.ends().is(0);
    }
    let guest = start(fixture, &["--read", "data"]);
    gives(fixture, &guest, "--read", &format!("{cover}:{data}/inner"));
    takes(fixture, &guest, "--read", &format!("{cover}:{data}/inner"));
    refuses(
        fixture,
        &guest,
        ("grant", "--write", &format!("{data}/inner:/other")),
        "execute",
    );
    guest.ends().is(0);
}

fn what_is_open_of_it_stays_open(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let (folder, file) = (fixture.text("data"), fixture.text("data/file"));
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--read", &folder);
    assert_eq!(guest.evaluates(&format!("keeps({file:?})")), "kept");
    takes(fixture, &guest, "--read", &folder);
    assert_eq!(guest.reads(&file), "ENOENT");
    assert_eq!(guest.evaluates("kept[0].read()"), "content");
    guest.ends().is(0);
}

fn a_path_is_relative_to_who_grants_it(fixture: &Fixture) {
    fixture.write("data/with:colon", "content");
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--read", r"data/with\:colon");
    assert_eq!(guest.reads(&fixture.text("data/with:colon")), "content");
    takes(fixture, &guest, "--read", r"./data/with\:colon");
    guest.ends().is(0);
}

fn the_report_and_the_events_have_files(fixture: &Fixture) {
    fixture.make_folder("data");
    let folder = fixture.text("data");
    let guest = start(fixture, &["--events", "events"]);
    gives(fixture, &guest, "--read", &folder);
    takes(fixture, &guest, "--read", &folder);
    gives(fixture, &guest, "--write", &folder);
    guest.ends().is(0);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let granted = &report["granted"];
    assert_eq!(granted[0]["grant"], format!("--read {folder}"));
    assert!(granted[0]["at_us"].as_u64() < granted[0]["revoked_at_us"].as_u64());
    assert_eq!(granted[1]["grant"], format!("--write {folder}"));
    assert_eq!(granted[1]["revoked_at_us"], Value::Null);
    let events = fixture.read("events");
    let kinds =
        ["granted", "revoked"].map(|kind| events.matches(&format!("\"event\":\"{kind}\"")).count());
    assert_eq!(kinds, [2, 1], "{events}");
}

fn what_is_written_is_not_executed(fixture: &Fixture) {
    fixture.make_folder("out");
    fixture.write_program("tool/run", "#!/bin/sh\necho executed\n");
    let mut guest = start(fixture, &[]);
    let run = |program: &str| format!("subprocess.check_output([{program:?}], text=True).strip()");
    gives(fixture, &guest, "--read", &fixture.text("tool"));
    assert_eq!(guest.evaluates(&run(&fixture.text("tool/run"))), "executed");
    gives(fixture, &guest, "--write", &fixture.text("out"));
    let copy = fixture.text("out/copy");
    let copies = format!(
        "subprocess.check_call(['cp', {:?}, {copy:?}])",
        fixture.text("tool/run")
    );
    assert_eq!(guest.evaluates(&copies), "0");
    assert_eq!(guest.evaluates(&run(&copy)), "EACCES");
    guest.ends().is(0);
}

/// As where a folder was granted for writing from the start.
fn no_socket_is_made_or_reached_in_it(fixture: &Fixture) {
    fixture.make_folder("out");
    let _server = std::os::unix::net::UnixListener::bind(fixture.path("out/socket")).unwrap();
    fs::set_permissions(
        fixture.path("out/socket"),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    for flags in [&[][..], &["--write", "out"]] {
        let mut guest = start(fixture, flags);
        if flags.is_empty() {
            gives(fixture, &guest, "--write", &fixture.text("out"));
        }
        let at = |name: &str| fixture.text(&format!("out/{name}"));
        let binds = format!("socket.socket(socket.AF_UNIX).bind({:?})", at("mine"));
        assert_eq!(guest.evaluates(&binds), "EACCES");
        let makes = format!("os.mkfifo({:?})", at("fifo"));
        assert_eq!(guest.evaluates(&makes), "EACCES");
        let connects = format!("socket.socket(socket.AF_UNIX).connect({:?})", at("socket"));
        assert_eq!(guest.evaluates(&connects), "EACCES");
        guest.ends().is(0);
    }
}

fn what_takes_a_start_is_refused(fixture: &Fixture) {
    fixture.make_folder("data");
    let _server = std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap();
    let guest = start(fixture, &[]);
    let data = fixture.text("data");
    for (flag, path) in [
        ("--read", format!("{data}:/")),
        ("--write", format!("{data}:/tmp/data")),
        ("--read", fixture.text("socket")),
    ] {
        refuses(fixture, &guest, ("grant", flag, &path), "takes a start");
    }
    guest.ends().is(0);
}

fn what_is_there_is_not_taken_away(fixture: &Fixture) {
    fixture.write("data/file", "other");
    fixture.write("work/keep/file", "kept");
    fixture.make_folder("work/inner");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/keep",
        "--read",
        "data",
    ];
    let mut guest = start(fixture, &flags);
    let [data, work, keep, inner] =
        ["data", "work", "work/keep", "work/inner"].map(|name| fixture.text(name));
    for (flag, path, why) in [
        ("--read", data.clone(), "is granted already"),
        ("--write", work.clone(), "lies below it"),
        ("--read", format!("{data}:{work}"), "lies below it"),
        ("--write", keep, "is protected"),
        ("--read", inner.clone(), "takes nothing away"),
        ("--write", inner, "is granted already"),
        ("--read", format!("{data}:/tmp"), "has its own"),
        (
            "--read",
            format!("{data}:/dev"),
            "grant a device node with --device",
        ),
        (
            "--read",
            format!("{data}:/proc"),
            "a domain has a /proc of its own",
        ),
        (
            "--read",
            format!("{data}:/lib/x"),
            "symlink inside the domain",
        ),
    ] {
        refuses(fixture, &guest, ("grant", flag, &path), why);
    }
    assert_eq!(guest.writes(&fixture.text("work/inner/file")), "written");
    assert_eq!(guest.writes(&fixture.text("work/keep/file")), "EROFS");
    guest.ends().is(0);
    assert_eq!(fixture.read("work/keep/file"), "kept");
}

fn what_no_start_grants_is_refused(fixture: &Fixture) {
    let guest = start(fixture, &[]);
    for (path, why) in [
        ("/", "cannot be granted: grant the folders"),
        ("/proc/1", "a domain has a /proc of its own"),
        ("/dev/null", "grant a device node with --device"),
        ("/no/such/path", "does not exist"),
    ] {
        let elsewhere = format!("{path}:/elsewhere");
        refuses(fixture, &guest, ("grant", "--read", &elsewhere), why);
    }
    guest.ends().is(0);
}

/// What git executes there is held by mounts from the start.
fn a_checkout_is_not_granted_for_writing(fixture: &Fixture) {
    fixture.write("checkout/.git/config", "");
    let path = fixture.text("checkout");
    let mut guest = start(fixture, &[]);
    refuses(fixture, &guest, ("grant", "--write", &path), "git executes");
    gives(fixture, &guest, "--read", &path);
    guest.ends().is(0);
    guest = start(fixture, &["--no-guard"]);
    gives(fixture, &guest, "--write", &path);
    guest.ends().is(0);
}

fn what_palisade_relies_on_is_not_granted(fixture: &Fixture) {
    fixture.write("own/policy.toml", "");
    let guest = start(fixture, &["--policy", "own/policy.toml"]);
    for (flag, why) in [
        (fixture.text("own"), "policy.toml, which is used outside"),
        (fixture.text(""), "which is used outside"),
    ] {
        refuses(fixture, &guest, ("grant", "--write", &flag), why);
    }
    gives(fixture, &guest, "--read", &fixture.text("own"));
    guest.ends().is(0);
}

/// Whoever is talked into granting a path of the guest's grants that, and not what the guest has made of it.
fn what_the_guest_leads_elsewhere_is_not_granted(fixture: &Fixture) {
    fixture.write("secret/key", "key");
    fixture.make_folder("work");
    let mut guest = start(fixture, &["--write", "work"]);
    let (link, secret) = (fixture.text("work/link"), fixture.text("secret"));
    let links = format!("os.symlink({secret:?}, {link:?})");
    assert_eq!(guest.evaluates(&links), "None");
    for path in [link.clone(), format!("{link}/key"), format!("{link}:/data")] {
        let why = "the guest can change what";
        refuses(fixture, &guest, ("grant", "--read", &path), why);
    }
    gives(fixture, &guest, "--read", &secret);
    guest.ends().is(0);
}

/// One that is named twice is one grant.
fn the_policy_may_say_so_again(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let mut guest = start(fixture, &[]);
    let folder = fixture.text("data");
    gives(fixture, &guest, "--read", &folder);
    refuses(
        fixture,
        &guest,
        ("grant", "--read", &folder),
        "is granted already",
    );
    takes(fixture, &guest, "--read", &folder);
    assert_eq!(guest.reads(&fixture.text("data/file")), "ENOENT");
    guest.ends().is(0);
}

/// In its own folder it calls them as it likes; another mount in their place is left alone.
fn a_guest_that_moves_it_loses_it_all_the_same(fixture: &Fixture) {
    fixture.write("data/file", "content");
    fixture.write("stays/file", "stays");
    let mut guest = start(fixture, &[]);
    let moved = format!("{}:/tmp/a/b/data", fixture.text("data"));
    gives(fixture, &guest, "--read", &moved);
    gives(fixture, &guest, "--read", &fixture.text("stays"));
    assert_eq!(
        guest.evaluates("os.rename('/tmp/a/b/data', '/tmp/a/b/c')"),
        "EBUSY"
    );
    assert_eq!(guest.evaluates("os.rename('/tmp/a', '/tmp/z')"), "None");
    assert_eq!(guest.reads("/tmp/z/b/data/file"), "content");
    let makes = format!(
        "os.makedirs('/tmp/a'), os.symlink({:?}, '/tmp/a/b'), os.chmod('/tmp/z', 0)",
        fixture.text("")
    );
    assert_eq!(guest.evaluates(&makes), "(None, None, None)");
    takes(fixture, &guest, "--read", &moved);
    assert_eq!(guest.evaluates("os.chmod('/tmp/z', 0o700)"), "None");
    assert_eq!(guest.reads("/tmp/z/b/data/file"), "ENOENT");
    assert_eq!(guest.reads(&fixture.text("stays/file")), "stays");
    // What leads there is the guest's: nothing is mounted through its links.
    assert_eq!(
        guest.evaluates("os.makedirs('/tmp/q'), os.symlink('/usr', '/tmp/q/r')"),
        "(None, None)"
    );
    let through = format!("{}:/tmp/q/r/share", fixture.text("data"));
    refuses(
        fixture,
        &guest,
        ("grant", "--read", &through),
        "nothing there",
    );
    let not_a_folder = format!("{}:/tmp/q/f", fixture.text("data"));
    assert_eq!(guest.writes("/tmp/q/f"), "written");
    refuses(
        fixture,
        &guest,
        ("grant", "--read", &not_a_folder),
        "cannot be mounted",
    );
    guest.ends().is(0);
}

fn a_guest_that_kills_everybody_is_granted_more(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let mut guest = start(fixture, &[]);
    assert_eq!(guest.evaluates("os.kill(-1, 9)"), "ESRCH");
    gives(fixture, &guest, "--read", &fixture.text("data"));
    assert_eq!(guest.reads(&fixture.text("data/file")), "content");
    let pids = guest.evaluates("[name for name in os.listdir('/proc') if name.isdigit()]");
    assert!(pids.split(',').count() <= 3, "{pids}");
    guest.ends().is(0);
}

/// And with it what it has open.
fn who_mounts_it_is_gone_with_the_guest(fixture: &Fixture) {
    fixture.make_folder("data");
    let guest = start(fixture, &[]);
    gives(fixture, &guest, "--read", &fixture.text("data"));
    let of_palisade = children_of(guest.palisade());
    let of_keeper: Vec<u32> = of_palisade.iter().copied().flat_map(children_of).collect();
    assert!(of_keeper.len() >= 2, "init and who mounts: {of_keeper:?}");
    guest.ends().is(0);
    for process in of_palisade.iter().chain(&of_keeper) {
        assert!(!is_alive(*process), "{process} of {of_keeper:?}");
    }
}

fn children_of(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn is_alive(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("VmRSS"))
}

/// The process that mounts what is granted to the guest.
fn holder_of(guest: &Guest) -> Pid {
    let of_palisade = children_of(guest.palisade());
    let of_keeper: Vec<u32> = of_palisade.into_iter().flat_map(children_of).collect();
    let holds = |process: &&u32| {
        let own = |kind| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
        let of_keeper = |kind| fs::read_link(format!("/proc/self/ns/{kind}")).ok();
        // In mounts of the host's, and not among the guest's processes; the maker has them too, and reads sockets.
        own("pid") == of_keeper("pid")
            && fs::read_dir(format!("/proc/{process}/fd")).is_ok_and(has_namespaces)
    };
    let holder = of_keeper.iter().find(holds).unwrap();
    Pid::from_raw(*holder as i32).unwrap()
}

fn has_namespaces(mut descriptors: fs::ReadDir) -> bool {
    descriptors.any(|fd| {
        let target = fs::read_link(fd.unwrap().path()).unwrap_or_default();
        target.to_string_lossy().starts_with("mnt:")
    })
}

/// Nor by the path of another grant.
fn what_is_written_is_not_executed_by_another_name(fixture: &Fixture) {
    fixture.make_folder("work/out");
    let guest = start(fixture, &["--write", "work/out"]);
    for name in ["work", "work/out"] {
        let other = format!("{}:/other", fixture.text(name));
        refuses(
            fixture,
            &guest,
            ("grant", "--read", &other),
            "could execute as /other",
        );
    }
    guest.ends().is(0);
}

const RUNS: &str =
    "subprocess.run([path], pass_fds=kept, capture_output=True, text=True).stdout.strip()";

fn what_is_open_of_it_executes_nothing_that_is_written(fixture: &Fixture) {
    fixture.write_program("tool/run", "#!/bin/sh\necho executed\n");
    let tool = fixture.text("tool");
    for is_from_start in [true, false] {
        let flags = ["--read", "tool"];
        let mut guest = start(fixture, if is_from_start { &flags } else { &[] });
        if !is_from_start {
            gives(fixture, &guest, "--read", &tool);
        }
        let opens = format!("kept.append(os.open({tool:?}, os.O_RDONLY)) or 'open'");
        assert_eq!(guest.evaluates(&opens), "open");
        let by_name = RUNS.replace("path", &format!("{tool:?} + '/run'"));
        let by_fd = RUNS.replace("path", "f'/proc/self/fd/{kept[0]}/run'");
        assert_eq!(
            guest.evaluates(&by_fd),
            "executed",
            "as long as nobody writes there"
        );
        if !is_from_start {
            takes(fixture, &guest, "--read", &tool);
        }
        gives(fixture, &guest, "--write", &tool);
        for runs in [&by_name, &by_fd] {
            assert_eq!(guest.evaluates(runs), "EACCES", "{is_from_start}");
        }
        let opens = format!("kept.append(os.open({tool:?} + '/run', os.O_WRONLY)) or 'open'");
        assert_eq!(guest.evaluates(&opens), "open");
        takes(fixture, &guest, "--write", &tool);
        if !is_from_start {
            gives(fixture, &guest, "--read", &tool);
        }
        for runs in [&by_name, &by_fd] {
            assert_eq!(
                guest.evaluates(runs),
                "EACCES",
                "{is_from_start}: it is still open for writing"
            );
        }
        guest.ends().is(0);
    }
}

/// There the guest may make sockets and FIFOs.
fn nothing_is_written_below_the_own_tmp(fixture: &Fixture) {
    fixture.make_folder("data/inner");
    let data = fixture.text("data");
    for place in ["/tmp", "/dev/shm"] {
        let guest = start(fixture, &[]);
        let read = format!("{data}:{place}/data");
        gives(fixture, &guest, "--read", &read);
        for write in [&read, &format!("{data}/inner:{place}/data/inner")] {
            refuses(
                fixture,
                &guest,
                ("grant", "--write", write),
                "takes a start",
            );
        }
        guest.ends().is(0);
    }
}

fn nothing_is_made_in_a_folder_that_is_the_root(fixture: &Fixture) {
    for name in [
        "root/usr",
        "root/tmp",
        "root/dev/shm",
        "root/proc",
        "root/place",
    ] {
        fixture.make_folder(name);
    }
    for (name, target) in [
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
        ("bin", "usr/bin"),
    ] {
        std::os::unix::fs::symlink(target, fixture.path("root").join(name)).unwrap();
    }
    fixture.write("data/file", "content");
    let mut guest = start(fixture, &["--read", "root:/", "--read", "/usr"]);
    for place in ["/tmp/p/q", "/dev/shm/p", "/new"] {
        let read = format!("{}:{place}", fixture.text("data"));
        operate(fixture, "grant", &guest, &["--read", &read]).is(125);
    }
    let place = format!("{}:/place", fixture.text("data"));
    gives(fixture, &guest, "--read", &place);
    assert_eq!(guest.reads("/place/file"), "content");
    guest.ends().is(0);
    for name in ["root/tmp/p", "root/dev/shm/p", "root/new"] {
        assert!(!fixture.exists(name), "{name}");
    }
}

fn grants_are_taken_back_wherever_they_lie(fixture: &Fixture) {
    for name in ["one", "other"] {
        fixture.write(&format!("{name}/file"), name);
    }
    let [one, other] = ["one", "other"].map(|name| fixture.text(name));
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--read", &one);
    gives(fixture, &guest, "--write", &one);
    refuses(
        fixture,
        &guest,
        ("revoke", "--read", &one),
        "take that back before",
    );
    takes(fixture, &guest, "--write", &one);
    takes(fixture, &guest, "--read", &one);
    assert_eq!(guest.reads(&fixture.text("one/file")), "ENOENT");
    // The same words twice, with another between.
    let at = |name: &str| format!("{name}:/x");
    for name in [&one, &other, &one] {
        gives(fixture, &guest, "--read", &at(name));
    }
    for (name, below) in [(&one, "other"), (&other, "one"), (&one, "ENOENT")] {
        takes(fixture, &guest, "--read", &at(name));
        assert_eq!(guest.reads("/x/file"), below);
    }
    // Where the guest has moved it, and something else was mounted over it.
    let first = format!("{one}:/tmp/a/data");
    let second = format!("{other}:/tmp/b/data");
    gives(fixture, &guest, "--read", &first);
    assert_eq!(guest.evaluates("os.rename('/tmp/a', '/tmp/b')"), "None");
    gives(fixture, &guest, "--read", &second);
    takes(fixture, &guest, "--read", &first);
    takes(fixture, &guest, "--read", &second);
    assert_eq!(guest.evaluates("os.listdir('/tmp/b/data')"), "[]");
    guest.ends().is(0);
}

/// And does not hold the end up.
fn who_does_not_answer_does_nothing_later(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let file = fixture.text("data/file");
    let mut guest = start(fixture, &[]);
    let holder = holder_of(&guest);
    rustix::process::kill_process(holder, Signal::STOP).unwrap();
    refuses(
        fixture,
        &guest,
        ("grant", "--read", &fixture.text("data")),
        "does not answer",
    );
    rustix::process::kill_process(holder, Signal::CONT).unwrap();
    refuses(
        fixture,
        &guest,
        ("grant", "--read", &fixture.text("data")),
        "does not answer",
    );
    while is_alive(holder.as_raw_nonzero().get() as u32) {
        std::thread::yield_now();
    }
    assert_eq!(guest.reads(&file), "ENOENT");
    guest.ends().is(0);
    let guest = start(fixture, &[]);
    rustix::process::kill_process(holder_of(&guest), Signal::STOP).unwrap();
    guest.ends().is(0);
}

/// It may hold the folder open.
fn links_of_a_former_grant_lead_nowhere(fixture: &Fixture) {
    fixture.write("secret/key", "key");
    fixture.make_folder("work");
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--write", &fixture.text("work"));
    let link = fixture.text("work/link");
    let links = format!("os.symlink({:?}, {link:?})", fixture.text("secret"));
    assert_eq!(guest.evaluates(&links), "None");
    takes(fixture, &guest, "--write", &fixture.text("work"));
    let why = "the guest can change what";
    refuses(fixture, &guest, ("grant", "--read", &link), why);
    guest.ends().is(0);
}

/// Names may be granted later.
fn what_resolves_names_is_not_granted(fixture: &Fixture) {
    let guest = start(fixture, &[]);
    let hosts = "/etc/hosts:/hosts";
    refuses(
        fixture,
        &guest,
        ("grant", "--write", hosts),
        "/etc/hosts, which is used outside",
    );
    guest.ends().is(0);
}

/// As root a mount that lies in it would go by itself when it is taken back, and show what it lies on.
fn what_is_mounted_below_is_granted_by_itself(fixture: &Fixture) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = |line: &str| line.split(' ').nth(4).unwrap().to_owned();
    let mut below_sys = mounts.lines().map(point);
    let guest = start(fixture, &[]);
    if below_sys.any(|point| point.starts_with("/sys/")) {
        let outcome = operate(fixture, "grant", &guest, &["--read", "/sys:/s"]);
        match fixture.user {
            User::Root => assert!(outcome.stderr.contains("is mounted in it"), "{outcome:?}"),
            User::Ordinary => drop(outcome.is_silent(0)),
        };
    }
    guest.ends().is(0);
}

fn who_mounts_it_leaves_no_processes(fixture: &Fixture) {
    fixture.make_folder("data");
    let data = fixture.text("data");
    let guest = start(fixture, &[]);
    let holder = holder_of(&guest).as_raw_nonzero().get() as u32;
    for _ in 0..3 {
        gives(fixture, &guest, "--write", &data);
        takes(fixture, &guest, "--write", &data);
    }
    assert_eq!(children_of(holder), [0; 0]);
    guest.ends().is(0);
}

/// The number of a mount that is gone is given to the next.
fn what_runs_where_another_grant_was_is_no_denial(fixture: &Fixture) {
    fixture.write_program("written/tool", "#!/bin/sh\nexit 7\n");
    fixture.write_program("read/tool", "#!/bin/sh\nexit 7\n");
    let [written, read] = ["written", "read"].map(|folder| fixture.text(folder));
    let executes = |folder: &str| format!("subprocess.run([{folder:?} + '/tool']).returncode");
    let mut guest = start(fixture, &[]);
    gives(fixture, &guest, "--write", &written);
    assert_eq!(guest.evaluates(&executes(&written)), "EACCES");
    takes(fixture, &guest, "--write", &written);
    gives(fixture, &guest, "--read", &read);
    assert_eq!(guest.evaluates(&executes(&read)), "7");
    guest.ends().is(0);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let denials = report["denials"].as_array().unwrap().iter();
    let executed: Vec<_> = denials
        .filter(|denial| denial["call"] == "execve")
        .map(|denial| denial["what"].as_str().unwrap())
        .collect();
    assert_eq!(executed, [format!("the execution of {written}/tool")]);
}
