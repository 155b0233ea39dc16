//! A whole request through a proxy-wasm filter: a stream is opened, both heads pass, and it is closed, with
//! everything that a server does of it but the connection.

use crate::{RUNS, mean};
use anyhow::{Context, ensure};
use palisade_engine::guest::{Engine, Isolation};
use palisade_filter::{
    CallRefused, Exchange, Filter, Host, HttpCall, Instance, LogLevel, Message, Peer, Settings,
    Shared,
};
use std::{hint::black_box, rc::Rc, sync::Arc, time::Instant};

/// A server that nothing is asked of.
struct Silent;

impl Host for Silent {
    fn log(&self, _level: LogLevel, _line: &[u8]) {}

    fn call(&self, _call: HttpCall) -> Result<(), CallRefused> {
        Err(CallRefused)
    }
}

/// As curl(1) asks, and a file is the answer.
fn exchange() -> anyhow::Result<Box<Exchange>> {
    let request = http::Request::get("/1")
        .header("host", "127.0.0.1:8080")
        .header("user-agent", "curl/8.5.0")
        .header("accept", "*/*");
    let response = http::Response::builder()
        .header("content-type", "text/plain")
        .header("content-length", "1024")
        .header("etag", "\"6b02df79-400\"");
    Ok(Box::new(Exchange {
        request: request.body(())?.into_parts().0,
        is_request_changed: false,
        request_rest: Message::default(),
        response: Some(response.body(())?.into_parts().0),
        response_rest: Message::default(),
        peer: Rc::new(Peer::default()),
        route: "route-0".into(),
        service: "files".into(),
        properties: Default::default(),
        local_response: None,
        started: None,
    }))
}

/// Both lines, of requests that no filter sees.
pub(crate) fn bare_requests() -> anyhow::Result<String> {
    let mut kept = Some(exchange()?);
    lines(|| {
        kept = black_box(kept.take());
        Ok(())
    })
}

/// The same of a filter.
pub(crate) fn filtered_requests(module: &[u8], isolation: Isolation) -> anyhow::Result<String> {
    let program = Engine::shared()?.compile(module)?;
    let settings = Settings {
        isolation,
        ..Settings::new("lab")
    };
    let filter = Filter::load(&program, settings, &Arc::new(Shared::default()))?;
    let host: Rc<dyn Host> = Rc::new(Silent);
    let start = || Instance::start(&filter, Rc::clone(&host), None);
    let mut instance = start()?;
    let before = instance.metrics().crossings;
    let mut kept = Some(exchange()?);
    let lines = lines(|| {
        if isolation == Isolation::Fresh {
            instance = start()?;
        }
        let exchange = kept.take().context("the exchange was not given back")?;
        kept = pass(&mut instance, exchange)?;
        Ok(())
    })?;
    ensure!(
        instance.metrics().crossings > before,
        "the filter was never called"
    );
    Ok(lines)
}

/// Gives the exchange back, for the next one.
fn pass(instance: &mut Instance, exchange: Box<Exchange>) -> anyhow::Result<Option<Box<Exchange>>> {
    let stream = instance.open(exchange);
    let _ = black_box(instance.on_request_headers(stream, true)?);
    let _ = black_box(instance.on_response_headers(stream, false)?);
    Ok(instance.close(stream)?)
}

/// Both lines of requests.
pub(crate) fn lines(mut request: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<String> {
    let mut times_ns = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let began = Instant::now();
        request()?;
        times_ns.push(began.elapsed().as_nanos());
    }
    // The first one does not count.
    times_ns.remove(0);
    let mean_ns = mean(&times_ns);
    times_ns.sort_unstable();
    let fastest_ns = mean(&times_ns[..times_ns.len() / 10]);
    Ok(format!(
        "request-mean {mean_ns:.2}\nrequest-fastest {fastest_ns:.2}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;

    fn module(text: &str) -> Vec<u8> {
        wat::parse_str(text).unwrap()
    }

    #[test]
    fn requests_take_time_whoever_sees_them() {
        let null = module(crate::NULL_FILTER);
        for said in [
            bare_requests().unwrap(),
            filtered_requests(&null, Isolation::Kept).unwrap(),
            filtered_requests(&null, Isolation::Fresh).unwrap(),
            engine::requests(&null, Isolation::Kept).unwrap(),
            engine::requests(&null, Isolation::Fresh).unwrap(),
        ] {
            let words: Vec<_> = said.split_whitespace().collect();
            assert_eq!([words[0], words[2]], ["request-mean", "request-fastest"]);
            let ns = [words[1], words[3]].map(|ns| ns.parse::<f64>().unwrap());
            assert!(ns[1] <= ns[0] && ns[1] > 0.0, "{said}");
        }
    }

    /// What is measured is that the filter sees both heads.
    #[test]
    fn a_filter_changes_the_answer_that_passes() {
        let header = module(crate::HEADER_FILTER);
        let program = Engine::shared().unwrap().compile(&header).unwrap();
        let shared = Arc::new(Shared::default());
        let filter = Filter::load(&program, Settings::new("lab"), &shared).unwrap();
        let mut instance = Instance::start(&filter, Rc::new(Silent), None).unwrap();
        let passed = pass(&mut instance, exchange().unwrap()).unwrap().unwrap();
        let answer = passed.response.unwrap();
        assert_eq!(answer.headers["x-filter"], "palisade");
    }
}
