//! `selfsame chain status` and `selfsame chain check`: what is followed from chains, and whether
//! each node can be asked for it.

use std::collections::HashMap;
use std::process::ExitCode;

use selfsame_actors::{ChainNode, ChainSettings, Clock, ContractPlace, KeyContract, SystemClock};
use selfsame_protocol::chain::contracts::{
    Answer, AnswerError, BlockTag, FollowedKey, Header, Question, RootContract, issuer_key_call, oprf_key_call,
    read_issuer_key, read_oprf_key,
};
use selfsame_protocol::chain::deployment::{
    Deployment, IMPLEMENTATION_SLOT, InDeployment, RegisteredParty, read_implementation, read_relying_party,
    relying_party_call,
};
use selfsame_protocol::chain::followed::KeyOwner;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{Address, Bytes, address, number};
use serde_json::Value;

use super::outcome::{CommandError, Output};
use crate::chains::{FollowedChain, followed_chains};
use crate::cli::ChainCommand;
use crate::config::{Config, settings_of_this_process};

/// Runs the command.
pub async fn run(command: ChainCommand, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        ChainCommand::Status { json, options } => {
            let status: Value = options.get("/status").await?;
            let chains = &status["chains"];
            match json {
                true => out.print_json(chains)?,
                false => out.print(&text(chains))?,
            }
            let sources =
                || chains.as_array().into_iter().flatten().flat_map(|chain| chain["sources"].as_array()).flatten();
            let is_good = sources().all(|source| source["state"] == "following");
            Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ChainCommand::Check { config } => {
            let config = Config::load(config.as_deref(), settings_of_this_process(), false, None)?;
            check_nodes(&config, out).await
        }
    }
}

/// The printed text: a line for each chain, node and contract, with the reason of a failure below.
fn text(chains: &Value) -> String {
    let mut lines = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let seconds = |value: &Value| value.as_u64().map_or_else(|| "never".to_owned(), |age| format!("{age} s ago"));
    for chain in list(chains) {
        let name = chain["name"].as_str().unwrap_or_default().to_owned();
        lines.push(format!(
            "{name}: chain {}, {} of {} nodes must agree",
            chain["chain_id"],
            chain["agree"],
            list(&chain["nodes"]).len()
        ));
        for node in list(&chain["nodes"]) {
            let node_name = node["name"].as_str().unwrap_or_default();
            lines.push(format!("  node {node_name:<40} answered {}", seconds(&node["answered_seconds_ago"])));
            lines.extend(node["failure"].as_str().map(|failure| format!("    {failure}")));
        }
        for source in list(&chain["sources"]) {
            let (name, state) =
                (source["name"].as_str().unwrap_or_default(), source["state"].as_str().unwrap_or_default());
            let confirmed = seconds(&source["confirmed_seconds_ago"]);
            lines.push(format!(
                "  {name:<45} {state}, block {} of {}, complete {confirmed}",
                source["read"], source["head"]
            ));
            lines.extend(source["newest_root"].as_str().map(|root| {
                format!(
                    "    {} roots, the newest {root} {}",
                    source["roots"],
                    seconds(&source["newest_root_seconds_ago"])
                )
            }));
            for key in list(&source["keys"]) {
                let differs =
                    if key["differs_from_configuration"] == true { ", differs from the configuration" } else { "" };
                let (owner, state) =
                    (key["owner"].as_str().unwrap_or_default(), key["state"].as_str().unwrap_or_default());
                lines.push(format!("    {owner}: {state}{differs}"));
            }
            if let Some(deployment) = source["deployment"].as_object() {
                lines.extend(
                    deployment
                        .iter()
                        .map(|(contract, address)| format!("    {contract}: {}", address.as_str().unwrap_or_default())),
                );
            }
            for party in list(&source["relying_parties"]) {
                let [id, state] = ["rp_id", "state"].map(|key| party[key].as_str().unwrap_or_default());
                let signer = party["signer"].as_str().map(|signer| format!(", its requests are signed by {signer}"));
                lines.push(format!("    {id}: {state}{}", signer.unwrap_or_default()));
            }
            lines.extend(
                source["elsewhere"]
                    .as_str()
                    .map(|address| format!("    the verifier names {address}, and the configured address counts")),
            );
            lines.extend(source["warning"].as_str().map(|warning| format!("    warning: {warning}")));
            lines.extend(source["alarm"].as_str().map(|alarm| format!("    alarm: the contract {alarm}")));
            lines.extend(source["failure"].as_str().map(|failure| format!("    {failure}")));
        }
    }
    if lines.is_empty() {
        lines.push("no chain is followed".to_owned());
    }
    lines.join("\n") + "\n"
}

