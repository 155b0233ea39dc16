use super::*;
use crate::{
    host::table::{HOME, Table},
    launch::streams::Ready,
    machine::{Machine, Tier},
    plan::{Options, StreamFiles, make_plan},
    steps::Step,
    wire::op,
};
use palisade_network::Pins;
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
    Steps::of(&plan).encode(&mut steps);
    let root_alone = Prelude {
        bytes: steps.finish(),
        has_guest: false,
    };
    let (whole, _) = message(&plan, &Prelude::default(), 0);
    let (guest, _) = message(&plan, &root_alone, 0);
    let (program, _) = message(&plan, &ahead, 0);
    let leaves = op::PIVOT.to_ne_bytes();
    let leaves = [&leaves[..], &[0; 5]].concat();
    let filter = place(&whole, FILTER).expect("it confines itself");
    assert!(
        filter < place(&whole, &leaves).expect("its root is built"),
        "beside who builds the root"
    );
    assert!(contains(&ahead.bytes, &leaves) && contains(&root_alone.bytes, &leaves));
    assert!(!contains(&guest, &leaves) && !contains(&program, &leaves));
    assert!(whole.ends_with(&program));
    assert!(guest.ends_with(&program) && guest.len() > program.len());
    assert!(contains(&guest, FILTER) && !contains(&program, FILTER));
    assert!(contains(&program, b"/bin/job\0") && contains(&program, b"TOLD=yes\0"));
}

/// Where something of a plan's steps stands in a message: its instruction behind the number of its step.
fn item(message: &[u8], index: usize, op: u32) -> Option<usize> {
    let words = [op::ITEM, index as u32, op];
    place(message, &words.map(u32::to_ne_bytes).concat())
}

/// The guest's process makes files and links once root and folders are there, and is waited for before the root is left.
#[test]
fn who_confines_itself_beside_makes_files_and_links_and_nothing_else() {
    let folder = |path: &str| Step::MakeFolder {
        path: path.into(),
        mode: 0o755,
    };
    let file = |path: &str, content: &str| Step::WriteFile {
        path: path.into(),
        mode: 0o444,
        content: content.as_bytes().into(),
    };
    let link = Step::MakeSymlink {
        path: "/etc/link".into(),
        target: "file".into(),
    };
    let mut plan = plan(Vec::new());
    let root = plan.steps[0].clone();
    let leave = Step::LeaveHost { root: None };
    let simple = [
        folder("/etc"),
        file("/etc/file", "text"),
        folder("/etc/ssl"),
    ];
    let later = [link, folder("/dev"), file("/dev/null", "")];
    let proc = Step::MountProc {
        target: "/proc".into(),
    };
    let all = [root].into_iter().chain(simple).chain(later);
    plan.steps = all.chain([proc, leave]).collect();
    let (message, _) = message(&plan, &Prelude::default(), 0);
    let beside = op::GUEST_BESIDE.to_ne_bytes();
    let filter = place(&message, FILTER).unwrap();
    let beside = filter + place(&message[filter..], &beside).unwrap();
    let made = beside + place(&message[beside..], &op::FILES_MADE.to_ne_bytes()).unwrap();
    let inits = [(0, op::ROOT), (1, op::MAKE_DIR), (3, op::MAKE_DIR)];
    assert!(
        inits
            .iter()
            .all(|(index, op)| item(&message, *index, *op) < Some(filter))
    );
    let guests = [(2, op::FILE), (4, op::SYMLINK)].map(|(index, op)| item(&message, index, op));
    let [first, last] = guests.map(|place| place.expect("the guest's process makes it"));
    assert!(beside < first && first < last && last < made);
    let goes_on = item(&message, 5, op::MAKE_DIR).expect("init goes on");
    assert!(last < goes_on && goes_on < made);
    let mounted_on = place(&message, b"/dev/null\0").unwrap();
    assert!(goes_on < mounted_on && mounted_on < made);
    let left = [op::FILES_MADE, op::PIVOT].map(u32::to_ne_bytes).concat();
    assert!(contains(&message, &left));
}

/// The supervisor writes it anew while the guest runs: init holds it.
#[test]
fn a_file_that_is_kept_is_init_s_to_make() {
    let mut plan = plan(Vec::new());
    plan.network.pins.push(Pins {
        name: "example.org".parse().unwrap(),
        addresses: Vec::new(),
        former: Vec::new(),
        withheld: Vec::new(),
        ttl_s: 60,
    });
    let hosts = Step::WriteFile {
        path: "/etc/hosts".into(),
        mode: 0o444,
        content: b"127.0.0.1 localhost\n".as_slice().into(),
    };
    let index = 1;
    plan.steps.insert(index, hosts);
    let (message, _) = message(&plan, &Prelude::default(), 0);
    assert!(item(&message, index, op::KEPT_FILE) < place(&message, FILTER));
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
