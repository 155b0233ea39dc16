use super::*;
use crate::host::{EntryKind, ThisHost, table::Table};
use rustix::io::Errno;

/// A host that gives the same answers, whatever the path.
#[derive(Clone)]
struct Scripted {
    found: Result<Found>,
    unlinked: Result<Found>,
    kind_and_mode: Result<(Kind, u32)>,
    identity: Result<Identity>,
    kernel_has: Result<bool>,
    link: Option<PathBuf>,
    list: Result<Vec<Entry>>,
    names: Result<(Identity, u64)>,
    is_open_to_all: bool,
    user: u32,
    content: Option<Vec<u8>>,
    mounts: Result<Vec<Mount>>,
    resolver: Table,
}

impl Scripted {
    fn new() -> Self {
        let identity = Identity {
            device_major: 8,
            device_minor: 1,
            inode: 2,
        };
        let found = Found {
            canonical: "/f/a".into(),
            kind: Kind::File,
            identity,
            uid: 1001,
            gid: 1002,
            mode: 0o644,
            size_bytes: 3,
        };
        Self {
            found: Ok(found.clone()),
            unlinked: Ok(found),
            kind_and_mode: Ok((Kind::File, 0o644)),
            identity: Ok(identity),
            kernel_has: Ok(false),
            link: Some("b/c".into()),
            list: Ok(vec![entry("d")]),
            names: Ok((identity, 1)),
            is_open_to_all: true,
            user: 1001,
            content: Some(b"text".into()),
            mounts: Ok(Vec::new()),
            resolver: Table::bare(),
        }
    }
}

fn entry(name: &str) -> Entry {
    Entry {
        name: name.into(),
        kind: EntryKind::File,
    }
}

impl Host for Scripted {
    fn find(&self, _: &Path) -> Result<Found> {
        self.found.clone()
    }

    fn find_unlinked(&self, _: &Path) -> Result<Found> {
        self.unlinked.clone()
    }

    fn kind_and_mode(&self, _: &Path) -> Result<(Kind, u32)> {
        self.kind_and_mode
    }

    fn identify(&self, _: &Path) -> Result<Identity> {
        self.identity
    }

    fn kernel_has(&self, _: &Path) -> Result<bool> {
        self.kernel_has
    }

    fn link(&self, _: &Path) -> Option<PathBuf> {
        self.link.clone()
    }

    fn list(&self, _: &Path) -> Result<Vec<Entry>> {
        self.list.clone()
    }

    fn names(&self, _: &Path) -> Result<(Identity, u64)> {
        self.names
    }

    fn is_open_to_all(&self, _: &Path) -> bool {
        self.is_open_to_all
    }

    fn user(&self) -> u32 {
        self.user
    }

    fn resolver(&self) -> &dyn Resolve {
        &self.resolver
    }

    fn content(&self, _: &Path, _: u64) -> Option<Vec<u8>> {
        self.content.clone()
    }

    fn mounts(&self) -> Result<Vec<Mount>> {
        self.mounts.clone()
    }
}

