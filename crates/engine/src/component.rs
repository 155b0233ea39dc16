//! Programs that are components: `wasi:cli/command` of WASI 0.2 and 0.3.
//!
//! All host functions are wasmtime-wasi's own, on one thread, and files are as safe there as in our own
//! preview 1: each path is resolved by the kernel below its preopen (`openat2` with `RESOLVE_BENEATH`), the
//! last component by `*at` on the parent that was resolved so. What it costs more is the component model's
//! own: lists are copied once, and a call goes through a handle table.
//!
//! A way out of a preopen is `not-permitted` here, where our own preview 1 says `notcapable`: a C program sees
//! EPERM, not ENOTCAPABLE. A name is looked up in a thread, the only one beside the guest's own.
//!
//! Who gives which verdict:
//!
//! | asked | held by |
//! |---|---|
//! | path out of a preopen, by link, by trailing slash, by rename | the kernel, below the preopen; the domain's mounts behind it |
//! | addresses | the process wall's broker. No check is made here, for a second one that is asked at other times than the first has been a way round the first: a UDP `connect` beside a list of who may be sent to |
//! | names | the domain's `/etc/hosts`, which has the granted ones |
//! | requests of `wasi:http` | the same, for the connection of each |
//! | time | the process wall, from outside: no wait in a host function outlasts it |
//! | lists that a guest hands over | [`HOST_CALL_BYTES`] in one call |
//! | handles | [`HANDLES`] that the host holds something for |
//! | memory | `memory_bytes` of the order; the process wall behind it |

use crate::{
    ended::Ended,
    folders::Root,
    http::{self, Client},
    limits::GuestLimits,
    status_pipe::StatusPipe,
    stream::{Input, Output},
};
use palisade_wasm::order::Order;
use rustix::process::fchdir;
use std::{ffi::OsString, mem::ManuallyDrop, path::Path};
use wasmtime::{
    Engine, Store,
    component::{Component, Linker, ResourceTable},
};
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView, p2, p3};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// What a guest can make the host allocate in one call, in bytes. The largest honest message is a list of
/// datagrams, at most 64 KiB each.
const HOST_CALL_BYTES: usize = 16 << 20;

/// Open files, sockets, streams, pollables and the like that the host holds for a guest.
const HANDLES: usize = 16_384;

/// The most random bytes that one call gives.
const RANDOM_BYTES: u64 = 16 << 20;

/// Which command a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum World {
    /// `wasi:cli/run@0.2.x`.
    Preview2,
    /// `wasi:cli/run@0.3.x`.
    Preview3,
}

impl World {
    /// The newest that the component exports.
    fn of(engine: &Engine, component: &Component) -> Option<Self> {
        component
            .component_type()
            .exports(engine)
            .filter_map(|(name, _)| Self::of_export(name))
            .max_by_key(|world| *world as u8)
    }

    fn of_export(name: &str) -> Option<Self> {
        let version = name.strip_prefix("wasi:cli/run@")?;
        match version.get(..4)? {
            "0.2." => Some(Self::Preview2),
            "0.3." => Some(Self::Preview3),
            _ => None,
        }
    }
}

/// What a guest's host functions know.
struct Host {
    context: WasiCtx,
    table: ResourceTable,
    limits: GuestLimits,
    http: WasiHttpCtx,
    client: Client,
}

impl WasiHttpView for Host {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: &mut self.client,
        }
    }
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.context,
            table: &mut self.table,
        }
    }
}

/// Runs a component's `wasi:cli/run` to its end, with this process's environment and standard streams.
pub(crate) fn run(
    engine: &Engine,
    component: Component,
    order: &Order,
    status: &mut StatusPipe,
) -> Ended {
    let Some(world) = World::of(engine, &component) else {
        return Ended::Refused(
            "guest: it is a component that exports no `wasi:cli/run` of version 0.2 or 0.3: not a program"
                .into(),
        );
    };
    run_world(world, engine, &component, order, status)
        .unwrap_or_else(|error| Ended::Refused(format!("{error:#}")))
}

/// An error is a guest that was never run.
fn run_world(
    world: World,
    engine: &Engine,
    component: &Component,
    order: &Order,
    status: &mut StatusPipe,
) -> wasmtime::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Never dropped, as little as the runtime: the process ends next.
    let mut store = ManuallyDrop::new(make_store(engine, order)?);
    let result = ManuallyDrop::new(runtime).block_on(async {
        match world {
            World::Preview2 => run_preview2(&mut store, component, status).await,
            World::Preview3 => run_preview3(&mut store, component, status).await,
        }
    })?;
    Ok(match result {
        Ok(Ok(())) => Ended::Exited(0),
        Ok(Err(())) => Ended::Exited(1),
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(exit) => Ended::Exited((exit.0 & 0xff) as u8),
            None => Ended::of(Err(error)),
        },
    })
}

