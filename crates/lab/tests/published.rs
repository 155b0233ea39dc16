//! The runs that this repository publishes can be read.

use palisade_lab::KeptRun;
use std::{fs, path::Path};

#[test]
fn published_runs_are_read() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
    let folders = fs::read_dir(runs).expect("runs");
    let mut count = 0;
    for folder in folders {
        let path = folder.expect("a folder").path();
        let kept = KeptRun::read(&path).expect("a run");
        assert!(!kept.rows.is_empty(), "{}", path.display());
        for row in &kept.rows {
            let name = format!("{}: {}", path.display(), row.outcome.row);
            assert_eq!(row.outcome.failed, None, "{name}");
            assert_eq!(row.outcome.rounds, row.samples.rounds(), "{name}");
            assert!(!row.outcome.tables.is_empty(), "{name}");
        }
        count += 1;
    }
    assert!(count > 0);
}
