//! What tenants were refused because of their quotas, and what they used of processors.

use super::{
    guests::OTHERS,
    page::{Page, label},
};
use crate::quota::{Counts, Quotas, What};

/// Writes nothing of those that were refused nothing: most tenants have no quota, or keep within it.
pub(super) fn write_quotas(page: &mut Page, quotas: &Quotas) {
    const REFUSED: &str = "palisade_tenant_refused_total";
    page.family(
        REFUSED,
        "counter",
        "Requests, instances, starts and lines that a tenant was refused, by the quota that was used up.",
    );
    let standings = quotas.standings();
    for standing in standings.iter().filter(|standing| standing.has_series) {
        write_counts(page, REFUSED, &standing.tenant, &standing.refused);
    }
    write_counts(page, REFUSED, OTHERS, &quotas.others(&standings));
}

fn write_counts(page: &mut Page, family: &str, tenant: &str, refused: &Counts) {
    for (what, count) in What::ALL.iter().zip(refused) {
        if *count > 0 {
            let labels = format!(r#"tenant="{}",quota="{}""#, label(tenant), what.name());
            page.sample(family, &labels, count);
        }
    }
}
