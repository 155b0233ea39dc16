//! A filter in words, for `palisade explain`.

use std::fmt;

use super::{
    filter::{Action, Filter, Rule},
    syscalls,
};

/// How many calls end how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Calls allowed whatever their arguments.
    pub allowed: usize,
    /// Calls refused whatever their arguments; `ENOSYS` is not counted, it is what the rest gets.
    pub refused: usize,
    /// Names of the calls whose arguments decide.
    pub checked: Vec<&'static str>,
    /// Names of the calls that the supervisor answers whatever their arguments.
    pub answered: Vec<&'static str>,
}

impl Filter {
    /// Counts what this filter does; `Display` makes one line of it.
    #[must_use]
    pub fn describe(&self) -> Description {
        let mut description = Description::default();
        for (number, rule) in self.rules() {
            match rule {
                Rule::Always(Action::Allow) => description.allowed += 1,
                Rule::Always(Action::Notify | Action::Look | Action::Absent | Action::Ruled) => {
                    description.answered.push(name(number));
                }
                Rule::Always(action) if *action == self.otherwise() => {}
                Rule::Always(_) => description.refused += 1,
                Rule::Check(_) => description.checked.push(name(number)),
            }
        }
        description
    }
}

fn name(number: u32) -> &'static str {
    syscalls::call_name(number).unwrap_or("unnamed")
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls allowed, {} refused (EPERM), {} checked by argument ({}), ",
            self.allowed,
            self.refused,
            self.checked.len(),
            self.checked.join(" ")
        )?;
        if !self.answered.is_empty() {
            let (count, names) = (self.answered.len(), self.answered.join(" "));
            write!(f, "{count} answered by the supervisor ({names}), ")?;
        }
        f.write_str("rest ENOSYS")
    }
}
