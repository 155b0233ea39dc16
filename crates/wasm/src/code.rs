//! Machine code for a module: from the cache, or made anew and kept there.

use crate::{
    cache::{self, Cache, CacheError, EntryName},
    compile::{self, Purpose},
    error::StartError,
    module::Module,
};
use palisade_policy::Capability;
use palisade_process::Machine;
use rustix::fs::{SealFlags, StatVfsMountFlags};
use std::{
    collections::BTreeSet,
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::Duration,
};

/// Compiled code, open.
///
/// It is made by [`obtain`] alone, so that who has one has what the compiler of this installation made,
/// unchanged: machine code that may be executed.
#[derive(Debug)]
pub struct Code {
    file: File,
    /// Why it was not kept for the next time.
    pub not_kept: Option<CacheError>,
}

impl Code {
    /// The same file, opened for reading from its start.
    ///
    /// # Errors
    ///
    /// When it can't be opened again.
    pub fn open(&self) -> Result<File, StartError> {
        compile::again(&self.file).map_err(StartError::Code)
    }

    fn kept(file: File) -> Result<Self, StartError> {
        Ok(Self {
            file: executable(file)?,
            not_kept: None,
        })
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
    let bytes = module.read()?;
    let name = entry_name(&bytes, purpose, compiler.path)?;
    if let Some(file) = cache.as_ref().ok().and_then(|cache| cache.get(name)) {
        return Code::kept(file);
    }
    let code = compile::compile(
        &bytes,
        &module.path,
        purpose,
        compiler.path,
        compiler.machine,
        compiler.allow_degraded,
        compiler.within,
    )?;
    match cache.and_then(|cache| cache.put(name, &code)) {
        Ok(file) => Code::kept(file),
        Err(error) => Ok(Code {
            file: in_memory(&code)?,
            not_kept: Some(error),
        }),
    }
}

/// The same code, to be mapped as executable: a file system that is mounted noexec lets nobody.
fn executable(file: File) -> Result<File, StartError> {
    let mount = rustix::fs::fstatvfs(&file).map_err(|errno| StartError::Code(errno.into()))?;
    if !mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Ok(file);
    }
    let bytes = file.metadata().map_err(StartError::Code)?.len();
    let mut code = vec![0; bytes as usize];
    file.read_exact_at(&mut code, 0).map_err(StartError::Code)?;
    in_memory(&code)
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

/// Code in a memory file that nobody can change.
fn in_memory(code: &[u8]) -> Result<File, StartError> {
    let file = compile::memory_file("palisade-code")?;
    file.write_all_at(code, 0).map_err(StartError::Code)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(|errno| StartError::Code(errno.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
