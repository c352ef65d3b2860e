//! `selfsame roots …`: the trusted roots of a running daemon.

use std::process::ExitCode;

use selfsame_protocol::number;
use selfsame_protocol::operator::Root;
use serde_json::json;

use super::CommandError;
use crate::cli::Roots;

/// Runs the command.
pub async fn run(command: Roots) -> Result<ExitCode, CommandError> {
    let roots: Vec<Root> = match command {
        Roots::Add { root, kind, environment, time, options } => {
            // The root goes as it was typed: the daemon's answer says what is wrong with it.
            let new = json!({"root": root, "kind": kind, "environment": environment, "time": time});
            vec![options.post("/roots", &new).await?]
        }
        Roots::List { options } => options.get("/roots").await?,
    };
    for Root { root, kind, environment, time } in roots {
        println!("{} {} {time} {}", kind.name(), environment.name(), number::canonical(root));
    }
    Ok(ExitCode::SUCCESS)
}
