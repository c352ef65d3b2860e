//! `[[chains]]`: the public contracts that trusted data is followed from.

use std::path::PathBuf;
use std::time::Duration;

use alloy_primitives::{Address, address};
use schemars::JsonSchema;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use serde::{Deserialize, Serialize};

use super::values::{ContractAddress, TimeSpan};
use crate::chain::NodeUrl;

/// How often the contracts of World Chain are asked for roots; it makes a block every two seconds.
const WORLD_CHAIN_INTERVAL: Duration = Duration::from_secs(3);
/// How often the contracts of Ethereum are asked: once a block.
const ETHEREUM_INTERVAL: Duration = Duration::from_secs(12);
/// Up to this age of the newest known block a source is up to date.
const FRESH_FOR: Duration = Duration::from_secs(60);
/// The same where roots count from a safe or final block on.
const SETTLED_FRESH_FOR: Duration = Duration::from_secs(1800);
/// How often keys are asked for.
const KEY_INTERVAL: Duration = Duration::from_secs(30);
/// How often registries of relying parties are asked.
const PARTY_INTERVAL: Duration = Duration::from_secs(60);
/// How often verifiers are asked where the other contracts are.
const VERIFIER_INTERVAL: Duration = Duration::from_secs(600);
/// How far back legacy roots are kept: the greatest age that a request may allow.
const LEGACY_REACH: Duration = Duration::from_secs(7 * 24 * 3600);
/// How far back current roots are kept, of which a proof can use those of the last hours.
const CURRENT_REACH: Duration = Duration::from_secs(24 * 3600);

/// `[[chains]]`: a chain that is followed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The chain's name in logs and status, unique.
    pub name: String,
    /// A public deployment, whose chain id and contracts are then known.
    pub preset: Option<ChainPreset>,
    /// The number that the chain's transactions are signed with, by default that of the preset.
    /// Nodes of another chain are not used.
    pub(super) chain_id: Option<u64>,
    /// The URLs of the nodes that are asked. They are secrets.
    #[serde(default)]
    pub rpc: Vec<NodeUrl>,
    /// A file with the URL of a node on each line, for deployments that keep secrets in files.
    pub rpc_file: Option<PathBuf>,
    /// How many nodes must give the same answer; by default more than half of them.
    pub(super) agree: Option<usize>,
    /// Time from a question to the end of its answer.
    #[serde(default = "ten_seconds")]
    pub request_timeout: TimeSpan,
    /// Whether nodes on other machines may be asked over plain HTTP.
    #[serde(default)]
    pub insecure_http: bool,
    /// A PEM file with the certificates that the nodes' certificates must descend from, instead of
    /// the system's.
    pub authorities: Option<PathBuf>,
    /// The contracts that are followed, besides those of the preset. An entry with the name of
    /// one of the preset's changes that one.
    #[serde(default)]
    pub(super) contracts: Vec<ContractEntry>,
}

