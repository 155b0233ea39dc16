//! Where a program shows something else as WebAssembly, and why. `docs/walls/README.md` tells users.

use super::{Case, Line};
use crate::guests::Probe;

/// One line that differs.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The probe that shows it.
    pub probe: Probe,
    /// Its cases; all of them where this is empty.
    pub cases: &'static [&'static str],
    /// What is called.
    pub call: &'static str,
    /// What it gives natively; nothing where the line is not there.
    pub native: Option<&'static str>,
    /// What it gives as WebAssembly.
    pub wasm: Option<&'static str>,
    /// The name of its row in the documentation.
    pub row: &'static str,
}

/// Every difference.
pub const DIFFERENCES: &[Difference] = &[];

impl Difference {
    fn concerns(&self, case: &Case) -> bool {
        self.probe == case.probe && (self.cases.is_empty() || self.cases.contains(&case.name))
    }
}

/// Whether the module shows `wasm` where the program shows `native`, but for what is listed.
///
/// # Errors
///
/// Every line that differs without being listed, and every listed one that does not differ.
pub fn compare(case: &Case, native: &[Line], wasm: &[Line]) -> Result<(), String> {
    let concerned = |difference: &&Difference| difference.concerns(case);
    let listed: Vec<_> = DIFFERENCES.iter().filter(concerned).collect();
    let found = differing(native, wasm);
    let is = |difference: &Difference, pair: &Pair<'_>| {
        let value = |line: Option<&Line>| line.map(|line| line.value().to_owned());
        let call = pair.0.or(pair.1).map(Line::call);
        call == Some(difference.call)
            && value(pair.0).as_deref() == difference.native
            && value(pair.1).as_deref() == difference.wasm
    };
    let mut text = String::new();
    for pair in found
        .iter()
        .filter(|pair| !listed.iter().any(|listed| is(listed, pair)))
    {
        let line = |line: Option<&Line>| line.map_or("(nothing)".to_owned(), |line| line.0.clone());
        text += &format!("  native  {}\n  wasm    {}\n", line(pair.0), line(pair.1));
    }
    for listed in listed
        .iter()
        .filter(|listed| !found.iter().any(|pair| is(listed, pair)))
    {
        text += &format!("  no difference any more: {listed:?}\n");
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}

/// A line of each, or of one only.
type Pair<'a> = (Option<&'a Line>, Option<&'a Line>);

/// Walks both lists; where they part, a line that comes later in the other one is where they meet again.
fn differing<'a>(native: &'a [Line], wasm: &'a [Line]) -> Vec<Pair<'a>> {
    let (mut ours, mut theirs) = (native, wasm);
    let mut found = Vec::new();
    while let (Some(one), Some(other)) = (ours.first(), theirs.first()) {
        if one.call() == other.call() || !(ours.contains(other) || theirs.contains(one)) {
            if one != other {
                found.push((Some(one), Some(other)));
            }
            (ours, theirs) = (&ours[1..], &theirs[1..]);
        } else if theirs.contains(one) {
            found.push((None, Some(other)));
            theirs = &theirs[1..];
        } else {
            found.push((Some(one), None));
            ours = &ours[1..];
        }
    }
    found.extend(ours.iter().map(|line| (Some(line), None)));
    found.extend(theirs.iter().map(|line| (None, Some(line))));
    found
}