// `selfsame chain check`: asks each node once what would be followed.

/// Runs the command. The exit status is 1 when a node cannot be used, does not answer about a
/// contract, or does not have the block that a contract is followed at.
pub async fn check_nodes(config: &Config, out: &mut Output) -> Result<ExitCode, CommandError> {
    let chains = followed_chains(config)?;
    if chains.is_empty() {
        writeln!(out, "no chain is configured")?;
    }
    let mut is_good = true;
    for FollowedChain { name, nodes, settings } in chains {
        for node in nodes {
            writeln!(out, "{name}: {}", node.name())?;
            let (lines, node_is_good) = check_node(&*node, &settings).await;
            for line in lines {
                writeln!(out, "  {line}")?;
            }
            is_good &= node_is_good;
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What one node says, a line for each contract, and whether all of it can be used.
async fn check_node(node: &impl ChainNode, settings: &ChainSettings) -> (Vec<String>, bool) {
    let answers = match node.ask(&[Question::ChainId, Question::Block(BlockTag::Latest)]).await {
        Ok(answers) => answers,
        Err(error) => return (vec![error.to_string()], false),
    };
    let head = match &answers[..] {
        [Ok(Answer::ChainId(chain_id)), _] if *chain_id != settings.chain_id => {
            return (vec![format!("is a node of chain {chain_id}, not {}", settings.chain_id)], false);
        }
        [Ok(Answer::ChainId(_)), Ok(Answer::Block(Some(head)))] => *head,
        [Err(refusal), _] | [_, Err(refusal)] => return (vec![refusal.to_string()], false),
        _ => return (vec!["does not name its newest block".to_owned()], false),
    };
    let age = SystemClock.unix_seconds().since(head.time);
    let mut lines = vec![format!("chain {}, block {}, {age} s old", settings.chain_id, head.number)];
    let mut is_good = true;
    let mut report = |name: &str, address: Option<Address>, found: Result<String, String>| {
        is_good &= found.is_ok();
        let address = address.map_or_else(String::new, |address| format!(" {}", address::text(&address)));
        lines.push(format!("{name}{address}: {}", found.unwrap_or_else(|problem| problem)));
    };
    let mut deployments = HashMap::new();
    for verifier in &settings.verifiers {
        let found = ask_verifier(node, verifier.address, head).await;
        deployments.extend(found.as_ref().ok().map(|(deployment, _)| (verifier.environment, *deployment)));
        report(&verifier.name, Some(verifier.address), found.map(|(_, text)| text));
    }
    for ContractCall { name, place, data, read } in calls(settings) {
        let Some(to) = place.address(&deployments) else {
            report(name, None, Err("the verifier does not say where it is".to_owned()));
            continue;
        };
        let found = match ask(node, Question::Call { to, data, at: head.hash }).await {
            Ok(answer) => read(&answer).map_err(|error| format!("the answer {error}")),
            Err(problem) => Err(problem),
        };
        report(name, Some(to), found);
    }
    for (name, tag) in tags(settings) {
        let (text, found) = match tag {
            BlockTag::Safe => ("safe", ask(node, Question::Block(tag)).await),
            BlockTag::Finalized => ("finalized", ask(node, Question::Block(tag)).await),
            BlockTag::Latest | BlockTag::Number(_) => continue,
        };
        let found = found.and_then(|answer| match answer {
            Answer::Block(Some(header)) => Ok(format!("the newest block that is `{text}` is {}", header.number)),
            _ => Err("the node has no such block".to_owned()),
        });
        report(name, None, found.map_err(|problem| format!("asked for the newest block that is `{text}`, {problem}")));
    }
    (lines, is_good)
}

/// The contracts that are followed by the roots and keys of a block with a tag.
fn tags(settings: &ChainSettings) -> impl Iterator<Item = (&str, BlockTag)> {
    let roots = settings.roots.iter().map(|source| (&*source.name, source.head));
    roots.chain(settings.keys.iter().map(|source| (&*source.name, source.added_at)))
}

/// A call of a contract, with what its answer says.
struct ContractCall<'a> {
    name: &'a str,
    place: CheckedPlace,
    data: Bytes,
    read: Read,
}

type Read = Box<dyn Fn(&Answer) -> Result<String, AnswerError> + Send + Sync>;

/// Where a contract is.
enum CheckedPlace {
    At(Address),
    InDeployment(Environment, InDeployment),
}

impl CheckedPlace {
    fn new(place: ContractPlace, environment: Environment, of: InDeployment) -> Self {
        match place {
            ContractPlace::At(address) => Self::At(address),
            ContractPlace::FromVerifier => Self::InDeployment(environment, of),
        }
    }

    fn address(&self, deployments: &HashMap<Environment, Deployment>) -> Option<Address> {
        match self {
            Self::At(address) => Some(*address),
            Self::InDeployment(environment, of) => deployments.get(environment).map(of),
        }
    }
}

/// A call of each contract, and for keys and relying parties of each one.
fn calls(settings: &ChainSettings) -> Vec<ContractCall<'_>> {
    let mut calls = Vec::new();
    for source in &settings.roots {
        let contract: RootContract = source.contract;
        let read = move |answer: &Answer| {
            let newest = contract.read_newest_root(answer)?;
            Ok(newest
                .map_or_else(|| "no root yet".to_owned(), |root| format!("newest root {}", number::canonical(root))))
        };
        let place = CheckedPlace::new(source.place, source.environment, |deployment| deployment.registry);
        calls.push(ContractCall { name: &source.name, place, data: contract.newest_root_call(), read: Box::new(read) });
    }
    for source in &settings.keys {
        for followed in &source.owners {
            let owner = followed.owner;
            let data = match owner {
                KeyOwner::Issuer(id) => issuer_key_call(id),
                KeyOwner::RelyingParty(rp_id) => oprf_key_call(rp_id.0),
            };
            let (read, of): (Read, InDeployment) = match source.contract {
                KeyContract::Issuers => (
                    Box::new(move |answer| Ok(format!("{owner} {}", key_text(&read_issuer_key(answer)?)))),
                    |deployment| deployment.issuers,
                ),
                KeyContract::OprfKeys => (
                    Box::new(move |answer| Ok(format!("{owner} {}", key_text(&read_oprf_key(answer)?)))),
                    |deployment| deployment.oprf_keys,
                ),
            };
            let place = CheckedPlace::new(source.place, source.environment, of);
            calls.push(ContractCall { name: &source.name, place, data, read });
        }
    }
    for source in &settings.relying_parties {
        for party in source.parties.iter().copied() {
            let read = move |answer: &Answer| {
                let state = match read_relying_party(party, answer)? {
                    None => "is not registered",
                    Some(RegisteredParty { is_active: true, .. }) => "is active",
                    Some(RegisteredParty { is_active: false, .. }) => "is not active",
                };
                Ok(format!("relying party {party} {state}"))
            };
            let place = CheckedPlace::At(source.address);
            calls.push(ContractCall {
                name: &source.name,
                place,
                data: relying_party_call(party),
                read: Box::new(read),
            });
        }
    }
    calls
}

fn key_text(key: &FollowedKey) -> &'static str {
    match key {
        FollowedKey::Present(_) => "has a key",
        FollowedKey::Absent => "has no key",
        FollowedKey::Deleted => "had a key, which was deleted",
        FollowedKey::Unusable => "has something that cannot be a key",
    }
}

