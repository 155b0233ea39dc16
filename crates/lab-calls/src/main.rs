//! What guests cost within one process: the workloads of the lab's rows `kp-5`, `kp-c` and `kp-x`. A program of its
//! own, so that neither the lab nor `palisade` holds an engine.
//!
//! ```text
//! palisade-lab-calls native|kept|timed|fresh|engine|engine-fresh
//! palisade-lab-calls bare-request
//! palisade-lab-calls kept-request|fresh-request|engine-request|engine-fresh-request FILTER
//! palisade-lab-calls link|engine-link FILTER
//! palisade-lab-calls pictures|engine-pictures MODULE BATCHES
//! palisade-lab-calls component MODULE INTERFACES INTO
//! palisade-lab-calls answers PORT NULL-FILTER HEADER-FILTER
//! ```
//!
//! `native` calls functions of its own; the others those of a WebAssembly guest in this process, which is kept
//! between calls, kept with a limit of time on each call, or made anew for each; by the library, or by the engine alone
//! (`engine`), which is the floor of the others. For 0 to 8 arguments of a word
//! there are two lines, as the lab's programs in C print them:
//!
//! ```text
//! mean-WORDS NS        of 2000 calls, after one that does not count
//! fastest-WORDS NS     of the fastest tenth of them
//! ```
//!
//! Each call is timed alone, so the clock is in every figure, in that of the native one too. So it is with requests,
//! which a proxy-wasm filter sees or nobody does, or whose calls the engine alone makes: `request-mean` and `request-fastest`. Links
//! and pictures are the library's or, as `engine-`, the engine's alone, too. `component` measures nothing: it makes one; and `answers` is a server
//! around the engine alone, for clients that measure.

mod answers;
mod component;
mod engine;
mod link;
mod pictures;
mod request;

use anyhow::{Context, bail};
use palisade_engine::guest::{Function, Guest, Isolation, Limits, Options, Values};
use std::{
    env, fs,
    hint::black_box,
    process::ExitCode,
    str::FromStr,
    time::{Duration, Instant},
};

const RUNS: usize = 2001;

fn main() -> ExitCode {
    match run() {
        Ok(lines) => {
            print!("{lines}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("palisade-lab-calls: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<String> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["native"] => Ok(native_calls()),
        ["kept"] => guest_calls(Isolation::Kept, None),
        ["timed"] => guest_calls(Isolation::Kept, Some(Duration::from_secs(1))),
        ["fresh"] => guest_calls(Isolation::Fresh, None),
        ["engine"] => engine::calls(Isolation::Kept),
        ["engine-fresh"] => engine::calls(Isolation::Fresh),
        ["bare-request"] => request::bare_requests(),
        ["kept-request", filter] => request::filtered_requests(&read(filter)?, Isolation::Kept),
        ["fresh-request", filter] => request::filtered_requests(&read(filter)?, Isolation::Fresh),
        ["engine-request", filter] => engine::requests(&read(filter)?, Isolation::Kept),
        ["engine-fresh-request", filter] => engine::requests(&read(filter)?, Isolation::Fresh),
        ["link", filter] => link::steps(&read(filter)?),
        ["engine-link", filter] => engine::links(&read(filter)?),
        ["pictures", module, batches] => pictures::pictures(
            &mut pictures::Library::load(&read(module)?)?,
            number(batches)?,
        ),
        ["engine-pictures", module, batches] => pictures::pictures(
            &mut engine::Painter::load(&read(module)?)?,
            number(batches)?,
        ),
        ["component", module, interfaces, into] => component::make(module, interfaces, into),
        ["answers", port, null, header] => {
            match answers::serve(number(port)?, &read(null)?, &read(header)?)? {}
        }
        _ => bail!(
            "usage: palisade-lab-calls native|kept|timed|fresh|engine|engine-fresh
       palisade-lab-calls bare-request
       palisade-lab-calls kept-request|fresh-request|engine-request|engine-fresh-request FILTER
       palisade-lab-calls link|engine-link FILTER
       palisade-lab-calls pictures|engine-pictures MODULE BATCHES
       palisade-lab-calls component MODULE INTERFACES INTO
       palisade-lab-calls answers PORT NULL-FILTER HEADER-FILTER"
        ),
    }
}

/// What the lab lays out as `null.wasm`.
#[cfg(test)]
const NULL_FILTER: &str = include_str!("../../../lab/workloads/filter-null.wat");
/// And as `header.wasm`.
#[cfg(test)]
const HEADER_FILTER: &str = include_str!("../../../lab/workloads/filter-header.wat");

fn number<T: FromStr>(word: &str) -> anyhow::Result<T> {
    word.parse()
        .ok()
        .with_context(|| format!("{word} is no number that there is room for"))
}

fn read(path: &str) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("host: cannot read {path}"))
}

