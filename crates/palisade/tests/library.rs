//! The library as a host program uses it.

use palisade::{
    ConnectGrant, Domain, Ending, Error, Exit, Launcher, Level, Machine, Stdio, Verdict,
};
use palisade_policy::UnixGrant;
use palisade_process::running::{Change, RunningDomain};
use rustix::{
    process::{Pid, Signal},
    pty::OpenptFlags,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    net::{TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

fn shell(script: &str) -> palisade::Builder {
    Domain::builder("/bin/sh").args(["-c", script])
}

#[test]
fn output_and_exit_are_the_guests() {
    let output = shell("echo out; echo err >&2; exit 7")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(
        (output.stdout, output.stderr),
        (b"out\n".to_vec(), b"err\n".to_vec())
    );
    assert_eq!(output.report.exit, Exit::Code(7));
    assert_eq!(output.report.ending, Ending::Guest);
}

/// The server of this process is the witness.
#[test]
fn a_guest_connects_where_it_was_granted_and_nowhere_else() {
    let servers = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [granted, other] = servers.each_ref().map(|server| {
        server.set_nonblocking(true).unwrap();
        server.local_addr().unwrap().port()
    });
    let script = format!(
        "for port in {granted} {other}; do (: < /dev/tcp/127.0.0.1/$port) 2> /dev/null; done"
    );
    let report = Domain::builder("/bin/bash")
        .args(["-c", &script])
        .connect(format!("tcp://localhost:{granted}").parse().unwrap())
        .spawn()
        .unwrap()
        .wait()
        .unwrap();
    let reached = servers.each_ref().map(|server| server.accept().is_ok());
    assert_eq!(reached, [true, false], "{report:?}");
    let flags: Vec<_> = report
        .denials
        .iter()
        .filter_map(|denial| denial.grant.clone())
        .collect();
    assert_eq!(flags, [format!("--connect tcp://127.0.0.1:{other}")]);
}

/// A shell that tries a port for each line that it reads.
const TRIES: &str =
    "while read port; do (: < /dev/tcp/127.0.0.1/$port) 2> /dev/null && echo yes || echo no; done";

#[test]
fn a_running_guest_is_granted_more_and_less_again() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let guest = || {
        let builder = Domain::builder("/bin/bash").args(["-c", TRIES]);
        builder.stdin(Stdio::piped()).stdout(Stdio::piped())
    };
    let flag = format!("--connect tcp://127.0.0.1:{port}");
    let mut domain = guest().grantable().spawn().unwrap();
    let (mut stdin, stdout) = (domain.stdin.take().unwrap(), domain.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines();
    let mut tries = || {
        writeln!(stdin, "{port}").unwrap();
        lines.next().unwrap().unwrap()
    };
    assert_eq!(tries(), "no");
    domain.grant(&flag).unwrap();
    assert_eq!(tries(), "yes");
    domain.revoke(&flag).unwrap();
    assert_eq!(tries(), "no");
    let again = domain.revoke(&flag).unwrap_err();
    assert!(matches!(again, Error::NotGranted(_)), "{again}");
    let wide = domain.grant("--connect internet").unwrap_err();
    assert!(wide.to_string().contains("takes a start"), "{wide}");
    drop(stdin);
    let report = domain.wait().unwrap();
    assert_eq!(report.granted.len(), 1);
    assert!(report.granted[0].revoked_at_us.is_some());

    let refused = guest().spawn().unwrap().grant(&flag).unwrap_err();
    assert!(refused.to_string().contains("--grantable"), "{refused}");
}

/// Two at a time, of domains that were made ahead.
#[test]
fn running_guests_are_granted_files() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "content\n").unwrap();
    let flag = format!("--read {}", folder.path().display());
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let prints = "while read path; do cat $path 2> /dev/null || echo no; done";
    let begin = || {
        let guest = shell(prints).grantable().launcher(Arc::clone(&launcher));
        let guest = guest.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut domain = guest.spawn().unwrap();
        let (mut stdin, stdout) = (domain.stdin.take().unwrap(), domain.stdout.take().unwrap());
        let (mut lines, path) = (BufReader::new(stdout).lines(), file.clone());
        let prints = move || {
            writeln!(stdin, "{}", path.display()).unwrap();
            lines.next().unwrap().unwrap()
        };
        (domain, prints)
    };
    for _ in 0..2 {
        let ((one, mut of_one), (other, mut of_other)) = (begin(), begin());
        assert_eq!([of_one(), of_other()], ["no", "no"]);
        one.grant(&flag).unwrap();
        assert_eq!([of_one(), of_other()], ["content", "no"]);
        one.revoke(&flag).unwrap();
        assert_eq!([of_one(), of_other()], ["no", "no"]);
        drop((of_one, of_other));
        let granted = [one, other].map(|domain| domain.wait().unwrap().granted.len());
        assert_eq!(granted, [1, 0]);
    }
}

