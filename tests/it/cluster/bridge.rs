//! The message bridge of a cluster: every replica answers for all messages.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::replicas::TestCluster;
use crate::harness::{PATIENCE, folder, until};

fn message(text: &str) -> Value {
    json!({"iv": "AAAAAAAAAAAAAAAA", "payload": text.repeat(16)})
}

/// What a replica answers.
async fn call(
    http: &reqwest::Client,
    address: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (StatusCode, Value) {
    let request = http.request(method, format!("http://{address}{path}"));
    let request = match &body {
        Some(body) => request.json(body),
        None => request,
    };
    let answer = request.send().await.expect("an answer");
    let (status, text) = (answer.status(), answer.text().await.expect("text"));
    (status, serde_json::from_str(&text).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_message_passes_through_every_replica_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::start(folder.path()).await;
    for index in 0..3 {
        super::upgrading::wait_until_listed(&cluster, index).await;
    }
    let addresses: Vec<String> = cluster.addresses("bridge").into_iter().map(|address| address.to_string()).collect();
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    // Each replica is the first, the second and the third one, and the ids are its own and chosen.
    for round in 0..9 {
        let [page, wallet, other] = [0, 1, 2].map(|step| addresses[(round + step) % 3].as_str());
        let mut request = message("AAAA");
        if round >= 3 {
            request["request_id"] = json!(format!("a-chosen-id-{round:04}"));
        }
        let (status, created) = call(&http, page, Method::POST, "/request", Some(request)).await;
        assert_eq!(status, StatusCode::OK, "{created}");
        let id = created["request_id"].as_str().expect("an id");
        let (request, response) = (format!("/request/{id}"), format!("/response/{id}"));
        assert_eq!(call(&http, other, Method::GET, &response, None).await.1["status"], "initialized");
        let held = {
            let (http, other, url) = (http.clone(), other.to_owned(), format!("{response}?wait=60"));
            tokio::spawn(async move { call(&http, &other, Method::GET, &url, None).await })
        };
        assert_eq!(call(&http, wallet, Method::GET, &request, None).await, (StatusCode::OK, message("AAAA")));
        assert_eq!(call(&http, page, Method::GET, &request, None).await.0, StatusCode::NOT_FOUND);
        let answer = |text| call(&http, wallet, Method::PUT, &response, Some(message(text)));
        assert_eq!(answer("BBBB").await.0, StatusCode::CREATED);
        let (status, held) = held.await.expect("no panic");
        assert_eq!(status, StatusCode::OK);
        if held["status"] != "completed" {
            assert_eq!(call(&http, other, Method::GET, &response, None).await.1["response"], message("BBBB"));
        } else {
            assert_eq!(held["response"], message("BBBB"));
        }
        assert_eq!(call(&http, page, Method::GET, &response, None).await.0, StatusCode::NOT_FOUND);
        assert_eq!(answer("CCCC").await.0, StatusCode::BAD_REQUEST);
    }

    // The messages of a replica that dies are lost. The others go on, also for new ids that it
    // would hold.
    let kept: Vec<String> = {
        let mut kept = Vec::new();
        for address in &addresses {
            let (_, created) = call(&http, address, Method::POST, "/request", Some(message("AAAA"))).await;
            kept.push(created["request_id"].as_str().expect("an id").to_owned());
        }
        kept
    };
    cluster.replicas[0].kill();
    until("the loss of the messages of a replica that died", async || {
        let lost = call(&http, &addresses[1], Method::GET, &format!("/request/{}", kept[0]), None).await.0;
        // It counts as one that runs until it is silent.
        assert!([StatusCode::NOT_FOUND, StatusCode::SERVICE_UNAVAILABLE].contains(&lost), "{lost}");
        if lost == StatusCode::NOT_FOUND { Ok(()) } else { Err(lost) }
    })
    .await;
    for id in &kept[1..] {
        let (status, taken) = call(&http, &addresses[1], Method::GET, &format!("/request/{id}"), None).await;
        assert_eq!((status, taken), (StatusCode::OK, message("AAAA")));
    }
    for number in 0..6 {
        let mut request = message("AAAA");
        request["request_id"] = json!(format!("after-the-death-{number}"));
        // A question that was on its way to the dead one has no certain outcome.
        let status = until("an answer without the one that died", async || {
            let status = call(&http, &addresses[2], Method::POST, "/request", Some(request.clone())).await.0;
            if status == StatusCode::SERVICE_UNAVAILABLE { Err(status) } else { Ok(status) }
        });
        assert_eq!(status.await, StatusCode::OK);
    }
    // One that comes back takes over ids whose entries another one keeps.
    cluster.start_replica(0);
    cluster.wait_until_ready(0).await;
    super::upgrading::wait_until_listed(&cluster, 1).await;
    for number in 0..6 {
        let path = format!("/request/after-the-death-{number}");
        assert_eq!(call(&http, &addresses[0], Method::GET, &path, None).await.0, StatusCode::OK, "{path}");
    }
    cluster.stop_and_check();
}
