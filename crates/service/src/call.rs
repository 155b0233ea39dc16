//! One request, from a new instance to the guest's end.

use crate::{
    Fault,
    body::Guarded,
    code::{Code, Pre},
    drive::{End, Head, Run},
    limits::PoolFull,
    load::Isolation,
    shared::{
        Shared,
        idle::{self, Kept},
    },
    state::{State, take_apart},
};
use http::{header::HOST, request::Parts, uri::Authority};
use std::{rc::Rc, time::Instant};
use tokio::sync::oneshot;
use wasmtime::{PoolConcurrencyLimitError, Store};
use wasmtime_wasi_http::{
    FieldMap, WasiBody, WasiHttpView,
    p2::bindings::{Proxy, ProxyPre, http::types::Scheme},
    p3::{self, bindings::ServicePre},
};

/// Where the head of the response goes.
type SendHead = oneshot::Sender<Head>;

/// What a guest is asked.
pub(crate) struct Request {
    pub(crate) head: Parts,
    pub(crate) body: WasiBody,
    /// It came by TLS.
    pub(crate) is_secure: bool,
}

/// Whether a guest can be asked.
///
/// # Errors
///
/// When nobody can tell which host is asked.
pub(crate) fn check(head: &Parts) -> Result<(), Fault> {
    let host = head.headers.get(HOST);
    if head.uri.authority().is_none()
        && host.is_none_or(|host| Authority::try_from(host.as_bytes()).is_err())
    {
        return Err(Fault::Request("it names no host".into()));
    }
    Ok(())
}

impl Request {
    fn into_new(self, hooks: &mut dyn wasmtime_wasi_http::WasiHttpHooks) -> p3::Request {
        let Parts {
            method,
            uri,
            headers,
            ..
        } = self.head;
        let authority = uri.authority().cloned().or_else(|| {
            let host = headers.get(HOST)?;
            Authority::try_from(host.as_bytes()).ok()
        });
        let scheme = match self.is_secure {
            true => http::uri::Scheme::HTTPS,
            false => http::uri::Scheme::HTTP,
        };
        let path = uri.path_and_query().cloned();
        let headers = FieldMap::new_immutable(hooks, headers);
        // What becomes of the request's body is for nobody to know.
        let (request, _consumed) = p3::Request::new(
            method,
            Some(scheme),
            authority,
            path,
            headers,
            None,
            self.body,
        );
        request
    }
}

/// Runs the guest to its end.
pub(crate) fn run(shared: Rc<Shared>, code: Code, request: Request, head: SendHead) -> Run {
    match (code.pre(), shared.settings.isolation) {
        (Pre::Preview2(_), Isolation::Fresh) => Box::pin(run_fresh(shared, code, request, head)),
        (Pre::Preview2(_), Isolation::Kept) => Box::pin(run_kept(shared, code, request, head)),
        (Pre::Preview3(_), _) => Box::pin(run_tasks(shared, code, request, head)),
    }
}

async fn run_fresh(shared: Rc<Shared>, code: Code, request: Request, head: SendHead) -> End {
    let Pre::Preview2(pre) = code.pre() else {
        return End::default();
    };
    let (mut store, proxy) = match make_instance(&shared, pre).await {
        Ok(made) => made,
        Err(error) => return End::failed(&error),
    };
    let result = call(&mut store, &proxy, request, head).await;
    End::of(result, store)
}

async fn run_kept(shared: Rc<Shared>, code: Code, request: Request, head: SendHead) -> End {
    let Pre::Preview2(pre) = code.pre() else {
        return End::default();
    };
    let mut kept = match shared.take_kept(&code) {
        Some(kept) => kept,
        None => match make_instance(&shared, pre).await {
            Ok((store, proxy)) => Kept { store, proxy, code },
            Err(error) => return End::failed(&error),
        },
    };
    match call(&mut kept.store, &kept.proxy, request, head).await {
        Ok(()) => {
            shared.keep(kept);
            End::default()
        }
        Err(error) => {
            shared.host.restarted();
            End::of(Err(error), kept.store)
        }
    }
}

/// A new instance. Where the engine has none left, or its owner no memory, those that wait for a request give way.
async fn make_instance(
    shared: &Shared,
    pre: &ProxyPre<State>,
) -> wasmtime::Result<(Store<State>, Proxy)> {
    let until = Instant::now() + shared.settings.share.wait_time;
    loop {
        let mut store = shared.new_store(pre.engine())?;
        match pre.instantiate_async(&mut store).await {
            Ok(proxy) => return Ok((store, proxy)),
            Err(error) => {
                let pool = match error.is::<PoolFull>() {
                    true => shared.settings.pool.as_deref(),
                    false if error.is::<PoolConcurrencyLimitError>() => None,
                    false => return Err(error),
                };
                shared.give_back(take_apart(store).context);
                if !idle::make_room(pre.engine(), pool, until).await {
                    return Err(error);
                }
            }
        }
    }
}

/// Hands the request over and lets the guest run.
async fn call(
    store: &mut Store<State>,
    proxy: &Proxy,
    request: Request,
    head: SendHead,
) -> wasmtime::Result<()> {
    let scheme = match request.is_secure {
        true => Scheme::Https,
        false => Scheme::Http,
    };
    let asked = http::Request::from_parts(request.head, request.body);
    let mut http = store.data_mut().http();
    let asked = http.new_incoming_request(scheme, asked)?;
    let response = http.new_response_outparam_from_callback(move |response| {
        // Nobody waits any more: the client has gone.
        let _ = head.send(response.map_err(|code| Fault::of_code(&code)));
    })?;
    proxy
        .wasi_http_incoming_handler()
        .call_handle(store, asked, response)
        .await
}

async fn run_tasks(shared: Rc<Shared>, code: Code, request: Request, head: SendHead) -> End {
    let Pre::Preview3(pre) = code.pre() else {
        return End::default();
    };
    let mut store = match shared.new_store(pre.engine()) {
        Ok(store) => store,
        Err(error) => return End::failed(&error),
    };
    let result = run_task(&mut store, pre, request, head).await;
    End::of(result, store)
}

/// The guest's tasks go on until the response's body has been taken, or nobody wants it.
async fn run_task(
    store: &mut Store<State>,
    pre: &ServicePre<State>,
    request: Request,
    head: SendHead,
) -> wasmtime::Result<()> {
    let service = pre.instantiate_async(&mut *store).await?;
    let request = request.into_new(store.data_mut().http().hooks);
    store
        .run_concurrent(async move |store| {
            let response = match service.handle(store, request).await? {
                Ok(response) => response,
                Err(code) => {
                    let _ = head.send(Err(Fault::of_new_code(&code)));
                    return Ok(());
                }
            };
            let (taken, is_taken) = oneshot::channel::<()>();
            let response =
                store.with(|store| response.into_http(store, std::future::ready(Ok(()))))?;
            let watched = |body| Guarded {
                body,
                _guard: taken,
            };
            if head
                .send(Ok(response.map(watched).map(WasiBody::new)))
                .is_ok()
            {
                // Whoever has the body has dropped it.
                let _ = is_taken.await;
            }
            Ok(())
        })
        .await?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, host: Option<&str>) -> Result<(), Fault> {
        let mut request = http::Request::builder().uri(uri.parse::<http::Uri>().unwrap());
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head)
    }

    #[test]
    fn a_request_names_its_host_somewhere() {
        assert!(request("/", Some("example.com")).is_ok());
        assert!(request("http://example.com/", None).is_ok());
        assert!(request("/", None).is_err());
        assert!(request("/", Some("a b")).is_err());
    }
}
