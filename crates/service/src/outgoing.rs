//! Requests that a guest sends: a verdict on each, then the server's own client.

use crate::{
    body::Guarded,
    host::{AnyBody, BodyError, Denied, Host, SendError, Stream, Target, Times},
    sends::{self, Sends, Sent},
    sys::OnThread,
};
use http::{HeaderName, Request, Response, Uri};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use palisade_network::Gate;
use palisade_policy::{Transport, visible};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    rc::Rc,
    sync::{Arc, LazyLock},
};
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody,
    WasiHttpHooks,
};

/// Bytes of one write to a body, and writes that wait for the client: what the host holds of a body.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS: usize = 4;

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Responded = Result<(Response<WasiBody>, Io), Error>;

/// Where a guest's requests go.
pub(crate) struct Outgoing {
    gate: Arc<Gate>,
    host: OnThread<Rc<dyn Host>>,
    /// Of all instances of the worker.
    sends: OnThread<Sends>,
    /// Of this one, once it has sent one.
    own_sends: Option<OnThread<Sends>>,
    /// The log knows that it sends too many.
    has_told: bool,
}

impl Outgoing {
    /// Of one instance. `sends` counts those of all instances of the worker.
    pub(crate) fn new(gate: Arc<Gate>, host: Rc<dyn Host>, sends: Sends) -> Self {
        Self {
            gate,
            host: OnThread::new(host),
            sends: OnThread::new(sends),
            own_sends: None,
            has_told: false,
        }
    }

    /// Room for one more request.
    fn begin(&mut self) -> Option<Rc<[Sent; 2]>> {
        let own = self
            .own_sends
            .get_or_insert_with(|| OnThread::new(Sends::default()));
        let own = own.get().begin(sends::INSTANCE)?;
        Some(Rc::new([own, self.sends.get().begin(sends::WORKER)?]))
    }

    /// Once for each instance: a guest may try as often as it likes.
    #[cold]
    fn tell_too_many(&mut self) {
        if !std::mem::replace(&mut self.has_told, true) {
            let why = format!(
                "guest: it sends too many requests at one time: an instance may have {} under way, and all of a worker {}",
                sends::INSTANCE,
                sends::WORKER
            );
            self.host.get().log(Stream::Wall, &why);
        }
    }
}

impl WasiHttpHooks for Outgoing {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        DEFAULT_FORBIDDEN_HEADERS.contains(name)
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        static FILTER: LazyLock<ForbiddenHeaderFilter> =
            LazyLock::new(|| Arc::new(|name| DEFAULT_FORBIDDEN_HEADERS.contains(name)));
        Arc::clone(&FILTER)
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        CHUNKS
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Io,
    ) -> Box<dyn Future<Output = Responded> + Send> {
        let target = match find_target(&self.gate, request.uri()) {
            Ok(target) => target,
            Err(denied) => {
                let host = self.host.get();
                host.denied(&denied);
                host.log(Stream::Wall, &denied.why);
                return Box::new(std::future::ready(Err(Error::HttpRequestDenied)));
            }
        };
        let Some(sent) = self.begin() else {
            self.tell_too_many();
            return Box::new(std::future::ready(Err(Error::ConnectionLimitReached)));
        };
        let options = options.unwrap_or_default();
        let times = Times {
            connect: options.connect_timeout,
            first_byte: options.first_byte_timeout,
            between_bytes: options.between_bytes_timeout,
        };
        // Its connection is there until both bodies are done with.
        let counted = Rc::clone(&sent);
        let body = |body: WasiBody| -> AnyBody {
            let body = body.map_err(|error| BodyError::from(error.to_string()));
            Box::pin(Guarded {
                body,
                _guard: counted,
            })
        };
        let sending = self.host.get().send(request.map(body), target, times);
        Box::new(OnThread::new(async move {
            let response = sending.await.map_err(Error::from)?;
            let io: Io = Box::new(std::future::ready(Ok(())));
            let counted = |body| guests_body(Guarded { body, _guard: sent });
            Ok((response.map(counted), io))
        }))
    }
}

