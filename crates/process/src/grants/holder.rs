//! The supervisor's end of the process that mounts more into a domain while it runs: see `sys/keeper/holder.rs`.

use crate::{
    host::Kind,
    keeper::Keeper,
    launch_error::LaunchError,
    layout::Growth,
    record::{receive_record, record_bytes},
    seccomp,
    wire::{self, Step, hold},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    net::SendFlags,
};
use std::{
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// A file system whose server does not answer holds it up, and must not hold up whoever waits for the guest.
const PATIENCE: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};

/// Why it did not mount something.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub(crate) enum HoldError {
    #[error("it was replaced while it was granted: grant it again if that was you")]
    Replaced,
    #[error("it cannot be opened: {0}")]
    Open(#[source] Errno),
    #[error("the guest has nothing there that it could be mounted on: {0}")]
    NoPlace(#[source] Errno),
    #[error(
        "its file system cannot show its files as the guest's ({0}), and others may not use them: open its permissions, or copy it \
         elsewhere"
    )]
    CannotMapOwner(#[source] Errno),
    #[error("no more than 256 files and folders are granted to a guest that runs")]
    TooMany,
    #[error(
        "the guest has used up all that its own folders may hold, where a place for it would lie"
    )]
    Full,
    #[error("it cannot be mounted ({step:?}): {errno}")]
    Mount {
        step: Step,
        #[source]
        errno: Errno,
    },
    #[error("the process that mounts it does not answer: does a file system there?")]
    NoAnswer,
}

/// A process that has the host's files at hand. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Holder {
    socket: OwnedFd,
    /// Who owns the domain's root, where that is not the holder's own user.
    host_uid: Option<u32>,
    last_number: u64,
    /// One request was given up: an answer that comes is to that one.
    is_stuck: bool,
}

impl Holder {
    /// Orders one for the domain with this user and this mount namespace, and has it confine itself. `host_uid` owns the domain's
    /// root, where that is not the keeper's own user.
    pub(crate) fn order(
        keeper: &Keeper,
        namespaces: [BorrowedFd<'_>; 2],
        host_uid: Option<u32>,
    ) -> Result<Self, LaunchError> {
        let is_root = host_uid.is_some();
        let socket = keeper.order_holder(namespaces, !is_root)?;
        let filter = seccomp::program(&seccomp::holder(is_root))?;
        let begin = [&record_bytes(wire::MAKER_BEGIN, &[])[..], &filter].concat();
        // One that cannot be begun says why when it is asked.
        let _ = rustix::net::send(&socket, &begin, SendFlags::NOSIGNAL);
        Ok(Self {
            socket,
            host_uid,
            last_number: 0,
            is_stuck: false,
        })
    }

    /// Mounts it, and gives the number of the mount.
    pub(crate) fn hold(&mut self, growth: &Growth) -> Result<u64, HoldError> {
        self.last_number += 1;
        let source = bytes_of(&growth.found.canonical);
        let mut words = [0; wire::RECORD_WORDS];
        let identity = growth.found.identity;
        let (uid, gid) = growth.owner.unwrap_or_default();
        for (at, word) in [
            (hold::NUMBER, self.last_number),
            (hold::ATTRIBUTES, growth.attributes.bits().into()),
            (hold::IDENTITY, identity.device_major.into()),
            (hold::IDENTITY + 1, identity.device_minor.into()),
            (hold::IDENTITY + 2, identity.inode),
            (hold::SOURCE_BYTES, source.len() as u64),
            (hold::MAKE, what_to_make(growth)),
            (hold::MAP, self.how_to_map(growth)),
            (hold::OWNER, uid.into()),
            (hold::OWNER + 1, gid.into()),
            (hold::HOST_UID, self.host_uid.unwrap_or(0).into()),
        ] {
            words[at] = word;
        }
        let paths = [source, bytes_of(&growth.guest)].concat();
        self.ask(wire::HOLD, &words, &paths)?;
        Ok(self.last_number)
    }

    /// Takes that mount away again: nothing that is open of it is executed any more, nor changed if nobody writes to it.
    pub(crate) fn release(&mut self, number: u64) -> Result<(), HoldError> {
        self.ask(wire::RELEASE, &[number], &[])
    }

    /// Whether the guest has nothing of its own where this would be mounted. Elsewhere than in its own folders it makes nothing.
    pub(crate) fn is_free(&mut self, growth: &Growth) -> bool {
        !growth.is_among_own
            || self
                .ask(wire::IS_FREE, &[], &bytes_of(&growth.guest))
                .is_ok()
    }

    /// Whether it is of root's.
    pub(crate) fn is_root(&self) -> bool {
        self.host_uid.is_some()
    }

    fn how_to_map(&self, growth: &Growth) -> u64 {
        match (self.host_uid, growth.owner) {
            (Some(_), Some(_)) if growth.open_to_all => hold::MAP_IF_POSSIBLE,
            (Some(_), Some(_)) => hold::MAP_ALWAYS,
            _ => hold::MAP_NONE,
        }
    }

    fn ask(&mut self, kind: u64, words: &[u64], paths: &[u8]) -> Result<(), HoldError> {
        if self.is_stuck {
            return Err(HoldError::NoAnswer);
        }
        let request = [&record_bytes(kind, words)[..], paths].concat();
        // Until the answer to this one has come.
        self.is_stuck = true;
        // One that could not be begun has said why, and is gone.
        let _ = rustix::net::send(&self.socket, &request, SendFlags::NOSIGNAL);
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        let polled = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&PATIENCE)));
        if polled != Ok(1) {
            // What was given up is not done later.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
            return Err(HoldError::NoAnswer);
        }
        let Ok(Some((answer, _))) = receive_record(self.socket.as_fd()) else {
            return Err(HoldError::NoAnswer);
        };
        self.is_stuck = false;
        match answer.kind {
            wire::HELD => Ok(()),
            _ => Err(failure(&answer.words)),
        }
    }

    /// Has it leave, and waits until it has: it has the domain's mounts open.
    pub(crate) fn finish(&mut self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        let mut gone = [PollFd::new(&self.socket, PollFlags::HUP)];
        if !std::mem::replace(&mut self.is_stuck, true) {
            let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut gone, Some(&PATIENCE)));
        }
    }
}

fn what_to_make(growth: &Growth) -> u64 {
    match growth.found.kind {
        _ if !growth.may_make => hold::MAKE_NOTHING,
        Kind::Folder => hold::MAKE_FOLDER,
        _ => hold::MAKE_FILE,
    }
}

fn failure(words: &[u64; wire::RECORD_WORDS]) -> HoldError {
    let errno = Errno::from_raw_os_error(words[2] as i32);
    match (Step::from_number(words[0]), words[1]) {
        (Step::SourceChanged, _) => HoldError::Replaced,
        (Step::OpenSource, _) => HoldError::Open(errno),
        (Step::MakeDir, _) if errno == Errno::NOSPC => HoldError::Full,
        (Step::OpenTarget | Step::MakeDir, _) => HoldError::NoPlace(errno),
        (Step::SetMountAttributes, 1) => HoldError::CannotMapOwner(errno),
        (Step::AttachMount, 0) => HoldError::TooMany,
        (step, _) => HoldError::Mount { step, errno },
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    [path.as_os_str().as_bytes(), b"\0"].concat()
}
