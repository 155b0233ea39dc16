//! Programs of somebody else's that the lab compiles: from the archives that `lab/sources/fetch` gets once.

use crate::{
    wasi::{Target, Toolchain},
    workloads::new_room,
};
use anyhow::{Context, ensure};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// One program.
pub(super) struct Source {
    pub(super) program: &'static str,
    /// Below the folder of sources.
    folder: &'static str,
    /// What is compiled, below that.
    files: &'static [&'static str],
    /// Where headers lie, below that.
    includes: &'static [&'static str],
    /// A header that the compiler includes first, or finds, if the program wants one of ours.
    headers: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
}

/// What bzip2 asks of a Unix and WASI does not have.
const UNIX: (&str, &str) = ("unix.h", include_str!("../../../../lab/sources/unix.h"));

pub(super) static BZIP2: Source = Source {
    program: "bzip2",
    folder: "bzip2-1.0.8",
    files: &[
        "blocksort.c",
        "huffman.c",
        "crctable.c",
        "randtable.c",
        "compress.c",
        "decompress.c",
        "bzlib.c",
        "bzip2.c",
    ],
    includes: &[],
    headers: &[UNIX],
    flags: &["-include", "unix.h"],
};

/// Without the assembler that it has for other processors, and without its decoder.
pub(super) static LAME: Source = Source {
    program: "lame",
    folder: "lame-3.100",
    files: &[
        "libmp3lame/VbrTag.c",
        "libmp3lame/bitstream.c",
        "libmp3lame/encoder.c",
        "libmp3lame/fft.c",
        "libmp3lame/gain_analysis.c",
        "libmp3lame/id3tag.c",
        "libmp3lame/lame.c",
        "libmp3lame/mpglib_interface.c",
        "libmp3lame/newmdct.c",
        "libmp3lame/presets.c",
        "libmp3lame/psymodel.c",
        "libmp3lame/quantize.c",
        "libmp3lame/quantize_pvt.c",
        "libmp3lame/reservoir.c",
        "libmp3lame/set_get.c",
        "libmp3lame/tables.c",
        "libmp3lame/takehiro.c",
        "libmp3lame/util.c",
        "libmp3lame/vbrquantize.c",
        "libmp3lame/version.c",
        "frontend/brhist.c",
        "frontend/console.c",
        "frontend/get_audio.c",
        "frontend/lame_main.c",
        "frontend/lametime.c",
        "frontend/main.c",
        "frontend/parse.c",
        "frontend/timestatus.c",
    ],
    includes: &["include", "libmp3lame", "mpglib", "frontend"],
    headers: &[(
        "config.h",
        include_str!("../../../../lab/sources/lame/config.h"),
    )],
    flags: &["-DHAVE_CONFIG_H"],
};

impl Source {
    /// Compiles it into the program `into`, for one target as for the other.
    ///
    /// # Errors
    ///
    /// When the source was not fetched, or does not compile.
    pub(super) fn compile(
        &self,
        toolchain: &Toolchain,
        target: Target,
        into: &Path,
    ) -> anyhow::Result<()> {
        let folder = sources_folder()?.join(self.folder);
        ensure!(
            folder.is_dir(),
            "host: the source of {} is not in {}: lab/sources/fetch gets it",
            self.program,
            folder.display()
        );
        let own = new_room()?;
        for (name, text) in self.headers {
            let path = own.path().join(name);
            fs::write(&path, text)
                .with_context(|| format!("host: cannot write {}", path.display()))?;
        }
        let includes = self.includes.iter().map(|name| folder.join(name));
        let includes = includes.chain([own.path().to_owned()]);
        let includes = includes.flat_map(|path| [OsString::from("-I"), path.into()]);
        let flags: Vec<_> = includes
            .chain(self.flags.iter().map(OsString::from))
            .collect();
        let files: Vec<_> = self.files.iter().map(|name| folder.join(name)).collect();
        toolchain.compile(target, &files, &flags, into)
    }
}

/// Where `lab/sources/fetch` puts them.
fn sources_folder() -> anyhow::Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.filter(|path| path.is_absolute()).or_else(home);
    let cache = cache.context("host: neither XDG_CACHE_HOME nor HOME says where sources are")?;
    Ok(cache.join("palisade/sources"))
}
