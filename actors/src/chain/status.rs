//! What is followed from chains, as status and metrics show it.

use std::sync::atomic::{AtomicU64, Ordering};

use selfsame_protocol::Address;
use selfsame_protocol::chain::contracts::FollowedKey;
use selfsame_protocol::chain::deployment::{Deployment, RegisteredParty};
use selfsame_protocol::chain::followed::{KeyOwner, Unavailable};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use serde::Serialize;

use super::code_watch::CodeWatch;
use super::contract::Contract;
use super::key_source::state_name;
use super::nodes::NodeStatus;
use super::party_source::party_state;
use super::state::{FollowedChain, FollowedSource};

/// The state of a contract that is up to date.
const FOLLOWING: &str = "following";

/// A chain, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct ChainStatus {
    /// Its configured name.
    pub name: String,
    /// The number that its transactions are signed with.
    pub chain_id: u64,
    /// How many nodes must give the same answer.
    pub agree: usize,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
    /// Answers of single nodes that were outvoted, since the start.
    pub outvoted: u64,
    /// The contracts.
    pub sources: Vec<SourceStatus>,
}

/// A followed contract, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct SourceStatus {
    /// Its configured name.
    pub name: String,
    /// Where it is; null before the verifier contract said so.
    pub address: Option<Address>,
    /// The address that the verifier contract names, when it is not the configured one, which
    /// counts; null otherwise.
    pub elsewhere: Option<Address>,
    /// The environment whose proofs it is for.
    pub environment: Environment,
    /// `reading` until it was read up to the newest block, then `following`; `stale` when its data
    /// is so old that proofs are refused; `stopped` while proofs are refused because of code that
    /// was not accepted.
    pub state: &'static str,
    /// The newest block that the nodes named, and the last one that was read.
    pub head: u64,
    /// The last block that was read.
    pub read: u64,
    /// The age of the newest block at which the data was complete, in seconds; null before the
    /// first one.
    pub confirmed_seconds_ago: Option<u64>,
    /// From this age on proofs are refused, in seconds.
    pub stale_after: u64,
    /// Seconds since the last good step of this run; null before it.
    pub answered_seconds_ago: Option<u64>,
    /// Why the last step failed; null when it did not.
    pub failure: Option<String>,
    /// The implementation behind the contract, the zero address when it is not a proxy; null when
    /// it was not read.
    pub implementation: Option<Address>,
    /// What of the contract's code was not accepted; null when all was.
    pub alarm: Option<String>,
    /// What needs the operator's attention although the contract is followed: that roots are known
    /// for less time than they are kept. Null when nothing does.
    pub warning: Option<String>,
    /// Reorganizations that were followed, since the start.
    pub reorganizations: u64,
    /// What is followed.
    #[serde(flatten)]
    pub data: SourceData,
}

impl SourceStatus {
    /// Whether the contract was read, and its data is not so old that proofs are refused.
    pub fn is_usable(&self) -> bool {
        self.state == FOLLOWING
    }
}

/// What is followed of a contract, in the status.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SourceData {
    /// Roots.
    Roots {
        /// The credentials of a legacy tree; empty for current roots.
        identifiers: Vec<LegacyIdentifier>,
        /// How many roots are kept.
        roots: usize,
        /// The newest root; null before the first one.
        newest_root: Option<Root>,
        /// The age of the newest root, in seconds.
        newest_root_seconds_ago: Option<u64>,
        /// For how long back every published root is known, in seconds; null before the roots were
        /// read. It may be more than `reach`, of which older roots are forgotten.
        known_for_seconds: Option<u64>,
        /// For how long back roots are kept and should be known, in seconds.
        reach_seconds: u64,
        /// How often the history was read again from nothing since the start, because it
        /// contradicted itself.
        restarts: u64,
    },
    /// Keys.
    Keys {
        /// The keys of the followed owners.
        keys: Vec<KeyStatus>,
    },
    /// Where the contracts of a deployment are.
    Verifier {
        /// What the verifier contract said last; null before the first time.
        deployment: Option<DeploymentStatus>,
    },
    /// Relying parties.
    RelyingParties {
        /// The configured relying parties.
        relying_parties: Vec<PartyStatus>,
    },
}

/// The contracts that a verifier contract names, in the status.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeploymentStatus {
    /// The registry of accounts.
    pub registry: Address,
    /// The registry of issuers.
    pub issuers: Address,
    /// The registry of OPRF keys.
    pub oprf_keys: Address,
    /// The contract that checks the proof itself.
    pub proof_verifier: Address,
}

