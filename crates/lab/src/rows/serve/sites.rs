//! The servers of these rows: `palisade serve`, nginx, `wasmtime serve`, a program of ours. Each has one thread, so
//! that one processor is all that any of them can use, and serves the same files.

use crate::{
    Warning,
    network::{Port, Transport},
    program::{Program, ending_with_the_lab},
    rows::Tools,
    server::{Answer, Readiness, Running, Server},
    subjects::{LIBEXEC, on_path, server_program},
    workloads::Workloads,
};
use anyhow::Context;
use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs::{self, DirBuilder},
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rows) enum Who {
    /// `palisade serve`.
    Serve,
    /// The same, whose program has a listener of its own.
    ServeDirect,
    /// nginx, which is bare or has a module.
    Nginx(Option<Module>),
    /// nginx in front of the program.
    NginxProxy,
    /// `wasmtime serve`.
    Wasmtime(Isolation),
    /// A server of ours around the engine alone: `palisade-lab-calls answers`.
    Engine,
    /// The program itself, with no wall.
    Program,
    /// The program of pictures, with no wall.
    Pictures,
}

/// Whether one instance has all requests or each has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rows) enum Isolation {
    Kept,
    Fresh,
}

/// A language that nginx has filters in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rows) enum Module {
    Njs,
    Lua,
}

/// A server, and others behind it.
#[derive(Debug)]
pub(in crate::rows) struct Site {
    /// In the order in which they start.
    pub(in crate::rows) servers: Vec<Server>,
    /// `http://127.0.0.1:8080`
    pub(in crate::rows) base: String,
    /// The servers' ports, which are nobody else's while they are not up.
    pub(in crate::rows) _reserved: Vec<Port>,
}

impl Site {
    /// Starts everything; who is started is ended when it is dropped.
    pub(super) fn start(&mut self) -> anyhow::Result<Vec<Running>> {
        self.servers.iter_mut().map(Server::start).collect()
    }
}

/// What sites are made of.
pub(super) struct Layout<'a> {
    pub(super) tools: &'a Tools,
    pub(super) workloads: &'a Workloads,
    /// The tables of the file that `palisade serve` reads, but for the listener.
    pub(super) tables: fn(&Layout<'_>) -> anyhow::Result<String>,
}

/// The component, where it has one.
pub(super) const COMPONENT_FILE: &str = "served.component.wasm";

/// Names a folder for compiled code that outlives a row: to compile ten thousand guests takes minutes.
const KEPT_CODE: &str = "PALISADE_LAB_CODE";

/// What `wasmtime serve` is fastest with: it gives memory, tables and stacks of one instance to the next one without a
/// call of the kernel's, up to these sizes.
const WASMTIME_TUNED: [&str; 4] = [
    "-Opooling-allocator",
    "-Opooling-memory-keep-resident=1048576",
    "-Opooling-table-keep-resident=65536",
    "-Opooling-async-stack-keep-resident=65536",
];
/// Its instances are for one request by default.
const WASMTIME_KEEPS: [&str; 2] = ["--max-instance-reuse-count", "1000000000"];

/// What a server is asked to see whether it is there.
const QUESTION: &[u8] = b"GET /1 HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n";
pub(super) const ANSWER: &[u8] = b"HTTP/1.1 200";
/// Of a program at its own socket: there is nobody else who could answer.
pub(super) const ANY_ANSWER: &[u8] = b"HTTP/1.1 ";

