//! Against servers of a few lines that do what the tests need.

use crate::{
    address::Address,
    busy,
    choice::{Choice, Popularity},
    each,
    failures::Failures,
    offered, paced, paired, run,
    watch::Wait,
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// A server that answers the request of a number, counted from 0 on for each connection; `None` ends the
/// connection. It ends with the test.
fn server(answer: impl Fn(usize) -> Option<String> + Clone + Send + 'static) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || serve(stream.unwrap(), &answer));
        }
    });
    url.parse().unwrap()
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(usize) -> Option<String>) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let heads = lines.map_while(Result::ok).filter(String::is_empty);
    for (number, _) in heads.enumerate() {
        let is_sent = answer(number).map(|text| stream.write_all(text.as_bytes()));
        if !matches!(is_sent, Some(Ok(()))) {
            return;
        }
    }
}

/// The tests run beside others: a processor that spins would be somebody else's.
fn asked_in_turn(addresses: &[Address], requests: usize) -> Vec<paired::SubjectTold> {
    let how = paired::How {
        requests,
        connections: 2,
        wait: Wait::Sleep,
    };
    paired::ask(addresses, &how).unwrap().subjects
}

#[test]
fn each_latency_is_told() {
    let slow = |_| {
        thread::sleep(Duration::from_millis(2));
        Some(HELLO.to_owned())
    };
    let addresses = [server(|_| Some(HELLO.to_owned())), server(slow)];
    let told = asked_in_turn(&addresses, 20);
    for (subject, address) in told.iter().zip(&addresses) {
        assert_eq!(subject.url, address.url);
        assert_eq!(subject.latencies_ns.len(), 20);
        assert_eq!(subject.body_bytes, Some(5));
        assert_eq!(subject.failures, Failures::default());
    }
    assert!(told[1].latencies_ns.iter().all(|ns| *ns >= 2_000_000));
}

#[test]
fn spinning_finds_answers_too() {
    let addresses = [(); 2].map(|()| server(|_| Some(HELLO.to_owned())));
    let how = paired::How {
        requests: 5,
        connections: 1,
        wait: Wait::Spin,
    };
    let told = paired::ask(&addresses, &how).unwrap();
    assert!(told.subjects.iter().all(|one| one.latencies_ns.len() == 5));
}

