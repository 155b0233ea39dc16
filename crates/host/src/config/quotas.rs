//! `[tenants.quotas]` and `[tenant.NAME.quotas]`: how much a tenant may have of what all have together.

use super::{
    keys::{Entry, Kind, Section, keys},
    kind::{Count, Processor, Size, Weight},
};

/// What one table of quotas says; `None` where it says nothing, and then there is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Requests under way, on all workers together.
    pub requests: Option<u32>,
    /// Requests begun in a second.
    pub rate: Option<u64>,
    /// How many may begin at once that come after a pause; as many as in a second, if left out.
    pub burst: Option<u64>,
    /// Time of processors that its filters and components may use in a second, in ns.
    pub processor_ns: Option<u64>,
    /// How much of a processor it has where others want it too.
    pub weight: Option<u32>,
    /// Bytes of all instances of its filters and components together.
    pub memory_bytes: Option<usize>,
    /// Programs alive at one time.
    pub domains: Option<usize>,
    /// Bytes of log lines in a second.
    pub log_bytes: Option<u64>,
}

/// What a tenant weighs of which nobody says anything.
pub const DEFAULT_WEIGHT: u32 = 100;

impl Quotas {
    /// These, and `all`'s where they say nothing.
    #[must_use]
    pub fn or(self, all: &Self) -> Self {
        Self {
            requests: self.requests.or(all.requests),
            rate: self.rate.or(all.rate),
            // A burst belongs to the rate that it stands beside.
            burst: match self.rate {
                Some(_) => self.burst,
                None => self.burst.or(all.burst),
            },
            processor_ns: self.processor_ns.or(all.processor_ns),
            weight: self.weight.or(all.weight),
            memory_bytes: self.memory_bytes.or(all.memory_bytes),
            domains: self.domains.or(all.domains),
            log_bytes: self.log_bytes.or(all.log_bytes),
        }
    }
}

impl Section for Quotas {
    const PLACE: &'static str = "in a table of quotas";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Requests under way at one time.
        "requests": Count<u32> => |quotas, count| quotas.requests = Some(count);
        /// Requests that begin in a second.
        "rate": Count<u64> => |quotas, count| quotas.rate = Some(count);
        /// How many may begin at once after a pause; as many as in a second, if left out.
        "burst": Count<u64> => |quotas, count| quotas.burst = Some(count);
        /// What filters and components may use of processors: "50%" of one, or a time each second, as in "500ms".
        "processor": Processor => |quotas, time| quotas.processor_ns = Some(time);
        /// How much of a processor it has where others want it too, 100 if left out.
        "weight": Weight => |quotas, weight| quotas.weight = Some(weight);
        /// Memory of all instances of filters and components together.
        "memory": Size<usize> => |quotas, bytes| quotas.memory_bytes = Some(bytes);
        /// Programs alive at one time.
        "domains": Count<usize> => |quotas, count| quotas.domains = Some(count);
        /// Bytes of log lines in a second.
        "logs": Size<u64> => |quotas, bytes| quotas.log_bytes = Some(bytes);
    };
}
