//! Why a configuration cannot be loaded.

use std::fmt::{self, Display};
use std::io;
use std::path::PathBuf;

/// The source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The defaults.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable, by its name.
    Variable(String),
    /// The command line.
    CommandLine,
}

/// One setting that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key's path, such as `registry.max_authenticators` or `apps[0].id`.
    pub key: String,
    /// What is wrong and what would be right; completes "`key`: …".
    pub message: String,
    /// Where the setting came from.
    pub source: Source,
}

impl Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        match &self.source {
            Source::Default => Ok(()),
            Source::File(file) => write!(f, " (in {})", file.display()),
            Source::Variable(name) => write!(f, " (variable {name})"),
            Source::CommandLine => write!(f, " (command line)"),
        }
    }
}

/// Why a configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Unreadable {
        /// Path of the configuration file.
        file: PathBuf,
        /// The operating system's error; of the kind `InvalidData` when the file is not UTF-8.
        error: io::Error,
    },
    /// The file is not TOML. The error does not show the line, because it may hold a secret.
    #[error("{}: line {line}, column {column}: {message}", file.display())]
    Syntax {
        /// Path of the configuration file.
        file: PathBuf,
        /// Line of the error, counted from 1.
        line: usize,
        /// Column of the error in characters, counted from 1.
        column: usize,
        /// The TOML parser's message, without text of the file.
        message: String,
    },
    /// Settings are wrong. The message has a line for each.
    #[error("{}", .0.iter().map(SettingError::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<SettingError>),
}
