//! From limits and a [`Survey`] to the groups that will hold a domain. Pure.

use std::path::PathBuf;

use serde::Serialize;

use super::{
    detect::{Controller, Version},
    name::LeafName,
    refusal::{Obstacle, Refusal, Unmet},
    settings::{Setting, settings},
    survey::{Base, Occupants, SUPERVISOR, Survey, UsableHierarchy},
};

/// The group at the top of a hierarchy that leaves are collected in.
const COLLECTION: &str = "palisade";

/// What a leaf's name begins with where it stands among other people's groups.
const PREFIX: &str = "palisade-";

/// The limits that need a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Need {
    /// Memory of all processes together, page cache and tmpfs included, in bytes.
    pub memory_bytes: Option<u64>,
    /// Whether sockets of the host's network count as memory of the domain's.
    pub host_sockets: bool,
    /// Processors, fractional.
    pub cpu_cores: Option<f64>,
    /// Processes and threads at one time.
    pub processes: Option<u64>,
    /// Whether the processor time used must be known.
    pub cpu_time: bool,
    /// Whether all of it can be stopped as one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub freezer: bool,
}

/// The groups that will hold a domain: at most one of version 2, one per hierarchy of version 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// One leaf each.
    pub placements: Vec<Placement>,
}

/// One leaf and how to come to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// Which rules its hierarchy follows.
    pub version: Version,
    /// What it is there for. On version 2 a leaf that only counts processor time, or can be frozen, needs none.
    pub controllers: Vec<Controller>,
    /// A group that this process moves into first, out of the one whose children get controllers.
    pub move_self: Option<PathBuf>,
    /// Groups whose children get controllers, in order; made if missing.
    pub enable: Vec<Enable>,
    /// The group in which the leaf is made; made if missing.
    pub parent: PathBuf,
    /// What the leaf's name begins with.
    pub prefix: &'static str,
    /// What is written into the leaf, in order.
    pub settings: Vec<Setting>,
}

/// Whether the domain has a group of its own in a leaf that is there for these, to be frozen.
pub(super) fn freezes(version: Version, controllers: &[Controller]) -> bool {
    version == Version::V2 && controllers.contains(&Controller::Freezer)
}

/// A line in a group's `cgroup.subtree_control`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Enable {
    /// The group's directory.
    pub dir: PathBuf,
    /// What its children get.
    pub controllers: Vec<Controller>,
}

impl Placement {
    /// The leaf's directory.
    #[must_use]
    pub fn leaf_dir(&self, name: &LeafName) -> PathBuf {
        self.parent.join(self.leaf_name(name))
    }

    /// What the leaf is called in its parent.
    pub(super) fn leaf_name(&self, name: &LeafName) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Need {
    /// Whether no group is needed at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The controllers that hold it.
    fn controllers(&self) -> impl Iterator<Item = Controller> {
        let needed = |needed: bool, controller| needed.then_some(controller);
        [
            needed(self.memory_bytes.is_some(), Controller::Memory),
            needed(self.cpu_cores.is_some(), Controller::Cpu),
            needed(self.processes.is_some(), Controller::Pids),
            needed(self.cpu_time, Controller::Cpuacct),
            needed(self.freezer, Controller::Freezer),
        ]
        .into_iter()
        .flatten()
    }
}

/// Finds groups for the limits: of version 2 where it has the controller, else of version 1.
///
/// # Errors
///
/// All limits that no group can hold, each with the reason.
pub fn plan(need: &Need, survey: &Survey) -> Result<Plan, Refusal> {
    let mut open = Open::of(need);
    let mut plan = Plan::default();
    let counts = |controller: &Controller| *controller == Controller::Cpuacct;
    // A leaf that is there for a bound counts processor time on the side.
    for hierarchy in &survey.hierarchies {
        let wanted = open.offered_by(hierarchy);
        if !wanted.iter().all(counts) {
            plan.add(hierarchy.place(&wanted, &mut open), need);
        }
    }
    // Only if there is none, one is made for counting alone. Version 1 comes first: a domain that waits
    // already joins by itself, but for a leaf of version 2 to be born in another one is made.
    for hierarchy in survey.hierarchies.iter().rev() {
        if open.offered_by(hierarchy).iter().any(counts) {
            plan.add(hierarchy.place(&[Controller::Cpuacct], &mut open), need);
        }
    }
    open.into_result(plan)
}

impl Plan {
    fn add(&mut self, placement: Option<Placement>, need: &Need) {
        let placement = placement.map(|placement| placement.with_settings(need));
        self.placements.extend(placement);
    }
}

/// Controllers that have no place yet, each with what was in the way so far.
struct Open(Vec<Unmet>);

impl Open {
    fn of(need: &Need) -> Self {
        let unmet = |controller| Unmet {
            controller,
            obstacle: Obstacle::NoController,
        };
        Self(need.controllers().map(unmet).collect())
    }

