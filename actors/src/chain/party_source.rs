//! Asks a registry of relying parties about the configured ones, for the operator to see. Nothing
//! that is read here decides about a proof, so nothing of it is stored.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use selfsame_protocol::chain::contracts::{BlockTag, Header, Question};
use selfsame_protocol::chain::deployment::{RegisteredParty, read_relying_party, relying_party_call};
use selfsame_protocol::verification::RelyingPartyId;

use super::error::ChainError;
use super::nodes::Nodes;
use super::progress::Progress;
use super::settings::PartySourceSettings;
use crate::clock::Clock;

/// The most relying parties that one round trip asks about.
const PARTIES_PER_QUESTION: usize = 100;

const WHAT: &str = "relying parties";

/// One registry of relying parties.
pub(super) struct PartySource {
    pub settings: PartySourceSettings,
    nodes: Arc<Nodes>,
    clock: Arc<dyn Clock>,
    parties: Mutex<Vec<RelyingPartyId>>,
    published: ArcSwap<KnownParties>,
    pub progress: Progress,
}

/// What the registry said last.
#[derive(Default)]
pub(super) struct KnownParties {
    /// The block at which it was asked.
    pub confirmed: Option<Header>,
    /// The relying parties; `None` for one that is not registered.
    pub parties: Vec<(RelyingPartyId, Option<RegisteredParty>)>,
}

impl PartySource {
    pub fn new(settings: PartySourceSettings, nodes: Arc<Nodes>, clock: Arc<dyn Clock>) -> Self {
        let parties = Mutex::new(settings.parties.clone());
        Self { settings, nodes, clock, parties, published: ArcSwap::default(), progress: Progress::default() }
    }

    /// Changes the relying parties that are asked about, from the next step on.
    pub fn set_parties(&self, parties: Vec<RelyingPartyId>) {
        *self.parties() = parties;
    }

    /// What the registry said last.
    pub fn published(&self) -> Arc<KnownParties> {
        self.published.load_full()
    }

    /// Asks about all of them. Call one at a time.
    pub async fn step(&self) -> Result<(), ChainError> {
        let now = self.clock.unix_seconds();
        let recent = now.minus(self.settings.freshness.fresh_for.as_secs());
        let head = self.nodes.head(BlockTag::Latest, recent, now).await?;
        self.progress.head.store(head.number, Ordering::Relaxed);
        let asked = self.parties().clone();
        let mut parties = Vec::with_capacity(asked.len());
        for asked in asked.chunks(PARTIES_PER_QUESTION) {
            let to = self.settings.address;
            let call = |party: &RelyingPartyId| Question::Call { to, data: relying_party_call(*party), at: head.hash };
            let questions: Vec<_> = asked.iter().map(call).collect();
            for (party, answer) in asked.iter().zip(self.nodes.ask(&questions, WHAT).await?) {
                let answer = answer.map_err(|refusal| ChainError::Refused { what: WHAT, refusal })?;
                let registered = read_relying_party(*party, &answer);
                parties.push((*party, registered.map_err(|error| ChainError::Answer { what: WHAT, error })?));
            }
        }
        self.log_changes(&parties);
        self.progress.read.store(head.number, Ordering::Relaxed);
        self.published.store(Arc::new(KnownParties { confirmed: Some(head), parties }));
        Ok(())
    }

    fn log_changes(&self, parties: &[(RelyingPartyId, Option<RegisteredParty>)]) {
        let before = self.published();
        for (party, registered) in parties.iter().filter(|party| !before.parties.contains(party)) {
            let (source, state) = (&self.settings.name, party_state(registered.as_ref()));
            tracing::info!(source, relying_party = %party, state, "a relying party was read for the first time or changed");
            if registered.is_none_or(|registered| !registered.is_active) {
                tracing::warn!(source, relying_party = %party, state, "the relying party gets no new current proofs");
            }
            if registered.is_some_and(|registered| !registered.has_own_oprf_key) {
                tracing::warn!(
                    source,
                    relying_party = %party,
                    "the registry gives the relying party an OPRF key of another id; its current proofs fail"
                );
            }
        }
    }

    fn parties(&self) -> MutexGuard<'_, Vec<RelyingPartyId>> {
        self.parties.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a relying party in a word, for logs and status.
pub(super) fn party_state(registered: Option<&RegisteredParty>) -> &'static str {
    match registered {
        None => "unregistered",
        Some(RegisteredParty { is_active: true, .. }) => "active",
        Some(RegisteredParty { is_active: false, .. }) => "inactive",
    }
}
