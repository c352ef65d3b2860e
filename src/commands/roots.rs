//! `selfsame roots …`: the trusted roots of a running daemon.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::CommandError;
use crate::cli::Roots;

/// Runs the command.
pub async fn run(command: Roots) -> Result<ExitCode, CommandError> {
    match command {
        Roots::Add { root, kind, environment, time, options } => {
            let body = json!({"root": root, "kind": kind, "environment": environment, "time": time});
            let trusted = options.post("/roots", &body).await?;
            println!("{}", line(&trusted));
        }
        Roots::List { options } => {
            let trusted = options.get("/roots").await?;
            for root in trusted.as_array().into_iter().flatten() {
                println!("{}", line(root));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(root: &Value) -> String {
    let text = |name: &str| root[name].as_str().unwrap_or_default();
    format!("{} {} {} {}", text("kind"), text("environment"), text("time"), text("root"))
}
