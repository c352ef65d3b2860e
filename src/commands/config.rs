//! `selfsame config …`: the configuration, without a start.

use std::io::Write;
use std::process::ExitCode;

use selfsame_actors::{Clock, SystemClock};
use serde_json::json;

use super::error::CommandError;
use super::exit;
use super::output::Output;
use crate::cli::ConfigCommand;
use crate::config::{self, ConfigError};
use crate::prepared::{Problems, Warning};

/// Runs the command.
pub fn run(command: ConfigCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        ConfigCommand::Check { source, json } => {
            let checked = source.prepare(SystemClock.unix_seconds());
            if json {
                return print_check(checked.map(|(config, _)| Warning::all(&config)), out);
            }
            let (config, _) = checked?;
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
        ConfigCommand::Schema => out.print_json(&config::schema())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what a check found as JSON.
fn print_check(checked: Result<Vec<Warning>, Problems>, out: &mut Output) -> Result<ExitCode, CommandError> {
    let (status, problems, warnings) = match checked {
        Ok(warnings) => (ExitCode::SUCCESS, Vec::new(), warnings),
        Err(problems) => (ExitCode::from(exit::CONFIGURATION), problems.lines(), Vec::new()),
    };
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    out.print_json(&json!({"problems": problems, "warnings": warnings}))?;
    Ok(status)
}
