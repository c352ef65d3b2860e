//! How the daemon is doing: `GET /status` in one answer, `GET /ready`, the actors, the cluster and
//! the applications. `POST /cluster/remove` removes a replica.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::StatusCode;
use selfsame_actors::{ActorHealth, AttestationIssuerStatus, ChainStatus, RegistryStatistics, VerifierStatistics};
use selfsame_protocol::groups::listed::ListedGroup;
use selfsame_protocol::json::from_object;
use selfsame_protocol::operator::{
    Attention, Backup, ClusterStatus, ReloadReport, Replica, ReplicaRemoval, Restored, WebhookStatus,
};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval, timeout};
use utoipa::ToSchema;

use super::attention::Parts;
use super::daemon_parts::{Build, SeenCluster, SeenReplica};
use super::setup::Operator;
use super::trust::BODY_LIMIT;
use super::{OperatorError, groups, maintenance};
use crate::http::{Request, Response, Shutdown, json};

/// Time between two looks for what needs attention, so that it is logged soon after it begins.
const LOOK: Duration = Duration::from_secs(5);

/// How long a look waits for the store's records of webhooks: its disk may give no answer.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OperatorStatus)]
struct Status {
    /// The members `version`, `commit` and `commit_date`.
    #[serde(flatten)]
    build: Build,
    /// Whole seconds since the daemon was started.
    uptime_seconds: u64,
    /// Whether the daemon can do its work.
    ready: bool,
    /// Why the daemon is not ready; empty when it is.
    reasons: Vec<String>,
    /// Whether something needs the operator's attention, also while the daemon is ready.
    degraded: bool,
    /// What needs the operator's attention, since when, and what to do; empty when nothing does.
    attention: Vec<Attention>,
    /// The registry's numbers since the start.
    #[schema(value_type = Object)]
    registry: RegistryStatistics,
    /// The verifier's numbers since the start.
    #[schema(value_type = Object)]
    verifier: VerifierStatistics,
    /// How the keys of the attestation issuers stand; empty when none is configured.
    #[schema(value_type = Vec<Object>)]
    attestation_issuers: Vec<AttestationIssuerStatus>,
    /// The contracts that are followed on chains; empty when none is.
    #[schema(value_type = Vec<Object>)]
    chains: Vec<ChainStatus>,
    /// The webhooks of the configuration.
    webhooks: Vec<WebhookStatus>,
    /// The groups of the configuration.
    groups: Vec<ListedGroup>,
    /// The last backups since the start, the newest last.
    backups: Vec<Backup>,
    /// The backup that the store was restored from; null when it was not restored.
    restored: Option<Restored>,
    /// The actors, as `/actors` answers them.
    actors: Vec<Actor>,
    /// The cluster that the daemon is a replica of; null when it is alone.
    cluster: Option<ClusterStatus>,
    /// The report of the last reload of the configuration; null before the first one.
    reload: Option<ReloadReport>,
}

/// How the daemon is doing
///
/// Readiness, what needs attention, the registry's numbers and the actors. The status is 200 also
/// when the daemon is not ready.
#[utoipa::path(
    get, path = "/status", tag = "operator", operation_id = "daemon_status", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The status", body = Status),
    ),
)]
pub async fn status(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let reasons = reasons(&operator, &request);
    let parts = parts(&operator).await;
    let attention = operator.attention.list(&parts);
    let status = Status {
        build: operator.build,
        uptime_seconds: operator.started.elapsed().as_secs(),
        ready: reasons.is_empty(),
        reasons,
        degraded: !attention.is_empty(),
        attention,
        registry: operator.service.registry().statistics(),
        verifier: operator.service.verification().statistics(),
        attestation_issuers: parts.attestation_issuers,
        chains: parts.chains,
        webhooks: parts.webhooks.into_iter().map(maintenance::webhook_status).collect(),
        groups: groups::listed_groups(&operator),
        backups: operator.parts.backups(),
        restored: operator.restored.clone(),
        actors: all_actors(&operator),
        cluster: parts.cluster,
        reload: operator.reload_status.last().as_deref().cloned(),
    };
    Ok(json(StatusCode::OK, &status))
}

