//! What a call of a guest in this process costs, by the number of its arguments and by isolation.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use palisade_engine::guest::{Function, Guest, Isolation, Limits, Options, Values};
use std::{hint::black_box, time::Duration};

/// Null functions `f0` to `f8`, each of so many words; a page of memory beside them.
fn module() -> Vec<u8> {
    let functions: String = (0..=8)
        .map(|count| {
            let words = "i32 ".repeat(count);
            format!("(func (export \"f{count}\") (param {words}))\n")
        })
        .collect();
    let text = format!("(module (memory (export \"memory\") 1) {functions})");
    wat::parse_str(text).expect("read the guest's text")
}

fn guest(isolation: Isolation, time: Option<Duration>) -> Guest {
    let limits = Limits {
        time,
        ..Limits::default()
    };
    Guest::load(&module(), Options { isolation, limits }).expect("load the guest")
}

fn measure<P: Values + Copy>(
    criterion: &mut Criterion,
    group: &str,
    guest: &mut Guest,
    name: &str,
    parameters: P,
) {
    let function: Function<P, ()> = guest.function(name).expect("find the function");
    criterion.bench_with_input(BenchmarkId::new(group, name), &(), |bencher, ()| {
        bencher.iter(|| guest.call(&function, black_box(parameters)).expect("call"));
    });
}

fn calls(criterion: &mut Criterion) {
    let kept = &mut guest(Isolation::Kept, None);
    measure(criterion, "kept", kept, "f0", ());
    measure(criterion, "kept", kept, "f1", (1,));
    measure(criterion, "kept", kept, "f2", (1, 2));
    measure(criterion, "kept", kept, "f3", (1, 2, 3));
    measure(criterion, "kept", kept, "f4", (1, 2, 3, 4));
    measure(criterion, "kept", kept, "f5", (1, 2, 3, 4, 5));
    measure(criterion, "kept", kept, "f6", (1, 2, 3, 4, 5, 6));
    measure(criterion, "kept", kept, "f7", (1, 2, 3, 4, 5, 6, 7));
    measure(criterion, "kept", kept, "f8", (1, 2, 3, 4, 5, 6, 7, 8));
    let timed = &mut guest(Isolation::Kept, Some(Duration::from_secs(1)));
    measure(criterion, "kept, with a limit of time", timed, "f0", ());
    let fresh = &mut guest(Isolation::Fresh, None);
    measure(criterion, "fresh", fresh, "f0", ());
    measure(criterion, "fresh", fresh, "f8", (1, 2, 3, 4, 5, 6, 7, 8));
    let timed = &mut guest(Isolation::Fresh, Some(Duration::from_secs(1)));
    measure(criterion, "fresh, with a limit of time", timed, "f0", ());
}

criterion_group!(benches, calls);
criterion_main!(benches);
