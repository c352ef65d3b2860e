//! `GET /status`: how the daemon is doing, in one answer; what the page shows.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use selfsame_actors::{ChainStatus, RegistryStatistics, VerifierStatistics};
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::operator::{Attention, Backup, ClusterStatus, ReloadReport, Restored, WebhookStatus};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval, timeout};
use utoipa::ToSchema;

use super::actors::{Actor, all_actors};
use super::attention::Parts;
use super::cluster::cluster_status;
use super::error::OperatorError;
use super::ready::reasons;
use super::state::Operator;
use super::webhooks;
use crate::build::Build;
use crate::http::{Request, Response, Shutdown, json};
use crate::logging;

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
    /// Whether the daemon can do its work, and if not, why.
    ready: bool,
    /// Why the daemon is not ready; empty when it is.
    reasons: Vec<String>,
    /// Whether something needs the operator's attention, also while the daemon is ready.
    degraded: bool,
    /// What does, since when, and what to do; empty when nothing does.
    attention: Vec<Attention>,
    /// The registry's numbers since the start.
    #[schema(value_type = Object)]
    registry: RegistryStatistics,
    /// The verifier's numbers since the start.
    #[schema(value_type = Object)]
    verifier: VerifierStatistics,
    /// What is followed from chains; empty when nothing is.
    #[schema(value_type = Vec<Object>)]
    chains: Vec<ChainStatus>,
    /// The webhooks of the configuration.
    webhooks: Vec<WebhookStatus>,
    /// The last backups since the start, the newest last.
    backups: Vec<Backup>,
    /// That the store was restored from a backup; null when it was not.
    restored: Option<Restored>,
    /// The actors, as `/actors` answers them.
    actors: Vec<Actor>,
    /// The cluster that the daemon is a replica of; null when it is alone.
    cluster: Option<ClusterStatus>,
    /// What came of the last reload of the configuration; null before the first one.
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
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
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
        chains: parts.chains,
        webhooks: parts.webhooks.into_iter().map(webhooks::status).collect(),
        backups: operator.backups.known(),
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
        backups: operator.backups.health(),
        webhooks,
        webhooks_error,
        chains: service.chain().status(now),
        rotation_due: service.sign_in().rotation_due(),
        certificate_expiry: operator.certificate.as_ref().map(|certificate| certificate.expiry()),
        reload: operator.reload_status.last(),
        log: logging::losses(),
        cluster: cluster_status(operator),
    }
}