/// What `wasi:cli/run` gave, or what ended it.
type Returned = wasmtime::Result<Result<(), ()>>;

async fn run_preview2(
    store: &mut Store<Host>,
    component: &Component,
    status: &mut StatusPipe,
) -> wasmtime::Result<Returned> {
    let mut linker = Linker::new(store.engine());
    p2::add_to_linker_async(&mut linker)?;
    http::link(&mut linker, store.engine(), component)?;
    let command = p2::bindings::CommandPre::new(linker.instantiate_pre(component)?)?;
    status.phase("linked");
    status.started();
    let command = match command.instantiate_async(&mut *store).await {
        Ok(command) => command,
        Err(error) => return Ok(Err(error)),
    };
    Ok(command.wasi_cli_run().call_run(store).await)
}

async fn run_preview3(
    store: &mut Store<Host>,
    component: &Component,
    status: &mut StatusPipe,
) -> wasmtime::Result<Returned> {
    let mut linker = Linker::new(store.engine());
    // A component of 0.3 may have parts that were made for 0.2.
    p2::add_to_linker_async(&mut linker)?;
    p3::add_to_linker(&mut linker)?;
    http::link(&mut linker, store.engine(), component)?;
    let command = p3::bindings::CommandPre::new(linker.instantiate_pre(component)?)?;
    status.phase("linked");
    status.started();
    let command = match command.instantiate_async(&mut *store).await {
        Ok(command) => command,
        Err(error) => return Ok(Err(error)),
    };
    let returned = store
        .run_concurrent(async move |store| command.wasi_cli_run().call_run(store).await)
        .await;
    Ok(returned.and_then(|returned| returned))
}

fn make_store(engine: &Engine, order: &Order) -> wasmtime::Result<Store<Host>> {
    let mut table = ResourceTable::new();
    table.set_max_capacity(HANDLES);
    let host = Host {
        context: make_context(order)?,
        table,
        limits: GuestLimits::new(order.memory_bytes),
        http: WasiHttpCtx::new(),
        client: Client,
    };
    let mut store = Store::new(engine, host);
    store.limiter(|host| &mut host.limits);
    store.set_hostcall_fuel(HOST_CALL_BYTES);
    Ok(store)
}

fn make_context(order: &Order) -> wasmtime::Result<WasiCtx> {
    let mut context = WasiCtx::builder();
    context
        // Before the preopens: each takes it over.
        .allow_blocking_current_thread(true)
        .stdin(Input::new(rustix::stdio::stdin()))
        .stdout(Output::new(rustix::stdio::stdout()))
        .stderr(Output::new(rustix::stdio::stderr()))
        .max_random_size(RANDOM_BYTES)
        .inherit_network()
        .allow_tcp(true)
        .allow_udp(true)
        .allow_ip_name_lookup(true);
    for argument in &order.arguments {
        context.arg(text(argument.clone())?);
    }
    for (name, value) in std::env::vars_os().filter(|(name, _)| !is_of_listeners(name)) {
        context.env(text(name)?, text(value)?);
    }
    preopen(&mut context, order)?;
    context.initial_cwd(text(order.cwd.clone().into_os_string())?);
    Ok(context.build())
}

fn preopen(context: &mut WasiCtxBuilder, order: &Order) -> wasmtime::Result<()> {
    let root = Root::open(order)?;
    for name in order.folders() {
        let path = order.place(name);
        let opened = match root {
            Root::Own => path,
            // The only way to say which folder, without a path for it: to be there.
            Root::Granted(..) => {
                fchdir(root.open_folder(path)?)?;
                Path::new(".")
            }
        };
        context
            .preopened_dir(opened, text(name.into())?, FsPerms::ReadWrite)
            .map_err(|error| error.context(format!("opening {}", path.display())))?;
    }
    Ok(())
}

/// Components make their own sockets: there is no way to hand them one.
fn is_of_listeners(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"LISTEN_")
}

/// What a component is told is Unicode; a lossy copy would name another file.
fn text(words: OsString) -> wasmtime::Result<String> {
    words.into_string().map_err(|words| {
        wasmtime::format_err!(
            "policy: a component can only be told what is Unicode, not {words:?}: name it otherwise"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_export_tells_the_world() {
        assert_eq!(
            World::of_export("wasi:cli/run@0.2.0"),
            Some(World::Preview2)
        );
        assert_eq!(
            World::of_export("wasi:cli/run@0.2.12"),
            Some(World::Preview2)
        );
        assert_eq!(
            World::of_export("wasi:cli/run@0.3.0"),
            Some(World::Preview3)
        );
        assert_eq!(World::of_export("wasi:cli/run@0.4.0"), None);
        assert_eq!(World::of_export("wasi:http/handler@0.2.0"), None);
    }
}
