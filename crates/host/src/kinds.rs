//! Words that several modules share: guests, levels of lines, who broke a response off.

/// What kinds of guests a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuestKind {
    /// A filter.
    Filter,
    /// A service, of whatever kind.
    Service,
}

impl GuestKind {
    /// The word of logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Service => "service",
        }
    }
}

/// Who or what broke a response off, or kept it from being given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokenBy {
    /// It went away.
    Client,
    /// It failed over the body, or wanted it so.
    Filter,
    /// Its response came to no end.
    Service,
    /// One of `[limits]`: the client was too slow, or the service.
    Limit,
}

impl BrokenBy {
    pub(crate) const ALL: [Self; 4] = [Self::Client, Self::Filter, Self::Service, Self::Limit];

    /// The word of logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Filter => "filter",
            Self::Service => "service",
            Self::Limit => "limit",
        }
    }
}

/// How much a line matters. The words are proxy-wasm's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is its name")]
pub enum Level {
    Trace,
    Debug,
    #[default]
    Info,
    Warn,
    Error,
    Critical,
}

impl Level {
    /// The words of `host.toml` and of lines.
    pub const WORDS: &[(&'static str, Self)] = &[
        ("trace", Self::Trace),
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("warn", Self::Warn),
        ("error", Self::Error),
        ("critical", Self::Critical),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people on a terminal, for machines elsewhere.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Format {
    /// The words of `host.toml`.
    pub const WORDS: &[(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("json", Self::Json),
        ("text", Self::Text),
    ];
}

/// What stands in logs and metrics for something of a tenant's.
pub(crate) fn full_name(tenant: &str, name: &str) -> String {
    match tenant.is_empty() {
        true => name.to_owned(),
        false => format!("{tenant}/{name}"),
    }
}
