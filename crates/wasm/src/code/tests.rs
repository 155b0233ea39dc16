use super::*;

/// Settings differ, so code for one purpose must never be taken for another's.
#[test]
fn each_purpose_has_an_entry_of_its_own() {
    let compiler = Path::new("/proc/self/exe");
    let name = |purpose| entry_name(b"module", purpose, compiler).unwrap();
    let names = [Purpose::Program, Purpose::Filter, Purpose::Service].map(name);
    assert_ne!(names[0], names[1]);
    assert_ne!(names[1], names[2]);
    assert_ne!(names[0], names[2]);
    assert_eq!(names[0], name(Purpose::Program));
}

#[test]
fn a_purpose_is_told_by_its_word() {
    for purpose in [Purpose::Program, Purpose::Filter, Purpose::Service] {
        assert_eq!(Purpose::of_word(purpose.word()), Some(purpose));
    }
    assert_eq!(Purpose::of_word("plugin"), None);
}
