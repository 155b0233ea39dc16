//! Asking a program whether it is well.

use super::endpoint::Endpoint;
use crate::{
    body::Body,
    client::{Attempt, Client, Pool, Times},
    config::Health,
};
use http::{HeaderValue, Request, Uri, header};
use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Asks again and again; returns why it is unwell, once it has been so too often. Until it is well for the first
/// time, it may be unwell for as long as a start may take. Whether it was so when it was asked last stands in `has_failed`.
pub(super) async fn watch(
    endpoint: Arc<Endpoint>,
    health: Health,
    client: Client,
    start_time: Duration,
    has_failed: Rc<Cell<bool>>,
) -> String {
    // A connection for each question: whether it takes new ones is what matters.
    let pool = endpoint.pool("the program".into(), (0, health.time), None);
    let mut starts_until = Some(Instant::now() + start_time);
    let mut failures = 0;
    loop {
        let limit = match starts_until {
            Some(until) => until.saturating_duration_since(Instant::now()),
            None => health.time,
        };
        let answer = ask(&pool, &client, &health.path, limit).await;
        has_failed.set(answer.is_err());
        match answer {
            Ok(()) => {
                failures = 0;
                starts_until = None;
                endpoint.prove();
            }
            Err(reason) => {
                failures += 1;
                let is_over = match starts_until {
                    Some(until) => Instant::now() >= until,
                    None => failures >= health.failures,
                };
                if is_over {
                    return format!("was not well: {}: {reason}", health.path);
                }
            }
        }
        let pause = match starts_until {
            Some(_) => health.every.min(FIRST_PAUSE),
            None => health.every,
        };
        tokio::time::sleep(pause).await;
    }
}

/// Between two questions until it is well for the first time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

async fn ask(pool: &Rc<Pool>, client: &Client, path: &str, limit: Duration) -> Result<(), String> {
    let uri = path.parse::<Uri>().map_err(|error| error.to_string())?;
    let mut request = Request::new(Body::Empty);
    *request.uri_mut() = uri;
    let host = HeaderValue::from_static("localhost");
    request.headers_mut().insert(header::HOST, host);
    let times = Times {
        connect: limit,
        answer: limit,
    };
    let mut attempt = Attempt::new(request, client.spares());
    let response = pool.send(client, &mut attempt, &times).await;
    let status = response.map_err(|error| error.to_string())?.status();
    match status.is_server_error() {
        true => Err(format!("it answered {status}")),
        false => Ok(()),
    }
}
