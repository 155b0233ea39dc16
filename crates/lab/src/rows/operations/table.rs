//! How figures of operations are shown: operations go down a table, walls across.

use super::{MEAN, Operation, Operations, TO_BRIDGED};
use crate::{
    figure::{FLOOR, Figure, TO_FLOOR, Target},
    notation::{short, signed},
    rows::{BARE, WASM, ratio_cell},
    sample::Unit,
    subjects::Peer,
    table::Table,
};

impl Operations {
    pub(super) fn table(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let has_floor = find_any(figures, FLOOR);
        let mut table = Table::new(self.columns(peers, has_floor));
        let floor_cell = |measure| has_floor.then(|| self.floor_cell(figures, measure));
        for operation in self.operations {
            let lead = [
                operation.title.to_owned(),
                self.bare_cell(figures, operation.key),
                target_cell(operation.target),
            ];
            let floor = floor_cell(operation.key);
            let cells = self.wall_cells(figures, operation.key);
            let peers = self.peer_cells(figures, operation.key, peers);
            let published = self.original.map(|_| operation.published.to_owned());
            let cells = floor.into_iter().chain(cells).chain(peers);
            table.line(lead.into_iter().chain(cells).chain(published));
            self.add_line_to_floor(&mut table, figures, operation.key);
        }
        if self.has_mean() {
            let target = self.mean.map_or_else(String::new, target_cell);
            let lead = [MEAN.to_owned(), String::new(), target];
            let floor = floor_cell(MEAN);
            let cells = self.wall_cells(figures, MEAN);
            let peers = self.peer_cells(figures, MEAN, peers);
            table.line(lead.into_iter().chain(floor).chain(cells).chain(peers));
            self.add_line_to_floor(&mut table, figures, MEAN);
        }
        self.add_lines_to_bridged(&mut table, figures);
        table
    }

    /// The floor to bare, or over it.
    fn floor_cell(&self, figures: &[Figure], measure: &str) -> String {
        comparison_cell(find(figures, FLOOR, measure), self.is_difference(measure))
    }

    /// What it is to the floor, below what it is to bare.
    fn add_line_to_floor(&self, table: &mut Table, figures: &[Figure], measure: &str) {
        let key = format!("{measure}{TO_FLOOR}");
        let ours = |figure: &&Figure| self.is_ours(&figure.contender);
        let mut ours = figures.iter().filter(ours);
        let Some(to_floor) = ours.find(|figure| figure.measure == key) else {
            return;
        };
        let floor = find(figures, FLOOR, measure).and_then(|figure| figure.summary);
        let allowed = to_floor.target.map(|target| match (target, floor) {
            // What it comes to: a nanosecond is much of a short call.
            (Target::AtMostTimesFloorOrOver(times, over), Some(floor)) => {
                format!("≤ {:.2}", times.max(1.0 + over / floor.median))
            }
            (target, _) => target_cell(target),
        });
        let title = "  × floor".to_owned();
        let lead = [
            title,
            String::new(),
            allowed.unwrap_or_default(),
            String::new(),
        ];
        table.line(lead.into_iter().chain(self.wall_cells(figures, &key)));
    }

    pub(super) fn add_lines_to_bridged(&self, table: &mut Table, figures: &[Figure]) {
        for operation in self.operations {
            let key = format!("{}{TO_BRIDGED}", operation.key);
            let of_key = |figure: &&Figure| figure.measure == key;
            let Some(target) = figures.iter().find(of_key).and_then(|one| one.target) else {
                continue;
            };
            let title = "× bridged".to_owned();
            let lead = [title, String::new(), target_cell(target)];
            table.line(lead.into_iter().chain(self.wall_cells(figures, &key)));
        }
    }

    pub(super) fn table_of_others(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let titles = peers.iter().map(|peer| peer.title);
        let mut table = Table::new(["", self.bare_title()].into_iter().chain(titles));
        let lines = self.operations.iter().map(|one| (one.title, one.key));
        let mean = self.has_mean().then_some((MEAN, MEAN));
        for (title, key) in lines.chain(mean) {
            let lead = [title.to_owned(), self.bare_cell(figures, key)];
            table.line(lead.into_iter().chain(self.peer_cells(figures, key, peers)));
        }
        table
    }

