//! Who could ask what operators ask: a guest that may connect to `admin`, and a client by way of an upstream server that is
//! `admin`. Who reaches it may read of all tenants and reload the server, where no token is wanted.

use super::{load::LoadError, relied_on::guest_of_service};
use crate::{
    config::{Address, Admin, Config, Server, ServiceKind},
    filters::reach::{grant_of, is_by_address},
    kinds::full_name,
    withheld::File,
};
use palisade_network::{Network, SystemResolver, address::destination};
use palisade_policy::{ConnectGrant, Transport};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Refuses a file by which somebody else than operators would reach `admin`.
///
/// Names are not looked up: those of a grant stand for public addresses, and for others that a grant by address
/// covers. A name of an upstream server is judged when it is connected to.
pub(super) fn refuse_operators(
    tenant: &str,
    config: &Config,
    admin: Option<&Admin>,
) -> Result<(), LoadError> {
    let Some(admin) = admin else {
        return Ok(());
    };
    let own = Own::of(admin);
    let filters = config.filters.iter().map(|(name, filter)| {
        let guest = format!("filter {}", full_name(tenant, name));
        (guest, &filter.policy)
    });
    let services = config
        .services
        .iter()
        .map(|(name, service)| (guest_of_service(tenant, name), &service.policy));
    for (guest, policy) in filters.chain(services) {
        let mut grants = policy.grants.connect.iter();
        if let Some(grant) = grants.find(|grant| own.is_covered_by(grant)) {
            return Err(own.refusal(guest, format!("grants {grant}")));
        }
    }
    for (name, service) in &config.services {
        let ServiceKind::Upstream(upstream) = &service.kind else {
            continue;
        };
        let is_given = own.has_token && tenant.is_empty();
        let mut servers = upstream.servers.iter();
        if !is_given && servers.any(|server| own.is_server(server)) {
            let guest = guest_of_service(tenant, name);
            return Err(own.refusal(guest, "leads there".into()));
        }
    }
    Ok(())
}

/// Where operators ask.
struct Own<'a> {
    address: &'a Address,
    has_token: bool,
    /// Of a Unix socket: its path without links, and the file there, if there is one yet.
    path: Option<PathBuf>,
    file: Option<File>,
}

impl<'a> Own<'a> {
    fn of(admin: &'a Admin) -> Self {
        let path = match &admin.address {
            Address::Unix(path) => Some(path),
            Address::Internet(_) => None,
        };
        Self {
            address: &admin.address,
            has_token: admin.token_file.is_some(),
            path: path.map(|path| canonical(path)),
            file: path.and_then(|path| File::at(path)),
        }
    }

    /// A port is everybody's who has the token; the file of a Unix socket is its owner's in any case.
    fn is_covered_by(&self, grant: &ConnectGrant) -> bool {
        match (self.address, grant) {
            (Address::Unix(_), ConnectGrant::Unix(socket)) => self.is_at(&socket.host),
            (Address::Internet(address), grant) if !self.has_token => covers(grant, *address),
            _ => false,
        }
    }

    fn is_server(&self, server: &Server) -> bool {
        match (self.address, server.socket()) {
            (Address::Unix(_), Some(path)) => self.is_at(path),
            (Address::Internet(address), None) if !self.has_token => {
                leads_to(server, *address)
                    || grant_of(server).is_some_and(|grant| covers(&grant, *address))
            }
            _ => false,
        }
    }

    /// Whether a path is the socket's, by whatever name, or that of a folder around it.
    fn is_at(&self, path: &Path) -> bool {
        let is_below = |own: &PathBuf| own.starts_with(canonical(path));
        let is_same = || self.file.is_some() && File::at(path) == self.file;
        self.path.as_ref().is_some_and(is_below) || is_same()
    }

    fn refusal(&self, guest: String, how: String) -> LoadError {
        let advice = match self.address {
            Address::Internet(_) => {
                "give `admin` a `token-file`, or let it be a Unix socket, as in admin = \"unix:admin.sock\""
            }
            Address::Unix(_) => "take another socket",
        };
        LoadError::Operators {
            guest,
            how,
            address: self.address.to_string(),
            advice,
        }
    }
}

/// Whether a guest with this grant alone could connect to this address. A port that is yet to be chosen is withheld once
/// it is known.
fn covers(grant: &ConnectGrant, address: SocketAddr) -> bool {
    // A grant of an interface that is not there is refused by whoever needs it.
    let network = || Network::resolve(std::slice::from_ref(grant), &[], &SystemResolver::default());
    is_by_address(grant)
        && network().is_ok_and(|network| network.connect(Transport::Tcp, address).is_ok())
}

/// Whether this server is written as this address, in whatever form.
fn leads_to(server: &Server, address: SocketAddr) -> bool {
    let Server::Internet { host, port, .. } = server else {
        return false;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let written = bare.parse().map(|ip| SocketAddr::new(ip, *port));
    written.is_ok_and(|written| destination(written) == destination(address))
}

/// A path without links as far as it is there.
fn canonical(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        Some((above.canonicalize().ok()?, rest))
    });
    match known {
        Some((above, rest)) if rest.as_os_str().is_empty() => above,
        Some((above, rest)) => above.join(rest),
        None => path.into(),
    }
}