#[test]
fn the_host_answers_what_a_guest_may_reach() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let script = format!(
        "for port in {} 1; do (: < /dev/tcp/127.0.0.1/$port); echo $?; done",
        address.port()
    );
    let granted = format!("tcp://{address}");
    let output = Domain::builder("/bin/bash")
        .args(["-c", &script])
        .asks(Duration::from_secs(60), move |question| {
            match question.target == granted {
                true => Verdict::Run,
                false => Verdict::No,
            }
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(output.stdout, b"0\n1\n");
    assert_eq!(output.report.granted.len(), 1);
    assert_eq!(
        output.report.denials.len(),
        1,
        "{:?}",
        output.report.denials
    );
}

#[test]
fn files_that_a_watched_guest_asks_for_are_told() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().canonicalize().unwrap().join("file");
    fs::write(&path, "").unwrap();
    let cat = |guest: palisade::Builder| guest.arg(&path).spawn().unwrap().wait().unwrap();
    let watched = cat(Domain::builder("cat").stderr(Stdio::null()).watch());
    assert_eq!(watched.denials.len(), 1, "{watched:?}");
    let flag = format!("--read {}", path.display());
    assert_eq!(watched.denials[0].grant, Some(flag));
    let other = cat(Domain::builder("cat").stderr(Stdio::null()));
    assert_eq!(other.denials, []);
}

