//! `selfsame config …`: the configuration, without a start.

use std::io::Write;
use std::process::ExitCode;

use selfsame_actors::{Clock, SystemClock};

use super::error::CommandError;
use super::output::Output;
use crate::cli::ConfigCommand;
use crate::config::ConfigError;
use crate::prepared::Warning;

/// Runs the command.
pub fn run(command: ConfigCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        ConfigCommand::Check { source } => {
            let (config, _) = source.prepare(SystemClock.unix_seconds())?;
            for warning in Warning::all(&config) {
                // A warning that cannot be shown changes nothing about the answer.
                let _ = writeln!(std::io::stderr(), "warning: {warning}");
            }
            writeln!(out, "ok")?;
        }
        ConfigCommand::Dump { source, json } => {
            let loaded = source.load()?;
            if !loaded.errors.is_empty() {
                return Err(ConfigError::Invalid(loaded.errors).into());
            }
            let dump = loaded.dump()?;
            match json {
                true => out.print_json(&dump)?,
                false => out.print(&dump.to_toml())?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
