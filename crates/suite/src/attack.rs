//! One row of the table: what a guest tries, how it is seen, and what should happen.

use crate::guests::Controls;
use crate::witness::Witness;

/// What a policy grants besides what it takes to start the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nothing at all: no system view, only the guest's own folder.
    Nothing,
    /// The system view and a folder of fixtures to read.
    Minimum,
    /// Also a scratch folder to write, with one corner for programs and one for sockets.
    Generous,
    /// The generous policy and what the attack's control adds.
    Control,
}

impl Policy {
    /// The three policies that an attack faces.
    pub const FACED: [Self; 3] = [Self::Nothing, Self::Minimum, Self::Generous];

    /// As in test names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Minimum => "minimum",
            Self::Generous => "generous",
            Self::Control => "control",
        }
    }

    /// What it grants of the servers that [`Prop::Servers`] brings: the doors, never the witnesses.
    #[must_use]
    pub const fn doors(self) -> &'static [Grant] {
        use Grant::{Connect, Listen};
        match self {
            Self::Nothing => &[],
            Self::Minimum => &[Connect("tcp://127.0.0.1:{door-tcp4}")],
            Self::Generous | Self::Control => &[
                Connect("tcp://127.0.0.1:{door-tcp4}"),
                Connect("tcp://[::1]:{door-tcp6}"),
                Connect("udp://127.0.0.1:{door-udp4}"),
                Connect("udp://[::1]:{door-udp6}"),
                Listen("tcp://127.0.0.1:{listen}"),
                Listen("udp://127.0.0.1:{listen}"),
            ],
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Nothing, Self::Minimum, Self::Generous, Self::Control]
            .into_iter()
            .find(|p| p.name() == name)
    }

    /// What it grants.
    #[must_use]
    pub const fn grants(self) -> &'static [Grant] {
        use Grant::{Env, Exec, Ipc, NoSystem, Read, ReadAt, Write};
        const GUEST: Grant = ReadAt("{bin}", "/guest");
        match self {
            Self::Nothing => &[NoSystem, GUEST],
            Self::Minimum => &[GUEST, Read("{fixtures}")],
            Self::Generous | Self::Control => &[
                GUEST,
                Read("{fixtures}"),
                Write("{scratch}"),
                Exec("{scratch}/bin"),
                Ipc("{scratch}/run"),
                Env("LANG=C"),
            ],
        }
    }
}

/// Who starts the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum User {
    /// uid 0 with every capability.
    Root,
    /// A uid of its own, no capability, no supplementary group.
    Ordinary,
}

impl User {
    /// Both halves of the suite.
    pub const BOTH: [Self; 2] = [Self::Root, Self::Ordinary];

    /// As in test names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Ordinary => "ordinary",
        }
    }

    /// The user of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::BOTH.into_iter().find(|user| user.name() == name)
    }
}

