//! Patterns of paths: `/work/**/*.pem`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

/// A path in which names may stand for others.
///
/// `*` is any part of a name, with a dot at its beginning too, `?` one byte of it, and `**` as a name any number of folders,
/// none included. Behind a backslash such a sign, or a backslash, is itself; so is all else. Names are bytes, and need not be
/// UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The folder that all of it lies in: what stands before the first sign.
    folder: PathBuf,
    names: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    AnyFolders,
    Of(Vec<Sign>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Any,
    One,
    Byte(u8),
}

impl Pattern {
    /// The pattern that an absolute path is; `None` where it is just a path ([`Pattern::plain`]).
    pub fn of(path: &Path) -> Option<Self> {
        let names: Vec<&OsStr> = normal(path).collect();
        let signs: Vec<Vec<Sign>> = names.iter().map(|name| read(name)).collect();
        let first = signs.iter().position(|signs| has_sign(signs))?;
        Some(Self {
            folder: Self::plain(&names[..first].iter().collect::<PathBuf>()),
            names: signs.into_iter().skip(first).map(Name::of).collect(),
        })
    }

    /// The path that one without signs is.
    pub fn plain(path: &Path) -> PathBuf {
        let names = normal(path).map(|name| {
            let bytes = read(name).into_iter().map(|sign| match sign {
                Sign::Any => b'*',
                Sign::One => b'?',
                Sign::Byte(byte) => byte,
            });
            OsString::from_vec(bytes.collect())
        });
        Path::new("/").join(names.collect::<PathBuf>())
    }

    /// A path in which nothing stands for anything else.
    pub fn escape(path: &Path) -> PathBuf {
        let bytes = path.as_os_str().as_bytes().iter();
        let escaped = bytes.flat_map(|byte| {
            let backslash = matches!(byte, b'*' | b'?' | b'\\').then_some(b'\\');
            backslash.into_iter().chain([*byte])
        });
        OsString::from_vec(escaped.collect()).into()
    }

    /// Whether it finds this path.
    pub fn finds(&self, path: &Path) -> bool {
        let places = self.places_behind(path);
        places.is_some_and(|places| places[self.names.len()])
    }

    /// Whether it may find something below this folder.
    pub fn may_find_below(&self, folder: &Path) -> bool {
        match self.places_behind(folder) {
            Some(places) => places[..self.names.len()].contains(&true),
            None => self.folder.starts_with(folder),
        }
    }

    /// Where in the pattern one may be behind the names of a path, each place by the names before it; `None` outside of its
    /// folder.
    fn places_behind(&self, path: &Path) -> Option<Vec<bool>> {
        let below = path.strip_prefix(&self.folder).ok()?;
        let mut places = vec![false; self.names.len() + 1];
        places[0] = true;
        self.pass_over(&mut places);
        for name in normal(below) {
            let mut next = vec![false; places.len()];
            for (place, wanted) in self.names.iter().enumerate().filter(|(at, _)| places[*at]) {
                match wanted {
                    Name::AnyFolders => next[place] = true,
                    Name::Of(signs) if is_named(signs, name.as_bytes()) => next[place + 1] = true,
                    Name::Of(_) => {}
                }
            }
            self.pass_over(&mut next);
            places = next;
        }
        Some(places)
    }

    /// Any number of folders may be none.
    fn pass_over(&self, places: &mut [bool]) {
        for (place, wanted) in self.names.iter().enumerate() {
            places[place + 1] |= places[place] && *wanted == Name::AnyFolders;
        }
    }
}

