//! Both ends of a workload, and a run of them.

use crate::{
    network::{Bridge, Endpoint, Network, Port, Transport},
    pin::{Apart, Pin},
    program::{Program, ending_with_the_lab},
    rows::serve::Site,
    sample::Reading,
    server::{Answer, Readiness, Running, Server},
    subjects::{LeavesRoot, NOBODY, Subject},
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade_policy::Policy;
use palisade_wall::Command;
use rustix::{process::geteuid, thread::CpuSet};
use std::{
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    rc::Rc,
    time::Duration,
};

/// What both ends run. What they have laid out for it is the row's.
pub(in crate::rows) struct Ends {
    /// Which end is behind the wall.
    pub(super) inside: Side,
    pub(super) transport: Transport,
    /// The program behind the wall does not run as root.
    pub(super) refuses_root: bool,
    /// The end behind the wall has one processor and the other end all others.
    pub(super) is_apart: bool,
    pub(super) server: CommandAt,
    pub(super) hello: Hello,
    /// One after the other.
    pub(super) clients: Vec<Client>,
    /// How often each of them asks in a run, in turn with those of other contenders.
    pub(super) turns: usize,
}

/// A command, as soon as it is known where the ends meet.
pub(super) type CommandAt = Box<dyn Fn(&Place) -> anyhow::Result<Command>>;

/// From what a client printed to what it measured.
pub(super) type Read = Rc<dyn Fn(&str) -> anyhow::Result<Vec<Reading>>>;

/// An end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

/// How a server shows that it is there: see [`Readiness`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Hello {
    Says(&'static str),
    /// To the first it answers with something that begins like the second.
    Answers(&'static [u8], &'static [u8]),
}

/// One that asks a server and prints what it measured.
pub(super) struct Client {
    pub(super) command: CommandAt,
    pub(super) read: Read,
    /// How often it may be started again where it aborts (`SIGABRT`) or the server is not ready again,
    /// before that is a failure.
    pub(super) most_repeats: usize,
    /// Whether it may be ended and started once more where it does not end: one that spins in a loop of its own
    /// says nothing of the server.
    pub(super) may_hang: bool,
    /// It prepares the server for the others, and is asked once after each start.
    pub(super) is_asked_once: bool,
}

/// Where the ends of one contender meet.
#[derive(Debug)]
pub(super) struct Place {
    /// The server's address as it calls it itself.
    pub(super) listens: IpAddr,
    /// The same as clients call it.
    pub(super) connects: IpAddr,
    pub(super) port: u16,
    /// Who the end behind the wall is there, by uid; `None` of a wall that has users of its own.
    pub(super) uid: Option<u32>,
    /// The port of the host's that is nobody else's meanwhile; `None` of a place that nobody meets at.
    reserved: Option<Port>,
    /// The network between them, where it is none of the host's.
    bridge: Option<Bridge>,
}

/// A client that has not ended by then never will.
const PATIENCE: Duration = Duration::from_secs(180);

/// The same for one that is known to hang, and done within seconds else.
const SHORT_PATIENCE: Duration = Duration::from_secs(60);

impl Ends {
    /// A command line of the end behind the wall, to tell who can run such a thing.
    pub(in crate::rows) fn inside_for_example(&self) -> anyhow::Result<(Command, Network)> {
        let place = Place::of_loopback(1);
        let command = match self.inside {
            Side::Server => (self.server)(&place)?,
            Side::Client => {
                let client = self.clients.first().context("a row without a client")?;
                (client.command)(&place)?
            }
        };
        Ok((command, self.network(&place)))
    }

    /// The server behind a wall, for clients that ask several in turn.
    pub(in crate::rows) fn site(
        &self,
        subject: &dyn Subject,
        policy: &Policy,
    ) -> anyhow::Result<Site> {
        let place = self.place(subject)?;
        let maker = Maker {
            ends: self,
            place: &place,
            subject,
            policy,
        };
        let server = Server {
            program: maker.program(Side::Server, &(self.server)(&place)?)?,
            readiness: self.readiness(&place),
        };
        Ok(Site {
            servers: vec![server],
            base: format!("http://{}", SocketAddr::new(place.connects, place.port)),
            _reserved: place.reserved.into_iter().collect(),
        })
    }

    /// What the end behind the wall needs of the network.
    fn network(&self, place: &Place) -> Network {
        let endpoint = |address| Endpoint {
            transport: self.transport,
            address,
            port: place.port,
            namespace: place.bridge.as_ref().map(Bridge::inside),
        };
        match self.inside {
            Side::Server => Network::Listens(endpoint(place.listens)),
            Side::Client => Network::Connects(endpoint(place.connects)),
        }
    }

    /// A place with a port that is free, and a network of its own where the subject is one.
    fn place(&self, subject: &dyn Subject) -> anyhow::Result<Place> {
        let port = Port::find(self.transport)?;
        let mut place = Place::of_loopback(port.number);
        place.reserved = Some(port);
        if subject.leaves_root() == LeavesRoot::ByItself {
            place.uid = None;
        } else if self.refuses_root && geteuid().is_root() {
            place.uid = Some(NOBODY);
        }
        if subject.has_network_of_the_lab() {
            let bridge = Bridge::new(self.transport, place.port)?;
            place.connects = Bridge::PUBLISHED;
            place.listens = match self.inside {
                Side::Server => Bridge::INSIDE,
                Side::Client => Bridge::PUBLISHED,
            };
            place.bridge = Some(bridge);
        }
        Ok(place)
    }

    fn readiness(&self, place: &Place) -> Readiness {
        match self.hello {
            Hello::Says(words) => Readiness::Says(words),
            Hello::Answers(question, answer) => Readiness::Answers(Answer {
                transport: self.transport,
                address: SocketAddr::new(place.connects, place.port),
                namespace: place.bridge.as_ref().map(Bridge::outside),
                question,
                answer,
            }),
        }
    }
}

impl Place {
    fn of_loopback(port: u16) -> Self {
        Self {
            listens: IpAddr::V4(Ipv4Addr::LOCALHOST),
            connects: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
            uid: Some(geteuid().as_raw()),
            reserved: None,
            bridge: None,
        }
    }
}

impl Place {
    /// The server as our programs take it: `127.0.0.1 8080`.
    pub(super) fn server_words(&self, address: IpAddr) -> [OsString; 2] {
        [address.to_string().into(), self.port.to_string().into()]
    }
}

/// Gives a folder, with all in it, to whom guests are where they refuse to be root.
pub(super) fn give_to_nobody(path: &Path) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    chown(path, Some(NOBODY), Some(NOBODY)).context("host: cannot give a file away")?;
    if path.is_dir() {
        for entry in std::fs::read_dir(path).context("host: cannot list a folder")? {
            give_to_nobody(&entry?.path())?;
        }
    }
    Ok(())
}

