//! Pictures that become grey within a guest, beside `lab/workloads/mono.c` natively, which prints the same lines:
//!
//! ```text
//! picture-KB NS …      nanoseconds for a picture of that size, batch by batch
//! ```
//!
//! Each is copied in, made grey, and copied out, as a service does with what comes and goes.

use anyhow::{Context, ensure};
use palisade_engine::guest::{Function, Guest, Options};
use std::{fmt::Write, time::Instant};

/// In KB, and in pixels.
const PICTURES: [(usize, usize, usize); 4] = [
    (9, 64, 48),
    (99, 220, 150),
    (270, 300, 300),
    (3300, 1100, 1000),
];
/// A batch is as many pictures as take about so long.
const BATCH_NS: f64 = 5e6;

/// A colour picture whose pixels are not all alike.
fn draw(width: usize, height: usize) -> Vec<u8> {
    let mut picture = format!("P6\n{width} {height}\n255\n").into_bytes();
    picture.extend((0..width * height * 3).map(|place| (place * 7 + place / 1000) as u8));
    picture
}

/// Who makes a picture grey.
pub(crate) trait Paint {
    /// Copies it in, and what comes of it to the end of `grey`. Gives how long that is; 0 if it was taken for no picture.
    fn paint(&mut self, picture: &[u8], grey: &mut Vec<u8>) -> anyhow::Result<usize>;
}

/// A guest of the library's.
pub(crate) struct Library {
    guest: Guest,
    mono: Function<u32, u32>,
    room: u32,
}

impl Library {
    pub(crate) fn load(module: &[u8]) -> anyhow::Result<Self> {
        let mut guest = Guest::load(module, Options::default())?;
        let room = guest.function::<(), u32>("room")?;
        let mono = guest.function::<u32, u32>("mono")?;
        let room = guest.call(&room, ())?;
        Ok(Self { guest, mono, room })
    }
}

impl Paint for Library {
    fn paint(&mut self, picture: &[u8], grey: &mut Vec<u8>) -> anyhow::Result<usize> {
        let instance = self.guest.kept().context("the guest has no instance")?;
        instance.write(self.room, picture)?;
        let bytes = instance.call(&self.mono, picture.len() as u32)? as usize;
        grey.extend_from_slice(instance.read(self.room, bytes)?);
        Ok(bytes)
    }
}

/// A picture, and what becomes of it.
struct Work {
    picture: Vec<u8>,
    grey: Vec<u8>,
}

impl Work {
    fn time_ns(&mut self, painter: &mut impl Paint, count: usize) -> anyhow::Result<f64> {
        let began = Instant::now();
        for _ in 0..count {
            self.grey.clear();
            let bytes = painter.paint(&self.picture, &mut self.grey)?;
            ensure!(bytes > 0, "the guest took it for no picture");
        }
        Ok(began.elapsed().as_nanos() as f64)
    }
}

/// A line for each picture.
pub(crate) fn pictures(painter: &mut impl Paint, batches: usize) -> anyhow::Result<String> {
    let mut lines = String::new();
    for (kb, width, height) in PICTURES {
        let mut work = Work {
            picture: draw(width, height),
            grey: Vec::new(),
        };
        let once_ns = work.time_ns(painter, 1)?.max(1.0);
        let count = (BATCH_NS / once_ns).max(1.0) as usize;
        write!(lines, "picture-{kb}")?;
        for _ in 0..batches {
            let per_picture = work.time_ns(painter, count)? / count as f64;
            write!(lines, " {per_picture:.2}")?;
        }
        lines.push('\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Painter;

    /// A guest that says that all of what it gets is the grey picture, and one that takes nothing for a picture.
    #[test]
    fn a_guest_is_timed_and_its_refusal_is_none() {
        let module = |mono: &str| {
            let text = format!(
                "(module (memory (export \"memory\") 80) (func (export \"room\") (result i32) i32.const 16)
                   (func (export \"mono\") (param i32) (result i32) {mono}))"
            );
            wat::parse_str(text).unwrap()
        };
        let [all, none] = ["local.get 0", "i32.const 0"].map(module);
        for said in [
            pictures(&mut Library::load(&all).unwrap(), 2).unwrap(),
            pictures(&mut Painter::load(&all).unwrap(), 2).unwrap(),
        ] {
            let keys: Vec<_> = said
                .lines()
                .filter_map(|line| line.split(' ').next())
                .collect();
            assert_eq!(
                keys,
                ["picture-9", "picture-99", "picture-270", "picture-3300"]
            );
            let is_whole = |line: &str| line.split(' ').count() == 3;
            assert!(said.lines().all(is_whole), "{said}");
        }
        assert!(pictures(&mut Library::load(&none).unwrap(), 2).is_err());
        assert!(pictures(&mut Painter::load(&none).unwrap(), 2).is_err());
    }

    #[test]
    fn a_picture_has_its_size() {
        for (kb, width, height) in PICTURES {
            let bytes = draw(width, height).len();
            assert!((kb * 1000..kb * 1050).contains(&bytes), "{kb} KB: {bytes}");
        }
    }
}
