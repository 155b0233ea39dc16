//! `palisade serve --init`: a server to begin with.
//!
//! Nothing that is there is changed: if one of the files is, none is written.

use crate::say;
use anyhow::{Context, bail};
use palisade_policy::visible;
use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::Path,
};

/// What is written, by its path in the folder.
pub(super) const FILES: &[(&str, &[u8])] = &[
    ("host.toml", include_bytes!("init/host.toml")),
    ("site/index.html", include_bytes!("init/site/index.html")),
    ("filters/headers.wasm", include_bytes!("init/headers.wasm")),
    ("filters/headers.wat", include_bytes!("init/headers.wat")),
    ("services/hello.wasm", include_bytes!("init/hello.wasm")),
    ("services/hello.wat", include_bytes!("init/hello.wat")),
];

/// Writes all files below `folder`, and says how to go on.
pub(super) fn init(folder: &Path) -> anyhow::Result<u8> {
    let there = FILES.iter().map(|(name, _)| folder.join(name));
    if let Some(path) = { there }.find(|path| path.symlink_metadata().is_ok()) {
        bail!(
            "usage: {} is there already: nothing is written over, take another folder",
            path.display()
        );
    }
    for (name, content) in FILES {
        write_new(&folder.join(name), content)?;
    }
    let file = folder.join("host.toml");
    let text = format!(
        "{file} serves a page, a filter and a component. Go on with:\n  palisade serve {file}\n  curl -i http://127.0.0.1:8080/hello/you\n",
        file = visible(&file.to_string_lossy())
    );
    say::print(&text, "what was written")
}

fn write_new(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("host: cannot write {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).with_context(cannot)?;
    let mut file = OpenOptions::new();
    let mut file = file
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(cannot)?;
    file.write_all(content).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
    use wit_parser::Resolve;

    fn source(name: &str) -> std::path::PathBuf {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo test sets it");
        Path::new(&package)
            .join("src/commands/serve/init")
            .join(name)
    }

    fn component(mut module: Vec<u8>) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(source("wit")).unwrap();
        let world = resolve.select_world(&[package], Some("service")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        let encoder = ComponentEncoder::default().module(&module).unwrap();
        { encoder }.encode().unwrap()
    }

    /// The modules are what their sources say, byte for byte. `PALISADE_BLESS=1` makes them again.
    #[test]
    fn modules_are_made_of_their_sources() {
        let filter = wat::parse_file(source("headers.wat")).unwrap();
        let service = component(wat::parse_file(source("hello.wat")).unwrap());
        for (name, made) in [("headers.wasm", filter), ("hello.wasm", service)] {
            if std::env::var_os("PALISADE_BLESS").is_some() {
                fs::write(source(name), &made).unwrap();
            }
            assert!(
                fs::read(source(name)).unwrap() == made,
                "{name} is not what its source makes"
            );
        }
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        init(&folder).unwrap();
        for (name, content) in FILES {
            assert_eq!(fs::read(folder.join(name)).unwrap(), *content);
        }
        fs::write(folder.join("host.toml"), "mine").unwrap();
        let refused = init(&folder).unwrap_err().to_string();
        assert!(refused.contains("host.toml is there already"), "{refused}");
        assert_eq!(fs::read(folder.join("host.toml")).unwrap(), b"mine");
        fs::remove_file(folder.join("host.toml")).unwrap();
        assert!(init(&folder).is_err(), "the page is there");
        assert!(!folder.join("host.toml").exists(), "all or nothing");
    }
}
