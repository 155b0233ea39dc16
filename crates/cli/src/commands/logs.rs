//! `palisade logs`: what a guest of a server's has said, from the files that the server writes.
//!
//! The server is not asked: the lines are there also when it does not run. Its configuration says where they are: in the
//! guest's own file (`log`), or among all others in that of `[log]`. Of `TENANT/NAME`, it leads to the tenant's file first, in
//! which somebody else names files: such a log lies below the tenant's folder or is not read.

use super::server;
use crate::{args::LogsArgs, say};
use anyhow::{Context, bail};
use palisade_policy::{value::parse_path, visible_lines};
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use serde_json::Value;
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use toml::de::{DeTable, DeValue};

/// Of a long log, so much of its end is looked through.
const MOST_BYTES: u64 = 64 << 20;
/// How often a log that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Prints the last lines, and goes on with new ones if that is asked for.
pub(crate) fn logs(args: &LogsArgs) -> anyhow::Result<u8> {
    let text = server::read_configuration(&args.file)?;
    let canonical = fs::canonicalize(&args.file)?;
    let base = canonical.parent().unwrap_or(Path::new("/"));
    let source = Source::find(&text, &args.name, base)
        .with_context(|| format!("policy: {}", args.file.display()))?;
    let mut file = source.open()?;
    print(&source.last(&mut file, args.lines)?)?;
    match args.follow {
        true => follow(&source, file),
        false => Ok(0),
    }
}

/// Until a signal ends it, or nobody reads any more.
fn follow(source: &Source, mut file: File) -> anyhow::Result<u8> {
    loop {
        thread::sleep(LOOK_EVERY);
        print(&source.further(&mut file)?)?;
        if let Some(other) = source.replaced(&file) {
            // What came before the server opened the other one.
            print(&source.further(&mut file)?)?;
            file = other;
        }
    }
}

fn print(lines: &[String]) -> anyhow::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    // The server escapes what it writes; the file may hold more.
    let text = lines.concat();
    say::print_own(visible_lines(&text).as_bytes(), "the log")?;
    std::io::stdout()
        .flush()
        .context("host: cannot print the log")
}

/// Where a guest's lines are.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    path: PathBuf,
    /// The folder below which it has to lie, links and all.
    within: Option<PathBuf>,
    /// Among those of others, in this form: the field that names it, and its name.
    among: Option<(&'static str, String)>,
}

impl Source {
    fn find(text: &str, name: &str, base: &Path) -> anyhow::Result<Self> {
        let (document, _) = DeTable::parse_recoverable(text);
        let document = document.get_ref();
        let (field, own) = match name.split_once('/') {
            None => own_log(document, name, base)?,
            Some((tenant, guest)) => {
                let tenant = Tenant::find(document, tenant, base)?;
                let text = server::read_configuration(&tenant.file)?;
                let (of_tenant, _) = DeTable::parse_recoverable(&text);
                let (field, own) = own_log(of_tenant.get_ref(), guest, &tenant.folder)
                    .with_context(|| tenant.file.display().to_string())?;
                (field, own.map(|own| own.within(&tenant.folder)))
            }
        };
        if let Some(own) = own {
            return Ok(own);
        }
        let common = entry(document, "log").and_then(|log| text_of(log.as_table()?, "path"));
        match common {
            Some(path) => Ok(Self {
                among: Some((field, name.to_owned())),
                ..Self::whole(&path, base)?
            }),
            None => bail!(
                "the lines of {name} go to the server's stderr: look where that goes (`journalctl -u UNIT` with systemd), or \
                 give it a `log` of its own"
            ),
        }
    }

