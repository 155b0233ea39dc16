//! Many services behind one server: their guests, the server's settings, and lists of what can be asked for.

use super::super::{
    add_component,
    sites::{ANSWER, Layout, Site, at, quoted, server},
};
use crate::{
    distinct::{Filling, distinct},
    network::{Port, Transport},
    program::{Program, ending_with_the_lab},
    rows::Tools,
    server::Server,
    subjects::server_program,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `palisade serve`: a component of each tenant.
    Components,
    /// The same: a filter on each route, before files.
    Filters,
    /// The same: programs behind the process wall.
    Programs,
    /// The same, that stand still once nobody has asked for a second, where the server knows of that.
    FrozenPrograms,
    /// nginx: a server block each, before files. The bound: it runs no code of anybody's.
    Nginx,
}

impl Kind {
    pub(super) fn subject(self) -> &'static str {
        match self {
            Self::Components => "palisade serve, components",
            Self::Filters => "palisade serve, filters",
            Self::Programs => "palisade serve, programs",
            Self::FrozenPrograms => "palisade serve, frozen programs",
            Self::Nginx => "nginx, server blocks",
        }
    }

    /// In tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Components => "components",
            Self::Filters => "filters",
            Self::Programs => "programs",
            Self::FrozenPrograms => "frozen programs",
            Self::Nginx => "nginx",
        }
    }

    /// Whether its guests are code in the server's process.
    pub(super) fn is_wasm(self) -> bool {
        matches!(self, Self::Components | Self::Filters)
    }
}

/// What `palisade serve` may use, where that is not what it takes by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Modules that are loaded at one time.
    pub(super) modules: Option<usize>,
    /// Programs that run at one time.
    pub(super) programs: Option<usize>,
}

/// The first service, which everybody waits for.
const QUESTION: &[u8] = b"GET /2258 HTTP/1.1\r\nHost: s0.lab\r\nConnection: close\r\n\r\n";

/// The bound for compiled code on disk: all of it is kept, however many guests there are.
const DISK: &str = "64G";
/// Mappings of a component that is loaded.
pub(super) const MAPPINGS: usize = 2;
/// The component that all others are made from.
const TENANT: &str = "tenant";

/// Guests and files that crowds of any size are made of.
pub(super) struct Ground<'a> {
    pub(super) layout: Layout<'a>,
}

/// Many services, and the server that they are behind. Nothing runs yet.
pub(super) struct Crowd {
    pub(super) kind: Kind,
    pub(super) count: usize,
    pub(super) site: Site,
    /// Where a reload is asked for.
    pub(super) admin: PathBuf,
    /// A file of settings that a reload finds changed.
    pub(super) changing: PathBuf,
    port: u16,
}

impl<'a> Ground<'a> {
    pub(super) fn new(tools: &'a Tools, workloads: &'a Workloads) -> Self {
        let tables = |_: &Layout<'_>| Ok(String::new());
        Self {
            layout: Layout {
                tools,
                workloads,
                tables,
            },
        }
    }

    /// Lays out the files that are served, of these lengths and named by them.
    pub(super) fn add_files(&self, lengths: impl Iterator<Item = usize>) -> anyhow::Result<()> {
        let workloads = self.layout.workloads;
        workloads.add_files(0)?;
        for length in lengths {
            workloads.add_text(&length.to_string(), length)?;
        }
        Ok(())
    }

    /// Lays out so many guests of a kind.
    pub(super) fn add_guests(&self, kind: Kind, count: usize) -> anyhow::Result<()> {
        let workloads = self.layout.workloads;
        match kind {
            Kind::Components => {
                add_component(self.layout.tools, workloads, TENANT)?;
                let guest = self.layout.component();
                self.add_distinct(&guest, count, |number| {
                    self.tenant(&name(number)).join("site.wasm")
                })
            }
            Kind::Filters => {
                workloads.add_filters()?;
                let guest = self.folder().join("null.wasm");
                self.add_distinct(&guest, count, |number| self.filter(number))
            }
            Kind::Programs | Kind::FrozenPrograms => workloads.add_replies().map(|_| ()),
            Kind::Nginx => Ok(()),
        }
    }

    /// Guests of these numbers, each at its place.
    pub(super) fn add_distinct(
        &self,
        guest: &Path,
        count: usize,
        place: impl Fn(usize) -> PathBuf,
    ) -> anyhow::Result<()> {
        let guest = fs::read(guest).context("host: cannot read a guest")?;
        for number in 0..count {
            let made = distinct(&guest, number as u64, Filling::default())?;
            let place = place(number);
            let made_folder = place.parent().map_or(Ok(()), fs::create_dir_all);
            made_folder
                .and_then(|()| fs::write(&place, made))
                .context("host: cannot lay out a guest")?;
        }
        Ok(())
    }

