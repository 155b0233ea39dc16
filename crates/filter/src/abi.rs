//! Numbers of the ABI, and how a host function ends.

use palisade_engine::guest::{CallError, HostError, MemoryError};

/// `proxy_status_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    NotFound = 1,
    BadArgument = 2,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
    Unimplemented = 12,
}

/// What the status of an HTTP call is that had no response, for `proxy_get_status`.
pub(crate) const BROKEN_CONNECTION: u32 = 11;

/// Why a host function did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The guest is told.
    Status(Status),
    /// The guest is ended.
    End(HostError),
}

/// What a host function gives.
pub(crate) type Outcome = Result<(), Stop>;

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<MemoryError> for Stop {
    fn from(_: MemoryError) -> Self {
        Self::Status(Status::InvalidMemoryAccess)
    }
}

/// A guest that was called back and ended is ended for its caller too.
impl From<CallError> for Stop {
    #[cold]
    fn from(error: CallError) -> Self {
        Self::End(HostError::new(error))
    }
}

/// The number that the guest gets, or the error that ends it.
pub(crate) fn number(outcome: Outcome) -> Result<u32, HostError> {
    match outcome {
        Ok(()) => Ok(0),
        Err(Stop::Status(status)) => Ok(status as u32),
        Err(Stop::End(error)) => Err(error),
    }
}

/// `proxy_map_type_t`, those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    RequestHeaders,
    RequestTrailers,
    ResponseHeaders,
    ResponseTrailers,
    CallHeaders,
    CallTrailers,
}

impl Map {
    pub(crate) fn of_number(number: u32) -> Result<Self, Status> {
        Ok(match number {
            0 => Self::RequestHeaders,
            1 => Self::RequestTrailers,
            2 => Self::ResponseHeaders,
            3 => Self::ResponseTrailers,
            6 => Self::CallHeaders,
            7 => Self::CallTrailers,
            // 4 and 5 are gRPC's.
            _ => return Err(Status::BadArgument),
        })
    }
}

/// `proxy_buffer_type_t`, those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    RequestBody,
    ResponseBody,
    CallBody,
    VmConfiguration,
    PluginConfiguration,
}

impl Buffer {
    pub(crate) fn of_number(number: u32) -> Result<Self, Status> {
        Ok(match number {
            0 => Self::RequestBody,
            1 => Self::ResponseBody,
            4 => Self::CallBody,
            6 => Self::VmConfiguration,
            7 => Self::PluginConfiguration,
            // Bytes of connections, gRPC messages, arguments of foreign functions.
            2 | 3 | 5 | 8 => return Err(Status::NotFound),
            _ => return Err(Status::BadArgument),
        })
    }
}