    fn offered_by(&self, hierarchy: &UsableHierarchy) -> Vec<Controller> {
        let open = self.0.iter().map(|unmet| unmet.controller);
        open.filter(|open| hierarchy.controllers.contains(open))
            .collect()
    }

    /// Records whether a controller found its place.
    fn settle(&mut self, controller: Controller, obstacle: Option<Obstacle>) {
        match obstacle {
            None => self.0.retain(|open| open.controller != controller),
            Some(obstacle) => {
                let mut open = self.0.iter_mut();
                if let Some(open) = open.find(|open| open.controller == controller) {
                    open.obstacle = obstacle;
                }
            }
        }
    }

    fn into_result(self, plan: Plan) -> Result<Plan, Refusal> {
        match self.0.is_empty() {
            true => Ok(plan),
            false => Err(Refusal { unmet: self.0 }),
        }
    }
}

impl UsableHierarchy {
    /// A leaf for as many of the controllers as one group can give.
    fn place(&self, wanted: &[Controller], open: &mut Open) -> Option<Placement> {
        let lacking = |base: &&Base| {
            let obstacles = wanted.iter().map(|controller| base.obstacle(*controller));
            obstacles.flatten().count()
        };
        let base = self.bases.iter().min_by_key(lacking)?;
        for controller in wanted {
            open.settle(*controller, base.obstacle(*controller));
        }
        let given = |controller: &Controller| base.obstacle(*controller).is_none();
        let controllers: Vec<Controller> = wanted.iter().copied().filter(given).collect();
        (!controllers.is_empty()).then(|| base.place(self.version, controllers))
    }
}

impl Base {
    fn obstacle(&self, controller: Controller) -> Option<Obstacle> {
        let dir = self.dir.clone();
        if !self.writable {
            Some(Obstacle::NotWritable { dir })
        } else if !self.available.contains(&controller) {
            Some(Obstacle::NotDelegated { dir })
        } else if !self.enabled.contains(&controller) && self.occupants == Occupants::Others {
            Some(Obstacle::Occupied { dir })
        } else {
            None
        }
    }

    fn place(&self, version: Version, controllers: Vec<Controller>) -> Placement {
        let enable = self.enable(version, &controllers);
        let in_the_way = self.occupants == Occupants::OnlySelf && !enable.is_empty();
        let (parent, prefix) = match self.top {
            true => (self.dir.join(COLLECTION), ""),
            false => (self.dir.clone(), PREFIX),
        };
        Placement {
            version,
            controllers,
            move_self: in_the_way.then(|| self.dir.join(SUPERVISOR)),
            enable,
            parent,
            prefix,
            settings: Vec::new(),
        }
    }

    /// Version 2: from the base down, every group above the leaf hands the controllers on.
    fn enable(&self, version: Version, controllers: &[Controller]) -> Vec<Enable> {
        let built_in = [Controller::Cpuacct, Controller::Freezer];
        let switched = |controller: &&Controller| !built_in.contains(controller);
        let missing = |controller: &&Controller| !self.enabled.contains(controller);
        let wanted: Vec<_> = controllers.iter().filter(switched).copied().collect();
        let here = wanted.iter().filter(missing).copied().collect();
        let below = if self.top { wanted } else { Vec::new() };
        [(self.dir.clone(), here), (self.dir.join(COLLECTION), below)]
            .into_iter()
            .filter(|(_, controllers)| version == Version::V2 && !controllers.is_empty())
            .map(|(dir, controllers)| Enable { dir, controllers })
            .collect()
    }
}

impl Placement {
    fn with_settings(mut self, need: &Need) -> Self {
        let settings = |controller: &Controller| settings(self.version, *controller, need);
        self.settings = self.controllers.iter().flat_map(settings).collect();
        self
    }
}
