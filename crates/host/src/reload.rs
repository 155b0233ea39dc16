//! From one configuration to the next: the main thread.
//!
//! ```text
//!  SIGHUP, POST /reload, a file that changed
//!      └─▶ read ──▶ load (a thread of its own) ──▶ put in place: workers, log, admin socket
//!            └──────────┴──── cannot be: the old one serves on, and everybody is told why
//! ```
//!
//! This thread answers no requests of clients. What takes long, compiling above all, is done beside it, so
//! that it hears signals and the admin socket at any time.

mod notify;
mod signals;
mod tenants;
#[cfg(test)]
mod tests;
mod watch;
mod watchdog;

pub use watchdog::Answers;

pub use tenants::TenantsPut;

use crate::{
    admin::{
        Admin, AdminError, AdminListener, Asked, Reloaded, Report, Token, TokenError, guests_of,
        routes_of,
    },
    config::{Address, Config, ConfigError, ConfigFile, ServiceKind},
    edge::EdgeMetrics,
    generation::Suspects,
    kinds::Level,
    log::{Line, LogError, Prepared},
    memory,
};
use signals::{Heard, Signals};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{sync::mpsc, task::JoinHandle};
use watch::Watch;
use watchdog::Watchdog;

/// Those who can wait for a reload at one time; more wait to be allowed to.
const MOST_ASKED: usize = 16;
/// How long the log may take to be written at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What loads a configuration, beside what serves.
pub type Load<L> = Box<dyn FnOnce(Config, Vec<PathBuf>) -> Result<L, String> + Send>;

/// What is steered: workers, and what they serve with.
pub trait Serving {
    /// A configuration with all that it needs, ready to be put in place.
    type Loaded: Send + 'static;

    /// What loads the next configuration, with a look at what these tenants have. It changes nothing of what serves, and takes as long as it takes.
    fn loader(&self, suspects: Suspects) -> Load<Self::Loaded>;

    /// Puts a configuration in place, and returns when every worker has it.
    ///
    /// # Errors
    /// Why the old one still serves.
    fn put(&mut self, loaded: Self::Loaded) -> Result<Put, String>;

    /// What is over once every worker has had its turn, and never if one hangs.
    fn all_answer(&self) -> Answers;

    /// Lets requests under way finish for at most `time`; gives the number of connections cut off.
    fn stop(self, time: Duration) -> usize;
}

/// What serves now.
#[derive(Debug, Default)]
pub struct Put {
    /// Its number, from 1.
    pub generation: u64,
    /// Where requests come in, in the configuration's order, with the ports that they really are.
    pub listeners: Vec<Address>,
    /// Figures of the workers' connections.
    pub edge: Vec<Arc<EdgeMetrics>>,
    /// Those whose files the main file includes.
    pub tenants: TenantsPut,
}

