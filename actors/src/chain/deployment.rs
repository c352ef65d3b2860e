//! Contracts of one deployment: where each is, which the verifier contract may change; the code
//! that it runs; and the relying parties of the deployment.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use selfsame_protocol::chain::contracts::{Answer, AnswerError, BlockTag, Header, Question};
use selfsame_protocol::chain::deployment::{
    ContractCode, Deployment, IMPLEMENTATION_SLOT, InDeployment, RegisteredParty, UnacceptedCode, read_implementation,
    read_relying_party, relying_party_call,
};
use selfsame_protocol::chain::followed::Unavailable;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::RelyingPartyId;
use selfsame_protocol::{Address, keccak256};
use selfsame_storage::{ChainRecords, DeploymentRecord, SourceId, StoreError};
use tokio::sync::watch;
use tokio::time::timeout;

use super::contracts::{ChainError, CodeSettings, ContractPlace, OnUpgrade, PartySourceSettings, VerifierSettings};
use super::follower::{Progress, durably};
use super::nodes::Nodes;
use crate::clock::Clock;

// A contract at an address of a chain, as its records are stored.

/// An address, and the id under which what is followed there is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub address: Address,
    pub id: SourceId,
}

impl Place {
    /// The place of a contract of a kind.
    pub fn new(chain_id: u64, address: Address, kind: &str) -> Self {
        let parts = [&chain_id.to_be_bytes()[..], address.as_slice(), kind.as_bytes()];
        Self { address, id: SourceId { hash: keccak256(parts.concat()) } }
    }
}

// Where a followed contract is, which the verifier contract of its deployment may change.

/// Where one contract is.
pub(super) struct Location {
    source: String,
    chain_id: u64,
    /// The contract's kind, which is part of the id.
    kind: &'static str,
    configured: ContractPlace,
    verifier: Option<Arc<VerifierSource>>,
    /// The contract's address in the deployment that the verifier names.
    in_deployment: InDeployment,
    /// The contract whose data is published.
    place: Mutex<Option<Place>>,
}

impl Location {
    /// The location of a contract, which `verifier` may name.
    pub fn new(
        source: &str,
        chain_id: u64,
        kind: &'static str,
        configured: ContractPlace,
        verifier: Option<Arc<VerifierSource>>,
        in_deployment: InDeployment,
    ) -> Self {
        let source = source.to_owned();
        let place = Mutex::default();
        let location = Self { source, chain_id, kind, configured, verifier, in_deployment, place };
        *location.lock() = location.known().map(|address| location.at(address));
        location
    }

    /// The contract whose data is published; `None` before the verifier was asked for the first
    /// time.
    pub fn place(&self) -> Option<Place> {
        *self.lock()
    }

    /// Where the contract is now. Waits a moment for the first answer of the verifier.
    pub async fn find(&self) -> Result<Place, ChainError> {
        if let (ContractPlace::FromVerifier, Some(verifier)) = (self.configured, &self.verifier) {
            verifier.wait_for_deployment().await;
        }
        self.known().map(|address| self.at(address)).ok_or(ChainError::NotLocated)
    }

    /// Records that what is published is that of this place.
    pub fn move_to(&self, place: Place) {
        if let Some(before) = self.lock().replace(place)
            && before != place
        {
            let (from, to) = (before.address, place.address);
            tracing::warn!(source = self.source, %from, %to, "the verifier names another contract, which is followed now");
        }
    }

    /// The address that the verifier names, when it is not the configured one, which counts.
    pub fn elsewhere(&self) -> Option<Address> {
        let ContractPlace::At(configured) = self.configured else { return None };
        self.in_verifier().filter(|named| *named != configured)
    }

    /// Why nothing of the contract's deployment counts.
    pub fn halt(&self) -> Option<Unavailable> {
        self.verifier.as_ref().and_then(|verifier| verifier.code.halt())
    }

    fn known(&self) -> Option<Address> {
        match self.configured {
            ContractPlace::At(address) => Some(address),
            ContractPlace::FromVerifier => self.in_verifier(),
        }
    }

    fn in_verifier(&self) -> Option<Address> {
        let deployment = self.verifier.as_ref()?.deployment()?;
        Some((self.in_deployment)(&deployment))
    }

    fn at(&self, address: Address) -> Place {
        Place::new(self.chain_id, address, self.kind)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Watches the code that a contract runs: an upgrade changes what its answers mean, and shows in
// none of them.

/// How often the code is read, in seconds of the chain.
const CODE_INTERVAL: u64 = 600;

const IMPLEMENTATION: &str = "the implementation of the contract";

/// The code of one contract.
pub(super) struct CodeWatch {
    source: Arc<str>,
    settings: CodeSettings,
    records: Arc<ChainRecords>,
    watched: Mutex<CodeReading>,
}

#[derive(Clone, Copy, Default)]
struct CodeReading {
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
        if is_known && head.time.since(before.read_at) < CODE_INTERVAL {
            return Ok(());
        }
        let question = Question::Storage { address: place.address, slot: IMPLEMENTATION_SLOT, at: head.hash };
        let implementation = match nodes.ask_one(question, IMPLEMENTATION).await {
            Ok(answer) => {
                let wrong = |error: AnswerError| ChainError::Answer { what: IMPLEMENTATION, error };
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
        let after = CodeReading { contract: Some(place.id), first: Some(first), now: Some(now), read_at: head.time };
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

    fn unaccepted_in(&self, watched: CodeReading) -> Option<UnacceptedCode> {
        self.settings.accepted.unaccepted(&watched.first?, &watched.now?)
    }

    fn lock(&self) -> MutexGuard<'_, CodeReading> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Asks a verifier contract where the other contracts of its deployment are.

/// How long the follower of another contract waits for the first answer.
const VERIFIER_PATIENCE: Duration = Duration::from_secs(5);

/// How far the stored time may be behind the read one, in seconds of the chain.
const CONTRACTS_INTERVAL: u64 = 3600;

const CONTRACTS: &str = "the contracts of the deployment";

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
        drop(timeout(VERIFIER_PATIENCE, published.wait_for(Option::is_some)).await);
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
            before.deployment != deployment || head.time.since(before.confirmed.time) >= CONTRACTS_INTERVAL
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
        let answers = self.nodes.ask(&Deployment::calls().map(call), CONTRACTS).await?;
        let answers: Vec<Answer> = answers
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|refusal| ChainError::Refused { what: CONTRACTS, refusal })?;
        let answers: [Answer; 4] = answers.try_into().map_err(|_| ChainError::NoBlock(CONTRACTS))?;
        Deployment::read(&answers).map_err(|error| ChainError::Answer { what: CONTRACTS, error })
    }
}

// Asks a registry of relying parties about the configured ones, for the operator to see. Nothing
// that is read here decides about a proof, so nothing of it is stored.

/// The most relying parties that one round trip asks about.
const PARTIES_PER_QUESTION: usize = 100;

const PARTIES: &str = "relying parties";

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
            for (party, answer) in asked.iter().zip(self.nodes.ask(&questions, PARTIES).await?) {
                let answer = answer.map_err(|refusal| ChainError::Refused { what: PARTIES, refusal })?;
                let registered = read_relying_party(*party, &answer);
                parties.push((*party, registered.map_err(|error| ChainError::Answer { what: PARTIES, error })?));
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