    pub(super) fn folder(&self) -> &Path {
        self.layout.workloads.folder()
    }

    /// The folder of a tenant.
    pub(super) fn tenant(&self, name: &str) -> PathBuf {
        self.folder().join("tenants").join(name)
    }

    fn filter(&self, number: usize) -> PathBuf {
        self.folder().join("filters").join(format!("{number}.wasm"))
    }

    /// So many of a kind, whose guests are laid out, behind a server of their own.
    pub(super) fn crowd(&self, kind: Kind, count: usize, bounds: Bounds) -> anyhow::Result<Crowd> {
        let reserved = Port::find(Transport::Tcp)?;
        let port = reserved.number;
        let admin = self.folder().join(format!("admin-{port}"));
        let (program, changing) = match kind {
            Kind::Nginx => self.nginx(port, count)?,
            _ => self.serve(kind, count, (port, &admin), bounds)?,
        };
        Ok(Crowd {
            kind,
            count,
            site: Site {
                servers: vec![server(program, port, (QUESTION, ANSWER))],
                base: format!("http://{}", at(port)),
                _reserved: vec![reserved],
            },
            admin,
            changing,
            port,
        })
    }

    fn serve(
        &self,
        kind: Kind,
        count: usize,
        (port, admin): (u16, &Path),
        bounds: Bounds,
    ) -> anyhow::Result<(Program, PathBuf)> {
        let mut text = head(port, admin, bounds)?;
        let mut changing = None;
        if kind == Kind::Components {
            let folder = format!("tenants-{port}");
            let first = self.add_tenants(&folder, count)?;
            changing = Some(first);
            let tenants = quoted(&self.folder().join("tenants/{tenant}"))?;
            text.insert_str(0, &format!("include = [\"{folder}/*.toml\"]\n"));
            write!(
                text,
                "[tenants]\nhosts = [\"{{tenant}}.lab\"]\nfolder = {tenants}\n"
            )?;
        } else {
            self.write_guests(kind, count, &mut text)?;
        }
        let file = self.layout.file(&format!("crowd-{port}.toml"), &text)?;
        let program = self.layout.palisade(&[file.as_os_str()])?;
        Ok((program, changing.unwrap_or(file)))
    }

    /// A file for each tenant; gives the first one's.
    fn add_tenants(&self, folder: &str, count: usize) -> anyhow::Result<PathBuf> {
        let folder = self.folder().join(folder);
        fs::create_dir(&folder).context("host: cannot make a folder for tenants")?;
        for number in 0..count {
            let file = folder.join(format!("{}.toml", name(number)));
            fs::write(&file, TENANT_FILE).context("host: cannot write a tenant's file")?;
        }
        Ok(folder.join(format!("{}.toml", name(0))))
    }

    /// Filters or programs, and a route to each.
    fn write_guests(&self, kind: Kind, count: usize, text: &mut String) -> anyhow::Result<()> {
        let is_filters = kind == Kind::Filters;
        if is_filters {
            let files = quoted(&self.layout.workloads.files_folder())?;
            write!(text, "[services.files]\nfiles = {files}\n\n")?;
        }
        for number in 0..count {
            let name = name(number);
            if is_filters {
                let module = quoted(&self.filter(number))?;
                write!(text, "[filters.{name}]\nmodule = {module}\n\n")?;
            } else {
                let more = if kind == Kind::FrozenPrograms {
                    FREEZE
                } else {
                    ""
                };
                self.write_program(&name, more, text)?;
            }
            let (filters, service) = match is_filters {
                true => (format!("\"{name}\""), "files"),
                false => (String::new(), name.as_str()),
            };
            write!(
                text,
                "[[route]]\nhost = \"{name}.lab\"\nfilters = [{filters}]\nservice = \"{service}\"\n\n"
            )?;
        }
        Ok(())
    }

    /// A program that answers everything, with `more` in its table.
    pub(super) fn write_program(
        &self,
        name: &str,
        more: &str,
        text: &mut String,
    ) -> anyhow::Result<()> {
        let program = quoted(&self.folder().join("replies"))?;
        let folder = quoted(self.folder())?;
        write!(
            text,
            "[services.{name}]\nprogram = [{program}]\nstart-time = \"60s\"\n\
             policy = {{ grants = {{ read = [{folder}] }} }}\n{more}\n"
        )?;
        Ok(())
    }

