use super::*;
use crate::config::ConfigFile;
use http::Request;
use std::path::Path;

fn claim(text: &str) -> Claim {
    let (host, path) = text.split_at(text.find('/').unwrap());
    Claim {
        host: host.into(),
        path: path.into(),
    }
}

/// A tenant's name, what it is given, and what it claims: nothing where it is not there.
type Told<'a> = (&'a str, &'a [&'a str], Option<&'a [&'a str]>);

struct Site {
    routes: Vec<Route>,
    names: Vec<String>,
    given: Vec<Vec<Claim>>,
    claims: Vec<Option<Vec<Claim>>>,
}

impl Site {
    fn new(main: &str, tenants: &[Told<'_>]) -> Self {
        let text = format!(
            "[[listen]]\naddress = '127.0.0.1:1'\n[services.s]\nfiles = 's'\n[[route]]\nname = 'rest'\nservice = 's'\n{main}"
        );
        let read = |_: &Path| Err(std::io::Error::from_raw_os_error(2));
        let file = ConfigFile::from_text(&text, "host.toml", Path::new("/srv"), &read).unwrap();
        let claims = |texts: &[&str]| texts.iter().map(|text| claim(text)).collect();
        Self {
            routes: file.config.routes,
            names: tenants.iter().map(|(name, ..)| (*name).into()).collect(),
            given: tenants.iter().map(|(_, given, _)| claims(given)).collect(),
            claims: tenants.iter().map(|(.., made)| made.map(claims)).collect(),
        }
    }

    fn claimants(&self) -> Vec<Claimant<'_>> {
        let claimant = |(at, name): (usize, _)| Claimant {
            name,
            file: format!("{name}.toml"),
            given: self.given[at].clone(),
            claims: self.claims[at].as_deref(),
            is_broken: name.starts_with("broken"),
        };
        self.names
            .iter()
            .map(String::as_str)
            .enumerate()
            .map(claimant)
            .collect()
    }

    fn refused(&self, had: Option<&str>) -> Vec<Refused> {
        let claimants = self.claimants();
        Given::new("host.toml", &self.routes, &claimants)
            .refused(&claimants, |name, _| had == Some(name))
    }

    fn directory(&self) -> Directory {
        let claimants = self.claimants();
        let given = Given::new("host.toml", &self.routes, &claimants);
        Directory::new(&given, &claimants, |at| {
            self.claims[at].is_some().then_some(at)
        })
    }

    fn owner(&self, asked: &str) -> &str {
        let asked = claim(asked);
        let request = Request::builder()
            .uri(&asked.path)
            .header("host", &asked.host);
        let request = request.body(()).unwrap().into_parts().0;
        match self.directory().owner(&request, &asked.path) {
            Owner::Main => "main",
            Owner::Tenant(at) => &self.names[at],
            Owner::Nobody => "nobody",
            Owner::Unavailable => "unavailable",
        }
    }
}

#[test]
fn a_request_is_whose_words_say_most_about_it() {
    let site = Site::new(
        "[[route]]\nhost = 'b.org'\npath = '/.well-known'\nservice = 's'\n[[route]]\nhost = '*.c.org'\nservice = 's'\n",
        &[
            (
                "all",
                &["*.a.org/", "*.org/x"],
                Some(&["*.a.org/", "*.org/x"]),
            ),
            ("b", &["b.org/", "www.a.org/"], Some(&["b.org/"])),
            (
                "deep",
                &["*.b.a.org/", "b.org/deep"],
                Some(&["*.b.a.org/", "b.org/deep"]),
            ),
            ("gone", &["gone.a.org/", "b.org/gone"], None),
        ],
    );
    assert_eq!(site.refused(None), []);
    for (asked, owner) in [
        ("x.a.org/", "all"),
        ("X.A.ORG/", "all"),
        ("a.org/", "main"),
        ("a.org/x", "all"),
        ("b.org/", "b"),
        ("b.org/other", "b"),
        ("b.org/deeper", "b"),
        ("b.org/deep/x", "deep"),
        ("b.org/d%65ep", "deep"),
        ("b.org/.well-known/acme", "main"),
        // It is given to b alone, which makes nothing of it.
        ("www.a.org/", "b"),
        ("x.www.a.org/", "all"),
        ("x.b.a.org/", "deep"),
        ("b.a.org/", "all"),
        // Nobody else's, while its file is broken.
        ("gone.a.org/", "nobody"),
        ("b.org/gone/x", "nobody"),
        ("x.c.org/", "main"),
        ("x.c.org/x", "main"),
        ("elsewhere.net/", "main"),
    ] {
        assert_eq!(site.owner(asked), owner, "{asked}");
    }
}

#[test]
fn without_tenants_all_is_the_main_files() {
    let site = Site::new("[[route]]\nhost = 'a.org'\nservice = 's'\n", &[]);
    assert_eq!(site.owner("a.org/"), "main");
    assert_eq!(site.owner("b.org/"), "main");
}

