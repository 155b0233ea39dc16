//! What must hold of any text that is read as a server's file.
//!
//! The fuzz target and an ordinary test call the same function.

use palisade_host::config::{Address, Config, ConfigFile, ServiceKind};
use std::{io, path::Path};

/// The only files that there are.
fn read_file(path: &Path) -> io::Result<String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Ok("[grants]\nread = ['.']\n".into()),
        Some("json") => Ok("{}".into()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

/// What gives a tenant a host and a folder.
const MAIN: &str = "include = ['t/*.toml']\n[tenants]\nhosts = 'a'\nfolder = 'tenants/{tenant}'\n\
    [[listen]]\naddress = '127.0.0.1:80'\n";

/// Whatever a tenant's file says, what it names lies below its folder, and it asks nobody. Gives 1 for one.
pub(crate) fn check_tenant(text: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(text) else {
        return 0;
    };
    let main = ConfigFile::from_text(MAIN, "host.toml", Path::new("/base"), &read_file);
    let main = main.expect("the main file").config;
    let bounds = main.tenancy.bounds("tenant").expect("its bounds");
    let Ok(file) = ConfigFile::tenant_from_text(text, "tenant.toml", &bounds, &read_file) else {
        return 0;
    };
    let config = file.config;
    let is_own = |path: &Path| {
        let mut parts = path.components();
        path.starts_with("/base/tenants/tenant") && parts.all(|part| part.as_os_str() != "..")
    };
    assert!(config.listeners.is_empty() && config.admin.is_none());
    for filter in config.filters.values() {
        assert!(is_own(&filter.module) && filter.log.as_deref().is_none_or(is_own));
        assert!(filter.policy.grants.connect.is_empty());
    }
    for service in config.services.values() {
        match &service.kind {
            ServiceKind::Component(component) => assert!(is_own(&component.component)),
            ServiceKind::Files(files) => assert!(is_own(&files.root)),
            other => panic!("{other:?}"),
        }
        assert!(service.log.as_deref().is_none_or(is_own));
        let grants = &service.policy.grants;
        assert!(grants.files.iter().all(|file| is_own(&file.host)));
        assert!(grants.connect.is_empty());
    }
    1
}

/// Gives 1 for a text that is a configuration.
pub(crate) fn check(text: &[u8]) -> usize {
    check_tenant(text);
    let Ok(text) = std::str::from_utf8(text) else {
        return 0;
    };
    match ConfigFile::from_text(text, "host.toml", Path::new("/base"), &read_file) {
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.contains("host.toml"), "{shown}");
            let span = error.span().unwrap_or(0..0);
            assert!(
                text.get(span.clone()).is_some(),
                "{span:?} of {}",
                text.len()
            );
            0
        }
        Ok(file) => {
            check_config(&file.config);
            for warning in &file.warnings {
                assert!(!warning.contains(char::is_control), "{warning:?}");
            }
            1
        }
    }
}

/// Whatever serves a configuration relies on this.
fn check_config(config: &Config) {
    for route in &config.routes {
        assert!(config.services.contains_key(&route.service));
        assert!(
            route
                .filters
                .iter()
                .all(|name| config.filters.contains_key(name))
        );
        assert!(route.path.starts_with('/'), "{}", route.path);
        assert!(
            route.path == "/" || !route.path.ends_with('/'),
            "{}",
            route.path
        );
    }
    let is_loopback = |address: &Address| match address {
        Address::Internet(address) => address.ip().is_loopback(),
        Address::Unix(path) => path.is_absolute(),
    };
    let mut admin = config.admin.iter();
    assert!(admin.all(|admin| admin.token_file.is_some() || is_loopback(&admin.address)));
    for filter in config.filters.values() {
        assert!(filter.module.is_absolute());
        assert!(filter.policy.grants.files.is_empty() && filter.policy.grants.listen.is_empty());
        assert_eq!(filter.policy.validate(), Ok(()));
    }
    for service in config.services.values() {
        assert_eq!(service.policy.validate(), Ok(()));
        match &service.kind {
            ServiceKind::Component(component) => assert!(component.component.is_absolute()),
            ServiceKind::Program(program) => assert!(!program.command.is_empty()),
            ServiceKind::Files(files) => assert!(files.root.is_absolute()),
            ServiceKind::Upstream(upstream) => assert!(!upstream.servers.is_empty()),
        }
    }
}
