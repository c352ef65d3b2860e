//! A service with a group, and persons whose link proofs are marked as good or bad.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::groth16::proof::LEGACY_WORDS;
use selfsame_protocol::groth16::{EncodedClaim, ProofWords};
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::EnrolmentRequest;
use selfsame_protocol::groups::identity::{Act, Token};
use selfsame_protocol::groups::names::{FieldNumber, GroupId, MemberNumber, ReplacementSecret, SecretHash};
use selfsame_protocol::groups::tree::{GroupTree, read_page};
use selfsame_protocol::groups::wire::{GroupResponse, InvitedMembers, SentCommitment};
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{Address, U256};
use selfsame_storage::{OpenOptions, Store};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::super::handle::{GroupError, GroupsHandle};
use super::super::kept::{GroupsState, LinkProofs};
use super::super::settings::{GroupDefinition, GroupSettings};
use crate::clock::{ManualClock, SystemRandom};
use crate::support::source_limits::SourceLimiter;
use crate::{Service, ServiceParts, Settings};

pub const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

/// Longer than any answer takes, also on a machine that is busy with other work.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Beginning of a day, in Unix seconds.
pub const START: u64 = 1_799_971_200;

/// The words of a link proof that does not hold.
const BAD_PROOF: [U256; LEGACY_WORDS] = [U256::MAX; LEGACY_WORDS];

/// Accepts every link proof without the mark of a bad one.
struct MarkedProofs;

impl LinkProofs for MarkedProofs {
    fn check(
        &self,
        _: Environment,
        claim: EncodedClaim,
        _: Option<IpAddr>,
        _: Instant,
    ) -> BoxFuture<'_, Result<bool, String>> {
        let mark = format!("{:?}", ProofWords::Legacy(BAD_PROOF));
        std::future::ready(Ok(!format!("{claim:?}").contains(&mark))).boxed()
    }
}

pub fn group() -> GroupId {
    "members".parse().expect("an id")
}

pub fn member(number: impl ToString) -> MemberNumber {
    number.to_string().parse().expect("a member number")
}

pub fn settings(instance: &str) -> Settings {
    let mut settings = Settings::for_instance(instance);
    // The keeper dies more often than an operator would bear.
    settings.supervision.group_restarts = 10_000;
    let definition = GroupDefinition {
        id: group(),
        name: "Members".to_owned(),
        environment: Environment::Production,
        legacy_identifier: None,
        link_days: 30,
        rolls: Vec::new(),
        actions: Vec::new(),
    };
    settings.groups = GroupSettings { groups: vec![definition], ..GroupSettings::default() };
    settings
}

/// The groups of a service, with link proofs that are marked.
pub fn with_marked_proofs(groups: &GroupsHandle) -> GroupsHandle {
    let state = &groups.state;
    GroupsHandle::new(Arc::new(GroupsState {
        slot: Arc::clone(&state.slot),
        surroundings: state.surroundings.clone(),
        records: state.records.clone(),
        events: state.events.clone(),
        groups: ArcSwap::new(state.groups.load_full()),
        per_source: SourceLimiter::new(None),
        link_proofs: Arc::new(MarkedProofs),
        catching_up: state.catching_up.clone(),
        writing: Arc::clone(&state.writing),
        has_keeper: state.has_keeper,
        step_seconds: state.step_seconds.clone(),
    }))
}

/// A service with a group.
pub struct Community {
    pub instance: String,
    pub service: Service,
    pub groups: GroupsHandle,
    pub clock: Arc<ManualClock>,
    store: Store,
    folder: TempDir,
}

impl Community {
    pub async fn start(instance: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let store = Store::open(folder.path(), &OpenOptions::new(DOMAIN)).expect("the store opens");
        let clock = Arc::new(ManualClock::at(Duration::from_secs(START)));
        Self::start_on(settings(instance), store, folder, clock).await
    }

