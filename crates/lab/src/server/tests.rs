use super::*;
use crate::program::{Program, ending_with_the_lab};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, TcpListener},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

fn shell(script: &str) -> Program {
    Program::new(&["/bin/sh", "-c", script].map(OsString::from)).unwrap()
}

fn server(script: &str, says: &'static str) -> Server {
    Server {
        program: shell(script),
        readiness: Readiness::Says(says),
    }
}

#[test]
fn a_server_is_there_once_it_says_so_and_gone_once_it_is_dropped() {
    let mut server = server("echo here I am; exec sleep 600", "here I am");
    for _ in 0..2 {
        let running = server.start().unwrap();
        let folder = format!("/proc/{}", running.id());
        assert!(Path::new(&folder).exists());
        drop(running);
        assert!(!Path::new(&folder).exists());
    }
}

#[test]
fn a_server_that_ends_before_it_is_there_says_why() {
    let error = server("echo no such port >&2; exit 1", "ready").start();
    let text = format!("{:#}", error.expect_err("no server"));
    assert_eq!(text, "the server: it ended: no such port");
}

#[test]
fn a_server_that_does_not_heed_is_ended_with_force() {
    let mut server = server(
        "trap '' TERM; echo ready; while :; do sleep 1; done",
        "ready",
    );
    let running = server.start().unwrap();
    let folder = format!("/proc/{}", running.id());
    drop(running);
    assert!(!Path::new(&folder).exists());
}

/// A listener of our own that answers one client.
#[test]
fn a_server_is_there_once_it_answers() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answering = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        Write::write_all(&mut &stream, b"+PONG\r\n").unwrap();
        line
    });
    let mut server = Server {
        program: shell("exec sleep 600"),
        readiness: Readiness::Answers(Answer {
            transport: Transport::Tcp,
            address,
            namespace: None,
            question: b"PING\r\n",
            answer: b"+PONG",
        }),
    };
    server.start().unwrap();
    assert_eq!(answering.join().unwrap(), "PING\r\n");
}

#[test]
fn a_client_that_hangs_is_ended() {
    let limit = Duration::from_millis(1);
    let error = shell("echo waiting >&2; exec sleep 600").run_for_output_within(limit);
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("it did not end within 0 s"), "{text}");
    let said = shell("head -c 300000 /dev/zero | tr '\\0' x")
        .run_for_output_within(Duration::from_secs(60));
    assert_eq!(said.unwrap().len(), 300_000);
}

/// A lab that is killed cannot end its servers itself.
#[test]
fn a_server_ends_with_the_lab() {
    let line = ["sh", "-c", "echo $$; exec sleep 600"].map(OsString::from);
    let line = ending_with_the_lab(line.to_vec());
    let words: Vec<_> = line.iter().map(|word| word.to_str().unwrap()).collect();
    let quoted = shlex::try_join(words).unwrap();
    let mut lab = Command::new("sh")
        .args(["-c", &format!("{quoted} & wait")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = String::new();
    let mut said = BufReader::new(lab.stdout.take().unwrap());
    said.read_line(&mut server).unwrap();
    lab.kill().unwrap();
    assert_eq!(lab.wait().unwrap().signal(), Some(9));
    // Its end is the end of the pipe that it holds.
    assert_eq!(said.read_line(&mut server).unwrap(), 0);
    assert!(
        !Path::new(&format!("/proc/{}", server.trim()))
            .join("exe")
            .exists()
    );
}
