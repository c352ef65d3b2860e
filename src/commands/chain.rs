//! `selfsame chain …`: what is followed from chains.

use std::process::ExitCode;

use serde_json::Value;

use super::chain_check;
use super::error::CommandError;
use super::output::Output;
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
            chain_check::run(&config, out).await
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
