//! The `hosts` line of `/etc/nsswitch.conf`, nsswitch.conf(5): whom the system asks, in which
//! order.

use palisade_policy::HostName;

/// Who answers for names, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameServices(Vec<String>);

impl NameServices {
    /// Reads the file's text; without a `hosts` line it is `files dns`.
    pub(super) fn parse(text: &str) -> Self {
        let hosts = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("hosts:"));
        let line = hosts
            .unwrap_or("files dns")
            .split('#')
            .next()
            .unwrap_or_default();
        // What stands in brackets says when to stop, not whom to ask.
        let mut services = Vec::new();
        let mut in_brackets = false;
        for word in line
            .replace('[', " [ ")
            .replace(']', " ] ")
            .split_whitespace()
        {
            match word {
                "[" => in_brackets = true,
                "]" => in_brackets = false,
                _ if in_brackets => {}
                service => services.push(service.to_owned()),
            }
        }
        Self(services)
    }

    /// Whether DNS is asked for `name`, and nobody but `/etc/hosts` before it.
    pub(super) fn ask_dns_first(&self, name: &HostName) -> bool {
        self.knowing(name).next().is_some_and(is_dns)
    }

    /// Whether somebody beside DNS and `/etc/hosts` is asked for `name`.
    pub(super) fn ask_others(&self, name: &HostName) -> bool {
        self.knowing(name).any(|service| !is_dns(service))
    }

    /// The services that may know `name`, without `/etc/hosts`.
    fn knowing(&self, name: &HostName) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .map(String::as_str)
            .filter(|service| match *service {
                "files" => false,
                // Answers for names of the local link, and for no others.
                "mdns_minimal" | "mdns4_minimal" | "mdns6_minimal" => {
                    name.as_str().ends_with(".local")
                }
                _ => true,
            })
    }
}

fn is_dns(service: &str) -> bool {
    service == "dns"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_beside_dns() {
        for (line, name, others) in [
            ("", "a.example", false),
            (
                "hosts: files mdns4_minimal [NOTFOUND=return] dns",
                "a.example",
                false,
            ),
            (
                "hosts: files mdns4_minimal [NOTFOUND=return] dns",
                "a.local",
                true,
            ),
            ("hosts: files dns mymachines", "a.example", true),
        ] {
            let services = NameServices::parse(line);
            assert_eq!(
                services.ask_others(&name.parse().unwrap()),
                others,
                "{line}: {name}"
            );
        }
    }

    #[test]
    fn dns_first_or_somebody_else() {
        for (line, name, dns) in [
            ("", "a.example", true),
            ("passwd: files\nhosts: files dns\n", "a.example", true),
            (" hosts:\tfiles dns # dns last", "a.example", true),
            ("hosts: dns files", "a.example", true),
            (
                "hosts: files mdns4_minimal [NOTFOUND=return] dns",
                "a.example",
                true,
            ),
            (
                "hosts: files mdns4_minimal [NOTFOUND=return] dns",
                "a.local",
                false,
            ),
            (
                "hosts: files resolve [!UNAVAIL=return] dns",
                "a.example",
                false,
            ),
            (
                "hosts: mymachines resolve[!UNAVAIL=return]files dns",
                "a.example",
                false,
            ),
            ("hosts: files", "a.example", false),
            ("hosts: files # dns", "a.example", false),
            ("hosts: files [dns=return]", "a.example", false),
        ] {
            let services = NameServices::parse(line);
            assert_eq!(
                services.ask_dns_first(&name.parse().unwrap()),
                dns,
                "{line}: {name}"
            );
        }
    }
}
