//! Whether workers answer who asks for them.

use super::stand_in::{Server, short};
use std::time::Duration;
use tokio::time::timeout;

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than any answer takes.
const NO_ANSWER_FOR: Duration = Duration::from_millis(500);

#[test]
fn a_worker_that_hangs_does_not_answer() {
    let server = Server::start(short());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let answers = |time| runtime.block_on(async { timeout(time, server.all_answer()).await });
    assert!(answers(PATIENCE).is_ok());
    let mut client = server.connect();
    client.send("GET /hang HTTP/1.1\r\nhost: x\r\n\r\n");
    server.wait_for_request();
    let asked = server.all_answer();
    assert!(answers(NO_ANSWER_FOR).is_err(), "one of two hangs");
    server.unhang();
    let late = runtime.block_on(async { timeout(PATIENCE, asked).await });
    assert!(late.is_ok(), "it goes on");
    assert!(answers(PATIENCE).is_ok());
    assert_eq!(server.stop(PATIENCE), 0);
}
