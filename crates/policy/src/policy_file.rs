//! The policy file: TOML in and out, and its schema. What its keys are, [`crate::setting`] says.
//!
//! The text is walked as a tree of spanned values rather than through serde: each error can then
//! point at the very key or string, say which keys are known there, and name the nearest one.

mod error;
mod read;
mod schema;
mod write;

pub use error::TomlError;
pub use schema::policy_schema;
pub use write::NotUnicode;

#[cfg(test)]
mod tests;