    /// A file that is one guest's.
    fn whole(path: &str, base: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            path: parse_path(path, base)?,
            within: None,
            among: None,
        })
    }

    fn within(self, folder: &Path) -> Self {
        Self {
            within: Some(folder.to_owned()),
            ..self
        }
    }

    /// As the server opens it: no link, and a file.
    fn open(&self) -> anyhow::Result<File> {
        let shown = || format!("host: cannot read the log {}", self.path.display());
        let file = match &self.within {
            None => rustix::fs::open(&self.path, LOG_FLAGS, Mode::empty()),
            Some(folder) => open_beneath(folder, &self.path),
        };
        let file = file.with_context(shown)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        if kind != FileType::RegularFile {
            bail!("{}: it is no file", shown());
        }
        Ok(file.into())
    }

    /// The file that a rotation put in its place, once there is one.
    fn replaced(&self, file: &File) -> Option<File> {
        let identity = |file: &File| file.metadata().ok().map(|found| (found.dev(), found.ino()));
        let other = self.open().ok()?;
        (identity(&other) != identity(file)).then_some(other)
    }

    fn last(&self, file: &mut File, most: usize) -> anyhow::Result<Vec<String>> {
        let size = file.metadata()?.len();
        let mut reader = BufReader::new(&mut *file);
        if let Some(from) = size.checked_sub(MOST_BYTES).filter(|from| *from > 0) {
            reader.seek(SeekFrom::Start(from))?;
            // What is left of a line.
            reader.read_until(b'\n', &mut Vec::new())?;
        }
        let mut last = VecDeque::new();
        let mut end = reader.stream_position()?;
        while let Some(line) = next_line(&mut reader)? {
            end = reader.stream_position()?;
            if self.is_of_guest(&line) {
                last.push_back(line);
            }
            if last.len() > most {
                last.pop_front();
            }
        }
        drop(reader);
        file.seek(SeekFrom::Start(end))?;
        Ok(last.into())
    }

    /// What is whole of what came since.
    fn further(&self, file: &mut File) -> anyhow::Result<Vec<String>> {
        // One that was cut begins anew.
        if file.metadata()?.len() < file.stream_position()? {
            file.seek(SeekFrom::Start(0))?;
        }
        let mut end = file.stream_position()?;
        let mut reader = BufReader::new(&mut *file);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader)? {
            end += line.len() as u64;
            if self.is_of_guest(&line) {
                lines.push(line);
            }
        }
        drop(reader);
        file.seek(SeekFrom::Start(end))?;
        Ok(lines)
    }

    fn is_of_guest(&self, line: &str) -> bool {
        let Some((field, name)) = &self.among else {
            return true;
        };
        match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(fields)) => fields.get(*field).is_some_and(|found| found == name),
            // `TIME LEVEL KIND NAME …`, as text has it; `TIME LEVEL: …` is the server's own.
            _ => {
                let mut words = line.split_ascii_whitespace().skip(1);
                let level = words.next();
                if level.is_none_or(|level| level.ends_with(':')) {
                    return false;
                }
                let kind = words.next();
                let found = words.next().map(|found| found.trim_end_matches(':'));
                kind == Some(field) && found == Some(name)
            }
        }
    }
}

fn entry<'a>(table: &'a DeTable<'_>, key: &str) -> Option<&'a DeValue<'a>> {
    let found = table.iter().find(|(name, _)| name.get_ref() == key)?;
    Some(found.1.get_ref())
}

