use super::*;

fn quota(bounds: Bounds) -> Arc<Quota> {
    let quota = Quotas::default().of("a");
    quota.set(&bounds);
    quota
}

fn refusal(quota: &Arc<Quota>) -> (What, u16, String) {
    let refused = quota.admit().unwrap_err();
    let response = refused.response();
    let after = response.headers()["retry-after"].to_str().unwrap();
    (refused.what, response.status().as_u16(), after.into())
}

#[test]
fn requests_under_way_are_bounded_and_end() {
    let quota = quota(Bounds {
        requests: Some(2),
        ..Bounds::default()
    });
    let held = [quota.admit().unwrap(), quota.admit().unwrap()];
    assert_eq!(refusal(&quota), (What::Requests, 503, "1".into()));
    drop(held);
    assert!(quota.admit().unwrap().is_some());
    assert_eq!(quota.standing().requests, 0);
}

#[test]
fn a_rate_is_told_as_429_and_when_to_come_again() {
    let quota = quota(Bounds {
        rate: Some(1),
        ..Bounds::default()
    });
    assert!(quota.admit().is_ok());
    assert_eq!(refusal(&quota), (What::Rate, 429, "1".into()));
    assert_eq!(quota.standing().refused[What::Rate as usize], 1);
}

#[test]
fn who_has_used_up_its_processor_time_is_refused_and_spends_no_rate() {
    let quota = quota(Bounds {
        processor_ns: Some(10_000_000),
        rate: Some(1),
        ..Bounds::default()
    });
    quota.use_processor(60_000_000);
    assert_eq!(refusal(&quota), (What::Processor, 503, "5".into()));
    assert!(quota.processor_wait().is_some());
    quota.set(&Bounds {
        rate: Some(1),
        ..Bounds::default()
    });
    assert!(quota.admit().is_ok());
}

#[test]
fn without_bounds_nothing_is_counted_and_nobody_refused() {
    let quota = quota(Bounds::default());
    quota.use_processor(u64::MAX / 2);
    assert!(quota.admit().unwrap().is_none());
    assert!(quota.allows_line(usize::MAX));
    assert_eq!(quota.processor_wait(), None);
}

#[test]
fn one_tenants_lines_leave_anothers_alone() {
    let quotas = Quotas::default();
    let bounds = Bounds {
        log_bytes: Some(1),
        ..Bounds::default()
    };
    let [one, other] = ["a", "b"].map(|name| quotas.of(name));
    one.set(&bounds);
    other.set(&bounds);
    assert!(one.allows_line(60 << 10) && !one.allows_line(60 << 10));
    assert!(other.allows_line(60 << 10));
}

#[test]
fn a_quota_is_the_same_one_while_its_tenant_is_there() {
    let quotas = Quotas::default();
    let one = quotas.of("a");
    assert!(Arc::ptr_eq(&one, &quotas.of("a")));
    assert!(!Arc::ptr_eq(&one, &quotas.of("b")));
    drop(one);
    assert!(quotas.standings().is_empty());
}
