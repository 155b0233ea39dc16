//! Node and Deno, for commands that are a WebAssembly file: both have the module `node:wasi`, and a script of
//! ours has it run the program.

use super::{
    peer::{Peer, Request},
    variables,
    wasmtime::{folders, is_wasm},
};
use anyhow::Context;
use palisade_wall::Command;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::Path,
};

const LACKS: &str = "one process without namespaces, Landlock or a system-call filter; no limits; granted folders are writable; node:wasi says itself that it is no wall";

pub(super) static NODE: Peer = Peer {
    name: "node",
    title: "node",
    program: "node",
    lacks: LACKS,
    install: "apt-get install nodejs",
    waits_for_all: true,
    takes: |command, network| is_wasm(command) && !network.is_some(),
    line: |request| line(request, &["--no-warnings"]),
    line_to_end: None,
};

pub(super) static DENO: Peer = Peer {
    name: "deno",
    title: "deno",
    program: "deno",
    install: "npm install -g deno",
    line: |request| line(request, &["run", "--allow-all", "--quiet"]),
    ..NODE
};

/// What the script is told, as JSON.
#[derive(Serialize)]
struct Order<'a> {
    program: &'a str,
    arguments: Vec<&'a str>,
    /// Names of variables: values are in the script's own environment, which others cannot read.
    variables: Vec<String>,
    /// From the path inside to that on the host.
    preopens: BTreeMap<String, String>,
}

fn line(request: &Request<'_>, flags: &[&str]) -> anyhow::Result<Vec<OsString>> {
    let script = request.room.join("wasi.mjs");
    let text = include_str!("../../../../lab/workloads/wasi.mjs");
    fs::write(&script, text).with_context(|| format!("host: cannot write {}", script.display()))?;
    let order = serde_json::to_string(&order(request)?)?;
    let mut words: Vec<OsString> = vec![request.program.into()];
    words.extend(flags.iter().map(OsString::from));
    words.extend([script.into(), order.into()]);
    Ok(words)
}

fn order<'a>(request: &Request<'a>) -> anyhow::Result<Order<'a>> {
    let Command { program, arguments } = request.command;
    let arguments: anyhow::Result<_> = arguments.iter().map(|word| text(word)).collect();
    let variables = variables(request.policy).into_iter();
    let path = |path: &Path| text(path.as_os_str()).map(ToOwned::to_owned);
    let preopens = folders(request.policy).into_iter();
    let preopens = preopens.map(|(host, guest)| Ok((path(&guest)?, path(&host)?)));
    Ok(Order {
        program: text(program)?,
        arguments: arguments?,
        variables: variables.map(|(name, _)| name).collect(),
        preopens: preopens.collect::<anyhow::Result<_>>()?,
    })
}

fn text(word: &OsStr) -> anyhow::Result<&str> {
    let text = word.to_str();
    text.with_context(|| {
        format!(
            "{} is not text, and JavaScript knows no other",
            word.display()
        )
    })
}
