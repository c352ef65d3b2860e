//! `selfsame roots …`: the trusted roots of a running daemon.

use std::process::ExitCode;

use selfsame_protocol::number;
use selfsame_protocol::operator::ListedRoot;
use serde_json::json;

use super::error::CommandError;
use crate::cli::Roots;

/// Runs the command.
pub async fn run(command: Roots) -> Result<ExitCode, CommandError> {
    let roots: Vec<ListedRoot> = match command {
        Roots::Add { root, kind, environment, time, options } => {
            // The root is sent as it was typed: the daemon checks it, and its answer says what is
            // wrong.
            let new = json!({"root": root, "kind": kind, "environment": environment, "time": time});
            vec![options.post("/roots", &new).await?]
        }
        Roots::List { options } => options.get("/roots").await?,
    };
    for ListedRoot { root, kind, environment, time } in roots {
        println!("{} {} {time} {}", kind.name(), environment.name(), number::canonical(root));
    }
    Ok(ExitCode::SUCCESS)
}