#[test]
fn what_is_null_is_read_and_written_and_ends_as_the_device_does() {
    let script = r#"
        for stream in 0 1 2; do [ /proc/self/fd/$stream -ef /dev/null ] || exit 1; done
        ! read -r line || exit 2
        echo out || exit 3
        echo err >&2 || exit 4
    "#;
    let null = || Domain::builder("/bin/bash").args(["-c", script]);
    let all = null().stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(all.run().unwrap().exit, Exit::Code(0));
    // One that is something else stays that.
    let script = "echo out; [ ! /proc/self/fd/1 -ef /proc/self/fd/2 ] && echo apart";
    let one = Domain::builder("/bin/bash")
        .args(["-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let output = one.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.stdout, b"out\napart\n");
}

#[test]
fn guests_share_no_null() {
    // Flags of an open file are whoever's has it.
    let script = "import fcntl, os, sys; flags = fcntl.fcntl(0, fcntl.F_GETFL); \
                  fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_NONBLOCK); \
                  sys.exit(flags & os.O_NONBLOCK != 0)";
    let guest = Domain::builder("python3")
        .args(["-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .prepare()
        .unwrap();
    let first = guest.spawn().unwrap();
    assert_eq!(guest.run().unwrap().exit, Exit::Code(0));
    assert_eq!(first.wait().unwrap().exit, Exit::Code(0));
    assert_eq!(guest.run().unwrap().exit, Exit::Code(0));
}

/// A host's paths come from anywhere.
#[test]
fn a_path_may_end_with_a_slash() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "there").unwrap();
    for guest in ["/dev/shm/given/", "/given/"] {
        let see = shell(&format!("cat {guest}file")).stdout(Stdio::piped());
        let given = see.read_as(folder.path(), guest).spawn().unwrap();
        assert_eq!(
            given.wait_with_output().unwrap().stdout,
            b"there",
            "{guest}"
        );
    }
}

#[test]
fn a_guest_listens_where_it_was_granted() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let server = "import socket; s = socket.socket(); s.bind(('', 80)); s.listen(); \
                  print('up', flush=True); s.accept()[0].sendall(b'hello')";
    let mut domain = Domain::builder("python3")
        .args(["-c", server])
        .listen(
            format!("tcp://127.0.0.1:80,host-port={port}")
                .parse()
                .unwrap(),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    domain.stdout.take().unwrap().read_exact(&mut up).unwrap();
    let mut said = String::new();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello");
    assert_eq!(domain.wait().unwrap().exit, Exit::Code(0));
}

#[test]
fn a_socket_file_may_be_named_from_the_working_directory() {
    let grant = |host: &str| {
        ConnectGrant::Unix(UnixGrant {
            host: host.into(),
            guest: Some("/socket".into()),
        })
    };
    let plan = |host: &str| {
        shell("true")
            .connect(grant(host))
            .plan()
            .unwrap_err()
            .to_string()
    };
    let here = std::env::current_dir().unwrap();
    let absent = here.join("absent").display().to_string();
    assert!(plan("absent").contains(&absent), "{}", plan("absent"));
    assert!("unix:absent".parse::<ConnectGrant>().is_err());
}

#[test]
fn input_is_passed_in_and_ends() {
    let mut domain = shell("tr a-z A-Z")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    domain.stdin.take().unwrap().write_all(b"word").unwrap();
    let mut shown = String::new();
    domain
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut shown)
        .unwrap();
    assert_eq!(shown, "WORD");
    assert_eq!(domain.wait().unwrap().exit_code, 0);
}

/// Namespaces, signals and descriptors are per process or thread: nothing of one launch may show in
/// another, and no thread of the host may be forked.
#[test]
fn many_threads_of_a_host_start_guests_at_once() {
    let threads: Vec<_> = (0..8)
        .map(|number: u8| {
            thread::spawn(move || {
                for _ in 0..5 {
                    let output = shell(&format!("echo {number}; exit {number}"))
                        .stdout(Stdio::piped())
                        .spawn()
                        .unwrap()
                        .wait_with_output()
                        .unwrap();
                    assert_eq!(output.stdout, format!("{number}\n").into_bytes());
                    assert_eq!(output.report.exit, Exit::Code(number));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_launcher_that_parks_ahead_serves_different_plans() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    for round in 0..6u8 {
        // Every other guest has another file system than the one that was made ahead.
        let builder = shell(&format!("test -e /usr/bin/env && exit {round}"));
        let builder = if round % 2 == 0 {
            builder
        } else {
            builder.tmp_size(8 << 20)
        };
        let report = builder
            .launcher(Arc::clone(&launcher))
            .spawn()
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(report.exit, Exit::Code(round));
        launcher.wait_until_parked().unwrap();
    }
}

#[test]
fn a_prepared_guest_starts_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let tally = folder.path().join("tally");
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let guest = shell(&format!("echo >> {}", tally.display()))
        .write(folder.path())
        .launcher(launcher)
        .prepare()
        .unwrap();
    for starts in 1..=5 {
        assert_eq!(guest.spawn().unwrap().wait().unwrap().exit, Exit::Code(0));
        assert_eq!(fs::read(&tally).unwrap().len(), starts);
    }
}

/// It remembers what it planned, and asks the host again whether that is so.
#[test]
fn a_launcher_sees_what_has_changed_between_two_guests_of_one_policy() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("data")).unwrap();
    let granted = at("data");
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let guest = |words: &str| {
        let guest = shell(&format!("cat {}/file; echo {words}", granted.display()));
        let guest = guest.read(&granted).launcher(Arc::clone(&launcher));
        guest.stdout(Stdio::piped()).stderr(Stdio::null())
    };
    let printed = |words: &str| {
        let output = guest(words).spawn().unwrap().wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for words in ["1", "2", "3", "4"] {
        assert_eq!(printed(words), format!("{words}\n"));
    }
    fs::write(at("data/file"), "own\n").unwrap();
    assert_eq!(printed("5"), "own\n5\n");
    fs::rename(at("data"), at("former")).unwrap();
    let gone = guest("6").spawn().unwrap_err();
    assert!(matches!(gone, Error::Plan(_)), "{gone}");
    fs::create_dir(at("data")).unwrap();
    fs::write(at("data/file"), "another\n").unwrap();
    assert_eq!(printed("7"), "another\n7\n");
    fs::rename(at("data"), at("other")).unwrap();
    std::os::unix::fs::symlink("former", at("data")).unwrap();
    for words in ["8", "9", "10"] {
        assert_eq!(printed(words), format!("own\n{words}\n"));
    }
    fs::remove_file(at("data")).unwrap();
    std::os::unix::fs::symlink("other", at("data")).unwrap();
    assert_eq!(printed("11"), "another\n11\n");
}

/// Nothing relays its output. One that hangs is ended.
fn silent(script: &str, launcher: &Arc<Launcher>) -> palisade::Builder {
    shell(script)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .time(Duration::from_secs(60))
        .launcher(Arc::clone(launcher))
}

/// One that makes domains when they are asked for, and one that parks them ahead.
fn launchers() -> [Arc<Launcher>; 2] {
    let launcher = || Launcher::new(Machine::probe());
    [Arc::new(launcher()), Arc::new(launcher().park_ahead())]
}

#[test]
fn a_guest_that_is_run_tells_what_one_that_is_spawned_does() {
    for launcher in launchers() {
        let guest = |script: &str| silent(script, &launcher);
        for code in [0, 7] {
            let ends = guest(&format!("exit {code}"));
            let (run, spawned) = (ends.run().unwrap(), ends.spawn().unwrap().wait().unwrap());
            assert_eq!(run.exit, Exit::Code(code));
            let of = |report: &palisade::Report| (report.exit, report.ending, report.phases.len());
            assert_eq!(of(&run), of(&spawned));
        }
        let late = guest("sleep 1000").time(Duration::from_millis(200));
        assert_eq!(late.run().unwrap().ending, Ending::TimeLimit);
        // It stops itself, and somebody else has it go on.
        let stops = guest("(kill -STOP $$; sleep 0.2; kill -CONT $$) & wait; exit 3");
        assert_eq!(stops.run().unwrap().exit, Exit::Code(3));
        let unknown = Domain::builder("no-such-program").launcher(Arc::clone(&launcher));
        let error = unknown.run().unwrap_err().to_string();
        let expected = "guest: 'no-such-program' was not found";
        assert!(error.starts_with(expected), "{error}");
        let prepared = guest("exit 4").prepare().unwrap();
        for _ in 0..5 {
            assert_eq!(prepared.run().unwrap().exit, Exit::Code(4));
            launcher.wait_until_parked().unwrap();
        }
    }
}

/// Where somebody has to do something for the guest meanwhile, it is done.
#[test]
fn a_guest_that_is_run_is_served_meanwhile() {
    let [launcher, _] = launchers();
    let guest = |script: &str| silent(script, &launcher);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let asks = Domain::builder("/bin/bash")
        .args(["-c", &format!(": < /dev/tcp/127.0.0.1/{port}")])
        .connect(format!("tcp://127.0.0.1:{port}").parse().unwrap());
    assert_eq!(asks.run().unwrap().exit, Exit::Code(0));
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let watched = guest(&format!("cat {}", path.display())).watch();
    let watched = watched.run().unwrap();
    assert_eq!(watched.denials.len(), 1, "{watched:?}");
    let grantable = guest("exit 5").grantable();
    assert_eq!(grantable.run().unwrap().exit, Exit::Code(5));
    // A pipe is the host's to close or to read.
    let reads = guest("cat").stdin(Stdio::piped());
    assert_eq!(reads.run().unwrap().exit, Exit::Code(0));
}

/// More than any pipe holds, through a pair of sockets and through a relay of palisade's.
#[test]
fn what_a_guest_that_is_run_writes_is_passed_on_meanwhile() {
    const BYTES: usize = 4_000_000;
    let [launcher, _] = launchers();
    let writes = |to: Stdio| {
        let guest = silent(&format!("head -c {BYTES} /dev/zero"), &launcher).stdout(to);
        assert_eq!(guest.run().unwrap().ending, Ending::Guest);
    };
    let reads = |mut from: fs::File| {
        thread::spawn(move || {
            let mut all = 0;
            let mut buffer = vec![0; 1 << 16];
            // The end of a terminal is an error.
            while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                all += bytes;
            }
            all
        })
    };
    let (ours, guests) = UnixStream::pair().unwrap();
    let reader = reads(OwnedFd::from(ours).into());
    writes(guests.into());
    assert_eq!(reader.join().unwrap(), BYTES);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let ours = rustix::pty::openpt(flags).unwrap();
    rustix::pty::unlockpt(&ours).unwrap();
    let name = rustix::pty::ptsname(&ours, Vec::new()).unwrap();
    let guests = fs::File::options().write(true).open(name.to_str().unwrap());
    let reader = reads(ours.into());
    writes(guests.unwrap().into());
    assert_eq!(reader.join().unwrap(), BYTES);
}

/// Who asks at its door while its host waits for the end alone is answered; and whoever ends its init is told of.
#[test]
fn a_guest_that_is_run_is_operated_meanwhile() {
    let [launcher, _] = launchers();
    let run = |name: &str, operate: &dyn Fn(&RunningDomain)| {
        let folder = tempfile::tempdir().unwrap();
        let began = folder.path().join("began");
        let script = format!("echo > {}; exec sleep 1000", began.display());
        let name = format!("{name}-{}", std::process::id());
        let guest = silent(&script, &launcher).write(folder.path()).name(&name);
        let host = thread::spawn(move || guest.run());
        while !began.exists() {
            assert!(!host.is_finished(), "{:?}", host.join().unwrap());
            thread::yield_now();
        }
        let mut running = palisade_process::running::list().unwrap().into_iter();
        let found = running.find(|one| one.name.as_ref() == Some(&name));
        operate(&found.expect("it is listed"));
        host.join().unwrap()
    };
    let ended = run("run-killed", &|found| {
        assert_eq!(further_in(found, "exit 5"), 5 << 8);
        let change = Change {
            grant: vec!["--read /var".into()],
            ..Change::default()
        };
        // It is not one that can be granted more.
        let changed = found.change(&change).unwrap();
        assert_eq!((changed.done.len(), changed.refused.len()), (0, 1));
        found.kill().unwrap();
    });
    assert_eq!(ended.unwrap().ending, Ending::Operator);
    let ended = run("run-lost", &|found| {
        // It has told of the start when it answers.
        assert_eq!(further_in(found, "exit 6"), 6 << 8);
        let init = Pid::from_raw(found.id as i32).unwrap();
        rustix::process::kill_process(init, Signal::KILL).unwrap();
    });
    assert!(matches!(ended, Err(Error::Domain(_))), "{ended:?}");
}

/// It takes mounts down after the end of a domain was told: behind the caller's back, but at once.
#[test]
fn a_keeper_that_keeps_mounts_lets_go_of_them() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let guest = shell("true").launcher(Arc::clone(&launcher));
    let guest = guest.prepare().unwrap();
    for _ in 0..20 {
        guest.spawn().unwrap().wait().unwrap();
    }
    launcher.wait_until_parked().unwrap();
    let keeper = fs::read_to_string("/proc/thread-self/children").unwrap();
    let descriptors = fs::read_dir(format!("/proc/{}/fd", keeper.trim())).unwrap();
    let mounts: Vec<_> = descriptors
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("mnt:"))
        .collect();
    assert!((1..=2).contains(&mounts.len()), "{mounts:?}");
}

/// The keeper has been told to make the next domain after the first guest. Nobody waits for that who starts another one
/// meanwhile.
#[test]
fn a_guest_that_runs_on_holds_up_no_other() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let guest = |code: &str| shell(code).launcher(Arc::clone(&launcher));
    let mut long = guest("read line").stdin(Stdio::piped()).spawn().unwrap();
    for _ in 0..3 {
        assert_eq!(
            guest("exit 3").spawn().unwrap().wait().unwrap().exit_code,
            3
        );
        launcher.wait_until_parked().unwrap();
    }
    assert!(long.try_wait().unwrap().is_none());
    let mut input = long.stdin.take().unwrap();
    input.write_all(b"line\n").unwrap();
    assert_eq!(long.wait().unwrap().exit_code, 0);
    // Those that were ordered for guests that never came are let go.
    launcher.wait_until_parked().unwrap();
    assert_eq!(
        guest("exit 4").spawn().unwrap().wait().unwrap().exit_code,
        4
    );
}

