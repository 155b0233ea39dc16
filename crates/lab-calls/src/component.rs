//! A component of a module and its interfaces: the lab's row of components makes its own, by the crate that all others
//! do it by.

use anyhow::Context;
use std::{fs, path::Path};
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// Makes a component of `module` for the world `service` of the folder `interfaces`, and writes it to `into`.
pub(crate) fn make(module: &str, interfaces: &str, into: &str) -> anyhow::Result<String> {
    let mut bytes = crate::read(module)?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(Path::new(interfaces))?;
    let world = resolve.select_world(&[package], Some("service"))?;
    wit_component::embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8)?;
    let component = ComponentEncoder::default().module(&bytes)?.encode()?;
    fs::write(into, component).with_context(|| format!("host: cannot write {into}"))?;
    Ok(String::new())
}
