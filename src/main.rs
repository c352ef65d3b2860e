//! `selfsame`: see `selfsame --help`.

use std::process::ExitCode;

use clap::Parser;
use selfsame::cli::Arguments;

fn main() -> ExitCode {
    match selfsame::commands::run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("selfsame: {error}");
            ExitCode::FAILURE
        }
    }
}
