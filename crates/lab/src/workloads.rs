//! The workload programs of `lab/workloads`, laid out on disk for one row.

use crate::{
    floor::Floor,
    subjects::{FloorProgram, Palisade, steps_of},
    wasi::{Target, Toolchain},
};
use anyhow::Context;
use palisade_policy::Policy;
use palisade_process::{
    Machine,
    seccomp::{Groups, allow_list},
};
use palisade_wall::Command;
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

static TRUE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/true"));
static SYSCALLS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/syscalls"));
static IDLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/idle"));
static OPENS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/opens"));
static BLOCKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocks"));
static THREADS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/threads"));
static BOOT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/boot"));
static OFFLINE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/offline"));
static STREAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stream"));
static PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages"));
static MONO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mono"));
static REPLIES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replies"));
static LISTENS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/listens"));
static SERVER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/server"));
static NULL_FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter-null.wasm"));
static HEADER_FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter-header.wasm"));
static SLOW_FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter-slow.wasm"));
static FLOOR_FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor-filter"));
static FLOOR_START: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor-start"));
static FLOOR_WALL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor-wall"));
static FLOOR_NOTIFY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor-notify"));
static BANDWIDTH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bandwidth"));

/// Header, then the sections of types, functions, memories, exports and code. Node runs nothing without a
/// memory.
static WASM_TRUE: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x04\x01\x60\0\0\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x13\x02\x06_start\0\0\x06memory\x02\0\
    \x0a\x04\x01\x02\0\x0b";

/// The workloads that can be compiled to WebAssembly too, and what they include.
const SOURCES: [(&str, &str); 12] = [
    (
        "measure.h",
        include_str!("../../../lab/workloads/measure.h"),
    ),
    (
        "syscalls.c",
        include_str!("../../../lab/workloads/syscalls.c"),
    ),
    ("opens.c", include_str!("../../../lab/workloads/opens.c")),
    ("blocks.c", include_str!("../../../lab/workloads/blocks.c")),
    (
        "bandwidth.c",
        include_str!("../../../lab/workloads/bandwidth.c"),
    ),
    ("boot.c", include_str!("../../../lab/workloads/boot.c")),
    ("mono.h", include_str!("../../../guests/services/mono.h")),
    ("mono.c", include_str!("../../../lab/workloads/mono.c")),
    (
        "component/hello.c",
        include_str!("../../../guests/services/component/hello.c"),
    ),
    (
        "component/mono.c",
        include_str!("../../../guests/services/component/mono.c"),
    ),
    (
        "component/tenant.c",
        include_str!("../../../lab/workloads/tenant.c"),
    ),
    (
        "component/service.h",
        include_str!("../../../guests/services/component/service.h"),
    ),
];

/// What the component imports and exports, below a folder of its own.
const INTERFACES: [(&str, &str); 3] = [
    (
        "service.wit",
        include_str!("../../../guests/services/component/wit/service.wit"),
    ),
    (
        "deps/http.wit",
        include_str!("../../../guests/services/component/wit/deps/http.wit"),
    ),
    (
        "deps/io.wit",
        include_str!("../../../guests/services/component/wit/deps/io.wit"),
    ),
];

/// A folder with a row's programs and files. Anybody may read it, so that a guest with a uid of its
/// own sees what the bare program sees. Dropping it removes everything.
#[derive(Debug)]
pub struct Workloads {
    folder: TempDir,
}