/// Looks every few seconds for what needs attention until the daemon stops, so that the log has
/// what begins and ends.
pub async fn watch_attention(operator: Arc<Operator>, shutdown: Shutdown) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let look = async {
            ticks.tick().await;
            drop(operator.attention.list(&parts(&operator).await));
        };
        // A look that waits for a disk must not keep the daemon from its end.
        tokio::select! {
            () = shutdown.triggered() => return,
            () = look => {}
        }
    }
}

/// The states of the parts.
async fn parts(operator: &Operator) -> Parts {
    let now = operator.clock.unix_seconds();
    let service = &operator.service;
    let last = service.registry().snapshot().tip().seal;
    let (webhooks, webhooks_error) = match timeout(DISK_PATIENCE, service.events().receivers()).await {
        Ok(Ok(receivers)) => (receivers, None),
        Ok(Err(error)) => (Vec::new(), Some(error.to_string())),
        Err(_) => (Vec::new(), Some("the disk gives no answer".to_owned())),
    };
    Parts {
        now,
        failures: service.failures(),
        disk: operator.disk.read().await,
        last_block: (last.height > 0).then_some(last.time),
        backups: operator.parts.backup_health(),
        webhooks,
        webhooks_error,
        chains: service.chain().status(now),
        attestation_issuers: service.verification().attestation_issuers(),
        rotation_due: service.sign_in().rotation_due(),
        sign_ins_ended_until: service.sign_in().sign_ins_ended_until(),
        certificate_expiry: operator.certificate.as_ref().map(|certificate| certificate.expiry()),
        reload: operator.reload_status.last(),
        log: operator.parts.lost_lines(),
        cluster: cluster_status(operator),
    }
}

// `GET /ready`: whether the daemon can do its work.

/// The answer: 200 when ready, 503 with the reasons when not.
#[derive(Debug, Serialize, ToSchema)]
struct Ready {
    /// Whether the daemon can do its work.
    ready: bool,
    /// Why the daemon is not ready; empty when it is.
    reasons: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PublicReady {
    ready: bool,
}

/// Whether the daemon can do its work
///
/// The daemon is ready when it is not shutting down, all actors answer, commits succeed, and the
/// queues are below their limits. (Without an open store the daemon does not run.)
#[utoipa::path(
    get, path = "/ready", tag = "operator", operation_id = "ready",
    responses(
        (status = 200, description = "It can", body = Ready),
        (status = 503, description = "It cannot; the reasons say why, or it is overloaded", body = Ready),
    ),
)]
pub async fn ready(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let reasons = reasons(&operator, &request);
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(json(status, &Ready { ready: reasons.is_empty(), reasons }))
}

/// The same for the interfaces that the public reaches: whether, and not why.
pub async fn public_ready(operator: Arc<Operator>, request: Request) -> Response {
    let ready = reasons(&operator, &request).is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &PublicReady { ready })
}

/// Why the daemon is not ready; empty when it is.
pub(super) fn reasons(operator: &Operator, request: &Request) -> Vec<String> {
    let mut reasons = Vec::new();
    if request.shutdown().is_triggered() {
        reasons.push("the daemon is shutting down".to_owned());
    } else if operator.draining.load(Ordering::Relaxed) {
        reasons.push("the daemon is about to stop; until then it serves".to_owned());
    }
    for actor in operator.service.actors().iter().filter(|actor| !actor.is_responsive) {
        reasons.push(format!("{} has not answered for {} s", actor.name, actor.silent_for.as_secs()));
    }
    reasons.extend(operator.service.failures());
    reasons.extend(cluster_reasons(operator));
    if operator.ready_needs_chains {
        let chains = operator.service.chain().status(operator.clock.unix_seconds());
        let unusable = chains.iter().flat_map(|chain| &chain.sources).filter(|source| !source.is_usable());
        reasons.extend(unusable.map(|source| format!("{} is {}", source.name, source.state)));
    }
    let statistics = operator.service.registry().statistics();
    if statistics.open_requests >= statistics.queue_length {
        reasons.push(format!("{} requests are open, the queue is full", statistics.open_requests));
    }
    reasons.extend(full_queues(&operator.service.verification().statistics()));
    reasons
}

