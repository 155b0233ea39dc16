//! The guest's descriptors.

use super::{abi::Rights, errno::Errno};
use rustix::fs::OFlags;
use std::{
    cell::Cell,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Descriptors of a guest without a limit of its own.
pub(super) const MOST: usize = 65_536;

/// One open file, folder or socket.
#[derive(Debug)]
pub(super) struct Descriptor {
    file: OwnedFd,
    /// What it may be used for.
    pub(super) base: Rights,
    /// What descriptors opened below it may be used for.
    pub(super) inheriting: Rights,
    /// What `fd_prestat_get` answers.
    pub(super) prestat: Prestat,
    /// What the kernel has said of it.
    nature: Nature,
}

/// A file's type, and the flags that it is open with.
pub(super) type TypeAndFlags = (u8, OFlags);

/// Whether the kernel is asked anew what a descriptor is. wasi-libc asks before each open what the folder is.
#[derive(Debug)]
enum Nature {
    /// Others have the same open file, and may set its flags.
    Shared,
    /// Opened by this process alone, for one guest: nobody but the guest sets its flags.
    Own(Cell<Option<TypeAndFlags>>),
}

/// What a descriptor was given for before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prestat {
    /// It was opened by the guest, or is a standard stream.
    None,
    /// A socket that listens: no folder.
    Listener,
    /// A folder, by the name that the guest knows.
    Folder(Box<[u8]>),
}

impl Descriptor {
    /// What was opened for the guest, by this process.
    pub(super) fn new(file: OwnedFd, base: Rights, inheriting: Rights) -> Self {
        Self {
            file,
            base,
            inheriting,
            prestat: Prestat::None,
            nature: Nature::Own(Cell::new(None)),
        }
    }

    /// A standard stream.
    pub(super) fn stream(file: OwnedFd) -> Self {
        Self {
            nature: Nature::Shared,
            ..Self::new(file, Rights::of_stream(), Rights::NONE)
        }
    }

    /// A preopened folder.
    pub(super) fn folder(file: OwnedFd, name: &[u8]) -> Self {
        Self {
            prestat: Prestat::Folder(name.into()),
            ..Self::new(file, Rights::of_folder(), Rights::ALL)
        }
    }

    /// A preopened listener.
    pub(super) fn listener(file: OwnedFd) -> Self {
        let base = Rights::of_socket() | Rights::SOCK_ACCEPT;
        Self {
            prestat: Prestat::Listener,
            nature: Nature::Shared,
            ..Self::new(file, base, Rights::of_socket())
        }
    }

    /// The open file, for a use that the descriptor has the right for.
    ///
    /// A file that was not opened for reading or for writing answers as the kernel's would: EBADF, or
    /// EINVAL of ftruncate(2).
    pub(super) fn with(&self, right: Rights) -> Result<BorrowedFd<'_>, Errno> {
        if self.base.contains(right) {
            return Ok(self.file.as_fd());
        }
        Err(match right {
            Rights::FD_READ | Rights::FD_WRITE | Rights::FD_ALLOCATE => Errno::BAD_DESCRIPTOR,
            Rights::FD_FILESTAT_SET_SIZE => Errno::INVALID,
            Rights::FD_READDIR => Errno::NOT_DIRECTORY,
            _ => Errno::NOT_CAPABLE,
        })
    }

    /// What it is, by `ask` where that is not known.
    pub(super) fn nature(
        &self,
        ask: impl FnOnce(BorrowedFd<'_>) -> Result<TypeAndFlags, Errno>,
    ) -> Result<TypeAndFlags, Errno> {
        let Nature::Own(known) = &self.nature else {
            return ask(self.file());
        };
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let told = ask(self.file())?;
        known.set(Some(told));
        Ok(told)
    }

    /// Its flags were set.
    pub(super) fn forget_nature(&self) {
        if let Nature::Own(known) = &self.nature {
            known.set(None);
        }
    }

    /// The open file, for what needs no right.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn into_file(self) -> OwnedFd {
        self.file
    }
}

/// Descriptors by number: a new one gets the lowest that is free.
#[derive(Debug)]
pub(super) struct Table {
    descriptors: Vec<Option<Descriptor>>,
    /// No number below is free.
    lowest: usize,
    most: usize,
}

impl Table {
    /// Holds at most so many.
    pub(super) fn new(most: usize) -> Self {
        Self {
            descriptors: Vec::with_capacity(most.min(32)),
            lowest: 0,
            most,
        }
    }