/// `[[chains.contracts]]` as it is written: what it leaves out is the preset's or the default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractEntry {
    /// The contract's name, unique in the chain: lower-case letters, digits and `-`.
    pub(super) name: String,
    /// What kind of contract it is; required, unless the preset says it.
    pub(super) kind: Option<ContractKind>,
    /// Where it is; by default where the environment's verifier says, or else the preset. An
    /// address that is given here counts before the verifier's.
    pub(super) address: Option<ContractAddress>,
    /// The environment whose proofs it is for; required, unless the preset says it.
    pub(super) environment: Option<Environment>,
    /// For a legacy tree the credentials that all of its members have.
    pub(super) identifiers: Option<Vec<LegacyIdentifier>>,
    /// Whether it is followed; `false` leaves out a contract of the preset.
    pub(super) enabled: Option<bool>,
    /// What follows when it runs code that was not accepted.
    pub(super) on_upgrade: Option<OnUpgrade>,
    /// The accepted implementations of a proxy; by default the first one that was seen.
    #[serde(default)]
    pub(super) implementations: Vec<ContractAddress>,
    /// For a verifier the accepted contracts that check proofs; by default the preset's, or the
    /// first one that was seen.
    #[serde(default)]
    pub(super) proof_verifiers: Vec<ContractAddress>,
    /// For roots the block that counts as the newest; for keys the block from which on a new key
    /// counts.
    pub(super) block: Option<Block>,
    /// Time between two looks.
    pub(super) interval: Option<TimeSpan>,
    /// Past this age of the last confirmed block, nothing of the contract counts.
    pub(super) stale_after: Option<TimeSpan>,
    /// Up to this age of the last confirmed block, an unknown root is refused; past it, the answer
    /// is 503.
    pub(super) fresh_for: Option<TimeSpan>,
    /// How far back roots are kept, and read at the first start.
    pub(super) reach: Option<TimeSpan>,
    /// The first block that is read at the first start.
    pub(super) start_block: Option<u64>,
    /// The most blocks that one question asks for the logs of. It shrinks where a node refuses.
    pub(super) blocks_per_request: Option<u64>,
}

/// What kind of contract is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContractKind {
    /// The identity manager of a legacy tree.
    IdentityManager,
    /// A bridge that repeats the roots of a legacy tree on another chain.
    Bridge,
    /// The registry of accounts, for current roots.
    Registry,
    /// The registry of issuers.
    Issuers,
    /// The registry of OPRF keys.
    OprfKeys,
    /// The verifier, which names the other contracts of current proofs.
    Verifier,
    /// The registry of relying parties.
    RelyingParties,
}

/// What follows when a contract runs code that was not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUpgrade {
    /// Log, status and metrics say so.
    #[default]
    Warn,
    /// The same, and nothing of the contract counts until the code is accepted.
    Stop,
}

/// Which block counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// The newest one.
    #[default]
    Latest,
    /// The newest one that only a failure of the layer below can undo.
    Safe,
    /// The newest one that cannot be undone.
    Finalized,
}

/// A contract that is followed, with everything that the preset and the defaults add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Its name, unique among the contracts of the chain.
    pub name: String,
    /// What kind of contract it is.
    pub kind: ContractKind,
    /// Where it is; `None` for where the verifier of the environment says.
    pub address: Option<Address>,
    /// What follows from code that was not accepted.
    pub on_upgrade: OnUpgrade,
    /// The accepted implementations; when it is empty, the first one that was seen.
    pub implementations: Vec<Address>,
    /// For a verifier the accepted contracts that check proofs; when it is empty, the first one
    /// that was seen.
    pub proof_verifiers: Vec<Address>,
    /// The environment whose proofs it is for.
    pub environment: Environment,
    /// For a legacy tree the credentials that all of its members have.
    pub identifiers: Vec<LegacyIdentifier>,
    /// For roots the block that counts as the newest; for keys the block from which on a new key
    /// counts.
    pub block: Block,
    /// Time between two looks.
    pub interval: Duration,
    /// From this age of the newest known block on, proofs that need the contract are refused.
    pub stale_after: Duration,
    /// Up to this age of the newest known block, a root that is not known does not exist.
    pub fresh_for: Duration,
    /// How far back roots are kept.
    pub reach: Duration,
    /// The first block that is read when nothing is stored.
    pub start_block: Option<u64>,
    /// The most blocks that one question asks for the logs of.
    pub blocks_per_request: u64,
}

/// A public deployment. The addresses are those that its operators publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChainPreset {
    /// World Chain: the contracts of current proofs in production.
    WorldChain,
    /// World Chain: the contracts of current proofs in staging, which are on the same chain.
    WorldChainStaging,
    /// Ethereum: the legacy trees of production.
    Ethereum,
    /// Sepolia: the legacy trees of staging.
    Sepolia,
}

