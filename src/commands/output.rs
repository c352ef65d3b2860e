//! What the commands print: one writer to the standard output, whose failures are errors.
//!
//! `println!` panics when the output cannot be written: when a reader such as `head` has closed its
//! end, or on a full disk.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Stdout, Write};

use serde::Serialize;

/// The standard output. `write!` and `writeln!` work on it; it is not buffered beyond a line.
pub struct Output(Stdout);

/// A line cannot be written to the standard output.
#[derive(Debug, thiserror::Error)]
#[error("the output cannot be written: {0}")]
pub struct OutputError(#[from] pub io::Error);

impl OutputError {
    /// Whether the reader has closed its end and so wants no more.
    pub fn is_closed_pipe(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

impl Output {
    /// The standard output of this process.
    pub fn standard() -> Self {
        Self(io::stdout())
    }

    /// What `write!` and `writeln!` call.
    pub fn write_fmt(&mut self, text: Arguments<'_>) -> Result<(), OutputError> {
        Ok(self.0.write_fmt(text)?)
    }

    /// Writes a text as it is.
    pub fn print(&mut self, text: &str) -> Result<(), OutputError> {
        Ok(self.0.write_all(text.as_bytes())?)
    }

    /// Writes a value as JSON for programs, with a line for each field.
    pub fn print_json(&mut self, value: &impl Serialize) -> Result<(), OutputError> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        writeln!(self, "{text}")
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        Ok(self.0.flush()?)
    }

    /// The writer, for code that prints through one.
    #[cfg(feature = "wallet")]
    pub fn writer(&mut self) -> &mut (dyn Write + Send) {
        &mut self.0
    }
}
