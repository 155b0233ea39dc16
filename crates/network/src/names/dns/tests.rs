//! Against name servers that the tests run themselves, on loopback.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use simple_dns::{
    CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE,
    rdata::{A, AAAA, CNAME, RData},
};

use super::*;

/// A name server on a udp and a tcp port of the same number. It ends with the test.
struct Server {
    address: SocketAddr,
    /// Questions by tcp so far.
    streams: Arc<AtomicUsize>,
}

/// A question: its name, and whether it is for IPv6.
struct Asked<'a> {
    packet: &'a Packet<'a>,
    name: String,
    v6: bool,
    by_stream: bool,
}

impl Server {
    /// Answers each question with the messages that `answer` makes of it.
    fn start(answer: impl Fn(&Asked<'_>) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let (udp, tcp) = same_port();
        let address = udp.local_addr().unwrap();
        let streams = Arc::new(AtomicUsize::new(0));
        let answer = Arc::new(answer);

        let (answer_udp, count) = (Arc::clone(&answer), Arc::clone(&streams));
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, peer)) = udp.recv_from(&mut buffer) {
                for message in answer_to(&buffer[..length], false, &*answer_udp) {
                    let _ = udp.send_to(&message, peer);
                }
            }
        });
        thread::spawn(move || {
            for mut stream in tcp.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut question).unwrap();
                for message in answer_to(&question, true, &*answer) {
                    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
                    let _ = stream.write_all(&[&length[..], &message].concat());
                }
            }
        });
        Self { address, streams }
    }

    fn look_up(&self, name: &str) -> Result<Answer, ResolveError> {
        look_up(&name.parse().unwrap(), &conf(&[self.address]))
    }
}

fn same_port() -> (UdpSocket, TcpListener) {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
}

fn answer_to(
    question: &[u8],
    by_stream: bool,
    answer: &dyn Fn(&Asked<'_>) -> Vec<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let packet = Packet::parse(question).unwrap();
    let asked = &packet.questions[0];
    answer(&Asked {
        packet: &packet,
        name: asked.qname.to_string(),
        v6: asked.qtype == QTYPE::TYPE(TYPE::AAAA),
        by_stream,
    })
}

fn conf(servers: &[SocketAddr]) -> ResolvConf {
    ResolvConf {
        servers: servers.to_vec(),
        timeout: Duration::from_secs(20),
        attempts: 1,
        ndots: 1,
    }
}

/// With a server that is expected not to answer.
fn impatient(servers: &[SocketAddr]) -> ResolvConf {
    ResolvConf {
        timeout: Duration::from_millis(50),
        ..conf(servers)
    }
}

impl Asked<'_> {
    fn reply(&self) -> Packet<'static> {
        let mut reply = Packet::new_reply(self.packet.id());
        reply.questions = self
            .packet
            .questions
            .iter()
            .map(|q| q.clone().into_owned())
            .collect();
        reply
    }

    /// The records of this question's kind, as `owner ttl address-or-alias`.
    fn answer(&self, records: &[&str]) -> Vec<u8> {
        let mut reply = self.reply();
        reply.answers = records.iter().map(|text| record(text)).collect();
        reply.answers.retain(|record| match record.rdata {
            RData::A(_) => !self.v6,
            RData::AAAA(_) => self.v6,
            _ => true,
        });
        bytes(&reply)
    }

    fn refuse(&self, rcode: RCODE) -> Vec<u8> {
        let mut reply = self.reply();
        *reply.rcode_mut() = rcode;
        bytes(&reply)
    }

    fn truncated(&self) -> Vec<u8> {
        let mut reply = self.reply();
        reply.set_flags(PacketFlag::TRUNCATION);
        bytes(&reply)
    }
}

fn record(text: &str) -> ResourceRecord<'static> {
    let words: Vec<&str> = text.split(' ').collect();
    let [owner, ttl, value] = words[..] else {
        panic!("{text}")
    };
    let data = match value.parse() {
        Ok(IpAddr::V4(v4)) => RData::A(A {
            address: v4.to_bits(),
        }),
        Ok(IpAddr::V6(v6)) => RData::AAAA(AAAA {
            address: v6.to_bits(),
        }),
        Err(_) => RData::CNAME(CNAME(Name::new(value).unwrap().into_owned())),
    };
    let owner = Name::new(owner).unwrap().into_owned();
    ResourceRecord::new(owner, CLASS::IN, ttl.parse().unwrap(), data)
}

fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    packet.build_bytes_vec_compressed().unwrap()
}

fn shown(answer: Result<Answer, ResolveError>) -> String {
    match answer {
        Ok(Answer { addresses, ttl }) => format!("{addresses:?} for {ttl:?}"),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn both_kinds_of_address() {
    let server = Server::start(|asked| {
        vec![asked.answer(&["A.example 300 198.51.100.1", "a.example 60 2001:db8::1"])]
    });
    assert_eq!(
        shown(server.look_up("a.example")),
        "[198.51.100.1, 2001:db8::1] for 60s"
    );
}

#[test]
fn an_alias_is_followed_within_an_answer_and_beyond() {
    let server = Server::start(|asked| {
        vec![match asked.name.as_str() {
            "www.example" => asked.answer(&[
                "www.example 300 cdn.example",
                "cdn.example 20 edge.example",
                "edge.example 60 198.51.100.1",
                "other.example 1 198.51.100.66",
            ]),
            "far.example" => asked.answer(&["far.example 30 farther.example"]),
            "farther.example" => asked.answer(&["farther.example 60 198.51.100.2"]),
            _ => asked.refuse(RCODE::NameError),
        }]
    });
    assert_eq!(
        shown(server.look_up("www.example")),
        "[198.51.100.1] for 20s"
    );
    assert_eq!(
        shown(server.look_up("far.example")),
        "[198.51.100.2] for 30s"
    );
}

#[test]
fn aliases_that_lead_nowhere_end() {
    let server = Server::start(|asked| {
        vec![match asked.name.as_str() {
            "loop.example" => asked.answer(&[
                "loop.example 60 pool.example",
                "pool.example 60 loop.example",
            ]),
            "endless.example" => asked.answer(&["endless.example 60 x.example"]),
            name => asked.answer(&[&format!("{name} 60 x{name}")]),
        }]
    });
    assert_eq!(shown(server.look_up("loop.example")), "NotFound");
    assert_eq!(shown(server.look_up("endless.example")), "NotFound");
}

#[test]
fn what_does_not_fit_is_asked_for_by_tcp() {
    let server = Server::start(|asked| match asked.by_stream {
        false => vec![asked.truncated()],
        true => {
            let lines: Vec<String> = (1..=200)
                .map(|last| format!("big.example 60 198.51.100.{last}"))
                .collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            vec![asked.answer(&lines)]
        }
    });
    assert_eq!(server.look_up("big.example").unwrap().addresses.len(), 200);
    assert_eq!(server.streams.load(Ordering::SeqCst), 2);
}

/// Whoever answers with as much as fits has no more of it believed than any name has.
#[test]
fn an_answer_without_measure_is_cut_off() {
    let server = Server::start(|asked| match asked.by_stream {
        false => vec![asked.truncated()],
        true => {
            let one =
                |number: u32| format!("big.example 0 198.51.{}.{}", number >> 8, number & 255);
            let lines: Vec<String> = (0..4000).map(one).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            vec![asked.answer(&lines)]
        }
    });
    let answer = server.look_up("big.example").unwrap();
    assert_eq!(answer.addresses.len(), message::MOST_ADDRESSES);
    assert_eq!(answer.ttl, Duration::ZERO);
}

/// Names that are compressed to themselves, to one another, forwards, or to where there is nothing (RFC 1035, section
/// 4.1.4).
#[test]
fn names_that_lead_in_circles_are_no_answer() {
    let query = Query::new("a.example", RecordKind::A).unwrap();
    let question_end = query.bytes.len() as u16;
    let pointer = |to: u16| (0xc000 | to).to_be_bytes();
    let with_owner = |owner: &[u8]| {
        let mut message = query.bytes.clone();
        // It is an answer, with one record.
        message[2] |= 0x80;
        message[7] = 1;
        message.extend_from_slice(owner);
        message.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66]);
        message
    };
    assert!(matches!(
        query.read_reply(&with_owner(&pointer(12))),
        Ok(Reply::Addresses { .. })
    ));
    let here = question_end;
    let circles = [
        pointer(here).to_vec(),
        [&pointer(here + 2)[..], &pointer(here)].concat(),
        [&[1, b'a'][..], &pointer(here)].concat(),
        [&[63][..], &[b'a'; 63], &pointer(here)].concat(),
        pointer(here + 4).to_vec(),
        pointer(0x3fff).to_vec(),
        pointer(0).to_vec(),
        [&[1, b'a'].repeat(200)[..], &[0]].concat(),
    ];
    for owner in circles {
        let read = query.read_reply(&with_owner(&owner));
        assert!(!matches!(read, Ok(Reply::Addresses { .. })), "{owner:?}");
    }
}