/// What it failed of is there still: nobody makes domains for as long as nobody asks for one. And who asks is told of now, not of then.
#[test]
fn a_domain_that_failed_is_followed_by_none() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (file, away) = (folder.path().join("file"), folder.path().join("away"));
    fs::write(&file, "content\n").unwrap();
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let guest = shell(&format!("cat {}", file.display()))
        .read(&file)
        .launcher(Arc::clone(&launcher));
    let guest = guest.prepare().unwrap();
    let run = || guest.spawn().map(|domain| domain.wait().unwrap().exit_code);
    for _ in 0..3 {
        assert_eq!(run().unwrap(), 0);
        launcher.wait_until_parked().unwrap();
    }
    let keeper = fs::read_to_string("/proc/thread-self/children").unwrap();
    let keeper = keeper.trim().to_owned();
    let inits = || {
        let children = format!("/proc/{keeper}/task/{keeper}/children");
        fs::read_to_string(children).unwrap().trim().to_owned()
    };
    // The one that waits has it, the next one has not.
    fs::rename(&file, &away).unwrap();
    assert_eq!(run().unwrap(), 0);
    // It is there for a moment.
    let began = Instant::now();
    let mut seen = began;
    while seen.elapsed() < Duration::from_millis(300) {
        if !inits().is_empty() {
            seen = Instant::now();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{}", inits());
        thread::yield_now();
    }
    assert!(run().is_err());
    fs::rename(&away, &file).unwrap();
    assert_eq!(run().unwrap(), 0);
}

