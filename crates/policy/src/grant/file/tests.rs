use super::*;
use crate::value::parse_cwd;
use std::os::unix::ffi::OsStrExt;

const BASE: &str = "/home/ada/project";

fn read(text: &str) -> Result<FileGrant, ValueError> {
    FileGrant::parse(Access::Read, text, Path::new(BASE))
}

fn paths(text: &str) -> (String, Option<String>) {
    let grant = read(text).unwrap();
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    (shown(&grant.host), grant.guest.as_deref().map(shown))
}

fn reason(access: Access, text: &str) -> Reason {
    let error = FileGrant::parse(access, text, Path::new(BASE)).unwrap_err();
    error.reason().clone()
}

#[test]
fn relative_paths_are_joined() {
    for (text, host) in [
        ("src", "/home/ada/project/src"),
        ("./src//lib/.", "/home/ada/project/src/lib"),
        (".", BASE),
        ("..", "/home/ada"),
        ("../../bob/x", "/home/bob/x"),
        ("../../../../../x", "/x"),
        ("/opt/tool/", "/opt/tool"),
        ("./~", "/home/ada/project/~"),
        ("a~b", "/home/ada/project/a~b"),
    ] {
        assert_eq!(paths(text), (host.into(), None), "{text:?}");
    }
}

#[test]
fn guest_paths() {
    assert_eq!(
        paths("src:/work"),
        (format!("{BASE}/src"), Some("/work".into()))
    );
    assert_eq!(paths("/a:/b/./c/"), ("/a".into(), Some("/b/c".into())));
    assert_eq!(
        paths("/a:/a/"),
        ("/a".into(), None),
        "the same path is no mapping"
    );
    assert_eq!(read("/a:/b").unwrap().guest_path(), Path::new("/b"));
    assert_eq!(read("/a").unwrap().guest_path(), Path::new("/a"));
}

#[test]
fn escapes() {
    assert_eq!(paths(r"/a\:b:/c\:d"), ("/a:b".into(), Some("/c:d".into())));
    assert_eq!(paths(r"/a\\:/c"), (r"/a\".into(), Some("/c".into())));
    assert_eq!(
        paths(r"/by-label/a\x20b"),
        (r"/by-label/a\x20b".into(), None)
    );
    assert_eq!(paths("/a\\"), ("/a\\".into(), None));
}

#[test]
fn refusals() {
    use Access::{Exec, Ipc, Protect, Read, Write};
    assert_eq!(reason(Read, ""), Reason::Empty);
    assert_eq!(reason(Read, ":/x"), Reason::EmptyPart);
    assert_eq!(reason(Write, "/x:"), Reason::EmptyPart);
    assert_eq!(reason(Read, "a\0b"), Reason::Nul);
    assert_eq!(reason(Read, "/a:/b\0"), Reason::Nul);
    assert_eq!(reason(Read, "~"), Reason::Tilde);
    assert_eq!(reason(Read, "~/x"), Reason::Tilde);
    assert_eq!(reason(Read, "a/../b"), Reason::ParentInside);
    assert_eq!(reason(Read, "/.."), Reason::ParentInside);
    assert_eq!(reason(Read, "/a/../../etc/shadow"), Reason::ParentInside);
    assert_eq!(reason(Read, "/a:b"), Reason::RelativeGuest("b".into()));
    assert_eq!(
        reason(Read, "/a:/b/../c"),
        Reason::ParentInGuest("/b/../c".into())
    );
    assert_eq!(reason(Read, "/a:/b:ro"), Reason::TooManyColons);
    for access in [Exec, Ipc, Protect] {
        assert_eq!(reason(access, "/a:/b"), Reason::UnexpectedGuest);
    }
}

#[test]
fn bytes_that_are_not_unicode_are_kept() {
    let text = OsStr::from_bytes(b"/a\xff:/b\xfe");
    let grant = FileGrant::parse(Access::Read, text, Path::new(BASE)).unwrap();
    assert_eq!(grant.host.as_os_str().as_bytes(), b"/a\xff");
    assert_eq!(grant.guest_path().as_os_str().as_bytes(), b"/b\xfe");
}

#[test]
fn display_reads_back() {
    for text in ["/a", "/a:/b", r"/a\:b:/c\:d", r"/x\\\:y", r"/a\\"] {
        let grant = read(text).unwrap();
        assert_eq!(grant.to_string(), text);
    }
}

#[test]
fn devices() {
    let path = |text: &str| text.parse::<DeviceGrant>().map(|device| device.path);
    assert_eq!(path("/dev/fuse"), Ok("/dev/fuse".into()));
    assert!("pts".parse::<DeviceGrant>().unwrap().is_pts());
    assert!(!"/dev/pts".parse::<DeviceGrant>().unwrap().is_pts());
    let reason = |text: &str| path(text).unwrap_err().reason().clone();
    assert_eq!(reason(""), Reason::Empty);
    assert_eq!(reason("fuse"), Reason::NotAbsolute);
    assert_eq!(reason("/dev/../etc"), Reason::ParentInside);
    assert_eq!(reason("/dev/\0"), Reason::Nul);
}

#[test]
fn working_directories() {
    let cwd = |text: &str| parse_cwd(text, Path::new(BASE));
    assert_eq!(cwd("/work"), Ok("/work".into()));
    assert_eq!(cwd("a:b"), Ok(format!("{BASE}/a:b").into()));
    assert!(cwd("").is_err());
}

#[test]
fn messages() {
    insta::assert_snapshot!(read("/a:b").unwrap_err(), @r"`/a:b` is not a valid read grant: the guest path `b` is not absolute; accepted is PATH or PATH:GUEST, where GUEST is absolute and `\:` is a colon within a name, as in `./src:/work`");
    insta::assert_snapshot!(read("~/src").unwrap_err(), @r"`~/src` is not a valid read grant: `~` is not expanded here: write the folder's full path (or `./~` for that name); accepted is PATH or PATH:GUEST, where GUEST is absolute and `\:` is a colon within a name, as in `./src:/work`");
    insta::assert_snapshot!(read("").unwrap_err(), @r"an empty string is not a valid read grant: nothing was given; accepted is PATH or PATH:GUEST, where GUEST is absolute and `\:` is a colon within a name, as in `./src:/work`");
    let protect = FileGrant::parse(Access::Protect, "/a:/b", Path::new(BASE)).unwrap_err();
    insta::assert_snapshot!(protect, @"`/a:/b` is not a valid protect path: it takes no `:GUEST` part, for it names a path inside the domain; accepted is one path as the guest sees it, as in `.git/hooks`");
    insta::assert_snapshot!("fuse".parse::<DeviceGrant>().unwrap_err(), @"`fuse` is not a valid device grant: it is neither absolute nor `pts`; accepted is an absolute path or the word `pts`, as in `/dev/fuse`");
}
