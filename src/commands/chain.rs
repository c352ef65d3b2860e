//! `selfsame chain …`: what is followed from chains.

use std::process::ExitCode;
use std::sync::Arc;

use selfsame_actors::{ChainNode, ChainSettings, Clock, KeyContract, SystemClock};
use selfsame_protocol::chain::contracts::{
    AnswerError, FollowedKey, issuer_key_call, oprf_key_call, read_issuer_key, read_oprf_key,
};
use selfsame_protocol::chain::followed::KeyOwner;
use selfsame_protocol::chain::rpc::{Answer, BlockTag, Header, Question};
use selfsame_protocol::{Address, Bytes, address, number};
use serde_json::Value;

use super::error::CommandError;
use super::output::Output;
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
            check(&config, out).await
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
            lines.extend(source["failure"].as_str().map(|failure| format!("    {failure}")));
        }
    }
    if lines.is_empty() {
        lines.push("no chain is followed".to_owned());
    }
    lines.join("\n") + "\n"
}

/// Asks every node once what would be followed; exit status 1 when one cannot be used.
async fn check(config: &Config, out: &mut Output) -> Result<ExitCode, CommandError> {
    let chains = followed_chains(config)?;
    if chains.is_empty() {
        writeln!(out, "no chain is configured")?;
    }
    let mut is_good = true;
    for FollowedChain { name, nodes, settings } in chains {
        for node in nodes {
            writeln!(out, "{name}: {}", node.name())?;
            let (lines, node_is_good) = check_node(node, &settings).await;
            for line in lines {
                writeln!(out, "  {line}")?;
            }
            is_good &= node_is_good;
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What one node says, a line for each contract, and whether all of it can be used.
async fn check_node(node: Arc<impl ChainNode>, settings: &ChainSettings) -> (Vec<String>, bool) {
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
    for (contract, call, read) in calls(settings) {
        let found = ask(&*node, contract, call, head)
            .await
            .and_then(|answer| read(&answer).map_err(|error| format!("the answer {error}")));
        let (name, address) = contract;
        is_good &= found.is_ok();
        let found = found.unwrap_or_else(|problem| problem);
        lines.push(format!("{name} {}: {found}", address::text(&address)));
    }
    (lines, is_good)
}

type Read = Box<dyn Fn(&Answer) -> Result<String, AnswerError> + Send + Sync>;

/// A call of each contract, and for keys of each owner, with what its answer says.
fn calls(settings: &ChainSettings) -> Vec<((&str, Address), Bytes, Read)> {
    let mut calls: Vec<((&str, Address), Bytes, Read)> = Vec::new();
    for source in &settings.roots {
        let contract = source.contract;
        let read = move |answer: &Answer| {
            let newest = contract.read_newest_root(answer)?;
            Ok(newest
                .map_or_else(|| "no root yet".to_owned(), |root| format!("newest root {}", number::canonical(root))))
        };
        calls.push(((&source.name, source.address), contract.newest_root_call(), Box::new(read)));
    }
    for source in &settings.keys {
        for followed in &source.owners {
            let owner = followed.owner;
            let call = match owner {
                KeyOwner::Issuer(id) => issuer_key_call(id),
                KeyOwner::RelyingParty(rp_id) => oprf_key_call(rp_id.0),
            };
            let contract = source.contract;
            let read = move |answer: &Answer| {
                let key = match contract {
                    KeyContract::Issuers => read_issuer_key(answer)?,
                    KeyContract::OprfKeys => read_oprf_key(answer)?,
                };
                let state = match key {
                    FollowedKey::Present(_) => "has a key",
                    FollowedKey::Absent => "has no key",
                    FollowedKey::Deleted => "had a key, which was deleted",
                    FollowedKey::Unusable => "has something that cannot be a key",
                };
                Ok(format!("{owner} {state}"))
            };
            calls.push(((&source.name, source.address), call, Box::new(read)));
        }
    }
    calls
}

async fn ask(node: &impl ChainNode, contract: (&str, Address), data: Bytes, head: Header) -> Result<Answer, String> {
    let question = Question::Call { to: contract.1, data, at: head.hash };
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
                 "roots": 2, "newest_root": "0x1", "newest_root_seconds_ago": 60},
                {"name": "ethereum/issuers", "state": "reading", "read": 0, "head": 0, "failure": "no answer",
                 "keys": [{"owner": "issuer 1", "state": "present", "differs_from_configuration": true}]},
            ],
        }]);
        let expected = "ethereum: chain 1, 1 of 1 nodes must agree\n  node node.example                             answered 3 s ago\n    it hangs\n  ethereum/orb                                  following, block 7 of 8, complete 5 s ago\n    2 roots, the newest 0x1 60 s ago\n  ethereum/issuers                              reading, block 0 of 0, complete never\n    issuer 1: present, differs from the configuration\n    no answer\n";
        assert_eq!(text(&chains), expected);
        assert_eq!(text(&json!([])), "no chain is followed\n");
    }
}