/// Init's last words are enough for that: who fled into the background, into a session of its own, or stopped is gone by then.
#[test]
fn an_end_that_is_told_early_leaves_nothing_of_the_guest() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let marker = format!("77{}", std::process::id());
    let code = format!(
        "for how in '' setsid; do $how sleep {marker} & done; sleep {marker} & kill -STOP $!; exit 5"
    );
    let guest = shell(&code).launcher(launcher).prepare().unwrap();
    for _ in 0..20 {
        let report = guest.spawn().unwrap().wait().unwrap();
        assert_eq!((report.exit_code, report.usage.left_behind), (5, 3));
        let left = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let line = fs::read_to_string(entry.unwrap().path().join("cmdline")).ok()?;
            line.starts_with("sleep\0")
                .then_some(line)
                .filter(|line| line.contains(&marker))
        });
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn a_prepared_guest_whose_folder_is_gone_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let guest = shell("true").write(folder.path()).prepare().unwrap();
    folder.close().unwrap();
    assert!(guest.spawn().is_err());
}

/// All that a guest can tell about itself and its wall: what is mounted at one place in its order, for two processes mount the rest.
/// TCP is refused by Landlock before the empty network can be unreachable.
const CONFINEMENT: &str = "
    grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Sig(Blk|Ign|Cgt)|Umask|NSpid|NSpgid)' /proc/self/status
    cat /proc/self/limits
    awk '{ print $4, $5, $6 }' /proc/self/mountinfo | sort -s -k 2,2
    readlink /proc/self/fd/0 /proc/self/fd/2; ls /proc/self/fd
    pwd; env | sort; hostname
    bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>&1 | grep -o 'Permission denied'
";