    pub(super) fn get(&self, number: u32) -> Result<&Descriptor, Errno> {
        self.descriptors
            .get(number as usize)
            .and_then(Option::as_ref)
            .ok_or(Errno::BAD_DESCRIPTOR)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Result<&mut Descriptor, Errno> {
        self.descriptors
            .get_mut(number as usize)
            .and_then(Option::as_mut)
            .ok_or(Errno::BAD_DESCRIPTOR)
    }

    /// Whether there is a free number: before something is opened, and perhaps made, for it.
    pub(super) fn has_room(&self) -> Result<(), Errno> {
        match self.lowest < self.most {
            true => Ok(()),
            false => Err(Errno::TOO_MANY_FILES),
        }
    }

    pub(super) fn insert(&mut self, descriptor: Descriptor) -> Result<u32, Errno> {
        self.has_room()?;
        let number = self.lowest;
        match self.descriptors.get_mut(number) {
            Some(slot) => *slot = Some(descriptor),
            None => self.descriptors.push(Some(descriptor)),
        }
        let rest = self.descriptors[number..].iter();
        self.lowest = number + rest.take_while(|slot| slot.is_some()).count();
        Ok(number as u32)
    }

    pub(super) fn remove(&mut self, number: u32) -> Result<Descriptor, Errno> {
        let slot = self.descriptors.get_mut(number as usize);
        let removed = slot.and_then(Option::take).ok_or(Errno::BAD_DESCRIPTOR)?;
        self.lowest = self.lowest.min(number as usize);
        Ok(removed)
    }

    /// Moves one in the place of another, which is given back. Both must be open, so that the table does
    /// not grow.
    pub(super) fn renumber(&mut self, from: u32, to: u32) -> Result<Option<Descriptor>, Errno> {
        self.get(to)?;
        self.get(from)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.remove(from)?;
        Ok(self.descriptors[to as usize].replace(moved))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::abi, *};

    fn descriptor() -> Descriptor {
        let file = std::fs::File::open("/dev/null").unwrap();
        Descriptor::new(file.into(), Rights::FD_READ, Rights::NONE)
    }

    #[test]
    fn the_lowest_free_number_is_next() {
        let mut table = Table::new(4);
        for expected in 0..4 {
            assert_eq!(table.insert(descriptor()), Ok(expected));
        }
        assert_eq!(table.insert(descriptor()), Err(Errno::TOO_MANY_FILES));
        table.remove(1).unwrap();
        table.remove(0).unwrap();
        assert_eq!(table.remove(1).err(), Some(Errno::BAD_DESCRIPTOR));
        assert_eq!(table.insert(descriptor()), Ok(0));
        assert_eq!(table.insert(descriptor()), Ok(1));
        assert_eq!(table.has_room(), Err(Errno::TOO_MANY_FILES));
    }

    #[test]
    fn the_kernel_is_asked_once_of_what_nobody_else_has() {
        let times = |descriptor: &Descriptor, forgets: bool| {
            let asked = Cell::new(0);
            for _ in 0..3 {
                let told = descriptor.nature(|_| {
                    asked.set(asked.get() + 1);
                    Ok((abi::DIRECTORY, OFlags::RDONLY))
                });
                assert_eq!(told, Ok((abi::DIRECTORY, OFlags::RDONLY)));
                if forgets {
                    descriptor.forget_nature();
                }
            }
            asked.get()
        };
        assert_eq!(times(&descriptor(), false), 1);
        assert_eq!(times(&descriptor(), true), 3);
        let own = Descriptor::folder(descriptor().into_file(), b"/");
        assert_eq!(times(&own, false), 1);
        assert_eq!(
            times(&Descriptor::stream(descriptor().into_file()), false),
            3
        );
        assert_eq!(
            times(&Descriptor::listener(descriptor().into_file()), false),
            3
        );
        let fails = descriptor();
        assert!(fails.nature(|_| Err(Errno::FAULT)).is_err());
        assert_eq!(times(&fails, false), 1, "an error is not kept");
    }

    #[test]
    fn renumbering_moves_and_never_grows() {
        let mut table = Table::new(8);
        for _ in 0..3 {
            table.insert(descriptor()).unwrap();
        }
        assert!(table.renumber(2, 2).unwrap().is_none());
        assert_eq!(table.renumber(2, 7).err(), Some(Errno::BAD_DESCRIPTOR));
        assert_eq!(table.renumber(7, 2).err(), Some(Errno::BAD_DESCRIPTOR));
        assert!(table.renumber(2, 0).unwrap().is_some());
        assert!(table.get(2).is_err() && table.get(0).is_ok());
        assert_eq!(table.insert(descriptor()), Ok(2));
    }

    #[test]
    fn what_was_not_opened_for_it_answers_as_the_kernel_does() {
        let only_reads = descriptor();
        assert!(only_reads.with(Rights::FD_READ).is_ok());
        let refused = |right| only_reads.with(right).err();
        assert_eq!(refused(Rights::FD_WRITE), Some(Errno::BAD_DESCRIPTOR));
        assert_eq!(refused(Rights::FD_FILESTAT_SET_SIZE), Some(Errno::INVALID));
        assert_eq!(refused(Rights::FD_SYNC), Some(Errno::NOT_CAPABLE));
    }
}
