//! What a filter is given, and how far it may go.

use bytes::Bytes;
use palisade_engine::guest::{Isolation, Limits};
use std::time::Duration;

/// A filter's settings: plain data.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The filter's name: property `plugin_name`, and the name that its metrics stand under.
    pub name: String,
    /// Whose it is: filters of two tenants share nothing, whatever they call it.
    pub tenant: String,
    /// Which of the module's filters, where it has several: property `plugin_root_id`.
    pub root_id: String,
    /// Filters of one `vm_id` share data and queues: property `plugin_vm_id`.
    pub vm_id: String,
    /// What `proxy_on_configure` may read.
    pub configuration: Bytes,
    /// What `proxy_on_vm_start` may read.
    pub vm_configuration: Bytes,
    /// Environment variables, for modules that read some.
    pub env: Vec<(String, String)>,
    /// Bounds of each instance, and the time of each of its phases: callbacks that follow one another
    /// without anything of the server's in between.
    pub limits: Limits,
    /// What a request finds of those before it. This crate makes no instance by itself: with
    /// [`Isolation::Fresh`] its caller starts one for each exchange.
    pub isolation: Isolation,
    /// Bounds of what the host keeps for an instance.
    pub bounds: Bounds,
}

/// Bounds of what the host keeps in its own memory on a guest's account.
///
/// A call that would go beyond gets the status `INTERNAL_FAILURE`, and nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a held body, as far as the guest makes it longer.
    pub body_bytes: usize,
    /// Bytes of names and values of a map of header fields, as far as the guest adds some.
    pub header_bytes: usize,
    /// Fields of such a map.
    pub headers: usize,
    /// Bytes of paths and values of an exchange's properties that guests set.
    pub property_bytes: usize,
    /// HTTP calls at one time.
    pub calls: usize,
    /// The longest that an HTTP call may take; also where the guest names no time.
    pub call_time: Duration,
    /// Streams whose `proxy_on_done` said that they are not.
    pub unfinished_streams: usize,
    /// Bytes of one log line; more is cut off.
    pub line_bytes: usize,
    /// Log lines of one phase; more are counted and dropped.
    pub lines: u32,
    /// Metrics that an instance may define.
    pub metrics: usize,
}

impl Default for Bounds {
    /// 1 MiB of body; 64 KiB and 200 fields of headers; 64 KiB of properties; 100 calls of up to 60 s; 1000
    /// unfinished streams; 256 lines of 16 KiB a phase; 1000 metrics.
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            header_bytes: 64 << 10,
            headers: 200,
            property_bytes: 64 << 10,
            calls: 100,
            call_time: Duration::from_secs(60),
            unfinished_streams: 1000,
            line_bytes: 16 << 10,
            lines: 256,
            metrics: 1000,
        }
    }
}

/// Bounds of what is shared. What is longer than can be there is told so, or not found, before it is looked up or
/// copied: no guest has others wait while the host goes through what it will not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBounds {
    /// Bytes of keys and values of one `vm_id`.
    pub data_bytes: usize,
    /// Keys of one `vm_id`.
    pub data_keys: usize,
    /// Bytes of one key.
    pub key_bytes: usize,
    /// Queues of one `vm_id`.
    pub queues: usize,
    /// Bytes that wait in one queue.
    pub queue_bytes: usize,
    /// Values that wait in one queue.
    pub queue_length: usize,
    /// Metrics of one filter.
    pub metrics: usize,
    /// Bytes of a metric's name, and of a queue's.
    pub name_bytes: usize,
}

impl Default for SharedBounds {
    /// 16 MiB and 100,000 keys of 16 KiB; 100 queues of 1 MiB and 10,000 values; 1000 metrics; names of 256 bytes.
    fn default() -> Self {
        Self {
            data_bytes: 16 << 20,
            data_keys: 100_000,
            key_bytes: 16 << 10,
            queues: 100,
            queue_bytes: 1 << 20,
            queue_length: 10_000,
            metrics: 1000,
            name_bytes: 256,
        }
    }
}

impl Settings {
    /// Settings of a filter of this name and nothing else: its `vm_id` is its name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            tenant: String::new(),
            root_id: String::new(),
            vm_id: name.to_owned(),
            configuration: Bytes::new(),
            vm_configuration: Bytes::new(),
            env: Vec::new(),
            limits: Limits::default(),
            isolation: Isolation::Kept,
            bounds: Bounds::default(),
        }
    }
}