fn confinement(launcher: &Arc<Launcher>) -> String {
    let output = shell(CONFINEMENT)
        .env("LETTER", "x")
        .cwd("/usr/lib")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .launcher(Arc::clone(launcher))
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Permission denied"), "{text}");
    text
}

#[test]
fn a_guest_made_ahead_is_confined_like_any_other() {
    let fresh = Arc::new(Launcher::new(Machine::probe()));
    let ahead = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let expected = confinement(&fresh);
    assert_eq!(confinement(&ahead), expected);
    for _ in 0..3 {
        ahead.wait_until_parked().unwrap();
        assert_eq!(confinement(&ahead), expected);
    }
}

/// Also a guest whose process was there before it had a name: it is found, entered and ended by somebody who did not start it.
#[test]
fn an_operator_finds_what_a_library_started() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let find = |name: &str| {
        let all = palisade_process::running::list().unwrap();
        all.into_iter()
            .find(|domain| domain.name.as_deref() == Some(name))
    };
    for round in 0..3 {
        let name = format!("library-{}-{round}", std::process::id());
        let mut domain = shell("echo up; exec sleep 1000")
            .name(&name)
            .stdout(Stdio::piped())
            .launcher(Arc::clone(&launcher))
            .spawn()
            .unwrap();
        let mut up = [0; 3];
        domain.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        let found = find(&name).unwrap();
        assert_eq!(found.supervisor, std::process::id());
        assert_eq!(further_in(&found, "exit 5"), 5 << 8);
        found.kill().unwrap();
        let report = domain.wait().unwrap();
        assert_eq!(
            (report.ending, report.exit),
            (Ending::Operator, Exit::Signal(9))
        );
        assert_eq!(find(&name), None);
        // The next one is made ahead, and no domain that waits is listed.
        launcher.wait_until_parked().unwrap();
    }
}

/// The wait status of a further process.
fn further_in(domain: &RunningDomain, script: &str) -> u32 {
    use palisade_process::running::{Further, SessionEvent};
    let null = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let session = domain.exec(&Further {
        arguments: &["sh".into(), "-c".into(), script.into()],
        variables: &[],
        streams: [std::os::fd::AsFd::as_fd(&null); 3],
        terminal: None,
    });
    match session.unwrap().next_event().unwrap() {
        SessionEvent::Ended(status) => status,
        SessionEvent::DomainEnded => panic!("the domain ended"),
    }
}

/// Each differs from the guest that was made ahead in one thing.
#[test]
fn a_guest_made_ahead_is_not_used_for_another_plan() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let file = tempfile::tempfile().unwrap();
    let plain = || shell("ulimit -n; exit 3").launcher(Arc::clone(&launcher));
    let differing: [(palisade::Builder, u8); 6] = [
        (plain(), 3),
        (plain().files(77), 3),
        (plain().stdout(file.try_clone().unwrap()), 3),
        (plain().time(Duration::from_secs(90)), 3),
        (plain().arg("more"), 3),
        (shell("exec sleep 90").time(Duration::from_millis(50)), 124),
    ];
    for (builder, code) in differing {
        let report = builder.spawn().unwrap().wait().unwrap();
        assert_eq!(report.exit_code, code, "{:?}", report.ending);
        launcher.wait_until_parked().unwrap();
    }
    let mut shown = String::new();
    (&file).seek(SeekFrom::Start(0)).unwrap();
    (&file).read_to_string(&mut shown).unwrap();
    assert_ne!(shown.trim(), "77", "the limit was another guest's");
    assert!(!shown.is_empty());
}

/// The errors of a launch are the same, whoever finds them.
#[test]
fn a_guest_made_ahead_tells_what_fails() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let run = |program: &str, cwd: &str| {
        launcher.wait_until_parked().unwrap();
        let builder = Domain::builder(program).launcher(Arc::clone(&launcher));
        let spawned = builder.cwd(cwd).spawn();
        spawned.map(|domain| domain.wait().unwrap().exit_code)
    };
    for _ in 0..2 {
        assert_eq!(run("true", "/").unwrap(), 0);
        let unknown = run("no-such-program", "/").unwrap_err().to_string();
        assert!(
            unknown.starts_with("guest: 'no-such-program' was not found"),
            "{unknown}"
        );
        assert_eq!(run("true", "/").unwrap(), 0);
        let nowhere = run("true", "/no/such/folder").unwrap_err().to_string();
        assert!(nowhere.contains("/no/such/folder"), "{nowhere}");
    }
}

#[test]
fn a_guest_made_ahead_goes_with_its_launcher() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let report = shell("true")
        .launcher(Arc::clone(&launcher))
        .spawn()
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(report.exit_code, 0);
    launcher.wait_until_parked().unwrap();
    let keepers = || fs::read_to_string("/proc/thread-self/children").unwrap();
    assert_ne!(keepers(), "");
    drop(launcher);
    assert_eq!(keepers(), "", "the keeper, and with it all that it made");
}

