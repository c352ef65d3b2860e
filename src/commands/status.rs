//! `selfsame status`: how a running daemon is doing.

use std::process::ExitCode;

use serde_json::Value;

use super::error::CommandError;
use super::output::Output;
use crate::operator_client::OperatorOptions;

/// Runs the command; exit status 1 when the daemon is not ready.
pub async fn run(json: bool, options: OperatorOptions, out: &mut Output) -> Result<ExitCode, CommandError> {
    let status: Value = options.get("/status").await?;
    match json {
        true => out.print_json(&status)?,
        false => out.print(&text(&status))?,
    }
    Ok(if status["ready"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The printed text: readiness, the version, the numbers of registry and verifier, the last backup,
/// a line for each actor.
fn text(status: &Value) -> String {
    let mut lines = Vec::new();
    let reasons: Vec<&str> = status["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    lines.push(if reasons.is_empty() { "ready".to_owned() } else { format!("not ready: {}", reasons.join("; ")) });
    if let Some(version) = status["version"].as_str() {
        let commit = status["commit"].as_str().unwrap_or("not known");
        lines.push(format!("version {version}, commit {commit}"));
    }
    for part in ["registry", "verifier"] {
        lines.push(part.to_owned());
        for (name, value) in status[part].as_object().into_iter().flatten() {
            lines.push(format!("  {:<24}{value}", name.replace('_', " ")));
        }
    }
    if let Some(backup) = status["backups"].as_array().and_then(|backups| backups.last()) {
        let text = |name: &str| backup[name].as_str().unwrap_or_default().to_owned();
        lines.push(format!("last backup\n  {} of {} in {}", text("state"), text("begun_at"), text("folder")));
        lines.extend(backup["message"].as_str().map(|message| format!("  {message}")));
    }
    lines.push("actors".to_owned());
    for actor in status["actors"].as_array().into_iter().flatten() {
        let (name, state) = (actor["name"].as_str().unwrap_or_default(), actor["state"].as_str().unwrap_or_default());
        lines.push(format!("  {name:<38}{state}, {} restarts", actor["restarts"]));
    }
    if let Some(outcome) = status["reload"]["outcome"].as_str() {
        let time = status["reload"]["time"].as_str().unwrap_or_default();
        lines.push(format!("configuration last read again {time}: {outcome}"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_is_rendered_as_text() {
        let status = json!({
            "ready": false, "reasons": ["one", "two"], "version": "1.2.3", "commit": "0123abc", "registry": {"open_requests": 3}, "verifier": {"good": 7},
            "backups": [
                {"state": "complete", "begun_at": "2027-01-01T00:00:00Z", "folder": "/b/1", "message": null},
                {"state": "failed", "begun_at": "2027-01-01T01:00:00Z", "folder": "/b/2", "message": "the disk is full"},
            ],
            "actors": [{"name": "selfsame-0/registry/batcher", "state": "running", "restarts": 2}],
            "reload": {"outcome": "refused", "time": "2026-07-01T00:00:00Z", "problems": ["x"]},
        });
        let expected = "not ready: one; two\nversion 1.2.3, commit 0123abc\nregistry\n  open requests           3\nverifier\n  good                    7\nlast backup\n  failed of 2027-01-01T01:00:00Z in /b/2\n  the disk is full\nactors\n  selfsame-0/registry/batcher           running, 2 restarts\nconfiguration last read again 2026-07-01T00:00:00Z: refused\n";
        assert_eq!(text(&status), expected);
    }
}
