//! A module's callbacks, looked up once.

use crate::{LoadError, Part, parts::Parts};
use palisade_engine::guest::{Function, Program, Values};

/// The versions of the ABI that modules can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// 0.1.0: header callbacks do not say whether the stream ends.
    V0_1,
    /// 0.2.0 and 0.2.1.
    V0_2,
    /// 0.2.100, Higress's: 0.2 with functions more, of which none is here, and a head that is held while its body
    /// is inspected.
    V0_2_100,
}

/// A callback for a part of an exchange. It takes the context and the part's size (fields or bytes), and
/// with three parameters whether the stream ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnPart {
    Two(Function<(u32, u32), u32>),
    Three(Function<(u32, u32, u32), u32>),
}

/// It takes the context, the call's token, and how many fields, bytes and trailers the response has.
pub(crate) type OnCallResponse = Function<(u32, u32, u32, u32, u32), ()>;

/// What a module exports of the ABI. What is `None` is not called.
#[derive(Clone, Debug)]
pub(crate) struct Callbacks {
    version: Version,
    pub(crate) allocate: Function<u32, u32>,
    pub(crate) initialize: Option<Function<(), ()>>,
    pub(crate) main: Option<Function<(u32, u32), u32>>,
    pub(crate) main_void: Option<Function<(), u32>>,
    pub(crate) start: Option<Function<(), ()>>,
    pub(crate) on_vm_start: Option<Function<(u32, u32), u32>>,
    pub(crate) on_configure: Option<Function<(u32, u32), u32>>,
    pub(crate) on_context_create: Option<Function<(u32, u32), ()>>,
    /// In the order of [`Part`].
    parts: [Option<OnPart>; 6],
    /// Which of these there are: each lies in a line of the processor's cache of its own.
    inspected: Parts,
    pub(crate) on_done: Option<Function<u32, u32>>,
    pub(crate) on_log: Option<Function<u32, ()>>,
    pub(crate) on_delete: Option<Function<u32, ()>>,
    pub(crate) on_tick: Option<Function<u32, ()>>,
    pub(crate) on_queue_ready: Option<Function<(u32, u32), ()>>,
    pub(crate) on_http_call_response: Option<OnCallResponse>,
}

impl Callbacks {
    pub(crate) fn of(program: &Program) -> Result<Self, LoadError> {
        let exports = Exports(program);
        let version = exports.version()?;
        let allocate = match exports.find("proxy_on_memory_allocate")? {
            Some(allocate) => allocate,
            None => exports.find("malloc")?.ok_or(LoadError::NoAllocator)?,
        };
        let initialize = exports.find("_initialize")?;
        let (main, start) = match initialize {
            Some(_) => (exports.find("main")?, None),
            None => (None, exports.find("_start")?),
        };
        // What wasi-libc makes of a `main` without parameters.
        let main_void = match (initialize, main) {
            (Some(_), None) => exports.find("__main_void")?,
            _ => None,
        };
        let parts = exports.parts(version)?;
        let inspected = Part::ALL
            .into_iter()
            .filter(|part| parts[*part as usize].is_some());
        let inspected = inspected.fold(Parts::default(), |all, part| all.and(Parts::of(part)));
        Ok(Self {
            version,
            allocate,
            initialize,
            main,
            main_void,
            start,
            on_vm_start: exports.find("proxy_on_vm_start")?,
            on_configure: exports.find("proxy_on_configure")?,
            on_context_create: exports.find("proxy_on_context_create")?,
            parts,
            inspected,
            on_done: exports.find("proxy_on_done")?,
            on_log: exports.find("proxy_on_log")?,
            on_delete: exports.find("proxy_on_delete")?,
            on_tick: exports.find("proxy_on_tick")?,
            on_queue_ready: exports.find("proxy_on_queue_ready")?,
            on_http_call_response: exports.find("proxy_on_http_call_response")?,
        })
    }

    pub(crate) fn is_v0_1(&self) -> bool {
        self.version == Version::V0_1
    }

    pub(crate) fn is_v0_2_100(&self) -> bool {
        self.version == Version::V0_2_100
    }

    /// Whether anything is called when an exchange is over.
    pub(crate) fn hears_of_ends(&self) -> bool {
        self.on_done.is_some() || self.on_log.is_some() || self.on_delete.is_some()
    }

    pub(crate) fn inspects(&self, part: Part) -> bool {
        self.inspected.has(part)
    }

    /// Whether something of the program's own is called before it is a filter.
    pub(crate) fn has_begin(&self) -> bool {
        self.initialize.is_some() || self.start.is_some()
    }

    pub(crate) fn on_part(&self, part: Part) -> Option<OnPart> {
        self.parts[part as usize]
    }
}

struct Exports<'a>(&'a Program);

impl Exports<'_> {
    /// `None`: it exports no such function. An error: one of another type.
    fn find<P: Values, R: Values>(&self, name: &str) -> Result<Option<Function<P, R>>, LoadError> {
        self.0.find_function(name).map_err(LoadError::Callback)
    }

    fn parts(&self, version: Version) -> Result<[Option<OnPart>; 6], LoadError> {
        let two = |name| Ok::<_, LoadError>(self.find(name)?.map(OnPart::Two));
        let three = |name| Ok::<_, LoadError>(self.find(name)?.map(OnPart::Three));
        let headers = |name| match version {
            Version::V0_1 => two(name),
            Version::V0_2 | Version::V0_2_100 => three(name),
        };
        Ok([
            headers("proxy_on_request_headers")?,
            three("proxy_on_request_body")?,
            two("proxy_on_request_trailers")?,
            headers("proxy_on_response_headers")?,
            three("proxy_on_response_body")?,
            two("proxy_on_response_trailers")?,
        ])
    }

    /// By the function that says so, and is never called.
    fn version(&self) -> Result<Version, LoadError> {
        let markers = [
            ("proxy_abi_version_0_2_1", Version::V0_2),
            ("proxy_abi_version_0_2_0", Version::V0_2),
            ("proxy_abi_version_0_2_100", Version::V0_2_100),
            ("proxy_abi_version_0_1_0", Version::V0_1),
        ];
        for (name, version) in markers {
            if self.find::<(), ()>(name)?.is_some() {
                return Ok(version);
            }
        }
        Err(LoadError::NoVersion)
    }
}
