use super::*;
use crate::{
    host::table::{HOME, Table},
    launch::streams::Ready,
    machine::{Machine, Tier},
    plan::{Options, StreamFiles, make_plan},
    wire::op,
};
use palisade_policy::Policy;
use palisade_wall::{Command, HandedListener, Spec, Streams, Surroundings};
use std::fs::File;

const FILTER: &[u8] = b"a filter, eight bytes an instruction....";

fn plan(handed: Vec<HandedListener>) -> Plan {
    let machine = Machine {
        tier: Tier::UserNamespace,
        uid: 1001,
        gid: 1001,
        landlock_abi: Some(6),
        ..Machine::probe()
    };
    let surroundings = Surroundings {
        cwd: Some(HOME.into()),
        handed,
        ..Surroundings::default()
    };
    let (policy, command) = (Policy::nothing(), Command::new("/bin/job"));
    let spec = Spec::new(&policy, &command, &machine, &surroundings);
    make_plan(&spec, &Table::with_home(), &Options::default()).unwrap()
}

/// The message for a domain that has done this, and how many descriptors go with it.
fn message(plan: &Plan, done: &Prelude, tasks: usize) -> (Vec<u8>, usize) {
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap()
    };
    let (stream, listener) = (null(), null());
    let passed = vec![listener.as_fd(); plan.handed.len() + 2];
    let streams = Streams {
        stdin: stream.as_fd(),
        stdout: stream.as_fd(),
        stderr: stream.as_fd(),
        terminal: None,
        questions: None,
        journal: None,
        is_awaited: false,
        passed: &passed,
    };
    let tasks: Vec<_> = (0..tasks).map(|_| null().into()).collect();
    let ready = Ready::of(&streams, plan.tier, false).unwrap();
    let listeners = Listeners::of(plan, streams.passed).unwrap();
    let mounts = mounts::Prepared::default();
    let message = Message::of(&Contents {
        plan,
        done,
        seccomp: FILTER,
        streams: &ready,
        terminal: None,
        mounts: &mounts,
        tasks: &tasks,
        counter: None,
        listeners: &listeners,
        temporary: None,
        is_awaited: false,
        variables: vec!["TOLD=yes".into()],
    });
    (message.body.clone(), message.fds.len())
}

fn place(all: &[u8], part: &[u8]) -> Option<usize> {
    all.windows(part.len()).position(|window| window == part)
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    place(all, part).is_some()
}

#[test]
fn a_domain_is_told_what_it_has_not_done() {
    let plan = plan(Vec::new());
    let ahead = Prelude::of(&plan, FILTER, Default::default(), false);
    assert!(ahead.has_guest);
    let mut steps = Writer::default();
    encode::encode_steps(&mut steps, &plan, None, |_| None);
    let root_alone = Prelude {
        bytes: steps.finish(),
        has_guest: false,
    };
    let (whole, _) = message(&plan, &Prelude::default(), 0);
    let (guest, _) = message(&plan, &root_alone, 0);
    let (program, _) = message(&plan, &ahead, 0);
    let root = &root_alone.bytes;
    let begin = place(&whole, root).expect("its root is built");
    assert!(
        place(&whole, FILTER) < Some(begin),
        "beside a process that confines itself"
    );
    assert!(whole.ends_with(&program) && whole[..begin].ends_with(&op::GUEST_BESIDE.to_ne_bytes()));
    assert!(guest.ends_with(&program) && guest.len() > program.len());
    assert!(contains(&guest, FILTER) && !contains(&program, FILTER));
    assert!(contains(&program, b"/bin/job\0") && contains(&program, b"TOLD=yes\0"));
}

/// Rules that name paths of the root, or that a stream is under, cannot be made before it.
#[test]
fn a_guest_is_made_before_its_root_and_goes_behind_rules_on_paths_after_it() {
    let is_later = |plan: &Plan, output| {
        let files = StreamFiles {
            output,
            ..StreamFiles::default()
        };
        let parts = encode::encode_confinement_beside(plan, FILTER, files);
        parts.map(|[first, last]| {
            assert!(contains(&first, FILTER));
            !last.is_empty()
        })
    };
    let mut plan = plan(Vec::new());
    assert_eq!(is_later(&plan, false), Some(false));
    assert_eq!(
        is_later(&plan, true),
        Some(true),
        "output to a file takes a rule"
    );
    plan.landlock = None;
    assert_eq!(is_later(&plan, true), Some(false));
    plan.tier = Tier::Bare;
    assert_eq!(is_later(&plan, false), None);
}

#[test]
fn listeners_come_after_streams_and_control_groups() {
    const STREAMS: u32 = 3;
    let handed = HandedListener {
        name: "http".into(),
        internet: false,
    };
    let plan = plan(vec![handed]);
    for tasks in [0, 2] {
        let (body, fds) = message(&plan, &Prelude::default(), tasks);
        assert_eq!(fds, 3 + tasks + 1 + 2);
        let passed = encode::encode_passed(STREAMS + tasks as u32, 1, 2);
        assert!(contains(&body, &passed), "{tasks}");
    }
}