/// Of the 20 requests on 2 connections and those of the warm-up, some go wrong.
#[test]
fn each_failure_is_counted_and_no_latency() {
    let refusing = server(|_| {
        Some("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned())
    });
    let breaking = server(|_| None);
    let cutting = server(|number| (number < 3).then(|| HELLO.to_owned()));
    let growing = server(|number| {
        let body = "x".repeat(number + 1);
        let length = body.len();
        Some(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    });
    let absent: Address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        url.parse().unwrap()
    };
    let addresses = [refusing, breaking, cutting, growing, absent];
    let told = asked_in_turn(&addresses, 20);
    let failures: Vec<_> = told.iter().map(|one| one.failures).collect();
    let none = Failures::default();
    assert_eq!(failures[0], Failures { status: 22, ..none });
    assert_eq!(failures[1], Failures { broken: 22, ..none });
    let cut = failures[2].broken;
    assert!(
        cut >= 4
            && failures[2]
                == Failures {
                    broken: cut,
                    ..none
                }
    );
    assert!(failures[3].length > 0, "{failures:?}");
    assert_eq!(
        failures[4],
        Failures {
            connect: 22,
            ..none
        }
    );
    let counted: Vec<_> = told.iter().map(|one| one.latencies_ns.len()).collect();
    assert_eq!((counted[0], counted[1], counted[4]), (0, 0, 0));
}

#[test]
fn a_server_that_says_so_may_close_a_connection() {
    let closing = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    let address = server(move |number| (number == 0).then(|| closing.to_owned()));
    let how = busy::How {
        time: Duration::from_millis(50),
        connections: 2,
        wait: Wait::Sleep,
    };
    let told = ask_one(&address, &how).unwrap();
    assert!(told.answers > 0 && told.closed == told.answers, "{told:?}");
    assert_eq!(told.failures, Failures::default());
}

#[test]
fn a_closed_loop_counts_answers_and_what_was_lost() {
    let how = busy::How {
        time: Duration::from_millis(100),
        connections: 4,
        wait: Wait::Sleep,
    };
    let told = ask_one(&server(|_| Some(HELLO.to_owned())), &how).unwrap();
    assert_eq!(told.failures, Failures::default());
    let rate = told.answers as f64 / told.seconds;
    assert!(told.replies_per_s > 0.0 && told.replies_per_s <= rate);
    assert!(told.latency.is_some_and(|latency| latency.p50_ns > 0));

    let dying = server(|number| (number < 10).then(|| HELLO.to_owned()));
    let told = ask_one(&dying, &how).unwrap();
    assert!(told.failures.broken > 0 && told.answers > 0, "{told:?}");
}

/// Its first answer comes after the time that it is asked for: it is waited for, and there is a rate above nothing.
#[test]
fn a_server_that_is_late_has_a_rate_all_the_same() {
    let late = server(|_| {
        thread::sleep(Duration::from_millis(100));
        Some(HELLO.to_owned())
    });
    let time = Duration::from_millis(5);
    for wait in [Wait::Sleep, Wait::Spin] {
        let how = busy::How {
            time,
            connections: 2,
            wait,
        };
        let told = ask_one(&late, &how).unwrap();
        assert!(told.replies_per_s > 0.0 && told.answers >= 1, "{told:?}");
        assert_eq!(told.failures, Failures::default());
        let how = offered::How {
            rates: vec![100],
            time,
            connections: 2,
            wait,
        };
        let told = offered::ask(&late, &how).unwrap();
        let one = &told.rates[0];
        assert!(one.replies_per_s > 0.0 && one.latency.is_some(), "{one:?}");
        assert_eq!(one.failures, Failures::default());
    }
}

#[test]
fn an_open_loop_sends_at_its_rate() {
    let how = offered::How {
        rates: vec![100, 400],
        time: Duration::from_millis(250),
        connections: 8,
        wait: Wait::Sleep,
    };
    let told = offered::ask(&server(|_| Some(HELLO.to_owned())), &how).unwrap();
    let [first, second] = &told.rates[..] else {
        panic!("{told:?}");
    };
    assert_eq!((first.offered_per_s, second.offered_per_s), (100, 400));
    for one in &told.rates {
        assert_eq!(one.failures, Failures::default());
        let due = (one.offered_per_s as f64 * one.seconds) as usize;
        assert!(
            one.sent + one.unsent >= due && one.sent <= due + 1,
            "{one:?}"
        );
        assert!(one.latency.is_some() && one.gap.is_some() && one.late.is_some());
    }
}

/// It answers 50 requests in a second and is offered 1000: it is asked all the same, and what waits for it counts.
#[test]
fn a_server_that_falls_behind_cannot_hide_it() {
    let slow = server(|_| {
        thread::sleep(Duration::from_millis(20));
        Some(HELLO.to_owned())
    });
    let how = offered::How {
        rates: vec![1000],
        time: Duration::from_millis(400),
        connections: 1,
        wait: Wait::Sleep,
    };
    let told = offered::ask(&slow, &how).unwrap();
    let one = &told.rates[0];
    assert!(one.replies_per_s <= 60.0, "{one:?}");
    assert!(one.unsent >= 300, "{one:?}");
    // One that took 20 ms, asked at the end, was due long before.
    let latency = one.latency.unwrap();
    assert!(latency.most_ns > 200_000_000, "{one:?}");
    assert_eq!(one.failures, Failures::default());
}

fn ask_one(address: &Address, how: &busy::How) -> anyhow::Result<busy::Told> {
    let choice = Choice::new(1, Popularity::Even);
    busy::ask(std::slice::from_ref(address), choice, how)
}

#[test]
fn a_closed_loop_asks_for_any_of_many() {
    let address = server(|_| Some(HELLO.to_owned()));
    let how = busy::How {
        time: Duration::from_millis(20),
        connections: 3,
        wait: Wait::Sleep,
    };
    let addresses = [address.clone(), address.clone()];
    let told = busy::ask(&addresses, Choice::new(2, Popularity::Zipf), &how).unwrap();
    assert!(told.answers > 0 && told.failures == Failures::default());
    let other = server(|_| None);
    let choice = Choice::new(2, Popularity::Even);
    assert!(busy::ask(&[address, other], choice, &how).is_err());
}

#[test]
fn each_is_asked_once() {
    let hello = server(|number| (number < 3).then(|| HELLO.to_owned()));
    let list = [(); 5].map(|()| hello.clone());
    let told = each::ask(&list, Wait::Sleep).unwrap();
    // The fourth finds a server that ends the connection, and the fifth has a new one.
    assert_eq!((told.latencies_ns.len(), told.body_bytes), (4, Some(5)));
    let broken = Failures {
        broken: 1,
        ..Failures::default()
    };
    assert_eq!(told.failures, broken);
}

#[test]
fn clients_keep_their_pace() {
    let addresses = [(); 2].map(|()| server(|_| Some(HELLO.to_owned())));
    let how = paced::How {
        hertz: 50,
        time: Duration::from_millis(210),
        clients: 3,
        wait: Wait::Sleep,
    };
    let told = paced::ask(&addresses, &how).unwrap();
    // Ten periods and a half; a machine with much else to do may miss some.
    assert!((6..=66).contains(&told.answers), "{told:?}");
    assert!(told.latency.is_some() && told.jitter.is_some(), "{told:?}");
    assert_eq!(told.failures, Failures::default());
}

#[test]
fn figures_are_json() {
    let address = server(|_| Some(HELLO.to_owned()));
    let url = address.url.as_str();
    let told = run(&["--sleep", "paired", "3", "1", url, url]).unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let latencies = told["subjects"][1]["latencies_ns"].as_array();
    assert_eq!(latencies.map(Vec::len), Some(3));
    let told = run(&["--sleep", "busy", "20", "1", url]).unwrap();
    assert!(told.contains("\"replies_per_s\":"), "{told}");
    let told = run(&["--sleep", "offered", "50,100", "40", "2", url]).unwrap();
    assert_eq!(told.matches("\"offered_per_s\":").count(), 2, "{told}");
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), format!("{url}\n{url} s1.lab\n")).unwrap();
    let list = list.path().to_str().unwrap();
    let told = run(&["--sleep", "each", list]).unwrap();
    assert!(told.contains("\"latencies_ns\":["), "{told}");
    let told = run(&["--sleep", "among", "20", "1", "zipf", list]).unwrap();
    assert!(told.contains("\"replies_per_s\":"), "{told}");
    let told = run(&["--sleep", "paced", "50", "50", "1", list]).unwrap();
    assert!(told.contains("\"jitter\":"), "{told}");
}

