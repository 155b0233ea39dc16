//! What the keeper and its inits are called in `/proc/PID/cmdline`: it is how running domains are found.
//!
//! The kernel shows there what a process has in the memory that its arguments came in (proc_pid_cmdline(5)).
//! Nobody but the process itself writes to it, and its end leaves nothing of it: no file, no name, no system call.

/// The memory of the arguments, which the supervisor made as large as it may get.
#[derive(Clone, Copy)]
pub(crate) struct Title {
    start: *mut u8,
    length: usize,
}

impl Title {
    /// That of this process.
    ///
    /// # Safety
    ///
    /// `stack` must be what the stack pointer was when the program began (psABI 3.4.1).
    pub(crate) unsafe fn of_stack(stack: *const usize) -> Self {
        // SAFETY: the kernel put the number of arguments there, then a pointer to each.
        let (count, first, last) = unsafe {
            let count = *stack;
            let last = *stack.add(count);
            (count, *stack.add(1) as *mut u8, last as *mut u8)
        };
        if count == 0 {
            return Self {
                start: first,
                length: 0,
            };
        }
        let mut end = last;
        // SAFETY: strings that end with a NUL, one behind the other.
        while unsafe { *end } != 0 {
            // SAFETY: up to the NUL.
            end = unsafe { end.add(1) };
        }
        Self {
            start: first,
            length: end as usize - first as usize,
        }
    }

    /// Writes to its memory what is there: the first byte that a process writes to a page copies the page, which it has with its
    /// parent until then.
    #[cfg_attr(
        container,
        allow(dead_code, reason = "no attendant waits for a launch")
    )]
    pub(crate) fn make_own(self) {
        for byte in self.memory() {
            // SAFETY: a byte that is borrowed; volatile, for a write of what is there is none to the compiler.
            unsafe { core::ptr::write_volatile(byte, *byte) };
        }
    }

    /// Says this, as far as there is room. The last byte stays a NUL: without it the kernel reads on.
    pub(crate) fn set(self, text: &[u8]) {
        let said = text.iter().chain(core::iter::repeat(&0));
        for (place, byte) in self.memory().iter_mut().zip(said) {
            *place = *byte;
        }
    }

    fn memory(self) -> &'static mut [u8] {
        // SAFETY: the arguments' memory, which is this process's for as long as it lives, and nobody else refers
        // to it: this program does not look at its arguments, and no two of these slices are there at one time.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.length) }
    }
}
