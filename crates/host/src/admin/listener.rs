//! The socket itself.

use super::{
    Admin,
    access::{Gate, Token, TokenError},
    seats::{Seat, Seats, Stage},
};
use crate::{
    config::{self, Address},
    edge::{ListenError, Listening},
    io::Io,
    withheld::Operators,
};
use hyper::{server::conn::http1, service::service_fn};
use std::{
    convert::Infallible,
    error::Error,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::JoinHandle,
    time::sleep,
};

/// Permissions of the socket's file: the server's user alone.
const MODE: u32 = 0o600;
/// From a connection's beginning to the end of its request's head.
const MOST_HEAD_TIME: Duration = Duration::from_secs(5);
/// A connection is one request; a reload may have to compile.
const MOST_TIME: Duration = Duration::from_secs(600);
/// From when there is an answer to when it has been taken, be it by a tunnel over a slow line.
const MOST_ANSWER_TIME: Duration = Duration::from_secs(30);
/// After an accept that failed, as for want of descriptors.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The admin socket can't be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum AdminError {
    #[error("`admin`: {0}")]
    Listen(#[from] ListenError),
    #[error("host: cannot use the admin socket: {0}")]
    Socket(#[source] io::Error),
    #[error("`admin`: {0}")]
    Token(#[from] TokenError),
}

/// An open admin socket. Dropping it closes it, and removes the file of a Unix socket.
#[derive(Debug)]
pub struct AdminListener {
    listening: Listening,
    gate: Arc<Gate>,
    accepting: JoinHandle<()>,
    /// No guest is led here, nor a client of this server by an upstream.
    own: Mutex<Option<Operators>>,
}

impl Drop for AdminListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl AdminListener {
    /// Listens where it is asked for and answers by `admin`, on this thread's runtime.
    ///
    /// # Errors
    /// Somebody else listens there, the system refuses, or the token is not to be had.
    pub fn open(config: &config::Admin, admin: Admin) -> Result<Self, AdminError> {
        let token = Token::of(config)?;
        let has_token = token.is_some();
        // From before anybody could come in.
        let _asked_for = match &config.address {
            Address::Internet(_) => Operators::at(&config.address, has_token),
            Address::Unix(_) => None,
        };
        let listening = Listening::bind(&config.address, Some(MODE), 1)?;
        let own = Operators::at(listening.address(), has_token);
        let socket = listening.socket(0)?;
        let gate = Arc::new(Gate::new(&config.address, token));
        let own_gate = Arc::clone(&gate);
        let accepting = match &config.address {
            Address::Internet(_) => {
                let listener = TcpListener::from_std(socket.into()).map_err(AdminError::Socket)?;
                tokio::spawn(async move {
                    let seats = Seats::default();
                    loop {
                        match listener.accept().await {
                            Ok((stream, _)) => serve(stream, &seats, &admin, &gate),
                            Err(error) => admin.wait_after(&error).await,
                        }
                    }
                })
            }
            Address::Unix(_) => {
                let listener = UnixListener::from_std(socket.into()).map_err(AdminError::Socket)?;
                tokio::spawn(async move {
                    let seats = Seats::default();
                    loop {
                        match listener.accept().await {
                            Ok((stream, _)) => serve(stream, &seats, &admin, &gate),
                            Err(error) => admin.wait_after(&error).await,
                        }
                    }
                })
            }
        };
        Ok(Self {
            listening,
            gate: own_gate,
            accepting,
            own: Mutex::new(own),
        })
    }

    /// Wants this token from now on.
    pub fn set_token(&self, token: Option<Token>) {
        // Guests are kept away before the token is not asked for any more, and let in after it is.
        let own = Operators::at(self.listening.address(), token.is_some());
        let mut now = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *now, own);
        self.gate.set_token(token);
        drop(before);
    }

    /// Where it listens, with the port that it really is.
    pub fn address(&self) -> &Address {
        self.listening.address()
    }
}

impl Admin {
    async fn wait_after(&self, error: &io::Error) {
        self.note(error);
        sleep(AGAIN_AFTER).await;
    }
}

/// Serves a connection on a task of its own, for one request. It ends when somebody else needs its seat more.
fn serve<S>(stream: S, seats: &Seats, admin: &Admin, gate: &Arc<Gate>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let seat = seats.take();
    let number = seat.number();
    let (admin, gate) = (admin.clone(), Arc::clone(gate));
    let task = tokio::spawn(async move {
        let service = service_fn(|request| {
            seat.reaches(Stage::Asked);
            let (admin, gate, seat) = (admin.clone(), Arc::clone(&gate), &seat);
            async move {
                let answer = admin.answer(request, &gate).await;
                seat.reaches(Stage::Answered);
                Ok::<_, Infallible>(answer)
            }
        });
        let mut server = http1::Builder::new();
        let connection = server
            .keep_alive(false)
            .serve_connection(Io(stream), service);
        if let Err(error) = in_time(pin!(connection), &seat).await {
            admin.note(&*error);
        }
    });
    seats.is_of(number, task.abort_handle());
}

/// A connection to its end, each of whose stages has its time.
async fn in_time<E: Error + Send + Sync + 'static>(
    mut connection: Pin<&mut impl Future<Output = Result<(), E>>>,
    seat: &Seat,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    loop {
        let time = match seat.stage() {
            Stage::Silent => MOST_HEAD_TIME,
            Stage::Asked => MOST_TIME,
            Stage::Answered => MOST_ANSWER_TIME,
        };
        tokio::select! {
            ended = &mut connection => return Ok(ended?),
            () = seat.moves_on() => {}
            () = sleep(time) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }
}