/// One permission or limit. Paths and addresses are templates: `{scratch}/bin`, `{tcp4}`, see
/// [`crate::warden`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// No system view.
    NoSystem,
    /// Read a path at the same place inside.
    Read(&'static str),
    /// Read a path at another place inside.
    ReadAt(&'static str, &'static str),
    /// Write a path at the same place inside.
    Write(&'static str),
    /// Write a path at another place inside.
    WriteAt(&'static str, &'static str),
    /// Execute files below this writable path.
    Exec(&'static str),
    /// Make sockets and FIFOs below this writable path.
    Ipc(&'static str),
    /// Keep this path inside a writable grant as it is, or absent.
    Protect(&'static str),
    /// What git executes in a writable grant is the guest's.
    NoGuard,
    /// `NAME=VALUE`.
    Env(&'static str),
    /// Start here.
    Cwd(&'static str),
    /// Take further grants from this file.
    PolicyFile(&'static str),
    /// Connect to, and send to: `tcp://127.0.0.1:{door-tcp4}`.
    Connect(&'static str),
    /// Take connections at: `tcp://127.0.0.1:{listen}`.
    Listen(&'static str),
    /// Bound `0` to `1`: `("memory", "32M")`.
    Limit(&'static str, &'static str),
}

impl Grant {
    /// Whether `self` takes the place of `other` in one policy.
    #[must_use]
    pub fn replaces(self, other: Self) -> bool {
        match (self, other) {
            (Self::Limit(one, _), Self::Limit(another, _)) => one == another,
            _ => self == other,
        }
    }
}

/// Something that stands ready before the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prop {
    /// A process that holds the secret in every way that one can, under the guest's uid.
    Victim,
    /// A process in its own uts namespace whose host name is the secret.
    VictimNamespaced,
    /// The victim leads the process group that the launcher joins.
    SharedGroup,
    /// Servers on the loopback device: witnesses, and doors that the policies grant.
    Servers,
    /// A server of the guest's user that lets its port be shared: `shared`.
    SharedPort,
    /// Somebody who connects to this address, a template, as soon as there is a server.
    Caller(&'static str),
    /// The launcher's table of host names, as in hosts(5).
    Names(&'static str),
    /// The same, in a file of this path, which `/etc/hosts` shows.
    NamesIn(&'static str, &'static str),
    /// The launcher's `/etc/nsswitch.conf`: whom it asks for names.
    NameServices(&'static str),
    /// A variable of the launcher's, a template.
    Variable(&'static str, &'static str),
    /// The folder that the launcher is started in, a template.
    StartedIn(&'static str),
    /// The launcher is killed once the guest holds.
    LauncherDies,
    /// Unix sockets, abstract and by path, and a FIFO.
    LocalServers,
    /// The launcher starts on a terminal of its own.
    Terminal,
    /// A flaw of the launcher: an argument of `stagehand launch`.
    Flaw(&'static str),
    /// Two names that are exchanged all the time.
    Flip(&'static str, &'static str),
    /// `{fixtures}` is a read-only mount.
    ReadOnlyFixtures,
    /// A mount on `{fixtures}/masked` hides the secret.
    Masked,
    /// setuid, setgid and file-capability copies of the guest in `{fixtures}`. Needs root.
    Privileged,
    /// The kernel log holds the secret. Needs root.
    KernelLog,
    /// The file handle of the secret, as the guest's argument `handle`.
    Handle,
    /// A second guest of the same program, attack and tool, told `role=giver`, with these grants and
    /// nothing else. It holds before the first one starts.
    Accomplice(&'static [Grant]),
    /// A second link beside the loopback device, called `beside`, with nobody at its other end.
    SecondLink,
}

/// The act that shows that it is the wall, not the act, that failed.
#[derive(Clone, Copy, Debug)]
pub enum Control {
    /// The same guest with these grants more, and these arguments instead, succeeds.
    Granted {
        /// Added to the generous policy and the attack's own; a limit replaces the attack's.
        grants: &'static [Grant],
        /// `KEY=VALUE`, looked up before the attack's own.
        arguments: &'static [&'static str],
    },
    /// The same guest with these grants instead of the attack's own succeeds.
    Instead(&'static [Grant]),
    /// No grant exists for the act. The nearest one that every policy allows succeeds,
    /// and the same kind of witness sees it through the same wall.
    NoGrant(Controls),
}

/// An attack, with all that it takes to run and to judge it.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The name on the command line and in test names.
    pub name: &'static str,
    /// The row of [`crate::catalogue`] that it comes from, counted from 1; 0 for controls.
    pub entry: usize,
    /// What must be ready before.
    pub props: &'static [Prop],
    /// Grants and limits that every policy of this attack has.
    pub launch: &'static [Grant],
    /// `KEY=VALUE` for the guest, templates.
    pub arguments: &'static [&'static str],
    /// `KEY=VALUE` only where there is no wall and the guest plays the naive launcher.
    pub naive_arguments: &'static [&'static str],
    /// How success is seen.
    pub witness: Witness,
    /// The policies under which it is granted; denied under all others.
    pub granted_by: &'static [Policy],
    /// Its control.
    pub control: Control,
    /// A launcher that refuses to start has also stopped it.
    pub refusal_counts: bool,
    /// Takes much of what the kernel counts for each user: one run of it at a time.
    pub in_turn: bool,
    /// How often the launcher starts in one run: more than once for races.
    pub launches: usize,
    /// When the run is cut off.
    pub deadline_ms: u64,
    /// Why the wall does not hold this yet, or not always: a case that fails counts as ignored.
    pub pending: Option<&'static str>,
}

impl Attack {
    /// An attack of catalogue row `entry`, denied under every policy, with the given witness.
    #[must_use]
    pub const fn new(entry: usize, witness: Witness) -> Self {
        Self {
            name: "",
            entry,
            props: &[],
            launch: &[],
            arguments: &[],
            naive_arguments: &[],
            witness,
            granted_by: &[],
            control: Control::NoGrant(Controls::GrantedRead),
            refusal_counts: false,
            in_turn: false,
            launches: 1,
            deadline_ms: 5_000,
            pending: None,
        }
    }

    /// Seen in this way instead.
    #[must_use]
    pub const fn seen_by(mut self, witness: Witness) -> Self {
        self.witness = witness;
        self
    }

    /// What must be ready before.
    #[must_use]
    pub const fn with(mut self, props: &'static [Prop]) -> Self {
        self.props = props;
        self
    }

    /// Grants and limits under every policy.
    #[must_use]
    pub const fn launched(mut self, launch: &'static [Grant]) -> Self {
        self.launch = launch;
        self
    }

    /// Further arguments of the guest.
    #[must_use]
    pub const fn told(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }

    /// Further arguments of the guest where there is no wall.
    #[must_use]
    pub const fn told_without_wall(mut self, arguments: &'static [&'static str]) -> Self {
        self.naive_arguments = arguments;
        self
    }

    /// Policies that grant it.
    #[must_use]
    pub const fn granted_by(mut self, policies: &'static [Policy]) -> Self {
        self.granted_by = policies;
        self
    }

    /// The control is the same act with these grants.
    #[must_use]
    pub const fn controlled_by(mut self, grants: &'static [Grant]) -> Self {
        self.control = Control::Granted {
            grants,
            arguments: &[],
        };
        self
    }

    /// The control is the same act with these grants instead of its own.
    #[must_use]
    pub const fn controlled_instead_by(mut self, grants: &'static [Grant]) -> Self {
        self.control = Control::Instead(grants);
        self
    }

    /// The control is the same act with other arguments.
    #[must_use]
    pub const fn controlled_at(
        mut self,
        grants: &'static [Grant],
        arguments: &'static [&'static str],
    ) -> Self {
        self.control = Control::Granted { grants, arguments };
        self
    }

    /// No grant exists; `neighbour` is the nearest act that always is allowed.
    #[must_use]
    pub const fn ungrantable(mut self, neighbour: Controls) -> Self {
        self.control = Control::NoGrant(neighbour);
        self
    }

    /// A refusal to start counts as stopped.
    #[must_use]
    pub const fn or_refused(mut self) -> Self {
        self.refusal_counts = true;
        self
    }

    /// Launches that often.
    #[must_use]
    pub const fn repeated(mut self, launches: usize) -> Self {
        self.launches = launches;
        self
    }

    /// Cut off after `deadline_ms`.
    #[must_use]
    pub const fn within_ms(mut self, deadline_ms: u64) -> Self {
        self.deadline_ms = deadline_ms;
        self
    }

    /// The wall does not hold this yet; the reason.
    #[must_use]
    pub const fn pending(mut self, reason: &'static str) -> Self {
        self.pending = Some(reason);
        self
    }

    /// One run at a time.
    #[must_use]
    pub const fn in_turn(mut self) -> Self {
        self.in_turn = true;
        self
    }

    /// Whether the table says that it succeeds behind a wall under `policy`.
    #[must_use]
    pub fn is_granted(&self, policy: Policy) -> bool {
        policy == Policy::Control || self.granted_by.contains(&policy)
    }

    /// All grants under `policy`: the policy's, then the attack's and its control's.
    #[must_use]
    pub fn grants(&self, policy: Policy) -> Vec<Grant> {
        let (own, more): (_, &[Grant]) = match self.control {
            Control::Granted { grants, .. } if policy == Policy::Control => (self.launch, grants),
            Control::Instead(grants) if policy == Policy::Control => (grants, &[]),
            _ => (self.launch, &[]),
        };
        let mut grants = Vec::new();
        let doors: &[Grant] = if self.props.contains(&Prop::Servers) {
            policy.doors()
        } else {
            &[]
        };
        let all = policy.grants().iter().chain(doors).chain(own).chain(more);
        for grant in all {
            grants.retain(|other| !grant.replaces(*other));
            grants.push(*grant);
        }
        grants
    }

    /// The arguments that the control puts before the attack's own; none under other policies.
    #[must_use]
    pub fn control_arguments(&self, policy: Policy) -> &'static [&'static str] {
        match self.control {
            Control::Granted { arguments, .. } if policy == Policy::Control => arguments,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Attack, Grant, Policy};
    use crate::witness::Witness;

    const BOMB: Attack = Attack::new(1, Witness::SelfReported)
        .launched(&[Grant::Limit("memory", "32M")])
        .controlled_by(&[Grant::Limit("memory", "1G")]);

    #[test]
    fn the_control_replaces_the_attacks_limit() {
        let limits = |policy| -> Vec<_> {
            BOMB.grants(policy)
                .into_iter()
                .filter(|g| matches!(g, Grant::Limit(..)))
                .collect()
        };
        assert_eq!(limits(Policy::Generous), [Grant::Limit("memory", "32M")]);
        assert_eq!(limits(Policy::Control), [Grant::Limit("memory", "1G")]);
    }

    #[test]
    fn an_attack_is_denied_unless_the_table_grants_it() {
        assert!(Policy::FACED.iter().all(|policy| !BOMB.is_granted(*policy)));
        assert!(
            BOMB.granted_by(&[Policy::Generous])
                .is_granted(Policy::Generous)
        );
    }
}