/// Lays out the folder that guests may write to, as theirs.
pub(super) fn add_own_folder(workloads: &Workloads) -> anyhow::Result<()> {
    workloads.add_files(0)?;
    give_to_nobody(&workloads.files_folder())
}

/// Both ends of one contender.
pub(super) struct TwoEnds {
    server: Server,
    clients: Vec<Asking>,
    inside: Side,
    apart: Option<Apart>,
    /// What each run must tell.
    measures: Vec<&'static str>,
    /// The network between them goes last.
    _place: Place,
}

impl TwoEnds {
    pub(super) fn new(
        ends: &Ends,
        subject: &dyn Subject,
        policy: &Policy,
        measures: Vec<&'static str>,
    ) -> anyhow::Result<Self> {
        let place = ends.place(subject)?;
        let maker = Maker {
            ends,
            place: &place,
            subject,
            policy,
        };
        let server = Server {
            program: maker.program(Side::Server, &(ends.server)(&place)?)?,
            readiness: ends.readiness(&place),
        };
        let clients = ends.clients.iter().map(|client| {
            let command = (client.command)(&place)?;
            let program = maker.program(Side::Client, &command)?;
            Ok(Asking {
                program,
                read: Rc::clone(&client.read),
                most_repeats: client.most_repeats,
                may_hang: client.may_hang,
                is_asked_once: client.is_asked_once,
            })
        });
        Ok(Self {
            server,
            clients: clients.collect::<anyhow::Result<_>>()?,
            inside: ends.inside,
            apart: ends.is_apart.then(Apart::find).transpose()?,
            measures,
            _place: place,
        })
    }

    fn pin(&self, side: Side) -> anyhow::Result<Option<Pin>> {
        let processors = |apart: Apart| -> CpuSet {
            match side == self.inside {
                true => apart.inside,
                false => apart.outside,
            }
        };
        let pin = self.apart.map(|apart| Pin::to(&processors(apart)));
        pin.transpose()
    }