#[test]
fn a_dropped_domain_is_ended() {
    let mut domain = shell("echo up; sleep 1000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = domain.stdout.take().unwrap();
    let mut byte = [0; 3];
    pipe.read_exact(&mut byte).unwrap();
    drop(domain);
    // The guest held the pipe's other end; now nobody does.
    assert_eq!(pipe.read(&mut byte).unwrap(), 0);
}

#[test]
fn an_end_is_told_when_it_is_there_and_as_often_as_asked() {
    let mut domain = shell("read line; exit 7")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // It cannot have ended: this process holds what it reads.
    assert!(domain.try_wait().unwrap().is_none());
    assert!(domain.stdin.is_some());
    domain.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let report = loop {
        match domain.try_wait().unwrap() {
            Some(report) => break report,
            None => thread::yield_now(),
        }
    };
    assert_eq!(report.exit, Exit::Code(7));
    assert!(domain.kill().is_err(), "nothing is left to end");
    assert_eq!(domain.try_wait().unwrap().as_ref(), Some(&report));
    let once_more = domain.wait_timeout(Duration::ZERO).unwrap();
    assert_eq!(once_more.as_ref(), Some(&report));
    assert_eq!(domain.wait().unwrap(), report);
}

#[test]
fn a_time_out_leaves_the_guest_running() {
    let mut domain = shell("echo up; cat; exec sleep 1000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let short = Duration::from_millis(100);
    assert!(domain.wait_timeout(short).unwrap().is_none());
    assert!(began.elapsed() >= short);
    assert!(domain.stdin.is_none(), "closed as by wait");
    assert!(domain.try_wait().unwrap().is_none());
    domain.kill().unwrap();
    let report = domain.wait_timeout(Duration::MAX).unwrap().unwrap();
    assert_eq!(report.ending, Ending::Supervisor);
    let output = domain.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"up\n");
    assert_eq!(output.report.ending, Ending::Supervisor);
}

#[test]
fn a_domain_that_is_dropped_after_a_time_out_is_ended() {
    let mut domain = shell("echo up; sleep 1000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(domain.wait_timeout(Duration::ZERO).unwrap().is_none());
    let mut pipe = domain.stdout.take().unwrap();
    drop(domain);
    // The guest held the pipe's other end; now nobody does.
    pipe.read_to_end(&mut Vec::new()).unwrap();
}

/// What a guest wrote is counted when it is read, which may be later.
#[test]
fn output_that_is_read_after_the_end_is_limited_too() {
    let mut domain = shell("echo more than this")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output(4)
        .spawn()
        .unwrap();
    let report = domain.wait_timeout(Duration::MAX).unwrap().unwrap();
    assert_eq!(report.ending, Ending::Guest);
    let output = domain.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"more");
    assert_eq!(output.report.ending, Ending::OutputLimit);
}

/// By the parent's own stdout, or by the stderr that most leave as it is.
#[test]
fn a_limit_on_output_that_nobody_would_hold_is_refused() {
    let noisy = || shell("head -c 100000 /dev/zero >&2").output(10);
    for (builder, stream) in [
        (noisy().stderr(Stdio::piped()), "stdout"),
        (noisy().stdout(Stdio::piped()), "stderr"),
        (
            noisy()
                .stdout(Stdio::null())
                .stderr(tempfile::tempfile().unwrap()),
            "stderr",
        ),
    ] {
        let spawned = builder.spawn().unwrap_err();
        assert!(
            matches!(spawned, Error::OutputNotCounted(name) if name == stream),
            "{spawned}"
        );
        let prepared = builder.prepare().unwrap_err();
        assert!(matches!(prepared, Error::OutputNotCounted(_)), "{prepared}");
    }
}

/// Who reads the pipes instead of the library counts, or nobody does.
#[test]
fn a_report_calls_output_limited_only_where_it_was_counted() {
    let spawn = || {
        let quiet = shell("echo some").output(100);
        quiet
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let level = |report: &palisade::Report| {
        let mut rows = report.enforcement.iter();
        rows.find(|row| row.capability == "output").unwrap().actual
    };
    assert_eq!(level(&spawn().wait().unwrap()), Level::None);
    let mut waited_for = spawn();
    let report = waited_for.wait_timeout(Duration::MAX).unwrap().unwrap();
    assert_eq!(level(&report), Level::None, "so far");
    let report = waited_for.try_wait().unwrap().unwrap();
    assert_eq!(level(&report), Level::None);
    let output = waited_for.wait_with_output().unwrap();
    assert_eq!(level(&output.report), Level::Full);
    let mut parted = spawn();
    drop(parted.stderr.take());
    let output = parted.wait_with_output().unwrap();
    assert_eq!(level(&output.report), Level::None);
    let silent = shell("echo some")
        .output(100)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    assert_eq!(level(&silent.spawn().unwrap().wait().unwrap()), Level::Full);
}

#[test]
fn limits_end_the_guest() {
    let began = Instant::now();
    let report = shell("sleep 1000")
        .time(Duration::from_millis(200))
        .spawn()
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!((report.ending, report.exit_code), (Ending::TimeLimit, 124));
    assert!(began.elapsed() < Duration::from_secs(20));
    let output = shell("yes")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output(1000)
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(
        (output.report.ending, output.stdout.len()),
        (Ending::OutputLimit, 1000)
    );
}

#[test]
fn what_is_not_granted_is_not_there() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(folder.path().join("secret"), "x").unwrap();
    let script = format!("test -e {}/secret", folder.path().display());
    assert_eq!(shell(&script).spawn().unwrap().wait().unwrap().exit_code, 1);
    assert_eq!(
        shell(&script)
            .read(folder.path())
            .spawn()
            .unwrap()
            .wait()
            .unwrap()
            .exit_code,
        0
    );
}

#[test]
fn an_error_names_whose_fault_it_is() {
    let missing = shell("true").read("/no/such/path").spawn().unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("policy: /no/such/path does not exist"),
        "{missing}"
    );
    let unknown = Domain::builder("no-such-program").spawn().unwrap_err();
    assert!(
        unknown
            .to_string()
            .starts_with("guest: 'no-such-program' was not found"),
        "{unknown}"
    );
}

