//! Code that is mapped without its file being kept open, until the engine lets go of it.
//!
//! The engine itself keeps the file of what it maps open, because the first contents of memories may be mapped from it too.
//! Where these are copied nobody needs it, and of descriptors a process has fewer than of guests that it may load.
//!
//! ```text
//!  map ──▶ the engine publishes it ──▶ … ──▶ the engine's last use of it ends ──▶ unmapped
//!            (readable ⇒ executable, from its start to the end of the code)
//! ```
//!
//! What lies before the code is the head of the file, which no guest has a say in: so it is two mappings, not three. What lies
//! behind it, and is a guest's data among other things, is never executable.

use crate::lock::lock;
use rustix::{
    mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap},
    param::page_size,
};
use std::{
    collections::BTreeMap,
    ffi::c_void,
    fs::File,
    io,
    ptr::NonNull,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use wasmtime::CustomCodeMemory;

/// What engines have, by first addresses.
static HANDED_OVER: Mutex<BTreeMap<usize, Mapping>> = Mutex::new(BTreeMap::new());

/// Gives a mapping of this file to an engine, for as long as it uses any of it. It must be one that publishes by [`Publisher`].
///
/// # Errors
///
/// When the file can't be mapped, or `load` fails.
pub(super) fn hand_over<T>(
    file: &File,
    load: impl FnOnce(NonNull<[u8]>) -> wasmtime::Result<T>,
) -> wasmtime::Result<T> {
    let mapping = Mapping::new(file)?;
    let (start, number) = (mapping.start, mapping.number);
    let memory = mapping.memory();
    lock(&HANDED_OVER).insert(start, mapping);
    let loaded = load(memory);
    if loaded.is_err() {
        // It has no use for it, and may have let go of it already; another one may lie there now.
        let mut all = lock(&HANDED_OVER);
        let is_left = all.get(&start).is_some_and(|left| left.number == number);
        let left = is_left.then(|| all.remove(&start));
        drop(all);
        drop(left);
    }
    loaded
}

/// Makes code executable, and unmaps what was [handed over](hand_over) when the engine lets go of it.
pub(crate) struct Publisher;

impl CustomCodeMemory for Publisher {
    fn required_alignment(&self) -> usize {
        page_size()
    }

    fn publish_executable(&self, code: *const u8, length: usize) -> wasmtime::Result<()> {
        let end = code.addr() + length;
        let all = lock(&HANDED_OVER);
        let start = start_of_holder(&all, code.addr()).unwrap_or(code.addr());
        let protection = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the engine's own pages or a mapping that it was handed, neither of which anybody writes to from here on.
        unsafe { mprotect(start as *mut c_void, end - start, protection)? };
        Ok(())
    }

    fn unpublish_executable(&self, code: *const u8, _length: usize) -> wasmtime::Result<()> {
        // The engine's own pages are unmapped next, by itself.
        let mut all = lock(&HANDED_OVER);
        let start = start_of_holder(&all, code.addr());
        let mapping = start.and_then(|start| all.remove(&start));
        drop(all);
        drop(mapping);
        Ok(())
    }
}

fn start_of_holder(all: &BTreeMap<usize, Mapping>, address: usize) -> Option<usize> {
    let (start, mapping) = all.range(..=address).next_back()?;
    mapping.holds(address).then_some(*start)
}

/// A file, from its start to its end, readable and private.
#[derive(Debug)]
pub(super) struct Mapping {
    start: usize,
    length: usize,
    /// Of no other mapping, where addresses come again.
    number: u64,
}

impl Mapping {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let (nowhere, protection) = (std::ptr::null_mut(), ProtFlags::READ);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // SAFETY: a mapping of its own, at a place of the kernel's choice; nobody writes to the file.
        let start = unsafe { mmap(nowhere, length, protection, MapFlags::PRIVATE, file, 0)? };
        Ok(Self {
            start: start.addr(),
            length,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn memory(&self) -> NonNull<[u8]> {
        NonNull::from(&**self)
    }

    fn holds(&self, address: usize) -> bool {
        (self.start..self.start + self.length).contains(&address)
    }
}

impl std::ops::Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped for reading as long as `self` lives, and all bytes lie within the file.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and no borrow of it is left. It cannot fail then.
        let _ = unsafe { munmap(self.start as *mut c_void, self.length) };
    }
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    use super::{
        super::code::{map_component, map_module},
        *,
    };
    use palisade_compiler::{compile_for, settings};
    use palisade_wall::Purpose;
    use std::{fs, io::Write, sync::Arc};

    const DATA: &str = "what a guest has chosen";

    fn engine() -> wasmtime::Engine {
        let mut settings = settings::service();
        settings.with_custom_code_memory(Some(Arc::new(Publisher)));
        wasmtime::Engine::new(&settings).unwrap()
    }

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn code() -> tempfile::NamedTempFile {
        let text = format!(
            r#"(component
                (core module $m (memory 1) (data (i32.const 0) "{DATA}") (func (export "f") unreachable))
                (core instance (instantiate $m))
                (instance $nothing)
                (export "wasi:http/incoming-handler@0.2.4" (instance $nothing)))"#
        );
        let component = wat::parse_str(text).unwrap();
        file_of(&compile_for(Purpose::Service, &component).unwrap())
    }

    /// What this process has of a file: protections, and where.
    fn mappings(file: &tempfile::NamedTempFile) -> Vec<(String, std::ops::Range<usize>)> {
        let all = fs::read_to_string("/proc/self/maps").unwrap();
        let path = file.path().to_str().unwrap();
        let of_file = all.lines().filter(|line| line.ends_with(path));
        let parsed = of_file.map(|line| {
            let mut words = line.split(' ');
            let (start, end) = words.next().unwrap().split_once('-').unwrap();
            let address = |text| usize::from_str_radix(text, 16).unwrap();
            (
                words.next().unwrap().to_owned(),
                address(start)..address(end),
            )
        });
        parsed.collect()
    }

    fn is_open(file: &tempfile::NamedTempFile) -> bool {
        let own = file.as_file();
        let links = fs::read_dir("/proc/self/fd").unwrap();
        let targets = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
        let open = targets.filter(|target| target == file.path()).count();
        // The test's own.
        assert!(own.metadata().is_ok());
        open > 1
    }

    #[test]
    fn a_component_is_mapped_for_as_long_as_anybody_uses_it() {
        let (engine, file) = (engine(), code());
        let component = map_component(&engine, &file.reopen().unwrap()).unwrap();
        let protections: Vec<_> = mappings(&file).into_iter().map(|(one, _)| one).collect();
        assert_eq!(protections, ["r-xp", "r--p"]);
        assert!(!is_open(&file), "its file is kept open");
        let another = map_component(&engine, &file.reopen().unwrap()).unwrap();
        assert_eq!(mappings(&file).len(), 4);
        let clone = component.clone();
        drop(component);
        drop(another);
        assert_eq!(mappings(&file).len(), 2, "a clone uses it");
        drop(clone);
        assert_eq!(mappings(&file), []);
    }

    #[test]
    fn a_module_is_mapped_for_as_long_as_anybody_uses_it() {
        let mut settings = settings::filter();
        settings.with_custom_code_memory(Some(Arc::new(Publisher)));
        let engine = wasmtime::Engine::new(&settings).unwrap();
        let text = format!(
            r#"(module (memory 1) (data (i32.const 0) "{DATA}") (func (export "proxy_on_tick") unreachable))"#
        );
        let module = wat::parse_str(text).unwrap();
        let file = file_of(&compile_for(Purpose::Filter, &module).unwrap());
        let module = map_module(&engine, &file.reopen().unwrap()).unwrap();
        let protections: Vec<_> = mappings(&file).into_iter().map(|(one, _)| one).collect();
        assert_eq!(protections, ["r-xp", "r--p"]);
        assert!(!is_open(&file), "its file is kept open");
        let mut store = wasmtime::Store::new(&engine, ());
        store.set_epoch_deadline(1);
        let instance = wasmtime::Instance::new(&mut store, &module, &[]).unwrap();
        drop(module);
        assert_eq!(mappings(&file).len(), 2, "an instance uses it");
        let function = instance.get_typed_func::<(), ()>(&mut store, "proxy_on_tick");
        let trap = function.unwrap().call(&mut store, ()).unwrap_err();
        let trap = trap.downcast::<wasmtime::Trap>().unwrap();
        assert_eq!(trap, wasmtime::Trap::UnreachableCodeReached);
        drop(store);
        assert_eq!(mappings(&file), []);
    }

    #[test]
    fn what_a_guest_has_chosen_is_not_executable() {
        let (engine, file) = (engine(), code());
        let _component = map_component(&engine, &file.reopen().unwrap()).unwrap();
        let bytes = fs::read(file.path()).unwrap();
        let data = bytes
            .windows(DATA.len())
            .position(|window| window == DATA.as_bytes());
        let code = mappings(&file).swap_remove(0).1;
        assert!(data.expect("its data") >= code.len());
    }

    /// Who makes unwind tables known has to forget them while they are mapped, and the engine does so after it has let go.
    #[test]
    fn code_has_no_unwind_tables() {
        let bytes = fs::read(code().path()).unwrap();
        let mut windows = bytes.windows(b".eh_frame".len());
        assert!(!windows.any(|window| window == b".eh_frame"));
    }

    #[test]
    fn what_is_no_code_is_not_mapped() {
        let engine = engine();
        let whole = fs::read(code().path()).unwrap();
        let mut cut = whole.clone();
        cut.truncate(whole.len() / 2);
        for bytes in [b"no code at all".as_slice(), &cut, b""] {
            let file = file_of(bytes);
            assert!(map_component(&engine, &file.reopen().unwrap()).is_err());
            assert_eq!(mappings(&file), []);
        }
        // Of another engine's settings.
        let other = wasmtime::Engine::new(&settings::service_of_tasks()).unwrap();
        let file = file_of(&whole);
        assert!(map_component(&other, &file.reopen().unwrap()).is_err());
        assert_eq!(mappings(&file), []);
    }

    /// The engine's own pages are published as ever.
    #[test]
    fn code_that_is_copied_is_executable_too() {
        let engine = engine();
        let bytes = fs::read(code().path()).unwrap();
        let component = super::super::code::load_own(&engine, &bytes).unwrap();
        let mut store = wasmtime::Store::new(&engine, ());
        store.set_epoch_deadline(1);
        let linker = wasmtime::component::Linker::new(&engine);
        linker.instantiate(&mut store, &component).unwrap();
    }
}
