//! The message of instructions: its arrival, and what it has for later.

use super::{During, Failure};
use crate::{
    kernel,
    message::{Reader, read_exactly},
    wire::{self, container::Step},
};
use kernel::{CStr, Errno, Fd, Pool};

/// Most resource limits in one message; the kernel knows 16.
const MOST_LIMITS: usize = 16;
/// Most filters: that of the image's author, and ours.
const MOST_FILTERS: usize = 4;
/// Most labels: of a security module each.
const MOST_LABELS: usize = 4;

/// Kinds of namespaces that there are.
pub(super) const MOST_NAMESPACES: usize = 8;

/// What is kept for the program's own process, and on the way there.
pub(super) struct Setup {
    pub(super) root: Option<Fd>,
    /// The container's own `devpts`.
    pub(super) devpts: Option<Fd>,
    /// The namespaces that this process is in, by their kind.
    pub(super) namespaces: List<(u64, Fd), MOST_NAMESPACES>,
    /// `/sys` of a network that is somebody else's.
    pub(super) sysfs: Option<Fd>,
    pub(super) terminal: Option<Terminal>,
    pub(super) program: Option<Program>,
    pub(super) cwd: Option<CStr<'static>>,
    pub(super) credentials: Option<Credentials>,
    pub(super) limits: List<(u32, u64, u64), MOST_LIMITS>,
    /// Each with its flags, and where its listener goes.
    pub(super) filters: List<(&'static [u8], u32, Option<Fd>), MOST_FILTERS>,
    /// Where calls arrive that this process carries out for others.
    pub(super) attends: Option<Fd>,
    /// What init may call itself once the program runs.
    pub(super) own_filter: Option<&'static [u8]>,
    pub(super) labels: List<(Option<CStr<'static>>, &'static [u8]), MOST_LABELS>,
    pub(super) landlock: Option<[u64; 3]>,
    pub(super) new_keyring: bool,
    pub(super) scheduler: Option<&'static [u8]>,
    pub(super) io_priority: Option<u32>,
    pub(super) personality: Option<u32>,
    pub(super) affinity: Option<&'static [u8]>,
    /// What is executed in the candidates' place.
    pub(super) executable: Option<Fd>,
    /// The host's `/proc`, of a container that has none.
    pub(super) proc: Option<Fd>,
    /// How many of the descriptors the program finds open.
    pub(super) streams: usize,
    pub(super) pool: Option<Pool>,
    fds: [Fd; wire::MAX_FDS],
    fd_count: usize,
}

/// Both ends of a terminal.
#[derive(Clone, Copy)]
pub(super) struct Terminal {
    pub(super) master: Option<Fd>,
    pub(super) slave: Fd,
}

/// What to execute.
pub(super) struct Program {
    pub(super) candidates: Reader,
    pub(super) candidate_count: u32,
    /// Pointers, a null behind them.
    pub(super) arguments: &'static [*const u8],
    pub(super) environment: &'static [*const u8],
}

/// Whom the program runs as.
#[derive(Clone, Copy)]
pub(super) struct Credentials {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) umask: u32,
    pub(super) no_new_privs: bool,
    pub(super) bounding: u64,
    pub(super) effective: u64,
    pub(super) permitted: u64,
    pub(super) inheritable: u64,
    pub(super) ambient: u64,
    pub(super) groups: &'static [u32],
}

/// A few of something, without an allocator.
#[derive(Clone, Copy)]
pub(super) struct List<T, const MOST: usize> {
    all: [Option<T>; MOST],
    count: usize,
}

impl<T: Copy, const MOST: usize> List<T, MOST> {
    const fn new() -> Self {
        Self {
            all: [None; MOST],
            count: 0,
        }
    }

    pub(super) fn push(&mut self, item: T) -> kernel::Result<()> {
        *self.all.get_mut(self.count).ok_or(Errno::INVAL)? = Some(item);
        self.count += 1;
        Ok(())
    }

    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.all.iter().flatten().copied()
    }
}

