//! The table of attacks as Markdown, for `guests/README.md`.

use crate::attack::{Attack, Control};
use crate::attacks;
use crate::bare::{self, Expected};
use crate::catalogue::ROWS;
use crate::policy::Policy;

/// One section per part of the catalogue, one line per attack.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    let mut section = "";
    let mut attacks: Vec<_> = attacks::all()
        .into_iter()
        .chain(attacks::modules())
        .collect();
    attacks.sort_by_key(|attack| attack.entry);
    for attack in &attacks {
        let (its_section, _, _) = ROWS[attack.entry - 1];
        if its_section != section {
            section = its_section;
            text += &format!(
                "\n### {section}\n\n| attack | row | stop | seen by | granted by | control | without namespaces |\n|---|---|---|---|---|---|---|\n"
            );
        }
        text += &line(attack);
    }
    text
}

fn line(attack: &Attack) -> String {
    let (_, tried, stop) = ROWS[attack.entry - 1];
    format!(
        "| `{}`{} | {}. {tried} | {stop} | `{}` | {} | {} | {} |\n",
        attack.name,
        attack
            .pending
            .map_or(String::new(), |reason| format!(" (pending: {reason})")),
        attack.entry,
        format!("{:?}", attack.witness).replace('|', "\\|"),
        granted_by(attack),
        control(attack.control),
        without_namespaces(attack),
    )
}

fn without_namespaces(attack: &Attack) -> String {
    if attacks::is_of_module(attack) {
        return "not run".to_owned();
    }
    let Some(difference) = bare::difference(attack) else {
        return "the same".to_owned();
    };
    let ending = match difference.expected {
        Expected::Open(policies) => format!("**succeeds** under {}", names(policies)),
        Expected::Refused => "palisade refuses to start".to_owned(),
        Expected::Denied => "denied".to_owned(),
    };
    let neighbour = difference.control.map_or(String::new(), |guest| {
        format!("; control: `{}`", guest.name())
    });
    format!("{ending}: {}{neighbour}", difference.why)
}

fn granted_by(attack: &Attack) -> String {
    let granted = |policy: &Policy| attack.is_granted(*policy);
    let policies: Vec<_> = Policy::FACED.into_iter().filter(granted).collect();
    if policies.is_empty() {
        "none".to_owned()
    } else {
        names(&policies)
    }
}

fn names(policies: &[Policy]) -> String {
    let names: Vec<_> = policies.iter().map(|policy| policy.name()).collect();
    names.join(", ")
}

fn control(control: Control) -> String {
    match control {
        Control::Granted {
            grants: [],
            arguments,
        } => format!("the same where granted: `{arguments:?}`"),
        Control::Granted { grants, .. } => format!("the same and `{grants:?}`"),
        Control::Instead(grants) => format!("the same with `{grants:?}`"),
        Control::NoGrant(neighbour) => format!("no grant exists; `{}`", neighbour.name()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::markdown;

    const BEGIN: &str = "<!-- attacks: written by the suite, PALISADE_BLESS=1 renews it -->\n";
    const END: &str = "<!-- end of attacks -->\n";

    #[test]
    fn the_readme_of_the_guests_holds_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/README.md");
        let text = fs::read_to_string(&path).expect("read guests/README.md");
        let (before, rest) = text.split_once(BEGIN).expect("the table's beginning");
        let (table, after) = rest.split_once(END).expect("the table's end");
        if std::env::var_os("PALISADE_BLESS").is_some() {
            fs::write(
                &path,
                format!("{before}{BEGIN}{}\n{END}{after}", markdown()),
            )
            .expect("write it");
            return;
        }
        assert!(
            table == format!("{}\n", markdown()),
            "guests/README.md is out of date: PALISADE_BLESS=1 cargo test -p palisade-suite"
        );
    }
}