/// By a name below its own wildcard, by a deeper path, or by the very same.
#[test]
fn what_is_given_to_one_tenant_no_other_one_claims() {
    for (given, claimed) in [
        (&["*.a.org/"][..], "www.a.org/"),
        (&["*.org/"], "www.a.org/"),
        (&["www.a.org/x"], "www.a.org/"),
        (&[], "www.a.org/"),
    ] {
        let site = Site::new(
            "",
            &[
                ("owner", &["www.a.org/"], Some(&["www.a.org/"])),
                ("thief", given, Some(&[claimed])),
            ],
        );
        let refused = site.refused(None);
        let [(1, reason)] = &refused[..] else {
            panic!("{given:?}: {refused:?}");
        };
        for file in ["owner.toml", "thief.toml"] {
            assert!(reason.contains(file), "{reason}");
        }
        // Neither while its owner is broken.
        let site = Site::new(
            "",
            &[
                ("owner", &["www.a.org/"], None),
                ("thief", given, Some(&[claimed])),
            ],
        );
        assert_eq!(site.refused(None).len(), 1, "{given:?}");
    }
}

#[test]
fn what_is_given_to_several_is_whose_file_claims_it() {
    let given = &["*.apps.org/"][..];
    let site = |second: &[&str]| {
        Site::new(
            "",
            &[
                ("a", given, Some(&["a.apps.org/"])),
                ("b", given, Some(second)),
                ("c", given, None),
            ],
        )
    };
    let apart = site(&["b.apps.org/"]);
    assert_eq!(apart.refused(None), []);
    assert_eq!(apart.owner("a.apps.org/"), "a");
    assert_eq!(apart.owner("b.apps.org/"), "b");
    assert_eq!(apart.owner("c.apps.org/"), "main");
    // A whole wildcard leaves others' names alone.
    let wild = site(&["*.apps.org/"]);
    assert_eq!(wild.refused(None), []);
    assert_eq!(wild.owner("a.apps.org/"), "a");
    assert_eq!(wild.owner("c.apps.org/"), "b");
    // The same twice: neither, unless one has had it.
    let twice = site(&["a.apps.org/"]);
    let refused = twice.refused(None);
    let who: Vec<_> = refused.iter().map(|(at, _)| *at).collect();
    assert_eq!(who, [0, 1]);
    for (_, reason) in refused {
        assert!(
            reason.contains("a.toml") && reason.contains("b.toml"),
            "{reason}"
        );
    }
    let refused = twice.refused(Some("a"));
    let who: Vec<_> = refused.iter().map(|(at, _)| *at).collect();
    assert_eq!(who, [1]);
}

#[test]
fn what_the_main_file_routes_no_tenant_claims() {
    let site = Site::new(
        "[[route]]\nname = 'own'\nhost = 'a.org'\nservice = 's'\n",
        &[("a", &["a.org/"], Some(&["a.org/"]))],
    );
    let refused = site.refused(None);
    let [(0, reason)] = &refused[..] else {
        panic!("{refused:?}");
    };
    for part in ["host.toml", "route own", "a.toml"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(site.owner("a.org/"), "main");
}

/// The host of a claim is more exact than that of the words by which a path of it is somebody else's.
#[test]
fn a_claim_takes_nothing_that_is_given_by_other_words() {
    let site = Site::new(
        "[[route]]\nhost = '*.s.org'\npath = '/admin'\nservice = 's'\n",
        &[
            ("a", &["*.s.org/"], Some(&["x.s.org/"])),
            ("b", &["*.s.org/"], Some(&["y.s.org/", "y.s.org/deep"])),
            ("d", &["*.s.org/d"], Some(&["*.s.org/d"])),
        ],
    );
    assert!(site.refused(None).is_empty());
    for host in ["x.s.org", "y.s.org", "z.s.org"] {
        assert_eq!(site.owner(&format!("{host}/d/e")), "d", "{host}");
        assert_eq!(site.owner(&format!("{host}/admin/x")), "main", "{host}");
    }
    assert_eq!(site.owner("x.s.org/other"), "a");
    assert_eq!(site.owner("y.s.org/deep/er"), "b");
}

/// What a broken file claims is not known: nobody else gets what it may have.
#[test]
fn what_may_be_a_broken_tenants_is_kept_for_it() {
    let site = |broken: &'static str| {
        Site::new(
            "[[route]]\nhost = 'own.apps.org'\nservice = 's'\n",
            &[
                ("a", &["apps.org/a", "apps.org/b"], Some(&["apps.org/a"])),
                (
                    broken,
                    &["apps.org/a", "apps.org/b", "*.apps.org/", "x.org/c"],
                    None,
                ),
                (
                    "w",
                    &["*.apps.org/"],
                    Some(&["*.apps.org/", "shop.apps.org/"]),
                ),
            ],
        )
    };
    for (asked, owner, without_file) in [
        ("apps.org/a/x", "a", "a"),
        ("apps.org/b/x", "unavailable", "main"),
        ("apps.org/", "main", "main"),
        ("shop.apps.org/", "w", "w"),
        ("SHOP.apps.org/", "w", "w"),
        ("blog.apps.org/", "unavailable", "w"),
        ("own.apps.org/", "main", "main"),
        ("x.org/c", "unavailable", "nobody"),
        ("x.org/", "main", "main"),
    ] {
        assert_eq!(site("broken").owner(asked), owner, "{asked}");
        assert_eq!(site("gone").owner(asked), without_file, "{asked}");
    }
}
