//! What a guest tried and did not get.

mod files;

pub(crate) use files::FileAdvisor;

use crate::{
    broker::{Notes, Observed},
    cgroup,
    host::LocalMounts,
    layout::Layout,
    plan::Watched,
    seen::{Execution, Seen},
    wire,
};
use palisade_network::{Call, Observation, Target};
use palisade_wall::{Denial, Ending, Exit, Process};

/// What is known of it at the domain's end.
pub(crate) fn of_domain(
    (exit, ending): (Exit, Ending),
    (counted, used_up): (&cgroup::Usage, u64),
    observed: &Observed,
    (seen, layout): (&Seen, Option<&Layout>),
) -> Vec<Denial> {
    let mut denials = of_kernel(exit, ending, counted);
    denials.extend(of_own_folders(used_up));
    let executions = seen.executions.iter();
    denials.extend(executions.map(|execution| of_execution(execution, layout)));
    let mut network: Vec<_> = observed
        .different
        .iter()
        .chain(&seen.network)
        .cloned()
        .collect();
    leave_unseen(&mut network);
    denials.extend(network.iter().filter_map(of_network));
    let more = [
        ("more on the network, all different", observed.more),
        ("more that was refused, all different", seen.more),
    ];
    let told = "the report tells only so many apart";
    let more = more.map(|(what, count)| (what, count, told));
    let unasked = (
        "more that was to be asked about",
        observed.unasked,
        "too much waited for an answer, or no more was to be asked",
    );
    let more = more.into_iter().chain([unasked]);
    let more = more.filter(|(_, count, _)| *count > 0);
    denials.extend(more.map(|(what, count, why)| Denial {
        what: what.into(),
        reason: Some(why.into()),
        count: Some(count),
        ..Denial::default()
    }));
    denials
}

/// What a watched guest asked for in vain.
pub(crate) fn of_files(notes: Notes, layout: &Layout, watched: &Watched) -> Vec<Denial> {
    files::denied(notes, layout, watched, &LocalMounts::here())
}

pub(crate) fn of_execution(execution: &Execution, layout: Option<&Layout>) -> Denial {
    let path = execution.path.to_string_lossy();
    let grant = layout.and_then(|layout| layout.exec_grant(&execution.path));
    let reason = match grant {
        Some(_) => "what the guest can write is not executed",
        None => "it lies where nothing is executed",
    };
    Denial {
        what: format!("the execution of {path}"),
        call: Some("execve".into()),
        reason: Some(reason.into()),
        count: Some(execution.count),
        // A path that cannot be written down is no advice.
        grant: grant.and_then(|place| Some(format!("--exec {}", place.to_str()?))),
        ..Denial::default()
    }
}

/// A lookup begins with a connection, in which there is no name. Of those, what the names seen of the same program do
/// not account for.
fn leave_unseen(network: &mut Vec<Observation>) {
    let named = |network: &[Observation], program: &str| -> u64 {
        let of_program = network.iter().filter(|one| one.process.name == program);
        let named = of_program.filter(|one| matches!(one.target, Target::Host(_)));
        named.map(|one| one.count).sum()
    };
    for index in 0..network.len() {
        let one = &network[index];
        if matches!((one.call, &one.target), (Call::Lookup, Target::Other(_))) {
            let left = one.count.saturating_sub(named(network, &one.process.name));
            network[index].count = left;
        }
    }
    network.retain(|one| one.count > 0);
}

fn of_network(observation: &Observation) -> Option<Denial> {
    let refusal = observation.refusal.as_ref()?;
    let target = &observation.target;
    let what = match observation.call {
        Call::Socket | Call::Ring => target.to_string(),
        Call::Connect => format!("a connection to {target}"),
        Call::Send => format!("a datagram to {target}"),
        Call::Bind => format!("the address {target}"),
        Call::Listen => format!("listening at {target}"),
        Call::Proxy => format!("a connection through the proxy to {target}"),
        Call::Lookup if matches!(target, Target::Host(_)) => format!("the name {target}"),
        Call::Lookup => target.to_string(),
    };
    let call = match observation.call {
        Call::Proxy | Call::Lookup => None,
        Call::Send => Some("sendto".into()),
        call => Some(call.to_string()),
    };
    let process = &observation.process;
    Some(Denial {
        what,
        call,
        address: match target {
            Target::Address(..) | Target::Name(..) => Some(target.to_string()),
            Target::Host(_) | Target::Unbound(_) | Target::Other(_) => None,
        },
        process: Some(Process::new(process.pid, process.name.as_bytes())),
        reason: Some(refusal.reason.to_string()),
        count: Some(observation.count),
        grant: refusal.grant.clone(),
        probe: observation.probe,
        ended: None,
    })
}

/// Nobody counts what was refused there. That a guest failed which had left no room is all that can be told.
fn of_own_folders(used_up: u64) -> impl Iterator<Item = Denial> {
    let told = [
        (wire::FULL_ROOM, "more room in /tmp and /dev/shm"),
        (wire::FULL_FILES, "more files in /tmp and /dev/shm"),
    ];
    let told = told.into_iter().filter(move |(bit, _)| used_up & bit != 0);
    told.map(|(_, what)| Denial {
        what: what.into(),
        reason: Some("nothing was left of what --tmp-size allows when the guest ended".into()),
        grant: Some("--tmp-size".into()),
        ..Denial::default()
    })
}

/// What the kernel tells about things the guest tried and did not get.
fn of_kernel(exit: Exit, ending: Ending, counted: &cgroup::Usage) -> Vec<Denial> {
    let denial = |what: &str, grant: Option<&str>| Denial {
        what: what.into(),
        grant: grant.map(Into::into),
        ..Denial::default()
    };
    let by_exit = match exit {
        Exit::Signal(31) => Some(denial(
            "a system call of another architecture (32-bit)",
            None,
        )),
        Exit::Signal(25) => Some(denial("a file larger than the limit", Some("--file-size"))),
        Exit::Signal(24) => Some(denial("more processor time", Some("--cpu-time"))),
        _ => None,
    };
    let by_ending = match ending {
        Ending::TimeLimit => Some(denial("more time", Some("--time"))),
        Ending::CpuTimeLimit => Some(denial("more processor time", Some("--cpu-time"))),
        Ending::OutputLimit => Some(denial("more output", Some("--output"))),
        Ending::Guest
        | Ending::Supervisor
        | Ending::Operator
        | Ending::MemoryLimit
        | Ending::Unprotected => None,
    };
    let by_count = [
        (
            "more memory (processes killed)",
            counted.oom_kills,
            "--memory",
        ),
        ("more processes", counted.pids_rejected, "--processes"),
    ];
    let by_count = by_count.into_iter().filter_map(|(what, count, grant)| {
        let count = count.filter(|count| *count > 0)?;
        Some(Denial {
            count: Some(count),
            ..denial(what, Some(grant))
        })
    });
    by_exit
        .into_iter()
        .chain(by_ending)
        .chain(by_count)
        .collect()
}
