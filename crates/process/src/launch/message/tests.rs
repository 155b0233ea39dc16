use super::*;
use crate::{
    host::{
        Identity,
        table::{HOME, Table},
    },
    launch::streams::Ready,
    machine::{Machine, Tier},
    plan::{Options, StreamFiles, make_plan},
    steps::{Attributes, Step},
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

fn folder(path: &str) -> Step {
    Step::MakeFolder {
        path: path.into(),
        mode: 0o755,
    }
}

fn file(path: &str, content: &str) -> Step {
    Step::WriteFile {
        path: path.into(),
        mode: 0o444,
        content: content.as_bytes().into(),
    }
}

fn link(path: &str) -> Step {
    Step::MakeSymlink {
        path: path.into(),
        target: "elsewhere".into(),
    }
}

fn mount(path: &str) -> Step {
    Step::Mount {
        source: path.into(),
        identity: Identity::default(),
        owner: None,
        open_to_all: true,
        attributes: Attributes::RDONLY,
        is_own_place: true,
        target: path.into(),
    }
}

/// The order of what is made beside: by init before, by the guest's process, by init meanwhile and after.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    InitBefore,
    Guest,
    InitMeanwhile,
    InitAfter,
}

/// By whom each of these steps is made, behind a root.
fn makers(steps: impl IntoIterator<Item = Step>) -> Vec<By> {
    let mut plan = plan(Vec::new());
    plan.steps.truncate(1);
    plan.steps.extend(steps);
    let mut writer = Writer::default();
    Steps::of(&plan).encode_beside(&mut writer, FILTER);
    let message = writer.finish();
    let confined = place(&message, FILTER).unwrap() + FILTER.len();
    let word = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().unwrap());
    assert_eq!(word(confined), op::GUEST_BESIDE);
    let parts_end = confined + 8 + word(confined + 4) as usize;
    let rest = parts_end + 1;
    assert_eq!(word(rest), op::ITEM);
    let made = place(&message[rest..], &op::PART_MADE.to_ne_bytes()).map(|at| rest + at);
    let by = |index: usize| {
        let mut step = Writer::default();
        Steps::of(&plan).encode_one(&mut step, index);
        let at = place(&message, &step.finish()).expect("it is made");
        match at {
            at if at < confined => By::InitBefore,
            at if at < parts_end => By::Guest,
            at if made.is_none_or(|made| at < made) => By::InitMeanwhile,
            _ => By::InitAfter,
        }
    };
    let is_numbered = |index: usize| {
        let words = [op::ITEM, index as u32].map(u32::to_ne_bytes).concat();
        contains(&message[..parts_end], &words)
    };
    let (before, after): (Vec<_>, Vec<_>) = (1..plan.steps.len())
        .map(|index| (by(index), index))
        .partition(|(by, _)| *by <= By::Guest);
    assert!(before.iter().all(|(_, index)| is_numbered(*index)));
    let first = after.first().map(|(_, index)| *index as u32);
    assert!(first.is_none_or(|first| word(rest + 4) == first));
    (1..plan.steps.len()).map(by).collect()
}

/// The guest's process makes files, links and devices once root and folders are there, and is waited for before the root is left.
#[test]
fn who_confines_itself_beside_makes_files_links_and_devices() {
    use By::{Guest, InitAfter, InitBefore, InitMeanwhile};
    let steps = [
        (folder("/dev"), InitBefore),
        (file("/etc/file", "text"), Guest),
        (folder("/etc/ssl"), InitBefore),
        (link("/etc/ssl/link"), Guest),
        (file("/dev/null", ""), Guest),
        (mount("/dev/null"), Guest),
        (folder("/dev/shm"), Guest),
        (folder("/usr"), InitMeanwhile),
        (mount("/usr"), InitMeanwhile),
        (Step::LeaveHost { root: None }, InitAfter),
        (Step::NameHost { name: "x".into() }, InitAfter),
    ];
    let (steps, expected): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    assert_eq!(makers(steps), expected);
}

/// A folder of the host's that is mounted over one of the domain's own hides what the domain has there: nothing is made in it.
#[test]
fn nothing_is_mounted_over_a_folder_before_all_in_it_is_made() {
    let made = [
        file("/etc/file", "text"),
        folder("/etc/ssl"),
        link("/etc/ssl/link"),
    ];
    for (later, by) in [
        ("/etc", By::InitAfter),
        ("/etc/ssl", By::InitAfter),
        ("/etc/ssl/link", By::InitAfter),
        ("/etc/file/below", By::InitAfter),
        ("/", By::InitAfter),
        ("/etc/", By::InitAfter),
        ("//etc", By::InitAfter),
        ("/./etc", By::InitAfter),
        ("/usr/../etc", By::InitAfter),
        ("/etc/ssl/certs", By::InitMeanwhile),
        ("/etcetera", By::InitMeanwhile),
        ("/usr", By::InitMeanwhile),
    ] {
        let steps = made.iter().cloned().chain([mount(later)]);
        assert_eq!(makers(steps).last(), Some(&by), "{later}");
    }
}

/// What lies over something, or holds it, comes after it: by whomever that is made.
#[test]
fn whatever_may_lie_over_devices_waits_for_them() {
    let cover = Step::Cover {
        target: "/usr/x".into(),
        folder: false,
    };
    let whole = Step::Remount {
        target: "/".into(),
        set: Attributes::RDONLY,
        clear: Attributes::NONE,
    };
    let terminals = Step::MountTerminals {
        target: "/dev/pts".into(),
    };
    for later in [cover, whole, terminals, mount("/dev"), mount("/dev/null/x")] {
        let steps = [
            link("/etc/link"),
            mount("/dev/null"),
            mount("/usr"),
            later.clone(),
        ];
        assert_eq!(
            makers(steps),
            [By::Guest, By::Guest, By::InitMeanwhile, By::InitAfter],
            "{later}"
        );
    }
}

/// It would not be known again, written in another way.
#[test]
fn what_is_written_in_an_odd_way_is_init_s() {
    let steps = [
        link("/etc/link"),
        folder("/dev/shm/given/"),
        mount("/dev/shm/given"),
    ];
    let [link, folder, mount] = makers(steps).try_into().unwrap();
    assert_eq!(link, By::Guest);
    assert!(folder > By::Guest && mount > By::Guest);
}

/// An id-mapped mount comes with the message, and is init's.
#[test]
fn mounts_of_the_host_s_root_are_init_s() {
    let mut own = mount("/dev/mine");
    if let Step::Mount { owner, .. } = &mut own {
        *owner = Some((1000, 1000));
    }
    let steps = [
        link("/etc/link"),
        mount("/dev/null"),
        own,
        mount("/dev/zero"),
    ];
    let [link, null, own, zero] = makers(steps).try_into().unwrap();
    assert_eq!([link, null], [By::Guest, By::Guest]);
    assert_eq!([own, zero], [By::InitMeanwhile, By::InitMeanwhile]);
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
    let hosts = file("/etc/hosts", "127.0.0.1 localhost\n");
    let index = 1;
    plan.steps.insert(index, hosts);
    let (message, _) = message(&plan, &Prelude::default(), 0);
    let made = item(&message, index, op::KEPT_FILE).expect("it is kept");
    assert!(made < place(&message, FILTER).unwrap());
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
