//! The commands of `selfsame`: the program's entry, and the texts for shells and for `man`.
//!
//! | module | what it has |
//! |---|---|
//! | [`serve`] | `serve`: runs the daemon |
//! | [`operator`] | what a running daemon is asked: `status`, `cluster`, `reload`, `keys`, `account`, `roots`, `webhooks` |
//! | [`group`] | `group`: groups, their members and rolls |
//! | [`backup`] | `backup` and `restore` |
//! | [`registry`] | `registry` and `store`: the data of a stopped daemon |
//! | [`chain`] | `chain`: what is followed from chains, and whether it can be |
//! | [`wallet_page`] | `wallet-page`: whether a web wallet is the one of this program |
//! | [`config`] | `config` and `app`: the configuration, and the applications in it |
//! | [`outcome`] | what a command prints, its error, and the exit status |

mod backup;
mod chain;
mod config;
mod group;
mod operator;
mod outcome;
mod registry;
mod serve;
mod wallet_page;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use selfsame_interfaces::operator::Build;

use crate::cli::{Arguments, Command};
use crate::logging;
use crate::process::end_at_once;
use outcome::{Output, OutputError};

pub use outcome::CommandError;

/// Runs the program with its arguments. Errors go to the standard error; the result is the exit
/// status, as `exit.rs` decides it; `serve` ends the process itself. `build` is what `--version`
/// and the daemon's status show.
pub fn main(arguments: impl Iterator<Item = OsString>, build: Build) -> ExitCode {
    let _log = logging::FlushOnDrop;
    let arguments: Vec<OsString> = arguments.collect();
    // Before anything else, because until here SIGHUP ends the process.
    if arguments.get(1).is_some_and(|command| command == "serve") {
        serve::ignore_hangup();
    }
    let mut out = Output::standard();
    let mut is_daemon = false;
    let done = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => {
            is_daemon = matches!(arguments.command, Command::Serve(_));
            run(arguments, build, &mut out)
        }
        // Help and version are such errors, too. The library knows the version without its commit.
        Err(error) if error.kind() == ErrorKind::DisplayVersion => print_version(build, &mut out),
        Err(error) => match error.print() {
            Ok(()) => Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(outcome::FAILURE))),
            Err(error) => Err(OutputError(error).into()),
        },
    };
    let done = done.and_then(|code| Ok(out.flush().map(|()| code)?));
    let (code, status) = match done {
        Ok(code) => (code, 0),
        Err(error) => {
            let status = outcome::status_of(&*error);
            if status != outcome::CLOSED_PIPE {
                let message = format!("selfsame: {error}\n");
                match is_daemon {
                    true => logging::print_last(&message),
                    // `eprint!` panics when standard error cannot be written; this ignores it.
                    false => drop(std::io::stderr().write_all(message.as_bytes())),
                }
            }
            (ExitCode::from(status), status)
        }
    };
    // What does not end in time is left: a commit that the disk does not answer, a stuck actor. The
    // daemon has no other status than these.
    if is_daemon {
        end_at_once(status);
    }
    code
}

/// `selfsame --version`.
fn print_version(build: Build, out: &mut Output) -> Result<ExitCode, CommandError> {
    writeln!(out, "selfsame {build}")?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a command.
fn run(arguments: Arguments, build: Build, out: &mut Output) -> Result<ExitCode, CommandError> {
    match arguments.command {
        Command::Serve(options) => serve::serve(&options, build, out),
        Command::Config(command) => config::run(command, out),
        Command::Registry(command) => registry::run(command, out),
        Command::App(command) => config::run_app(command, out),
        Command::Chain(command) => block_on(chain::run(command, out)),
        Command::Roots(command) => block_on(operator::run_roots(command, out)),
        Command::Webhooks(command) => block_on(operator::run_webhooks(command, out)),
        Command::Cluster(command) => block_on(operator::run_cluster(command, out)),
        Command::Keys(command) => block_on(operator::run_keys(command, out)),
        Command::Group(command) => block_on(group::run(command, out)),
        Command::WalletPage(command) => block_on(wallet_page::run(command, out)),
        Command::Account(command) => block_on(operator::run_account(command, out)),
        Command::Reload { json, options } => block_on(operator::run_reload(json, options, out)),
        Command::Backup(command) => backup::run(command, out),
        Command::Store(command) => registry::run_store(command, out),
        Command::Restore(options) => backup::run_restore(options, out),
        Command::Status { json, ready, options } => block_on(operator::run_status(json, ready, options, out)),
        Command::Completions { shell } => print_completions(shell, out),
        Command::Man { folder } => write_man_pages(&folder),
        #[cfg(feature = "wallet")]
        Command::Wallet(command) => wallet(command, out),
        #[cfg(not(feature = "wallet"))]
        Command::Wallet { .. } => Err("this program was built without the feature wallet".into()),
    }
}

/// Runs a command that calls a server, on a runtime of one thread.
fn block_on(command: impl Future<Output = Result<ExitCode, CommandError>>) -> Result<ExitCode, CommandError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

#[cfg(feature = "wallet")]
fn wallet(command: selfsame_wallet::command::WalletCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    use selfsame_actors::{Clock, Random, SystemClock, SystemRandom};
    use selfsame_wallet::command::{Clocks, run};

    let mut random = |bytes: &mut [u8; 32]| SystemRandom.fill(bytes);
    let clocks = Clocks { monotonic: &std::time::Instant::now, unix: &|| SystemClock.unix_seconds() };
    block_on(async {
        run(command, &mut random, &clocks, out.writer()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(all(test, not(feature = "wallet")))]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_wallet_names_the_feature() {
        for arguments in [&[][..], &["--help"], &["create-account", "--gateway", "http://127.0.0.1:1"]] {
            let arguments = Arguments::try_parse_from([&["selfsame", "wallet"][..], arguments].concat()).unwrap();
            let error = run(arguments, Build::of_commit(None, None), &mut Output::standard()).unwrap_err();
            assert!(error.to_string().contains("the feature wallet"), "{error}");
        }
    }
}

// `selfsame completions` and `selfsame man`: what shells and `man` know about the commands.

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
