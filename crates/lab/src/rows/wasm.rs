//! What rows have in common that run a WebAssembly program too.

use super::{Prepared, Tools, WASM, try_peers};
use crate::{Trial, Warning, sample::Contender, subjects::Subject};
use palisade_wall::Command;

/// Adds a WebAssembly program behind palisade and in the engines that are installed, or the reason why it is
/// left out: that there is no compiler, or that palisade does not run it here. Whether it is run.
pub(super) fn try_wasm<T: Trial + 'static>(
    prepared: &mut Prepared,
    tools: &Tools,
    workload: &str,
    program: anyhow::Result<Command>,
    make: impl Fn(&dyn Subject, &Command) -> anyhow::Result<T>,
) -> bool {
    let ran = program.and_then(|command| {
        let mut trial = make(&tools.palisade, &command)?;
        trial.run_once()?;
        Ok((command, trial))
    });
    match ran {
        Ok((command, trial)) => {
            let contender = Contender::new(workload, WASM);
            prepared.trials.push((contender, Box::new(trial)));
            try_peers(prepared, tools, workload, &command, |peer| {
                make(peer, &command)
            });
            true
        }
        Err(error) => {
            leave_out(prepared, &error);
            false
        }
    }
}

/// Says why, once.
pub(super) fn leave_out(prepared: &mut Prepared, error: &anyhow::Error) {
    let doubt = Warning::WasmLeftOut {
        reason: format!("{error:#}"),
    };
    let warnings = &mut prepared.warnings;
    if !warnings.iter().any(|known| known.is_about_the_same(&doubt)) {
        warnings.push(doubt);
    }
}
