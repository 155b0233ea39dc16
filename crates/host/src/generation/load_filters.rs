//! Filters of a configuration, and where their code comes from.

use super::{
    load::{LoadError, Tools},
    tenant::Tenant,
};
use crate::{
    budget::Budget,
    code::{OnDemand, Source},
    config::{self, Config, Server, ServiceKind},
    filters::{self, FilterLink},
    kinds::GuestKind,
    quota::Quota,
    stamp::Stamp,
};
use bytes::Bytes;
use palisade_engine::guest::{self, Limits};
use palisade_filter::{Bounds, Settings};
use palisade_network::SystemResolver;
use palisade_policy::{ConnectGrant, HostPattern, Transport};
use palisade_wall::Purpose;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

/// Time of one callback of a filter whose policy says nothing.
const CALLBACK_TIME: Duration = Duration::from_millis(100);
/// Memory of one instance of a filter whose policy says nothing, in bytes.
const FILTER_BYTES: usize = 64 << 20;

/// The filter that serves now, if it is the one that is asked for.
pub(super) fn kept_filter(
    previous: Option<&Tenant>,
    name: &str,
    config: &Config,
    stamp: Option<Stamp>,
) -> Option<Arc<filters::Loaded>> {
    let previous = previous?;
    let filter = config.filters.get(name)?;
    let is_same = previous.config.filters.get(name) == Some(filter)
        && stamp.is_some()
        && previous.stamps.get(&filter.module) == stamp.as_ref();
    let loaded = previous.filters.get(name)?;
    // Where its calls go is said elsewhere in the file.
    let is_same = is_same && loaded.upstreams == upstreams(filter, config);
    is_same.then(|| Arc::clone(loaded))
}

/// Whether its callbacks may take more of a worker than a filter's may by default: of a tenant's file, which does not say
/// how long others wait.
fn holds_others_up(filter: &config::Filter) -> bool {
    const MOST_TIME: Duration = CALLBACK_TIME;
    const MOST_SHARE: u32 = 50;
    let time = filter.policy.limits.time;
    time.is_some_and(|time| time > MOST_TIME) || filter.slow_share > MOST_SHARE
}

/// `name` is that of logs and metrics.
pub(super) fn load_filter(
    name: &str,
    filter: &config::Filter,
    config: &Config,
    tools: &Tools,
) -> Result<filters::Loaded, LoadError> {
    let guest = || format!("filter {name}");
    if config.folder.is_some() && holds_others_up(filter) {
        return Err(LoadError::HoldsOthersUp { guest: guest() });
    }
    let upstreams = upstreams(filter, config);
    let log = filter.log.as_deref();
    let within = config.folder.as_deref();
    let quota = tools.quota_of(name);
    let log = tools.log.of_guest(GuestKind::Filter, name, log, within)?;
    let log = log.of_tenant(&quota);
    let source = Source {
        tenant: Arc::clone(quota.tenant()),
        guest: guest(),
        path: filter.module.clone(),
        within: config.folder.clone(),
        purpose: Purpose::Filter,
        allow_degraded: filter.policy.allow_degraded.clone(),
    };
    let link = FilterLink::new(
        &tools.engine,
        &tools.shared,
        settings(name, filter, &quota),
        upstreams.keys().cloned().collect(),
        log.clone(),
    );
    let code = OnDemand::new(source, link, &tools.code);
    code.look_at_file().map_err(|source| LoadError::Code {
        guest: guest(),
        source,
    })?;
    let grants = &filter.policy.grants.connect;
    let rules = filters::reach::rules(upstreams.values(), grants, &SystemResolver::default());
    Ok(filters::Loaded {
        code,
        isolation: filter.isolation,
        share: tools.bounded(filter.share, tools.engine.options().instances),
        most_kept: tools.most_kept(),
        on_failure: filter.on_failure,
        budget: Budget::new(filter.faults),
        slow_share: filter.slow_share,
        body_bytes: filter.body_bytes,
        upstreams,
        rules: rules.map_err(|source| LoadError::Network {
            guest: guest(),
            source,
        })?,
        log,
    })
}

