//! Series of routes.

use super::{
    guests::OTHERS,
    page::{Page, label},
};
use crate::metrics::{RouteSum, Shown};
use std::sync::Arc;

/// The figures of all routes.
pub(super) fn write_routes(page: &mut Page, shown: &Shown<Arc<str>, (), RouteSum>) {
    write_numbers(page, shown);
    let own = shown.own.iter().map(|(name, sum)| (&**name, sum));
    let others = shown.others.iter().filter(|(_, others)| others.is_shown);
    let others = others.map(|(_, others)| (OTHERS, &others.sum));
    let routes: Vec<_> = own.chain(others).collect();
    let label_of = |name: &str| format!(r#"route="{}""#, label(name));
    const REQUESTS: &str = "palisade_route_requests_total";
    page.family(
        REQUESTS,
        "counter",
        "Requests that are over, by their route and the class of the status that they were answered with.",
    );
    for (name, sum) in &routes {
        for (class, count) in sum.responses() {
            page.sample(
                REQUESTS,
                &format!(r#"{},code="{class}""#, label_of(name)),
                count,
            );
        }
    }
    const BROKEN: &str = "palisade_route_broken_off_total";
    page.family(
        BROKEN,
        "counter",
        "Those of them that did not come to their end, by who broke them off.",
    );
    for (name, sum) in &routes {
        for (by, count) in sum.broken() {
            page.sample(BROKEN, &format!(r#"{},by="{by}""#, label_of(name)), count);
        }
    }
    const TIME: &str = "palisade_route_duration_seconds";
    page.family(
        TIME,
        "histogram",
        "From a request's head to its answer's end. Of many requests one in 16 is timed, and counts for them.",
    );
    for (name, sum) in &routes {
        let (count, seconds) = sum.times_sum();
        page.histogram(TIME, &label_of(name), sum.times(), count, seconds);
    }
}

fn write_numbers(page: &mut Page, shown: &Shown<Arc<str>, (), RouteSum>) {
    const ROUTES: &str = "palisade_routes";
    page.family(
        ROUTES,
        "gauge",
        "Routes, and one for requests that have none, by whether they have series of their own or share those of (others).",
    );
    let others: usize = shown.others.iter().map(|(_, others)| others.members).sum();
    page.sample(ROUTES, r#"series="own""#, shown.own.len());
    page.sample(ROUTES, r#"series="others""#, others);
}