/// The verifier's queues that are full: the other one still takes proofs.
fn full_queues(verifier: &VerifierStatistics) -> impl Iterator<Item = String> {
    let VerifierStatistics { proofs_inside, queue, sign_in_proofs_inside, sign_in_queue, .. } = *verifier;
    let queues = [("verification requests", proofs_inside, queue), ("sign-ins", sign_in_proofs_inside, sign_in_queue)];
    let full = queues.into_iter().filter(|(_, inside, most)| inside >= most);
    full.map(|(of, inside, _)| format!("{inside} proofs of {of} wait to be checked, their queue is full"))
}

// `GET /actors`: the actors of the supervision tree.

/// One actor.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Actor {
    /// Its name.
    name: String,
    /// `running`, or `silent` after 10 seconds without an answer.
    state: &'static str,
    /// Starts after the first one.
    restarts: u64,
    /// Calls that wait for its answers.
    waiting_calls: usize,
    /// Milliseconds since it last answered.
    #[schema(value_type = u64)]
    silent_ms: u128,
    /// Microseconds that the last question waited in its mailbox.
    #[schema(value_type = u64)]
    mailbox_micros: u128,
}

impl From<ActorHealth> for Actor {
    fn from(health: ActorHealth) -> Self {
        Self {
            state: if health.is_responsive { "running" } else { "silent" },
            name: health.name,
            restarts: health.restarts,
            waiting_calls: health.waiting_calls,
            silent_ms: health.silent_for.as_millis(),
            mailbox_micros: health.mailbox_wait.as_micros(),
        }
    }
}

/// The actors
///
/// The actors with their state, restarts and queue lengths.
#[utoipa::path(
    get, path = "/actors", tag = "operator", operation_id = "actors", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The actors", body = Vec<Actor>),
    ),
)]
pub async fn actors(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    Ok(json(StatusCode::OK, &all_actors(&operator)))
}

/// Every actor with its present state.
pub(super) fn all_actors(operator: &Operator) -> Vec<Actor> {
    operator.service.actors().into_iter().map(Actor::from).collect()
}

// `POST /cluster/remove`: removes a replica; and the cluster's part of the status.

/// Remove a replica
///
/// Removes a replica from the cluster. A replica that runs ends then.
#[utoipa::path(
    post, path = "/cluster/remove", tag = "operator", operation_id = "remove_replica", security(("operatorToken" = [])),
    request_body = ReplicaRemoval,
    responses(
        (status = 200, description = "The replica is removed", body = ReplicaRemoval),
        (status = 404, description = "The cluster has no such replica, or the daemon is alone: `not_found`"),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 503, description = "etcd gives no answer, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn remove_replica(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let ReplicaRemoval { name } = from_object(&body)?;
    request.audit().concerns(name.clone());
    if operator.parts.cluster().is_none() {
        return Err(OperatorError::NoCluster);
    }
    match operator.parts.remove_replica(name.clone()).await.map_err(OperatorError::Cluster)? {
        true => Ok(json(StatusCode::OK, &ReplicaRemoval { name })),
        false => Err(OperatorError::UnknownReplica { name }),
    }
}

