//! `selfsame cluster …`: the replicas of a cluster.

use std::path::Path;
use std::process::ExitCode;

use selfsame_protocol::operator::{ClusterStatus, Replica, ReplicaRemoval};
use selfsame_storage::Store;
use serde::Deserialize;

use super::error::CommandError;
use super::output::Output;
use crate::backup::check_data_folder;
use crate::cli::ClusterCommand;
use crate::daemon::store_folder;

/// Size of the block cache of the store of a stopped daemon, in bytes: a few records are read.
const CACHE: usize = 1 << 20;

/// The part of `/status` that is shown.
#[derive(Deserialize)]
struct Status {
    cluster: Option<ClusterStatus>,
}

/// Runs the command.
pub async fn run(command: ClusterCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        ClusterCommand::Status { json, options } => {
            let Status { cluster } = options.get("/status").await?;
            let cluster =
                cluster.ok_or("the daemon is not a replica of a cluster: its configuration has no [cluster]")?;
            match json {
                true => out.print_json(&cluster)?,
                false => out.print(&text(&cluster))?,
            }
            let is_whole = cluster.leader.is_some() && cluster.replicas.iter().all(|replica| replica.running);
            Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ClusterCommand::Remove { name, options } => {
            let ReplicaRemoval { name } = options.post("/cluster/remove", &ReplicaRemoval { name }).await?;
            writeln!(out, "{name} removed")?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Leave { data } => leave(&data, out),
    }
}

fn leave(data: &Path, out: &mut Output) -> Result<ExitCode, CommandError> {
    check_data_folder(data)?;
    let store = Store::open_existing(&store_folder(data), CACHE)?;
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
fn text(status: &ClusterStatus) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(text(&status), expected);
        (status.leader, status.journal_end, status.replicas) = (None, None, Vec::new());
        assert!(text(&status).starts_with("no replica leads\nreplica "), "{}", text(&status));
        status.leader_error = Some("etcd gives no answer".to_owned());
        assert!(text(&status).starts_with("etcd gives no answer\n"));
    }
}
