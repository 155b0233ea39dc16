//! What a reload notes of tenants: those that are other ones, and no more.

use super::{Control, Serving};
use crate::{
    admin::BrokenTenant,
    config::Config,
    generation::FilesOf,
    kinds::{GuestKind, Level},
    log::Line,
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// The tenants that serve now.
#[derive(Debug, Default)]
pub struct TenantsPut {
    /// What each asks for, by its name.
    pub(crate) configs: Arc<[(Arc<str>, Arc<Config>)]>,
    /// Whose files are not served as they stand.
    pub(crate) broken: Vec<BrokenTenant>,
    /// What in their files is probably not meant.
    pub(crate) warnings: Vec<String>,
    /// Names of those that are other ones than before, or gone.
    pub(crate) changed: BTreeSet<Arc<str>>,
    /// The files of those that were read.
    pub(crate) files: Vec<FilesOf>,
}

impl<S: Serving> Control<S> {
    /// Forgets figures of what is gone. What tenants have that are as they were is not looked for.
    pub(super) fn forget(&mut self, config: &Config, tenants: &TenantsPut) {
        self.leaving.extend(tenants.changed.iter().cloned());
        self.leaving.insert("".into());
        let config_of = |name: &str| match name.is_empty() {
            true => Some(config),
            false => {
                let configs = &tenants.configs;
                let at = configs.binary_search_by(|(tenant, _)| (**tenant).cmp(name));
                Some(&*configs[at.ok()?].1)
            }
        };
        let parts: HashMap<&str, Option<Names<'_>>> = self
            .leaving
            .iter()
            .map(|name| (&**name, config_of(name).map(Names::of)))
            .collect();
        let is_there = |full: &str, has: &dyn Fn(&Names<'_>, &str) -> bool| {
            let (tenant, name) = full.split_once('/').unwrap_or(("", full));
            let part = parts.get(tenant);
            part.is_none_or(|names| names.as_ref().is_some_and(|names| has(names, name)))
        };
        let registry = &self.report.registry;
        let guests = registry.retain(|id| {
            is_there(&id.name, &|names, name| match id.kind {
                GuestKind::Filter => names.config.filters.contains_key(name),
                GuestKind::Service => names.config.services.contains_key(name),
            })
        });
        let routes = registry.retain_routes(|full| {
            full.is_empty() || is_there(full, &|names, name| names.routes.contains(name))
        });
        if guests + routes == 0 {
            self.leaving.clear();
        }
    }

    pub(super) fn follow_tenants(&mut self, files: Vec<FilesOf>) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        for (name, files) in files {
            watch.follow_group(&name, files);
        }
        if watch.take_shortage() {
            self.say(Line::new(
                Level::Warn,
                "changes of some files are not seen: raise fs.inotify.max_user_watches, or reload by hand",
            ));
        }
    }

    /// Tells of tenants' files that are not served as they stand, once of each.
    pub(super) fn tell_broken(&self, broken: &[BrokenTenant]) {
        let before = self.report.now().broken.clone();
        let before: HashMap<_, _> = before
            .iter()
            .map(|tenant| (&*tenant.name, tenant))
            .collect();
        let is_new = |tenant: &&BrokenTenant| before.get(&*tenant.name) != Some(tenant);
        for tenant in broken.iter().filter(is_new) {
            let what = match tenant.is_served {
                true => "a tenant's file cannot be served: what it was before serves on",
                false => "a tenant's file cannot be served: it is not there",
            };
            let line = Line::new(Level::Error, what);
            self.say(
                line.with("tenant", &*tenant.name)
                    .with("error", &*tenant.message),
            );
        }
    }
}

/// What a file calls its own.
struct Names<'a> {
    config: &'a Config,
    routes: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(config: &'a Config) -> Self {
        Self {
            config,
            routes: config.routes.iter().map(|route| &*route.name).collect(),
        }
    }
}
