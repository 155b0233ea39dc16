//! How many programs run at one time, and who rests for others.

use super::*;
use std::cell::{Cell, RefCell};

/// Programs of one server, within these bounds; each with its worker's way to it.
struct Site {
    services: Vec<ProgramService>,
    programs: Vec<Arc<Program>>,
    /// Ends last.
    host: Host,
}

impl Site {
    fn new(bounds: ProgramBounds, all: impl IntoIterator<Item = Settings>) -> Self {
        let host = Host::start_within(settings(&[]), bounds);
        let programs = all.into_iter().map(|settings| host.begin(settings, None));
        let programs: Vec<_> = programs.collect();
        let services = programs
            .iter()
            .map(|program| service_of(program, Duration::from_secs(30)));
        Self {
            services: services.collect(),
            programs,
            host,
        }
    }

    async fn ask(&self, which: usize, path: &str) -> Bytes {
        body_of(get(&self.services[which], path).await).await
    }

    /// Those that have a domain with somebody in it.
    fn alive(&self) -> Vec<usize> {
        let alive = |which: &usize| self.programs[*which].metrics().pid.is_some_and(runs);
        (0..self.programs.len()).filter(alive).collect()
    }

    /// Waits until it is these.
    async fn are_alive(&self, wanted: &[usize]) {
        while self.alive() != wanted {
            a_tick().await;
        }
    }

    async fn rests(&self, which: usize) -> ProgramMetrics {
        becomes(&self.programs[which], |metrics| {
            metrics.state == State::Idle && metrics.pid.is_none()
        })
        .await
    }
}

fn most(most: usize) -> ProgramBounds {
    ProgramBounds {
        most,
        memory_bytes: None,
    }
}

fn plain(count: usize) -> impl Iterator<Item = Settings> {
    std::iter::repeat_with(|| settings(&[])).take(count)
}

/// One whose requests do not wait for long.
fn impatient() -> Settings {
    let mut settings = settings(&[]);
    settings.program.start_time = Duration::from_millis(400);
    settings
}

/// Whether it is more than what its parent has yet to be told of.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, behind)| behind.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// So many programs whose memory is counted. Where nothing can count it, none is made: a bound that is not held is
/// refused.
fn counted(bounds: ProgramBounds, count: usize) -> Option<Site> {
    let counted = |mut settings: Settings| {
        settings.policy.limits.memory_bytes = bounds.memory_bytes;
        settings
    };
    let host = Host::start(settings(&[]));
    let output = Arc::clone(&host.heard) as Arc<dyn Output>;
    match Program::new(counted(settings(&[])), output, &host.machine) {
        Ok(_) => Some(Site::new(bounds, plain(count).map(counted))),
        Err(refused) => {
            let user = rustix::process::geteuid();
            assert!(!user.is_root(), "{refused}");
            assert!(
                refused.to_string().contains("no writable cgroup"),
                "{refused}"
            );
            None
        }
    }
}

/// Longer than the clock takes by which uses are told apart.
async fn a_tick() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[test]
fn the_one_that_was_used_least_lately_rests_for_another() {
    let site = Site::new(most(2), plain(3));
    on_worker(async {
        for (which, alive) in [
            (0, vec![0]),
            (1, vec![0, 1]),
            (0, vec![0, 1]),
            (2, vec![0, 2]),
        ] {
            site.ask(which, "/").await;
            site.are_alive(&alive).await;
            a_tick().await;
        }
        let rested = site.rests(1).await;
        assert_eq!((rested.starts, rested.faults, rested.restarts), (1, 0, 0));
        site.ask(1, "/").await;
        site.are_alive(&[1, 2]).await;
    });
}

#[test]
fn one_with_a_request_under_way_does_not_rest() {
    let site = Site::new(most(1), [settings(&[]), impatient(), settings(&[])]);
    on_worker(async {
        let under_way = get(&site.services[0], "/stream").await.unwrap();
        let error = get(&site.services[1], "/").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
        assert!(error.retry_after().is_some_and(|after| after > 0));
        assert!(
            error
                .to_string()
                .contains("as many run as `programs` allows"),
            "{error}"
        );
        site.are_alive(&[0]).await;
        assert_eq!(body_of(Ok(under_way)).await, "part\n".repeat(10));
        site.ask(2, "/").await;
        site.are_alive(&[2]).await;
        assert_eq!(site.programs[0].metrics().faults, 0);
    });
}

/// It is asked while it is put to rest, again and again.
#[test]
fn no_request_is_lost_to_programs_that_rest_for_each_other() {
    let site = Site::new(most(1), plain(3));
    on_worker(async {
        let load = async |which: usize| {
            for round in 0..20u64 {
                let answer = ask(&site.services[which], Method::POST, "/echo", "text").await;
                assert_eq!(body_of(answer).await, "text");
                tokio::time::sleep(Duration::from_millis(round % 7)).await;
            }
        };
        tokio::join!(load(0), load(1), load(2));
        let all = site.programs.iter().map(|program| program.metrics());
        for metrics in all {
            assert_eq!((metrics.faults, metrics.restarts), (0, 0), "{metrics:?}");
        }
    });
}

