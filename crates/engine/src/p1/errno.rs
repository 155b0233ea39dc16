//! Error codes: the kernel's, in WASI's numbers.

use crate::resolve::Unresolved;
use rustix::io::Errno as Kernel;

/// `errno` of preview 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) u16);

macro_rules! errors {
    ($($name:ident $number:literal $($kernel:ident)?;)*) => {
        impl Errno {
            $(#[allow(dead_code, reason = "the table is WASI's, whole")]
            pub(super) const $name: Self = Self($number);)*
        }

        impl From<Kernel> for Errno {
            /// What has no number in WASI is an input/output error.
            fn from(kernel: Kernel) -> Self {
                match kernel {
                    $($(Kernel::$kernel => Self::$name,)?)*
                    _ => Self::IO,
                }
            }
        }
    };
}

impl From<Unresolved> for Errno {
    fn from(unresolved: Unresolved) -> Self {
        match unresolved {
            Unresolved::Outside => Self::NOT_CAPABLE,
            Unresolved::Kernel(error) => error.into(),
        }
    }
}

errors! {
    TOO_BIG 1 TOOBIG;
    ACCESS 2 ACCESS;
    ADDRESS_IN_USE 3 ADDRINUSE;
    ADDRESS_NOT_AVAILABLE 4 ADDRNOTAVAIL;
    FAMILY_NOT_SUPPORTED 5 AFNOSUPPORT;
    AGAIN 6 AGAIN;
    ALREADY 7 ALREADY;
    BAD_DESCRIPTOR 8 BADF;
    BAD_MESSAGE 9 BADMSG;
    BUSY 10 BUSY;
    CANCELED 11 CANCELED;
    NO_CHILD 12 CHILD;
    CONNECTION_ABORTED 13 CONNABORTED;
    CONNECTION_REFUSED 14 CONNREFUSED;
    CONNECTION_RESET 15 CONNRESET;
    DEADLOCK 16 DEADLK;
    DESTINATION_REQUIRED 17 DESTADDRREQ;
    DOMAIN 18 DOM;
    QUOTA 19 DQUOT;
    EXISTS 20 EXIST;
    FAULT 21 FAULT;
    FILE_TOO_BIG 22 FBIG;
    HOST_UNREACHABLE 23 HOSTUNREACH;
    IDENTIFIER_REMOVED 24 IDRM;
    ILLEGAL_BYTES 25 ILSEQ;
    IN_PROGRESS 26 INPROGRESS;
    INTERRUPTED 27 INTR;
    INVALID 28 INVAL;
    IO 29 IO;
    IS_CONNECTED 30 ISCONN;
    IS_DIRECTORY 31 ISDIR;
    LOOP 32 LOOP;
    TOO_MANY_FILES 33 MFILE;
    TOO_MANY_LINKS 34 MLINK;
    MESSAGE_SIZE 35 MSGSIZE;
    MULTIHOP 36 MULTIHOP;
    NAME_TOO_LONG 37 NAMETOOLONG;
    NETWORK_DOWN 38 NETDOWN;
    NETWORK_RESET 39 NETRESET;
    NETWORK_UNREACHABLE 40 NETUNREACH;
    TOO_MANY_FILES_IN_SYSTEM 41 NFILE;
    NO_BUFFERS 42 NOBUFS;
    NO_DEVICE 43 NODEV;
    NO_ENTRY 44 NOENT;
    NOT_EXECUTABLE 45 NOEXEC;
    NO_LOCKS 46 NOLCK;
    NO_LINK 47 NOLINK;
    NO_MEMORY 48 NOMEM;
    NO_MESSAGE 49 NOMSG;
    NO_PROTOCOL_OPTION 50 NOPROTOOPT;
    NO_SPACE 51 NOSPC;
    NO_SYSTEM_CALL 52 NOSYS;
    NOT_CONNECTED 53 NOTCONN;
    NOT_DIRECTORY 54 NOTDIR;
    NOT_EMPTY 55 NOTEMPTY;
    NOT_RECOVERABLE 56 NOTRECOVERABLE;
    NOT_SOCKET 57 NOTSOCK;
    NOT_SUPPORTED 58 OPNOTSUPP;
    NOT_TERMINAL 59 NOTTY;
    NO_SUCH_DEVICE 60 NXIO;
    OVERFLOW 61 OVERFLOW;
    OWNER_DEAD 62 OWNERDEAD;
    NOT_PERMITTED 63 PERM;
    PIPE 64 PIPE;
    PROTOCOL 65 PROTO;
    PROTOCOL_NOT_SUPPORTED 66 PROTONOSUPPORT;
    PROTOCOL_TYPE 67 PROTOTYPE;
    RANGE 68 RANGE;
    READ_ONLY 69 ROFS;
    NOT_SEEKABLE 70 SPIPE;
    NO_PROCESS 71 SRCH;
    STALE 72 STALE;
    TIMED_OUT 73 TIMEDOUT;
    TEXT_BUSY 74 TXTBSY;
    OTHER_DEVICE 75 XDEV;
    NOT_CAPABLE 76;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_interface() {
        // The list in the interface's own description is in alphabetical order: the ends and some between.
        assert_eq!(Errno::from(Kernel::TOOBIG), Errno(1));
        assert_eq!(Errno::from(Kernel::NOENT), Errno(44));
        assert_eq!(Errno::from(Kernel::XDEV), Errno(75));
        assert_eq!(Errno::NOT_CAPABLE, Errno(76));
        assert_eq!(Errno::from(Kernel::REMOTEIO), Errno::IO);
    }
}
