//! The commands that ask a running daemon, and three that do the same to the store of a stopped one
//! (`cluster leave`, `keys revoke`, `account subjects`).

use std::path::Path;
use std::process::ExitCode;

use selfsame_actors::{Clock, SystemClock, change_stored_subjects, revoke_stored_keys};
use selfsame_interfaces::operator::time_text;
use selfsame_protocol::number;
use selfsame_protocol::operator::{
    ChangedDeadLetters, ChangedSubjects, ClusterStatus, Key, ListedDeadLetter, ListedRoot, NewSubjects, ReloadOutcome,
    ReloadReport, Replica, ReplicaRemoval, Revoke, RootRemoval, Rotate, ShownAccount, WebhookStatus,
};
use selfsame_protocol::sign_in::accounts::DecidedSubjects;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_storage::Store;
use serde::Deserialize;
use serde_json::{Value, json};

use super::outcome::{self, CommandError, Output, OutputError};
use crate::backup::check_data_folder;
use crate::cli::{Account, ClusterCommand, Keys, Roots, Webhooks};
use crate::daemon::store_folder;
use crate::operator_client::OperatorOptions;

// `selfsame status`: how a running daemon is doing.

/// Runs the command; exit status 1 when the daemon is not ready, or, unless only readiness counts,
/// something needs attention.
pub async fn run_status(
    json: bool,
    only_ready: bool,
    options: OperatorOptions,
    out: &mut Output,
) -> Result<ExitCode, CommandError> {
    let status: Value = options.get("/status").await?;
    match json {
        true => out.print_json(&status)?,
        false => out.print(&text_of_status(&status))?,
    }
    let is_well = status["ready"] == true && (only_ready || status["degraded"] != true);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The printed text: readiness, what needs attention, the version, the numbers of registry and
/// verifier, chains, webhooks, groups, the last backup, a line for each actor.
fn text_of_status(status: &Value) -> String {
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
    let mut groups = list(&status["groups"]).peekable();
    lines.extend(groups.peek().map(|_| "groups".to_owned()));
    for group in groups {
        let [members, invited, links, roots] =
            ["members", "invited", "open_links", "live_roots"].map(|name| &group[name]);
        lines.push(format!(
            "  {:<37} {members} members, {invited} invited, {links} open links, {roots} live roots",
            of(group, "id")
        ));
        lines.extend(group["failure"].as_str().map(|failure| format!("    {failure}")));
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

// `selfsame cluster …`: the replicas of a cluster.

/// Size of the block cache of the store of a stopped daemon, in bytes: a few records are read.
const RECORDS_CACHE: usize = 1 << 20;

/// The part of `/status` that is shown.
#[derive(Deserialize)]
struct ClusterPart {
    cluster: Option<ClusterStatus>,
}

/// Runs the command.
pub async fn run_cluster(command: ClusterCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        ClusterCommand::Status { json, options } => {
            let ClusterPart { cluster } = options.get("/status").await?;
            let cluster =
                cluster.ok_or("the daemon is not a replica of a cluster: its configuration has no [cluster]")?;
            match json {
                true => out.print_json(&cluster)?,
                false => out.print(&text_of_cluster(&cluster))?,
            }
            let is_whole = cluster.leader.is_some() && cluster.replicas.iter().all(|replica| replica.running);
            Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ClusterCommand::Remove { name, options } => {
            let ReplicaRemoval { name } = options.post("/cluster/remove", &ReplicaRemoval { name }).await?;
            writeln!(out, "{name} removed")?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Leave { data } => leave_cluster(&data, out),
    }
}

fn leave_cluster(data: &Path, out: &mut Output) -> Result<ExitCode, CommandError> {
    check_data_folder(data)?;
    let store = Store::open_existing(&store_folder(data), RECORDS_CACHE)?;
    match store.membership()? {
        None => writeln!(out, "the store is that of a daemon that is alone already")?,
        Some(_) => {
            let position = store.journal_position()?;
            store.leave_cluster()?;
            writeln!(
                out,
                "the store has left the cluster at entry {position} of its journal; without [cluster] the daemon is alone, and \
                 with it founds a cluster in an etcd that has none"
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The printed text: who leads, and a line for each replica.
fn text_of_cluster(status: &ClusterStatus) -> String {
    let mut lines = vec![match (&status.leader, &status.leader_error) {
        (Some(leader), _) => format!("{leader} leads"),
        (None, Some(error)) => error.clone(),
        (None, None) => "no replica leads".to_owned(),
    }];
    if let Some(end) = status.journal_end {
        lines.push(format!("the journal ends at entry {end}"));
    }
    lines.push(format!(
        "{:<16} {:<8} {:>8} {:>12} {:>12}  {}",
        "replica", "state", "lacks", "block", "version", "address"
    ));
    for Replica { name, address, version, running, lag, height, .. } in &status.replicas {
        let state = if *running { "running" } else { "silent" };
        let lag = lag.map_or_else(|| "?".to_owned(), |lag| lag.to_string());
        lines.push(format!("{name:<16} {state:<8} {lag:>8} {height:>12} {version:>12}  {address}"));
    }
    lines.join("\n") + "\n"
}

// `selfsame reload`: a running daemon reads its configuration again.

/// Runs the command; exit status 78 when the new configuration was refused.
pub async fn run_reload(json: bool, options: OperatorOptions, out: &mut Output) -> Result<ExitCode, CommandError> {
    let report: ReloadReport = options.post("/reload", &json!({})).await?;
    match json {
        true => out.print_json(&report)?,
        false => out.print(&text_of_reload(&report))?,
    }
    Ok(match report.outcome {
        ReloadOutcome::Success => ExitCode::SUCCESS,
        ReloadOutcome::Refused => ExitCode::from(outcome::CONFIGURATION),
    })
}

/// The printed text: what came of it, then a line for each setting or problem.
fn text_of_reload(report: &ReloadReport) -> String {
    let ReloadReport { outcome, changed, needs_restart, problems, .. } = report;
    let mut text = String::from(match outcome {
        ReloadOutcome::Refused => "refused; the old configuration stays in force\n",
        ReloadOutcome::Success if changed.is_empty() => "read again; no setting in force has changed\n",
        ReloadOutcome::Success => "read again; in force from now on\n",
    });
    let mut add = |lines: &[String]| lines.iter().for_each(|line| text.extend(["  ", line, "\n"]));
    add(changed);
    add(problems);
    if !needs_restart.is_empty() {
        text.push_str("changed, and waiting for a restart\n");
        needs_restart.iter().for_each(|key| text.extend(["  ", key, "\n"]));
    }
    text
}

// `selfsame keys …`: the signing keys of a running daemon, and of the store of a stopped one.

/// Runs the command.
pub async fn run_keys(command: Keys, out: &mut Output) -> Result<ExitCode, CommandError> {
    let keys: Vec<Key> = match command {
        Keys::List { json: true, options } => {
            out.print_json(&options.get::<Vec<Key>>("/keys").await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Keys::List { json: false, options } => options.get("/keys").await?,
        Keys::Rotate { now, options } => options.post("/keys/rotate", &Rotate { now }).await?,
        Keys::Revoke { kid: Some(kid), end_sessions, options, .. } => {
            options.post("/keys/revoke", &Revoke { kid, end_sessions }).await?
        }
        Keys::Revoke { kid: None, end_sessions, registry_key, options, .. } => {
            revoke_all(&options.data, end_sessions, registry_key, out)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    for Key { kid, state, published_at } in keys {
        writeln!(out, "{kid} {state:<8} since {published_at}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes all keys from the store of a stopped daemon. A daemon does not start with keys that it
/// cannot decrypt, so this is the way on when the encryption key is lost.
fn revoke_all(data: &Path, end_sessions: bool, registry_key: bool, out: &mut Output) -> Result<(), CommandError> {
    check_data_folder(data)?;
    let store = Store::open_existing(&store_folder(data), RECORDS_CACHE)?;
    if store.membership()?.is_some() {
        return Err(
            "the store is a replica of a cluster, whose other replicas would keep the keys; revoke them at one \
                    that runs, or make the store alone first: selfsame cluster leave"
                .into(),
        );
    }
    let removed = revoke_stored_keys(&store, SystemClock.unix_seconds(), end_sessions, registry_key)?;
    match removed.is_empty() {
        true => writeln!(out, "no signing keys are stored; the daemon makes some when it starts")?,
        false => {
            for kid in removed {
                writeln!(out, "{kid} removed")?;
            }
            writeln!(out, "the daemon makes new signing keys when it starts")?;
        }
    }
    if registry_key {
        writeln!(out, "the key of the registry's heads is removed; wallets that know it refuse the registry")?;
    }
    if end_sessions {
        writeln!(out, "all sign-ins up to now have ended")?;
    }
    Ok(())
}

// `selfsame account …`: accounts of sign-in.

/// Runs the command.
pub async fn run_account(command: Account, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        Account::Show { app, sub, environment, json, options } => {
            let query = json!({"app_id": app, "environment": environment, "sub": sub});
            let account: ShownAccount = options.post("/accounts/show", &query).await?;
            if json {
                out.print_json(&account)?;
                return Ok(ExitCode::SUCCESS);
            }
            write_account(&account, out)?;
        }
        Account::Link { app, sub, keep, of_two, environment, json, options } => {
            let choice = json!({"app_id": app, "environment": environment, "sub": sub, "keep": keep, "of_two": of_two});
            let account: ShownAccount = options.post("/accounts/link", &choice).await?;
            if json {
                out.print_json(&account)?;
                return Ok(ExitCode::SUCCESS);
            }
            write_account(&account, out)?;
        }
        Account::Subjects { app, to, environment, stopped, options } => {
            let new = json!({"app_id": app, "environment": environment, "subject": to});
            let ChangedSubjects { app_id, environment, subject, before, .. } = match stopped {
                false => options.post("/accounts/subjects", &new).await?,
                true => change_stored(serde_json::from_value(new)?, &options.data)?,
            };
            let (environment, before, kind) = (environment.name(), before.name(), subject.name());
            if before == kind {
                writeln!(out, "new accounts of {app_id} in {environment} have subjects of the kind {kind} already")?;
                return Ok(ExitCode::SUCCESS);
            }
            writeln!(
                out,
                "new accounts of {app_id} in {environment} have subjects of the kind {kind} from now on, no more of the \
                 kind {before}; existing ones keep theirs"
            )?;
            writeln!(out, "set subject = {kind:?} of the application: the next start and reload refuse another one")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_account(account: &ShownAccount, out: &mut Output) -> Result<(), CommandError> {
    let ShownAccount { app_id, environment, sub, created_on, human_at, identifier, generation, .. } = account;
    writeln!(out, "{sub} at {app_id} in {}", environment.name())?;
    writeln!(out, "  made on                 {created_on}")?;
    writeln!(out, "  last proof in the hour  {human_at}")?;
    writeln!(out, "  credential              {identifier}")?;
    writeln!(out, "  generation              {generation}")?;
    let ShownAccount { has_legacy, has_current, attached_at, is_provisional, disputed_at, .. } = account;
    if *has_legacy {
        writeln!(out, "  legacy proofs           sign in, or lead to the account")?;
    }
    match (attached_at, disputed_at) {
        (Some(first), Some(second)) => {
            writeln!(
                out,
                "  current proofs          of two persons: first {first}, second {second}; neither of them signs in"
            )?;
            let environment = environment.name();
            writeln!(
                out,
                "choose with: selfsame account link {app_id} {sub} --environment {environment} --keep first"
            )?;
            writeln!(out, "or with --keep second, or --keep none")?;
        }
        (Some(first), None) => {
            let state = if *is_provisional { "lately, and legacy proofs sign in as well" } else { "for good" };
            writeln!(out, "  current proofs          attached {first}, {state}")?;
        }
        (None, _) if *has_current => writeln!(out, "  current proofs          sign in")?,
        (None, _) => writeln!(out, "  current proofs          none")?,
    }
    Ok(())
}

/// The same as a running daemon does, in the store of a stopped one.
fn change_stored(new: NewSubjects, data: &Path) -> Result<ChangedSubjects, CommandError> {
    let NewSubjects { app_id, environment, subject } = new;
    let environment = environment.unwrap_or_else(|| Environment::of_application(&app_id));
    check_data_folder(data)?;
    let store = Store::open_existing(&store_folder(data), RECORDS_CACHE)?;
    if store.membership()?.is_some() {
        return Err(
            "the store is a replica of a cluster, whose other replicas would say otherwise; run the command without \
             --stopped at one that runs, with the old setting"
                .into(),
        );
    }
    let changed = change_stored_subjects(&store, &app_id, environment, subject, SystemClock.unix_seconds())?;
    let DecidedSubjects { kind: before, decided_on, .. } = changed?;
    Ok(ChangedSubjects { app_id, environment, subject, before, before_since: time_text(decided_on) })
}

// `selfsame roots …`: the trusted roots of a running daemon.

/// Runs the command.
pub async fn run_roots(command: Roots, out: &mut Output) -> Result<ExitCode, CommandError> {
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

// `selfsame webhooks …`: the webhooks of a running daemon.

/// Runs the command.
pub async fn run_webhooks(command: Webhooks, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        Webhooks::List { json, options } => {
            let webhooks: Vec<WebhookStatus> = options.get("/webhooks").await?;
            if json {
                out.print_json(&webhooks)?;
                return Ok(ExitCode::SUCCESS);
            }
            for webhook in webhooks {
                print_webhook(out, &webhook)?;
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

fn print_webhook(out: &mut Output, webhook: &WebhookStatus) -> Result<(), OutputError> {
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
            "groups": [{"id": "members", "members": 2, "invited": 3, "open_links": 1, "live_roots": 4, "failure": "the disk is full"}],
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
            "groups",
            "  members                               2 members, 3 invited, 1 open links, 4 live roots",
            "    the disk is full",
            "last backup",
            "  failed of 2027-01-01T01:00:00Z in /b/2",
            "  the disk is full",
            "actors",
            "  selfsame-0/registry/batcher           running, 2 restarts",
            "  selfsame-0/chain/ethereum/secure-document running, 0 restarts",
            "configuration last read again 2026-07-01T00:00:00Z: refused",
            "",
        ];
        assert_eq!(text_of_status(&status), expected.join("\n"));
        for (status, first) in [
            (json!({"ready": true, "reasons": [], "degraded": false}), "ready"),
            (json!({"ready": true, "reasons": [], "degraded": true}), "ready, and needs attention"),
        ] {
            assert_eq!(text_of_status(&status).lines().next(), Some(first));
        }
    }

    mod cluster {
        use super::super::*;

        #[test]
        fn the_replicas_are_rendered_as_text() {
            let replica = |name: &str, running, lag| Replica {
                name: name.to_owned(),
                address: format!("https://{name}.example:8090"),
                version: "1.2.3".to_owned(),
                running,
                silent_seconds: if running { 0 } else { 70 },
                position: 100,
                synced: 90,
                lag,
                height: 12,
            };
            let mut status = ClusterStatus {
                name: "one".to_owned(),
                leader: Some("one".to_owned()),
                leader_error: None,
                term: Some(7),
                journal_end: Some(103),
                staleness_ms: Some(12),
                replicas: vec![replica("one", true, Some(0)), replica("two", false, Some(3))],
            };
            let expected = "one leads\nthe journal ends at entry 103\n\
            replica          state       lacks        block      version  address\n\
            one              running         0           12        1.2.3  https://one.example:8090\n\
            two              silent          3           12        1.2.3  https://two.example:8090\n";
            assert_eq!(text_of_cluster(&status), expected);
            (status.leader, status.journal_end, status.replicas) = (None, None, Vec::new());
            assert!(text_of_cluster(&status).starts_with("no replica leads\nreplica "), "{}", text_of_cluster(&status));
            status.leader_error = Some("etcd gives no answer".to_owned());
            assert!(text_of_cluster(&status).starts_with("etcd gives no answer\n"));
        }
    }

    mod reload {
        use super::super::*;

        #[test]
        fn the_report_is_rendered_as_text() {
            let report = |outcome, changed: &[&str], needs_restart: &[&str], problems: &[&str]| {
                let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
                let time = String::new();
                let (changed, needs_restart, problems) = (list(changed), list(needs_restart), list(problems));
                text_of_reload(&ReloadReport { outcome, time, changed, needs_restart, problems })
            };
            let success = report(ReloadOutcome::Success, &["apps", "tls"], &["data_dir"], &[]);
            let expected =
                "read again; in force from now on\n  apps\n  tls\nchanged, and waiting for a restart\n  data_dir\n";
            assert_eq!(success, expected);
            let unchanged = report(ReloadOutcome::Success, &[], &[], &[]);
            assert_eq!(unchanged, "read again; no setting in force has changed\n");
            let refused = report(ReloadOutcome::Refused, &[], &[], &["a: wrong", "b: wrong"]);
            assert_eq!(refused, "refused; the old configuration stays in force\n  a: wrong\n  b: wrong\n");
        }
    }
}
