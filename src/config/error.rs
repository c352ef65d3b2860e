//! Why a configuration cannot be loaded.

use std::fmt::{self, Display};
use std::io;
use std::path::PathBuf;

/// The source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The defaults.
    Default,
    /// What `--dev` adds.
    Development,
    /// The configuration file.
    File {
        /// Path of the file.
        file: PathBuf,
        /// Where in the file; `None` for a setting that is not in it.
        position: Option<Position>,
    },
    /// An environment variable, by its name.
    Variable(String),
    /// The command line.
    CommandLine,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
}

/// The lines of a text, to find the place of a byte without reading the text again.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// The byte at which each line begins.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(newline, _)| newline + 1);
        Self { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    /// The place of a byte.
    pub(super) fn position(&self, byte: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= byte);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(start..byte).unwrap_or_default();
        Position { line, column: before.chars().count() + 1 }
    }
}

impl Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
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
            Source::Development => write!(f, " (--dev)"),
            Source::File { file, position: Some(position) } => write!(f, " (in {}, {position})", file.display()),
            Source::File { file, position: None } => write!(f, " (in {})", file.display()),
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
    #[error("{}: {position}: {message}", file.display())]
    Syntax {
        /// Path of the configuration file.
        file: PathBuf,
        /// Where the error is.
        position: Position,
        /// The TOML parser's message, without text of the file.
        message: String,
    },
    /// Settings are wrong. The message has a line for each.
    #[error("{}", .0.iter().map(SettingError::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<SettingError>),
}
