//! What WebAssembly is compiled for.

/// What code is made for: whoever runs it has an engine with settings of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A module or component with a main function, in a worker.
    #[default]
    Program,
    /// A proxy-wasm module, in the process of a server.
    Filter,
    /// A `wasi:http` component, in the process of a server.
    Service,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Program, Self::Filter, Self::Service];

    /// The compiler's argument.
    pub fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Filter => "filter",
            Self::Service => "service",
        }
    }

    /// The purpose of this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.word() == word)
    }
}