/// Calls `proc_exit` with 7.
const ENDS_WITH_7: &[u8] = b"\0asm\x01\0\0\0\x01\x08\x02\x60\x01\x7f\0\x60\0\0\x02\x24\x01\x16wasi_snapshot_preview1\x09proc_exit\0\0\x03\x02\x01\x01\x05\x03\x01\0\x01\x07\x13\x02\x06_start\0\x01\x06memory\x02\0\x0a\x08\x01\x06\0\x41\x07\x10\0\x0b";

/// A module, and a cache of its own. Worker and compiler lie beside the tests' folder.
fn module(folder: &tempfile::TempDir, bytes: &[u8]) -> palisade::Builder {
    let path = folder.path().join("prog.wasm");
    fs::write(&path, bytes).unwrap();
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap();
    Domain::builder(&path)
        .libexec(built)
        .code_cache(folder.path().join("cache"))
}

#[test]
fn webassembly_runs_like_any_program() {
    let folder = tempfile::tempdir().unwrap();
    let guest = module(&folder, ENDS_WITH_7).time(Duration::from_secs(60));
    assert_eq!(guest.plan().unwrap().wall(), "wasm");
    let report = guest.spawn().unwrap().wait().unwrap();
    assert_eq!((report.wall.as_str(), report.exit), ("wasm", Exit::Code(7)));
}

/// What a launcher knows of a program that has not changed for a while is of that one.
#[test]
fn a_program_in_whose_place_a_module_comes_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = Arc::new(Launcher::new(Machine::probe()));
    // As long as the module.
    let mut script = b"#!/bin/sh\n".to_vec();
    script.resize(ENDS_WITH_7.len(), b'\n');
    let guest = module(&folder, &script).launcher(launcher);
    let written = Instant::now();
    while written.elapsed() < Duration::from_millis(1500) {
        assert_eq!(guest.plan().unwrap().wall(), "process");
    }
    fs::write(folder.path().join("prog.wasm"), ENDS_WITH_7).unwrap();
    assert_eq!(guest.plan().unwrap().wall(), "wasm");
}

#[test]
fn prepared_webassembly_is_started_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    let guest = module(&folder, ENDS_WITH_7).launcher(launcher);
    let prepared = guest.prepare().unwrap();
    // Neither is looked at again.
    fs::remove_dir_all(folder.path()).unwrap();
    for _ in 0..5 {
        let report = prepared.spawn().unwrap().wait().unwrap();
        assert_eq!(report.exit, Exit::Code(7));
    }
}

#[test]
fn webassembly_that_cannot_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |guest: palisade::Builder| guest.spawn().and_then(Domain::wait).unwrap_err();
    let error = refused(module(&folder, &ENDS_WITH_7[..60]));
    assert!(matches!(error, Error::Launch(_)), "{error}");
    assert!(error.to_string().starts_with("guest: "), "{error}");
    let error = refused(module(&folder, b"\0asm\x01\0\0\0"));
    assert!(matches!(error, Error::Domain(_)), "{error}");
    assert!(error.to_string().contains("_start"), "{error}");
    let error = refused(module(&folder, ENDS_WITH_7).libexec("/nowhere"));
    assert!(matches!(error, Error::Plan(_)), "{error}");
    let within_reach = module(&folder, ENDS_WITH_7).write(folder.path());
    let error = refused(within_reach);
    assert!(error.to_string().starts_with("policy: "), "{error}");
}
