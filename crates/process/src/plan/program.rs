//! Where on the host the files lie that a plan's command names.

use super::Plan;
use crate::{
    host::{Host, Kind, ThisHost},
    layout::Layout,
    paths::normalized,
};
use std::{
    ffi::OsStr,
    fs::Metadata,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

impl Plan {
    /// The host's file that is executed, by its own path. `None`: at no place that is tried does the guest find one.
    ///
    /// Links of the host's are followed as on the host: inside they may lead elsewhere, and the launch has the last word.
    pub fn find_program(&self) -> Option<PathBuf> {
        let candidates = self.candidates.iter().filter_map(|path| self.on_host(path));
        candidates.into_iter().find(|path| is_program(path))
    }

    /// The host's file that the guest would execute at one path inside; `None` if it finds none there. A link of the
    /// host's that leads out of what the guest sees leads nowhere inside.
    pub fn find_program_at(&self, inside: &Path) -> Option<PathBuf> {
        let path = self.on_host(inside.as_os_str())?;
        let found = ThisHost.find(&path).ok()?;
        let is_program = found.kind == Kind::File && found.mode & 0o111 != 0;
        let is_inside = found.canonical == path || self.shows(&found.canonical);
        (is_program && is_inside).then_some(found.canonical)
    }

    /// The program's file, and those files that its arguments name and that the guest cannot write to: what one start
    /// has in common with the next. None: there is no program.
    pub fn fixed_files(&self) -> Vec<PathBuf> {
        let Some(program) = self.find_program() else {
            return Vec::new();
        };
        let arguments = self.arguments.iter().skip(1);
        let named = arguments.filter_map(|argument| self.on_host(argument));
        let fixed = named.filter(|path| path.is_file() && !self.can_change(path));
        std::iter::once(program).chain(fixed).collect()
    }

    /// Where on the host these were looked for: every place of the program's that is tried, and what its arguments name.
    pub fn looked_for(&self) -> Vec<PathBuf> {
        let arguments = self.arguments.iter().skip(1).map(AsRef::<OsStr>::as_ref);
        let candidates = self.candidates.iter().map(AsRef::<OsStr>::as_ref);
        let all = candidates.chain(arguments);
        all.filter_map(|path| self.on_host(path)).collect()
    }

    /// Where on the host lies what the guest finds at this path, if it lies there.
    fn on_host(&self, path: &OsStr) -> Option<PathBuf> {
        let inside = normalized(&self.cwd.join(path));
        match &self.layout {
            Some(layout) => layout.on_host(&inside),
            None => Some(inside),
        }
    }
}

/// A link may lead to what is only there inside.
fn is_program(path: &Path) -> bool {
    let is_executable =
        |found: &Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    match path.metadata() {
        Ok(found) => is_executable(&found),
        Err(_) => path.is_symlink(),
    }
}

impl Layout {
    /// The same for the layout alone: links that are made for the domain are followed.
    fn on_host(&self, inside: &Path) -> Option<PathBuf> {
        match self.follow(inside) {
            Some(target) => self.host_path(&target),
            None => self.host_path(inside),
        }
    }
}
