//! Writes many different guests that answer as one: `distinct GUEST.wasm COUNT FOLDER`.

use palisade_lab::distinct::{Filling, distinct};
use std::{env, fs, path::Path};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [guest, count, folder] = &words[..] else {
        return Err("usage: distinct GUEST.wasm COUNT FOLDER".into());
    };
    let guest = fs::read(guest)?;
    fs::create_dir_all(folder)?;
    for number in 0..count.parse()? {
        let made = distinct(&guest, number, Filling::default())?;
        fs::write(Path::new(folder).join(format!("{number}.wasm")), made)?;
    }
    Ok(())
}
