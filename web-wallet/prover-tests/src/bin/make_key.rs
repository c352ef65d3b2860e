//! Writes the file of the prover's key, and prints its SHA-256:
//!
//! ```sh
//! cd web-wallet && cargo run --release --bin make_key -- prover/key.bin
//! ```

use std::process::ExitCode;

use selfsame_prover::key::KEY_HASH;
use selfsame_prover::sha256::sha256;
use selfsame_prover_tests::{make_key, read_artefacts};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: make_key FILE");
        return ExitCode::from(2);
    };
    let made = read_artefacts().and_then(|artefacts| make_key(&artefacts));
    let written = made.and_then(|file| std::fs::write(path, &file).map(|()| file).map_err(|error| error.to_string()));
    match written {
        Ok(file) => {
            let hash = sha256(&file);
            println!("{}", hash.map(|byte| format!("{byte:02x}")).concat());
            if hash != KEY_HASH {
                println!("the prover knows another hash: {hash:#04x?}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("make_key: {error}");
            ExitCode::FAILURE
        }
    }
}
