use super::*;

/// A test has no keeper, and what looks like one is none.
#[test]
fn a_title_alone_makes_no_keeper() {
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", "exec -a palisade-keeper sh -c 'read line' </dev/zero"])
        .spawn();
    if let Ok(child) = &mut child {
        let own = std::process::id();
        let table = Table::read().unwrap();
        assert!(table.children(own).any(|entry| entry.pid == child.id()));
        assert!(!table::is_own_keeper(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Others choose how much there is to read.
#[test]
fn a_title_is_read_no_further_than_titles_go() {
    let long = "x".repeat(100_000);
    // It waits for a line that does not come.
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", "echo up; read line", &long])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Before, the kernel may not have put its arguments in place.
    let said = io::Read::read(child.stdout.as_mut().unwrap(), &mut [0; 3]);
    assert_eq!(said.unwrap(), 3);
    let words = table::title(child.id()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let bytes: usize = words.iter().map(|word| word.len() + 1).sum();
    assert!((500..=wire::TITLE_BYTES + 1).contains(&bytes), "{bytes}");
}

fn domain_of(init: Known, keeper: Known) -> RunningDomain {
    RunningDomain {
        id: init.pid,
        name: None,
        wall: "process".into(),
        command: Vec::new(),
        supervisor: 1,
        started: SystemTime::UNIX_EPOCH,
        usage: Usage::default(),
        init,
        keeper,
    }
}

/// Whoever has the pid of an ended domain's init is not ended in its stead.
#[test]
fn a_pid_of_somebody_else_by_now_is_left_alone() {
    let mut child = std::process::Command::new("/bin/sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let is_now = Known::of(&Entry::read(child.id()).unwrap());
    let was = Known {
        started_ticks: is_now.started_ticks - 1,
        ..is_now
    };
    for (init, keeper) in [(was, is_now), (is_now, was)] {
        let domain = domain_of(init, keeper);
        assert!(matches!(domain.kill(), Err(OperateError::Gone)));
        let arguments = ["true".into()];
        let null = std::fs::File::open("/dev/null").unwrap();
        let further = Further {
            arguments: &arguments,
            variables: &[],
            streams: [std::os::fd::AsFd::as_fd(&null); 3],
            terminal: None,
        };
        assert!(matches!(domain.exec(&further), Err(OperateError::Gone)));
    }
    assert_eq!(child.try_wait().unwrap(), None, "it still runs");
    child.kill().unwrap();
    child.wait().unwrap();
}