fn settings(name: &str, filter: &config::Filter, quota: &Quota) -> Settings {
    let limits = &filter.policy.limits;
    let env = filter.policy.grants.env.iter();
    Settings {
        name: name.to_owned(),
        // No name has a slash in it: what stands before one is the tenant.
        tenant: name
            .split_once('/')
            .map_or_else(String::new, |(tenant, _)| tenant.to_owned()),
        root_id: filter.root_id.clone(),
        vm_id: filter.vm_id.clone(),
        configuration: Bytes::from(filter.configuration.clone()),
        vm_configuration: Bytes::from(filter.vm_configuration.clone()),
        env: env
            .filter_map(|grant| Some((grant.name.clone(), grant.value.clone()?)))
            .collect(),
        limits: Limits {
            memory_bytes: limits.memory_bytes.map_or(FILTER_BYTES, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
            time: Some(limits.time.unwrap_or(CALLBACK_TIME)),
            pool: Some(Arc::clone(quota.memory())),
            ..Limits::default()
        },
        isolation: match filter.isolation {
            config::Isolation::Kept => guest::Isolation::Kept,
            config::Isolation::Fresh => guest::Isolation::Fresh,
        },
        bounds: Bounds {
            body_bytes: filter.body_bytes,
            ..Bounds::default()
        },
    }
}

/// The servers that a filter may call: each upstream service whose servers its policy all grants, under the
/// service's name.
fn upstreams(filter: &config::Filter, config: &Config) -> BTreeMap<String, Server> {
    let connect = &filter.policy.grants.connect;
    let granted = |server: &Server| connect.iter().any(|grant| is_granted(grant, server));
    let services = config.services.iter();
    services
        .filter_map(|(name, service)| match &service.kind {
            ServiceKind::Upstream(upstream) if upstream.servers.iter().all(granted) => {
                Some((name.clone(), upstream.servers.first()?.clone()))
            }
            _ => None,
        })
        .collect()
}

fn is_granted(grant: &ConnectGrant, server: &Server) -> bool {
    match (grant, server) {
        (ConnectGrant::Unix(socket), Server::Unix(path) | Server::UnixWithoutLinks(path)) => {
            socket.host == *path
        }
        (
            ConnectGrant::Internet {
                transport: Transport::Tcp,
                host: pattern,
                ports,
            },
            Server::Internet { host, port, .. },
        ) => ports.contains(*port) && fits(pattern, host),
        _ => false,
    }
}

/// Whether a pattern grants what a configuration calls a server. Both are the operator's own words: what a name
/// leads to is not asked.
fn fits(pattern: &HostPattern, host: &str) -> bool {
    match (pattern, host.trim_matches(['[', ']']).parse::<IpAddr>()) {
        (HostPattern::Network(network), Ok(address)) => network.contains(address),
        (HostPattern::Name(name), Err(_)) => name.as_str().eq_ignore_ascii_case(host),
        (HostPattern::Wildcard(above), Err(_)) => {
            let host = host.to_ascii_lowercase();
            let head = host.strip_suffix(above.as_str());
            head.is_some_and(|head| head.ends_with('.'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;
    use std::path::Path;

    #[test]
    fn a_filter_of_a_tenant_may_take_what_is_usual() {
        let holds_up = |lines: &str| {
            let text = format!(
                "[[listen]]\naddress = '127.0.0.1:1'\n[services.s]\nfiles = 's'\n[[route]]\nfilters = ['f']\n\
                 service = 's'\n[filters.f]\nmodule = 'f.wasm'\n{lines}\n"
            );
            let read = |_: &Path| Err(std::io::Error::from_raw_os_error(2));
            let file = ConfigFile::from_text(&text, "host.toml", Path::new("/srv"), &read);
            holds_others_up(&file.unwrap().config.filters["f"])
        };
        assert!(!holds_up(""));
        assert!(!holds_up("slow-share = 50\npolicy.limits.time = '100ms'"));
        assert!(holds_up("policy.limits.time = '101ms'"));
        assert!(holds_up("slow-share = 51"));
    }
}