    async fn start_on(settings: Settings, store: Store, folder: TempDir, clock: Arc<ManualClock>) -> Self {
        let instance = settings.instance.clone();
        let parts = ServiceParts::new(settings, store.clone());
        let parts = parts.clock(clock.clone()).random(Arc::new(SystemRandom));
        let service = Service::start(parts).await.expect("the service starts");
        let groups = with_marked_proofs(&service.groups());
        Self { instance, service, groups, clock, store, folder }
    }

    /// Stops the service, and starts it on the same store.
    pub async fn restart(self) -> Self {
        self.restart_later(Duration::ZERO, |_| {}).await
    }

    /// The same so much later, with changed settings.
    pub async fn restart_later(self, later: Duration, change: impl FnOnce(&mut Settings)) -> Self {
        let Self { instance, service, groups, clock, store, folder } = self;
        drop(groups);
        timeout(PATIENCE, service.stop()).await.expect("the service stops");
        clock.advance(later);
        let mut settings = settings(&instance);
        change(&mut settings);
        Self::start_on(settings, store, folder, clock).await
    }

    pub async fn stop(self) {
        drop(self.groups);
        timeout(PATIENCE, self.service.stop()).await.expect("the service stops");
        let report = selfsame_storage::fsck(&self.store, self.folder.path(), &selfsame_storage::NoProgress);
        let report = report.expect("fsck runs");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }

    pub async fn code(&self, number: &MemberNumber) -> Code {
        let invited = self.groups.invite(&group(), vec![number.clone()], InvitedMembers::All).await;
        invited.expect("it is invited").invitations.remove(0).1.code
    }
}

pub fn leaf(number: u64) -> FieldNumber {
    FieldNumber(U256::from(number))
}

pub fn secret(number: u64) -> ReplacementSecret {
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&number.to_be_bytes());
    ReplacementSecret(secret)
}

/// A request with a good link proof. The next secret is that of the leaf's number.
pub fn request(act: Act, token: Token, person: u64, new: u64) -> EnrolmentRequest {
    EnrolmentRequest {
        act,
        token,
        commitment: SentCommitment(U256::from(new)),
        nullifier: FieldNumber(U256::from(person + (1 << 40))),
        proof: [U256::from(1); LEGACY_WORDS],
        replacement_hash: SecretHash::of(&secret(new).0),
        copy: None,
    }
}

pub fn join(code: &Code, person: u64, new: u64) -> EnrolmentRequest {
    request(Act::Join, Token::Code(code.clone()), person, new)
}

pub fn replace_by_code(code: &Code, person: u64, new: u64) -> EnrolmentRequest {
    request(Act::Replace, Token::Code(code.clone()), person, new)
}

/// A replacement with the secret of the leaf `present`.
pub fn replace(present: u64, person: u64, new: u64) -> EnrolmentRequest {
    request(Act::Replace, Token::ReplacementSecret(secret(present)), person, new)
}

pub fn leave(present: u64, person: u64) -> EnrolmentRequest {
    request(Act::Leave, Token::ReplacementSecret(secret(present)), person, present)
}

pub fn with_bad_proof(request: EnrolmentRequest) -> EnrolmentRequest {
    EnrolmentRequest { proof: BAD_PROOF, ..request }
}

/// The leaves of a described group, from its pages; `None` when a page has ended meanwhile. What is
/// served has the roots that are described.
pub async fn leaves(groups: &GroupsHandle, described: &GroupResponse) -> Option<Vec<FieldNumber>> {
    let mut leaves = Vec::new();
    for root in &described.page_roots {
        let page = loop {
            match groups.page(&group(), *root, None).await {
                Ok(page) => break page?,
                Err(GroupError::Unavailable { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        leaves.extend(read_page(&page).expect("a page"));
    }
    let behind = leaves.split_off(described.size as usize);
    assert!(behind.iter().all(|leaf| *leaf == FieldNumber::ZERO), "positions that were not given are 0");
    let tree = GroupTree::of_leaves(&leaves);
    assert_eq!((tree.page_roots(), tree.root()), (described.page_roots.clone(), described.root));
    Some(leaves)
}