    /// The same program as WebAssembly; what it costs is stated, not judged.
    pub(super) fn wasm_table(&self, figures: &[Figure], engines: &[&'static Peer]) -> Table {
        let titles = engines.iter().map(|peer| peer.title);
        let has_floor = figures
            .iter()
            .any(|one| one.is_to_floor() && one.contender.subject == WASM);
        let lead = ["", self.bare_title(), "palisade", "95 %"].into_iter();
        let lead = lead.chain(has_floor.then_some("× floor"));
        let mut table = Table::new(lead.chain(titles));
        let lines = self.operations.iter().map(|one| (one.title, one.key));
        let mean = self.has_mean().then_some((MEAN, MEAN));
        for (title, key) in lines.chain(mean) {
            let Some(ours) = find(figures, WASM, key) else {
                continue;
            };
            let lead = [
                title.to_owned(),
                self.bare_cell(figures, key),
                ratio_cell(Some(ours)),
                ours.ratio_interval(),
            ];
            let key_to_floor = format!("{key}{TO_FLOOR}");
            let to_floor = has_floor.then(|| ratio_cell(find(figures, WASM, &key_to_floor)));
            let engines = self.peer_cells(figures, key, engines);
            table.line(lead.into_iter().chain(to_floor).chain(engines));
        }
        table
    }

    fn columns(&self, peers: &[&'static Peer], has_floor: bool) -> Vec<&'static str> {
        let walls = self.walls.iter().flat_map(|wall| [wall.title, "95 %", ""]);
        ["", self.bare_title(), "target"]
            .into_iter()
            .chain(has_floor.then_some(FLOOR))
            .chain(walls)
            .chain(peers.iter().map(|peer| peer.title))
            .chain(self.original)
            .collect()
    }

    pub(super) fn bare_title(&self) -> &'static str {
        match self.unit {
            Unit::Nanoseconds => "bare ns",
            Unit::Microseconds => "bare µs",
            Unit::Bytes => "bare B",
            Unit::Count | Unit::Outcome => "bare",
            Unit::PerSecond => "bare /s",
            Unit::MegabytesPerSecond => "bare MB/s",
        }
    }

    pub(super) fn bare_cell(&self, figures: &[Figure], measure: &str) -> String {
        find(figures, BARE, measure)
            .and_then(|figure| figure.summary)
            .map_or_else(String::new, |summary| short(summary.median))
    }

    pub(super) fn wall_cells(&self, figures: &[Figure], measure: &str) -> Vec<String> {
        let ours = self.walls.iter().flat_map(|wall| {
            let figure = find(figures, wall.subject, measure);
            [
                comparison_cell(figure, self.is_difference(measure)),
                figure.map_or_else(String::new, |it| self.interval_cell(it)),
                figure.map_or_else(String::new, Figure::verdict_cell),
            ]
        });
        ours.collect()
    }

    /// Whether a measure is judged by what it takes over bare.
    pub(super) fn is_difference(&self, measure: &str) -> bool {
        let is_it = |one: &&Operation| one.key == measure;
        let operation = self.operations.iter().find(is_it);
        operation.is_some_and(|one| matches!(one.target, Target::AtMostOverBare(_)))
    }

    pub(super) fn interval_cell(&self, figure: &Figure) -> String {
        match figure
            .difference
            .filter(|_| self.is_difference(&figure.measure))
        {
            Some(over) => format!("{}–{}", signed(over.low), signed(over.high)),
            None => figure.ratio_interval(),
        }
    }

    pub(super) fn peer_cells(
        &self,
        figures: &[Figure],
        measure: &str,
        peers: &[&'static Peer],
    ) -> Vec<String> {
        let cell = |peer: &&Peer| {
            let figure = find(figures, peer.name, measure);
            comparison_cell(figure, self.is_difference(measure))
        };
        peers.iter().map(cell).collect()
    }
}

/// A ratio to bare, or what comes on top of it.
pub(in crate::rows) fn comparison_cell(figure: Option<&Figure>, is_difference: bool) -> String {
    let difference = figure.and_then(|figure| figure.difference);
    match difference.filter(|_| is_difference) {
        Some(over) => signed(over.value),
        None => ratio_cell(figure),
    }
}

/// `≤ 1.01`, `≤ +12`, `≥ 0.99`.
pub(in crate::rows) fn target_cell(target: Target) -> String {
    match target {
        Target::AtMost(most)
        | Target::AtMostTimesBare(most)
        | Target::AtMostTimesProcess(most)
        | Target::AtMostTimesWasmtime(most)
        | Target::AtMostTimesOther(most)
        | Target::AtMostTimesFloor(most)
        | Target::AtMostTimesFloorOrOver(most, _) => format!("≤ {most}"),
        Target::AtMostOverBare(most) | Target::AtMostOverOther(most) => format!("≤ +{most}"),
        Target::AtLeastTimesBare(least)
        | Target::AtLeastTimesBridged(least)
        | Target::AtLeastTimesFloor(least)
        | Target::AtLeastTimesOther(least) => format!("≥ {least}"),
    }
}

fn find<'a>(figures: &'a [Figure], subject: &str, measure: &str) -> Option<&'a Figure> {
    figures
        .iter()
        .find(|figure| figure.contender.subject == subject && figure.measure == measure)
}

fn find_any(figures: &[Figure], subject: &str) -> bool {
    figures
        .iter()
        .any(|figure| figure.contender.subject == subject)
}