fn normal(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

impl Name {
    fn of(signs: Vec<Sign>) -> Self {
        match signs[..] {
            [Sign::Any, Sign::Any] => Self::AnyFolders,
            _ => Self::Of(signs),
        }
    }
}

fn read(name: &OsStr) -> Vec<Sign> {
    let mut bytes = name.as_bytes().iter().copied().peekable();
    let mut signs = Vec::new();
    while let Some(byte) = bytes.next() {
        signs.push(match byte {
            b'*' => Sign::Any,
            b'?' => Sign::One,
            b'\\' => {
                let escaped = bytes.next_if(|next| matches!(next, b'*' | b'?' | b'\\'));
                Sign::Byte(escaped.unwrap_or(byte))
            }
            byte => Sign::Byte(byte),
        });
    }
    signs
}

fn has_sign(signs: &[Sign]) -> bool {
    signs
        .iter()
        .any(|sign| matches!(sign, Sign::Any | Sign::One))
}

/// `*` takes as little as it can; what does not fit behind it is tried again from one byte further, by the last `*` alone: so
/// no pattern takes longer than its length times the name's.
fn is_named(signs: &[Sign], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while from < name.len() {
        match signs.get(at) {
            Some(Sign::Any) => {
                last_star = Some((at, from));
                at += 1;
            }
            Some(sign) if *sign == Sign::One || *sign == Sign::Byte(name[from]) => {
                at += 1;
                from += 1;
            }
            _ => match &mut last_star {
                Some((star, taken)) => {
                    *taken += 1;
                    (at, from) = (*star + 1, *taken);
                }
                None => return false,
            },
        }
    }
    signs[at..].iter().all(|sign| *sign == Sign::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(pattern: &str, path: &str) -> bool {
        Pattern::of(Path::new(pattern))
            .unwrap()
            .finds(Path::new(path))
    }

    #[test]
    fn a_path_without_a_sign_is_no_pattern() {
        for path in ["/", "/work/.env", "/work/[id]/a", "/work/{a,b}"] {
            assert_eq!(Pattern::of(Path::new(path)), None, "{path}");
        }
        let pattern = Pattern::of(Path::new("/work/src/*/x")).unwrap();
        assert_eq!(pattern.folder, Path::new("/work/src"));
        assert_eq!(Pattern::of(Path::new("/*")).unwrap().folder, Path::new("/"));
    }

    #[test]
    fn signs_stand_for_names() {
        for (pattern, path) in [
            ("/w/*.pem", "/w/a.pem"),
            ("/w/*.pem", "/w/.pem"),
            ("/w/*.pem", "/w/*.pem"),
            ("/w/*", "/w/.hidden"),
            ("/w/a*b*c", "/w/aXbXbc"),
            ("/w/?", "/w/x"),
            ("/w/**/*.pem", "/w/a.pem"),
            ("/w/**/*.pem", "/w/a/b/c.pem"),
            ("/w/**/.git/config", "/w/.git/config"),
            ("/w/**/.git/config", "/w/sub/.git/config"),
            ("/w/**", "/w/a/b"),
            ("/w/**/**/x", "/w/x"),
            ("/w/**/a/**/b", "/w/a/a/x/b"),
        ] {
            assert!(finds(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/w/*.pem", "/w/a.pem.txt"),
            ("/w/*.pem", "/w/sub/a.pem"),
            ("/w/*.pem", "/v/a.pem"),
            ("/w/?", "/w/xy"),
            ("/w/?", "/w"),
            ("/w/**/.git/config", "/w/.git/hooks"),
            ("/w/**/a/**/b", "/w/b/a"),
        ] {
            assert!(!finds(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_sign_behind_a_backslash_is_itself() {
        let path = Path::new("/w*/?\\\\x/[a]");
        let escaped = Pattern::escape(path);
        assert_eq!(Pattern::of(&escaped), None);
        assert_eq!(Pattern::plain(&escaped), path);
        assert_eq!(Pattern::plain(Path::new("/a/\\b")), Path::new("/a/\\b"));
        let pattern = Pattern::of(&Pattern::escape(Path::new("/w*")).join("*.pem")).unwrap();
        assert!(pattern.finds(Path::new("/w*/a.pem")));
        assert!(!pattern.finds(Path::new("/wx/a.pem")));
        assert_eq!(pattern.folder, Path::new("/w*"));
        assert!(finds("/w/\\**", "/w/*x"));
        assert!(!finds("/w/\\**", "/w/x"));
    }

    #[test]
    fn names_are_bytes() {
        let name = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let pattern = Pattern::of(Path::new("/w/*.pem")).unwrap();
        assert!(pattern.finds(&Path::new("/w").join(name(b"\xff\xfe.pem"))));
        let pattern = Pattern::of(&Path::new("/w").join(name(b"\xff*"))).unwrap();
        assert!(pattern.finds(&Path::new("/w").join(name(b"\xffx"))));
        assert!(!pattern.finds(Path::new("/w/\u{fffd}x")));
    }

    #[test]
    fn a_folder_is_looked_through_where_something_may_be_found() {
        let may = |pattern: &str, folder: &str| {
            Pattern::of(Path::new(pattern))
                .unwrap()
                .may_find_below(Path::new(folder))
        };
        assert!(may("/w/**/*.pem", "/w/a/b"));
        assert!(may("/w/src/*.pem", "/w"));
        assert!(may("/w/src/*.pem", "/w/src"));
        assert!(may("/w/*/x/y", "/w/a/x"));
        assert!(!may("/w/*/x/y", "/w/a/z"));
        assert!(!may("/w/*.pem", "/w/a.pem"));
        assert!(!may("/w/**/*.pem", "/v"));
    }

    #[test]
    fn no_pattern_takes_long() {
        let name = "a".repeat(200);
        let pattern = format!("/w/{}b", "*a".repeat(90));
        assert!(!finds(&pattern, &format!("/w/{name}")));
        let deep = "/w".to_owned() + &"/a".repeat(40);
        let many = format!("/w/{}b", "**/a/".repeat(30));
        assert!(!finds(&many, &deep));
    }
}
