//! Questions and answers as bytes.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use rustix::rand::{GetRandomFlags, getrandom};
use simple_dns::{
    CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, ResourceRecord, TYPE,
    header_buffer, rdata::RData,
};

/// How many aliases of one answer are followed.
const MAX_CHAIN: usize = 16;

/// How many addresses of one answer are taken: 64 KiB of it have room for four thousand, each of which would be a rule, and
/// a line of the guest's `/etc/hosts`.
pub(super) const MOST_ADDRESSES: usize = 256;

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

impl RecordKind {
    fn type_code(self) -> TYPE {
        match self {
            Self::A => TYPE::A,
            Self::Aaaa => TYPE::AAAA,
        }
    }
}

/// One question.
#[derive(Debug)]
pub(super) struct Query {
    /// The message.
    pub(super) bytes: Vec<u8>,
    id: u16,
    name: String,
    kind: RecordKind,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The addresses, and the shortest time that any part of the answer holds.
    Addresses {
        /// Never none.
        addresses: Vec<IpAddr>,
        ttl: Duration,
    },
    /// Another name, whose addresses the answer does not have.
    Alias { name: String, ttl: Duration },
    /// There is no such name, or it has no address of that kind.
    Nothing,
}

/// Why a message is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// It answers another question, or none.
    #[error("it answers another question")]
    NotOurs,
    /// There is more than fits into a datagram.
    #[error("its answer is cut off")]
    Truncated,
    /// The server can't or won't answer.
    #[error("it answers {0:?}")]
    Refused(RCODE),
}

impl Query {
    /// A question with a random id.
    pub(super) fn new(name: &str, kind: RecordKind) -> io::Result<Self> {
        let mut id = [0; 2];
        getrandom(&mut id, GetRandomFlags::empty())?;
        let id = u16::from_ne_bytes(id);
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(Question::new(
            Name::new(name).map_err(io::Error::other)?,
            QTYPE::TYPE(kind.type_code()),
            QCLASS::CLASS(CLASS::IN),
            false,
        ));
        Ok(Self {
            bytes: packet.build_bytes_vec().map_err(io::Error::other)?,
            id,
            name: name.to_owned(),
            kind,
        })
    }

    /// What a message says to this question.
    pub(super) fn read_reply(&self, message: &[u8]) -> Result<Reply, Fault> {
        if header_buffer::id(message) != Ok(self.id) {
            return Err(Fault::NotOurs);
        }
        // What is cut off need not be well-formed.
        let truncated = PacketFlag::RESPONSE | PacketFlag::TRUNCATION;
        if header_buffer::has_flags(message, truncated) == Ok(true) {
            return Err(Fault::Truncated);
        }
        let packet = Packet::parse(message).map_err(|_| Fault::NotOurs)?;
        if !packet.has_flags(PacketFlag::RESPONSE) || !self.is_question_of(&packet) {
            return Err(Fault::NotOurs);
        }
        match packet.rcode() {
            RCODE::NoError => Ok(self.read_answers(&packet.answers)),
            RCODE::NameError => Ok(Reply::Nothing),
            refusal => Err(Fault::Refused(refusal)),
        }
    }

    fn is_question_of(&self, packet: &Packet<'_>) -> bool {
        let [question] = &packet.questions[..] else {
            return false;
        };
        Name::new(&self.name).is_ok_and(|name| question.qname == name)
            && question.qtype == QTYPE::TYPE(self.kind.type_code())
            && question.qclass == QCLASS::CLASS(CLASS::IN)
    }

    /// Follows the aliases from the name that was asked for. Records of other names are not looked
    /// at: nobody asked for them.
    fn read_answers(&self, answers: &[ResourceRecord<'_>]) -> Reply {
        let Ok(mut name) = Name::new(&self.name) else {
            return Reply::Nothing;
        };
        let mut ttl = Duration::MAX;
        for followed in 0..=MAX_CHAIN {
            let records = answers
                .iter()
                .filter(|record| record.name == name && record.class == CLASS::IN);
            let mut addresses = Vec::new();
            let mut alias = None;
            for record in records {
                match (&record.rdata, self.kind) {
                    _ if addresses.len() >= MOST_ADDRESSES => break,
                    (RData::A(a), RecordKind::A) => {
                        addresses.push(Ipv4Addr::from_bits(a.address).into());
                    }
                    (RData::AAAA(aaaa), RecordKind::Aaaa) => {
                        addresses.push(Ipv6Addr::from_bits(aaaa.address).into());
                    }
                    (RData::CNAME(cname), _) => alias = Some(cname.0.clone()),
                    _ => continue,
                }
                ttl = ttl.min(holds_for(record.ttl));
            }
            match alias {
                _ if !addresses.is_empty() => return Reply::Addresses { addresses, ttl },
                Some(alias) => name = alias,
                None if followed == 0 => return Reply::Nothing,
                None => {
                    let name = name.to_string();
                    return Reply::Alias { name, ttl };
                }
            }
        }
        Reply::Nothing
    }
}

/// A time with its highest bit set counts as none, RFC 2181, section 8.
fn holds_for(ttl: u32) -> Duration {
    let seconds = i32::try_from(ttl).map_or(0, |ttl| ttl.unsigned_abs());
    Duration::from_secs(seconds.into())
}
