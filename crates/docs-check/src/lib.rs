//! Reads the project's documents, so that tests can hold them to the truth.
//!
//! [`Document`] knows as much Markdown as the documents here use: headings, links, inline code,
//! fenced blocks and tables. [`Session`] is a fenced block of commands and what they print; it
//! plays them in a shell and compares. The tests themselves stand in `tests/documents.rs`.

mod document;
mod session;

pub use document::{Document, Fence, documents};
pub use session::{Session, Shell};