impl Workloads {
    /// An empty folder.
    ///
    /// # Errors
    ///
    /// When there is no room for temporary files.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            folder: new_room()?,
        })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds `true`, which ends at once and needs nothing else on disk.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn add_true(&self) -> anyhow::Result<PathBuf> {
        self.add_program("true", TRUE)
    }

    /// Adds the same as a WebAssembly module: `(module (memory (export "memory") 1) (func (export "_start")))`.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn add_wasm_true(&self) -> anyhow::Result<PathBuf> {
        self.add_program("true.wasm", WASM_TRUE)
    }

    /// Adds a workload as a WebAssembly program, compiled here: `opens` is `opens.wasm`.
    ///
    /// # Errors
    ///
    /// When there is no compiler for WASI here; the error says how to get it.
    pub fn add_wasm(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.add_compiled(name, Target::Wasi)
    }

    fn add_compiled(&self, name: &str, target: Target) -> anyhow::Result<PathBuf> {
        let toolchain = Toolchain::find()?;
        let sources = new_room()?;
        fs::create_dir(sources.path().join("component")).context(FAULT)?;
        for (name, text) in SOURCES {
            fs::write(sources.path().join(name), text).context(FAULT)?;
        }
        let source = sources.path().join(name).with_extension("c");
        let file_name = Path::new(name).file_name().unwrap_or_default();
        let path = self.folder().join(file_name).with_extension("wasm");
        toolchain.compile(target, &[source], &[], &path)?;
        set_mode(&path, 0o755)?;
        Ok(path)
    }

    /// Adds `syscalls` and the files it works on.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    pub fn add_syscalls(&self) -> anyhow::Result<PathBuf> {
        const FILES: usize = 100;
        self.add_files(FILES)?;
        self.add_true()?;
        self.add_program("syscalls", SYSCALLS)
    }

    /// Adds `opens`, which opens files.
    ///
    /// # Errors
    ///
    /// When it cannot be written; so it is with the other programs.
    pub fn add_opens(&self) -> anyhow::Result<PathBuf> {
        self.add_program("opens", OPENS)
    }

    /// Adds the program of a floor; `None` where no program of its own is one.
    pub fn add_floor(&self, floor: Floor) -> anyhow::Result<Option<FloorProgram>> {
        let (name, content, words) = match floor {
            Floor::Filter => ("floor-filter", FLOOR_FILTER, vec![]),
            Floor::Start => ("floor-start", FLOOR_START, vec![]),
            Floor::Notifier => ("floor-notify", FLOOR_NOTIFY, vec![]),
            Floor::Names => ("floor-notify", FLOOR_NOTIFY, vec!["--names".into()]),
            Floor::Programs => ("floor-notify", FLOOR_NOTIFY, vec!["--programs".into()]),
            Floor::Bare | Floor::Engine => return Ok(None),
        };
        let program = FloorProgram::new(self.add_program(name, content)?);
        Ok(Some(program.with(words)))
    }

    /// Adds `floor-wall`, with what it has to do so that `command` has all that `palisade` gives it by `policy`.
    pub(crate) fn add_wall_floor(
        &self,
        palisade: &Palisade,
        policy: &Policy,
        command: &Command,
    ) -> anyhow::Result<FloorProgram> {
        let told = palisade.explain(policy, command)?;
        let program = FloorProgram::new(self.add_program("floor-wall", FLOOR_WALL)?);
        let filter = self.folder().join("filter");
        fs::write(&filter, allow_list(&Groups::default()).program()?)?;
        let words = ["--filter".into(), filter.into()].into_iter();
        let steps = steps_of(&told, Machine::probe().tier)?.into_iter();
        Ok(program.with(words.chain(steps).chain(["--".into()]).collect()))
    }

    /// Adds `idle`, which waits.
    pub fn add_idle(&self) -> anyhow::Result<PathBuf> {
        self.add_program("idle", IDLE)
    }

    /// Adds `blocks`, which reads and writes a large file.
    pub fn add_blocks(&self) -> anyhow::Result<PathBuf> {
        self.add_program("blocks", BLOCKS)
    }

    /// Adds `threads`, which starts threads.
    pub fn add_threads(&self) -> anyhow::Result<PathBuf> {
        self.add_program("threads", THREADS)
    }

    /// Adds `bandwidth`, which reads and writes whole files.
    pub fn add_bandwidth(&self) -> anyhow::Result<PathBuf> {
        self.add_program("bandwidth", BANDWIDTH)
    }

    /// Adds `boot`, which tells when its `main` began.
    pub fn add_boot(&self) -> anyhow::Result<PathBuf> {
        self.add_program("boot", BOOT)
    }

    /// Adds `offline`, which runs a program with no network and no other wall.
    pub fn add_offline(&self) -> anyhow::Result<PathBuf> {
        self.add_program("offline", OFFLINE)
    }

    /// Adds `stream`, which moves bytes by TCP, and connects.
    pub fn add_stream(&self) -> anyhow::Result<PathBuf> {
        self.add_program("stream", STREAM)
    }

    /// Adds `pages`, a web server and its client.
    pub fn add_pages(&self) -> anyhow::Result<PathBuf> {
        self.add_program("pages", PAGES)
    }

    /// Adds `replies`, a web server that answers everything with the same.
    pub fn add_replies(&self) -> anyhow::Result<PathBuf> {
        self.add_program("replies", REPLIES)
    }

    /// Adds `mono`, which makes pictures grey.
    pub fn add_mono(&self) -> anyhow::Result<PathBuf> {
        self.add_program("mono", MONO)
    }

    /// Adds the same as a WebAssembly module to be called.
    ///
    /// # Errors
    ///
    /// As [`Workloads::add_wasm`].
    pub fn add_wasm_mono(&self) -> anyhow::Result<PathBuf> {
        self.add_compiled("mono", Target::Bare)
    }

    /// Adds the module of a `wasi:http` component, `hello`, `mono` or `tenant`, and the folder of its interfaces; gives both.
    ///
    /// # Errors
    ///
    /// As [`Workloads::add_wasm`].
    pub fn add_component(&self, name: &str) -> anyhow::Result<[PathBuf; 2]> {
        let module = self.add_compiled(&format!("component/{name}"), Target::Bare)?;
        let folder = self.folder().join("wit");
        fs::create_dir_all(folder.join("deps")).context(FAULT)?;
        for (name, text) in INTERFACES {
            fs::write(folder.join(name), text).context(FAULT)?;
        }
        Ok([module, folder])
    }

    /// Adds `server`, a web server that makes pictures grey, among other things, and `listens`, which gives it a socket.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    pub fn add_server(&self) -> anyhow::Result<[PathBuf; 2]> {
        let server = self.add_program("server", SERVER)?;
        Ok([server, self.add_program("listens", LISTENS)?])
    }

    /// Adds a colour picture (PPM) to the folder of files, whose pixels are not all alike; gives its path.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn add_picture(&self, name: &str, width: usize, height: usize) -> anyhow::Result<PathBuf> {
        let mut picture = format!("P6\n{width} {height}\n255\n").into_bytes();
        picture.extend((0..width * height * 3).map(|place| (place * 7 + place / 1000) as u8));
        self.add_file(name, &picture)
    }

    /// Adds filters for a server: `null.wasm`, which does nothing, and `header.wasm`, which adds a field to each answer.
    pub fn add_filters(&self) -> anyhow::Result<()> {
        self.add_program("null.wasm", NULL_FILTER)?;
        self.add_program("header.wasm", HEADER_FILTER)?;
        Ok(())
    }

    /// Adds a filter that computes before each request; gives its path.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn add_slow_filter(&self) -> anyhow::Result<PathBuf> {
        self.add_program("slow.wasm", SLOW_FILTER)
    }

    /// Adds a shell script; gives its path.
    pub fn add_script(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let is_plain = |one: &char| one.is_ascii_alphanumeric();
        let name: String = name.chars().filter(is_plain).collect();
        self.add_program(&format!("{name}.sh"), text.as_bytes())
    }

    /// Adds the folder of files with so many of them, named `0` and so on.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn add_files(&self, number: usize) -> anyhow::Result<()> {
        let files = self.files_folder();
        fs::create_dir(&files).context(FAULT)?;
        set_mode(&files, 0o755)?;
        for number in 0..number {
            let path = files.join(number.to_string());
            fs::write(&path, b"a file that is opened\n").context(FAULT)?;
            set_mode(&path, 0o644)?;
        }
        Ok(())
    }

    /// Adds a text to the folder of files.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn add_source(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        self.add_file(name, text.as_bytes())
    }

    /// Adds one file of this size to the folder of files; gives its path.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn add_large_file(&self, bytes: usize) -> anyhow::Result<PathBuf> {
        self.add_files(0)?;
        self.add_file("large", &vec![b'x'; bytes])
    }

    /// Adds a file of words to the folder of files, the same ones every time; gives its path.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn add_text(&self, name: &str, bytes: usize) -> anyhow::Result<PathBuf> {
        let mut numbers = Numbers::default();
        let mut text = Vec::with_capacity(bytes + 16);
        while text.len() < bytes {
            // Short words are frequent and long ones rare, as in what people write.
            let word = numbers.next() % (1 << (4 + numbers.next() % 12));
            let end = if numbers.next().is_multiple_of(12) {
                "\n"
            } else {
                " "
            };
            text.extend_from_slice(format!("{word:x}{end}").as_bytes());
        }
        text.truncate(bytes);
        self.add_file(name, &text)
    }

    /// Adds a file of sound to the folder of files, 16-bit stereo at 44.1 kHz; gives its path.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn add_sound(&self, name: &str, bytes: usize) -> anyhow::Result<PathBuf> {
        const HEADER_BYTES: u32 = 44;
        const RATE: u32 = 44_100;
        const FRAME_BYTES: u16 = 4;
        let data_bytes = bytes as u32 - HEADER_BYTES;
        let mut sound = Vec::with_capacity(bytes);
        sound.extend_from_slice(b"RIFF");
        sound.extend_from_slice(&(bytes as u32 - 8).to_le_bytes());
        sound.extend_from_slice(b"WAVEfmt ");
        sound.extend_from_slice(&16u32.to_le_bytes());
        // PCM, two channels.
        sound.extend_from_slice(&[1, 0, 2, 0]);
        sound.extend_from_slice(&RATE.to_le_bytes());
        sound.extend_from_slice(&(RATE * u32::from(FRAME_BYTES)).to_le_bytes());
        sound.extend_from_slice(&FRAME_BYTES.to_le_bytes());
        sound.extend_from_slice(&16u16.to_le_bytes());
        sound.extend_from_slice(b"data");
        sound.extend_from_slice(&data_bytes.to_le_bytes());
        let mut numbers = Numbers::default();
        for frame in 0..data_bytes / u32::from(FRAME_BYTES) {
            // A chord that wanders, and a little noise.
            let time = f64::from(frame) / f64::from(RATE);
            let tone = |pitch: f64| (time * pitch * (1.0 + 0.01 * (time / 7.0).sin())).sin();
            let value = 6e3 * (tone(1382.0) + tone(1741.0) + tone(2073.0));
            let noise = (numbers.next() % 512) as f64;
            for sample in [value + noise, value - noise] {
                sound.extend_from_slice(&(sample as i16).to_le_bytes());
            }
        }
        self.add_file(name, &sound)
    }

    fn add_file(&self, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.files_folder().join(name);
        fs::write(&path, content).context(FAULT)?;
        set_mode(&path, 0o644)?;
        Ok(path)
    }

    /// Adds a copy of somebody else's executable or archive; gives its path.
    ///
    /// # Errors
    ///
    /// When it cannot be read or there is no room.
    pub fn add_copy(&self, name: &str, source: &Path) -> anyhow::Result<PathBuf> {
        let path = self.folder().join(name);
        let copied = fs::copy(source, &path);
        copied.with_context(|| format!("host: cannot copy {}", source.display()))?;
        set_mode(&path, 0o755)?;
        Ok(path)
    }

    /// The folder of the files that programs open, and may write to if they are granted that.
    pub fn files_folder(&self) -> PathBuf {
        self.folder().join("open")
    }

    fn add_program(&self, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.folder().join(name);
        // One that runs cannot be written, and a floor of another workload may be parked.
        if fs::read(&path).is_ok_and(|written| written == content) {
            return Ok(path);
        }
        fs::write(&path, content).context(FAULT)?;
        set_mode(&path, 0o755)?;
        Ok(path)
    }
}