/// Both lines of the calls with so many arguments.
fn lines(count: usize, mut call: impl FnMut()) -> String {
    let mut times_ns: Vec<u128> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            call();
            began.elapsed().as_nanos()
        })
        .skip(1)
        .collect();
    let mean_ns = mean(&times_ns);
    times_ns.sort_unstable();
    let fastest_ns = mean(&times_ns[..times_ns.len() / 10]);
    format!("mean-{count} {mean_ns:.2}\nfastest-{count} {fastest_ns:.2}\n")
}

fn mean(times_ns: &[u128]) -> f64 {
    times_ns.iter().sum::<u128>() as f64 / times_ns.len() as f64
}

/// Functions that the compiler may not look into, called with words that it does not know.
macro_rules! native {
    ($count:literal: $($word:ident)*) => {{
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "their number is what is measured")]
        fn null($($word: i32),*) {
            $(black_box($word);)*
        }
        lines($count, || null($(black_box(stringify!($word).len() as i32)),*))
    }};
}

fn native_calls() -> String {
    [
        native!(0:),
        native!(1: a),
        native!(2: a b),
        native!(3: a b c),
        native!(4: a b c d),
        native!(5: a b c d e),
        native!(6: a b c d e f),
        native!(7: a b c d e f g),
        native!(8: a b c d e f g h),
    ]
    .concat()
}

fn guest_calls(isolation: Isolation, time: Option<Duration>) -> anyhow::Result<String> {
    let limits = Limits {
        time,
        ..Limits::default()
    };
    let mut guest = Guest::load(&module()?, Options { isolation, limits })?;
    let lines = [
        calls(&mut guest, 0, ())?,
        calls(&mut guest, 1, (1,))?,
        calls(&mut guest, 2, (1, 2))?,
        calls(&mut guest, 3, (1, 2, 3))?,
        calls(&mut guest, 4, (1, 2, 3, 4))?,
        calls(&mut guest, 5, (1, 2, 3, 4, 5))?,
        calls(&mut guest, 6, (1, 2, 3, 4, 5, 6))?,
        calls(&mut guest, 7, (1, 2, 3, 4, 5, 6, 7))?,
        calls(&mut guest, 8, (1, 2, 3, 4, 5, 6, 7, 8))?,
    ];
    Ok(lines.concat())
}

/// Null functions `f0` to `f8`, each of so many words, beside a page of memory.
fn module() -> anyhow::Result<Vec<u8>> {
    let function = |count| {
        let words = "i32 ".repeat(count);
        format!("(func (export \"f{count}\") (param {words}))\n")
    };
    let functions: String = (0..=8).map(function).collect();
    let text = format!("(module (memory (export \"memory\") 1) {functions})");
    Ok(wat::parse_str(text)?)
}

fn calls<P: Values + Copy>(guest: &mut Guest, count: usize, words: P) -> anyhow::Result<String> {
    let function: Function<P, ()> = guest.function(&format!("f{count}"))?;
    let mut failed = None;
    let lines = lines(count, || {
        if let Err(error) = guest.call(&function, black_box(words)) {
            failed = Some(error);
        }
    });
    // A call that was refused would be a fast one.
    failed.map_or(Ok(lines), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_measures_every_number_of_arguments() {
        let second = Some(Duration::from_secs(1));
        for said in [
            native_calls(),
            guest_calls(Isolation::Kept, None).unwrap(),
            guest_calls(Isolation::Kept, second).unwrap(),
            guest_calls(Isolation::Fresh, None).unwrap(),
            engine::calls(Isolation::Kept).unwrap(),
            engine::calls(Isolation::Fresh).unwrap(),
        ] {
            let keys: Vec<_> = said
                .lines()
                .map(|line| line.split(' ').next().unwrap())
                .collect();
            let expected =
                (0..=8).flat_map(|count| [format!("mean-{count}"), format!("fastest-{count}")]);
            assert_eq!(keys, expected.collect::<Vec<_>>());
            let is_time = |line: &str| {
                line.split(' ')
                    .nth(1)
                    .is_some_and(|ns| ns.parse::<f64>().is_ok_and(|ns| ns > 0.0))
            };
            assert!(said.lines().all(is_time), "{said}");
        }
    }

    #[test]
    fn the_fastest_tenth_is_faster_than_all() {
        let mut calls = 0;
        let said = lines(3, || {
            calls += 1;
            for _ in 0..1000 * (calls % 2) {
                black_box(calls);
            }
        });
        assert_eq!(calls, RUNS);
        let ns: Vec<f64> = said
            .lines()
            .map(|line| line.split(' ').nth(1).unwrap().parse().unwrap())
            .collect();
        assert!(ns[1] < ns[0], "{said}");
    }
}
