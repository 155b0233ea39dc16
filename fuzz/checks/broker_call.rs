//! What must hold of whatever a guest's memory holds when it calls.
//!
//! The fuzz target and an ordinary test call the same function.

use palisade_process::boundary;

/// How many readings the bytes have: as an address, as a message, as a control block.
pub(crate) fn check(bytes: &[u8]) -> usize {
    let address = boundary::address(bytes);
    if let Ok(Some(address)) = address {
        assert!(bytes.len() >= if address.is_ipv4() { 16 } else { 24 });
    }
    let message = boundary::message(bytes);
    if let Ok((copied, _)) = message {
        // Parts may lie on one another, but not outside.
        assert!(copied == 0 || bytes.len() >= 56);
    }
    let controls = boundary::controls(bytes);
    for data in controls.iter().flatten() {
        assert!(data.start >= 16 && data.start <= data.end && data.end <= bytes.len());
    }
    [address.is_ok(), message.is_ok(), controls.is_ok()]
        .into_iter()
        .filter(|read| *read)
        .count()
}
