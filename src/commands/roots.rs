//! `selfsame roots …`: the trusted roots of a running daemon.

use std::process::ExitCode;

use selfsame_protocol::number;
use selfsame_protocol::operator::{ListedRoot, RootRemoval};
use selfsame_protocol::verification::LegacyIdentifier;
use serde_json::json;

use super::error::CommandError;
use super::output::Output;
use crate::cli::Roots;

/// Runs the command.
pub async fn run(command: Roots, out: &mut Output) -> Result<ExitCode, CommandError> {
    // A root is sent as it was typed: the daemon checks it, and its answer says what is wrong.
    let roots: Vec<ListedRoot> = match command {
        Roots::Add { root, kind, environment, identifiers, time, options } => {
            let new = json!({
                "root": root, "kind": kind, "environment": environment, "identifiers": identifiers, "time": time,
            });
            vec![options.post("/roots", &new).await?]
        }
        Roots::Remove { root, kind, environment, options } => {
            let old = json!({"root": root, "kind": kind, "environment": environment});
            let RootRemoval { root, kind, environment } = options.post("/roots/remove", &old).await?;
            let root = number::canonical(root);
            writeln!(out, "{} {} {root} is no longer trusted", kind.name(), environment.name())?;
            return Ok(ExitCode::SUCCESS);
        }
        Roots::List { json: true, options } => {
            out.print_json(&options.get::<Vec<ListedRoot>>("/roots").await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Roots::List { json: false, options } => options.get("/roots").await?,
    };
    for ListedRoot { root, kind, environment, identifiers, time } in roots {
        let identifiers: Vec<_> = identifiers.into_iter().map(LegacyIdentifier::name).collect();
        let identifiers = if identifiers.is_empty() { "-".to_owned() } else { identifiers.join(",") };
        let root = number::canonical(root);
        writeln!(out, "{} {} {time} {identifiers} {root}", kind.name(), environment.name())?;
    }
    Ok(ExitCode::SUCCESS)
}