/// A relying party in its registry, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct PartyStatus {
    /// Its numeric id.
    pub rp_id: RelyingPartyId,
    /// `active`, `inactive` or `unregistered`.
    pub state: &'static str,
    /// The address whose key signs its requests for proofs; null when it is not registered.
    pub signer: Option<Address>,
}

/// A followed key, in the status.
#[derive(Clone, Debug, Serialize)]
pub struct KeyStatus {
    /// Whose key it is.
    pub owner: String,
    /// `present`, `absent`, `deleted`, `unusable`, or `unread` before it was read.
    pub state: &'static str,
    /// Whether the configuration has another key, which then counts.
    pub differs_from_configuration: bool,
}

impl FollowedChain {
    pub(super) fn status(&self, now: UnixSeconds) -> ChainStatus {
        ChainStatus {
            name: self.name.clone(),
            chain_id: self.chain_id,
            agree: self.agree,
            nodes: self.nodes.status(),
            outvoted: self.nodes.outvoted(),
            sources: self.sources.iter().map(|source| source.status(now)).collect(),
        }
    }
}

impl FollowedSource {
    fn status(&self, now: UnixSeconds) -> SourceStatus {
        let progress = self.contract.progress();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let data = match &self.contract {
            Contract::Roots(source) => {
                let followed = source.published();
                let newest = followed.history.newest().map(|(_, published)| published);
                SourceData::Roots {
                    identifiers: followed.identifiers().to_vec(),
                    roots: followed.history.len(),
                    newest_root: newest.map(|published| published.root),
                    newest_root_seconds_ago: newest.map(|published| now.since(published.time)),
                    known_for_seconds: source.known_from().map(|known_from| now.since(known_from.time)),
                    reach_seconds: source.settings.reach.as_secs(),
                    restarts: count(&progress.restarts),
                }
            }
            Contract::Keys(source) => {
                let followed = source.published();
                let differing = source.differing();
                let mut keys: Vec<_> = followed.keys.iter().collect();
                keys.sort_by_key(|(owner, _)| **owner);
                let status = |(owner, key): (&KeyOwner, &Option<FollowedKey>)| KeyStatus {
                    owner: owner.to_string(),
                    state: key.as_ref().map_or("unread", state_name),
                    differs_from_configuration: differing.contains(owner),
                };
                SourceData::Keys { keys: keys.into_iter().map(status).collect() }
            }
            Contract::Verifier(source) => {
                SourceData::Verifier { deployment: source.deployment().map(deployment_status) }
            }
            Contract::RelyingParties(source) => {
                let status = |(party, registered): &(RelyingPartyId, Option<RegisteredParty>)| PartyStatus {
                    rp_id: *party,
                    state: party_state(registered.as_ref()),
                    signer: registered.map(|registered| registered.signer),
                };
                SourceData::RelyingParties { relying_parties: source.published().parties.iter().map(status).collect() }
            }
        };
        let stale_after = self.contract.freshness().stale_after.as_secs();
        let age = self.contract.confirmed().map(|header| now.since(header.time));
        let (answered_seconds_ago, failure) = self.health();
        let code = self.contract.code();
        SourceStatus {
            name: self.contract.name().to_owned(),
            address: self.contract.address(),
            elsewhere: self.contract.elsewhere(),
            environment: self.contract.environment(),
            state: match (age, self.contract.halt()) {
                (_, Some(Unavailable::Unaccepted { .. })) => "stopped",
                (None, _) | (_, Some(_)) => "reading",
                (Some(age), None) if age > stale_after => "stale",
                (Some(_), None) => FOLLOWING,
            },
            head: count(&progress.head),
            read: count(&progress.read),
            confirmed_seconds_ago: age,
            stale_after,
            answered_seconds_ago,
            failure,
            implementation: code.and_then(CodeWatch::now).and_then(|code| code.implementation),
            alarm: code.and_then(CodeWatch::unaccepted).map(|code| code.to_string()),
            warning: match &self.contract {
                Contract::Roots(source) => source.missing_history(now),
                _ => None,
            },
            reorganizations: count(&progress.reorganizations),
            data,
        }
    }
}

fn deployment_status(deployment: Deployment) -> DeploymentStatus {
    let Deployment { registry, issuers, oprf_keys, proof_verifier } = deployment;
    DeploymentStatus { registry, issuers, oprf_keys, proof_verifier }
}
