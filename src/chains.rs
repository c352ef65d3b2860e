//! Makes the settings of following chains from the configuration.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use selfsame_actors::{
    ChainHandle, ChainNode, ChainSettings, CodeSettings, ContractPlace, FollowedOwner, Freshness, KeyContract,
    KeySourceSettings, OnUpgrade, PartySourceSettings, RootSourceSettings, VerifierSettings,
};
use selfsame_interfaces::pem::read_private;
use selfsame_protocol::chain::contracts::{BlockTag, RootContract};
use selfsame_protocol::chain::deployment::AcceptedCode;
use selfsame_protocol::chain::followed::KeyOwner;
use selfsame_protocol::verification::Environment;
use zeroize::Zeroizing;

use crate::chain::{InvalidNodeUrl, JsonRpcNode, NodeSettings, NodeSetupError, NodeUrl};
use crate::config::{Block, Chain, Config, Contract, ContractKind};

/// Why a chain cannot be followed as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum ChainSetupError {
    /// A node cannot be asked as it is configured.
    #[error("chains.{chain}: {error}")]
    Node {
        /// The chain's name.
        chain: String,
        /// What is wrong.
        error: NodeSetupError,
    },
    /// The file with the URLs of nodes cannot be read.
    #[error("chains.{chain}.rpc_file: {}: {error}", path.display())]
    Unreadable {
        /// The chain's name.
        chain: String,
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error; of the kind `InvalidData` when the file is not UTF-8.
        error: std::io::Error,
    },
    /// A line of the file is not the URL of a node.
    #[error("chains.{chain}.rpc_file: {}: line {line}: {error}", path.display())]
    Url {
        /// The chain's name.
        chain: String,
        /// Path of the file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        error: InvalidNodeUrl,
    },
    /// The file has fewer nodes than must agree, or none must.
    #[error(
        "chains.{chain}.agree: {agree} nodes cannot agree among the {nodes} of the file; give at least 1, and as many nodes"
    )]
    TooFewNodes {
        /// The chain's name.
        chain: String,
        /// How many nodes must agree.
        agree: usize,
        /// How many there are.
        nodes: usize,
    },
}

/// A chain as the service follows it, with the nodes, whose counters the metrics show.
pub struct FollowedChain {
    /// The chain's name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<Arc<JsonRpcNode>>,
    /// The settings of the service.
    pub settings: ChainSettings,
}

impl FollowedChain {
    /// The nodes, each with the name of the chain.
    pub fn into_nodes(self) -> impl Iterator<Item = (String, Arc<JsonRpcNode>)> {
        let name = self.name;
        self.nodes.into_iter().map(move |node| (name.clone(), node))
    }
}

/// The chains of a configuration.
///
/// # Errors
/// A node cannot be asked as it is configured, or the file of nodes cannot be used.
pub fn followed_chains(config: &Config) -> Result<Vec<FollowedChain>, ChainSetupError> {
    config.chains.iter().map(|chain| followed_chain(config, chain)).collect()
}

/// Lets the keys of the issuers and relying parties be followed that the configuration has after it
/// was read again.
pub fn follow_owners(config: &Config, chain: &ChainHandle) {
    for environment in Environment::ALL {
        for contract in [KeyContract::Issuers, KeyContract::OprfKeys] {
            chain.set_owners(environment, contract, &owners(config, environment, contract));
        }
    }
}

/// One chain of a configuration.
///
/// # Errors
/// A node cannot be asked as it is configured, or the file of nodes cannot be used.
pub fn followed_chain(config: &Config, chain: &Chain) -> Result<FollowedChain, ChainSetupError> {
    let nodes: Vec<Arc<JsonRpcNode>> =
        node_urls(chain)?.into_iter().map(|url| node(chain, url)).collect::<Result<_, _>>()?;
    let agree = chain.agree(nodes.len());
    if !(1..=nodes.len()).contains(&agree) {
        let name = chain.name.clone();
        return Err(ChainSetupError::TooFewNodes { chain: name, agree, nodes: nodes.len() });
    }
    let contracts: Vec<Contract> = chain.contracts().into_iter().flatten().collect();
    let settings = ChainSettings {
        name: chain.name.clone(),
        chain_id: chain.chain_id().unwrap_or_default(),
        nodes: nodes.iter().map(|node| Arc::clone(node) as Arc<dyn ChainNode>).collect(),
        agree,
        roots: contracts.iter().filter_map(|contract| root_source(chain, contract)).collect(),
        keys: contracts.iter().filter_map(|contract| key_source(config, chain, contract)).collect(),
        verifiers: contracts.iter().filter_map(|contract| verifier(chain, contract)).collect(),
        relying_parties: contracts.iter().filter_map(|contract| party_source(config, chain, contract)).collect(),
    };
    Ok(FollowedChain { name: chain.name.clone(), nodes, settings })
}

fn node_urls(chain: &Chain) -> Result<Vec<NodeUrl>, ChainSetupError> {
    let Some(path) = &chain.rpc_file else { return Ok(chain.rpc.clone()) };
    let (name, path) = (|| chain.name.clone(), path.clone());
    let read = read_private(&path).and_then(|bytes| {
        let text = std::str::from_utf8(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Zeroizing::new(text.to_owned()))
    });
    let text = match read {
        Ok(text) => text,
        Err(error) => return Err(ChainSetupError::Unreadable { chain: name(), path, error }),
    };
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let url = |(index, line): (usize, &str)| {
        let url = line.parse::<NodeUrl>();
        url.map_err(|error| ChainSetupError::Url { chain: name(), path: path.clone(), line: index + 1, error })
    };
    lines.map(url).collect()
}