#[test]
fn forged_answers_are_passed_over() {
    const FORGED: &str = "203.0.113.66";
    let server = Server::start(|asked| {
        let forged = |name: &str| record(&format!("{name} 60 {FORGED}"));
        let mut other_id = asked.reply();
        other_id.set_id(asked.packet.id() ^ 1);
        other_id.answers.push(forged(&asked.name));
        let mut other_question = asked.reply();
        other_question.questions[0].qname = Name::new("b.example").unwrap();
        other_question.answers.push(forged("b.example"));
        let mut no_question = asked.reply();
        no_question.questions.clear();
        no_question.answers.push(forged(&asked.name));
        let mut a_question = asked.packet.clone();
        a_question.answers.push(forged(&asked.name));
        let mut more_records = asked.reply();
        more_records.answers.push(forged("b.example"));
        more_records.additional_records.push(forged(&asked.name));
        more_records.name_servers.push(forged(&asked.name));
        more_records
            .answers
            .push(record("a.example 60 198.51.100.1"));
        vec![
            b"".to_vec(),
            b"\0\0".to_vec(),
            vec![0xff; 600],
            bytes(&other_id),
            bytes(&other_question),
            bytes(&no_question),
            bytes(&a_question),
            bytes(&more_records),
        ]
    });
    assert_eq!(shown(server.look_up("a.example")), "[198.51.100.1] for 60s");
}

#[test]
fn an_answer_from_elsewhere_is_never_seen() {
    // The silent server's question is answered by a stranger, at once and rightly.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tell, answered) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, peer)) = silent.recv_from(&mut buffer) {
            let answer = |asked: &Asked<'_>| vec![asked.answer(&["a.example 60 203.0.113.66"])];
            for message in answer_to(&buffer[..length], false, &answer) {
                tell.send(stranger.send_to(&message, peer).is_ok()).unwrap();
            }
        }
    });
    let answer = look_up(&"a.example".parse().unwrap(), &impatient(&[address]));
    assert_eq!(shown(answer), "NoAnswer(\"127.0.0.1: timed out\")");
    assert!(answered.recv().unwrap());
}

#[test]
fn a_server_that_floods_is_given_up() {
    let server = Server::start(|asked| {
        let mut other = asked.reply();
        other.set_id(asked.packet.id() ^ 1);
        vec![bytes(&other); MAX_STRANGERS]
    });
    assert_eq!(
        shown(server.look_up("a.example")),
        "NoAnswer(\"127.0.0.1: it sends answers to other questions\")"
    );
}

#[test]
fn no_such_name_is_final_and_a_failing_server_is_not() {
    let knows_nothing = Server::start(|asked| vec![asked.refuse(RCODE::NameError)]);
    let empty = Server::start(|asked| vec![asked.answer(&[])]);
    let fails = Server::start(|asked| vec![asked.refuse(RCODE::ServerFailure)]);
    let good = Server::start(|asked| vec![asked.answer(&["a.example 60 198.51.100.1"])]);
    let look_up = |servers: &[&Server]| {
        let servers: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
        shown(look_up(&"a.example".parse().unwrap(), &conf(&servers)))
    };
    assert_eq!(look_up(&[&knows_nothing, &good]), "NotFound");
    assert_eq!(look_up(&[&empty, &good]), "NotFound");
    assert_eq!(look_up(&[&fails, &good]), "[198.51.100.1] for 60s");
    assert_eq!(
        look_up(&[&fails]),
        "NoAnswer(\"127.0.0.1: it answers ServerFailure\")"
    );
}

#[test]
fn a_dead_server_is_passed_over() {
    // A port that nobody listens at: bound, and closed again.
    let dead = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let good = Server::start(|asked| vec![asked.answer(&["a.example 60 198.51.100.1"])]);
    let servers = [dead, silent.local_addr().unwrap(), good.address];
    let patient_enough = ResolvConf {
        timeout: Duration::from_secs(1),
        ..conf(&servers)
    };
    let answer = look_up(&"a.example".parse().unwrap(), &patient_enough);
    assert_eq!(shown(answer), "[198.51.100.1] for 60s");
    let answer = look_up(&"a.example".parse().unwrap(), &impatient(&servers[..1]));
    assert!(shown(answer).starts_with("NoAnswer(\"127.0.0.1: Connection refused"));
}