/// The server cannot begin, or cannot do what it was told.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum ServeError {
    #[error("policy: {0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Load(String),
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("{0}")]
    Admin(#[from] AdminError),
    #[error("`admin`: {0}")]
    Token(#[from] TokenError),
    #[error("host: cannot hear signals: {0}")]
    Signals(#[source] std::io::Error),
    #[error("host: the thread that loads the configuration broke off")]
    Broken,
}

/// A configuration, read and loaded, and what else changes with it.
struct Next<L> {
    file: ConfigFile,
    loaded: L,
}

/// What of the admin socket changes.
enum NextAdmin {
    /// It is another one, or there is none any more.
    Other(Option<AdminListener>),
    /// It is the same, with this token.
    Token(Option<Token>),
}

/// The server as its main thread has it.
pub struct Control<S: Serving> {
    path: PathBuf,
    serving: S,
    report: Arc<Report>,
    admin: Admin,
    asked: mpsc::Receiver<Asked>,
    listener: Option<AdminListener>,
    watch: Option<Watch>,
    config: Config,
    /// Heard from the beginning on: who knows that the server is ready may send one at once.
    signals: Signals,
    loading: Option<Loading<S::Loaded>>,
    /// A reload is wanted once the present one has ended.
    wanted: Option<Wish>,
    /// Whose files reloads that failed have looked at: what they have now does not serve yet.
    unserved: Suspects,
    /// Tenants of which there may be figures of what is gone.
    leaving: BTreeSet<Arc<str>>,
}

/// A reload under way.
struct Loading<L> {
    thread: JoinHandle<Result<Next<L>, ServeError>>,
    wish: Wish,
}

/// What a reload is for.
struct Wish {
    /// Whose files it looks at.
    suspects: Suspects,
    /// Who waits for it.
    waiting: Vec<Asked>,
}

impl Wish {
    /// Nobody's who waits.
    fn of(suspects: Suspects) -> Self {
        Self {
            suspects,
            waiting: Vec::new(),
        }
    }

    fn add(&mut self, other: Self) {
        self.suspects.add(other.suspects);
        self.waiting.extend(other.waiting);
    }
}

impl From<Asked> for Wish {
    fn from(asked: Asked) -> Self {
        Self {
            suspects: asked.suspects.clone(),
            waiting: vec![asked],
        }
    }
}

impl<S: Serving> Control<S> {
    /// Puts the first configuration in place and opens the admin socket. From then on the server serves.
    ///
    /// # Errors
    /// Why it does not.
    pub fn begin(
        file: ConfigFile,
        mut serving: S,
        report: Report,
        is_watching: bool,
    ) -> Result<Self, ServeError> {
        let signals = Signals::hear()?;
        let report = Arc::new(report);
        let (ask, asked) = mpsc::channel(MOST_ASKED);
        let admin = Admin::new(report.clone(), ask);
        let mut watch = is_watching.then(|| open_watch(&report)).flatten();
        if let Some(watch) = &mut watch {
            watch.follow(files_of(&report.file, &file));
            watch.follow_includes(&file.config.tenancy.include);
        }
        let load = serving.loader(Suspects::All);
        let files = files_of(&report.file, &file);
        let loaded = load(file.config.clone(), files).map_err(ServeError::Load)?;
        let put = serving.put(loaded).map_err(ServeError::Load)?;
        let mut control = Self {
            path: report.file.clone(),
            serving,
            report,
            admin,
            asked,
            listener: None,
            watch,
            config: Config::default(),
            signals,
            loading: None,
            wanted: None,
            unserved: Suspects::none(),
            leaving: BTreeSet::new(),
        };
        control.listener = control.open_listener(&file.config)?;
        control.took(file, put);
        Ok(control)
    }

    /// One line: what is served where.
    pub fn describe(&self) -> String {
        let now = self.report.now();
        let listeners = match now.listeners.as_slice() {
            [] => "no listener of its own".to_owned(),
            listeners => listeners.join(", "),
        };
        let admin = match &self.listener {
            Some(listener) => format!("; admin at {}", listener.address()),
            None => String::new(),
        };
        let (workers, routes) = (now.edge.len(), self.config.routes.len());
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let tenants = match self.config.tenancy.include.is_empty() {
            true => String::new(),
            false => format!(
                ", {} tenant{}",
                now.tenants.len(),
                plural(now.tenants.len())
            ),
        };
        format!(
            "serving {} at {listeners} ({routes} route{}, {workers} worker{}{tenants}){admin}",
            self.path.display(),
            plural(routes),
            plural(workers),
        )
    }

    /// Serves until a signal ends it.
    pub async fn run(mut self) -> ExitCode
    where
        S: Send + 'static,
    {
        notify::ready(&self.status(None));
        let mut watchdog = Watchdog::new(notify::watchdog_time(), notify::alive);
        loop {
            tokio::select! {
                heard = self.signals.next() => match heard {
                    Heard::Reload => {
                        self.report.log.reopen();
                        self.reload(Wish::of(Suspects::All));
                    }
                    Heard::Reopen => self.report.log.reopen(),
                    Heard::End(_) => break,
                },
                Some(asked) = self.asked.recv() => self.reload(asked.into()),
                suspects = changed(&mut self.watch) => self.reload(Wish::of(suspects)),
                next = loaded(&mut self.loading) => self.finish(next),
                () = watchdog.watch(&self.serving, &self.report.log) => {}
            }
        }
        self.end().await
    }

    /// What a service manager shows people: what serves, or why nothing newer does.
    fn status(&self, error: Option<&str>) -> String {
        let generation = self.report.now().generation;
        let file = self.path.display();
        match error {
            None => format!("Serving {file}, generation {generation}"),
            Some(error) => {
                format!("Serving generation {generation}: the last reload failed: {error}")
            }
        }
    }

    /// Begins a reload, or notes that one is wanted when the present one has ended.
    fn reload(&mut self, mut wish: Wish) {
        if self.loading.is_some() {
            match &mut self.wanted {
                Some(wanted) => wanted.add(wish),
                none => *none = Some(wish),
            }
            return;
        }
        wish.suspects.add(self.unserved.take());
        notify::reloading();
        let known = self.watch.as_ref().map(Watch::stamps);
        let read = ConfigFile::read(&self.path);
        if let (Some(watch), Some(known)) = (&mut self.watch, known) {
            let files = read.as_ref().ok().map(|file| files_of(&self.path, file));
            watch.follow_on(files, &known);
            if let Ok(file) = &read {
                watch.follow_includes(&file.config.tenancy.include);
            }
        }
        let load = self.serving.loader(wish.suspects.clone());
        let path = self.path.clone();
        let thread = tokio::task::spawn_blocking(move || {
            let file = read?;
            let files = files_of(&path, &file);
            let loaded = load(file.config.clone(), files).map_err(ServeError::Load)?;
            Ok(Next { file, loaded })
        });
        self.loading = Some(Loading { thread, wish });
    }

    /// Puts what was loaded in place, or tells why not.
    fn finish(&mut self, (next, wish): (Result<Next<S::Loaded>, ServeError>, Wish)) {
        let error = match next.and_then(|next| self.put(next)) {
            Ok(()) => None,
            Err(error) => {
                self.unserved.add(wish.suspects);
                Some(self.failed(&error))
            }
        };
        memory::has_ended();
        notify::ready(&self.status(error.as_deref()));
        let reloaded = {
            let now = self.report.now();
            Reloaded {
                generation: now.generation,
                warnings: now.warnings.clone(),
                error,
            }
        };
        for Asked { suspects, answer } in wish.waiting {
            let mut reloaded = reloaded.clone();
            let names = suspects.names().filter(|_| reloaded.error.is_none());
            let gone = names.filter(|name| !self.is_tenant(name));
            let warnings = gone.map(|name| format!("policy: there is no tenant {name}"));
            reloaded.warnings.extend(warnings);
            // Who does not wait any more need not be told.
            let _ = answer.send(reloaded);
        }
        if let Some(wanted) = self.wanted.take() {
            self.reload(wanted);
        }
    }

    /// Whether there is a file of this tenant's, served or not.
    fn is_tenant(&self, name: &str) -> bool {
        let now = self.report.now();
        let served = now
            .tenants
            .binary_search_by(|(tenant, _)| (**tenant).cmp(name));
        served.is_ok() || now.broken.iter().any(|broken| *broken.name == *name)
    }

    /// All or nothing: what can fail comes before what is seen.
    fn put(&mut self, next: Next<S::Loaded>) -> Result<(), ServeError> {
        let Next { file, loaded } = next;
        let log = self.report.log.prepare(&file.config.log)?;
        let admin = self.prepare_admin(&file.config)?;
        let put = self.serving.put(loaded).map_err(ServeError::Load)?;
        self.apply(log, admin);
        self.took(file, put);
        Ok(())
    }

    /// A socket that stays is kept, whatever becomes of its token.
    fn prepare_admin(&self, config: &Config) -> Result<NextAdmin, ServeError> {
        let address = |config: &Config| config.admin.as_ref().map(|admin| admin.address.clone());
        if address(config) != address(&self.config) {
            return Ok(NextAdmin::Other(self.open_listener(config)?));
        }
        let token = config.admin.as_ref().map(Token::of).transpose()?;
        Ok(NextAdmin::Token(token.flatten()))
    }

    fn apply(&mut self, log: Prepared, admin: NextAdmin) {
        self.report.log.apply(log);
        match (admin, &self.listener) {
            (NextAdmin::Other(listener), _) => self.listener = listener,
            (NextAdmin::Token(token), Some(listener)) => listener.set_token(token),
            (NextAdmin::Token(_), None) => {}
        }
    }

    /// Notes what serves now.
    fn took(&mut self, file: ConfigFile, put: Put) {
        let tenants = put.tenants;
        self.forget(&file.config, &tenants);
        self.follow_tenants(tenants.files);
        let mut warnings = file.warnings;
        let is_first = self.report.now().generation == 0;
        if !is_first && file.config.workers != self.config.workers {
            warnings.push("`workers` has changed: the number of threads stays until the server is started anew".into());
        }
        for warning in &warnings {
            self.say(Line::new(
                Level::Warn,
                format!("{}: {warning}", self.path.display()),
            ));
        }
        for warning in tenants.warnings {
            self.say(Line::new(Level::Warn, warning));
        }
        self.tell_broken(&tenants.broken);
        {
            let mut now = self.report.now();
            now.generation = put.generation;
            now.since = Some(SystemTime::now());
            now.listeners = listeners_of(&file.config, &put.listeners);
            now.edge = put.edge;
            now.warnings = warnings;
            now.guests = guests_of("", &file.config).collect();
            now.routes = routes_of("", &file.config).collect();
            now.tenants = tenants.configs;
            now.broken = tenants.broken;
            now.metrics = file.config.metrics;
            now.last_failure = None;
            now.reloads += u64::from(!is_first);
        }
        self.config = file.config;
        let what = if is_first { "serving" } else { "reloaded" };
        self.say(Line::new(Level::Info, what).with("generation", put.generation));
    }

    /// Notes why the old configuration serves on.
    fn failed(&mut self, error: &ServeError) -> String {
        let message = error.to_string();
        let generation = {
            let mut now = self.report.now();
            now.failed_reloads += 1;
            now.last_failure = Some((SystemTime::now(), message.clone()));
            now.generation
        };
        let line = Line::new(
            Level::Error,
            "reload failed: the old configuration serves on",
        );
        self.say(line.with("generation", generation).with("error", &*message));
        message
    }

    fn say(&self, line: Line) {
        self.report.log.write(line);
    }

    fn open_listener(&self, config: &Config) -> Result<Option<AdminListener>, ServeError> {
        let open = |admin| AdminListener::open(admin, self.admin.clone());
        Ok(config.admin.as_ref().map(open).transpose()?)
    }

    /// Lets requests under way finish. A second signal ends the server at once.
    async fn end(self) -> ExitCode
    where
        S: Send + 'static,
    {
        let Self {
            serving,
            report,
            config,
            listener,
            mut signals,
            ..
        } = self;
        notify::stopping();
        report.log.write(Line::new(Level::Info, "stopping"));
        let time = config.limits.stop_time;
        let stopping = tokio::task::spawn_blocking(move || serving.stop(time));
        let code = tokio::select! {
            cut_off = stopping => {
                let cut_off = cut_off.unwrap_or_default() as u64;
                report.log.write(Line::new(Level::Info, "stopped").with("cut_off", cut_off));
                ExitCode::SUCCESS
            }
            signal = signals.second_end() => {
                report.log.write(Line::new(Level::Warn, "stopped at once: a second signal came"));
                ExitCode::from(128 + signal)
            }
        };
        drop(listener);
        report.log.flush(LAST_WORDS);
        code
    }
}

/// Waits for a change of files, for ever where none are watched; gives the tenants whose files they are.
async fn changed(watch: &mut Option<Watch>) -> Suspects {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// Waits for the reload under way, for ever where there is none.
async fn loaded<L>(loading: &mut Option<Loading<L>>) -> (Result<Next<L>, ServeError>, Wish) {
    let Some(present) = loading else {
        return std::future::pending().await;
    };
    let next = (&mut present.thread).await;
    let next = next.unwrap_or(Err(ServeError::Broken));
    let wish = loading.take().map(|loading| loading.wish);
    (next, wish.unwrap_or_else(|| Wish::of(Suspects::All)))
}

fn open_watch(report: &Report) -> Option<Watch> {
    let opened = Watch::open();
    if let Err(error) = &opened {
        let line = Line::new(Level::Warn, "changes of files are not seen: reload by hand");
        report.log.write(line.with("error", &*error.to_string()));
    }
    opened.ok()
}

/// Every file that the server was made from, but for those that it serves.
pub(crate) fn files_of(path: &Path, file: &ConfigFile) -> Vec<PathBuf> {
    let config = &file.config;
    let modules = config.filters.values().map(|filter| &filter.module);
    let components = config
        .services
        .values()
        .filter_map(|service| match &service.kind {
            ServiceKind::Component(component) => Some(&component.component),
            _ => None,
        });
    let tls = config.listeners.iter().flat_map(|listener| &listener.tls);
    let tls = tls.flat_map(|tls| [&tls.certificate, &tls.key]);
    let own = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let named = file
        .files
        .iter()
        .chain(modules)
        .chain(components)
        .chain(tls)
        .chain(config.token_file());
    std::iter::once(own).chain(named.cloned()).collect()
}

/// Where requests come in, as a client is told it.
fn listeners_of(config: &Config, actual: &[Address]) -> Vec<String> {
    let listeners = config.listeners.iter().zip(actual);
    listeners
        .map(
            |(listener, address)| match (address, !listener.tls.is_empty()) {
                (Address::Internet(address), false) => format!("http://{address}"),
                (Address::Internet(address), true) => format!("https://{address}"),
                (unix, false) => unix.to_string(),
                (unix, true) => format!("{unix} (TLS)"),
            },
        )
        .collect()
}
