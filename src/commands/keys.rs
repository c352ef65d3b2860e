//! `selfsame keys …`: the signing keys of a running daemon.

use std::process::ExitCode;

use selfsame_protocol::operator::{Key, Revoke, Rotate};

use super::error::CommandError;
use crate::cli::Keys;

/// Runs the command.
pub async fn run(command: Keys) -> Result<ExitCode, CommandError> {
    let keys: Vec<Key> = match command {
        Keys::List { options } => options.get("/keys").await?,
        Keys::Rotate { now, options } => options.post("/keys/rotate", &Rotate { now }).await?,
        Keys::Revoke { kid, end_sessions, options } => {
            options.post("/keys/revoke", &Revoke { kid, end_sessions }).await?
        }
    };
    for Key { kid, state, published_at } in keys {
        println!("{kid} {state:<8} since {published_at}");
    }
    Ok(ExitCode::SUCCESS)
}