/// A body that comes to the guest.
pub(crate) fn guests_body<B>(body: B) -> WasiBody
where
    B: http_body::Body<Data = bytes::Bytes> + 'static,
    B::Error: Into<BodyError>,
{
    let told = |error: B::Error| Error::InternalError(Some(error.into().to_string()));
    UnsyncBoxBody::new(OnThread::new(body).map_err(told))
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Refused => Self::ConnectionRefused,
            SendError::Timeout => Self::ConnectionTimeout,
            SendError::Tls => Self::TlsProtocolError,
            SendError::Protocol => Self::HttpProtocolError,
            SendError::Other(text) => Self::InternalError(Some(text)),
        }
    }
}

/// The verdict; a refusal in words for the log.
fn find_target(gate: &Gate, uri: &Uri) -> Result<Target, Denied> {
    let tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let host = uri.host().unwrap_or_default();
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
        .to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
    let is_granted = candidates(gate, &host, port).into_iter().any(|address| {
        let address = SocketAddr::new(address, port);
        gate.connect(Transport::Tcp, address).is_ok()
    });
    match is_granted {
        false => {
            let host = visible(&host);
            Err(Denied {
                target: format!("tcp://{host}:{port}"),
                why: format!(
                    "policy: a request to {host}:{port} is denied: grant it with connect = [\"tcp://{host}:{port}\"]"
                ),
            })
        }
        true => Ok(Target { host, port, tls }),
    }
}

