//! The `palisade` command as its users meet it: every case runs as root and as an ordinary user.
//!
//! Started by root, the suite drops to `nobody` for the second half; started by anybody else, the
//! first half is reported as ignored.

mod cli {
    pub(crate) mod ask;
    pub(crate) mod ask_files;
    pub(crate) mod bad_input;
    pub(crate) mod bench;
    pub(crate) mod cleanup;
    pub(crate) mod confined;
    pub(crate) mod cost;
    pub(crate) mod denials;
    pub(crate) mod environment;
    pub(crate) mod events;
    pub(crate) mod exit_codes;
    pub(crate) mod explain;
    pub(crate) mod files;
    pub(crate) mod fixture;
    pub(crate) mod grant;
    pub(crate) mod grant_files;
    pub(crate) mod guard;
    pub(crate) mod hide;
    pub(crate) mod hints;
    pub(crate) mod init;
    pub(crate) mod jobs;
    pub(crate) mod kept_files;
    pub(crate) mod learn;
    pub(crate) mod limits;
    pub(crate) mod meeting;
    pub(crate) mod network;
    pub(crate) mod observed;
    pub(crate) mod operate;
    pub(crate) mod outside;
    pub(crate) mod person;
    pub(crate) mod printed;
    pub(crate) mod programs;
    pub(crate) mod protect;
    pub(crate) mod published;
    pub(crate) mod real_wasm;
    pub(crate) mod report;
    pub(crate) mod requests;
    pub(crate) mod roots;
    pub(crate) mod schema;
    pub(crate) mod second_names;
    pub(crate) mod serve;
    pub(crate) mod starter;
    pub(crate) mod stories;
    pub(crate) mod stream_kinds;
    pub(crate) mod streams;
    pub(crate) mod terminal;
    pub(crate) mod tiers;
    pub(crate) mod wasm;
    pub(crate) mod watch;
    pub(crate) mod why;
    pub(crate) mod words;
}

use cli::{
    cleanup,
    fixture::{Case, Fixture, Installed, User},
    network, real_wasm,
};
use libtest_mimic::{Arguments, Trial};
use signal_hook::{
    consts::{SIGINT, SIGQUIT},
    flag,
};
use std::{
    num::NonZero,
    sync::{Arc, atomic::AtomicBool},
};

/// All cases, by the module they stand in.
const MODULES: &[(&str, &[Case])] = &[
    ("ask", cli::ask::CASES),
    ("ask_files", cli::ask_files::CASES),
    ("bad_input", cli::bad_input::CASES),
    ("bench", cli::bench::CASES),
    ("cleanup", cleanup::CASES),
    ("confined", cli::confined::CASES),
    ("cost", cli::cost::CASES),
    ("denials", cli::denials::CASES),
    ("environment", cli::environment::CASES),
    ("events", cli::events::CASES),
    ("exit_codes", cli::exit_codes::CASES),
    ("explain", cli::explain::CASES),
    ("files", cli::files::CASES),
    ("grant", cli::grant::CASES),
    ("grant_files", cli::grant_files::CASES),
    ("guard", cli::guard::CASES),
    ("hide", cli::hide::CASES),
    ("hints", cli::hints::CASES),
    ("init", cli::init::CASES),
    ("jobs", cli::jobs::CASES),
    ("kept_files", cli::kept_files::CASES),
    ("learn", cli::learn::CASES),
    ("limits", cli::limits::CASES),
    ("meeting", cli::meeting::CASES),
    ("network_calls", network::calls::CASES),
    ("network_grants", network::grants::CASES),
    ("network_programs", network::programs::CASES),
    ("network_servers", network::servers::CASES),
    ("printed", cli::printed::CASES),
    ("observed", cli::observed::CASES),
    ("operate", cli::operate::CASES),
    ("outside", cli::outside::CASES),
    ("programs", cli::programs::CASES),
    ("protect", cli::protect::CASES),
    ("real_wasm", real_wasm::CASES),
    ("report", cli::report::CASES),
    ("requests", cli::requests::CASES),
    ("roots", cli::roots::CASES),
    ("second_names", cli::second_names::CASES),
    ("serve", cli::serve::CASES),
    ("starter", cli::starter::CASES),
    ("stories", cli::stories::CASES),
    ("stream_kinds", cli::stream_kinds::CASES),
    ("streams", cli::streams::CASES),
    ("terminal", cli::terminal::CASES),
    ("tiers", cli::tiers::CASES),
    ("watch", cli::watch::CASES),
    ("why", cli::why::CASES),
    ("wasm", cli::wasm::CASES),
    ("words", cli::words::CASES),
];

fn main() {
    if let Some(orders) = cleanup::worker_orders() {
        return cleanup::work(&orders);
    }
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(2, NonZero::get);
    // Half of a run is waiting: for what a case starts, and for what must not come.
    arguments.test_threads.get_or_insert(2 * processors);
    signals_as_usual();
    let installed = Arc::new(Installed::for_everybody());
    let trials = MODULES
        .iter()
        .flat_map(|(module, cases)| cases.iter().map(move |case| (*module, *case)))
        .flat_map(|(module, case)| [User::Root, User::Ordinary].map(|user| (module, case, user)))
        .map(|(module, case, user)| trial(module, case, user, &installed))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` runs no destructors, and the installed program is a file.
    drop(installed);
    conclusion.exit();
}

/// Programs start with the signals that this process has handlers for at their default, execve(2): a shell starts what
/// runs in the background with SIGINT ignored, and cases interrupt what they start.
fn signals_as_usual() {
    let always = Arc::new(AtomicBool::new(true));
    for number in [SIGINT, SIGQUIT] {
        // This process itself ends by them, as before.
        flag::register_conditional_default(number, Arc::clone(&always)).unwrap();
    }
}

fn trial(module: &str, case: Case, user: User, installed: &Arc<Installed>) -> Trial {
    let name = format!("{}/{module}/{}", user.name(), case.name);
    let installed = Arc::clone(installed);
    let trial = Trial::test(name, move || {
        (case.act)(&Fixture::new(user, &installed));
        Ok(())
    });
    let why_not = user.why_not().or_else(|| case.why_not(user));
    let why_not = why_not.or_else(|| network::why_not(case.name));
    let why_not = why_not.or_else(|| cli::requests::why_not(case.name));
    match why_not.or_else(|| real_wasm::why_not(case.name)) {
        None => trial,
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
    }
}
