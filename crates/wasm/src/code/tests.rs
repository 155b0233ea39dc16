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

#[test]
fn code_in_memory_stays_as_it_is() {
    let file = in_memory(b"code").unwrap();
    assert!(file.write_all_at(b"other", 0).is_err());
    let code = Code {
        file,
        not_kept: None,
    };
    let again = code.open().unwrap();
    let mut bytes = [0; 4];
    again.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"code");
}
