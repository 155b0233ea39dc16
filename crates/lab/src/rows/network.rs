//! Rows with two ends: a server and its clients, one end behind the wall and the other with none.
//!
//! A run starts the servers of all contenders, waits until they answer, has the clients ask them in turn, a few times,
//! and ends them. Nothing of the start is in a figure: the clients measure.

mod bulk;
mod ends;
mod meeting;
mod shell;
mod stores;
mod streams;
mod web;

pub(super) use bulk::BULK;
pub(super) use ends::Ends;
pub(super) use meeting::Meeting;
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
    floor: policies::floor_of_writing,
    ..READING
};