#[test]
fn one_kind_is_enough() {
    let server = Server::start(|asked| {
        vec![match asked.v6 {
            true => asked.refuse(RCODE::ServerFailure),
            false => asked.answer(&["a.example 60 198.51.100.1"]),
        }]
    });
    assert_eq!(shown(server.look_up("a.example")), "[198.51.100.1] for 60s");
    let server = Server::start(|asked| vec![asked.answer(&["a.example 60 2001:db8::1"])]);
    assert_eq!(shown(server.look_up("a.example")), "[2001:db8::1] for 60s");
}

#[test]
fn times_as_they_are_written() {
    let server = Server::start(|asked| {
        vec![match asked.name.as_str() {
            "zero.example" => asked.answer(&["zero.example 0 198.51.100.1"]),
            "long.example" => asked.answer(&["long.example 2147483647 198.51.100.1"]),
            _ => asked.answer(&["negative.example 2147483648 198.51.100.1"]),
        }]
    });
    let ttl = |name| server.look_up(name).unwrap().ttl.as_secs();
    assert_eq!(ttl("zero.example"), 0);
    assert_eq!(ttl("long.example"), 2_147_483_647);
    assert_eq!(ttl("negative.example"), 0);
}

/// A stream that ends early, or that says more than it has.
#[test]
fn a_broken_stream_is_an_error_and_no_panic() {
    let server = Server::start(|asked| match asked.by_stream {
        false => vec![asked.truncated()],
        true => vec![],
    });
    assert!(shown(server.look_up("a.example")).starts_with("NoAnswer"));
    let server = Server::start(|asked| vec![asked.truncated()]);
    assert_eq!(
        shown(server.look_up("a.example")),
        "NoAnswer(\"127.0.0.1: its answer is cut off\")"
    );
}

/// Every message that differs from a good one in one byte, or is cut off, is read without a panic,
/// and none makes an address of another record's.
#[test]
fn damaged_answers_do_no_harm() {
    let query = Query::new("www.example", RecordKind::A).unwrap();
    let packet = Packet::parse(&query.bytes).unwrap();
    let asked = Asked {
        packet: &packet,
        name: "www.example".into(),
        v6: false,
        by_stream: false,
    };
    let good = asked.answer(&[
        "www.example 300 cdn.example",
        "cdn.example 20 198.51.100.1",
        "cdn.example 20 198.51.100.2",
    ]);
    assert!(
        matches!(query.read_reply(&good), Ok(Reply::Addresses { addresses, .. }) if addresses.len() == 2)
    );
    let mut read = 0;
    for length in 0..good.len() {
        assert!(!matches!(
            query.read_reply(&good[..length]),
            Ok(Reply::Addresses { .. })
        ));
    }
    for index in 0..good.len() {
        for value in 0..=u8::MAX {
            let mut damaged = good.clone();
            damaged[index] = value;
            if let Ok(Reply::Addresses { addresses, .. }) = query.read_reply(&damaged) {
                assert!((1..=2).contains(&addresses.len()));
                read += 1;
            }
        }
    }
    assert!(read > 0, "some damage does not matter");
}

#[test]
fn ids_and_ports_differ() {
    let (tell, told) = mpsc::channel();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = udp.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, peer)) = udp.recv_from(&mut buffer) {
            let packet = Packet::parse(&buffer[..length]).unwrap();
            tell.send((packet.id(), peer.port())).unwrap();
            let answer = |asked: &Asked<'_>| vec![asked.refuse(RCODE::NameError)];
            for message in answer_to(&buffer[..length], false, &answer) {
                let _ = udp.send_to(&message, peer);
            }
        }
    });
    for _ in 0..16 {
        assert_eq!(
            look_up(&"a.example".parse().unwrap(), &conf(&[address])),
            Err(ResolveError::NotFound)
        );
    }
    let (mut ids, mut ports): (Vec<u16>, Vec<u16>) = told.try_iter().unzip();
    assert_eq!(ids.len(), 32);
    for numbers in [&mut ids, &mut ports] {
        numbers.sort_unstable();
        numbers.dedup();
        // Of 32 random numbers, a few may be the same.
        assert!(numbers.len() > 24, "{numbers:?}");
    }
}