/// The deployment that a verifier names, and what to say about it.
async fn ask_verifier(node: &impl ChainNode, to: Address, head: Header) -> Result<(Deployment, String), String> {
    let wrong = |error| format!("the answer {error}");
    let [registry, issuers, oprf_keys, proof_verifier] =
        Deployment::calls().map(|data| Question::Call { to, data, at: head.hash });
    let answers = [
        ask(node, registry).await?,
        ask(node, issuers).await?,
        ask(node, oprf_keys).await?,
        ask(node, proof_verifier).await?,
    ];
    let deployment = Deployment::read(&answers).map_err(wrong)?;
    let slot = Question::Storage { address: to, slot: IMPLEMENTATION_SLOT, at: head.hash };
    let implementation = read_implementation(&ask(node, slot).await?).map_err(wrong)?;
    let text = format!(
        "implementation {}, proofs are checked with {}",
        address::text(&implementation),
        address::text(&deployment.proof_verifier)
    );
    Ok((deployment, text))
}

async fn ask(node: &impl ChainNode, question: Question) -> Result<Answer, String> {
    let answered = node.ask(&[question]).await.map_err(|error| error.to_string())?;
    match answered.into_iter().next() {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(refusal)) => Err(refusal.to_string()),
        None => Err("the node did not answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_is_rendered_as_text() {
        let chains = json!([{
            "name": "ethereum", "chain_id": 1, "agree": 1,
            "nodes": [{"name": "node.example", "answered_seconds_ago": 3, "failure": "it hangs"}],
            "sources": [
                {"name": "ethereum/orb", "state": "following", "read": 7, "head": 8, "confirmed_seconds_ago": 5,
                 "roots": 2, "newest_root": "0x1", "newest_root_seconds_ago": 60,
                 "warning": "roots are known only for a while"},
                {"name": "ethereum/issuers", "state": "reading", "read": 0, "head": 0, "failure": "no answer",
                 "keys": [{"owner": "issuer 1", "state": "present", "differs_from_configuration": true}]},
                {"name": "ethereum/verifier", "state": "stopped", "read": 8, "head": 8, "confirmed_seconds_ago": 5,
                 "deployment": {"registry": "0x2"}, "elsewhere": "0x3", "alarm": "has the implementation 0x4"},
                {"name": "ethereum/relying-parties", "state": "following", "read": 8, "head": 8,
                 "confirmed_seconds_ago": 5, "relying_parties": [
                    {"rp_id": "rp_1", "state": "active", "signer": "0x5"},
                    {"rp_id": "rp_2", "state": "unregistered", "signer": null},
                 ]},
            ],
        }]);
        let expected = "ethereum: chain 1, 1 of 1 nodes must agree\n  node node.example                             answered 3 s ago\n    it hangs\n  ethereum/orb                                  following, block 7 of 8, complete 5 s ago\n    2 roots, the newest 0x1 60 s ago\n    warning: roots are known only for a while\n  ethereum/issuers                              reading, block 0 of 0, complete never\n    issuer 1: present, differs from the configuration\n    no answer\n  ethereum/verifier                             stopped, block 8 of 8, complete 5 s ago\n    registry: 0x2\n    the verifier names 0x3, and the configured address counts\n    alarm: the contract has the implementation 0x4\n  ethereum/relying-parties                      following, block 8 of 8, complete 5 s ago\n    rp_1: active, its requests are signed by 0x5\n    rp_2: unregistered\n";
        assert_eq!(text(&chains), expected);
        assert_eq!(text(&json!([])), "no chain is followed\n");
    }
}
