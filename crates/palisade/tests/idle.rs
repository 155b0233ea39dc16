//! What a domain costs in which nothing happens.

use palisade::{Domain, Stdio};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

/// How long what does happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const SECONDS: &str = "1000";

fn idle_domain() -> Domain {
    let builder = Domain::builder("/bin/sleep").arg(SECONDS);
    builder.stdin(Stdio::null()).spawn().unwrap()
}

/// Memory of a process that is in no file, in KiB.
fn anonymous_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.unwrap().trim().parse().unwrap()
}

/// Init lives as long as its domain: of the launch message it keeps what a further process needs.
#[test]
fn init_keeps_little() {
    const MOST_KIB: u64 = 40;
    // Two, for the keeper has heard of nothing yet when it makes the first.
    let domains = [idle_domain(), idle_domain()];
    // It gives back what it came through once the guest is on its way, so that nobody waits for that.
    let began = Instant::now();
    for domain in &domains {
        let kib = loop {
            let kib = anonymous_kib(domain.id());
            if kib <= MOST_KIB || began.elapsed() > PATIENCE {
                break kib;
            }
            thread::yield_now();
        };
        assert!(kib <= MOST_KIB, "{kib} KiB");
    }
}

/// A control group of its own, which counts the kernel's memory too.
struct Group(PathBuf);

impl Group {
    fn enter() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let of_memory = own.lines().find_map(|line| line.split_once(":memory:"));
        let parent =
            Path::new("/sys/fs/cgroup/memory").join(of_memory.unwrap().1.trim_start_matches('/'));
        let group = parent.join(format!("palisade-idle-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        fs::write(group.join("cgroup.procs"), "0").unwrap();
        Self(group)
    }

    fn kib(&self) -> [u64; 2] {
        ["memory.usage_in_bytes", "memory.kmem.usage_in_bytes"].map(|name| {
            let text = fs::read_to_string(self.0.join(name)).unwrap();
            text.trim().parse::<u64>().unwrap() / 1024
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is empty once whoever measures is back where it was.
        let parent = self.0.parent().unwrap();
        fs::write(parent.join("cgroup.procs"), "0").unwrap();
        let _ = fs::remove_dir(&self.0);
    }
}

/// What the whole machine has of some things, in KiB.
fn machine_kib() -> BTreeMap<String, i64> {
    const CHOSEN: [&str; 5] = ["Slab", "PageTables", "KernelStack", "Shmem", "VmallocUsed"];
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let chosen = lines.filter(|(name, _)| CHOSEN.contains(name));
    let number = |text: &str| text.trim().trim_end_matches(" kB").parse().unwrap();
    chosen
        .map(|(name, rest)| (name.to_owned(), number(rest)))
        .collect()
}

/// Prints what a domain's start adds: all, what of that is the kernel's, and of what the whole machine has more.
#[test]
#[ignore = "measures; as root, with control groups of version 1, on an idle machine"]
fn what_one_costs() {
    const COUNT: u64 = 200;
    let group = Group::enter();
    drop(idle_domain());
    let measure = |what: &str, start: &mut dyn FnMut()| {
        let (before, machine) = (group.kib(), machine_kib());
        (0..COUNT).for_each(|_| start());
        let (after, machine_after) = (group.kib(), machine_kib());
        let [all, of_kernel] = [0, 1].map(|at| (after[at] - before[at]) / COUNT);
        println!("{what}: {all} KiB, {of_kernel} of them the kernel's");
        for (name, kib) in &machine_after {
            let each = (kib - machine[name]) as f64 / COUNT as f64;
            println!("    {name} {each:.1} KiB");
        }
    };
    let mut domains = Vec::new();
    measure("in a domain", &mut || domains.push(idle_domain()));
    println!("init: {} KiB", anonymous_kib(domains[1].id()));
    let mut alone: Vec<Child> = Vec::new();
    measure("alone", &mut || {
        alone.push(Command::new("/bin/sleep").arg(SECONDS).spawn().unwrap());
    });
    for child in &mut alone {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
