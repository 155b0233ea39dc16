//! Of which tenants the files may be others than they were.

use std::{collections::BTreeSet, mem, sync::Arc};

/// Whose files a reload looks at. Files that are new, gone, or could not be served as they stood it looks at in any case, and
/// at the main file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspects {
    /// Everybody's.
    All,
    /// These tenants', for somebody saw which have changed.
    Tenants(BTreeSet<Arc<str>>),
}

impl Suspects {
    /// Nobody's.
    pub fn none() -> Self {
        Self::Tenants(BTreeSet::new())
    }

    /// Whether a tenant is one of them.
    pub(super) fn have(&self, tenant: &str) -> bool {
        match self {
            Self::All => true,
            Self::Tenants(tenants) => tenants.contains(tenant),
        }
    }

    /// Their names; none of all.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let named = match self {
            Self::All => None,
            Self::Tenants(tenants) => Some(tenants),
        };
        named.into_iter().flatten()
    }

    /// These, and others.
    pub fn add(&mut self, others: Self) {
        match (&mut *self, others) {
            (Self::All, _) => {}
            (_, Self::All) => *self = Self::All,
            (Self::Tenants(all), Self::Tenants(more)) => all.extend(more),
        }
    }

    /// These, so that nobody is left.
    pub fn take(&mut self) -> Self {
        mem::replace(self, Self::none())
    }
}

impl FromIterator<Arc<str>> for Suspects {
    fn from_iter<T: IntoIterator<Item = Arc<str>>>(tenants: T) -> Self {
        Self::Tenants(tenants.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspicion_grows() {
        let of = |names: &[&str]| Suspects::from_iter(names.iter().map(|name| Arc::from(*name)));
        let mut suspects = of(&["a"]);
        suspects.add(of(&["b"]));
        assert_eq!(suspects, of(&["a", "b"]));
        assert!(suspects.have("a") && !suspects.have("c"));
        suspects.add(Suspects::All);
        suspects.add(of(&["a"]));
        assert!(suspects.have("c"));
        assert_eq!(suspects.take(), Suspects::All);
        assert_eq!(suspects, Suspects::none());
    }
}
