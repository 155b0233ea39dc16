//! The domain's `/etc/hosts`, written anew when a granted name has other addresses.

use super::proxy::Served;
use palisade_network::{Gate, Refresh, Resolve};
use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::Arc,
};

/// Keeps the gate's names up to date, the proxy's, and the file as the gate has them. There is none where the
/// policy put its own in its place. It begins with `head`.
pub(super) fn keep(
    (file, head): (Option<OwnedFd>, String),
    gate: Arc<Gate>,
    resolver: Arc<dyn Resolve>,
    proxy: Option<Arc<Served>>,
) -> io::Result<Option<Refresh>> {
    let file = file.map(File::from);
    Refresh::start(gate, resolver, move |name, addresses, lines| {
        if let Some(proxy) = &proxy {
            proxy.pin(name, addresses);
        }
        if let (Some(file), Some(lines)) = (&file, lines) {
            // The domain may be gone, or its root full; what was there before still stands then.
            let _ = rewrite(file, &format!("{head}{lines}"));
        }
    })
}

/// In one write, and without a moment in which the end of the old text follows the new one: a reader
/// would take a part of an address for a whole one.
fn rewrite(file: &File, text: &str) -> io::Result<()> {
    // Not by `File::metadata`: its system call looks at paths, too, which no one who serves a guest may.
    let length = rustix::fs::fstat(file)?.st_size as usize;
    let padding = "\n".repeat(length.saturating_sub(text.len()));
    file.write_all_at(format!("{text}{padding}").as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::Kept;
    use std::io::Read;

    /// Within the walls of who does it.
    #[test]
    fn a_shorter_text_leaves_nothing_of_the_longer_one() {
        // The standard library remembers which calls there are.
        std::fs::metadata("/").unwrap();
        let walls = Kept::of_broker(false).walls(None).unwrap();
        let memory = rustix::fs::memfd_create("hosts", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(memory);
        for text in ["10.0.0.1 a\n10.0.0.2 a\n", "10.0.0.3 a\n", ""] {
            walls.start(|| rewrite(&file, text)).unwrap();
            let mut found = String::new();
            io::Seek::rewind(&mut file).unwrap();
            file.read_to_string(&mut found).unwrap();
            assert_eq!(found, text);
        }
    }
}