/// The contracts of current proofs in one environment.
struct CurrentDeployment {
    verifier: Address,
    proof_verifier: Address,
    registry: Address,
    issuers: Address,
    oprf_keys: Address,
    relying_parties: Address,
}

impl ChainPreset {
    /// The number that the chain's transactions are signed with.
    fn chain_id(self) -> u64 {
        match self {
            Self::WorldChain | Self::WorldChainStaging => 480,
            Self::Ethereum => 1,
            Self::Sepolia => 11_155_111,
        }
    }

    fn contracts(self) -> Vec<ContractEntry> {
        use ContractKind::{IdentityManager, Issuers, OprfKeys, Registry, RelyingParties, Verifier};
        let legacy = |name: &str, address, environment, identifier| ContractEntry {
            identifiers: Some(vec![identifier]),
            interval: Some(ETHEREUM_INTERVAL.into()),
            ..ContractEntry::new(name, IdentityManager, address, environment)
        };
        let current = |environment, addresses: CurrentDeployment| {
            let entry = |name, kind, address| ContractEntry::new(name, kind, address, environment);
            let proof_verifiers = vec![addresses.proof_verifier.into()];
            let interval = Some(WORLD_CHAIN_INTERVAL.into());
            let parties = entry("relying-parties", RelyingParties, addresses.relying_parties);
            vec![
                ContractEntry { proof_verifiers, ..entry("verifier", Verifier, addresses.verifier) },
                ContractEntry { interval, ..entry("registry", Registry, addresses.registry) },
                entry("issuers", Issuers, addresses.issuers),
                entry("oprf-keys", OprfKeys, addresses.oprf_keys),
                // It decides nothing about proofs.
                ContractEntry { enabled: Some(false), ..parties },
            ]
        };
        let (production, staging) = (Environment::Production, Environment::Staging);
        match self {
            Self::WorldChain => current(
                production,
                CurrentDeployment {
                    verifier: address!("0x00000000009E00F9FE82CfeeBB4556686da094d7"),
                    proof_verifier: address!("0x00000000003f3659fA84731896ba1C417b8F8A25"),
                    registry: address!("0x0000000000aE079eB8a274cD51c0f44a9E4d67d4"),
                    issuers: address!("0x941239840F4d9668da8be76b568e836b50685d2c"),
                    oprf_keys: address!("0x0D8b461799474207A3d223553d4d5e6609cb0c69"),
                    relying_parties: address!("0xD9A213A92Bca460D56cDbBF4d775b48fB5925BbC"),
                },
            ),
            Self::WorldChainStaging => current(
                staging,
                CurrentDeployment {
                    verifier: address!("0x703a6316c975DEabF30b637c155edD53e24657DB"),
                    proof_verifier: address!("0x39CcB3b670651a14da8b3835f42924f49C2C5986"),
                    registry: address!("0x8556d07D75025f286fe757C7EeEceC40D54FA16D"),
                    issuers: address!("0x9037125Ae10e9E89fDbe7001228289462EFA3eF3"),
                    oprf_keys: address!("0xb2C02253ee7bFEDF50F5D015658857099980E91F"),
                    relying_parties: address!("0x37d2462fE7B4a07987263AAd062C6593C4f567b9"),
                },
            ),
            Self::Ethereum => vec![
                legacy(
                    "orb",
                    address!("0xf7134CE138832c1456F2a91D64621eE90c2bddEa"),
                    production,
                    LegacyIdentifier::Orb,
                ),
                legacy(
                    "document",
                    address!("0x5FB49f5B63421BD43C72f3a9D23547e977c63285"),
                    production,
                    LegacyIdentifier::Document,
                ),
                legacy(
                    "secure-document",
                    address!("0xD9f2A4fff0c1909272eA9b393613dCb2a27b1137"),
                    production,
                    LegacyIdentifier::SecureDocument,
                ),
            ],
            Self::Sepolia => vec![
                legacy("orb", address!("0xb2ead588f14e69266d1b87936b75325181377076"), staging, LegacyIdentifier::Orb),
                legacy(
                    "secure-document",
                    address!("0x0670d1d62448FAf470644Eb95aFD0d5BffC34643"),
                    staging,
                    LegacyIdentifier::SecureDocument,
                ),
            ],
        }
    }
}

