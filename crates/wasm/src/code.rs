//! Machine code for a module: from the cache, or made anew and kept there.

use crate::{
    cache::{self, Cache, CacheError, EntryName},
    compile,
    error::StartError,
    held::Held,
    module::Module,
};
use palisade_policy::Capability;
use palisade_process::Machine;
use palisade_wall::Purpose;
use std::{collections::BTreeSet, fs::File, os::unix::fs::MetadataExt, path::Path, time::Duration};

/// Compiled code, open, and as long as this lives held as it is.
///
/// It is made by this module alone, so that who has one has what the compiler of this installation made,
/// unchanged: machine code that may be executed.
#[derive(Debug)]
pub struct Code {
    held: Held,
    /// Why it was not kept for the next time.
    pub not_kept: Option<CacheError>,
}

impl Code {
    /// The same file, opened for reading from its start. To be mapped while this lives.
    ///
    /// # Errors
    ///
    /// When it can't be opened again.
    pub fn open(&self) -> Result<File, StartError> {
        compile::again(self.held.file()).map_err(StartError::Code)
    }

    /// The same code in memory, where nobody changes it any more, for who maps it when this is gone; opened for reading.
    ///
    /// # Errors
    ///
    /// When it can't be copied.
    pub fn sealed(&self) -> Result<File, StartError> {
        let sealed = self.held.sealed();
        sealed.map_err(StartError::Code)
    }

    /// What is mapped of it.
    ///
    /// # Errors
    ///
    /// When its file can't be looked at.
    pub fn bytes(&self) -> Result<u64, StartError> {
        let metadata = self.held.file().metadata().map_err(StartError::Code)?;
        Ok(metadata.len())
    }

    fn kept(held: Held) -> Self {
        Self {
            held,
            not_kept: None,
        }
    }
}

/// Who compiles, and where.
#[derive(Clone, Copy, Debug)]
pub struct Compiler<'a> {
    /// Its program: [`Programs::compiler`](crate::programs::Programs::compiler).
    pub path: &'a Path,
    /// What its domain can have.
    pub machine: &'a Machine,
    /// Where less is enough for its domain.
    pub allow_degraded: &'a BTreeSet<Capability>,
    /// How long it may take, if not as long as any.
    pub within: Option<Duration>,
}

/// Opens the cache in the folder `palisade` of `caches`, or of the user's caches ([`cache::usual_base`]).
///
/// # Errors
///
/// When it can't be used: each start compiles then.
pub fn open_cache(caches: Option<&Path>) -> Result<Cache, CacheError> {
    let base = caches.map_or_else(cache::usual_base, |caches| Ok(caches.into()))?;
    Cache::open(&base)
}

/// Opens the cache of servers there; all entries but those that are spared have so much room.
///
/// # Errors
///
/// As of [`open_cache`].
pub fn open_cache_of_servers(caches: Option<&Path>, most_bytes: u64) -> Result<Cache, CacheError> {
    let base = caches.map_or_else(cache::usual_base, |caches| Ok(caches.into()))?;
    Cache::open_for_servers(&base, most_bytes)
}

/// A module that was read, and what its code is called.
#[derive(Debug)]
pub struct Identified {
    /// Of its code in a cache.
    pub name: EntryName,
    bytes: Vec<u8>,
}

/// Reads a module.
///
/// # Errors
///
/// When it can't be read, or there is no compiler.
pub fn identify(
    module: &Module,
    purpose: Purpose,
    compiler: &Path,
) -> Result<Identified, StartError> {
    let bytes = module.read()?;
    let name = entry_name(&bytes, purpose, compiler)?;
    Ok(Identified { name, bytes })
}

/// The code of this name, if it is in the cache.
pub fn find(name: EntryName, cache: &Cache) -> Option<Code> {
    cache.get(name).map(Code::kept)
}

/// Compiles a module, and keeps the code.
///
/// # Errors
///
/// When it can't be compiled.
pub fn make(
    module: &Identified,
    path: &Path,
    purpose: Purpose,
    compiler: &Compiler<'_>,
    cache: Result<&Cache, CacheError>,
) -> Result<Code, StartError> {
    let code = compile::compile(
        &module.bytes,
        path,
        purpose,
        compiler.path,
        compiler.machine,
        compiler.allow_degraded,
        compiler.within,
    )?;
    match cache.and_then(|cache| cache.put(module.name, &code)) {
        Ok(held) => Ok(Code::kept(held)),
        Err(error) => Ok(Code {
            held: Held::of_bytes(&code).map_err(StartError::Code)?,
            not_kept: Some(error),
        }),
    }
}

/// The code of `module` for this purpose: from the cache, or made anew and kept there. Whoever runs a guest
/// sees to it that the guest can't write to the cache ([`Cache::paths`]).
///
/// # Errors
///
/// When the module can't be read or compiled.
pub fn obtain(
    module: &Module,
    purpose: Purpose,
    compiler: &Compiler<'_>,
    cache: Result<Cache, CacheError>,
) -> Result<Code, StartError> {
    let identified = identify(module, purpose, compiler.path)?;
    if let Ok(cache) = &cache
        && let Some(code) = find(identified.name, cache)
    {
        return Ok(code);
    }
    let cache = cache.as_ref().map_err(Clone::clone);
    make(&identified, &module.path, purpose, compiler, cache)
}

/// All that the code depends on.
fn entry_name(module: &[u8], purpose: Purpose, compiler: &Path) -> Result<EntryName, StartError> {
    let metadata = std::fs::metadata(compiler).map_err(|source| StartError::Compiler {
        path: compiler.into(),
        source,
    })?;
    let identity = format!(
        "{} {} {} {} {}",
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec()
    );
    Ok(EntryName::of([
        module,
        purpose.word().as_bytes(),
        env!("CARGO_PKG_VERSION").as_bytes(),
        identity.as_bytes(),
        processor_features().as_bytes(),
    ]))
}

/// Those that a compiler makes use of.
fn processor_features() -> String {
    macro_rules! present {
        ($($feature:tt),*) => {
            [$(($feature, std::arch::is_x86_feature_detected!($feature))),*]
        };
    }
    let features = present![
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "avx",
        "avx2",
        "fma",
        "bmi1",
        "bmi2",
        "lzcnt",
        "cmpxchg16b",
        "avx512f",
        "avx512dq",
        "avx512vl",
        "avx512bitalg",
        "avx512vbmi"
    ];
    let present = features.iter().filter(|(_, present)| *present);
    present.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
