//! What a start computes before it is anybody else's: the plan of a policy that shows the guest `/usr` alone, and its
//! system-call filter. What a machine has in `/etc` is left out, for it differs.

use crate::{Tell, Work};
use anyhow::Context;
use palisade_policy::Policy;
use palisade_process::{
    Machine, ThisHost,
    plan::{Options, make_plan},
    seccomp::{allow_list, compile},
};
use palisade_wall::{Command, Spec, Surroundings};
use std::path::Path;

pub(crate) const NAME: &str = "plan";

const POLICY: &str = "system = false\n[grants]\nread = [\"/usr\"]\n";

pub(crate) fn run(tell: Tell) -> anyhow::Result<()> {
    let policy = Policy::from_toml(POLICY, "policy.toml", Path::new("/"))
        .context("wall: this is no policy")?;
    let command = Command::new("/usr/bin/true");
    let (machine, surroundings) = (Machine::probe(), Surroundings::default());
    let mut pass = || {
        let spec = Spec::new(&policy, &command, &machine, &surroundings);
        let plan = make_plan(&spec, &ThisHost, &Options::default());
        let groups = plan.ok().and_then(|plan| plan.seccomp);
        groups.is_some_and(|groups| compile(&allow_list(&groups)).is_ok())
    };
    tell(Work {
        before: &mut || {},
        pass: &mut pass,
    })
}
