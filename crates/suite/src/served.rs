//! Guests on the path of requests: filters, components and programs that answer.
//!
//! The suite builds them; the crates that serve them test them, by a `match` of the enums in [`crate::guests`].

use crate::BUILT;
use crate::guests::{Component, Filter, Program};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// The module of a filter. There is none where [`crate::NO_WASM_GUESTS`] says why.
#[must_use]
pub fn filter(guest: Filter) -> PathBuf {
    built("filters", &format!("{}.wasm", guest.name()))
}

/// A program of this machine that answers on descriptor 3.
#[must_use]
pub fn program(guest: Program) -> PathBuf {
    built("programs", guest.name())
}

/// A `wasi:http` component. There is none where [`crate::NO_WASM_GUESTS`] says why.
///
/// # Panics
///
/// If the guest's imports are not those that `guests/services/component/wit` declares.
#[must_use]
pub fn component(guest: Component) -> PathBuf {
    let module = built("components", &format!("{}.wasm", guest.name()));
    let path = module.with_extension("component.wasm");
    // Tests of several processes and threads may want it at one time: each writes its own, and the last one stays.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{}-{number}", std::process::id()));
    let bytes = fs::read(&module).expect("read the module");
    fs::write(&new, make_component(bytes).expect("make a component")).expect("write the component");
    fs::rename(&new, &path).expect("name the component");
    path
}

fn make_component(mut module: Vec<u8>) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/services/component/wit");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(&wit)?;
    let world = resolve.select_world(&[package], Some("service"))?;
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    Ok(ComponentEncoder::default().module(&module)?.encode()?)
}

fn built(folder: &str, name: &str) -> PathBuf {
    let path = Path::new(BUILT).join(folder).join(name);
    assert!(
        path.is_file(),
        "no {}: what did the build say?",
        path.display()
    );
    path
}

#[cfg(test)]
mod tests {
    use super::{Component, Filter, Program, component, filter, program};

    #[test]
    fn all_are_there() {
        for guest in Program::ALL {
            assert!(program(*guest).is_file());
        }
        if crate::NO_WASM_GUESTS.is_some() {
            return;
        }
        for guest in Filter::ALL {
            assert!(filter(*guest).is_file());
        }
        for guest in Component::ALL {
            // The header of a component, and not of a module.
            let bytes = std::fs::read(component(*guest)).expect("read it");
            assert_eq!(bytes[..8], *b"\0asm\x0d\0\x01\0");
        }
    }
}
