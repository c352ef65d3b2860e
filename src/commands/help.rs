//! `selfsame completions` and `selfsame man`: what shells and `man` know about the commands.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::error::CommandError;
use super::output::Output;
use crate::cli::Arguments;

/// The name of the program.
const PROGRAM: &str = "selfsame";

/// Prints the completions of a shell.
pub fn print_completions(shell: Shell, out: &mut Output) -> Result<ExitCode, CommandError> {
    // The library panics when its writer fails; a vector does not.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    out.print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a man page for each command into a folder.
pub fn write_man_pages(folder: &Path) -> Result<ExitCode, CommandError> {
    clap_mangen::generate_to(Arguments::command(), folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
