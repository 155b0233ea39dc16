//! Requests whose bodies are under way when something happens.

use super::*;
use http_body::{Body as HttpBody, Frame, SizeHint};
use palisade_host::body::BodyError;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// A body of four bytes, that come when the test says so.
struct Fed(UnboundedReceiver<&'static str>);

impl HttpBody for Fed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let part = self.0.poll_recv(context);
        part.map(|part| part.map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(4)
    }
}

fn fed() -> (UnboundedSender<&'static str>, Body) {
    let (feed, parts) = mpsc::unbounded_channel();
    (feed, Body::new(Fed(parts)))
}

async fn send(service: &ProgramService, method: Method, path: &str, body: Body) -> Answer {
    let request = Request::builder().method(method).uri(path).body(body);
    service.respond(request.unwrap(), &Peer::default()).await
}

#[test]
fn a_body_that_was_under_way_is_not_sent_again() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        let mut crashes = 0;
        let mut crash = async |method, body, times| {
            body_of(get(&service, "/").await).await;
            let error = send(&service, method, "/crash", body).await.unwrap_err();
            assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{error}");
            crashes += times;
            body_of(get(&service, "/").await).await;
            assert_eq!(host.metrics().faults, crashes);
        };
        let (feed, body) = fed();
        feed.send("text").unwrap();
        crash(Method::PUT, body, 1).await;
        crash(Method::PUT, Body::from("text"), 2).await;
        crash(Method::POST, Body::from("text"), 1).await;
        crash(Method::POST, Body::Empty, 1).await;
        crash(Method::DELETE, Body::Empty, 2).await;
    });
}

/// Nothing of it had been sent when its connection turned out to be gone.
#[test]
fn a_body_that_nobody_has_touched_goes_to_the_next_process() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        for round in 1..=5 {
            body_of(get(&service, "/").await).await;
            kill(&host.becomes(|metrics| metrics.pid.is_some()).await);
            host.becomes(|metrics| metrics.faults == round).await;
            let (feed, body) = fed();
            feed.send("text").unwrap();
            let answer = send(&service, Method::POST, "/echo", body).await;
            assert_eq!(body_of(answer).await, "text");
        }
    });
}

/// Connections to a program that lives are of use to others, too.
#[test]
fn a_client_that_breaks_off_its_body_closes_its_own_connection_alone() {
    let host = Host::start(settings(&[]));
    on_worker(async {
        let service = host.service();
        let both = tokio::join!(get(&service, "/slow"), get(&service, "/slow"));
        assert_eq!(body_of(both.0).await, "slow");
        assert_eq!(body_of(both.1).await, "slow");
        let accepted = body_of(get(&service, "/accepted").await).await;
        assert_eq!(accepted, "2");
        let (feed, body) = fed();
        feed.send("te").unwrap();
        drop(feed);
        let error = send(&service, Method::POST, "/echo", body)
            .await
            .unwrap_err();
        assert_eq!(error.status(), StatusCode::BAD_REQUEST, "{error}");
        let accepted = body_of(get(&service, "/accepted").await).await;
        assert_eq!(accepted, "2", "the other one was kept");
    });
}

#[test]
fn an_unwell_program_is_replaced_while_its_requests_finish() {
    let mut settings = settings(&[]);
    settings.program.health = Some(Health {
        path: "/health".into(),
        every: Duration::from_millis(20),
        time: Duration::from_secs(5),
        failures: 3,
    });
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        is_well(&service).await;
        let (feed, body) = fed();
        feed.send("te").unwrap();
        let inside = send(&service, Method::POST, "/echo", body);
        let replaced = async {
            body_of(get(&service, "/unwell").await).await;
            host.becomes(|metrics| metrics.starts == 2).await;
            body_of(get(&service, "/").await).await;
            feed.send("xt").unwrap();
        };
        let (answer, ()) = tokio::join!(inside, replaced);
        assert_eq!(body_of(answer).await, "text");
        assert_eq!(host.metrics().faults, 1);
        host.hears("stdout: leaving").await;
        assert_eq!(host.metrics().starts, 2);
    });
}