#[test]
fn one_that_ignores_that_it_is_to_rest_is_ended() {
    let all = [settings(&["stubborn"]), settings(&[])];
    let site = Site::new(most(1), all);
    on_worker(async {
        site.ask(0, "/").await;
        let stubborn = site.programs[0].metrics().pid.unwrap();
        site.ask(1, "/").await;
        assert!(!lives(stubborn));
        assert_eq!(site.rests(0).await.last_end.unwrap(), "was ended");
    });
}

/// In the order in which they came, each once, and never more than there may be.
#[test]
fn a_storm_of_cold_ones_is_served_in_order() {
    const COUNT: usize = 60;
    const MOST: usize = 12;
    let site = Site::new(most(MOST), plain(COUNT));
    on_worker(async {
        let answered = RefCell::new(Vec::new());
        let highest = Cell::new(0);
        let one = async |which: usize| {
            site.ask(which, "/").await;
            answered.borrow_mut().push(which);
            // To look takes a while, in which one may end and another start. Who is there twice was there in between.
            let (before, after) = (site.alive(), site.alive());
            let count = before.iter().filter(|one| after.contains(one)).count();
            highest.set(highest.get().max(count));
        };
        let mut storm: Vec<_> = (0..COUNT).map(|which| Box::pin(one(which))).collect();
        std::future::poll_fn(|context| {
            storm.retain_mut(|one| one.as_mut().poll(context).is_pending());
            match storm.is_empty() {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        assert!(highest.get() <= MOST, "{} at one time", highest.get());
        // Those that start at one time may pass each other.
        let answered = answered.borrow();
        for (place, which) in answered.iter().enumerate() {
            assert!(place.abs_diff(*which) <= MOST, "{answered:?}");
        }
        let starts = site.programs.iter().map(|program| program.metrics().starts);
        assert_eq!(starts.collect::<Vec<_>>(), [1; COUNT]);
    });
}

/// Its children are nobody's, and hold what they have in files that no process maps.
#[test]
fn memory_that_a_program_hides_is_counted() {
    const ALL: u64 = 96 << 20;
    let bounds = ProgramBounds {
        most: 10,
        memory_bytes: Some(ALL),
    };
    let Some(site) = counted(bounds, 3) else {
        return;
    };
    on_worker(async {
        site.ask(0, "/hide/64").await;
        let seen = site.programs[0].metrics().memory_bytes;
        assert!(seen < 32 << 20, "its processes show {seen}");
        a_tick().await;
        site.ask(1, "/").await;
        a_tick().await;
        site.ask(2, "/hide/48").await;
        site.rests(0).await;
        site.are_alive(&[1, 2]).await;
        assert_eq!(site.programs[0].metrics().faults, 0);
    });
}

/// What it had the last time is made room for before it starts.
#[test]
fn room_is_made_for_what_a_program_had_before() {
    const ALL: u64 = 96 << 20;
    let bounds = ProgramBounds {
        most: 10,
        memory_bytes: Some(ALL),
    };
    let Some(site) = counted(bounds, 2) else {
        return;
    };
    on_worker(async {
        site.ask(0, "/hide/64").await;
        a_tick().await;
        site.ask(1, "/hide/64").await;
        site.rests(0).await;
        // It is looked at before it rests: the other one has gone first by now.
        a_tick().await;
        site.ask(0, "/").await;
        site.rests(1).await;
        site.are_alive(&[0]).await;
    });
}

#[test]
fn smaller_bounds_hold_at_once() {
    let site = Site::new(most(5), plain(4));
    on_worker(async {
        for which in 0..4 {
            site.ask(which, "/").await;
            a_tick().await;
        }
        assert_eq!(site.alive().len(), 4);
        site.host.supervisor.as_ref().unwrap().bound(most(1));
        for which in 0..3 {
            site.rests(which).await;
        }
        site.are_alive(&[3]).await;
    });
}

/// Whoever is connected to a program's own listener is no request of the server's, and holds it all the same.
#[test]
fn a_direct_program_rests_when_nobody_is_connected() {
    let mut direct = settings(&[]);
    direct.program.direct = Some(config::Address::Internet("127.0.0.1:0".parse().unwrap()));
    let site = Site::new(most(1), [direct, impatient(), settings(&[])]);
    let Some(config::Address::Internet(address)) = site.programs[0].direct_address() else {
        panic!("it has a port");
    };
    on_worker(async {
        let connected = tokio::net::TcpStream::connect(address).await.unwrap();
        becomes(&site.programs[0], |metrics| metrics.pid.is_some()).await;
        let error = get(&site.services[1], "/").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
        site.are_alive(&[0]).await;
        drop(connected);
        site.ask(2, "/").await;
        site.are_alive(&[2]).await;
    });
}
