//! Who is answered at the admin socket.
//!
//! ```text
//!  Unix socket, loopback      who reaches it; with a token who has that, too
//!  another address            who has the token
//!  a browser                  our own page alone: no other page's requests, no frame, no name that leads here
//! ```
//!
//! Any page in a browser on this machine can send requests to a port of the loopback, or to a tunnel that ends at a Unix
//! socket, under a name of its own that leads there. A browser tells by the host asked for, by `origin` and by its
//! `sec-fetch-` fields, which no page can set.

use crate::config::{self, Address};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header, uri::Authority};
use rustix::{
    fs::{self, FileType, Mode, OFlags, Stat},
    io::Errno,
    process,
};
use std::{
    fs::File,
    io::{self, Read},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use subtle::ConstantTimeEq;

/// Longer than anybody types, and than is guessed.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 32..=256;

/// There is no token to be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum TokenError {
    #[error("host: cannot read the token in {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "policy: the token in {} {why}: let it be the server's user's alone, as by chmod 600",
        path.display()
    )]
    NotPrivate { path: PathBuf, why: &'static str },
    #[error(
        "policy: the token in {} is not 32 to 256 letters, digits and any of `-._~+/=`: \
         `openssl rand -hex 32` makes one",
        path.display()
    )]
    Form { path: PathBuf },
}

/// What somebody must know to be answered.
#[derive(Clone)]
pub struct Token(Box<[u8]>);

/// It is nobody's to read in a log.
impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

impl Token {
    /// The token of this configuration, if it wants one.
    ///
    /// # Errors
    /// Its file cannot be read, is not private, or holds no token.
    pub fn of(admin: &config::Admin) -> Result<Option<Self>, TokenError> {
        admin.token_file.as_deref().map(Self::read).transpose()
    }

    fn read(path: &Path) -> Result<Self, TokenError> {
        let unreadable = |source: io::Error| TokenError::Unreadable {
            path: path.into(),
            source,
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || -> Result<_, Errno> {
            let file = fs::open(path, flags, Mode::empty())?;
            let stat = fs::fstat(&file)?;
            Ok((file, stat))
        };
        let (file, stat) = open().map_err(|error| unreadable(error.into()))?;
        if let Some(why) = not_private(&stat, process::geteuid().as_raw()) {
            let path = path.into();
            return Err(TokenError::NotPrivate { path, why });
        }
        let mut bytes = Vec::new();
        let most = *TOKEN_BYTES.end() as u64 + 2;
        let read = File::from(file).take(most).read_to_end(&mut bytes);
        read.map_err(unreadable)?;
        let token = bytes.trim_ascii_end();
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        match TOKEN_BYTES.contains(&token.len()) && token.iter().all(is_token) {
            true => Ok(Self(token.into())),
            false => Err(TokenError::Form { path: path.into() }),
        }
    }

    /// Whether it is this. How long it takes tells nothing of where they differ.
    fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }

    /// Whether a request has it: as programs send it, or as a browser does that asked for a password.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(given) = the_only(headers, &header::AUTHORIZATION) else {
            return false;
        };
        let Some((scheme, given)) = given.split_once(' ') else {
            return false;
        };
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.is(given.trim().as_bytes());
        }
        let decoded = BASE64_STANDARD.decode(given.trim()).unwrap_or_default();
        let mut parts = decoded.splitn(2, |byte| *byte == b':').skip(1);
        scheme.eq_ignore_ascii_case("basic") && parts.next().is_some_and(|word| self.is(word))
    }
}

/// What of a file lets others than this user read or change it. A group may read what is root's: that is how root hands
/// it to one user.
fn not_private(stat: &Stat, user: u32) -> Option<&'static str> {
    let allowed = match (stat.st_uid == 0 && user != 0, stat.st_uid == user) {
        (true, _) => 0o740,
        (_, true) => 0o700,
        _ => return Some("belongs to another user"),
    };
    let mode = stat.st_mode & 0o777;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Some("is not in a regular file");
    }
    (mode & !allowed != 0).then_some("is open to others")
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A page made a browser send it, or may have.
    WebPage(&'static str),
    /// It has not the token.
    NoToken,
}

/// Who is answered at one socket.
#[derive(Debug)]
pub(super) struct Gate {
    address: Address,
    token: Mutex<Option<Arc<Token>>>,
}

impl Gate {
    pub(super) fn new(address: &Address, token: Option<Token>) -> Self {
        Self {
            address: address.clone(),
            token: Mutex::new(token.map(Arc::new)),
        }
    }

    /// Wants this token from now on.
    pub(super) fn set_token(&self, token: Option<Token>) {
        let mut now = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        *now = token.map(Arc::new);
    }

    /// Whether a request with these fields is answered.
    pub(super) fn pass(&self, headers: &HeaderMap) -> Result<(), Refused> {
        if let Some(why) = from_a_web_page(headers) {
            return Err(Refused::WebPage(why));
        }
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let token = token.clone();
        if let Some(why) = self.led_here(headers) {
            return Err(Refused::WebPage(why));
        }
        match token {
            Some(token) if !token.is_in(headers) => Err(Refused::NoToken),
            Some(_) => Ok(()),
            // What is read of a configuration is never so; nothing is open to the network for want of a token.
            None if self.is_open() => Err(Refused::NoToken),
            None => Ok(()),
        }
    }

    /// Whether others than this machine reach it.
    fn is_open(&self) -> bool {
        matches!(self.address, Address::Internet(address) if !address.ip().is_loopback())
    }

    /// Whether a name may have led a browser here that is the owner's of some page. Where others reach the socket, names
    /// lead to it, and no page of another name has the token.
    fn led_here(&self, headers: &HeaderMap) -> Option<&'static str> {
        let host = the_only(headers, &header::HOST);
        match self.address {
            Address::Internet(_) if self.is_open() => None,
            Address::Internet(_) => (!host.is_some_and(is_loopback)).then_some(
                "the admin socket is asked for by its address, as 127.0.0.1 or localhost",
            ),
            // Programs write there what they like; who leads others by a name has one with a dot.
            Address::Unix(_) => (!host.is_some_and(|host| is_loopback(host) || is_word(host)))
                .then_some("this socket is asked for as localhost"),
        }
    }
}

/// The value of a field that is there once.
fn the_only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none());
    value.and_then(|value| value.to_str().ok())
}

/// What another page's requests have, and those of our own page and of programs have not.
fn from_a_web_page(headers: &HeaderMap) -> Option<&'static str> {
    if headers.contains_key(header::ORIGIN) {
        return Some("the admin socket answers no web page");
    }
    let is_one_of = |name: &'static str, allowed: &[&str]| {
        let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
        values.all(|value| allowed.iter().any(|allowed| allowed.as_bytes() == value))
    };
    if !is_one_of("sec-fetch-site", &["same-origin", "none"]) {
        return Some("another page leads here: type the address, or open it from a bookmark");
    }
    if !is_one_of("sec-fetch-dest", &["document", "empty"]) {
        return Some("it is a page of its own, and no part of another one");
    }
    None
}

fn authority(host: &str) -> Option<Authority> {
    let authority = Authority::try_from(host).ok()?;
    (!host.contains('@')).then_some(authority)
}

/// Whether no name server was needed to come here.
fn is_loopback(host: &str) -> bool {
    authority(host).is_some_and(|authority| {
        let host = authority.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_address = |address: IpAddr| address.is_loopback();
        host.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(is_address)
    })
}

/// Whether it is no name of the network's.
fn is_word(host: &str) -> bool {
    authority(host).is_some_and(|authority| !authority.host().contains('.'))
}

#[cfg(test)]
mod tests;
