//! `POST /cluster/remove`: removes a replica; and the cluster's part of the status.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;
use selfsame_protocol::operator::{ClusterStatus, Replica, ReplicaRemoval};

use super::error::OperatorError;
use super::own_cluster::OwnCluster;
use super::roots::BODY_LIMIT;
use super::state::Operator;
use crate::cluster::{SILENT_AFTER, SeenReplica};
use crate::http::{Request, Response, json};

/// Remove a replica
///
/// Removes a replica from the cluster. One that runs ends itself.
#[utoipa::path(
    post, path = "/cluster/remove", tag = "operator", operation_id = "remove_replica", security(("operatorToken" = [])),
    request_body = ReplicaRemoval,
    responses(
        (status = 200, description = "The replica is removed", body = ReplicaRemoval),
        (status = 404, description = "The cluster has no such replica, or the daemon is alone: `not_found`", body = ServiceApiError<String>),
        (status = 400, description = "The body is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 503, description = "etcd gives no answer, or the daemon is overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn remove(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let ReplicaRemoval { name } = from_object(&body)?;
    request.audit().concerns(name.clone());
    let OwnCluster { view, .. } = operator.cluster.as_ref().ok_or(OperatorError::NoCluster)?;
    match view.remove(&name).await? {
        true => Ok(json(StatusCode::OK, &ReplicaRemoval { name })),
        false => Err(OperatorError::UnknownReplica { name }),
    }
}

/// The cluster as this replica sees it; `None` for a daemon that is alone.
pub(super) fn cluster_status(operator: &Operator) -> Option<ClusterStatus> {
    let OwnCluster { view, .. } = operator.cluster.as_ref()?;
    let status = operator.service.replica_status()?;
    let (leader, leader_error) = match status.leader {
        Some(Ok(name)) => (Some(name), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let replica = |SeenReplica { record, changed_at }: SeenReplica| Replica {
        running: changed_at.elapsed() < SILENT_AFTER,
        silent_seconds: changed_at.elapsed().as_secs(),
        lag: status.end.map(|end| end.0.saturating_sub(record.position)),
        name: record.name,
        address: record.address,
        version: record.version,
        position: record.position,
        synced: record.synced,
        height: record.height,
    };
    Some(ClusterStatus {
        name: view.name().to_owned(),
        leader,
        leader_error,
        term: status.leading.map(|term| term.0),
        journal_end: status.end.map(|end| end.0),
        staleness_ms: status.staleness.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        replicas: view.replicas().into_iter().map(replica).collect(),
    })
}

/// Why this replica is not ready; empty when it is, and for a daemon that is alone.
pub(super) fn reasons(operator: &Operator) -> Vec<String> {
    let Some((OwnCluster { view, staleness }, status)) =
        operator.cluster.as_ref().zip(operator.service.replica_status())
    else {
        return Vec::new();
    };
    let news = match status.staleness {
        None => Some("this replica has not read the journal to its end yet".to_owned()),
        Some(age) if age > *staleness => {
            Some(format!("this replica has had no news of the journal for {} s", age.as_secs()))
        }
        Some(_) => None,
    };
    let leader = match status.leader {
        Some(Ok(name)) if name == view.name() && status.leading.is_none() => {
            Some("this replica is elected, and does not lead yet".to_owned())
        }
        // Writes at this replica are refused.
        Some(Ok(name)) => view.unreached(&name).filter(|(time, _)| *time >= SILENT_AFTER).map(|(time, reason)| {
            format!("this replica has not reached {name}, which leads, for {} s: {reason}", time.as_secs())
        }),
        Some(Err(error)) => Some(error),
        None => Some("no replica leads".to_owned()),
    };
    // What it keeps in memory alone, the others must find.
    let unknown = (!view.is_known()).then(|| "the other replicas do not know this one yet".to_owned());
    news.into_iter().chain(leader).chain(status.held).chain(unknown).collect()
}
