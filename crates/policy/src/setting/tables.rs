//! The tables.

use std::{ffi::OsStr, fmt::Display, path::Path};

use super::{Set, Setting, Table, Takes};
use crate::{
    Access, Capability, ConnectGrant, DeviceGrant, EnvGrant, FileGrant, ListenGrant, PolicyLayer,
    Profile, ValueError, WallKind,
    value::{
        ValueKind, format_duration, format_size, parse_cores, parse_count, parse_cwd,
        parse_duration, parse_path, parse_size,
    },
};

/// All there is, the top of the file first.
pub const TABLES: &[Table; 3] = &[
    Table {
        name: "",
        place: "at the top, before any table",
        settings: TOP,
    },
    Table {
        name: "grants",
        place: "in [grants]",
        settings: GRANTS,
    },
    Table {
        name: "limits",
        place: "in [limits]",
        settings: LIMITS,
    },
];

/// What most settings are: a flag of the key's name, without a short one and without a path of the host's.
const fn setting(
    key: &'static str,
    value_name: &'static str,
    help: &'static str,
    (takes, kind): (Takes, &'static ValueKind),
    set: Set,
    texts: fn(&PolicyLayer) -> Vec<String>,
) -> Setting {
    Setting {
        key,
        flag: key,
        short: None,
        value_name,
        help,
        takes,
        kind,
        host_path: |_| None,
        set,
        texts,
    }
}

impl Setting {
    const fn with_flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    const fn with_short(self, short: char) -> Self {
        Self {
            short: Some(short),
            ..self
        }
    }

    const fn with_host_path(self, host_path: fn(&OsStr) -> Option<&OsStr>) -> Self {
        Self { host_path, ..self }
    }
}

fn texts<T: Display>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

/// Sets a field by what a parser makes of the text.
macro_rules! set {
    ($($field:ident).+ = $parse:expr) => {
        |layer, text, _| {
            layer.$($field).+ = Some($parse(&text.to_string_lossy())?);
            Ok(())
        }
    };
}

/// Adds to a list what the text is.
macro_rules! add {
    ($field:ident: $type:ty) => {
        |layer, text, _| {
            let value: $type = text.to_string_lossy().parse()?;
            layer.$field.extend([value]);
            Ok(())
        }
    };
}

fn switch(text: &str) -> Result<bool, ValueError> {
    Ok(text == "true")
}

const BOOLEAN: &ValueKind = &ValueKind::of_names("switch", &["true", "false"]);

/// Keys outside every table.
pub const TOP: &[Setting] = &[
    setting(
        "wall",
        "process|wasm",
        "The wall; without it a WebAssembly file gets `wasm`, and every other program `process`",
        (Takes::One, WallKind::KIND),
        set!(wall = str::parse),
        |layer| texts(layer.wall),
    ),
    setting(
        "profiles",
        "NAME",
        "Add what a runtime needs: java, python, node, rust, go, maven, git, chromium, palisade",
        (Takes::List, Profile::KIND),
        add!(profiles: Profile),
        |layer| texts(&layer.profiles),
    )
    .with_flag("profile"),
    setting(
        "system",
        "",
        "Hide the system's programs and libraries (for static programs)",
        (Takes::Switch, BOOLEAN),
        set!(system = switch),
        |layer| texts(layer.system),
    )
    .with_flag("no-system"),
    setting(
        "guard",
        "",
        "Leave git's hooks and settings in writable checkouts to the guest",
        (Takes::Switch, BOOLEAN),
        set!(guard = switch),
        |layer| texts(layer.guard),
    )
    .with_flag("no-guard"),
    setting(
        "cwd",
        "DIR",
        "Start in this folder of the domain",
        (Takes::One, ValueKind::CWD),
        |layer, text, base| {
            layer.cwd = Some(parse_cwd(text, base)?);
            Ok(())
        },
        |layer| texts(layer.cwd.as_deref().map(Path::display)),
    )
    .with_host_path(|path| Some(path)),
    setting(
        "allow-degraded",
        "NAME,…",
        "Go on where this machine can enforce only less of these capabilities",
        (Takes::List, Capability::KIND),
        add!(allow_degraded: Capability),
        |layer| texts(&layer.allow_degraded),
    ),
];

/// A grant of files.
macro_rules! files {
    ($access:ident, $value_name:literal, $help:literal) => {
        setting(
            Access::$access.name(),
            $value_name,
            $help,
            (Takes::List, Access::$access.path_kind()),
            |layer, text, base| {
                let grant = FileGrant::parse(Access::$access, text, base)?;
                layer.files.push(grant);
                Ok(())
            },
            |layer| {
                let files = layer.files.iter();
                texts(files.filter(|file| file.access == Access::$access))
            },
        )
        .with_host_path(|path| Some(path))
    };
}

/// Keys of `[grants]`.
#[rustfmt::skip]
pub const GRANTS: &[Setting] = &[
    files!(Read, "PATH[:GUEST]", "Let the guest read and execute a file or folder").with_short('r'),
    files!(ReadIfThere, "PATH[:GUEST]", "The same, and nothing if it does not exist"),
    files!(Write, "PATH[:GUEST]", "Let the guest read and write a file or folder").with_short('w'),
    files!(Protect, "PATH",
        "Keep a path inside a writable folder as it is, even if it does not exist yet"),
    files!(Hide, "PATH",
        "Keep a path, or what a pattern such as **/*.pem finds, from a guest that sees the folder around it"),
    files!(Exec, "PATH", "Let the guest execute what it writes below a writable path"),
    files!(Ipc, "PATH", "Let the guest make sockets and FIFOs below a writable path"),
    setting(
        "env",
        "NAME[=VALUE]",
        "Set a variable, or pass the host's on; a VALUE typed here shows in the list of processes",
        (Takes::List, ValueKind::ENV),
        add!(env: EnvGrant),
        |layer| texts(&layer.env),
    )
    .with_short('e'),
    setting(
        "env-file",
        "FILE",
        "Set the variables of a file, with NAME=VALUE in each line",
        (Takes::List, ValueKind::PATH),
        |layer, text, base| {
            layer.env_files.push(parse_path(text, base)?);
            Ok(())
        },
        |layer| texts(layer.env_files.iter().map(|path| path.display())),
    )
    .with_host_path(|path| Some(path)),
    setting(
        "device",
        "PATH|pts",
        "Let the guest use a device node, or `pts` for terminals of its own",
        (Takes::List, ValueKind::DEVICE),
        add!(devices: DeviceGrant),
        |layer| texts(&layer.devices),
    ),
    setting(
        "connect",
        "tcp://HOST:PORT",
        "Let the guest connect to a host (also udp://, unix:PATH for a socket file, internet for all that is public)",
        (Takes::List, ValueKind::CONNECT),
        |layer, text, base| {
            layer.connect.push(ConnectGrant::parse(text, base)?);
            Ok(())
        },
        |layer| texts(&layer.connect),
    )
    .with_short('c')
    .with_host_path(ConnectGrant::socket_path),
    setting(
        "listen",
        "tcp://ADDR:PORT",
        "Let the guest listen at an address of the host's (also udp://)",
        (Takes::List, ValueKind::LISTEN),
        add!(listen: ListenGrant),
        |layer| texts(&layer.listen),
    ),
];

const SIZE: (Takes, &ValueKind) = (Takes::Amount, ValueKind::SIZE);
const TIME: (Takes, &ValueKind) = (Takes::Amount, ValueKind::DURATION);
const CORES: (Takes, &ValueKind) = (Takes::Number, ValueKind::CORES);
const COUNT: (Takes, &ValueKind) = (Takes::Number, ValueKind::COUNT);
const COUNT_AS_TEXT: (Takes, &ValueKind) = (Takes::Amount, ValueKind::COUNT);

fn plain(number: impl Display) -> String {
    number.to_string()
}

/// A limit: its field, how that is read and how it is written.
macro_rules! limit {
    ($key:literal, $value_name:literal, $help:literal, $of:expr,
        $field:ident, $parse:expr, $format:expr) => {
        setting(
            $key,
            $value_name,
            $help,
            $of,
            set!(limits.$field = $parse),
            |layer| texts(layer.limits.$field.map($format)),
        )
    };
}

/// Keys of `[limits]`.
#[rustfmt::skip]
pub const LIMITS: &[Setting] = &[
    limit!("memory", "SIZE", "Memory of the whole domain, as 512M", SIZE,
        memory_bytes, parse_size, format_size),
    limit!("cpu", "CORES", "Processors, as 0.5", CORES,
        cpu_cores, parse_cores, plain),
    limit!("processes", "N", "Processes and threads at one time", COUNT,
        processes, parse_count, plain),
    limit!("files", "N", "Open files of each process", COUNT_AS_TEXT,
        files, parse_count, plain),
    limit!("file-size", "SIZE", "Largest file", SIZE,
        file_size_bytes, parse_size, format_size),
    limit!("tmp-size", "SIZE", "Private /tmp and /dev/shm together", SIZE,
        tmp_size_bytes, parse_size, format_size),
    limit!("time", "TIME", "Wall-clock time, as 10s", TIME,
        time, parse_duration, format_duration),
    limit!("cpu-time", "TIME", "Processor time of the whole domain", TIME,
        cpu_time, parse_duration, format_duration),
    limit!("output", "SIZE", "Bytes of stdout and stderr together", SIZE,
        output_bytes, parse_size, format_size),
];
