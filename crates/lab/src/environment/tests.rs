use super::*;
use std::fs;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn a_machine_is_read_from_its_files() {
    let root = tree(&[
        ("proc/sys/kernel/hostname", "box\n"),
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
        (
            "proc/cmdline",
            "root=/dev/secret mitigations=off quiet rcupdate.rcu_expedited=1\n",
        ),
        (
            "proc/cpuinfo",
            "processor : 0\nmodel name\t: EPYC\nflags : fpu hypervisor\n\nprocessor : 1\nmodel name : EPYC\n",
        ),
        (
            "proc/meminfo",
            "MemTotal:  1024 kB\nCached: 512 kB\nDirty: 4 kB\nSwapTotal:  64 kB\nSwapFree:  60 kB\n",
        ),
        (
            "boot/config-6.12.1",
            "CONFIG_HZ=250\nCONFIG_NET=y\nCONFIG_PREEMPT_DYNAMIC=y\n",
        ),
        ("sys/kernel/rcu_expedited", "0\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        (
            "proc/self/mountinfo",
            "1 1 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / /tmp rw - tmpfs tmpfs rw\n",
        ),
        ("proc/loadavg", "0.32 0.47 0.36 1/92 21005\n"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        ),
        ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "performance\n",
        ),
        (
            "sys/devices/system/cpu/vulnerabilities/meltdown",
            "Not affected\n",
        ),
        (
            "sys/devices/system/cpu/vulnerabilities/spectre_v2",
            "Mitigation: IBPB\n",
        ),
    ]);
    let environment = Environment::of_files(root.path());
    assert_eq!(
        environment,
        Environment {
            host: Some("box".into()),
            cgroups: Some("2".into()),
            kernel: Some("6.12.1 #1 SMP PREEMPT_DYNAMIC".into()),
            kernel_options: vec!["mitigations=off".into(), "rcupdate.rcu_expedited=1".into()],
            processor: Some("EPYC".into()),
            processors: 2,
            memory_bytes: Some(1 << 20),
            swap_used_bytes: Some(4096),
            virtual_machine: Some(true),
            kernel_build: vec!["CONFIG_HZ=250".into(), "CONFIG_PREEMPT_DYNAMIC=y".into()],
            rcu: [("rcu_expedited".into(), "0".into())].into(),
            file_system: Some("tmpfs".into()),
            page_cache_bytes: Some(512 << 10),
            dirty_bytes: Some(4096),
            governor: Some("performance".into()),
            huge_pages: Some("madvise".into()),
            congestion_control: Some("bbr".into()),
            mitigations: [("spectre_v2".into(), "Mitigation: IBPB".into())].into(),
            load: Some(0.32),
            ..Environment::default()
        }
    );
}

#[test]
fn a_machine_is_called_by_its_host_or_its_processor() {
    let machine = |host: &str, processor: &str| {
        let environment = Environment {
            host: Some(host.to_owned()),
            processor: Some(processor.to_owned()),
            ..Environment::default()
        };
        environment.machine()
    };
    let intel = "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz";
    assert_eq!(machine("Anna's T480.example.org", intel), "anna-s-t480");
    assert_eq!(machine("../../etc", intel), "intel-core-i7-8650u");
    assert_eq!(
        machine("localhost.localdomain", intel),
        "intel-core-i7-8650u"
    );
    assert_eq!(
        machine("4f2e91ab03cd", "AMD EPYC 7B13 64-Core Processor"),
        "amd-epyc-7b13"
    );
    assert_eq!(machine("", "AMD EPYC"), "amd-epyc");
}

#[test]
fn the_command_can_be_pasted() {
    let environment = Environment {
        command_line: ["palisade", "bench", "--out", "my runs", "it's"]
            .map(ToOwned::to_owned)
            .to_vec(),
        ..Environment::default()
    };
    assert_eq!(
        environment.command(),
        r"palisade bench --out 'my runs' 'it'\''s'"
    );
}

#[test]
fn what_is_not_there_is_not_guessed() {
    let root = tree(&[]);
    assert_eq!(Environment::of_files(root.path()), Environment::default());
}

#[test]
fn this_machine_has_a_kernel_and_a_processor() {
    let environment = Environment::of_this_machine();
    assert!(
        environment.kernel.is_some()
            && environment.processors > 0
            && environment.memory_bytes.is_some()
    );
}
