//! Containers that have no `/proc`: whoever runs a program there that is no native one must not find its own memory among the files
//! that it opens for that program.

use super::{During, Failure, message::Setup};
use crate::{
    kernel,
    message::Reader,
    wire::container::{Step, proc as part},
};
use kernel::{Errno, Fd, c};

/// Takes the host's, and refuses a container in which there is one, whoever mounted it: a bind mount with what is below, a hook.
pub(super) fn refuse(reader: &mut Reader, setup: &mut Setup) -> Result<(), Failure> {
    let index = reader.u32().during(Step::Decode, 31)?;
    let proc = setup.fd(index).during(Step::Decode, 32)?;
    // What is listed is what this process's root leads to.
    let mounts = kernel::open(proc, c!("self/mountinfo"), kernel::O_RDONLY, 0);
    let mounts = mounts.during(Step::ProcInReach, part::OPEN)?;
    let is_there = lists_proc(mounts);
    kernel::close(mounts);
    match is_there.during(Step::ProcInReach, part::READ)? {
        true => Err(Errno::INVAL).during(Step::ProcInReach, part::IS_THERE),
        false => {
            setup.proc = Some(proc);
            Ok(())
        }
    }
}

fn lists_proc(mounts: Fd) -> kernel::Result<bool> {
    let mut buffer = [0; 2048];
    let mut kinds = Kinds::default();
    loop {
        let length = kernel::read(mounts, &mut buffer)?;
        if length == 0 {
            return Ok(false);
        }
        if buffer[..length].iter().any(|byte| kinds.take(*byte)) {
            return Ok(true);
        }
    }
}

/// Walks through proc_pid_mountinfo(5): the field behind a lone `-` is the kind of a mount's file system. Blanks of paths are
/// escaped there.
#[derive(Default)]
struct Kinds {
    field: [u8; 4],
    length: usize,
    is_behind_dash: bool,
}

impl Kinds {
    /// Tells whether a field has come to its end that is a kind, and the one.
    fn take(&mut self, byte: u8) -> bool {
        if byte != b' ' && byte != b'\n' {
            if let Some(place) = self.field.get_mut(self.length) {
                *place = byte;
            }
            self.length += 1;
            return false;
        }
        let field = self.field.get(..self.length).unwrap_or_default();
        let is_proc = self.is_behind_dash && field == b"proc";
        self.is_behind_dash = field == b"-" && byte == b' ';
        self.length = 0;
        is_proc
    }
}
