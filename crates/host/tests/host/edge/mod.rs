//! Sockets, TLS, connections, limits and the graceful end, with a stand-in for what answers.

mod abandoned;
mod accept;
mod alive;
mod end;
pub(crate) mod http2;
mod limits;
mod listen;
mod smuggling;
pub(crate) mod stand_in;
mod tls;
