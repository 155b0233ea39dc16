//! Grants and limits as flags: each is what [`palisade_policy::setting`] says of it.

use crate::read;
use anyhow::Context;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches,
    builder::{StringValueParser, TypedValueParser, ValueParser},
    value_parser,
};
use palisade_policy::{
    Policy, PolicyLayer, Setting,
    setting::{GRANTS, LIMITS, TOP, Takes},
};
use std::{
    cell::LazyCell,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A policy file is written by hand.
const MOST_POLICY_BYTES: u64 = 1 << 20;

/// Its help stands with that of limits, for they are what is enforced less.
const ALLOW_DEGRADED: &str = "allow-degraded";

/// Flags that make a policy, and the file that may say all.
pub type PolicyArgs = SettingArgs<true>;

/// The same without `--wall` and `--time`: `palisade cost` compares walls, and has a `--time` of its own.
pub type CostPolicyArgs = SettingArgs<false>;

#[derive(Debug, Default)]
pub struct SettingArgs<const ALL: bool> {
    pub file: Option<PathBuf>,
    typed: Vec<(&'static Setting, OsString)>,
}

impl<const ALL: bool> SettingArgs<ALL> {
    /// In the order of the help.
    fn settings() -> impl Iterator<Item = &'static Setting> {
        let is_last = |setting: &&Setting| setting.key == ALLOW_DEGRADED;
        let first = [GRANTS, TOP, LIMITS].into_iter().flatten();
        let first = first.filter(move |setting| !is_last(setting));
        let settings = first.chain(TOP.iter().filter(is_last));
        settings.filter(|setting| ALL || !matches!(setting.key, "wall" | "time"))
    }

    /// The policy of file and flags together.
    pub fn resolve(&self) -> anyhow::Result<Policy> {
        let flags = self.layer()?;
        let file = self.file.as_deref().map(read_policy_file).transpose()?;
        Ok(Policy::from_layers(file.into_iter().chain([flags])))
    }

    fn layer(&self) -> anyhow::Result<PolicyLayer> {
        // The folder palisade runs in may be gone: asked for only where a path starts there.
        let here = LazyCell::new(|| {
            std::env::current_dir().context(
                "host: cannot tell the working directory, which may be removed: write absolute paths, or cd \
                 elsewhere",
            )
        });
        let mut layer = PolicyLayer::default();
        for (setting, value) in &self.typed {
            let base = match setting.host_path(value) {
                Some(path) if !path.as_bytes().starts_with(b"/") => here
                    .as_deref()
                    .map_err(|error| anyhow::anyhow!("{error:#}"))?,
                _ => Path::new("/"),
            };
            let set = setting.set(&mut layer, value, base);
            set.with_context(|| format!("policy: --{}", setting.flag))?;
        }
        Ok(layer)
    }
}

impl<const ALL: bool> Args for SettingArgs<ALL> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("policy")
            .short('p')
            .long("policy")
            .value_name("FILE")
            .help("Take grants and limits from a TOML file; flags add to it")
            .help_heading("Grants")
            .value_parser(value_parser!(PathBuf));
        command.arg(file).args(Self::settings().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const ALL: bool> FromArgMatches for SettingArgs<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one("policy").cloned();
        self.typed = Self::settings()
            .flat_map(|setting| typed(setting, matches).map(move |value| (setting, value)))
            .collect();
        Ok(())
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let is_limit = LIMITS.iter().any(|limit| limit.key == setting.key);
    let arg = Arg::new(setting.flag)
        .long(setting.flag)
        .help(setting.help)
        .help_heading(match is_limit || setting.key == ALLOW_DEGRADED {
            true => "Limits",
            false => "Grants",
        });
    let arg = match setting.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    match setting.takes {
        Takes::Switch => arg.action(ArgAction::SetTrue),
        Takes::List => valued(arg, setting).action(ArgAction::Append),
        Takes::One | Takes::Amount | Takes::Number => valued(arg, setting),
    }
}

fn valued(arg: Arg, setting: &'static Setting) -> Arg {
    let arg = arg
        .value_name(setting.value_name)
        .value_parser(parser(setting));
    match setting.value_name.contains(',') {
        true => arg.value_delimiter(','),
        false => arg,
    }
}

/// What needs no folder is refused as other flags are, with the usage.
fn parser(setting: &'static Setting) -> ValueParser {
    if setting.has_host_path() {
        return value_parser!(OsString);
    }
    let parser = StringValueParser::new().try_map(|text| {
        let value = OsString::from(text);
        let set = setting.set(&mut PolicyLayer::default(), &value, Path::new("/"));
        set.map(|()| value)
    });
    parser.into()
}

/// The values of a flag.
fn typed(setting: &Setting, matches: &ArgMatches) -> impl Iterator<Item = OsString> {
    let (values, is_off) = match setting.takes {
        Takes::Switch => (None, matches.get_flag(setting.flag)),
        _ => (matches.get_many::<OsString>(setting.flag), false),
    };
    let off = is_off.then(|| OsString::from("false"));
    values.into_iter().flatten().cloned().chain(off)
}

fn read_policy_file(path: &Path) -> anyhow::Result<PolicyLayer> {
    let cannot_read = || format!("policy: cannot read {}", path.display());
    let bytes = read::read_regular_file(path, MOST_POLICY_BYTES).with_context(cannot_read)?;
    let text = read::text_of(bytes).with_context(cannot_read)?;
    let canonical = fs::canonicalize(path).with_context(cannot_read)?;
    let base = canonical.parent().unwrap_or(Path::new("/"));
    PolicyLayer::from_toml(&text, &path.to_string_lossy(), base).map_err(|error| {
        let text = format!("policy: {error}");
        anyhow::Error::new(error).context(text)
    })
}
