//! The socket itself.

use super::{
    Admin,
    access::{Gate, Token, TokenError},
};
use crate::{
    config::{self, Address},
    edge::{ListenError, Listening},
    io::Io,
};
use hyper::{server::conn::http1, service::service_fn};
use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time::timeout,
};

/// Permissions of the socket's file: the server's user alone.
const MODE: u32 = 0o600;
/// Connections at one time.
const MOST_CONNECTIONS: usize = 64;
/// From a connection's beginning to the end of its request's head: others wait for its permit.
const MOST_HEAD_TIME: Duration = Duration::from_secs(5);
/// A connection is one request; a reload may have to compile.
const MOST_TIME: Duration = Duration::from_secs(600);
/// After an accept that failed, as for want of descriptors.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The admin socket can't be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum AdminError {
    #[error("`admin`: {0}")]
    Listen(#[from] ListenError),
    #[error("host: cannot use the admin socket: {0}")]
    Socket(#[source] std::io::Error),
    #[error("`admin`: {0}")]
    Token(#[from] TokenError),
}

/// An open admin socket. Dropping it closes it, and removes the file of a Unix socket.
#[derive(Debug)]
pub struct AdminListener {
    listening: Listening,
    gate: Arc<Gate>,
    accepting: JoinHandle<()>,
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
        let listening = Listening::bind(&config.address, Some(MODE), 1)?;
        let socket = listening.socket(0)?;
        let gate = Arc::new(Gate::new(&config.address, token));
        let own_gate = Arc::clone(&gate);
        let accepting = match &config.address {
            Address::Internet(_) => {
                let listener = TcpListener::from_std(socket.into()).map_err(AdminError::Socket)?;
                tokio::spawn(async move {
                    let permits = Permits::default();
                    loop {
                        let permit = permits.take().await;
                        match listener.accept().await {
                            Ok((stream, _)) => permit.serve(stream, &admin, &gate),
                            Err(error) => admin.wait_after(&error).await,
                        }
                    }
                })
            }
            Address::Unix(_) => {
                let listener = UnixListener::from_std(socket.into()).map_err(AdminError::Socket)?;
                tokio::spawn(async move {
                    let permits = Permits::default();
                    loop {
                        let permit = permits.take().await;
                        match listener.accept().await {
                            Ok((stream, _)) => permit.serve(stream, &admin, &gate),
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
        })
    }

    /// Wants this token from now on.
    pub fn set_token(&self, token: Option<Token>) {
        self.gate.set_token(token);
    }

    /// Where it listens, with the port that it really is.
    pub fn address(&self) -> &Address {
        self.listening.address()
    }
}

impl Admin {
    async fn wait_after(&self, error: &std::io::Error) {
        self.note(error);
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Room for connections.
struct Permits(Arc<Semaphore>);

impl Default for Permits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_CONNECTIONS)))
    }
}

/// Room for one, given back when this is dropped.
struct Permit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Permits {
    async fn take(&self) -> Permit {
        // It is never closed.
        Permit {
            _permit: self.0.clone().acquire_owned().await.ok(),
        }
    }
}

impl Permit {
    /// Serves a connection on a task of its own, for one request.
    fn serve<S>(self, stream: S, admin: &Admin, gate: &Arc<Gate>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (admin, gate) = (admin.clone(), Arc::clone(gate));
        tokio::spawn(async move {
            let is_asked = AtomicBool::new(false);
            let service = service_fn(|request| {
                is_asked.store(true, Ordering::Relaxed);
                let (admin, gate) = (admin.clone(), Arc::clone(&gate));
                async move { Ok::<_, Infallible>(admin.answer(request, &gate).await) }
            });
            let mut server = http1::Builder::new();
            let connection = server
                .keep_alive(false)
                .serve_connection(Io(stream), service);
            let mut connection = pin!(connection);
            let mut ended = timeout(MOST_HEAD_TIME, &mut connection).await;
            if ended.is_err() && is_asked.load(Ordering::Relaxed) {
                ended = timeout(MOST_TIME, connection).await;
            }
            match ended {
                Ok(Err(error)) => admin.note(&error),
                Err(elapsed) => admin.note(&elapsed),
                Ok(Ok(())) => {}
            }
            drop(self);
        });
    }
}
