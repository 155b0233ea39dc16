use super::*;
use palisade_network::{Network, service};
use rustix::net::{recv, send, socketpair};

/// A domain's questions, and their other end.
fn asking(patience: Duration) -> (Arc<Asking>, Gate, OwnedFd) {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    let (resolver, _nobody) = service::connect().unwrap();
    let asking = Asking::new(Some(ours), patience, Arc::new(resolver), None).unwrap();
    let gate = Gate::new(Network {
        asks: true,
        ..Network::default()
    });
    (Arc::new(asking), gate, theirs)
}

fn wish(port: u16) -> Wish {
    Wish::Address(
        Transport::Tcp,
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    )
}

fn judge(asking: &Asking, port: u16) -> Judged {
    asking.judge(&wish(port), Call::Connect.into(), || Process {
        pid: 1,
        name: "test".into(),
    })
}

/// What has been asked so far: kind, and question's number.
fn told(theirs: &OwnedFd) -> Vec<Told> {
    let mut buffer = [0; 65536];
    let length = match recv(theirs, &mut buffer, RecvFlags::DONTWAIT) {
        Ok((length, _)) => length,
        Err(_) => 0,
    };
    let lines = buffer[..length].split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn says(theirs: &OwnedFd, question: u64, verdict: &str) {
    let line = format!("{{\"question\":{question},\"verdict\":\"{verdict}\"}}\n");
    send(theirs, line.as_bytes(), SendFlags::empty()).unwrap();
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn one_is_asked_at_a_time_and_equal_ones_once() {
    let (asking, gate, theirs) = asking(LONG);
    for port in [1, 2, 1, 2] {
        assert_eq!(judge(&asking, port), Judged::Waits);
    }
    let Ok([Told::Question(first)]) = <[Told; 1]>::try_from(told(&theirs)) else {
        panic!("one question");
    };
    assert_eq!((first.question, first.waiting), (1, 0));
    says(&theirs, 1, "run");
    asking.attend(&gate);
    assert!(
        gate.connect(Transport::Tcp, "127.0.0.1:1".parse().unwrap())
            .is_ok()
    );
    assert!(
        gate.connect(Transport::Tcp, "127.0.0.1:2".parse().unwrap())
            .is_err()
    );
    assert!(matches!(&told(&theirs)[..], [Told::Question(second)] if second.question == 2));
    says(&theirs, 2, "no");
    asking.attend(&gate);
    assert_eq!(judge(&asking, 2), Judged::No { was_asked: true });
    assert_eq!(told(&theirs), []);
    assert_eq!(
        asking.finish(&Observations::of_refusals(), &gate).0.len(),
        1
    );
}

#[test]
fn what_nobody_waits_for_is_taken_back_and_not_known() {
    let (asking, gate, theirs) = asking(LONG);
    judge(&asking, 1);
    judge(&asking, 2);
    lock(&asking.state).queue[0].wanted -= FORSAKEN;
    asking.attend(&gate);
    let told = told(&theirs);
    assert_eq!(told[1], Told::Withdrawn { question: 1 });
    assert!(matches!(&told[2], Told::Question(second) if second.question == 2));
    assert!(asking.is_settled(&Ticket::Answer(wish(1))));
    assert!(!asking.is_settled(&Ticket::Answer(wish(2))));
    // An answer that comes too late is about nothing.
    says(&theirs, 1, "run");
    asking.attend(&gate);
    assert!(
        gate.connect(Transport::Tcp, "127.0.0.1:1".parse().unwrap())
            .is_err()
    );
    assert_eq!(judge(&asking, 1), Judged::Waits, "it is asked about again");
}

#[test]
fn so_many_wait_and_the_rest_is_counted() {
    let (asking, gate, theirs) = asking(Duration::ZERO);
    for port in 1..=MOST_WAITING as u16 {
        assert_eq!(judge(&asking, port), Judged::Waits);
    }
    let unasked = Judged::No { was_asked: false };
    assert_eq!(judge(&asking, 1000), unasked);
    asking.attend(&gate);
    assert_eq!(
        judge(&asking, 1),
        Judged::No { was_asked: true },
        "too late"
    );
    drop(theirs);
    asking.attend(&gate);
    assert_eq!(
        judge(&asking, 2),
        Judged::No { was_asked: true },
        "nobody is there"
    );
    assert_eq!(judge(&asking, 2000), unasked);
    assert_eq!(asking.finish(&Observations::of_refusals(), &gate).1, 2);
}

#[test]
fn only_the_guest_s_own_sockets_are_answered() {
    let (asking, _, _theirs) = asking(LONG);
    let question = [
        7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 4, b't', b'e', b's', b't', 0, 0, 1, 0, 1,
    ];
    let (guest, other): (SocketAddr, SocketAddr) = (
        "127.0.0.1:1000".parse().unwrap(),
        "127.0.0.1:1001".parse().unwrap(),
    );
    asking.admit(guest);
    assert!(
        asking
            .reply(&question, guest)
            .unwrap()
            .ends_with(&[198, 18, 0, 1])
    );
    assert_eq!(asking.reply(&question, other), None);
    assert_eq!(asking.reply(b"no question", guest), None);
    assert_eq!(
        asking.name("198.18.0.1".parse().unwrap()).unwrap().as_str(),
        "a.test"
    );
}

/// An asker that agrees to all does not have a guest fill the supervisor's memory.
#[test]
fn so_many_answers_are_known_and_no_more_is_asked() {
    let (asking, gate, theirs) = asking(LONG);
    for number in 1..=MOST_KNOWN as u64 {
        assert_eq!(judge(&asking, number as u16), Judged::Waits, "{number}");
        says(&theirs, number, "run");
        asking.attend(&gate);
        told(&theirs);
    }
    assert_eq!(judge(&asking, 60_000), Judged::No { was_asked: false });
    assert!(
        gate.connect(Transport::Tcp, "127.0.0.1:60000".parse().unwrap())
            .is_err()
    );
    assert!(asking.finish(&Observations::of_refusals(), &gate).0.len() <= MOST_TOLD);
}
