use super::*;
use std::{fs, io::Read};

fn bytes_of(held: &Held) -> Vec<u8> {
    let mut bytes = Vec::new();
    again(held.file()).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn code_in_memory_stays_as_it_is() {
    let held = Held::of_bytes(b"code").unwrap();
    assert!(held.file().write_all_at(b"other", 0).is_err());
    assert!(held.file().set_len(0).is_err());
    assert_eq!(bytes_of(&held), b"code");
}

/// It is open for writing here; a network's file system would know no leases at all.
#[test]
fn a_file_that_no_lease_is_had_of_is_copied() {
    let writer = tempfile::tempfile().unwrap();
    writer.write_all_at(b"code", 0).unwrap();
    let held = Held::of(again(&writer).unwrap()).unwrap();
    assert!(matches!(held, Held::Sealed(_)), "{held:?}");
    writer.write_all_at(b"evil", 0).unwrap();
    assert_eq!(bytes_of(&held), b"code");
}

/// Nobody is told of a lease by a signal that ends him.
#[test]
fn who_wants_the_file_does_not_end_its_holder() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "code").unwrap();
    let path = file.into_temp_path();
    let held = Held::of(File::open(&path).unwrap()).unwrap();
    let Held::Leased(leased) = &held else {
        eprintln!("ignored: the temporary folder's file system has no leases, {held:?} stands in");
        return;
    };
    let writer = std::thread::spawn({
        let path = path.to_path_buf();
        move || fs::write(path, "other")
    });
    // The kernel has asked for the lease, and sent its signal, when it says that it is being broken.
    while !leased.is_wanted() {
        std::thread::yield_now();
    }
    assert_eq!(bytes_of(&held), b"code");
    drop(held);
    writer.join().unwrap().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"other");
}
