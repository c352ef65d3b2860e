//! An upgrade of a cluster under load, as `docs/cluster.md` describes it: one replica after the
//! other is restarted, the one that leads last.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;

use super::replicas::TestCluster;
use crate::harness::{PATIENCE, folder, run_for_status, until, until_in_task};
use crate::test_accounts::creation;

const CLIENTS: u64 = 6;

/// How often every replica is restarted.
const ROUNDS: usize = 2;

/// Time between two questions of the load balancer whether a replica is ready.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A load balancer: it knows which replicas are ready, and sends requests to these. When none is,
/// it sends them to any. A request that cannot connect goes to another replica; no other one is
/// sent twice.
struct LoadBalancer {
    http: Client,
    /// Where each replica serves the gateway and the indexer.
    replicas: Vec<(String, String)>,
    is_ready: Arc<[AtomicBool]>,
    turn: AtomicU64,
}

impl LoadBalancer {
    fn start(cluster: &TestCluster, checks: &mut JoinSet<()>) -> Self {
        let url = |address| format!("http://{address}");
        let addresses = cluster.addresses("gateway").into_iter().zip(cluster.addresses("indexer"));
        let replicas: Vec<_> = addresses.map(|(gateway, indexer)| (url(gateway), url(indexer))).collect();
        let http = Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        let is_ready: Arc<[_]> = replicas.iter().map(|_| AtomicBool::new(true)).collect();
        for (index, (gateway, _)) in replicas.iter().enumerate() {
            let (http, is_ready, url) = (http.clone(), Arc::clone(&is_ready), format!("{gateway}/ready"));
            checks.spawn(async move {
                loop {
                    let answer = http.get(&url).timeout(Duration::from_secs(1)).send().await;
                    let ready = answer.is_ok_and(|answer| answer.status() == StatusCode::OK);
                    is_ready[index].store(ready, Ordering::Relaxed);
                    sleep(CHECK_INTERVAL).await;
                }
            });
        }
        Self { http, replicas, is_ready, turn: AtomicU64::new(0) }
    }

    /// Sends a request to a replica; `make` makes it from the addresses of the gateway and the
    /// indexer.
    async fn send(&self, make: impl Fn(&Client, &str, &str) -> reqwest::RequestBuilder) -> Response {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        let mut order: Vec<usize> =
            (0..self.replicas.len()).map(|index| (turn + index) % self.replicas.len()).collect();
        order.sort_by_key(|index| !self.is_ready[*index].load(Ordering::Relaxed));
        for index in order {
            let (gateway, indexer) = &self.replicas[index];
            match make(&self.http, gateway, indexer).send().await {
                Ok(answer) => return answer,
                Err(error) if error.is_connect() => {}
                Err(error) => panic!("replica {index} broke off: {error:?}"),
            }
        }
        panic!("no replica takes connections");
    }
}

/// What the clients share.
struct Load {
    balancer: LoadBalancer,
    ends: AtomicBool,
    accepted: Mutex<BTreeSet<String>>,
    put_off: AtomicU64,
}

impl Load {
    /// Creates account after account, and looks at each, until the load ends.
    async fn run(self: Arc<Self>, client: u64) {
        for number in (client..).step_by(CLIENTS as usize) {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let request_id = self.create(number).await;
            let status =
                self.balancer.send(|http, gateway, _| http.get(format!("{gateway}/status/{request_id}?wait=5")));
            assert_eq!(status.await.status(), StatusCode::OK, "every replica knows it");
            let root = self.balancer.send(|http, _, indexer| http.get(format!("{indexer}/root"))).await;
            assert_eq!(root.status(), StatusCode::OK, "reads go on");
            assert!(self.accepted.lock().expect("no panic").insert(request_id), "a request id is given twice");
        }
    }

    /// Creates an account; returns the id of the request. An answer is 200, or 503 with the time
    /// after which the client sends it again.
    async fn create(&self, number: u64) -> String {
        until_in_task(format!("creation {number} to be accepted"), async || {
            let key = format!("creation {number}");
            let answer = self.balancer.send(|http, gateway, _| {
                http.post(format!("{gateway}/create-account")).header("idempotency-key", &key).json(&creation(number))
            });
            let answer = answer.await;
            match answer.status() {
                StatusCode::OK => {
                    let answer: Value = answer.json().await.expect("JSON");
                    Ok(answer["request_id"].as_str().expect("an id").to_owned())
                }
                StatusCode::SERVICE_UNAVAILABLE => {
                    assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
                    Err(self.put_off.fetch_add(1, Ordering::Relaxed))
                }
                status => panic!("creation {number} is answered {status}: {:?}", answer.text().await),
            }
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn an_upgrade_one_replica_after_the_other_fails_no_write_on_etcd() {
    let folder = folder();
    let settings = "[operator]\nready_everywhere = true\ndrain_delay = \"5s\"\n";
    let mut cluster = TestCluster::prepare(folder.path(), 3, settings, "").await;
    cluster.start_all().await;
    let mut checks = JoinSet::new();
    let load = Arc::new(Load {
        balancer: LoadBalancer::start(&cluster, &mut checks),
        ends: AtomicBool::new(false),
        accepted: Mutex::default(),
        put_off: AtomicU64::new(0),
    });
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&load).run(client));
    }
    let mut restarts = 0;
    for _ in 0..ROUNDS {
        let leader = cluster.wait_for_leader().await;
        for index in [(leader + 1) % 3, (leader + 2) % 3, leader] {
            let before = load.accepted.lock().expect("no panic").len();
            cluster.replicas[index].terminate();
            cluster.start_replica(index);
            cluster.wait_until_ready(index).await;
            wait_until_listed(&cluster, index).await;
            restarts += 1;
            // The load goes on.
            until("more accepted requests", async || {
                if let Some(Err(error)) = clients.try_join_next() {
                    std::panic::resume_unwind(error.into_panic());
                }
                let more = load.accepted.lock().expect("no panic").len() - before;
                if more < 20 { Err(more) } else { Ok(()) }
            })
            .await;
        }
    }
    load.ends.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.expect("no client panics");
    }
    checks.shutdown().await;
    cluster.wait_until_equal().await;
    let accepted = load.accepted.lock().expect("no panic").clone();
    let client = cluster.replicas[0].client();
    assert_eq!(client.root().await.expect("a root").leaf_count, accepted.len() as u64 + 1);
    cluster.stop_and_check();
    eprintln!(
        "upgrade of a cluster: {restarts} restarts, {} accounts, {} times put off",
        accepted.len(),
        load.put_off.load(Ordering::Relaxed)
    );
}

/// Waits until `selfsame cluster status`, asked at a replica, shows that all run and one leads.
pub(super) async fn wait_until_listed(cluster: &TestCluster, index: usize) {
    let data = cluster.replicas[index].data.to_str().expect("text");
    until("a list of replicas that all run, one of which leads", async || {
        let (status, text) = block_in_place(|| run_for_status(&["cluster", "status", "--data", data], &[]));
        if status.success() { Ok(()) } else { Err(text) }
    })
    .await;
}
