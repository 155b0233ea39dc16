//! Where errors and warnings go: to stderr, and to the file that the engine reads them from.

use crate::cli::{Global, LogFormat};
use palisade_policy::{visible, visible_lines};
use std::{fs::File, io::Write as _, path::PathBuf};

/// The engine's file, if it named one.
pub(crate) struct Log {
    file: Option<PathBuf>,
    format: LogFormat,
    has_warnings: bool,
}

impl Log {
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            file: global.log.clone(),
            format: global.log_format,
            has_warnings: !matches!(global.log_level.as_str(), "error" | "fatal" | "panic"),
        }
    }

    /// Tells what went wrong. Without anybody who reads it there is nobody left to tell.
    pub(crate) fn error(&self, message: &str) {
        let message = &visible_lines(message);
        let _ = writeln!(std::io::stderr(), "palisade-oci: {message}");
        self.write("error", message);
    }

    /// Tells what is not as somebody may think. An engine reads it from its file; without one it is for whoever looks.
    pub(crate) fn warning(&self, message: &str) {
        let message = &visible(message);
        match self.file {
            _ if !self.has_warnings => {}
            Some(_) => self.write("warning", message),
            None => {
                let _ = writeln!(std::io::stderr(), "palisade-oci: warning: {message}");
            }
        }
    }

    fn write(&self, level: &str, message: &str) {
        let Some(path) = &self.file else { return };
        let Ok(mut file) = File::options().append(true).create(true).open(path) else {
            return;
        };
        let time = jiff::Timestamp::now().to_string();
        let line = match self.format {
            LogFormat::Json => {
                serde_json::json!({ "level": level, "msg": message, "time": time }).to_string()
            }
            LogFormat::Text => {
                let message = serde_json::Value::from(message);
                format!("time=\"{time}\" level={level} msg={message}")
            }
        };
        let _ = writeln!(file, "{line}");
    }
}
