//! `palisade kill`: ends running domains.

use super::domains;
use crate::{args::KillArgs, say};
use palisade_command_line::FAILED;

/// Ends each, and goes on if one cannot be ended.
pub(crate) fn kill(args: &KillArgs) -> anyhow::Result<u8> {
    let mut code = 0;
    for meant in &args.domains {
        let ended = domains::find(meant).and_then(|domain| Ok(domain.kill()?));
        if let Err(error) = ended {
            say::error(&error.context(format!("{meant} is not ended")));
            code = FAILED;
        }
    }
    Ok(code)
}
