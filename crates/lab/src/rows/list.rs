//! Every row there is, in the order of `palisade bench --list`. The command knows their names, and no more of them, by
//! `palisade_command_line::args::ROW_NAMES`.

use super::{
    Method, Row, boot, calls, conformance, containers, counts, learn, network, osv, pictures,
    serve, start, sva, syscalls, ukvm, watch,
};
use std::time::Duration;

/// Name, seconds that it takes at most, about, and what it runs.
#[rustfmt::skip]
pub(super) static ROWS: [Row; 47] = [
    row("start", 20, "run `true` to its end, everything isolated", &start::Start),
    row("syscalls", 60, "the cost of single system calls, once the guest runs (SVA-OS 2009, table 5)", &syscalls::SYSCALLS),
    row("mk-1", 360, "test suites inside and outside: equal lists of results (µKVM 2006, table 1)", &conformance::Conformance),
    row("mk-2", 40, "open 500 and 1000 existing files (µKVM 2006, table 2)", &ukvm::OPENS),
    row("mk-3", 40, "read and write 512 KB in small blocks, unbuffered (µKVM 2006, table 3)", &ukvm::BLOCKS),
    row("mk-6", 40, "create and start 10, 30, 60 and 100 threads (µKVM 2006, table 6)", &ukvm::THREADS),
    row("mk-7", 40, "open 500 and 1000 files with everything on (µKVM 2006, tables 7 to 9)", &ukvm::CHECKED_OPENS),
    row("mk-8", 10, "memory with 500 files open and everything on (µKVM 2006, tables 7 to 9)", &ukvm::MEMORY_500),
    row("mk-9", 10, "memory with 1000 files open and everything on (µKVM 2006, tables 7 to 9)", &ukvm::MEMORY_1000),
    row("sva-f4", 40, "read and write whole files of 4 KB to 4 MB (SVA-OS 2009, figure 4)", &sva::BANDWIDTH),
    row("sva-t3", 300, "whole programs at work: bzip2, lame, perl (SVA-OS 2009, table 3)", &sva::APPLICATIONS),
    row("watch", 120, "be told which files a program asks for: a build, and nothing but stat", &watch::Watching),
    row("learn", 120, "have a policy written for a build: how much longer than the build", &learn::Learning),
    row("osv-boot", 20, "from a start to the first instruction of main (OSv 2013 and its README)", &boot::Boot),
    row("kp-5", 15, "a null call into a guest, 0 to 8 arguments (kernel plugins 2004, table 5)", &calls::Calls),
    row("counts", 20, "how many system calls a start of `true` takes, until nothing of it is left", &counts::Counts),
    row("osv-jvm", 17 * 60, "workloads for Java as of SPECjvm2008 (OSv 2013: 1.76 % faster than Linux)", &osv::JVM),
    row("broker", 40, "connect to a granted address, then move 64 MB; client inside (--connect)", &network::BROKER),
    row("mk-4", 40, "1 MB over TCP by blocks of 64 B to 16 KB, the client inside (µKVM 2006)", &network::BLOCKS),
    row("mk-5", 40, "64 to 4096 packets of 1024 B over TCP, the client inside (µKVM 2006)", &network::PACKETS),
    row("den-tcp", 60, "bulk TCP by iperf3, server inside (--listen; Denali 2002: 569 of 607 Mb/s)", &network::BULK),
    row("den-f3", 40, "HTTP by size out of memory, server inside (--listen; Denali 2002, figure 3)", &network::DOCUMENTS),
    row("redis", 60, "Redis inside (--listen), 25 connections of redis-benchmark", &network::REDIS),
    row("sva-f2", 120, "files of 1 KB to 1 MB from nginx inside (--listen, --write; SVA-OS 2009)", &network::FILES),
    row("sva-f3", 120, "a large file by scp from sshd inside (--listen; SVA-OS 2009, figure 3)", &network::COPY),
    row("osv-mc", 180, "memcached inside (--listen), UDP, 60 in flight (OSv 2013)", &network::MEMCACHED),
    row("pgbench", 120, "PostgreSQL inside (--listen, --write), 4 connections of pgbench", &network::POSTGRES),
    row("kp-c", 60, "compile, link and swap a small filter under load (kernel plugins 2004)", &serve::Swap),
    row("kp-x", 30, "a picture becomes grey, by gcc and as a guest (kernel plugins 2004)", &pictures::Pictures),
    row("kp-6", 60, "an answer of 1 KB from nginx inside (--listen; kernel plugins 2004)", &network::REPLY),
    row("kp-7", 60, "what a filter adds to an answer (kernel plugins 2004: +8 µs)", &serve::REPLY_LATENCY),
    row("kp-8", 240, "replies by the rate offered (kernel plugins 2004: plugin as plain, VM half)", &serve::Rates),
    row("serve-filter", 300, "requests in a second through a filter, beside nginx with njs and with Lua", &serve::FILTERS),
    row("serve-files", 120, "requests in a second for files, beside nginx", &serve::FILES),
    row("serve-component", 90, "requests in a second to a wasi:http component, beside wasmtime serve", &serve::COMPONENTS),
    row("serve-program", 120, "requests in a second to a program behind the wall, beside none and nginx", &serve::PROGRAMS),
    row("serve-pictures", 90, "kp-x over HTTP: pictures posted to a component and to a program", &serve::PICTURES),
    row("den-f4", 600, "100 KB from 1 to 800 domains of one server (Denali 2002, figure 4)", &serve::DOCUMENTS),
    row("den-f5", 300, "what idle services do with a processor (Denali 2002, figure 5)", &serve::Idle(serve::What::Time)),
    row("den-f8", 1500, "1 to 10,000 services by Zipf's law (Denali 2002, figure 8: a cliff at 1,000)", &serve::POPULAR),
    row("den-f12", 120, "jitter of 32 servers of a game (Denali 2002, figure 12)", &serve::Jitter),
    row("den-t2", 240, "memory of an idle service (Denali 2002, table 2: 8,472 B swapped out)", &serve::Idle(serve::What::Memory)),
    row("tenants", 300, "a tenant beside one that floods, loops, traps, dawdles or starts cold", &serve::Neighbours),
    row("container-start", 40, "create, start and delete a container, beside runc and crun", &containers::Start),
    row("container-memory", 20, "memory of an idle container beside its program", &containers::Memory),
    row("container-requests", 120, "requests in a second to nginx and Redis in a container, beside runc", &containers::Requests),
    row("container-many", 120, "100 containers created at once, and taken down", &containers::Many),
];

