//! What is on the host before and after a case.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Path below the base → what is there, without what differs by chance.
pub(super) type Survey = BTreeMap<String, String>;

pub(super) fn survey(base: &Path) -> io::Result<Survey> {
    let mut survey = Survey::new();
    look_below(base, "", &mut survey)?;
    Ok(survey)
}

fn look_below(base: &Path, below: &str, survey: &mut Survey) -> io::Result<()> {
    for entry in fs::read_dir(base.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let about = entry.metadata()?;
        let what = if about.is_symlink() {
            format!("link to {}", fs::read_link(entry.path())?.display())
        } else if about.is_dir() {
            look_below(base, &path, survey)?;
            "folder".to_owned()
        } else {
            format!(
                "{:?}, {} names{}",
                head_of(&entry.path())?,
                about.nlink(),
                date_of(about.mtime())
            )
        };
        survey.insert(path, what);
    }
    Ok(())
}

/// The beginning of a file, and its length.
fn head_of(file: &Path) -> io::Result<String> {
    const SHOWN: usize = 40;
    let bytes = fs::read(file)?;
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    Ok(if bytes.len() > SHOWN {
        format!("{head}… {} bytes", bytes.len())
    } else {
        head
    })
}

/// Times that a probe sets lie before this suite was written; others are left out.
fn date_of(modified_s: i64) -> String {
    const SUITE_BEGAN_S: i64 = 1_700_000_000;
    if modified_s < SUITE_BEGAN_S {
        format!(", of {modified_s}")
    } else {
        String::new()
    }
}

/// What is not as it was: the path, and what is there now.
pub(super) fn changes(before: &Survey, after: &Survey) -> Vec<(String, String)> {
    let gone = before
        .keys()
        .filter(|path| !after.contains_key(*path))
        .map(|path| (path.clone(), "gone".to_owned()));
    let new = after
        .iter()
        .filter(|(path, what)| before.get(*path) != Some(what))
        .map(|(path, what)| (path.clone(), what.clone()));
    let mut changes: Vec<_> = gone.chain(new).collect();
    changes.sort();
    changes
}
