//! One run of a case: what goes in, what comes out.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;

use super::{Case, Input};

pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) answer: Option<String>,
}

pub(super) fn run(mut command: Command, case: &Case, port: u16) -> io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lost = || io::Error::other("a child without pipes");
    feed(child.stdin.take().ok_or_else(lost)?, case.input);
    let mut errors = child.stderr.take().ok_or_else(lost)?;
    let reader = thread::spawn(move || {
        let mut stderr = Vec::new();
        errors.read_to_end(&mut stderr).map(|_| stderr)
    });
    let output = BufReader::new(child.stdout.take().ok_or_else(lost)?);
    let (stdout, answer) = listen(output, case.call.map(|words| (port, words)))?;
    let stderr = reader
        .join()
        .map_err(|_| io::Error::other("the reader of stderr failed"))??;
    let status = child.wait()?;
    Ok(Ended {
        status,
        stdout,
        stderr,
        answer,
    })
}

fn feed(mut stdin: ChildStdin, input: Input) {
    thread::spawn(move || {
        let bytes = match input {
            Input::Empty => Vec::new(),
            Input::Text(text) => text.as_bytes().to_vec(),
            Input::Pattern(length) => (0_u8..=250).cycle().take(length).collect(),
        };
        // A guest need not read what it is given.
        let _ = stdin.write_all(&bytes);
    });
}

/// All output; and what the server answers, called once it has said its first word.
fn listen(
    mut output: BufReader<ChildStdout>,
    called: Option<(u16, &str)>,
) -> io::Result<(Vec<u8>, Option<String>)> {
    let mut stdout = Vec::new();
    let mut answer = None;
    if let Some((port, words)) = called {
        output.read_until(b'\n', &mut stdout)?;
        answer = Some(call(port, words).unwrap_or_else(|error| error.to_string()));
    }
    output.read_to_end(&mut stdout)?;
    Ok((stdout, answer))
}

fn call(port: u16, words: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(words.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.lines().next_back().unwrap_or("").to_owned())
}

/// A signal is 128 and its number, as shells have it.
pub(super) fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