impl ContractEntry {
    fn new(name: &str, kind: ContractKind, address: Address, environment: Environment) -> Self {
        Self {
            name: name.to_owned(),
            kind: Some(kind),
            address: Some(address.into()),
            environment: Some(environment),
            identifiers: None,
            enabled: None,
            on_upgrade: None,
            implementations: Vec::new(),
            proof_verifiers: Vec::new(),
            block: None,
            interval: None,
            stale_after: None,
            fresh_for: None,
            reach: None,
            start_block: None,
            blocks_per_request: None,
        }
    }

    /// This entry, with what it leaves out from another one.
    fn or(self, other: Self) -> Self {
        Self {
            name: self.name,
            kind: self.kind.or(other.kind),
            address: self.address.or(other.address),
            environment: self.environment.or(other.environment),
            identifiers: self.identifiers.or(other.identifiers),
            enabled: self.enabled.or(other.enabled),
            on_upgrade: self.on_upgrade.or(other.on_upgrade),
            implementations: or_list(self.implementations, other.implementations),
            proof_verifiers: or_list(self.proof_verifiers, other.proof_verifiers),
            block: self.block.or(other.block),
            interval: self.interval.or(other.interval),
            stale_after: self.stale_after.or(other.stale_after),
            fresh_for: self.fresh_for.or(other.fresh_for),
            reach: self.reach.or(other.reach),
            start_block: self.start_block.or(other.start_block),
            blocks_per_request: self.blocks_per_request.or(other.blocks_per_request),
        }
    }

    /// Whether the contract is followed.
    fn is_enabled(&self) -> bool {
        self.enabled != Some(false)
    }

    /// The contract; the name of the key that is missing otherwise. `is_located` says that a
    /// verifier names its address.
    fn resolve(self, is_located: bool) -> Result<Contract, &'static str> {
        let kind = self.kind.ok_or("kind")?;
        let block = self.block.unwrap_or_default();
        // Other blocks than the newest are known to be old.
        let fresh_for = if kind.has_roots() && block != Block::Latest { SETTLED_FRESH_FOR } else { FRESH_FOR };
        let reach = if kind == ContractKind::Registry { CURRENT_REACH } else { LEGACY_REACH };
        if self.address.is_none() && !is_located {
            return Err("address");
        }
        Ok(Contract {
            name: self.name,
            kind,
            address: self.address.map(|address| address.0),
            on_upgrade: self.on_upgrade.unwrap_or_default(),
            implementations: addresses(&self.implementations),
            proof_verifiers: addresses(&self.proof_verifiers),
            environment: self.environment.ok_or("environment")?,
            identifiers: self.identifiers.unwrap_or_default(),
            block,
            interval: *self.interval.unwrap_or(kind.interval().into()),
            stale_after: *self.stale_after.unwrap_or(TimeSpan::from_secs(3600)),
            fresh_for: *self.fresh_for.unwrap_or(fresh_for.into()),
            reach: *self.reach.unwrap_or(reach.into()),
            start_block: self.start_block,
            blocks_per_request: self.blocks_per_request.unwrap_or(1000),
        })
    }
}

impl ContractKind {
    /// Whether the contract publishes roots.
    pub fn has_roots(self) -> bool {
        matches!(self, Self::IdentityManager | Self::Bridge | Self::Registry)
    }

    /// Whether a verifier names the contract.
    fn is_of_a_deployment(self) -> bool {
        matches!(self, Self::Registry | Self::Issuers | Self::OprfKeys)
    }

