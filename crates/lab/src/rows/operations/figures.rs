//! From samples of operations to figures.

use super::{BRIDGED, Operation, Operations, TO_BRIDGED};
use crate::{
    figure::{Figure, Target},
    rows::BARE,
    sample::{Contender, Samples},
};

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
            Figure::of(samples, contender, baseline, measure, target).titled(operation.title)
        };
        let measures = samples.measures(contender);
        let was_measured = |one: &&Operation| measures.contains(&one.key) || measures.is_empty();
        let operations = self.operations.iter().filter(was_measured);
        operations.map(figure).collect()
    }

    pub(super) fn mean_figure(&self, samples: &Samples, wall: &Contender) -> Figure {
        let measures = samples.measures(wall);
        let mut keys = self.keys();
        keys.retain(|key| measures.contains(key));
        let target = self.mean.filter(|_| self.is_ours(wall));
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
                ..figure
            }
        };
        ours.flat_map(|ours| self.operations.iter().map(|one| figure(ours, one)))
            .collect()
    }
}
