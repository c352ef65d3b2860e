//! The commands of `selfsame`.

mod app;
mod registry;
mod serve;

use std::process::ExitCode;

use crate::cli::{Arguments, Command};

/// Why a command ends with a message: anything, each with its own text.
pub type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a command.
pub fn run(arguments: Arguments) -> Result<ExitCode, CommandError> {
    match arguments.command {
        Command::Serve(options) => serve::serve(options),
        Command::Registry(command) => registry::run(command),
        Command::App(command) => app::run(command),
        #[cfg(feature = "wallet")]
        Command::Wallet(command) => wallet(command),
    }
}

#[cfg(feature = "wallet")]
fn wallet(command: selfsame_wallet::command::WalletCommand) -> Result<ExitCode, CommandError> {
    use selfsame_actors::{Random, SystemRandom};

    let mut random = |bytes: &mut [u8; 32]| SystemRandom.fill(bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut out = std::io::stdout();
    let done = selfsame_wallet::command::run(command, &mut random, &std::time::Instant::now, &mut out);
    runtime.block_on(done)?;
    Ok(ExitCode::SUCCESS)
}