impl Layout<'_> {
    /// A site on a port of its own, or why there is none here.
    pub(super) fn site(&self, who: Who) -> anyhow::Result<Result<Site, Warning>> {
        if let Some(absent) = who.absent() {
            return Ok(Err(absent));
        }
        // The second is that of what stands before or behind a server.
        let reserved = [Port::find(Transport::Tcp)?, Port::find(Transport::Tcp)?];
        let [port, other] = [&reserved[0], &reserved[1]].map(|one| one.number);
        let servers = match who {
            Who::Serve => vec![self.serve(port, None)?],
            Who::ServeDirect => vec![self.serve(other, Some(port))?],
            Who::Nginx(module) => vec![self.nginx(port, module, None)?],
            Who::NginxProxy => vec![self.program(other)?, self.nginx(port, None, Some(other))?],
            Who::Wasmtime(isolation) => vec![self.wasmtime(port, isolation)?],
            Who::Engine => vec![self.engine(port)?],
            Who::Program => vec![self.program(port)?],
            Who::Pictures => vec![self.pictures(port)?],
        };
        Ok(Ok(Site {
            servers,
            base: format!("http://{}", at(port)),
            _reserved: reserved.into(),
        }))
    }

    /// With one worker. `direct` is the port that the program listens at itself.
    fn serve(&self, port: u16, direct: Option<u16>) -> anyhow::Result<Server> {
        let mut text = format!("workers = 1\n\n[[listen]]\naddress = \"{}\"\n\n", at(port));
        text += &(self.tables)(self)?;
        if let Some(direct) = direct {
            let service = "[services.program]\n";
            let with_listener = format!("{service}direct = \"{}\"\n", at(direct));
            text = text.replace(service, &with_listener);
        }
        let file = self.file(&format!("serve-{port}.toml"), &text)?;
        let (port, answer) = direct.map_or((port, ANSWER), |direct| (direct, ANY_ANSWER));
        let program = self.palisade(&[file.as_os_str()])?;
        Ok(server(program, port, (QUESTION, answer)))
    }

    /// `palisade serve` with these words behind it. Compiled code lies beside the workloads, or in `PALISADE_LAB_CODE`,
    /// where other rows find it.
    pub(super) fn palisade(&self, words: &[&OsStr]) -> anyhow::Result<Program> {
        let palisade = self.tools.palisade.program();
        let lead = [palisade.as_os_str(), "serve".as_ref()];
        let line = lead.iter().chain(words).map(OsString::from);
        let mut program = Program::new(&ending_with_the_lab(line.collect()))?;
        let given = env::var_os(KEPT_CODE).map(PathBuf::from);
        let cache = given.unwrap_or_else(|| self.workloads.folder().join("cache"));
        if !cache.exists() {
            let made = DirBuilder::new().mode(0o700).create(&cache);
            made.context("host: cannot make a folder for compiled code")?;
        }
        let command = program.command();
        command.env("XDG_CACHE_HOME", cache);
        command.envs(env::var_os(LIBEXEC).map(|folder| (LIBEXEC, folder)));
        Ok(program)
    }

    fn nginx(
        &self,
        port: u16,
        module: Option<Module>,
        behind: Option<u16>,
    ) -> anyhow::Result<Server> {
        let program = server_program("nginx").context("host: nginx is gone")?;
        let folder = self.workloads.folder().join(format!("nginx-{port}"));
        fs::create_dir(&folder).context("host: cannot make a folder for nginx")?;
        let files = self.workloads.files_folder();
        let settings = NginxSettings {
            port,
            module,
            behind,
            folder: &folder,
            files: &files,
        };
        fs::write(folder.join("filter.js"), NJS_FILTER)
            .and_then(|()| fs::write(folder.join("nginx.conf"), settings.text()?.as_bytes()))
            .context("host: cannot write the settings of nginx")?;
        let conf = folder.join("nginx.conf");
        let line = [
            program.as_os_str(),
            "-e".as_ref(),
            "stderr".as_ref(),
            "-c".as_ref(),
            conf.as_os_str(),
        ];
        self.server(&line.map(OsString::from), port, ANSWER)
    }

    fn wasmtime(&self, port: u16, isolation: Isolation) -> anyhow::Result<Server> {
        let program = on_path("wasmtime").context("host: wasmtime is gone")?;
        let address = at(port).to_string();
        let component = self.component();
        let lead = [program.as_os_str(), "serve".as_ref()].into_iter();
        let tuned = WASMTIME_TUNED.iter().map(OsStr::new);
        let kept = match isolation {
            Isolation::Fresh => &[][..],
            Isolation::Kept => &WASMTIME_KEEPS,
        };
        let what = ["--addr".as_ref(), address.as_ref(), component.as_os_str()];
        let line = lead
            .chain(tuned)
            .chain(kept.iter().map(OsStr::new))
            .chain(what);
        let line: Vec<_> = line.map(OsString::from).collect();
        self.server(&line, port, ANSWER)
    }

    /// With both filters.
    fn engine(&self, port: u16) -> anyhow::Result<Server> {
        let program = self.tools.palisade.companion("palisade-lab-calls")?;
        let words = [program.into(), "answers".into(), port.to_string().into()];
        let filters = ["null", "header"].map(|name| self.filter(name).into_os_string());
        let line: Vec<OsString> = words.into_iter().chain(filters).collect();
        self.server(&line, port, ANSWER)
    }

    /// Where a filter is.
    pub(super) fn filter(&self, name: &str) -> PathBuf {
        self.workloads.folder().join(format!("{name}.wasm"))
    }

    /// Where the component is.
    pub(super) fn component(&self) -> PathBuf {
        self.workloads.folder().join(COMPONENT_FILE)
    }

    pub(super) fn program(&self, port: u16) -> anyhow::Result<Server> {
        let program = self.workloads.folder().join("replies");
        let line = [program.into_os_string()].into_iter().chain(words_of(port));
        self.server(&line.collect::<Vec<_>>(), port, ANY_ANSWER)
    }

    fn pictures(&self, port: u16) -> anyhow::Result<Server> {
        let [listens, server] =
            ["listens", "server"].map(|name| self.workloads.folder().join(name));
        let lead = [listens.into_os_string()].into_iter();
        let line = lead.chain(words_of(port)).chain([server.into_os_string()]);
        self.server(&line.collect::<Vec<_>>(), port, ANY_ANSWER)
    }

    fn server(
        &self,
        line: &[OsString],
        port: u16,
        answer: &'static [u8],
    ) -> anyhow::Result<Server> {
        let program = Program::new(&ending_with_the_lab(line.to_vec()))?;
        Ok(server(program, port, (QUESTION, answer)))
    }

    /// Writes a file among the workloads.
    pub(super) fn file(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.workloads.folder().join(name);
        fs::write(&path, text).with_context(|| format!("host: cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// It is there once it answers a question so.
pub(super) fn server(
    program: Program,
    port: u16,
    (question, answer): (&'static [u8], &'static [u8]),
) -> Server {
    Server {
        program,
        readiness: Readiness::Answers(Answer {
            transport: Transport::Tcp,
            address: at(port),
            namespace: None,
            question,
            answer,
        }),
    }
}

pub(super) fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Where to listen, as our programs take it: `127.0.0.1 8080`.
fn words_of(port: u16) -> [OsString; 2] {
    let address = at(port);
    [address.ip().to_string(), address.port().to_string()].map(OsString::from)
}

/// A path as TOML writes it, whose strings are JSON's as far as paths go.
pub(super) fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path
        .to_str()
        .context("host: the folder for temporary files has no name in UTF-8; set TMPDIR")?;
    serde_json::to_string(text).context("host: cannot write a path")
}

impl Who {
    /// Why it is not here.
    pub(super) fn absent(self) -> Option<Warning> {
        let absent = |program, install| Some(Warning::ProgramAbsent { program, install });
        let has_nginx = server_program("nginx").is_some();
        match self {
            Self::Nginx(_) | Self::NginxProxy if !has_nginx => {
                absent("nginx", "apt-get install nginx-light")
            }
            Self::Nginx(Some(module)) if module.files().is_none() => absent(
                match module {
                    Module::Njs => "nginx's module for njs",
                    Module::Lua => "nginx's module for Lua",
                },
                match module {
                    Module::Njs => "apt-get install libnginx-mod-http-js",
                    Module::Lua => "apt-get install libnginx-mod-http-lua",
                },
            ),
            Self::Wasmtime(_) if on_path("wasmtime").is_none() => {
                absent("wasmtime", "cargo install wasmtime-cli")
            }
            _ => None,
        }
    }

    /// Those of one family are asked in turn: they are of one kind, and stay out of the others' caches.
    pub(super) fn family(self) -> &'static str {
        match self {
            Self::Serve | Self::ServeDirect => "palisade",
            Self::Nginx(_) | Self::NginxProxy => "nginx",
            Self::Wasmtime(_) => "wasmtime",
            Self::Engine => "engine",
            Self::Program | Self::Pictures => "program",
        }
    }
}

impl Module {
    /// The modules that nginx must load, where all of them are there.
    pub(super) fn files(self) -> Option<Vec<PathBuf>> {
        const FOLDERS: [&str; 3] = [
            "/usr/lib/nginx/modules",
            "/usr/lib64/nginx/modules",
            "/etc/nginx/modules",
        ];
        let names: &[&str] = match self {
            Self::Njs => &["ngx_http_js_module.so"],
            // The second needs the first.
            Self::Lua => &["ndk_http_module.so", "ngx_http_lua_module.so"],
        };
        let places = |folder: &&str| {
            names
                .iter()
                .map(|name| Path::new(folder).join(name))
                .collect()
        };
        let mut places = FOLDERS.iter().map(places);
        places.find(|files: &Vec<PathBuf>| files.iter().all(|file| file.is_file()))
    }

    /// What adds a field and takes another away: the same as the filter for `palisade serve`.
    fn filter(self) -> &'static str {
        match self {
            Self::Njs => "js_header_filter filter.add;",
            Self::Lua => {
                "header_filter_by_lua_block { ngx.header[\"x-filter\"] = \"palisade\" ngx.header[\"x-powered-by\"] = nil }"
            }
        }
    }
}