/// What the host may stand for: the address that it is, the loopback, or what is pinned for a granted name.
fn candidates(gate: &Gate, host: &str, port: u16) -> Vec<IpAddr> {
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    if host == "localhost" {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let network = gate.network();
    let is_granted = network.names.iter().any(|rule| {
        rule.transport == Transport::Tcp && rule.name.as_str() == host && rule.ports.contains(port)
    });
    let pins = network.pins.iter().find(|pins| pins.name.as_str() == host);
    match (is_granted, pins) {
        (true, Some(pins)) => pins.addresses.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Done, Errand, Sending};
    use palisade_network::{Answer, Network, Resolve, ResolveError, SystemResolver};
    use palisade_policy::{HostName, Policy};
    use std::{
        cell::RefCell,
        path::Path,
        task::{Context, Poll, Waker},
    };

    /// A server that answers at once, whole, and has not taken all of the requests' bodies then.
    #[derive(Default)]
    struct Early(RefCell<Vec<Request<AnyBody>>>);

    impl Host for Early {
        fn log(&self, _: Stream, _: &str) {}

        fn send(&self, request: Request<AnyBody>, _: Target, _: Times) -> Sending {
            self.0.borrow_mut().push(request);
            let body = http_body_util::Empty::new().map_err(|never| match never {});
            let body: AnyBody = Box::pin(body);
            Box::pin(std::future::ready(Ok(Response::new(body))))
        }

        fn spawn(&self, _: Errand) {}
        fn denied(&self, _: &Denied) {}
        fn done(&self, _: Done<'_>) {}
        fn memory(&self, _: u64) {}
        fn restarted(&self) {}
    }

    fn gate(connect: &str) -> Gate {
        let text = format!("[grants]\nconnect = [{connect}]");
        let policy = Policy::from_toml(&text, "test", Path::new("/")).unwrap();
        let resolver = SystemResolver::default();
        Gate::new(Network::resolve(&policy.grants.connect, &[], &resolver).unwrap())
    }

    fn ask(gate: &Gate, uri: &str) -> Result<Target, String> {
        find_target(gate, &uri.parse().unwrap()).map_err(|denied| denied.why)
    }

    #[test]
    fn nothing_is_sent_that_no_grant_covers() {
        let gate = gate("");
        let why = ask(&gate, "https://example.com/x").unwrap_err();
        assert!(
            why.contains("connect = [\"tcp://example.com:443\"]"),
            "{why}"
        );
        assert!(ask(&gate, "http://127.0.0.1/").is_err());
        assert!(ask(&gate, "http://localhost/").is_err());
    }

    #[test]
    fn a_grant_is_of_an_address_and_a_port() {
        let gate = gate("\"tcp://127.0.0.1:8080\"");
        let target = ask(&gate, "http://127.0.0.1:8080/").unwrap();
        let granted = Target {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            tls: false,
        };
        assert_eq!(target, granted);
        assert!(ask(&gate, "http://127.0.0.1:8081/").is_err());
        assert!(ask(&gate, "http://127.0.0.2:8080/").is_err());
        assert!(
            ask(&gate, "https://[::ffff:127.0.0.1]:8080/").is_ok(),
            "the same address"
        );
    }

    #[test]
    fn localhost_is_the_loopback() {
        for grant in ["localhost", "127.0.0.1", "[::1]"] {
            let gate = gate(&format!("\"tcp://{grant}:80\""));
            let target = ask(&gate, "http://LOCALHOST./").unwrap();
            assert_eq!(target.host, "localhost", "{grant}");
        }
        let gate = gate("\"tcp://localhost:80\"");
        assert!(ask(&gate, "http://evil.localhost/").is_err());
    }

    /// A name server that says what it is told to.
    struct Says(&'static str);

    impl Resolve for Says {
        fn addresses(&self, _: &HostName) -> Result<Answer, ResolveError> {
            Ok(Answer {
                addresses: vec![self.0.parse().unwrap()],
                ttl: std::time::Duration::ZERO,
            })
        }

        fn interface(&self, _: &str) -> Option<u32> {
            None
        }
    }

    /// A granted name leads to public addresses only, whatever it turns to: by what it says at first, and later.
    #[test]
    fn a_name_that_turns_to_this_machine_leads_nowhere() {
        const PUBLIC: &str = "198.51.100.1";
        let text = "[grants]\nconnect = [\"tcp://turns.example:80\"]";
        let policy = Policy::from_toml(text, "test", Path::new("/")).unwrap();
        let network = |says| Network::resolve(&policy.grants.connect, &[], &Says(says));
        let gate = |address| Gate::new(network(address).unwrap());
        let turns = "http://turns.example/";
        for private in [
            "127.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "169.254.169.254",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::1",
            "fc00::1",
            "fe80::1",
        ] {
            assert!(network(private).is_err(), "{private}");
            let turned = gate(PUBLIC);
            assert!(ask(&turned, turns).is_ok());
            let address: IpAddr = private.parse().unwrap();
            turned.pin(&"turns.example".parse().unwrap(), &[address]);
            assert!(ask(&turned, turns).is_err(), "{private}");
        }
        let gate = gate(PUBLIC);
        assert!(ask(&gate, "http://turns.example:81/").is_err());
        assert!(ask(&gate, "http://other.example/").is_err());
        assert!(ask(&gate, "http://127.0.0.1/").is_err());
    }

    /// Sends a request, and gives its response up at once.
    fn send_and_forget(outgoing: &mut Outgoing) -> Result<(), Error> {
        let mut request = Request::new(WasiBody::default());
        *request.uri_mut() = "http://127.0.0.1:8080/".parse().unwrap();
        let io: Io = Box::new(std::future::ready(Ok(())));
        let mut response = Box::into_pin(outgoing.send_request(request, None, io));
        match response
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(responded) => responded.map(drop),
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn a_request_counts_until_its_own_body_is_done_with() {
        let server = Rc::new(Early::default());
        let host: Rc<dyn Host> = Rc::clone(&server) as _;
        let gate = Arc::new(gate("\"tcp://127.0.0.1:8080\""));
        let mut outgoing = Outgoing::new(gate, host, Sends::default());
        for _ in 0..sends::INSTANCE {
            send_and_forget(&mut outgoing).unwrap();
        }
        let refused = send_and_forget(&mut outgoing);
        assert!(matches!(refused, Err(Error::ConnectionLimitReached)));
        server.0.borrow_mut().pop();
        send_and_forget(&mut outgoing).unwrap();
    }
}
