//! Servers behind the one that is tested.

use crate::raw_http::{Answer, Request, read_body, read_head, write_message};
use std::{
    io::{self, BufReader},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

/// A server that keeps what it was asked.
pub(crate) struct Backend {
    path: PathBuf,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Backend {
    pub(crate) fn start<A>(path: &Path, answer: A) -> Self
    where
        A: Fn(&Request) -> Answer + Send + 'static,
    {
        let listener = UnixListener::bind(path).expect("listen");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let answer = Arc::new(Mutex::new(answer));
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || {
                    let _ = serve(stream, &kept, |request| {
                        answer.lock().expect("one at a time")(request)
                    });
                });
            }
        });
        Self {
            path: path.into(),
            asked,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().expect("one at a time").clone()
    }
}

fn serve(
    stream: UnixStream,
    kept: &Mutex<Vec<Request>>,
    answer: impl Fn(&Request) -> Answer,
) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some((start, mut headers)) = read_head(&mut reader)? {
        let mut words = start.split(' ').map(str::to_owned);
        let (method, path) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let body = read_body(&mut reader, &mut headers, false)?;
        let request = Request {
            method,
            path,
            headers,
            body,
        };
        let answer = answer(&request);
        kept.lock().expect("one at a time").push(request);
        let start = format!(
            "HTTP/1.1 {} Answered\r\ncontent-length: {}\r\n",
            answer.status,
            answer.body.len()
        );
        write_message(&mut writer, &start, &answer.headers, &answer.body)?;
    }
    Ok(())
}
