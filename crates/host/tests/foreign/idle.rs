//! A server that nobody asks.

use crate::fixture::{Fixture, PATIENCE, Server};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// How often each thread of the server has been put on a processor.
fn turns(server: &Server) -> Vec<String> {
    let folder = format!("/proc/{}/task", server.process());
    let tasks = fs::read_dir(folder).expect("its threads").flatten();
    let mut turns: Vec<_> = tasks
        .filter_map(|task| {
            let schedstat = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let times = schedstat.split_whitespace().nth(2)?.to_owned();
            Some(format!("{} {times}", task.file_name().display()))
        })
        .collect();
    turns.sort();
    turns
}

/// After what requests have left to do is done: a look at memory, a thread that ends.
pub(crate) fn a_server_that_nobody_asks_wakes_nobody() {
    /// Nothing happens in this time: it is what is measured.
    const NIGHT: Duration = Duration::from_secs(7);
    let fixture = Fixture::new().workers(2);
    fs::create_dir(fixture.folder().join("site")).expect("make a folder");
    fs::write(fixture.folder().join("site/index.html"), "a page").expect("write a page");
    let fixture = fixture
        .text("[services.site]\nfiles = \"site\"\n")
        .route("/", &[], "site");
    let server = fixture.serve();
    assert_eq!(server.get("/").text(), "a page");
    let began = Instant::now();
    loop {
        let evening = turns(&server);
        assert!(!evening.is_empty());
        thread::sleep(NIGHT);
        let morning = turns(&server);
        if morning == evening {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{evening:?}, then {morning:?}");
    }
    assert_eq!(server.get("/").text(), "a page");
}
