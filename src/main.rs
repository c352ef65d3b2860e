//! `selfsame`: see `selfsame --help`.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use selfsame::cli::Arguments;

fn main() -> ExitCode {
    match selfsame::commands::run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            // `eprintln!` panics when standard error cannot be written; this ignores the error.
            let _ = writeln!(std::io::stderr(), "selfsame: {error}");
            ExitCode::FAILURE
        }
    }
}
