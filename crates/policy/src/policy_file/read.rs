//! Policy file → layer.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::error::{Place, TomlError, TomlProblem};
use crate::{
    Access, ConnectGrant, FileGrant, Limits, PolicyLayer,
    document::{
        self, Key, Located, Read, Value, boolean, in_written_order, list, parsed, scalar, string,
        word,
    },
    value::{parse_cores, parse_count, parse_cwd, parse_duration, parse_path, parse_size},
};

impl PolicyLayer {
    /// Reads a policy file's text. `source_name` is what errors call it; relative paths are joined
    /// to `base_dir`, which should be the file's folder, absolute and free of symlinks.
    ///
    /// # Errors
    /// The first thing in `text` that is not a policy.
    pub fn from_toml(text: &str, source_name: &str, base_dir: &Path) -> Result<Self, TomlError> {
        read_document(text, base_dir).map_err(|located| TomlError::new(source_name, text, located))
    }
}

fn read_document(text: &str, base_dir: &Path) -> Read<PolicyLayer> {
    let document = DeTable::parse(text).map_err(|error| Located {
        span: error.span().unwrap_or(0..0),
        problem: TomlProblem::Syntax(error.message().to_owned()),
    })?;
    read_layer(document.get_ref(), base_dir)
}

/// Reads the keys of a policy file, wherever they stand.
pub(crate) fn read_layer(table: &DeTable, base_dir: &Path) -> Read<PolicyLayer> {
    let mut layer = PolicyLayer::default();
    for (key, value) in in_written_order(table) {
        read_top(&mut layer, key, value, base_dir)?;
    }
    layer.files.sort_by_key(|file| file.access);
    Ok(layer)
}

fn read_top(layer: &mut PolicyLayer, key: &Key, value: &Value, base_dir: &Path) -> Read<()> {
    match key.get_ref().as_ref() {
        "wall" => layer.wall = Some(word(key, value)?),
        "profiles" => layer.profiles = list(key, value, str::parse)?,
        "system" => layer.system = Some(boolean(key, value)?),
        "guard" => layer.guard = Some(boolean(key, value)?),
        "cwd" => layer.cwd = Some(directory(key, value, base_dir)?),
        "allow-degraded" => layer.allow_degraded = list(key, value, str::parse)?,
        "grants" => {
            for (key, value) in in_written_order(document::table(key, value)?) {
                read_grants(layer, key, value, base_dir)?;
            }
        }
        "limits" => {
            for (key, value) in in_written_order(document::table(key, value)?) {
                read_limit(&mut layer.limits, key, value)?;
            }
        }
        _ => return Err(unknown_key(key, Place::Top)),
    }
    Ok(())
}

fn read_grants(layer: &mut PolicyLayer, key: &Key, value: &Value, base_dir: &Path) -> Read<()> {
    let name = key.get_ref().as_ref();
    if let Ok(access) = name.parse::<Access>() {
        let parse = |text: &str| FileGrant::parse(access, text, base_dir);
        layer.files.append(&mut list(key, value, parse)?);
        return Ok(());
    }
    match name {
        "env" => layer.env = list(key, value, str::parse)?,
        "env-file" => {
            let parse = |text: &str| parse_path(text, base_dir);
            layer.env_files = list(key, value, parse)?;
        }
        "device" => layer.devices = list(key, value, str::parse)?,
        "connect" => {
            let parse = |text: &str| ConnectGrant::parse(text, base_dir);
            layer.connect = list(key, value, parse)?;
        }
        "listen" => layer.listen = list(key, value, str::parse)?,
        _ => return Err(unknown_key(key, Place::Grants)),
    }
    Ok(())
}

fn read_limit(limits: &mut Limits, key: &Key, value: &Value) -> Read<()> {
    let text = scalar(key, value)?;
    let text = text.as_ref();
    match key.get_ref().as_ref() {
        "memory" => limits.memory_bytes = Some(parsed(text, value, parse_size)?),
        "cpu" => limits.cpu_cores = Some(parsed(text, value, parse_cores)?),
        "processes" => limits.processes = Some(parsed(text, value, parse_count)?),
        "files" => limits.files = Some(parsed(text, value, parse_count)?),
        "file-size" => limits.file_size_bytes = Some(parsed(text, value, parse_size)?),
        "tmp-size" => limits.tmp_size_bytes = Some(parsed(text, value, parse_size)?),
        "time" => limits.time = Some(parsed(text, value, parse_duration)?),
        "cpu-time" => limits.cpu_time = Some(parsed(text, value, parse_duration)?),
        "output" => limits.output_bytes = Some(parsed(text, value, parse_size)?),
        _ => return Err(unknown_key(key, Place::Limits)),
    }
    Ok(())
}

fn unknown_key(key: &Key, place: Place) -> Located {
    Located {
        span: key.span(),
        problem: TomlProblem::UnknownKey {
            key: key.get_ref().as_ref().to_owned(),
            place,
        },
    }
}

fn directory(key: &Key, value: &Value, base_dir: &Path) -> Read<PathBuf> {
    parsed(string(key, value)?, value, |text| parse_cwd(text, base_dir))
}
