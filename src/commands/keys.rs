//! `selfsame keys …`: the signing keys of a running daemon.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::CommandError;
use crate::cli::Keys;

/// Runs the command.
pub async fn run(command: Keys) -> Result<ExitCode, CommandError> {
    let keys = match command {
        Keys::List { options } => options.get("/keys").await?,
        Keys::Rotate { now, options } => options.post("/keys/rotate", &json!({ "now": now })).await?,
    };
    for key in keys.as_array().into_iter().flatten() {
        println!("{}", line(key));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(key: &Value) -> String {
    let text = |name: &str| key[name].as_str().unwrap_or_default();
    format!("{} {:<8} since {}", text("kid"), text("state"), text("published_at"))
}
