//! `selfsame webhooks …`: the webhooks of a running daemon.

use std::process::ExitCode;

use selfsame_protocol::operator::{ChangedDeadLetters, ListedDeadLetter, WebhookStatus};
use serde_json::json;

use super::error::CommandError;
use super::output::{Output, OutputError};
use crate::cli::Webhooks;

/// Runs the command.
pub async fn run(command: Webhooks, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        Webhooks::List { json, options } => {
            let webhooks: Vec<WebhookStatus> = options.get("/webhooks").await?;
            if json {
                out.print_json(&webhooks)?;
                return Ok(ExitCode::SUCCESS);
            }
            for webhook in webhooks {
                print(out, &webhook)?;
            }
        }
        Webhooks::DeadLetters { id, after, json, options } => {
            let after = after.map(|after| format!("?after={after}")).unwrap_or_default();
            let dead: Vec<ListedDeadLetter> = options.get(&format!("/webhooks/{id}/dead-letters{after}")).await?;
            if json {
                out.print_json(&dead)?;
                return Ok(ExitCode::SUCCESS);
            }
            for ListedDeadLetter { position, event_id, kind, attempts, failed_at, failure } in dead {
                let kind = kind.map_or("-", |kind| kind.name());
                let event_id = event_id.as_deref().unwrap_or("-");
                writeln!(out, "{position} {event_id} {kind} attempts: {attempts}, {failed_at}: {failure}")?;
            }
        }
        Webhooks::Retry { id, options } => {
            let path = format!("/webhooks/{id}/dead-letters/retry");
            let ChangedDeadLetters { count } = options.post(&path, &json!({})).await?;
            writeln!(out, "dead letters of {id} that are sent again: {count}")?;
        }
        Webhooks::Discard { id, options } => {
            let path = format!("/webhooks/{id}/dead-letters/discard");
            let ChangedDeadLetters { count } = options.post(&path, &json!({})).await?;
            writeln!(out, "dead letters of {id} that were removed: {count}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut Output, webhook: &WebhookStatus) -> Result<(), OutputError> {
    let WebhookStatus { id, url, events, behind, waiting, dead_letters, lost, delivered, last_failure, .. } = webhook;
    let audience = webhook.app_id.as_deref().unwrap_or("operator");
    let events = events.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    writeln!(out, "{id}: {url}")?;
    writeln!(out, "  {events} ({audience})")?;
    let lost = if *lost == 0 { String::new() } else { format!(", lost: {lost}") };
    writeln!(
        out,
        "  delivered since the start: {delivered}, records behind: {behind}, waiting for another attempt: {waiting}, \
         dead letters: {dead_letters}{lost}"
    )?;
    if let Some(failure) = last_failure {
        writeln!(out, "  the last attempt that failed: {failure}")?;
    }
    Ok(())
}