    /// A server block for each.
    fn nginx(&self, port: u16, count: usize) -> anyhow::Result<(Program, PathBuf)> {
        let program = server_program("nginx").context("host: nginx is gone")?;
        let folder = self.folder().join(format!("nginx-{port}"));
        fs::create_dir(&folder).context("host: cannot make a folder for nginx")?;
        let files = self.layout.workloads.files_folder();
        let blocks: String = (0..count)
            .map(|number| {
                let (listen, name) = (at(port), name(number));
                let root = files.display();
                format!("server {{ listen {listen}; server_name {name}.lab; root {root}; }}\n")
            })
            .collect();
        let file = folder.join("nginx.conf");
        fs::write(&file, nginx_settings(&folder, &blocks))
            .context("host: cannot write the settings of nginx")?;
        let words = [
            program.as_os_str(),
            "-e".as_ref(),
            "stderr".as_ref(),
            "-c".as_ref(),
            file.as_os_str(),
        ];
        let line = words.map(OsString::from).to_vec();
        Ok((Program::new(&ending_with_the_lab(line))?, file))
    }
}

/// What makes a program stand still soon.
const FREEZE: &str = "idle-time = \"1s\"\nrest = \"freeze\"\n";

/// What a tenant of a crowd has.
const TENANT_FILE: &str =
    "[services.site]\ncomponent = \"site.wasm\"\n\n[[route]]\nservice = \"site\"\n";

/// One process; no line for each request; connections are kept for as long as they are asked on, and files open.
pub(super) fn nginx_settings(folder: &Path, servers: &str) -> String {
    let folder = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr crit;\n\
         events {{ worker_connections 4096; }}\nhttp {{\naccess_log off; sendfile on; tcp_nopush on;\n\
         keepalive_requests 1000000000;\nserver_names_hash_max_size 65536;\nserver_names_hash_bucket_size 128;\n\
         open_file_cache max=1000; open_file_cache_valid 30s;\n{temporary}{servers}}}\n"
    )
}

/// What stands before the guests, for so many of them.
fn head(port: u16, admin: &Path, bounds: Bounds) -> anyhow::Result<String> {
    let admin = admin.to_str().context("host: TMPDIR is no text")?;
    let mut text = format!("workers = 1\nadmin = \"unix:{admin}\"\n\n");
    write!(text, "[[listen]]\naddress = \"{}\"\n\n", at(port))?;
    writeln!(text, "[code]\ndisk = \"{DISK}\"")?;
    if let Some(modules) = bounds.modules {
        let mappings = modules * MAPPINGS;
        writeln!(text, "memory = \"{DISK}\"\nmappings = {mappings}")?;
    }
    if let Some(programs) = bounds.programs {
        writeln!(text, "\n[programs]\nmost = {programs}")?;
    }
    text.push('\n');
    Ok(text)
}

/// What the service of this number is called, as a tenant and in its host.
pub(super) fn name(number: usize) -> String {
    format!("s{number}")
}

impl Crowd {
    /// Reads its settings as the server does, and has its code compiled, as a server does that was there before.
    ///
    /// # Errors
    ///
    /// When the server does not take them.
    pub(super) fn check(&self, ground: &Ground<'_>) -> anyhow::Result<()> {
        if self.kind == Kind::Nginx {
            return Ok(());
        }
        let file = ground.folder().join(format!("crowd-{}.toml", self.port));
        let words = ["--check".as_ref(), file.as_os_str()];
        let checked = ground.layout.palisade(&words)?.run();
        checked.with_context(|| format!("{} {}", self.count, self.kind.title()))?;
        Ok(())
    }

    /// A file with the addresses of an object of so many bytes, of these services.
    pub(super) fn list(
        &self,
        ground: &Ground<'_>,
        bytes: usize,
        services: impl Iterator<Item = usize>,
    ) -> anyhow::Result<PathBuf> {
        let base = &self.site.base;
        let line = |number: usize| format!("{base}/{bytes} {}.lab\n", name(number));
        let lines: Vec<String> = services.map(line).collect();
        ensure!(!lines.is_empty(), "wall: a list without an address");
        let name = format!("list-{}-{bytes}-{}", self.port, lines.len());
        ground.layout.file(&name, &lines.concat())
    }

    /// Its one server.
    pub(super) fn server(&mut self) -> anyhow::Result<&mut Server> {
        self.site
            .servers
            .first_mut()
            .context("a crowd without a server")
    }

    /// How long it takes to put a file in the place of one that says the same, until all is as that file says. Where it is a tenant's, the
    /// server is told whose, unless it is to look at all of them.
    pub(super) fn reload(&self, is_of_all: bool) -> anyhow::Result<Duration> {
        let text = fs::read_to_string(&self.changing);
        let text = text.context("host: cannot read settings")? + "# as before\n";
        let next = self.changing.with_extension("next");
        fs::write(&next, text)
            .and_then(|()| fs::rename(&next, &self.changing))
            .context("host: cannot change settings")?;
        let address = match self.kind == Kind::Components && !is_of_all {
            true => format!("/reload?tenant={}", name(0)),
            false => "/reload".to_owned(),
        };
        let began = Instant::now();
        super::look::ask_admin(&self.admin, "POST", &address)?;
        Ok(began.elapsed())
    }
}
