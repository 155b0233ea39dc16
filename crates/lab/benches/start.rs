//! What palisade's own code takes of a start, part by part: the plan, the filter, the library.
//!
//! `cargo bench -p palisade-lab`. Against other tools and no wall at all: `palisade bench start`.

use criterion::{Criterion, criterion_group, criterion_main};
use palisade_lab::{
    library::{Library, Readiness},
    workloads::Workloads,
};
use palisade_policy::{Access, FileGrant, Grants, Policy};
use palisade_process::{
    Machine, ThisHost,
    plan::{Options, make_plan},
    seccomp::{Groups, allow_list, compile},
};
use palisade_wall::{Command, Spec, Surroundings};
use std::hint::black_box;

/// Grants one folder and nothing else.
fn alone(workloads: &Workloads) -> Policy {
    let folder = FileGrant {
        access: Access::Read,
        host: workloads.folder().to_owned(),
        guest: None,
    };
    Policy {
        grants: Grants {
            files: vec![folder],
            ..Grants::nothing()
        },
        ..Policy::default()
    }
}

fn plans(criterion: &mut Criterion) {
    let workloads = Workloads::new().expect("a temporary folder");
    let machine = Machine::probe();
    let surroundings = Surroundings::here(false);
    let command = Command::new("/usr/bin/true");
    let policies = [
        ("plan/one folder", alone(&workloads)),
        ("plan/system view", Policy::default()),
    ];
    for (name, policy) in policies {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                let spec = Spec::new(black_box(&policy), &command, &machine, &surroundings);
                make_plan(&spec, &ThisHost, &Options::default()).expect("a plan")
            });
        });
    }
}

fn filters(criterion: &mut Criterion) {
    criterion.bench_function("seccomp/compile", |bencher| {
        bencher.iter(|| compile(&allow_list(black_box(&Groups::default()))).expect("a program"));
    });
}

fn starts(criterion: &mut Criterion) {
    let workloads = Workloads::new().expect("a temporary folder");
    let command = Command::new(workloads.add_true().expect("the workload"));
    for (name, readiness) in [
        ("library/cold", Readiness::Cold),
        ("library/keeper up", Readiness::KeeperUp),
        ("library/parked, back to back", Readiness::Parked),
    ] {
        let library = Library::new(readiness, alone(&workloads), command.clone());
        let library = library.expect("palisade runs on this machine");
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| library.run().expect("a guest that ends well"));
        });
    }
}

criterion_group!(benches, plans, filters, starts);
criterion_main!(benches);