/// The cluster as this replica sees it; `None` for a daemon that is alone.
pub(super) fn cluster_status(operator: &Operator) -> Option<ClusterStatus> {
    let SeenCluster { name, replicas, .. } = operator.parts.cluster()?;
    let status = operator.service.replica_status()?;
    let (leader, leader_error) = match status.leader {
        Some(Ok(name)) => (Some(name), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let replica = |seen: SeenReplica| Replica {
        running: seen.is_running,
        silent_seconds: seen.silent_for.as_secs(),
        lag: status.end.map(|end| end.0.saturating_sub(seen.position)),
        name: seen.name,
        address: seen.address,
        version: seen.version,
        position: seen.position,
        synced: seen.synced,
        height: seen.height,
    };
    Some(ClusterStatus {
        name,
        leader,
        leader_error,
        term: status.leading.map(|term| term.0),
        journal_end: status.end.map(|end| end.0),
        staleness_ms: status.staleness.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        replicas: replicas.into_iter().map(replica).collect(),
    })
}

/// Why this replica is not ready; empty when it is, and for a daemon that is alone.
pub(super) fn cluster_reasons(operator: &Operator) -> Vec<String> {
    let Some((cluster, status)) = operator.parts.cluster().zip(operator.service.replica_status()) else {
        return Vec::new();
    };
    let SeenCluster { name: own_name, staleness, is_known, replicas } = cluster;
    let news = match status.staleness {
        None => Some("this replica has not read the journal to its end yet".to_owned()),
        Some(age) if age > staleness => {
            Some(format!("this replica has had no news of the journal for {} s", age.as_secs()))
        }
        Some(_) => None,
    };
    let leader = match status.leader {
        Some(Ok(name)) if name == own_name && status.leading.is_none() => {
            Some("this replica is elected, and does not lead yet".to_owned())
        }
        // Writes at this replica are refused.
        Some(Ok(name)) => {
            let leader = replicas.into_iter().find(|replica| replica.name == name);
            leader.and_then(|leader| leader.unreached).map(|(time, reason)| {
                format!("this replica has not reached {name}, which leads, for {} s: {reason}", time.as_secs())
            })
        }
        Some(Err(error)) => Some(error),
        None => Some("no replica leads".to_owned()),
    };
    // What it keeps in memory alone, the others must find.
    let unknown = (!is_known).then(|| "the other replicas do not know this one yet".to_owned());
    news.into_iter().chain(leader).chain(status.held).chain(unknown).collect()
}

// `GET /apps`: the applications that people sign in to.

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Application)]
struct App {
    /// Its id, `app_…`.
    id: String,
    /// The name that people see.
    name: String,
    /// The environment of the proofs that it accepts.
    environment: &'static str,
    /// The kind of proof that it accepts.
    proof: &'static str,
    /// Whether it has no secret.
    public: bool,
}

/// The applications
///
/// The applications of the configuration that is in force, by id. Secrets are not shown.
#[utoipa::path(
    get, path = "/apps", tag = "operator", operation_id = "apps", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The applications", body = Vec<App>),
    ),
)]
pub async fn apps(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let clients = operator.service.sign_in().clients();
    let apps = clients.iter().map(|client| App {
        id: client.client.id.clone(),
        name: client.name.clone(),
        environment: client.environment.name(),
        proof: client.proof.name(),
        public: client.secrets.is_empty(),
    });
    Ok(json(StatusCode::OK, &apps.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_of_the_verifier_is_full_on_its_own() {
        let of_requests = "40 proofs of verification requests wait to be checked, their queue is full";
        let of_sign_ins = "10 proofs of sign-ins wait to be checked, their queue is full";
        let table: [(usize, usize, &[&str]); 4] =
            [(39, 9, &[]), (40, 9, &[of_requests]), (39, 10, &[of_sign_ins]), (40, 10, &[of_requests, of_sign_ins])];
        for (proofs_inside, sign_in_proofs_inside, expected) in table {
            let (queue, sign_in_queue, good, bad) = (40, 10, 0, 0);
            let verifier = VerifierStatistics { proofs_inside, queue, sign_in_proofs_inside, sign_in_queue, good, bad };
            assert_eq!(full_queues(&verifier).collect::<Vec<_>>(), expected);
        }
    }
}
