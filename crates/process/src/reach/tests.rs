use super::*;
use crate::host::table::Table;
use crate::view::Check;
use palisade_policy::Policy;

/// `/srv/app` has a way to `/data/real/file` by two links; `/mnt/data` is `/data` once more.
fn host() -> Table {
    Table::with_home()
        .folder("/data")
        .folder("/data/real")
        .file("/data/real/file", "")
        .folder("/data/other")
        .folder("/srv")
        .folder("/srv/app")
        .link("/srv/app/link", "../links/second")
        .folder("/srv/links")
        .link("/srv/links/second", "/data/real")
        .folder("/mnt")
        .alias("/mnt/data", "/data")
}

fn policy(grants: &str) -> Policy {
    let text = format!("[grants]\n{grants}");
    Policy::from_toml(&text, "policy.toml", Path::new("/")).unwrap()
}

fn can_change(grants: &str, path: &str) -> bool {
    is_found(grants, Relied::Content(path.into()))
}

fn can_move(grants: &str, path: &str) -> bool {
    is_found(grants, Relied::Place(path.into()))
}

fn is_found(grants: &str, relied: Relied) -> bool {
    let host = host();
    let layout = Layout::resolve(&policy(grants), &host, Check::Modes).unwrap();
    Reach::new(&layout, &host).find([relied]).is_some()
}

#[test]
fn every_step_of_a_path_counts() {
    const PATH: &str = "/srv/app/link/file";
    for grants in [
        "write = ['/data/real/file']",
        "write = ['/data/real']",
        "write = ['/data']",
        "write = ['/srv/links']",
        "write = ['/srv/app']",
        "write = ['/srv/app:/elsewhere']",
    ] {
        assert!(can_change(grants, PATH), "{grants}");
    }
    for grants in [
        "",
        "write = ['/home/ada']",
        "write = ['/data/other']",
        "read = ['/data', '/srv']",
    ] {
        assert!(!can_change(grants, PATH), "{grants}");
    }
}

#[test]
fn a_folder_is_the_same_by_another_name() {
    assert!(can_change("write = ['/mnt/data']", "/data/real/file"));
    assert!(can_change("write = ['/mnt/data']", "/srv/app/link/file"));
    assert!(!can_change("read = ['/mnt/data']", "/data/real/file"));
}

/// A folder that is granted is a mount point inside, which keeps its name; what lies in it has none such.
#[test]
fn a_folder_that_is_granted_itself_stays_where_it_is() {
    for grants in ["write = ['/data']", "write = ['/mnt/data']"] {
        assert!(!can_move(grants, "/data"), "{grants}");
        assert!(can_move(grants, "/data/real"), "{grants}");
        assert!(can_move(grants, "/data/absent"), "{grants}");
        assert!(can_move(grants, "/srv/app/link"), "{grants}");
    }
    // The link on the way.
    assert!(can_move("write = ['/srv/links']", "/srv/app/link"));
    assert!(!can_move("write = ['/data/real']", "/srv/app/link"));
    let held = "write = ['/data']\nprotect = ['/data/real']";
    assert!(!can_move(held, "/data/real"));
    assert!(!can_move("read = ['/data']", "/data/real"));
}

#[test]
fn what_does_not_exist_could_be_made() {
    assert!(can_change("write = ['/data']", "/data/absent/file"));
    assert!(!can_change("write = ['/data/other']", "/data/absent/file"));
}

#[test]
fn what_is_held_in_place_cannot_be_replaced() {
    let protected = "write = ['/data']\nprotect = ['/data/real/file']";
    assert!(!can_change(protected, "/data/real/file"));
    assert!(can_change(protected, "/data/real/other"));
    let read_only = "write = ['/data']\nread = ['/data/real']";
    assert!(!can_change(read_only, "/data/real/file"));
    let twice = "write = ['/data', '/data/real:/again']\nprotect = ['/data/real/file']";
    assert!(can_change(twice, "/data/real/file"));
}

#[test]
fn links_that_lead_round_and_round_end() {
    let host = host().link("/srv/app/round", "round");
    let layout = Layout::resolve(&policy("write = ['/data']"), &host, Check::Modes).unwrap();
    let round = Relied::Content("/srv/app/round/x".into());
    assert_eq!(Reach::new(&layout, &host).find([round]), None);
}
