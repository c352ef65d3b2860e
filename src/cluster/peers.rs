//! The other replicas: the calls of the message bridge, and whether each is reached.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use selfsame_actors::{BridgePeers, LeaderError};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::{ReplicaClient, ReplicaSender};
use super::interface::{ALIVE_PATH, BRIDGE_PATH, LONGEST_BRIDGE_MESSAGE};
use super::registration::ClusterView;

/// Time from one attempt to reach the other replicas to the next.
const REACH_INTERVAL: Duration = Duration::from_secs(1);

/// How long an attempt waits for an answer.
const REACH_PATIENCE: Duration = Duration::from_secs(2);

/// The connections of one replica to the others, each made when it is needed.
pub struct ClusterPeers {
    client: ReplicaClient,
    view: Arc<ClusterView>,
    /// By the name of the replica, with its address.
    connections: Mutex<HashMap<String, (String, ReplicaSender)>>,
}

impl ClusterPeers {
    /// No connection yet.
    pub fn new(client: ReplicaClient, view: Arc<ClusterView>) -> Self {
        Self { client, view, connections: Mutex::default() }
    }

    /// Attempts every second to reach each of the other replicas that run, and notes the outcome.
    pub async fn watch(&self) -> Infallible {
        loop {
            let next = Instant::now() + REACH_INTERVAL;
            let own = self.view.name();
            let others: Vec<String> =
                self.view.running().into_iter().flatten().filter(|name| name.as_str() != own).collect();
            let outcomes = join_all(others.iter().map(async |name| {
                let no_answer = |_| Err(format!("it gave no answer within {} s", REACH_PATIENCE.as_secs()));
                timeout(REACH_PATIENCE, self.reach(name)).await.unwrap_or_else(no_answer)
            }));
            let outcomes = outcomes.await;
            self.view.note_reached(others.into_iter().zip(outcomes));
            sleep_until(next).await;
        }
    }

    /// Whether a replica answers this one. One of an earlier version does not know the path, and
    /// answers nevertheless.
    async fn reach(&self, replica: &str) -> Result<(), String> {
        let mut sender = self.sender(replica).await?;
        let answer = sender.send(Method::GET, ALIVE_PATH, Vec::new().into()).await.map_err(|error| match error {
            LeaderError::Unsent(reason) | LeaderError::Unanswered(reason) => reason,
        })?;
        match answer.status() {
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Err(format!("it answered {status}")),
            _ => Ok(()),
        }
    }

    async fn ask(&self, replica: &str, message: Vec<u8>) -> Result<Vec<u8>, LeaderError> {
        let mut sender = self.sender(replica).await.map_err(LeaderError::Unsent)?;
        let answer = sender.send(Method::POST, BRIDGE_PATH, message.into()).await?;
        if answer.status() != StatusCode::OK {
            return Err(LeaderError::Unanswered(format!("it answered {}", answer.status())));
        }
        let body = Limited::new(answer.into_body(), LONGEST_BRIDGE_MESSAGE).collect().await;
        Ok(body.map_err(|error| LeaderError::Unanswered(error.to_string()))?.to_bytes().into())
    }

    /// The open connection to a replica, or a new one.
    async fn sender(&self, replica: &str) -> Result<ReplicaSender, String> {
        let address = self.view.replicas().into_iter().find(|seen| seen.record.name == replica);
        let address = address.ok_or("it is not registered any more")?.record.address;
        if let Some((connected, sender)) = self.connections().get(replica)
            && *connected == address
            && !sender.is_closed()
        {
            return Ok(sender.clone());
        }
        let sender = self.client.connect(&address).await?;
        self.connections().insert(replica.to_owned(), (address, sender.clone()));
        Ok(sender)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<String, (String, ReplicaSender)>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BridgePeers for ClusterPeers {
    fn own_name(&self) -> &str {
        self.view.name()
    }

    fn running(&self) -> Option<Vec<String>> {
        self.view.running()
    }

    fn send(&self, replica: &str, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>> {
        let replica = replica.to_owned();
        async move { self.ask(&replica, message).await }.boxed()
    }
}
