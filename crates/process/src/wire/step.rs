//! Where something failed, as a number.

/// The step in which something failed.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each step is explained by the error it becomes"
)]
pub enum Step {
    Unknown = 0,
    Clone = 1,
    MapIds = 2,
    SetIds = 3,
    ReceiveLaunch = 4,
    DecodeLaunch = 5,
    MakeRoot = 6,
    MakeDir = 7,
    Symlink = 8,
    WriteFile = 9,
    OpenSource = 10,
    SourceChanged = 11,
    CloneMount = 12,
    SetMountAttributes = 13,
    OpenTarget = 14,
    AttachMount = 15,
    MountProc = 16,
    MountDevpts = 17,
    PivotRoot = 18,
    DetachOldRoot = 19,
    SealRoot = 20,
    HostName = 21,
    NewSession = 22,
    SetPropagation = 23,
    OpenTerminal = 24,
    CloneGuest = 25,
    Redirect = 26,
    Rlimit = 27,
    Affinity = 28,
    Keyring = 29,
    DropCapabilities = 30,
    NoNewPrivileges = 31,
    LandlockRuleset = 32,
    LandlockRule = 33,
    LandlockRestrict = 34,
    Seccomp = 35,
    ChangeDirectory = 36,
    Execute = 37,
    Remember = 38,
    JoinCgroup = 39,
    BoundQuotas = 40,
    Watch = 41,
    Guard = 42,
    ReopenStream = 43,
    PairStreams = 44,
    Enter = 45,
    Hide = 46,
}

impl Step {
    /// The step with this number.
    pub fn from_number(number: u64) -> Self {
        let step = usize::try_from(number).ok().and_then(|at| STEPS.get(at));
        step.copied().unwrap_or(Self::Unknown)
    }
}

/// Each at its number.
const STEPS: [Step; 47] = [
    Step::Unknown,
    Step::Clone,
    Step::MapIds,
    Step::SetIds,
    Step::ReceiveLaunch,
    Step::DecodeLaunch,
    Step::MakeRoot,
    Step::MakeDir,
    Step::Symlink,
    Step::WriteFile,
    Step::OpenSource,
    Step::SourceChanged,
    Step::CloneMount,
    Step::SetMountAttributes,
    Step::OpenTarget,
    Step::AttachMount,
    Step::MountProc,
    Step::MountDevpts,
    Step::PivotRoot,
    Step::DetachOldRoot,
    Step::SealRoot,
    Step::HostName,
    Step::NewSession,
    Step::SetPropagation,
    Step::OpenTerminal,
    Step::CloneGuest,
    Step::Redirect,
    Step::Rlimit,
    Step::Affinity,
    Step::Keyring,
    Step::DropCapabilities,
    Step::NoNewPrivileges,
    Step::LandlockRuleset,
    Step::LandlockRule,
    Step::LandlockRestrict,
    Step::Seccomp,
    Step::ChangeDirectory,
    Step::Execute,
    Step::Remember,
    Step::JoinCgroup,
    Step::BoundQuotas,
    Step::Watch,
    Step::Guard,
    Step::ReopenStream,
    Step::PairStreams,
    Step::Enter,
    Step::Hide,
];

const _: () = {
    let mut number = 0;
    while number < STEPS.len() {
        assert!(STEPS[number] as usize == number);
        number += 1;
    }
};