/// Numbers that look like chance and are the same every time: xorshift64 (Marsaglia 2003).
struct Numbers(u64);

impl Default for Numbers {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// An empty folder that anybody may read, for as long as the value lives.
///
/// # Errors
///
/// When there is no room for temporary files.
pub(crate) fn new_room() -> anyhow::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("palisade-lab-")
        .tempdir()
        .context(FAULT)?;
    set_mode(folder.path(), 0o755)?;
    Ok(folder)
}

const FAULT: &str = "host: cannot lay out the workload programs; set TMPDIR to a folder with room that is not mounted noexec";

fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode)).context(FAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn true_ends_with_success() {
        let workloads = Workloads::new().unwrap();
        assert!(
            Command::new(workloads.add_true().unwrap())
                .status()
                .unwrap()
                .success()
        );
    }

    /// A wall of an ordinary user's shows nothing that its user alone may read.
    #[test]
    fn the_floor_of_a_wall_starts_nothing_where_not_all_is_for_everybody() {
        let workloads = Workloads::new().unwrap();
        let floor = workloads.add_program("floor-wall", FLOOR_WALL).unwrap();
        workloads.add_true().unwrap();
        let filter = workloads.folder().join("filter");
        let instructions = allow_list(&Groups::default()).program().unwrap();
        fs::write(&filter, instructions).unwrap();
        let below = workloads.files_folder().join("below");
        fs::create_dir_all(&below).unwrap();
        for folder in [&workloads.files_folder(), &below] {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        }
        let file = below.join("file");
        fs::write(&file, "").unwrap();
        let start = |mode| {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let mut command = Command::new(&floor);
            command.arg("--filter").arg(&filter);
            command.arg("--look").arg(workloads.files_folder());
            command.args(["--folder", "/w", "--mount"]);
            command.arg(workloads.folder());
            command.args(["/w", "--", "/w/true"]);
            let ended = command.output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            (ended.status.code(), said)
        };
        assert_eq!(start(0o644), (Some(0), String::new()));
        let (code, said) = start(0o640);
        assert_eq!(code, Some(125));
        assert!(said.ends_with("Permission denied\n"), "{said}");
    }

    /// As the specification's binary format has it: each section is its id, its length and that many
    /// bytes, in the order of the ids.
    #[test]
    fn the_module_is_made_of_whole_sections() {
        let mut rest = WASM_TRUE.strip_prefix(b"\0asm\x01\0\0\0").unwrap();
        let mut ids = Vec::new();
        while let [id, length, after @ ..] = rest {
            ids.push(*id);
            rest = &after[usize::from(*length)..];
        }
        assert_eq!(
            (ids.as_slice(), rest.len()),
            ([1, 3, 5, 7, 10].as_slice(), 0)
        );
    }

    #[test]
    fn nothing_is_left_behind() {
        let workloads = Workloads::new().unwrap();
        workloads.add_syscalls().unwrap();
        let folder = workloads.folder().to_owned();
        assert!(folder.join("open/99").is_file());
        drop(workloads);
        assert!(!folder.exists());
    }
}
