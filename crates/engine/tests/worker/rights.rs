//! What descriptors may not be used for.

use crate::harness::program;

#[test]
fn rights_hold_and_only_shrink() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    let outcome = program("rights").within(folder.path()).run();
    assert_eq!(outcome.output(), "");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
