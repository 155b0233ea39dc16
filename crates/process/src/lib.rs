//! The process wall: Linux namespaces, Landlock, seccomp and control groups around any program.
//!
//! ```text
//!  Policy ──make_plan──▶ Plan ──Launcher::launch──▶ Domain ──wait──▶ Report
//!            │ asks Host     │ pure data               │ keeper ▸ init ▸ guest
//!            └ and Machine   └ `palisade explain`      └ parked ahead
//! ```
//!
//! | what a guest tries | what stops it |
//! |---|---|
//! | files that were not granted | a private root on `tmpfs`; only granted paths are mounted |
//! | writing, executing what it wrote | mounts: read-only, `noexec`; memory files are not executable |
//! | the network | an empty network namespace; Landlock denies TCP; seccomp other protocols |
//! | other processes | a pid namespace; Landlock scopes signals and abstract sockets |
//! | the kernel's rarer calls | a seccomp allow-list; no capabilities; `no_new_privs` |
//! | more than its share | control groups, resource limits, the size of its `tmpfs`, init's clock |
//!
//! It does not stop side channels of the processor, nor a bug of the kernel that is reachable by
//! the calls it allows. `docs/walls/process.md` tells the whole story.
//!
//! The crates `landlock`, `seccompiler` and `caps` are not used: the calls are made by the keeper's
//! program, which has neither `std` nor an allocator.
//!
//! # The keeper
//!
//! A static program of a few tens of KiB, embedded in this crate (`sys/keeper`). It makes domains
//! ahead of need, is the parent of each domain's first process, and cleans up when the process that
//! uses this crate dies.
//!
//! # Modules
//!
//! Each needs only what stands below its line.
//!
//! | module | what |
//! |---|---|
//! | `wall` | the [`palisade_wall::Wall`] |
//! | `launch` | carries a plan out: from a parked domain to a running guest |
//! | [`container`] | containers of engines: created, started and entered |
//! | [`running`] | domains that run, for who did not start them: finding, ending, entering |
//! | `domain` | a running guest and its report |
//! | `held` | what a domain has on the host while it lives |
//! | `broker`, `denials`, `launch_error`, `reopen` | the guest's calls on the network; what it tried in vain; why it did not start |
//! | [`plan`] | from a policy to a plan: data, which nobody needs to carry out |
//! | `reach`, `relay` | by which paths a guest reaches what; streams that it must not hold |
//! | `layout`, `confine` | what lies where in a domain; what palisade's own parts keep of their rights |
//! | `keeper`, `inside`, [`seccomp`], `machine`, `plan_error` | the keeper's other end; a domain's own network; filters; what this machine offers |
//! | `view`, `steps`, [`cgroup`], [`places`], `seen`, `record`, `sys` | the system view; steps as data; control groups; what may be advised; `unsafe` |
//! | `host`, `address`, `clock`, `file_calls`, `followed`, `parts`, `paths`, `wire` | what needs nothing of this crate |

mod address;
mod broker;
mod capabilities;
pub mod cgroup;
mod clock;
mod confine;
pub mod container;
mod denials;
mod domain;
mod file_calls;
mod followed;
mod grants;
mod held;
mod host;
mod inside;
mod keeper;
pub mod kernel_file;
mod launch;
mod launch_error;
mod layout;
mod lock;
mod machine;
mod parts;
pub mod paths;
pub mod places;
pub mod plan;
mod plan_error;
mod reach;
mod record;
mod relay;
mod reopen;
pub mod running;
pub mod seccomp;
mod seen;
mod standing;
mod steps;
mod sys;
mod view;
mod wall;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the keeper's program compiles the same file"
)]
mod wire;

#[doc(hidden)]
pub use broker::boundary;
pub use confine::{ConfineError, Confinement};
pub use domain::{Domain, DomainError, ReportHook};
pub use host::{Entry, EntryKind, Found, Host, Identity, Kind, LocalMounts, Mount, ThisHost};
pub use inside::{InnerNetwork, InnerSocket};
pub use keeper::KeeperError;
pub use launch::Launcher;
pub use launch_error::LaunchError;
pub use machine::{Machine, Quotas, Tier};
pub use view::{is_looked_through, system_view_of};
pub use wall::ProcessWall;
pub use wire::Step as LaunchStep;
