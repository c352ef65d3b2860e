//! What a daemon on a golden store answers: the same in every version of the program.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::making::Notes;
use crate::harness::{TestDaemon, operator_token, until};
use crate::sign_in_client::{APP, Form, SECRET};

/// What was known of a golden store when it was made, and what the daemon answered then.
#[derive(Debug, Serialize, Deserialize)]
pub struct Expected {
    pub notes: Notes,
    pub answers: Value,
}

/// Waits until every source of the chain is followed, and its verifier was read at block `head`.
pub async fn wait_until_followed(daemon: &TestDaemon, data: &Path, head: u64) {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let token = operator_token(data);
    until("the chain to be followed", async || {
        let request = http.get(daemon.operator("/status")).bearer_auth(&token);
        let status: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        let sources = status["chains"][0]["sources"].as_array().expect("a list");
        let is_followed = sources.iter().all(|source| source["state"] == "following") && sources[0]["read"] == head;
        if is_followed { Ok(()) } else { Err(status) }
    })
    .await;
}

/// Waits until so many events of the webhook wait for another attempt, and none is on the way.
pub async fn wait_for_events(daemon: &TestDaemon, data: &Path, count: u64) {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    until(format!("{count} events that wait"), async || {
        let request = http.get(daemon.operator("/webhooks")).bearer_auth(operator_token(data));
        let webhooks: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        let are_waiting = (webhooks[0]["waiting"].as_u64(), webhooks[0]["behind"].as_u64()) == (Some(count), Some(0));
        if are_waiting { Ok(()) } else { Err(webhooks) }
    })
    .await;
}

/// Asks about everything that a store holds, and changes nothing that an answer shows.
pub async fn answers(daemon: &TestDaemon, data: &Path, notes: &Notes) -> Value {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let token = operator_token(data);
    let json_of = async |request: reqwest::RequestBuilder| -> Value {
        request.send().await.expect("an answer").json().await.expect("JSON")
    };
    let operator = async |path: &str| json_of(http.get(daemon.operator(path)).bearer_auth(&token)).await;
    let mut found = Map::new();
    found.insert("head".to_owned(), json_of(http.get(daemon.gateway("/head"))).await);
    found.insert("root".to_owned(), json_of(http.get(daemon.indexer("/root"))).await);
    let mut accounts = Vec::new();
    for leaf_index in 1..=notes.accounts {
        let body = json!({"leaf_index": format!("{leaf_index:#x}")});
        let mut account = Map::new();
        for path in ["/authenticators", "/signature-nonce", "/recovery-agent", "/inclusion-proof"] {
            account.insert(path.to_owned(), json_of(http.post(daemon.indexer(path)).json(&body)).await);
        }
        accounts.push(Value::Object(account));
    }
    found.insert("accounts".to_owned(), accounts.into());
    let mut requests = Map::new();
    for id in notes.final_requests.iter().chain(&notes.open_requests) {
        let mut answer = json_of(http.get(daemon.gateway(&format!("/status/{id}")))).await;
        // An open request counts as taken into a batch when the daemon has started again.
        if answer["status"]["state"] == "batching" {
            answer["status"]["state"] = json!("queued");
        }
        requests.insert(id.clone(), answer);
    }
    found.insert("requests".to_owned(), requests.into());
    found.insert("roots".to_owned(), operator("/roots").await);
    found.insert("keys".to_owned(), operator("/keys").await);
    let chains = &operator("/status").await["chains"];
    let sources = chains[0]["sources"].as_array().expect("a list").iter();
    let stored = |source: &Value| {
        let fields = ["name", "address", "roots", "newest_root", "keys", "implementation", "deployment", "alarm"];
        fields.into_iter().map(|field| (field.to_owned(), source[field].clone())).collect::<Map<_, _>>()
    };
    found.insert("sources".to_owned(), sources.map(|source| Value::Object(stored(source))).collect());
    let introspected = http.post(daemon.sign_in("/introspect")).basic_auth(APP, Some(SECRET));
    let introspected = json_of(introspected.form(&[("token", notes.access_token.as_str())])).await;
    found.insert("token".to_owned(), json!({"active": introspected["active"], "sub": introspected["sub"]}));
    Value::Object(found)
}
