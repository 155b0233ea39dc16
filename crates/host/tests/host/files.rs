//! Files, as clients get them.

use super::edge::stand_in::{anywhere, edge};
use crate::raw_http::{Client, get};
use http::{Request, Response, StatusCode};
use palisade_filter::Peer;
use palisade_host::{
    body::Body,
    config::{self, Address, Limits},
    path::normalize,
    record::RequestRecord,
    serve::Serve,
    services::files::{Files, Served},
    worker::Workers,
};
use std::{fs, num::NonZeroUsize, rc::Rc, sync::Arc, time::Duration};
use tempfile::TempDir;

/// More than what the kernel holds of a connection, in both directions.
const BIG: u64 = 64 << 20;

/// A site of nothing but a folder.
struct Folder(Files);

impl Serve for Folder {
    type Generation = (config::Files, Arc<Served>);

    fn state(generation: &Arc<Self::Generation>, _: usize) -> Rc<Self> {
        let (config, served) = &**generation;
        let files = Files::new(config, served);
        Rc::new(Self(files.expect("the folder is there")))
    }

    async fn respond(
        self: Rc<Self>,
        _: &Rc<Peer>,
        request: Request<Body>,
        _: &mut RequestRecord,
    ) -> Response<Body> {
        let (mut parts, _) = request.into_parts();
        match normalize(&parts.uri) {
            Ok(None) => {}
            Ok(Some(normal)) => parts.uri = normal,
            Err(_) => {
                let mut response = Response::new(Body::Empty);
                *response.status_mut() = StatusCode::BAD_REQUEST;
                return response;
            }
        }
        self.0.respond(&parts).await
    }
}

/// The folder and who serves it.
struct Server {
    folder: TempDir,
    workers: Workers<Folder>,
}

impl Server {
    fn start(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let config = config::Files {
            root: folder.path().to_owned(),
            index: "index.html".to_owned(),
            precompressed: true,
            cache_control: None,
        };
        let edge = edge(vec![anywhere()], Limits::default());
        let root = std::iter::once(config.root.clone());
        let abi = palisade_process::Machine::probe().landlock_abi;
        let served = Served::open(root, None, abi, Box::new(|| Ok(())), Box::new(|_| {})).unwrap();
        let workers = Workers::start(
            Arc::new((config, served)),
            &edge,
            NonZeroUsize::new(1),
            |_| {},
        )
        .unwrap();
        Self { folder, workers }
    }

    fn connect(&self) -> Client {
        match self.workers.addresses()[..] {
            [Address::Internet(address)] => Client::connect(address),
            _ => panic!("one address was asked for"),
        }
    }

    fn stop(self) {
        assert_eq!(self.workers.stop(Duration::from_secs(20)), 0);
    }
}

fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nhost: test\r\n{fields}\r\n")
}

#[test]
fn one_connection_brings_one_answer_after_the_other() {
    let server = Server::start(&[
        ("index.html", "<p>index"),
        ("a.txt", "0123456789"),
        ("folder/x", "x"),
    ]);
    let mut client = server.connect();
    let mut ask = |method: &str, target: &str, fields: &str| {
        client.send(request(method, target, fields));
        client.answer()
    };
    let index = ask("GET", "/", "");
    assert_eq!((index.status, &*index.text()), (200, "<p>index"));
    let known = format!("if-none-match: {}\r\n", index.value("etag").unwrap());
    assert_eq!(ask("GET", "/", &known).status, 304);
    assert_eq!(ask("GET", "/a.txt", "range: bytes=2-4\r\n").text(), "234");
    let parts = ask("GET", "/a.txt", "range: bytes=0-0,-1\r\n");
    let text = parts.text();
    assert!(
        parts.status == 206 && text.contains("\r\n\r\n0\r\n") && text.contains("\r\n\r\n9\r\n"),
        "{text}"
    );
    assert_eq!(ask("GET", "/a.txt", "range: bytes=10-\r\n").status, 416);
    assert_eq!(ask("OPTIONS", "*", "").status, 204);
    assert_eq!(ask("DELETE", "/a.txt", "").status, 405);
    let moved = ask("GET", "/folder?q", "");
    assert_eq!(
        (moved.status, moved.value("location")),
        (301, Some("./folder/?q"))
    );
    assert_eq!(ask("GET", "/folder/", "").status, 404);
    assert_eq!(ask("GET", "/folder/./../%61.txt", "").text(), "0123456789");
    server.stop();
}

#[test]
fn the_head_of_a_file_tells_its_length_and_sends_none_of_it() {
    let server = Server::start(&[("small", "0123456789")]);
    fs::File::create(server.folder.path().join("big"))
        .unwrap()
        .set_len(BIG)
        .unwrap();
    for (target, length) in [("/small", 10), ("/big", BIG)] {
        let mut client = server.connect();
        client.send(request("HEAD", target, "connection: close\r\n"));
        let head = client.read_to_end().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains(&format!("\r\ncontent-length: {length}\r\n")),
            "{head}"
        );
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }
    server.stop();
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let server = Server::start(&[("inside/a", "a")]);
    let beside = server.folder.path().parent().unwrap();
    let secret = tempfile::Builder::new()
        .prefix("beside-")
        .tempfile_in(beside)
        .unwrap();
    fs::write(&secret, "secret").unwrap();
    let secret_path = secret.path();
    let name = secret_path.file_name().unwrap().to_str().unwrap();
    let targets = [
        format!("/../{name}"),
        format!("/inside/../../{name}"),
        format!("/%2e%2e/{name}"),
        format!("/.%2e/{name}"),
        format!("/..%2f{name}"),
        format!("/inside/..%2f..%2f{name}"),
        format!("/..\\{name}"),
        format!("/..%5c{name}"),
        format!("/..;/{name}"),
        format!("/%252e%252e/{name}"),
        format!("//..//{name}"),
        format!("http://test/../{name}"),
        format!("http://test/inside/%2e%2e/%2e%2e/{name}"),
        secret_path.to_str().unwrap().to_owned(),
        format!("/{}", secret_path.display()),
    ];
    let answers = targets.map(|target| {
        let mut client = server.connect();
        client.send(get(&target));
        (client.answer(), target)
    });
    for (answer, target) in answers {
        assert!(matches!(answer.status, 400 | 404), "{target}: {answer:?}");
        assert!(!answer.text().contains("secret"), "{target}: {answer:?}");
    }
    server.stop();
}

/// Nothing is made up for what is missing: the client sees that it did not get all.
#[test]
fn a_file_that_shrinks_ends_the_connection() {
    let server = Server::start(&[]);
    let file = fs::File::create(server.folder.path().join("big")).unwrap();
    file.set_len(BIG).unwrap();
    let mut client = server.connect();
    client.send(get("/big"));
    let head = client.read_exactly(1000).unwrap();
    assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
    file.set_len(1000).unwrap();
    let mut received = head.len() as u64;
    // Closed or reset: whichever, not all of it came.
    while let Ok(bytes) = client.read_exactly(1 << 12) {
        received += bytes.len() as u64;
    }
    assert!(received < BIG, "{received}");
    assert_eq!(server.connect().get("/big").text().len(), 1000);
    server.stop();
}
