//! Asks a verifier contract where the other contracts of its deployment are.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use selfsame_protocol::chain::contracts::{Answer, BlockTag, Header, Question};
use selfsame_protocol::chain::deployment::Deployment;
use selfsame_storage::{ChainRecords, DeploymentRecord, StoreError};
use tokio::sync::watch;
use tokio::time::timeout;

use super::code_watch::CodeWatch;
use super::durable::durably;
use super::error::ChainError;
use super::nodes::Nodes;
use super::place::Place;
use super::progress::Progress;
use super::settings::VerifierSettings;
use crate::clock::Clock;

/// How long the follower of another contract waits for the first answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far the stored time may be behind the read one, in seconds of the chain.
const STORE_INTERVAL: u64 = 3600;

const WHAT: &str = "the contracts of the deployment";

/// One verifier contract.
pub(super) struct VerifierSource {
    pub settings: VerifierSettings,
    place: Place,
    nodes: Arc<Nodes>,
    records: Arc<ChainRecords>,
    clock: Arc<dyn Clock>,
    pub code: CodeWatch,
    published: watch::Sender<Option<DeploymentRecord>>,
    pub progress: Progress,
}

impl VerifierSource {
    /// The source as it is stored.
    pub fn load(
        settings: VerifierSettings,
        chain_id: u64,
        nodes: Arc<Nodes>,
        records: Arc<ChainRecords>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let place = Place::new(chain_id, settings.address, "verifier");
        let (published, _) = watch::channel(records.deployment(place.id)?);
        let code = CodeWatch::new(&settings.name, settings.code.clone(), Arc::clone(&records));
        Ok(Self { settings, place, nodes, records, clock, code, published, progress: Progress::default() })
    }

    /// Where the verifier is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The contracts that the verifier named last, and when; `None` before the first time.
    pub fn published(&self) -> Option<DeploymentRecord> {
        *self.published.borrow()
    }

    /// The contracts that the verifier named last.
    pub fn deployment(&self) -> Option<Deployment> {
        self.published().map(|record| record.deployment)
    }

    /// Waits until the verifier has answered once, for a few seconds.
    pub async fn wait_for_deployment(&self) {
        let mut published = self.published.subscribe();
        drop(timeout(PATIENCE, published.wait_for(Option::is_some)).await);
    }

    /// Asks the verifier. Call one at a time.
    pub async fn step(&self) -> Result<(), ChainError> {
        let now = self.clock.unix_seconds();
        let recent = now.minus(self.settings.freshness.fresh_for.as_secs());
        let head = self.nodes.head(BlockTag::Latest, recent, now).await?;
        self.progress.head.store(head.number, Ordering::Relaxed);
        let before = self.published();
        if let Some(DeploymentRecord { confirmed, .. }) = before
            && confirmed.time > head.time
        {
            // Nodes behind one address are not always at the same block.
            let behind = ChainError::Behind { head: head.number, known: confirmed.number };
            return if head.time >= recent { Ok(()) } else { Err(behind) };
        }
        let deployment = self.read(head).await?;
        self.code.look(&self.nodes, self.place, head, Some(deployment.proof_verifier)).await?;
        let record = DeploymentRecord { confirmed: head, deployment };
        let is_due = before.is_none_or(|before| {
            before.deployment != deployment || head.time.since(before.confirmed.time) >= STORE_INTERVAL
        });
        if is_due {
            durably(&self.records, |records, durable| records.write_deployment(self.place.id, &record, durable))
                .await?;
        }
        self.progress.read.store(head.number, Ordering::Relaxed);
        self.published.send_replace(Some(record));
        Ok(())
    }

    async fn read(&self, at: Header) -> Result<Deployment, ChainError> {
        let call = |data| Question::Call { to: self.place.address, data, at: at.hash };
        let answers = self.nodes.ask(&Deployment::calls().map(call), WHAT).await?;
        let answers: Vec<Answer> = answers
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|refusal| ChainError::Refused { what: WHAT, refusal })?;
        let answers: [Answer; 4] = answers.try_into().map_err(|_| ChainError::NoBlock(WHAT))?;
        Deployment::read(&answers).map_err(|error| ChainError::Answer { what: WHAT, error })
    }
}