const fn row(
    name: &'static str,
    seconds: u64,
    about: &'static str,
    method: &'static dyn Method,
) -> Row {
    Row {
        name,
        about,
        budget: Duration::from_secs(seconds),
        method,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contenders of these rows are called as the row is.
    #[test]
    fn workloads_are_called_as_their_rows() {
        let operations = [
            ("syscalls", &syscalls::SYSCALLS),
            ("mk-2", &ukvm::OPENS),
            ("mk-3", &ukvm::BLOCKS),
            ("mk-6", &ukvm::THREADS),
            ("mk-7", &ukvm::CHECKED_OPENS),
            ("sva-f4", &sva::BANDWIDTH),
            ("broker", &network::BROKER),
            ("mk-4", &network::BLOCKS),
            ("mk-5", &network::PACKETS),
            ("den-tcp", &network::BULK),
            ("den-f3", &network::DOCUMENTS),
            ("redis", &network::REDIS),
            ("sva-f2", &network::FILES),
            ("sva-f3", &network::COPY),
            ("osv-mc", &network::MEMCACHED),
            ("pgbench", &network::POSTGRES),
            ("kp-6", &network::REPLY),
        ];
        for (name, operations) in operations {
            assert_eq!(operations.name, name);
        }
        assert_eq!(ukvm::MEMORY_500.name, "mk-8");
        assert_eq!(ukvm::MEMORY_1000.name, "mk-9");
    }
}
