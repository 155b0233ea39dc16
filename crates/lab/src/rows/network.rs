//! Rows with two ends: a server and its clients, one end behind the wall and the other with none.
//!
//! A run starts the server, waits until it answers, has the clients ask it one after the other, and ends
//! it. Nothing of the start is in a figure: the clients measure.

mod bulk;
mod ends;
mod shell;
mod stores;
mod streams;
mod web;

pub(super) use bulk::BULK;
pub(super) use ends::{Ends, TwoEnds};
pub(super) use shell::COPY;
pub(super) use stores::{MEMCACHED, POSTGRES, REDIS};
pub(super) use streams::{BLOCKS, BROKER, PACKETS};
pub(super) use web::{DOCUMENTS, FILES, REPLY};

use super::{operations::Wall, policies};

/// A port, and the folder with the program or its settings.
const READING: Wall = Wall {
    subject: super::PALISADE,
    title: "palisade",
    policy: policies::reading,
    floor: policies::floor_of_reading,
};
/// The same, and a folder to write to.
const WRITING: Wall = Wall {
    policy: policies::writing,
    ..READING
};
