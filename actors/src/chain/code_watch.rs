//! Watches the code that a contract runs: an upgrade changes what its answers mean, and shows in
//! none of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::Address;
use selfsame_protocol::chain::contracts::{AnswerError, Header, Question};
use selfsame_protocol::chain::deployment::{ContractCode, IMPLEMENTATION_SLOT, UnacceptedCode, read_implementation};
use selfsame_protocol::chain::followed::Unavailable;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{ChainRecords, SourceId};

use super::durable::durably;
use super::error::ChainError;
use super::nodes::Nodes;
use super::place::Place;
use super::settings::{CodeSettings, OnUpgrade};

/// How often the code is read, in seconds of the chain.
const INTERVAL: u64 = 600;

const WHAT: &str = "the implementation of the contract";

/// The code of one contract.
pub(super) struct CodeWatch {
    source: Arc<str>,
    settings: CodeSettings,
    records: Arc<ChainRecords>,
    watched: Mutex<Watched>,
}

#[derive(Clone, Copy, Default)]
struct Watched {
    /// The contract whose code it is.
    contract: Option<SourceId>,
    /// The code that was seen first.
    first: Option<ContractCode>,
    /// The code as it was read in this run.
    now: Option<ContractCode>,
    /// When it was read, in the time of the chain.
    read_at: UnixSeconds,
}

impl CodeWatch {
    pub fn new(source: &str, settings: CodeSettings, records: Arc<ChainRecords>) -> Self {
        Self { source: source.into(), settings, records, watched: Mutex::default() }
    }

    /// Reads the code when it is time to. A contract that is seen for the first time has the code
    /// that counts, unless the settings say which does.
    pub async fn look(
        &self,
        nodes: &Nodes,
        place: Place,
        head: Header,
        proof_verifier: Option<Address>,
    ) -> Result<(), ChainError> {
        let before = *self.lock();
        let is_known =
            before.contract == Some(place.id) && before.now.is_some_and(|now| now.proof_verifier == proof_verifier);
        if is_known && head.time.since(before.read_at) < INTERVAL {
            return Ok(());
        }
        let question = Question::Storage { address: place.address, slot: IMPLEMENTATION_SLOT, at: head.hash };
        let implementation = match nodes.ask_one(question, WHAT).await {
            Ok(answer) => {
                let wrong = |error: AnswerError| ChainError::Answer { what: WHAT, error };
                Some(read_implementation(&answer).map_err(wrong)?)
            }
            Err(error @ ChainError::Refused { .. }) if self.settings.on_upgrade == OnUpgrade::Warn => {
                tracing::debug!(source = &*self.source, %error, "the implementation cannot be watched");
                // A refusal says nothing about the code, so what was read last stays.
                let before = before.now.filter(|_| before.contract == Some(place.id));
                before.and_then(|before| before.implementation)
            }
            Err(error) => return Err(error),
        };
        let now = ContractCode { implementation, proof_verifier };
        let stored = self.records.first_code(place.id)?;
        let first = stored.map_or(now, |stored| stored.completed_by(now));
        if stored != Some(first) {
            durably(&self.records, |records, durable| records.write_first_code(place.id, &first, durable)).await?;
        }
        let after = Watched { contract: Some(place.id), first: Some(first), now: Some(now), read_at: head.time };
        let (was, is) = (self.unaccepted_in(before), self.unaccepted_in(after));
        *self.lock() = after;
        match is {
            Some(code) if was != is => {
                tracing::error!(source = &*self.source, "the contract {code}; look at the change before you accept it");
            }
            None if was.is_some() => tracing::info!(source = &*self.source, "the contract runs accepted code again"),
            _ => {}
        }
        Ok(())
    }

    /// The code as it was read in this run.
    pub fn now(&self) -> Option<ContractCode> {
        self.lock().now
    }

    /// What of the code was not accepted.
    pub fn unaccepted(&self) -> Option<UnacceptedCode> {
        self.unaccepted_in(*self.lock())
    }

    /// Why nothing of the contract counts, when the settings want that.
    pub fn halt(&self) -> Option<Unavailable> {
        let watched = *self.lock();
        let source_name = || Arc::clone(&self.source);
        match (self.settings.on_upgrade, self.unaccepted_in(watched)) {
            (OnUpgrade::Warn, _) => None,
            (OnUpgrade::Stop, Some(code)) => Some(Unavailable::Unaccepted { source_name: source_name(), code }),
            // It may have changed while the service was stopped.
            (OnUpgrade::Stop, None) if watched.now.is_none() => {
                Some(Unavailable::NotRead { what: "implementations", source_name: source_name() })
            }
            (OnUpgrade::Stop, None) => None,
        }
    }

    fn unaccepted_in(&self, watched: Watched) -> Option<UnacceptedCode> {
        self.settings.accepted.unaccepted(&watched.first?, &watched.now?)
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
