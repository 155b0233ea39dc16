//! What belongs to the system view, on a host that is a table.

use super::*;
use crate::host::table::Table;

/// `PATH`, with what it comes to.
fn shown(host: &Table, check: Check, below: &str) -> Vec<String> {
    shown_with(host, check, &[], below)
}

fn shown_with(host: &Table, check: Check, opened: &[&Path], below: &str) -> Vec<String> {
    let pieces = system_view(host, check, opened).into_iter();
    let words = pieces.map(|piece| match piece {
        Piece::Symlink { path, .. } => format!("link {}", path.display()),
        Piece::Copy { path, .. } => format!("copy {}", path.display()),
        Piece::Mount { path, .. } => format!("mount {}", path.display()),
    });
    words.filter(|word| word.contains(below)).collect()
}

/// Too much to be copied.
fn large() -> String {
    "x".repeat(COPIED_BYTES as usize + 1)
}

fn host() -> Table {
    Table::merged_usr()
        .file("/etc/npmrc", "//registry.example/:_authToken=secret")
        .file("/etc/profile", "export TOKEN=secret")
        .file("/etc/bash.bashrc", "export TOKEN=secret")
        .file("/etc/ssl/openssl.cnf", &large())
        .file("/etc/ssl/private/key.pem", "secret")
        .with_mode("/etc/ssl/private/key.pem", 0o640)
        .file("/etc/ssl/certs/ca-certificates.crt", &large())
        .link("/etc/ssl/certs/0a.0", "root.pem")
        .folder("/etc/pki")
        .folder("/etc/pki/tls")
        .folder("/etc/pki/tls/certs")
        .folder("/etc/pki/tls/private")
        .folder("/etc/pki/entitlement")
        .folder("/etc/java-17-openjdk")
        .file("/etc/java-17-openjdk/net.properties", "")
        .folder("/etc/php82")
        .file("/etc/php82/php.ini", "")
        .folder("/etc/php82/php-fpm.d")
}

#[test]
fn certificates_without_their_keys() {
    for check in [Check::Modes, Check::Contents] {
        let expected = ["mount /etc/ssl/certs", "mount /etc/ssl/openssl.cnf"];
        assert_eq!(shown(&host(), check, "/etc/ssl"), expected);
        assert_eq!(
            shown(&host(), check, "/etc/pki"),
            ["mount /etc/pki/tls/certs"]
        );
    }
}

#[test]
fn settings_that_hold_secrets_are_not_there() {
    let shown = shown(&host(), Check::Contents, "/etc");
    for secret in ["npmrc", "profile", "bashrc", "private", "fpm"] {
        assert!(!shown.iter().any(|path| path.contains(secret)), "{secret}");
    }
    for path in [
        "copy /etc/os-release",
        "mount /etc/java-17-openjdk",
        "copy /etc/php82/php.ini",
        "mount /etc/python3.11",
    ] {
        assert!(shown.iter().any(|shown| shown == path), "{path}: {shown:?}");
    }
}

#[test]
fn what_not_everybody_may_read_is_left_out() {
    let closed = host()
        .with_mode("/etc/os-release", 0o640)
        .with_mode("/etc/ssl/openssl.cnf", 0o600)
        .with_mode("/etc/python3.11", 0o750);
    for check in [Check::Modes, Check::Contents] {
        let shown = shown(&closed, check, "/etc");
        for path in ["os-release", "openssl.cnf", "python3.11"] {
            assert!(
                !shown.iter().any(|shown| shown.ends_with(path)),
                "{path}: {shown:?}"
            );
        }
    }
}

#[test]
fn a_password_of_java_s_is_left_out() {
    let password = "/etc/java-17-openjdk/management/jmxremote.password";
    let remote = host()
        .folder("/etc/java-17-openjdk/management")
        .file(password, "secret")
        .with_mode(password, 0o600);
    assert_eq!(
        shown(&remote, Check::Contents, "java"),
        ["copy /etc/java-17-openjdk/net.properties"]
    );
}