impl Setup {
    pub(super) fn new() -> Self {
        Self {
            root: None,
            devpts: None,
            namespaces: List::new(),
            sysfs: None,
            terminal: None,
            program: None,
            cwd: None,
            credentials: None,
            limits: List::new(),
            filters: List::new(),
            attends: None,
            own_filter: None,
            labels: List::new(),
            landlock: None,
            new_keyring: false,
            scheduler: None,
            io_priority: None,
            personality: None,
            affinity: None,
            executable: None,
            proc: None,
            streams: 0,
            pool: None,
            fds: [-1; wire::MAX_FDS],
            fd_count: 0,
        }
    }

    /// Those that came with the message.
    pub(super) fn fds(&self) -> &[Fd] {
        &self.fds[..self.fd_count]
    }

    pub(super) fn fd(&self, index: u32) -> kernel::Result<Fd> {
        self.fds().get(index as usize).copied().ok_or(Errno::INVAL)
    }

    /// Waits for the message. The end of the channel is the end of all that this process is for.
    pub(super) fn receive(&mut self, channel: Fd) -> Result<Reader, Failure> {
        let mut header = [0u8; 12];
        let received = kernel::receive(channel, &mut header, &mut self.fds);
        let (length, count) = received.during(Step::Decode, 2)?;
        if length == 0 {
            crate::exit(0)
        }
        self.fd_count = count;
        let [magic, body, announced] = [0, 4, 8].map(|at| word(&header, at));
        let is_whole = length == header.len() && magic == wire::LAUNCH_MAGIC && body > 0;
        if !is_whole || announced as usize != count {
            return Err(Errno::INVAL).during(Step::Decode, 3);
        }
        let length = body as usize;
        // Room for the pointers to all of its strings, of which the shortest has a length and a NUL, and for their nulls.
        let pointers = length / 5 + 16;
        let pool = Pool::new(length + pointers * size_of::<*const u8>()).during(Step::Decode, 4)?;
        let pool = self.pool.insert(pool);
        let body = pool.take(length).during(Step::Decode, 5)?;
        read_exactly(channel, body).during(Step::Decode, 6)?;
        Ok(Reader::new(body))
    }

    /// A count and that many strings, as pointers with a null behind them.
    pub(super) fn pointers(&mut self, reader: &mut Reader) -> kernel::Result<&'static [*const u8]> {
        let count = reader.u32()? as usize;
        if count > reader.remaining() {
            return Err(Errno::INVAL);
        }
        let pool = self.pool.as_mut().ok_or(Errno::INVAL)?;
        let pointers = pool.take_pointers(count + 1)?;
        for place in &mut pointers[..count] {
            *place = reader.text()?.pointer();
        }
        pointers[count] = core::ptr::null();
        Ok(pointers)
    }

    pub(super) fn program(&mut self, reader: &mut Reader) -> kernel::Result<Program> {
        let candidate_count = reader.u32()?;
        let candidates = *reader;
        for _ in 0..candidate_count {
            reader.text()?;
        }
        Ok(Program {
            candidates,
            candidate_count,
            arguments: self.pointers(reader)?,
            environment: self.pointers(reader)?,
        })
    }

    pub(super) fn read_credentials(&mut self, reader: &mut Reader) -> kernel::Result<Credentials> {
        let [uid, gid, umask, no_new_privs] =
            [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let mut set = || reader.u64();
        let [bounding, effective, permitted, inheritable, ambient] =
            [set()?, set()?, set()?, set()?, set()?];
        let bytes = reader.bytes()?;
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(Errno::INVAL);
        }
        let room = kernel::allocate(bytes.len().max(1))?;
        // SAFETY: a mapping begins at a page, has room for as many words, and is all zeroes; nobody else refers to it.
        let groups = unsafe {
            core::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<u32>(), words.len())
        };
        for (place, word) in groups.iter_mut().zip(words) {
            *place = u32::from_ne_bytes(*word);
        }
        Ok(Credentials {
            uid,
            gid,
            umask,
            no_new_privs: no_new_privs != 0,
            bounding,
            effective,
            permitted,
            inheritable,
            ambient,
            groups,
        })
    }
}

fn word(header: &[u8; 12], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
