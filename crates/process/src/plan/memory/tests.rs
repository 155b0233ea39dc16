use super::*;
use crate::{
    host::{
        Entry, Found, Identity, Mount,
        table::{HOME, Table},
    },
    machine::{Quotas, Tier},
};
use palisade_network::Resolve;
use rustix::io::Errno;
use std::{cell::Cell, path::Path, sync::OnceLock};

const POLICIES: [&str; 5] = [
    "",
    "system = false\n[grants]\nread = ['/home/ada/script']\n",
    "[grants]\nwrite = ['/home/ada/work']\nprotect = ['/home/ada/work/a/b/later']\n",
    "allow-degraded = ['hide']\n[grants]\nread = ['/home/ada/work']\nhide = ['/home/ada/work/**/file']\n",
    "[grants]\nread-if-there = ['/home/ada/none']\nread = ['/home/ada/link']\n",
];

type Change = (&'static str, fn(Table) -> Table);

/// What may have become of the host since a plan was made.
const CHANGES: [Change; 11] = [
    ("nothing", |host| host),
    ("a file replaced", |host| host.file("/home/ada/script", "")),
    ("a file that grew", |host| {
        host.file("/home/ada/script", "true")
    }),
    ("a file nobody may read", |host| {
        host.with_mode("/home/ada/script", 0o600)
    }),
    ("a folder that is a file now", |host| {
        host.file("/home/ada/work", "")
    }),
    ("a file that is there now", |host| {
        host.file("/home/ada/none", "")
    }),
    ("one more in a folder", |host| {
        host.folder("/home/ada/work/c")
            .file("/home/ada/work/c/file", "")
    }),
    ("a link to elsewhere", |host| {
        host.link("/home/ada/link", "/home/ada/data")
    }),
    ("another setting of the system's", |host| {
        host.file("/etc/os-release", "ID=another\n")
    }),
    ("a folder in /etc", |host| host.folder("/etc/fonts")),
    ("a mount", |host| {
        host.bind("/home/ada/data", "/home/ada/work/a")
    }),
];

fn host() -> Table {
    Table::with_work()
        .file("/home/ada/script", "")
        .link("/home/ada/link", "/home/ada/work")
}

fn machine(tier: Tier) -> Machine {
    Machine {
        tier,
        uid: 1001,
        gid: 1002,
        landlock_abi: Some(6),
        memfd_noexec: true,
        quotas: Quotas::default(),
        processors: 2,
        cgroups: OnceLock::new(),
        filtered: false.into(),
        seccomp: true.into(),
        stays: true.into(),
    }
}

fn policy(text: &str) -> Policy {
    Policy::from_toml(text, "policy.toml", Path::new(HOME)).unwrap()
}

fn command(argument: &str) -> Command {
    Command {
        program: "job".into(),
        arguments: vec![argument.into()],
    }
}

fn surroundings(value: &str) -> Surroundings {
    Surroundings {
        cwd: Some(HOME.into()),
        environment: vec![("LANG".into(), value.into())],
        ..Surroundings::default()
    }
}

/// All that a plan is, or why there is none. Values of variables are not shown otherwise.
fn told(plan: Result<Plan, PlanError>) -> String {
    let values = plan.as_ref().map(|plan| plan.environment.to_vec());
    format!("{values:?} {plan:?}")
}

#[test]
fn a_remembered_plan_is_what_would_be_made_now() {
    let (command, surroundings) = (command("1"), surroundings("C"));
    for tier in [Tier::Privileged, Tier::UserNamespace, Tier::Bare] {
        let machine = machine(tier);
        for text in POLICIES {
            let policy = policy(text);
            let spec = Spec::new(&policy, &command, &machine, &surroundings);
            for (name, change) in CHANGES {
                let memory = Memory::default();
                for _ in 0..3 {
                    let plan = memory.make_plan(&spec, &host());
                    let anew = make_plan(&spec, &host(), &Options::default());
                    assert_eq!(told(plan), told(anew), "{tier:?}, {text}");
                }
                let changed = change(host());
                for _ in 0..2 {
                    let plan = memory.make_plan(&spec, &changed);
                    let anew = make_plan(&spec, &changed, &Options::default());
                    assert_eq!(told(plan), told(anew), "{tier:?}, {text}, {name}");
                }
            }
        }
    }
}

#[test]
fn each_change_is_one_for_some_policy() {
    let (command, surroundings) = (command("1"), surroundings("C"));
    let machine = machine(Tier::UserNamespace);
    for (name, change) in &CHANGES[1..] {
        let matters = |text: &&str| {
            let policy = policy(text);
            let spec = Spec::new(&policy, &command, &machine, &surroundings);
            let plan = |host: Table| told(make_plan(&spec, &host, &Options::default()));
            plan(host()) != plan(change(host()))
        };
        assert!(POLICIES.iter().any(matters), "{name}");
    }
}

#[test]
fn whatever_else_a_plan_is_made_of_may_be_another() {
    let memory = Memory::default();
    let own = policy("[grants]\nread = ['/home/ada/script']\nenv = ['LANG']\n");
    let others = policy("");
    // Equal as paths, and no path of a file.
    let mut by_other_words = own.clone();
    by_other_words.grants.files[0].host = "/home/ada/script/".into();
    assert_eq!(own, by_other_words);
    let (here, bare) = (machine(Tier::UserNamespace), machine(Tier::Bare));
    for (policy, command, machine, surroundings) in [
        (&own, command("1"), &here, surroundings("C")),
        (&own, command("1"), &here, surroundings("C")),
        (&own, command("1"), &here, surroundings("C")),
        (&own, command("2"), &here, surroundings("C")),
        (&own, Command::new("another"), &here, surroundings("C")),
        (&own, command("1"), &here, surroundings("de_DE")),
        (&own, command("1"), &here, surroundings("C")),
        (&own, command("1"), &here, surroundings("C")),
        (&by_other_words, command("1"), &here, surroundings("C")),
        (&own, command("1"), &here, surroundings("de_DE")),
        (&own, command("1"), &bare, surroundings("de_DE")),
        (&others, command("1"), &bare, surroundings("de_DE")),
        (&own, command("3"), &bare, surroundings("de_DE")),
    ] {
        let spec = Spec::new(policy, &command, machine, &surroundings);
        let plan = memory.make_plan(&spec, &host());
        let anew = make_plan(&spec, &host(), &Options::default());
        assert_eq!(told(plan), told(anew));
    }
}

/// What is made of one for its launches is another's, too, but for arguments.
#[test]
fn remembered_plans_are_the_same_as_long_as_nothing_else_changes() {
    let memory = Memory::default();
    let (policy, machine) = (policy(POLICIES[1]), machine(Tier::UserNamespace));
    let plan = |argument: &str, language: &str, host: Table| {
        let (command, surroundings) = (command(argument), surroundings(language));
        let spec = Spec::new(&policy, &command, &machine, &surroundings);
        memory.make_plan(&spec, &host).unwrap()
    };
    let first = plan("1", "C", host());
    let [second, third] = ["2", "3"].map(|argument| plan(argument, "C", host()));
    assert!(second.identity.is(&third.identity) && !first.identity.is(&second.identity));
    let others = [
        plan("3", "C", CHANGES[2].1(host())),
        plan("3", "de_DE", host()),
        third.clone(),
    ];
    let are_others = others
        .iter()
        .all(|other| !other.identity.is(&third.identity));
    assert!(are_others);
}

#[test]
fn two_policies_at_once_are_planned_each_by_itself() {
    let memory = Memory::default();
    std::thread::scope(|scope| {
        for text in &POLICIES[..2] {
            let memory = &memory;
            scope.spawn(move || {
                let (policy, machine) = (policy(text), machine(Tier::UserNamespace));
                let surroundings = surroundings("C");
                for number in 0..200 {
                    let command = command(&number.to_string());
                    let spec = Spec::new(&policy, &command, &machine, &surroundings);
                    let plan = memory.make_plan(&spec, &host());
                    let anew = make_plan(&spec, &host(), &Options::default());
                    assert_eq!(told(plan), told(anew), "{text}");
                }
            });
        }
    });
}

/// A host whose kernel has all that is asked for, or no `/proc` to tell, and which counts how often it is asked.
struct Counting {
    host: Table,
    has_proc: Cell<bool>,
    asked: Cell<usize>,
}

impl Counting {
    fn of(host: Table) -> Self {
        Self {
            host,
            has_proc: Cell::new(true),
            asked: Cell::new(0),
        }
    }
}

impl Host for Counting {
    fn find(&self, path: &Path) -> rustix::io::Result<Found> {
        self.host.find(path)
    }

    fn identify(&self, path: &Path) -> rustix::io::Result<Identity> {
        self.host.identify(path)
    }

    fn kernel_has(&self, _: &Path) -> rustix::io::Result<bool> {
        self.asked.set(self.asked.get() + 1);
        self.has_proc.get().then_some(true).ok_or(Errno::NOSYS)
    }

    fn link(&self, path: &Path) -> Option<std::path::PathBuf> {
        Host::link(&self.host, path)
    }

    fn list(&self, folder: &Path) -> rustix::io::Result<Vec<Entry>> {
        self.host.list(folder)
    }

    fn is_open_to_all(&self, folder: &Path) -> bool {
        self.host.is_open_to_all(folder)
    }

    fn resolver(&self) -> &dyn Resolve {
        self.host.resolver()
    }

    fn content(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
        self.host.content(path, most_bytes)
    }

    fn mounts(&self) -> rustix::io::Result<Vec<Mount>> {
        self.host.mounts()
    }
}

/// How often each of some plans in a row was made of nothing.
fn count_made(text: &str, host: Table) -> Vec<bool> {
    let (policy, machine) = (policy(text), machine(Tier::UserNamespace));
    let host = Counting::of(host);
    let memory = Memory::default();
    let is_made = |number: usize| {
        let (command, surroundings) = (command(&number.to_string()), surroundings("C"));
        let spec = Spec::new(&policy, &command, &machine, &surroundings);
        host.asked.set(0);
        let plan = memory.make_plan(&spec, &host).unwrap();
        assert_eq!(plan.arguments[1], *number.to_string());
        host.asked.get() > 0
    };
    (0..4).map(is_made).collect()
}

#[test]
fn the_third_plan_of_a_policy_is_not_made_again() {
    let made = count_made(POLICIES[1], host());
    assert_eq!(made, [true, true, false, false]);
}

#[test]
fn a_plan_with_names_to_look_up_is_always_made_again() {
    let text = "[grants]\nconnect = ['tcp://www.example.com:443']\n";
    assert_eq!(count_made(text, host()), [true; 4]);
}

#[test]
fn more_than_can_be_remembered_is_looked_at_again() {
    let many = (0..5000).fold(host(), |host, number| {
        host.file(&format!("/home/ada/work/{number}"), "")
    });
    assert_eq!(count_made(POLICIES[3], many), [true; 4]);
}

/// What its kernel tells everybody would not be masked.
#[test]
fn without_proc_there_is_no_plan() {
    let (policy, command, surroundings) = (policy(""), command("1"), surroundings("C"));
    let machine = machine(Tier::UserNamespace);
    let spec = Spec::new(&policy, &command, &machine, &surroundings);
    let host = Counting::of(host());
    host.has_proc.set(false);
    let memory = Memory::default();
    for _ in 0..3 {
        let plan = memory.make_plan(&spec, &host);
        assert!(matches!(plan, Err(PlanError::NoProc)), "{plan:?}");
    }
}