const NJS_FILTER: &str = "export default { add: function (r) { r.headersOut[\"x-filter\"] = \"palisade\"; delete r.headersOut[\"x-powered-by\"]; } };\n";

struct NginxSettings<'a> {
    port: u16,
    module: Option<Module>,
    /// The port that it hands requests on to.
    behind: Option<u16>,
    folder: &'a Path,
    files: &'a Path,
}

impl NginxSettings<'_> {
    fn text(&self) -> std::io::Result<String> {
        let mut text = String::new();
        let write = self.write(&mut text);
        write.map_err(std::io::Error::other)?;
        Ok(text)
    }

    /// One process; no line for each request; connections are kept for as long as they are asked on, and files open.
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { folder, files, .. } = self;
        let folder = folder.display();
        writeln!(text, "daemon off;\nmaster_process off;\npid {folder}/pid;")?;
        writeln!(text, "error_log stderr crit;")?;
        for module in self.module.and_then(Module::files).into_iter().flatten() {
            writeln!(text, "load_module {};", module.display())?;
        }
        writeln!(text, "events {{ worker_connections 4096; }}\nhttp {{")?;
        writeln!(text, "access_log off; sendfile on; tcp_nopush on;")?;
        writeln!(text, "keepalive_requests 1000000000;")?;
        writeln!(text, "open_file_cache max=1000; open_file_cache_valid 30s;")?;
        for temporary in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            writeln!(text, "{temporary}_temp_path {folder}/{temporary};")?;
        }
        if self.module == Some(Module::Njs) {
            writeln!(text, "js_path {folder}; js_import filter from filter.js;")?;
        }
        if let Some(behind) = self.behind {
            let behind = at(behind);
            writeln!(
                text,
                "upstream program {{ server {behind}; keepalive 64; keepalive_requests 1000000000; }}"
            )?;
        }
        writeln!(text, "server {{ listen {};", at(self.port))?;
        match self.behind {
            Some(_) => writeln!(
                text,
                "location / {{ proxy_pass http://program; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}"
            )?,
            None => {
                let filter = self.module.map_or("", Module::filter);
                writeln!(text, "location / {{ root {}; {filter} }}", files.display())?;
            }
        }
        writeln!(text, "}} }}")
    }
}