/// A server's certificate and key in one file, for a group that the user is in.
#[test]
fn a_folder_with_a_key_in_it_is_shown_without_the_key() {
    let mixed = host()
        .folder("/etc/ssl/certs/java")
        .file("/etc/ssl/certs/java/cacerts", &large())
        .file("/etc/ssl/certs/small.pem", "a certificate")
        .file("/etc/ssl/certs/server.pem", "a key")
        .with_mode("/etc/ssl/certs/server.pem", 0o640);
    let expected = [
        "link /etc/ssl/certs/0a.0",
        "mount /etc/ssl/certs/ca-certificates.crt",
        "mount /etc/ssl/certs/java",
        "copy /etc/ssl/certs/small.pem",
    ];
    assert_eq!(shown(&mixed, Check::Contents, "/etc/ssl/certs"), expected);
    // Who is nobody there is kept from it by the kernel.
    assert_eq!(
        shown(&mixed, Check::Modes, "/etc/ssl/certs"),
        ["mount /etc/ssl/certs"]
    );
    let deeper = host()
        .folder("/etc/ssl/certs/java")
        .file("/etc/ssl/certs/java/key", "a key")
        .with_mode("/etc/ssl/certs/java/key", 0o640);
    let expected = [
        "link /etc/ssl/certs/0a.0",
        "mount /etc/ssl/certs/ca-certificates.crt",
    ];
    assert_eq!(shown(&deeper, Check::Contents, "/etc/ssl/certs"), expected);
}

/// To look into it would take longer than all the rest of it.
#[test]
fn the_folder_of_links_is_shown_unasked() {
    let closed = host()
        .link("/etc/alternatives/awk", "/usr/bin/mawk")
        .file("/etc/alternatives/README", "")
        .with_mode("/etc/alternatives/README", 0o640);
    for check in [Check::Modes, Check::Contents] {
        assert_eq!(
            shown(&closed, check, "/etc/alternatives"),
            ["mount /etc/alternatives"]
        );
    }
}

/// Without it a PDF that is refused outside would be converted inside.
#[test]
fn what_restrains_a_program_is_there() {
    let host = host()
        .folder("/etc/ImageMagick-6")
        .file("/etc/ImageMagick-6/policy.xml", "<policymap/>")
        .folder("/etc/libreoffice")
        .folder("/etc/chromium")
        .folder("/etc/chromium/policies")
        .file("/etc/chromium/enrollment", "token");
    for check in [Check::Modes, Check::Contents] {
        for folder in ["ImageMagick-6", "libreoffice", "chromium/policies"] {
            let expected = [format!("mount /etc/{folder}")];
            assert_eq!(shown(&host, check, folder), expected);
        }
        assert_eq!(shown(&host, check, "enrollment"), [""; 0]);
    }
}

#[test]
fn a_folder_with_files_of_the_domain_s_own_comes_in_pieces() {
    let host = host()
        .folder("/etc/chromium.d")
        .file("/etc/chromium.d/flags", "")
        .file("/etc/chromium.d/large", &large())
        .link("/etc/chromium.d/link", "flags")
        .file("/etc/chromium.d/secret", "")
        .with_mode("/etc/chromium.d/secret", 0o640)
        .folder("/etc/chromium.d/below");
    let opened = [Path::new("/etc/chromium.d")];
    for check in [Check::Modes, Check::Contents] {
        let expected = ["mount below", "copy flags", "mount large", "link link"];
        let expected = expected.map(|word| word.replace(' ', " /etc/chromium.d/"));
        assert_eq!(
            shown_with(&host, check, &opened, "/etc/chromium.d"),
            expected
        );
        assert_eq!(
            shown_with(&host, check, &opened, "certs"),
            shown(&host, check, "certs")
        );
    }
    let closed = host.with_mode("/etc/chromium.d", 0o700);
    assert_eq!(
        shown_with(&closed, Check::Modes, &opened, "/etc/chromium.d"),
        [""; 0]
    );
}

#[test]
fn maven_s_settings_are_shown_unless_they_hold_a_password() {
    let with = |settings: &str| {
        let host = host()
            .folder("/etc/maven")
            .file("/etc/maven/m2.conf", "main is x")
            .file("/etc/maven/settings.xml", settings);
        [Check::Modes, Check::Contents].map(|check| shown(&host, check, "/etc/maven"))
    };
    let own = "<settings><servers>\n<!-- <server><password>x</password></server> -->\n</servers>\
               <mirrors><mirror><blocked>true</blocked></mirror></mirrors></settings>";
    for shown in with(own) {
        assert_eq!(shown, ["mount /etc/maven"]);
    }
    let large = large().repeat(8);
    for secret in [
        "<servers><server><id>x</id></server></servers>",
        "<servers><server ><id>x</id></server ></servers>",
        "<settings>\0</settings>",
        "<!-- a --><proxy><password>x</password></proxy><!-- b -->",
        "<!-- no end <password>x</password>",
        large.as_str(),
    ] {
        for shown in with(secret) {
            assert_eq!(shown, ["copy /etc/maven/m2.conf"], "{:.60}", secret);
        }
    }
}