fn node(chain: &Chain, url: NodeUrl) -> Result<Arc<JsonRpcNode>, ChainSetupError> {
    let settings = NodeSettings {
        time_limit: *chain.request_timeout,
        allow_plain_http: chain.insecure_http,
        authorities: chain.authorities.clone(),
        ..NodeSettings::new(url)
    };
    let node = JsonRpcNode::new(settings);
    node.map(Arc::new).map_err(|error| ChainSetupError::Node { chain: chain.name.clone(), error })
}

fn root_source(chain: &Chain, contract: &Contract) -> Option<RootSourceSettings> {
    Some(RootSourceSettings {
        name: source_name(chain, contract),
        contract: match contract.kind {
            ContractKind::IdentityManager => RootContract::IdentityManager,
            ContractKind::Bridge => RootContract::Bridge,
            ContractKind::Registry => RootContract::Registry,
            _ => return None,
        },
        place: contract.address.map_or(ContractPlace::FromVerifier, ContractPlace::At),
        code: code(contract),
        environment: contract.environment,
        identifiers: contract.identifiers.clone(),
        head: block_tag(contract.block),
        freshness: freshness(contract),
        reach: contract.reach,
        start_block: contract.start_block,
        blocks_per_question: contract.blocks_per_request,
    })
}

fn key_source(config: &Config, chain: &Chain, contract: &Contract) -> Option<KeySourceSettings> {
    let kind = match contract.kind {
        ContractKind::Issuers => KeyContract::Issuers,
        ContractKind::OprfKeys => KeyContract::OprfKeys,
        _ => return None,
    };
    Some(KeySourceSettings {
        name: source_name(chain, contract),
        contract: kind,
        place: contract.address.map_or(ContractPlace::FromVerifier, ContractPlace::At),
        code: code(contract),
        environment: contract.environment,
        owners: owners(config, contract.environment, kind),
        added_at: block_tag(contract.block),
        freshness: freshness(contract),
    })
}

fn verifier(chain: &Chain, contract: &Contract) -> Option<VerifierSettings> {
    Some(VerifierSettings {
        name: source_name(chain, contract),
        address: contract.address.filter(|_| contract.kind == ContractKind::Verifier)?,
        environment: contract.environment,
        freshness: freshness(contract),
        code: code(contract),
    })
}

fn party_source(config: &Config, chain: &Chain, contract: &Contract) -> Option<PartySourceSettings> {
    let owners = owners(config, contract.environment, KeyContract::OprfKeys);
    Some(PartySourceSettings {
        name: source_name(chain, contract),
        address: contract.address.filter(|_| contract.kind == ContractKind::RelyingParties)?,
        environment: contract.environment,
        parties: owners.iter().filter_map(|owner| owner.owner.relying_party()).collect(),
        freshness: freshness(contract),
    })
}

fn code(contract: &Contract) -> CodeSettings {
    let Contract { implementations, proof_verifiers, .. } = contract.clone();
    CodeSettings {
        accepted: AcceptedCode { implementations, proof_verifiers },
        on_upgrade: match contract.on_upgrade {
            crate::config::OnUpgrade::Warn => OnUpgrade::Warn,
            crate::config::OnUpgrade::Stop => OnUpgrade::Stop,
        },
    }
}

/// The owners of keys that a contract is asked for: the issuers of the environment, or the relying
/// parties with an entry.
fn owners(config: &Config, environment: Environment, contract: KeyContract) -> Vec<FollowedOwner> {
    match contract {
        KeyContract::Issuers => {
            let issuers = config.issuers.iter().filter(|issuer| issuer.environments().contains(&environment));
            let owner = |issuer: &crate::config::Issuer| FollowedOwner {
                owner: KeyOwner::Issuer(issuer.id),
                configured: issuer.public_key.map(|key| key.0),
            };
            issuers.map(owner).collect()
        }
        KeyContract::OprfKeys => {
            let has_environment = |app_id: &str| {
                config.apps.iter().any(|app| app.id == app_id && app.environments().contains(&environment))
            };
            let parties = config.relying_parties.iter().filter(|party| has_environment(&party.app_id));
            let owner = |party: &crate::config::RelyingParty| FollowedOwner {
                owner: KeyOwner::RelyingParty(party.rp_id()),
                configured: party.oprf_public_key.map(|key| key.0),
            };
            parties.map(owner).collect()
        }
    }
}

fn source_name(chain: &Chain, contract: &Contract) -> String {
    format!("{}/{}", chain.name, contract.name)
}

fn freshness(contract: &Contract) -> Freshness {
    let Contract { interval, stale_after, fresh_for, .. } = *contract;
    Freshness { interval, stale_after, fresh_for }
}

fn block_tag(block: Block) -> BlockTag {
    match block {
        Block::Latest => BlockTag::Latest,
        Block::Safe => BlockTag::Safe,
        Block::Finalized => BlockTag::Finalized,
    }
}
