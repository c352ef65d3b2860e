//! The commands of `selfsame`.

mod app;
mod backup;
mod chain;
mod error;
mod keys;
mod registry;
mod restore;
mod roots;
mod serve;
mod status;

use std::process::ExitCode;

pub use error::CommandError;

use crate::cli::{Arguments, Command};

/// Runs a command.
pub fn run(arguments: Arguments) -> Result<ExitCode, CommandError> {
    match arguments.command {
        Command::Serve(options) => serve::serve(options),
        Command::Registry(command) => registry::run(command),
        Command::App(command) => app::run(command),
        Command::Chain(command) => block_on(chain::run(command)),
        Command::Roots(command) => block_on(roots::run(command)),
        Command::Keys(command) => block_on(keys::run(command)),
        Command::Backup(command) => backup::run(command),
        Command::Restore(options) => restore::run(options),
        Command::Status(options) => block_on(status::run(options)),
        #[cfg(feature = "wallet")]
        Command::Wallet(command) => wallet(command),
    }
}

/// Runs a command that calls a server, on a runtime of one thread.
fn block_on(command: impl Future<Output = Result<ExitCode, CommandError>>) -> Result<ExitCode, CommandError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

#[cfg(feature = "wallet")]
fn wallet(command: selfsame_wallet::command::WalletCommand) -> Result<ExitCode, CommandError> {
    use selfsame_actors::{Random, SystemRandom};

    let mut random = |bytes: &mut [u8; 32]| SystemRandom.fill(bytes);
    let mut out = std::io::stdout();
    block_on(async {
        selfsame_wallet::command::run(command, &mut random, &std::time::Instant::now, &mut out).await?;
        Ok(ExitCode::SUCCESS)
    })
}
