//! A service of WASI 0.3. The path of a request says how it is answered: well, or not.

use wasip3::{
    clocks::monotonic_clock::wait_for,
    filesystem::{
        preopens::get_directories,
        types::{DescriptorFlags, OpenFlags, PathFlags},
    },
    exports::http::handler::Guest,
    http::types::{ErrorCode, Fields, Request, Response},
    wit_bindgen, wit_future, wit_stream,
};

struct Service;

wasip3::http::service::export!(Service);

impl Guest for Service {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let path = request.get_path_with_query().unwrap_or_default();
        match path.as_str() {
            "/hello" => Ok(say(b"Hello, WASI!\n".to_vec(), 1)),
            "/big" => Ok(say(vec![b'x'; 64 << 10], 16)),
            "/echo" => Ok(echo(request)),
            "/request" => {
                let told = format!(
                    "{:?} {:?} {:?}\n",
                    request.get_method(),
                    request.get_scheme(),
                    request.get_authority()
                );
                Ok(say(told.into_bytes(), 1))
            }
            "/wait" => {
                wait_for(3_600_000_000_000).await;
                Ok(say(Vec::new(), 0))
            }
            "/loop" => loop {
                std::hint::black_box(());
            },
            path if path.starts_with("/open?") => Ok(say(open(path).await.into_bytes(), 1)),
            "/error" => Err(ErrorCode::InternalError(Some("asked for".into()))),
            "/trap" => unreachable!("asked for"),
            _ => {
                let response = say(Vec::new(), 0);
                response.set_status_code(404).expect("a status");
                Ok(response)
            }
        }
    }
}

/// What becomes of a path in the first folder that it has.
async fn open(path: &str) -> String {
    let (_, path) = path.split_once('?').unwrap_or_default();
    let folders = get_directories();
    let (folder, _) = &folders[0];
    let (path, flags) = (path.to_owned(), DescriptorFlags::READ);
    let follow = PathFlags::SYMLINK_FOLLOW;
    match folder.open_at(follow, path, OpenFlags::empty(), flags).await {
        Ok(opened) => format!("{:?}", opened.get_type().await),
        Err(code) => format!("{code:?}"),
    }
}

/// The same piece so many times, written while the answer is under way.
fn say(piece: Vec<u8>, times: usize) -> Response {
    let (mut writer, body) = wit_stream::new();
    let (ended, end) = wit_future::new(|| Ok(None));
    let (response, _sent) = Response::new(Fields::new(), Some(body), end);
    drop(ended);
    wit_bindgen::spawn_local(async move {
        for _ in 0..times {
            let left = writer.write_all(piece.clone()).await;
            if !left.is_empty() {
                return;
            }
        }
    });
    response
}

/// One stream of the host's is given to another.
fn echo(request: Request) -> Response {
    let (_, processed) = wit_future::new(|| Ok(()));
    let (body, trailers) = Request::consume_body(request, processed);
    Response::new(Fields::new(), Some(body), trailers).0
}
