//! What a request costs without a network: a hello of WASI 0.2, in a fresh instance and in one that is
//! kept, and one of 0.3.
//!
//! The guests are built as for the tests; where they can't be there is nothing to measure.

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/service/fixture.rs"]
mod fixture;
#[path = "../tests/service/guests.rs"]
mod guests;

use criterion::{Criterion, Throughput};
use fixture::Fixture;
use guests::Missing;
use std::hint::black_box;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    measure(&mut criterion);
    criterion.final_summary();
}

fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hello");
    group.throughput(Throughput::Elements(1));
    let mut add = |name: &str, fixture: Result<Fixture, Missing>| match fixture {
        Ok(fixture) => {
            group.bench_function(name, |bencher| {
                bencher.iter(|| black_box(fixture.get("/hello")));
            });
        }
        Err(Missing(reason)) => eprintln!("hello/{name} is left out: {reason}"),
    };
    add(
        "fresh",
        guests::answers().map(|guest| Fixture::new(&guest, "")),
    );
    add(
        "kept",
        guests::answers().map(|guest| Fixture::kept(&guest, "")),
    );
    add("0.3", guests::tasks().map(|guest| Fixture::new(&guest, "")));
}
