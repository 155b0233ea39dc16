//! Pictures that become grey within a guest, beside `lab/workloads/mono.c` natively, which prints the same lines:
//!
//! ```text
//! picture-KB NS …      nanoseconds for a picture of that size, batch by batch
//! ```
//!
//! Each is copied in, made grey, and copied out, as a service does with what comes and goes.

use anyhow::ensure;
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
const BATCH_NS: u128 = 5_000_000;

/// A colour picture whose pixels are not all alike.
fn draw(width: usize, height: usize) -> Vec<u8> {
    let mut picture = format!("P6\n{width} {height}\n255\n").into_bytes();
    picture.extend((0..width * height * 3).map(|place| (place * 7 + place / 1000) as u8));
    picture
}

/// A picture and where it goes.
struct Work<'a> {
    guest: &'a mut Guest,
    mono: Function<u32, u32>,
    room: u32,
    picture: Vec<u8>,
    grey: Vec<u8>,
}

impl Work<'_> {
    fn once(&mut self) -> anyhow::Result<()> {
        let Some(instance) = self.guest.kept() else {
            anyhow::bail!("the guest has no instance");
        };
        instance.write(self.room, &self.picture)?;
        let bytes = instance.call(&self.mono, self.picture.len() as u32)? as usize;
        ensure!(bytes > 0, "the guest took it for no picture");
        self.grey.clear();
        self.grey
            .extend_from_slice(instance.read(self.room, bytes)?);
        Ok(())
    }

    fn time_ns(&mut self, count: usize) -> anyhow::Result<u128> {
        let began = Instant::now();
        for _ in 0..count {
            self.once()?;
        }
        Ok(began.elapsed().as_nanos())
    }
}

/// A line for each picture.
pub(crate) fn pictures(module: &[u8], batches: usize) -> anyhow::Result<String> {
    let mut guest = Guest::load(module, Options::default())?;
    let room = guest.function::<(), u32>("room")?;
    let mono = guest.function::<u32, u32>("mono")?;
    let room = guest.call(&room, ())?;
    let mut lines = String::new();
    for (kb, width, height) in PICTURES {
        let mut work = Work {
            guest: &mut guest,
            mono,
            room,
            picture: draw(width, height),
            grey: Vec::new(),
        };
        let once_ns = work.time_ns(1)?.max(1);
        let count = (BATCH_NS / once_ns).max(1) as usize;
        write!(lines, "picture-{kb}")?;
        for _ in 0..batches {
            let per_picture = work.time_ns(count)? as f64 / count as f64;
            write!(lines, " {per_picture:.2}")?;
        }
        lines.push('\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let said = pictures(&module("local.get 0"), 2).unwrap();
        let keys: Vec<_> = said
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(
            keys,
            ["picture-9", "picture-99", "picture-270", "picture-3300"]
        );
        assert!(
            said.lines().all(|line| line.split(' ').count() == 3),
            "{said}"
        );
        assert!(pictures(&module("i32.const 0"), 2).is_err());
    }

    #[test]
    fn a_picture_has_its_size() {
        for (kb, width, height) in PICTURES {
            let bytes = draw(width, height).len();
            assert!((kb * 1000..kb * 1050).contains(&bytes), "{kb} KB: {bytes}");
        }
    }
}