/// A server that answers 200 to a body of so many bytes, all of them `x`, and 400 to others.
fn taking_bodies(bytes: usize) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            thread::spawn(move || while take_body(&mut stream, bytes).is_some() {});
        }
    });
    url.parse().unwrap()
}

fn take_body(stream: &mut BufReader<TcpStream>, bytes: usize) -> Option<()> {
    let lines = stream.by_ref().lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let length = head
        .iter()
        .find_map(|line| line.strip_prefix("Content-Length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    let is_right = head[0].starts_with("POST / ") && body == vec![b'x'; bytes];
    let answer = match is_right {
        true => HELLO.to_owned(),
        false => HELLO.replace("200 OK", "400 Bad Request"),
    };
    stream.get_mut().write_all(answer.as_bytes()).ok()
}

/// More than a socket has room for: it is sent bit by bit.
#[test]
fn a_large_body_is_posted_whole() {
    const BYTES: usize = 8 << 20;
    let body = vec![b'x'; BYTES];
    let addresses = [BYTES, BYTES, BYTES + 1].map(|bytes| taking_bodies(bytes).posting(&body));
    for wait in [Wait::Sleep, Wait::Spin] {
        let how = paired::How {
            requests: 3,
            connections: 1,
            wait,
        };
        let told = paired::ask(&addresses, &how).unwrap().subjects;
        for right in &told[..2] {
            assert_eq!(right.failures, Failures::default());
            assert_eq!(right.latencies_ns.len(), 3);
        }
        assert_eq!(told[2].failures.status, 4);
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    for words in [
        &["paired", "3", "1", "http://127.0.0.1:1/"][..],
        &[
            "paired",
            "0",
            "1",
            "http://127.0.0.1:1/",
            "http://127.0.0.1:1/",
        ],
        &[
            "paired",
            "--post",
            "/nowhere/body",
            "1",
            "1",
            "http://127.0.0.1:1/",
            "http://127.0.0.1:1/",
        ],
        &["busy", "many", "1", "http://127.0.0.1:1/"],
        &["busy", "1", "1", "nowhere"],
        &["among", "1", "1", "often", "/nowhere/list"],
        &["each", "/nowhere/list"],
        &["nothing"],
        &[],
    ] {
        assert!(run(words).is_err(), "{words:?}");
    }
}
