//! `selfsame status`: how a running daemon is doing.

use std::process::ExitCode;

use serde_json::Value;

use super::error::CommandError;
use super::output::Output;
use crate::operator_client::OperatorOptions;

/// Runs the command; exit status 1 when the daemon is not ready, or, unless only readiness counts,
/// something needs attention.
pub async fn run(
    json: bool,
    only_ready: bool,
    options: OperatorOptions,
    out: &mut Output,
) -> Result<ExitCode, CommandError> {
    let status: Value = options.get("/status").await?;
    match json {
        true => out.print_json(&status)?,
        false => out.print(&text(&status))?,
    }
    let is_well = status["ready"] == true && (only_ready || status["degraded"] != true);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The printed text: readiness, what needs attention, the version, the numbers of registry and
/// verifier, chains, webhooks, the last backup, a line for each actor.
fn text(status: &Value) -> String {
    let of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    let reasons: Vec<&str> = list(&status["reasons"]).filter_map(Value::as_str).collect();
    let needs = if status["degraded"] == true { "ready, and needs attention" } else { "ready" };
    lines.push(if reasons.is_empty() { needs.to_owned() } else { format!("not ready: {}", reasons.join("; ")) });
    for reason in list(&status["attention"]) {
        let [subject, since, text, remedy] = ["subject", "since", "text", "remedy"].map(|name| of(reason, name));
        lines.push(format!("  {subject} since {since}: {text}"));
        lines.push(format!("    {remedy}"));
    }
    if let Some(version) = status["version"].as_str() {
        let commit = status["commit"].as_str().unwrap_or("not known");
        lines.push(format!("version {version}, commit {commit}"));
    }
    for part in ["registry", "verifier"] {
        lines.push(part.to_owned());
        for (name, value) in status[part].as_object().into_iter().flatten() {
            lines.push(format!("  {:<23} {value}", name.replace('_', " ")));
        }
    }
    let mut sources = list(&status["chains"]).flat_map(|chain| list(&chain["sources"])).peekable();
    lines.extend(sources.peek().map(|_| "chains".to_owned()));
    for source in sources {
        let [name, state] = ["name", "state"].map(|name| of(source, name));
        lines.push(format!("  {name:<37} {state}, block {} of {}", source["read"], source["head"]));
        lines.extend(source["failure"].as_str().map(|failure| format!("    {failure}")));
    }
    let mut webhooks = list(&status["webhooks"]).peekable();
    lines.extend(webhooks.peek().map(|_| "webhooks".to_owned()));
    for webhook in webhooks {
        let [delivered, waiting, dead, behind] =
            ["delivered", "waiting", "dead_letters", "behind"].map(|name| &webhook[name]);
        lines.push(format!(
            "  {:<37} {delivered} delivered, {waiting} waiting, {dead} dead letters, {behind} records behind",
            of(webhook, "id")
        ));
        lines.extend(webhook["last_failure"].as_str().map(|failure| format!("    {failure}")));
    }
    if let Some(backup) = list(&status["backups"]).last() {
        let [state, begun_at, folder] = ["state", "begun_at", "folder"].map(|name| of(backup, name));
        lines.push(format!("last backup\n  {state} of {begun_at} in {folder}"));
        lines.extend(backup["message"].as_str().map(|message| format!("  {message}")));
    }
    lines.push("actors".to_owned());
    for actor in list(&status["actors"]) {
        let [name, state] = ["name", "state"].map(|name| of(actor, name));
        lines.push(format!("  {name:<37} {state}, {} restarts", actor["restarts"]));
    }
    if let Some(outcome) = status["reload"]["outcome"].as_str() {
        lines.push(format!("configuration last read again {}: {outcome}", of(&status["reload"], "time")));
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
            "degraded": true,
            "attention": [{"subject": "backups", "since": "2027-01-01T01:00:00Z", "text": "the last failed", "remedy": "make room"}],
            "chains": [{"sources": [
                {"name": "ethereum/orb", "state": "following", "read": 7, "head": 8, "failure": null},
                {"name": "a-chain-with-a-long-name/secure-document", "state": "stale", "read": 7, "head": 9, "failure": "no answer"},
            ]}],
            "webhooks": [{"id": "orders", "delivered": 1, "waiting": 2, "dead_letters": 3, "behind": 4, "last_failure": "it answered 500"}],
            "backups": [
                {"state": "complete", "begun_at": "2027-01-01T00:00:00Z", "folder": "/b/1", "message": null},
                {"state": "failed", "begun_at": "2027-01-01T01:00:00Z", "folder": "/b/2", "message": "the disk is full"},
            ],
            "actors": [
                {"name": "selfsame-0/registry/batcher", "state": "running", "restarts": 2},
                {"name": "selfsame-0/chain/ethereum/secure-document", "state": "running", "restarts": 0},
            ],
            "reload": {"outcome": "refused", "time": "2026-07-01T00:00:00Z", "problems": ["x"]},
        });
        let expected = [
            "not ready: one; two",
            "  backups since 2027-01-01T01:00:00Z: the last failed",
            "    make room",
            "version 1.2.3, commit 0123abc",
            "registry",
            "  open requests           3",
            "verifier",
            "  good                    7",
            "chains",
            "  ethereum/orb                          following, block 7 of 8",
            "  a-chain-with-a-long-name/secure-document stale, block 7 of 9",
            "    no answer",
            "webhooks",
            "  orders                                1 delivered, 2 waiting, 3 dead letters, 4 records behind",
            "    it answered 500",
            "last backup",
            "  failed of 2027-01-01T01:00:00Z in /b/2",
            "  the disk is full",
            "actors",
            "  selfsame-0/registry/batcher           running, 2 restarts",
            "  selfsame-0/chain/ethereum/secure-document running, 0 restarts",
            "configuration last read again 2026-07-01T00:00:00Z: refused",
            "",
        ];
        assert_eq!(text(&status), expected.join("\n"));
        for (status, first) in [
            (json!({"ready": true, "reasons": [], "degraded": false}), "ready"),
            (json!({"ready": true, "reasons": [], "degraded": true}), "ready, and needs attention"),
        ] {
            assert_eq!(text(&status).lines().next(), Some(first));
        }
    }
}