    /// The default time between two looks.
    fn interval(self) -> Duration {
        match self {
            Self::IdentityManager | Self::Bridge | Self::Registry => ETHEREUM_INTERVAL,
            Self::Issuers | Self::OprfKeys => KEY_INTERVAL,
            Self::RelyingParties => PARTY_INTERVAL,
            Self::Verifier => VERIFIER_INTERVAL,
        }
    }
}

fn addresses(list: &[ContractAddress]) -> Vec<Address> {
    list.iter().map(|address| address.0).collect()
}

/// A list, or the other one when it is empty.
fn or_list(own: Vec<ContractAddress>, other: Vec<ContractAddress>) -> Vec<ContractAddress> {
    if own.is_empty() { other } else { own }
}

/// An entry with what the preset adds.
struct MergedEntry {
    /// The position of the operator's entry; 0 when the operator has none.
    index: usize,
    /// Whether the operator's entry has an address, which counts before a verifier's.
    has_own_address: bool,
    entry: ContractEntry,
}

impl Chain {
    /// The number that the chain's transactions are signed with; `None` when neither the entry nor
    /// its preset says it.
    pub fn chain_id(&self) -> Option<u64> {
        self.chain_id.or(self.preset.map(ChainPreset::chain_id))
    }

    /// How many of so many nodes must give the same answer. When the setting is left out, more than
    /// half, so that no single node of several can make up what the others do not know.
    pub fn agree(&self, nodes: usize) -> usize {
        self.agree.unwrap_or(nodes / 2 + 1)
    }

    /// The contracts that are followed: those of the preset as the entries change them, then the
    /// other entries. An entry that lacks a key is its position in the list, which for a contract
    /// of the preset does not happen, and the key's name.
    pub fn contracts(&self) -> Vec<Result<Contract, (usize, &'static str)>> {
        let entries = self.entries();
        let verifiers = entries.iter().filter(|entry| entry.entry.kind == Some(ContractKind::Verifier));
        let verified: Vec<Environment> = verifiers.filter_map(|entry| entry.entry.environment).collect();
        let resolve = |MergedEntry { index, has_own_address, mut entry }: MergedEntry| {
            let is_of_a_deployment = entry.kind.is_some_and(ContractKind::is_of_a_deployment);
            let is_located = is_of_a_deployment && entry.environment.is_some_and(|own| verified.contains(&own));
            // The addresses of a preset count until a verifier names others.
            if is_located && !has_own_address {
                entry.address = None;
            }
            entry.resolve(is_located).map_err(|key| (index, key))
        };
        entries.into_iter().map(resolve).collect()
    }

    /// The entries of the contracts that are followed: those of the preset as the own ones change
    /// them, then the other own ones.
    fn entries(&self) -> Vec<MergedEntry> {
        let preset = self.preset.map(ChainPreset::contracts).unwrap_or_default();
        let own = |name: &str| self.contracts.iter().position(|entry| entry.name == name);
        let of_preset = preset.iter().map(|entry| match own(&entry.name) {
            Some(index) => {
                let own = self.contracts[index].clone();
                MergedEntry { index, has_own_address: own.address.is_some(), entry: own.or(entry.clone()) }
            }
            None => MergedEntry { index: 0, has_own_address: false, entry: entry.clone() },
        });
        let is_new = |entry: &ContractEntry| preset.iter().all(|known| known.name != entry.name);
        let others = self.contracts.iter().cloned().enumerate().filter(|(_, entry)| is_new(entry));
        let others = others.map(|(index, entry)| {
            let has_own_address = entry.address.is_some();
            MergedEntry { index, has_own_address, entry }
        });
        of_preset.chain(others).filter(|merged| merged.entry.is_enabled()).collect()
    }

    /// Whether a contract of a kind is followed for an environment.
    pub fn follows(&self, kind: ContractKind, environment: Environment) -> bool {
        let followed = self.contracts();
        followed.iter().flatten().any(|contract| contract.kind == kind && contract.environment == environment)
    }
}

fn ten_seconds() -> TimeSpan {
    TimeSpan::from_secs(10)
}
