//! Enums whose values have one name each, the same in flags, policy files and reports.

/// Gives an enum its names: `ALL`, `NAMES`, `name`, `Display` and `FromStr`.
macro_rules! words {
    ($type:ident, $noun:literal, { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $type {
            /// Every value, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// All names, in the same order.
            pub const NAMES: &[&str] = &[$($word),+];

            /// What messages call one of them, and the names.
            pub(crate) const KIND: &$crate::value::ValueKind =
                &$crate::value::ValueKind::of_names($noun, Self::NAMES);

            /// The name in flags, policy files and reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::value::ValueError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = Self::ALL.iter().find(|value| value.name() == text);
                named.copied().ok_or_else(|| $crate::value::ValueError::unknown_name(Self::KIND, text))
            }
        }
    };
}

pub(crate) use words;

/// The word of `known` that was probably meant by `typed`: at most a third of it mistyped.
pub(crate) fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    // What is typed may be as long as a file: no distance is less than what the lengths differ by.
    let length = typed.chars().count();
    let is_as_long = |word: &&&str| length.abs_diff(word.len()) <= word.len().div_ceil(3);
    known
        .iter()
        .filter(is_as_long)
        .map(|word| (edit_distance(typed, word), *word))
        .filter(|(distance, word)| *distance <= word.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`
/// (the "optimal string alignment" distance).
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Capability, Profile, WallKind};

    #[test]
    fn distances() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("memroy", "memory"), 1, "one swap");
        assert_eq!(edit_distance("file_size", "file-size"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn nearest_is_near() {
        assert_eq!(nearest("memroy", &["cpu", "memory"]), Some("memory"));
        assert_eq!(nearest("parsecs", &["cpu", "memory"]), None);
        assert_eq!(nearest("", &["cpu"]), None);
    }

    #[test]
    fn every_word_reads_back() {
        for word in Capability::ALL {
            assert_eq!(word.name().parse(), Ok(*word));
        }
        for word in Profile::ALL {
            assert_eq!(word.name().parse(), Ok(*word));
        }
        for word in WallKind::ALL {
            assert_eq!(word.to_string().parse(), Ok(*word));
        }
        assert_eq!(Access::ALL.len(), 7);
    }

    #[test]
    fn unknown_word_names_the_known_ones() {
        let error = "Java".parse::<Profile>().unwrap_err();
        insta::assert_snapshot!(error, @"`Java` is not a valid profile: there is no such name; did you mean `java`? (known: java, python, node, rust, go, maven, git, chromium, palisade)");
        let error = "cpu_time".parse::<Capability>().unwrap_err();
        insta::assert_snapshot!(error, @"`cpu_time` is not a valid capability: there is no such name; did you mean `cpu-time`? (known: namespaces, network, landlock, seccomp, uid, hide, memory, cpu, processes, cpu-time)");
        let error = "vm".parse::<WallKind>().unwrap_err();
        insta::assert_snapshot!(error, @"`vm` is not a valid wall: there is no such name; known: process, wasm");
    }
}
