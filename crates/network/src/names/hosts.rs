//! The text of `/etc/hosts`, hosts(5).

use std::net::IpAddr;

use palisade_policy::HostName;

/// The addresses that the file has for `name`, in its order; `None` where it does not have the
/// name. Addresses with a zone are left out: a name cannot grant them.
pub(super) fn addresses_of(name: &HostName, text: &str) -> Option<Vec<IpAddr>> {
    let addresses: Vec<IpAddr> = text
        .lines()
        .filter_map(|line| address_in(line, name))
        .collect();
    (!addresses.is_empty()).then_some(addresses)
}

fn address_in(line: &str, name: &HostName) -> Option<IpAddr> {
    let line = line.split('#').next()?;
    let mut words = line.split_whitespace();
    let address = words.next()?.parse().ok()?;
    let is_name = |word: &str| {
        let word = word.strip_suffix('.').unwrap_or(word);
        word.eq_ignore_ascii_case(name.as_str())
    };
    words.any(is_name).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases() {
        let text = "127.0.0.1 localhost\n# 10.0.0.1 db.example\n\
                    192.0.2.1\tdb.example  DB # db2\n2001:db8::1 Db.Example.\n\
                    fe80::1%eth0 db.example\nnonsense db.example\n\n192.0.2.2";
        let addresses = |name: &str| {
            let found = addresses_of(&name.parse().unwrap(), text)?;
            Some(found.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let both = Some(vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()]);
        assert_eq!(addresses("db.example"), both);
        assert_eq!(addresses("db"), Some(vec!["192.0.2.1".to_owned()]));
        assert_eq!(addresses("db2"), None);
        assert_eq!(addresses("example"), None);
    }
}
