//! A further filter around a worker, beside the engine's and palisade's: a container's program may be anything, this one is known.

use palisade_process::seccomp::{
    Action, Check, CompileError, Filter, Groups, NEW_NAMESPACES, allow_list, int,
};

const EPERM: Action = Action::Errno(libc::EPERM as u16);

/// Its program; `may_execute` where others are to be executed behind it.
pub(super) fn program(may_execute: bool) -> Result<Vec<u8>, CompileError> {
    filter(may_execute).program()
}

/// What a native program behind palisade's wall may call, and of that neither processes nor programs: who broke the engine
/// executes nothing of the image. A worker has threads, and is itself executed as an open file.
fn filter(may_execute: bool) -> Filter {
    let mut filter = allow_list(&Groups {
        foreign_processes_visible: true,
        host_ipc_visible: true,
        no_watching: true,
        no_executable_memfd: true,
        memfd_must_be_sealed: true,
        ..Groups::default()
    });
    if may_execute {
        return filter;
    }
    let mut set = |call: libc::c_long, rule| filter.set(call as u32, rule);
    for call in [libc::SYS_fork, libc::SYS_vfork, libc::SYS_execve] {
        set(call, Check::otherwise(EPERM));
    }
    let thread = libc::CLONE_THREAD as u64;
    let of_a_thread = int(0).masked(thread | NEW_NAMESPACES, thread);
    let thread = Check::otherwise(EPERM).when([of_a_thread], Action::Allow);
    set(libc::SYS_clone, thread);
    let of_an_open_file = int(4).has_any(libc::AT_EMPTY_PATH as u64);
    let itself = Check::otherwise(EPERM).when([of_an_open_file], Action::Allow);
    set(libc::SYS_execveat, itself);
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_makes_threads_and_no_processes() {
        let filter = filter(false);
        let decide = |call: libc::c_long, arguments| filter.decide(call as u32, &arguments);
        let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
        assert_eq!(
            decide(libc::SYS_clone, [thread, 0, 0, 0, 0, 0]),
            Action::Allow
        );
        let process = libc::SIGCHLD as u64;
        for (call, first) in [
            (libc::SYS_clone, thread | libc::CLONE_NEWNET as u64),
            (libc::SYS_clone, process),
            (libc::SYS_fork, 0),
            (libc::SYS_vfork, 0),
            (libc::SYS_execve, 0),
            (libc::SYS_execveat, 0),
            (libc::SYS_ptrace, 0),
            (libc::SYS_mount, 0),
        ] {
            assert_eq!(decide(call, [first, 0, 0, 0, 0, 0]), EPERM, "{call}");
        }
    }
}
