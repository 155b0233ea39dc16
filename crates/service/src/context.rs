//! What a guest knows of the world beside its request: folders, variables, clocks, randomness.
//!
//! Making one opens folders and seeds generators, and nothing that a guest does changes one. So contexts
//! are handed from one request to the next.

use crate::{
    host::{Host, Stream},
    journal::{Journal, Output},
    limits::RANDOM_BYTES,
    reach::Reach,
};
use std::{os::fd::AsRawFd, rc::Rc, sync::Arc};
use wasmtime_wasi::WasiCtx;

/// One guest's at a time.
pub(crate) struct Context {
    pub(crate) wasi: WasiCtx,
    pub(crate) journal: Arc<Journal>,
}

impl Context {
    /// Of what the policy grants and nothing else: no socket, no name, no variable of the server's.
    pub(crate) fn new(reach: &Reach, host: Rc<dyn Host>) -> wasmtime::Result<Self> {
        let journal = Arc::new(Journal::new(host, reach.output_bytes));
        let output = |stream| Output {
            journal: Arc::clone(&journal),
            stream,
        };
        let mut wasi = WasiCtx::builder();
        wasi.stdout(output(Stream::Stdout))
            .stderr(output(Stream::Stderr))
            .max_random_size(RANDOM_BYTES)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .envs(&reach.variables);
        for folder in &reach.folders {
            let path = format!("/proc/self/fd/{}", folder.descriptor.as_raw_fd());
            wasi.preopened_dir(path, &folder.guest, folder.permissions)?;
        }
        if let Some(cwd) = &reach.cwd {
            wasi.initial_cwd(cwd);
        }
        Ok(Self {
            wasi: wasi.build(),
            journal,
        })
    }
}