type Change = (&'static str, fn(&mut Scripted));

/// Of a host that was asked everything once.
fn testimony(host: &Scripted) -> Testimony {
    let (witness, path) = (Witness::of(host), Path::new("/f/a"));
    assert_eq!(witness.find(path), host.found);
    assert_eq!(witness.find_unlinked(path), host.unlinked);
    assert_eq!(witness.kind_and_mode(path), host.kind_and_mode);
    assert_eq!(witness.identify(path), host.identity);
    assert_eq!(witness.kernel_has(path), host.kernel_has);
    assert_eq!(witness.link(path), host.link);
    assert_eq!(witness.list(path), host.list);
    assert_eq!(witness.names(path), host.names);
    assert_eq!(witness.is_open_to_all(path), host.is_open_to_all);
    assert_eq!(witness.user(), host.user);
    assert_eq!(witness.content(path, 9), host.content);
    assert_eq!(witness.mounts(), host.mounts);
    witness.testify().unwrap()
}

#[test]
fn each_answer_is_asked_for_again() {
    let host = Scripted::new();
    let testimony = testimony(&host);
    assert!(testimony.holds(&host));
    let changes: [Change; 16] = [
        ("gone", |host| host.found = Err(Errno::NOENT)),
        ("an owner", |host| {
            host.found = host.found.clone().map(|found| Found { uid: 0, ..found });
        }),
        ("a name", |host| {
            host.found = host.found.clone().map(|found| Found {
                canonical: "/b".into(),
                ..found
            });
        }),
        ("a file", |host| host.unlinked = Err(Errno::ACCESS)),
        ("a mode", |host| {
            host.kind_and_mode = Ok((Kind::File, 0o600));
        }),
        ("a kind", |host| {
            host.kind_and_mode = Ok((Kind::Fifo, 0o644));
        }),
        ("an identity", |host| host.identity = Err(Errno::NOENT)),
        ("a kernel's file", |host| host.kernel_has = Ok(true)),
        ("no /proc", |host| host.kernel_has = Err(Errno::NOSYS)),
        ("a link's text", |host| host.link = Some("b/c/".into())),
        ("an entry", |host| {
            host.list = Ok(vec![entry("d"), entry("e")]);
        }),
        ("a second name", |host| {
            host.names = host.names.map(|(identity, count)| (identity, count + 1));
        }),
        ("a closed folder", |host| host.is_open_to_all = false),
        ("a user", |host| host.user = 1002),
        ("a text", |host| host.content = Some(b"TEXT".into())),
        ("a table of mounts", |host| host.mounts = Err(Errno::NOENT)),
    ];
    for (name, change) in changes {
        let mut changed = host.clone();
        change(&mut changed);
        assert!(!testimony.holds(&changed), "{name}");
    }
}

#[test]
fn what_a_kernel_has_is_not_asked_again() {
    let mut host = Scripted::new();
    host.kernel_has = Ok(true);
    let testimony = testimony(&host);
    host.kernel_has = Ok(false);
    assert!(testimony.holds(&host));
}

#[test]
fn too_much_is_let_go_while_it_is_asked() {
    let host = Scripted::new();
    let witness = Witness::of(&host);
    for _ in 0..MOST_LINES {
        witness.is_open_to_all(Path::new("/a"));
    }
    assert_eq!(witness.record.borrow().statements.len(), MOST_LINES);
    witness.is_open_to_all(Path::new("/a"));
    assert_eq!(witness.record.borrow().statements.capacity(), 0);
    assert!(witness.is_open_to_all(Path::new("/a")));
    assert_eq!(witness.record.borrow().statements.capacity(), 0);
    assert!(witness.testify().is_none());
}

#[test]
fn names_that_were_looked_up_are_no_testimony() {
    let host = Scripted::new();
    let witness = Witness::of(&host);
    assert!(!witness.resolver().files().is_empty());
    assert!(Witness::of(&host).testify().is_some());
    witness.resolver().interface("lo");
    assert!(witness.testify().is_none());
}

/// What a host is asked again that was asked for two things in `/f/g`, of which folders it was said that they are none by a link.
fn asked_again(known: fn(&Witness<'_>)) -> Vec<&'static str> {
    let host = Table::bare().folder("/f").folder("/f/g").file("/f/g/a", "");
    let host = host.file("/f/g/b", "").link("/l", "/f/g");
    let witness = Witness::of(&host);
    witness.find(Path::new("/f/g/a")).unwrap();
    known(&witness);
    witness.find_unlinked(Path::new("/f/g/b")).unwrap();
    witness.find(Path::new("/f/g/b")).unwrap();
    witness.find(Path::new("/l/a")).unwrap();
    let testimony = witness.testify().unwrap();
    assert!(testimony.holds(&host));
    let kinds = testimony.0.iter().map(|statement| match statement {
        Statement::Found(..) => "found",
        Statement::FoundUnlinked(..) => "unlinked",
        _ => "folder",
    });
    kinds.filter(|kind| *kind != "folder").collect()
}

#[test]
fn paths_below_folders_that_are_no_links_are_asked_for_by_less() {
    let none: fn(&Witness<'_>) = |_| ();
    assert_eq!(asked_again(none), ["found", "unlinked", "found", "found"]);
    let of_one: fn(&Witness<'_>) = |witness| {
        witness.kind_and_mode(Path::new("/f/g")).unwrap();
    };
    assert_eq!(asked_again(of_one), ["found", "unlinked", "found", "found"]);
    let of_all: fn(&Witness<'_>) = |witness| {
        witness.kind_and_mode(Path::new("/f/g")).unwrap();
        assert_eq!(witness.link(Path::new("/f")), None);
    };
    // Of `b` once.
    assert_eq!(asked_again(of_all), ["unlinked", "unlinked", "found"]);
}

/// The file itself stays what it is.
#[test]
fn a_folder_that_becomes_a_link_is_another_answer() {
    let stage = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(&stage).unwrap();
    let [folder, file, moved] = ["f", "f/a", "g"].map(|name| root.join(name));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&file, "").unwrap();
    let known_and_asked = |knows: bool| {
        let witness = Witness::of(&ThisHost);
        witness.find(&file).unwrap();
        for folder in file.ancestors().skip(1).filter(|_| knows) {
            witness.kind_and_mode(folder).unwrap();
        }
        witness.testify().unwrap()
    };
    let testimonies = [false, true].map(known_and_asked);
    let first = testimonies.each_ref().map(|testimony| &testimony.0[0]);
    assert!(matches!(
        first,
        [Statement::Found(..), Statement::FoundUnlinked(..)]
    ));
    assert!(
        testimonies
            .iter()
            .all(|testimony| testimony.holds(&ThisHost))
    );
    std::fs::rename(&folder, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &folder).unwrap();
    assert!(
        first[1].holds(&ThisHost),
        "the folder has to be looked at too"
    );
    assert!(
        !testimonies
            .iter()
            .any(|testimony| testimony.holds(&ThisHost))
    );
}

#[test]
fn a_path_that_follows_a_link_says_nothing_about_it() {
    for path in ["/f/.", "/f/", "/./f", "f"] {
        let statement = Statement::KindAndMode(path.into(), Ok((Kind::Folder, 0o755)));
        assert_eq!(statement.no_link(), None, "{path}");
    }
    let plain = Statement::KindAndMode("/f".into(), Ok((Kind::Folder, 0o755)));
    assert_eq!(plain.no_link(), Some(Path::new("/f")));
}
