//! From samples of operations to figures.

use super::{BRIDGED, MEAN, Operation, Operations, TO_BRIDGED};
use crate::{
    figure::{FLOOR, Figure, TO_FLOOR, Target},
    rows::{BARE, WASM},
    sample::{Contender, Samples},
};

/// An engine that runs programs alone.
const ENGINE: &str = "wasmtime";

impl Operations {
    pub(super) fn is_ours(&self, contender: &Contender) -> bool {
        self.walls
            .iter()
            .any(|wall| wall.subject == contender.subject)
    }

    pub(super) fn figures_of(&self, samples: &Samples, contender: &Contender) -> Vec<Figure> {
        let bare = Contender::new(self.name, BARE);
        let baseline = (*contender != bare).then_some(&bare);
        let figure = |operation: &Operation| {
            let target = self.is_ours(contender).then_some(operation.target);
            let measure = (operation.key, self.unit);
            Figure::of(samples, contender, baseline, measure, target)
                .beside_floor(samples, &self.floor_of(&contender.subject), baseline)
                .titled(operation.title)
        };
        let measures = samples.measures(contender);
        let was_measured = |one: &&Operation| measures.contains(&one.key) || measures.is_empty();
        let operations = self.operations.iter().filter(was_measured);
        operations.map(figure).collect()
    }

    /// A wall's mean, and what the floor's reaches of its target.
    pub(super) fn mean_beside_floor(&self, samples: &Samples, wall: &Contender) -> Figure {
        let target = self.mean.filter(|_| self.is_ours(wall));
        let mean = self.mean_figure(samples, wall, target);
        let floor = self.floor_of(&wall.subject);
        match target.is_some() && samples.contenders().contains(&floor) {
            true => mean.beside_mean(&self.mean_figure(samples, &floor, target)),
            false => mean,
        }
    }

    fn mean_figure(&self, samples: &Samples, wall: &Contender, target: Option<Target>) -> Figure {
        let measures = samples.measures(wall);
        let mut keys = self.keys();
        keys.retain(|key| measures.contains(key));
        let bare = Contender::new(self.name, BARE);
        Figure::mean_ratio(samples, wall, &bare, (&keys, self.unit), target)
    }

    /// One operation is its own mean, and what is judged by a difference has no ratio that counts.
    pub(super) fn has_mean(&self) -> bool {
        let is_ratio = |one: &Operation| !matches!(one.target, Target::AtMostOverBare(_));
        self.operations.len() > 1 && self.operations.iter().all(is_ratio)
    }

    /// Ours to those through a container's network, where they were measured.
    pub(super) fn figures_to_bridged(&self, samples: &Samples) -> Vec<Figure> {
        let bridged = Contender::new(self.name, BRIDGED);
        let Some(least) = self
            .least_times_bridged
            .filter(|_| samples.contenders().contains(&bridged))
        else {
            return Vec::new();
        };
        let ours = samples.contenders().iter().filter(|one| self.is_ours(one));
        let figure = |ours: &Contender, operation: &Operation| {
            let target = Some(Target::AtLeastTimesBridged(least));
            let measure = (operation.key, self.unit);
            let figure = Figure::of(samples, ours, Some(&bridged), measure, target);
            Figure {
                measure: format!("{}{TO_BRIDGED}", operation.key),
                // It is the other figure's; only the ratio is another one.
                summary: None,
                difference: None,
                ..figure.against(BRIDGED)
            }
        };
        ours.flat_map(|ours| self.operations.iter().map(|one| figure(ours, one)))
            .collect()
    }

    /// The wasm wall to an engine with no wall around it, the floor of a WebAssembly program.
    pub(super) fn figures_to_engine(&self, samples: &Samples) -> Vec<Figure> {
        let [wasm, engine] = [WASM, ENGINE].map(|subject| Contender::new(self.name, subject));
        let take_part = |one| samples.contenders().contains(one);
        if ![&wasm, &engine].into_iter().all(take_part) {
            return Vec::new();
        }
        let measures = samples.measures(&wasm).into_iter();
        let measures = measures.filter(|measure| self.keys().contains(measure));
        measures
            .map(|measure| Figure::to_floor(samples, &wasm, &engine, (measure, self.unit), None))
            .collect()
    }

    /// Ours to the floor, where that was measured.
    pub(super) fn figures_to_floor(&self, samples: &Samples) -> Vec<Figure> {
        let contenders = samples.contenders();
        let ours = contenders.iter().filter(|one| self.is_ours(one));
        let with_floors = ours.map(|ours| (ours, self.floor_of(&ours.subject)));
        let measured = with_floors.filter(|(_, floor)| contenders.contains(floor));
        measured
            .flat_map(|(ours, floor)| {
                let of_operations = self.operations.iter().map(|operation| {
                    let target = Some(operation.beside_floor.target(self.unit));
                    let measure = (operation.key, self.unit);
                    Figure::to_floor(samples, ours, &floor, measure, target)
                });
                let keys = self.keys();
                let mean = self.has_mean().then(|| Figure {
                    measure: format!("{MEAN}{TO_FLOOR}"),
                    ..Figure::mean_ratio(samples, ours, &floor, (&keys, self.unit), None)
                        .against(FLOOR)
                });
                of_operations.chain(mean).collect::<Vec<_>>()
            })
            .collect()
    }
}