/// `None` where no whole line is left.
fn next_line(reader: &mut impl BufRead) -> std::io::Result<Option<String>> {
    /// A log has lines of a few KiB; what is no log need not.
    const MOST_LINE_BYTES: u64 = 1 << 20;
    let mut bytes = Vec::new();
    reader.take(MOST_LINE_BYTES).read_until(b'\n', &mut bytes)?;
    let is_whole = bytes.ends_with(b"\n") || bytes.len() as u64 == MOST_LINE_BYTES;
    Ok(is_whole.then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

/// How a log is opened, by the server too.
const LOG_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

fn open_beneath(folder: &Path, path: &Path) -> rustix::io::Result<OwnedFd> {
    let rest = path.strip_prefix(folder).map_err(|_| Errno::XDEV)?;
    let above = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, above, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(folder, rest, LOG_FLAGS, Mode::empty(), resolve)
}

/// Whether it is a filter or a service that a document has under this name, and the log that it has of its own.
fn own_log(
    document: &DeTable<'_>,
    name: &str,
    base: &Path,
) -> anyhow::Result<(&'static str, Option<Source>)> {
    let mut tables = [("filters", "filter"), ("services", "service")].into_iter();
    let found = tables.find_map(|(table, field)| {
        Some((field, entry(entry(document, table)?.as_table()?, name)?))
    });
    let (field, guest) = found.with_context(|| format!("no filter or service is called {name}"))?;
    let own = guest.as_table().and_then(|guest| text_of(guest, "log"));
    let own = own.map(|own| Source::whole(&own, base)).transpose()?;
    Ok((field, own))
}

/// Where the main file says that a tenant's file and folder are.
struct Tenant {
    file: PathBuf,
    folder: PathBuf,
}

impl Tenant {
    fn find(document: &DeTable<'_>, name: &str, base: &Path) -> anyhow::Result<Self> {
        let include = entry(document, "include").and_then(DeValue::as_array);
        let patterns = include.into_iter().flatten();
        let mut files = patterns.filter_map(|pattern| {
            let pattern = parse_path(pattern.get_ref().as_str()?, base).ok()?;
            let (before, behind) = pattern.file_name()?.to_str()?.split_once('*')?;
            let file = format!("{name}.toml");
            let inner = file.strip_prefix(before)?.strip_suffix(behind);
            inner.map(|_| pattern.with_file_name(&file))
        });
        let file = files
            .find(|file| is_name(name) && file.is_file())
            .with_context(|| format!("no file that it includes is of a tenant {name}"))?;
        let share = |table: Option<&DeValue<'_>>| text_of(table?.as_table()?, "folder");
        let own = entry(document, "tenant").and_then(|all| entry(all.as_table()?, name));
        let folder = share(own)
            .or_else(|| share(entry(document, "tenants")))
            .with_context(|| format!("tenant {name} has no folder"))?;
        let folder = parse_path(folder.replace("{tenant}", name), base)?;
        Ok(Self { file, folder })
    }
}

/// Whether a tenant can be called so: one part of a path.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

fn text_of(table: &DeTable<'_>, key: &str) -> Option<String> {
    Some(entry(table, key)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = "
        [log]
        path = 'log/host.log'
        [filters.auth]
        module = 'auth.wasm'
        [services.shop]
        program = ['./shop']
        log = '/var/log/shop.log'
    ";

    fn find(text: &str, name: &str) -> anyhow::Result<Source> {
        Source::find(text, name, Path::new("/srv"))
    }

    #[test]
    fn the_configuration_says_where_lines_are() {
        let own = find(CONFIGURATION, "shop").unwrap();
        assert_eq!((own.path, own.among), ("/var/log/shop.log".into(), None));
        let among = find(CONFIGURATION, "auth").unwrap();
        assert_eq!(among.path, Path::new("/srv/log/host.log"));
        assert_eq!(among.among, Some(("filter", "auth".into())));
        let nobody = find(CONFIGURATION, "nobody").unwrap_err().to_string();
        assert!(nobody.contains("no filter or service"), "{nobody}");
        let stderr = find("[services.x]\nfiles = 'x'", "x")
            .unwrap_err()
            .to_string();
        assert!(stderr.contains("stderr"), "{stderr}");
    }

    #[test]
    fn a_tenants_file_says_where_its_own_lines_are_below_its_folder() {
        let base = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = base.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let main = "
            include = ['tenants.d/*.toml']
            [log]
            path = 'host.log'
            [tenants]
            folder = 'tenants/{tenant}'
        ";
        write(
            "tenants.d/acme.toml",
            "[filters]\nauth = { module = 'auth.wasm' }\nown = { module = 'own.wasm', log = 'own.log' }\n\
             out = { module = 'own.wasm', log = 'out/host.log' }\nup = { module = 'own.wasm', log = '../host.log' }\n",
        );
        write("tenants/acme/own.log", "of acme\n");
        write("host.log", "of all\n");
        std::os::unix::fs::symlink(base.path(), base.path().join("tenants/acme/out")).unwrap();
        let find = |name: &str| Source::find(main, name, base.path());
        let common = find("acme/auth").unwrap();
        assert_eq!(common.path, base.path().join("host.log"));
        assert_eq!(common.among, Some(("filter", "acme/auth".into())));
        assert!(find("acme/own").unwrap().open().is_ok());
        for outside in ["acme/out", "acme/up"] {
            assert!(find(outside).unwrap().open().is_err(), "{outside}");
        }
        for nobody in [
            "globex/auth",
            "acme/nobody",
            "../tenants.d/acme/auth",
            "/auth",
        ] {
            assert!(find(nobody).is_err(), "{nobody}");
        }
    }

    #[test]
    fn lines_are_chosen_by_their_own_fields() {
        let source = find(CONFIGURATION, "auth").unwrap();
        let is_its = |line: &str| source.is_of_guest(line);
        assert!(is_its(
            r#"{"time":"t","level":"warn","filter":"auth","message":"m"}"#
        ));
        assert!(is_its(
            "2024-02-29T12:34:56.007Z warn  filter auth #17: message"
        ));
        assert!(is_its(
            "2024-02-29T12:34:56.007Z warn  filter auth: message"
        ));
        for other in [
            r#"{"service":"auth","message":"m"}"#,
            r#"{"filter":"authority","message":"m"}"#,
            r#"{"filter":"other","message":"\"filter\":\"auth\""}"#,
            "2024-02-29T12:34:56.007Z warn  filter other: filter auth: message",
            "2024-02-29T12:34:56.007Z info: filter auth",
            "",
        ] {
            assert!(!is_its(other), "{other}");
        }
    }
}
