//! The server, whole: a configuration's file, what serves it, and the threads.

use crate::{
    admin::{BrokenTenant, Report},
    aside::Aside,
    aside_thread,
    code::CodeStore,
    config::ConfigFile,
    edge::{Edge, Notice, adopt_inherited},
    generation::{self, Generation, Suspects, Tools, describe},
    kinds::Level,
    log::{Line, Log},
    memory,
    metrics::Registry,
    reload::{Answers, Control, Load, Put, ServeError, Serving, TenantsPut, files_of},
    services::program::Supervisor,
    worker::{self, Workers},
    worker_state::WorkerState,
};
use palisade_engine::guest::{Engine, Timer};
use palisade_filter::{Shared, SharedBounds};
use palisade_policy::{visible, visible_lines};
use palisade_process::{Launcher, Machine};
use palisade_wasm::programs::Programs;
use std::{
    collections::BTreeSet,
    io::Write,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The configuration's file.
    pub file: PathBuf,
    /// Threads that serve, in place of what the file says.
    pub workers: Option<NonZeroUsize>,
    /// Whether a change of a file is a reason to reload.
    pub watch: bool,
    /// Read and load everything, and serve nothing.
    pub check: bool,
}

/// Serves until a signal ends it, or only looks whether it could.
///
/// # Errors
/// Why nothing is served.
pub fn serve(options: &Options) -> Result<ExitCode, ServeError> {
    // Before anything is started that would inherit them.
    adopt_inherited();
    raise_file_limit();
    let file = ConfigFile::read(&options.file)?;
    let server = Server::new(&file, options)?;
    if options.check {
        return check(options, file, &server);
    }
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(ServeError::Signals)?;
    runtime.spawn(memory::give_back());
    let code = runtime.block_on(async {
        let tools = &server.tools;
        let report = Report::new(
            std::path::absolute(&options.file).unwrap_or_else(|_| options.file.clone()),
            Arc::clone(&tools.registry),
            Arc::clone(&tools.shared),
            tools.log.clone(),
        );
        let report = report.with_code(Arc::clone(&tools.code));
        let control = Control::begin(file, server, report, options.watch)?;
        say(&control.describe());
        Ok(control.run().await)
    });
    // A module that is still compiled for a reload is no reason to wait.
    runtime.shutdown_background();
    code
}

/// Says whether everything can be read and loaded.
fn check(options: &Options, file: ConfigFile, server: &Server) -> Result<ExitCode, ServeError> {
    let shown = options.file.to_string_lossy();
    let shown = visible(&shown);
    for warning in &file.warnings {
        say(&format!("{shown}: {warning}"));
    }
    let files = files_of(&options.file, &file);
    server.tools.code.load_all();
    let generation = server.loader(Suspects::All)(file.config, files).map_err(ServeError::Load)?;
    for (tenant, warning) in generation.warnings() {
        say(&format!("tenant {tenant}: {warning}"));
    }
    for broken in &generation.broken {
        say(&format!("tenant {}: {}", broken.tenant, broken.message));
    }
    if !generation.broken.is_empty() {
        let count = generation.broken.len();
        return Err(ServeError::Load(format!(
            "tenants that cannot be served: {count}; the others and {shown} can"
        )));
    }
    say(&format!("{shown}: configuration is valid"));
    Ok(ExitCode::SUCCESS)
}

/// Prints on stderr what acts on no terminal, if there is still somebody to read it. In one piece: the log may be written there too.
pub fn say(text: &str) {
    let line = format!("palisade: {}\n", visible_lines(text));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Connections are descriptors, and the usual limit of 1024 is there for programs that use select(2).
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // Less than the most is still served: clients wait when descriptors have run out.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// The threads, and what they serve with.
struct Server {
    tools: Arc<Tools>,
    workers: Option<Workers<WorkerState>>,
    generation: Option<Arc<Generation>>,
    /// Started here, where nothing has given way to others yet.
    _ticking: Timer,
}

impl Server {
    fn new(file: &ConfigFile, options: &Options) -> Result<Self, ServeError> {
        let failed = |error: &dyn std::error::Error| ServeError::Load(describe(error));
        let launcher = Arc::new(Launcher::new(Machine::probe()));
        let count = worker::count_threads(options.workers.or(file.config.workers));
        let programs = Programs::find(None).map_err(|error| failed(&error))?;
        let supervisor = Supervisor::start(Arc::clone(&launcher), file.config.programs)
            .map_err(|error| failed(&error))?;
        let code = CodeStore::start(&programs, launcher.machine(), None);
        let code = code.map_err(|error| failed(&error))?;
        code.set_limits(&file.config.code, file.config.descriptors());
        let engine = Engine::shared().map_err(|error| failed(&error))?;
        let ticking = engine.keep_ticking().map_err(|error| failed(&error))?;
        let tools = Tools {
            workers: count,
            programs,
            code: Arc::new(code),
            machine: launcher.machine().clone(),
            supervisor,
            caches: None,
            engine,
            shared: Arc::new(Shared::new(SharedBounds::default())),
            registry: Arc::new(Registry::default()),
            aside: Arc::new(Aside::new(aside_thread::start)),
            log: Log::start(&file.config.log)?,
        };
        Ok(Self {
            tools: Arc::new(tools),
            workers: None,
            generation: None,
            _ticking: ticking,
        })
    }

    /// What workers notice goes to the log.
    fn noticed(&self) -> impl Fn(Notice) + Send + Sync + 'static {
        let log = self.tools.log.clone();
        move |notice: Notice| log.write(Line::new(Level::Warn, describe(&notice)))
    }

    /// Forgets what filters shared that are gone. `changed`: whose may be.
    fn forget(&self, generation: &Generation, changed: &BTreeSet<Arc<str>>) {
        let vm_ids: BTreeSet<_> = changed
            .iter()
            .filter_map(|name| generation.tenant(name))
            .flat_map(|tenant| {
                let filters = tenant.config.filters.values();
                filters.map(|filter| (&*tenant.name, &*filter.vm_id))
            })
            .collect();
        self.tools.shared.retain(
            |tenant, vm_id| !changed.contains(tenant) || vm_ids.contains(&(tenant, vm_id)),
            |full| {
                let (tenant, name) = full.split_once('/').unwrap_or(("", full));
                !changed.contains(tenant)
                    || generation
                        .tenant(tenant)
                        .is_some_and(|tenant| tenant.config.filters.contains_key(name))
            },
        );
    }
}