    /// Starts the server and waits until it answers.
    pub(super) fn start(&mut self) -> anyhow::Result<Running> {
        let _pin = self.pin(Side::Server)?;
        self.server.start()
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Has a client ask the server, unless it has done so already and does no more.
    pub(super) fn ask(
        &mut self,
        client: usize,
        server: &mut Running,
        is_first: bool,
        limit: Option<Duration>,
    ) -> anyhow::Result<Vec<Reading>> {
        let _pin = self.pin(Side::Client)?;
        let client = &mut self.clients[client];
        if client.is_asked_once && !is_first {
            return Ok(Vec::new());
        }
        let asked = client.ask(limit);
        asked.with_context(|| format!("the client (the server: {})", server.last_words()))
    }

    /// What a run told, if that is all that it must.
    pub(super) fn whole(&self, readings: Vec<Reading>) -> anyhow::Result<Vec<Reading>> {
        let is_there = |key| readings.iter().any(|one: &Reading| one.measure == key);
        let missing = self.measures.iter().find(|key| !is_there(**key));
        ensure!(missing.is_none(), "the client left out {missing:?}");
        Ok(readings)
    }
}

/// A client of one contender.
struct Asking {
    program: Program,
    read: Read,
    most_repeats: usize,
    may_hang: bool,
    is_asked_once: bool,
}

impl Asking {
    fn ask(&mut self, limit: Option<Duration>) -> anyhow::Result<Vec<Reading>> {
        let mut asked = self.ask_once(limit);
        for _ in 0..self.most_repeats {
            if !asked.as_ref().is_err_and(may_be_repeated) {
                break;
            }
            asked = self.ask_once(limit);
        }
        asked
    }

    fn ask_once(&mut self, limit: Option<Duration>) -> anyhow::Result<Vec<Reading>> {
        let patience = match self.may_hang {
            true => SHORT_PATIENCE,
            false => PATIENCE,
        };
        let within = |time: Duration| limit.map_or(time, |limit| time.min(limit));
        let mut said = self.program.run_for_output_within(within(patience));
        if self.may_hang && said.as_ref().is_err_and(has_hung) {
            said = self.program.run_for_output_within(within(PATIENCE));
        }
        (self.read)(&said?)
    }
}

fn has_hung(error: &anyhow::Error) -> bool {
    error.to_string().contains("did not end within")
}

/// It aborted; or the server, iperf3, has not put away the client before, and is busy or does not listen
/// for that moment.
fn may_be_repeated(error: &anyhow::Error) -> bool {
    const REASONS: [&str; 3] = [
        "SIGABRT",
        "busy running a test",
        "unable to connect to server",
    ];
    let error = error.to_string();
    REASONS.iter().any(|reason| error.contains(reason))
}

/// Makes the programs of both ends.
struct Maker<'a> {
    ends: &'a Ends,
    place: &'a Place,
    subject: &'a dyn Subject,
    policy: &'a Policy,
}

impl Maker<'_> {
    fn program(&self, side: Side, command: &Command) -> anyhow::Result<Program> {
        match side == self.ends.inside {
            true => self.inside(command),
            false => self.outside(command),
        }
    }

    fn inside(&self, command: &Command) -> anyhow::Result<Program> {
        let network = self.ends.network(self.place);
        let make =
            |command: &Command| Program::with_network(self.subject, self.policy, command, &network);
        let refuses_root = self.ends.refuses_root || self.subject.refuses_root();
        if !refuses_root || !geteuid().is_root() {
            return make(command);
        }
        match self.subject.leaves_root() {
            LeavesRoot::ByItself => make(command),
            LeavesRoot::Last => make(&as_nobody(command)),
            LeavesRoot::First => {
                let mut program = make(command)?;
                program.command().uid(NOBODY).gid(NOBODY);
                Ok(program)
            }
        }
    }

    /// With no wall, in the network that the server or the client is reached by.
    fn outside(&self, command: &Command) -> anyhow::Result<Program> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(bridge) = &self.place.bridge {
            let mut namespace = OsString::from("--net=");
            namespace.push(bridge.outside());
            words.extend(["nsenter".into(), namespace]);
        }
        words.push(command.program.clone());
        words.extend(command.arguments.iter().cloned());
        Program::new(&ending_with_the_lab(words))
    }
}

fn as_nobody(command: &Command) -> Command {
    let mut arguments: Vec<OsString> = vec![
        format!("--reuid={NOBODY}").into(),
        format!("--regid={NOBODY}").into(),
        "--clear-groups".into(),
        "--".into(),
        command.program.clone(),
    ];
    arguments.extend(command.arguments.iter().cloned());
    Command {
        program: "setpriv".into(),
        arguments,
    }
}