impl Serving for Server {
    type Loaded = Generation;

    fn loader(&self, suspects: Suspects) -> Load<Generation> {
        let (tools, previous) = (Arc::clone(&self.tools), self.generation.clone());
        Box::new(move |config, files| {
            generation::load(config, files, previous.as_deref(), &suspects, &tools)
                .map_err(|error| describe(&error))
        })
    }

    fn put(&mut self, loaded: Generation) -> Result<Put, String> {
        let generation = Arc::new(loaded);
        // What can fail comes before what is seen.
        generation
            .open(self.generation.as_deref())
            .map_err(|error| describe(&error))?;
        let edge = Edge {
            listeners: generation.config.listeners.clone(),
            limits: generation.config.limits.clone(),
        };
        let next = Arc::clone(&generation);
        let noticed = self.noticed();
        let put = match &mut self.workers {
            Some(workers) => workers.swap(next, &edge),
            none => Workers::start(next, &edge, Some(self.tools.workers), noticed).map(|workers| {
                *none = Some(workers);
            }),
        };
        put.map_err(|error| describe(&error))?;
        self.tools.aside.swap(&generation);
        Ok(self.took(generation))
    }

    fn all_answer(&self) -> Answers {
        match &self.workers {
            Some(workers) => Box::pin(workers.all_answer()),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn stop(self, time: Duration) -> usize {
        let cut_off = self.workers.map_or(0, |workers| workers.stop(time));
        self.tools.aside.stop();
        cut_off
    }
}

impl Server {
    fn took(&mut self, generation: Arc<Generation>) -> Put {
        let changed: BTreeSet<_> = match &self.generation {
            Some(previous) => previous.changed_names(&generation).into_iter().collect(),
            None => generation
                .all()
                .map(|tenant| Arc::clone(&tenant.name))
                .collect(),
        };
        self.forget(&generation, &changed);
        let tried = match &self.generation {
            Some(previous) => previous.tried_names(&generation),
            None => generation.broken_names().collect(),
        };
        let mut read: BTreeSet<_> = changed.iter().cloned().chain(tried).collect();
        // Its files are known before it is loaded.
        read.remove("");
        let config = &generation.config;
        let taken = generation.all().map(|tenant| tenant.config.descriptors());
        let programs = generation
            .all()
            .map(|tenant| tenant.config.count_programs());
        let programs = config.programs.descriptors(programs.sum());
        self.tools
            .code
            .set_limits(&config.code, taken.sum::<u64>() + programs);
        generation.begin(self.generation.as_deref(), &self.tools);
        let number = generation.number;
        let tenants = TenantsPut {
            configs: generation
                .tenants
                .iter()
                .map(|tenant| (Arc::clone(&tenant.name), Arc::clone(&tenant.config)))
                .collect(),
            files: generation.files_of(&read),
            broken: generation.broken.iter().map(told).collect(),
            warnings: generation
                .warnings()
                .filter(|(tenant, _)| changed.contains(*tenant))
                .map(|(tenant, warning)| format!("tenant {tenant}: {warning}"))
                .collect(),
            changed,
        };
        self.generation = Some(generation);
        let workers = self.workers.as_ref();
        Put {
            generation: number,
            tenants,
            listeners: workers.map(Workers::addresses).unwrap_or_default(),
            edge: workers.map(Workers::metrics).unwrap_or_default(),
        }
    }
}

fn told(broken: &generation::Broken) -> BrokenTenant {
    BrokenTenant {
        name: Arc::clone(&broken.tenant),
        message: Arc::clone(&broken.message),
        is_served: broken.is_served,
    }
}

/// Reads what was typed after the program's name; `palisade serve` has read it before.
///
/// # Errors
/// What is wrong.
pub fn read_arguments(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Options, String> {
    let mut options = Options {
        file: PathBuf::new(),
        workers: None,
        watch: true,
        check: false,
    };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--no-watch") => options.watch = false,
            Some("--check") => options.check = true,
            Some("--workers") => {
                let count = arguments.next().unwrap_or_default();
                let count = count.to_str().and_then(|count| count.parse().ok());
                options.workers = Some(count.ok_or("--workers takes a number above 0")?);
            }
            Some(flag) if flag.starts_with("--") => return Err(format!("there is no flag {flag}")),
            _ if options.file != Path::new("") => {
                return Err("one file is served: more than one was named".into());
            }
            _ => options.file = argument.into(),
        }
    }
    if options.file == Path::new("") {
        return Err("name the file to serve, as in `palisade serve host.toml`".into());
    }
    Ok(options)
}
