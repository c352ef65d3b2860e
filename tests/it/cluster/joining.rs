//! Founding, joining, leaving, names.

use std::net::SocketAddr;
use std::process::Stdio;

use alloy_primitives::B256;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use selfsame_cluster::ReplicaRecord;
use selfsame_wallet::client::Client;

use super::replicas::TestCluster;
use crate::harness::{DaemonProcess, PATIENCE, folder, run, run_for_status, until, write_secret};
use crate::metrics::documented_of_cluster;
use crate::test_accounts::creation;

/// Creates accounts at a registry, and waits until they are final.
pub async fn create(client: &Client, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let mut key = [7; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        let accepted = client.submit(&creation(number), &key).await.expect("accepted");
        let answer = client.wait_final(accepted.request_id, PATIENCE).await.expect("an answer");
        assert!(answer.status.is_final());
    }
}

async fn accounts(client: &Client) -> u64 {
    client.root().await.expect("a root").leaf_count - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_new_replica_copies_another_one_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", "").await;
    cluster.start_replica(0);
    cluster.wait_for_leader().await;
    create(&cluster.replicas[0].client(), 0..5).await;
    for index in [1, 2] {
        cluster.start_replica(index);
        cluster.wait_until_ready(index).await;
    }
    create(&cluster.replicas[1].client(), 5..8).await;
    create(&cluster.replicas[2].client(), 8..10).await;
    cluster.wait_until_equal().await;
    let file = |index: usize, name: &str| std::fs::read_to_string(cluster.replicas[index].data.join(name)).ok();
    for index in [1, 2] {
        assert_eq!(accounts(&cluster.replicas[index].client()).await, 10);
        assert_eq!(file(index, "audit.key"), file(0, "audit.key"));
        assert_ne!(file(index, "operator.token"), file(0, "operator.token"));
        assert!(!cluster.replicas[index].data.join("arriving").exists());
    }
    assert!(!cluster.replicas[0].data.join("copy-for-replica").exists(), "the copy is removed");
    // Each replica publishes itself once a second.
    until("a list of three replicas", async || {
        let (status, text) = run_for_status(&["cluster", "status", "--data", &path(&cluster, 1)], &[]);
        let is_complete = status.success() && text.matches(" running ").count() == 3 && text.contains(" leads\n");
        if is_complete { Ok(()) } else { Err(text) }
    })
    .await;
    let metrics = reqwest::get(format!("http://{}/metrics", cluster.replicas[1].address("operator"))).await;
    let metrics = metrics.expect("an answer").text().await.expect("a body");
    let served = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE selfsame_cluster_")?.split(' ').next());
    let served = served.map(|name| format!("selfsame_cluster_{name}")).collect();
    assert_eq!(documented_of_cluster(), served);
    assert!(metrics.contains("selfsame_cluster_replica_height{replica=\"three\"} "), "{metrics}");
    // A replica whose data is gone comes back under its name.
    cluster.replicas[2].kill();
    cluster.replicas[2].wipe();
    create(&cluster.replicas[1].client(), 10..12).await;
    cluster.start_replica(2);
    cluster.wait_until_ready(2).await;
    cluster.wait_until_equal().await;
    assert_eq!(accounts(&cluster.replicas[2].client()).await, 12);
    cluster.stop_and_check();
}

fn path(cluster: &TestCluster, index: usize) -> String {
    cluster.replicas[index].data.to_str().expect("text").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_daemon_that_was_alone_founds_a_cluster_and_leaves_it_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", "").await;
    let data = path(&cluster, 0);
    let alone = DaemonProcess::start(data.as_ref(), &[], &[]);
    create(&alone.client(), 0..3).await;
    assert!(alone.terminate().success());
    cluster.start_all().await;
    create(&cluster.replicas[2].client(), 3..6).await;
    cluster.wait_until_equal().await;
    assert_eq!(accounts(&cluster.replicas[1].client()).await, 6);
    cluster.stop_and_check();
    // Without the section, a replica does not start: the others would lack what it writes.
    let refused = DaemonProcess::try_start(data.as_ref(), &[], &[], Stdio::null());
    assert_eq!(refused.err().expect("refused").code(), Some(78));
    let (is_kept, text) = run(&["keys", "revoke", "--all", "--data", &data]);
    assert!(!is_kept && text.contains("selfsame cluster leave"), "{text}");
    let (has_left, text) = run(&["cluster", "leave", "--data", &data]);
    assert!(has_left && text.contains("the store has left the cluster at entry "), "{text}");
    let (is_alone, text) = run(&["cluster", "leave", "--data", &data]);
    assert!(is_alone && text.contains("alone already"), "{text}");
    let alone = DaemonProcess::start(data.as_ref(), &[], &[]);
    create(&alone.client(), 6..8).await;
    assert_eq!(accounts(&alone.client()).await, 8);
    assert!(alone.terminate().success());
    // It has data of its own now.
    let refused = cluster.try_start(0).expect_err("refused");
    assert_eq!(refused.code(), Some(78));
    assert!(cluster.replicas[0].log().contains("start with an empty data folder"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_replica_that_was_left_behind_copies_another_one_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", "journal_retention = \"10s\"").await;
    cluster.start_all().await;
    create(&cluster.replicas[0].client(), 0..3).await;
    cluster.wait_until_equal().await;
    let leader = cluster.wait_for_leader().await;
    let behind = (leader + 1) % 3;
    cluster.replicas[behind].kill();
    let status = until("a status", async || cluster.status(leader).await.ok_or("none")).await;
    let end = status["cluster"]["journal_end"].as_u64().expect("a position");
    let client = cluster.replicas[leader].client();
    // The journal forgets what two of three replicas have, after its retention.
    let endpoints = cluster.members.access("/").endpoints;
    let mut etcd = etcd_client::Client::connect(endpoints, None).await.expect("a client");
    let mut number = 3;
    until("the removal of old entries of the journal", async || {
        create(&client, number..number + 1).await;
        number += 1;
        let options = etcd_client::GetOptions::new().with_prefix().with_keys_only().with_limit(1);
        let found = etcd.get("/selfsame/journal/", Some(options)).await.expect("the keys");
        let first = found.kvs().first().map(|entry| entry.key_str().expect("text").to_owned());
        // The replica lacks the entry after the end.
        let lost = format!("/selfsame/journal/{:020}", end + 1);
        if first.as_ref().is_some_and(|first| *first > lost) { Ok(()) } else { Err(first) }
    })
    .await;
    // A copy was interrupted before.
    let [store, aside] = ["store", "store.behind"].map(|name| cluster.replicas[behind].data.join(name));
    std::fs::rename(&store, &aside).expect("it is renamed");
    cluster.start_replica(behind);
    cluster.wait_until_ready(behind).await;
    assert!(cluster.replicas[behind].log().contains("the journal no longer has what this replica lacks"));
    cluster.wait_until_equal().await;
    assert_eq!(accounts(&cluster.replicas[behind].client()).await, number);
    assert!(!aside.exists());
    // Another one was complete, and what it replaced was still there.
    cluster.replicas[behind].kill();
    std::fs::create_dir(&aside).expect("it is made");
    cluster.start_replica(behind);
    assert!(!aside.exists());
    assert_eq!(accounts(&cluster.replicas[behind].client()).await, number);
    cluster.wait_until_ready(behind).await;
    cluster.stop_and_check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_removed_replica_ends_and_a_name_belongs_to_one_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::start(folder.path()).await;
    create(&cluster.replicas[0].client(), 0..2).await;
    let (is_removed, text) = run(&["cluster", "remove", "three", "--data", &path(&cluster, 0)]);
    assert!(is_removed && text == "three removed\n", "{text}");
    assert_eq!(cluster.replicas[2].wait_for_end().await.code(), Some(78));
    assert!(cluster.replicas[2].log().contains("this replica was removed from the cluster"));
    let (is_unknown, text) = run(&["cluster", "remove", "three", "--data", &path(&cluster, 0)]);
    assert!(!is_unknown && text.contains("the cluster has no replica \"three\""), "{text}");
    create(&cluster.replicas[1].client(), 2..3).await;
    // Started again, it is a replica again; under the name of another one it is refused.
    cluster.replicas[2].name = "one";
    assert_eq!(cluster.try_start(2).expect_err("refused").code(), Some(78));
    assert!(cluster.replicas[2].log().contains("another replica of the cluster runs under the name one"));
    cluster.replicas[2].name = "three";
    cluster.start_replica(2);
    cluster.wait_until_ready(2).await;
    cluster.wait_until_equal().await;
    cluster.stop_and_check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_replica_is_none_of_another_cluster_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", "").await;
    cluster.start_replica(0);
    cluster.wait_for_leader().await;
    create(&cluster.replicas[0].client(), 0..1).await;
    cluster.replicas[0].terminate();
    let mut other = TestCluster::prepare(folder.path(), 1, "", "").await;
    assert_eq!(other.try_start(0).expect_err("refused").code(), Some(78));
    assert!(other.replicas[0].log().contains("and etcd has none below this prefix"));
    other.start_replica(1);
    other.wait_for_leader().await;
    assert_eq!(other.try_start(0).expect_err("refused").code(), Some(78));
    assert!(other.replicas[0].log().contains("the store is a replica of cluster "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn replicas_with_certificates_answer_no_one_else_on_etcd() {
    let folder = folder();
    let certificates = Certificates::make(folder.path());
    let file = |name: &str| folder.path().join(format!("{name}.pem"));
    let section = format!(
        "certificate = {:?}\nprivate_key = {:?}\nauthorities = {:?}",
        file("replica"),
        file("replica-key"),
        file("authority")
    );
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", &section).await;
    cluster.start_all().await;
    for index in 0..3 {
        create(&cluster.replicas[index].client(), 2 * index as u64..2 * index as u64 + 2).await;
    }
    cluster.wait_until_equal().await;
    let url = format!("https://{}/leader", cluster.replicas[0].url_host());
    let call = async |identity: Option<reqwest::Identity>| {
        let authority = reqwest::Certificate::from_pem(certificates.authority.as_bytes()).expect("a certificate");
        let builder = reqwest::Client::builder().no_proxy().tls_certs_only([authority]);
        let builder = match identity {
            Some(identity) => builder.identity(identity),
            None => builder,
        };
        builder.build().expect("a client").post(&url).body("x").send().await
    };
    assert!(call(None).await.is_err(), "a caller without a certificate is answered");
    let stranger = reqwest::Identity::from_pem(certificates.stranger.as_bytes()).expect("an identity");
    assert!(call(Some(stranger)).await.is_err(), "a stranger's certificate is accepted");
    // With a certificate of the authority, the secret is still asked for.
    let own = reqwest::Identity::from_pem(certificates.own.as_bytes()).expect("an identity");
    assert_eq!(call(Some(own)).await.expect("an answer").status(), 401);
    cluster.stop_and_check();
}

/// PEM texts for the replicas of a test.
struct Certificates {
    authority: String,
    /// Certificate and key of the replicas.
    own: String,
    /// Certificate and key by another authority.
    stranger: String,
}

impl Certificates {
    /// Makes them, and writes those of the replicas to files.
    fn make(folder: &std::path::Path) -> Self {
        let made = || {
            let authority_key = KeyPair::generate().expect("a key");
            let mut parameters = CertificateParams::default();
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority = parameters.self_signed(&authority_key).expect("a certificate");
            let issuer = Issuer::new(parameters, authority_key);
            let key = KeyPair::generate().expect("a key");
            let parameters = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a host");
            let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
            (authority.pem(), certificate.pem(), key.serialize_pem())
        };
        let (authority, certificate, key) = made();
        for (name, text) in [("authority", &authority), ("replica", &certificate), ("replica-key", &key)] {
            write_secret(&folder.join(format!("{name}.pem")), text);
        }
        let (_, other_certificate, other_key) = made();
        Self { authority, own: certificate + &key, stranger: other_certificate + &other_key }
    }
}

/// Two others, as far as etcd says, have another result of a block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_replica_with_another_result_than_most_ends_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", "").await;
    cluster.start_replica(0);
    cluster.wait_for_leader().await;
    create(&cluster.replicas[0].client(), 0..1).await;
    let endpoints = cluster.members.access("/").endpoints;
    let mut etcd = etcd_client::Client::connect(endpoints, None).await.expect("a client");
    let mut publish = async |name: &str, beat: u64| {
        let record = ReplicaRecord {
            name: name.to_owned(),
            store_id: "00".repeat(16),
            address: "http://127.0.0.1:1".to_owned(),
            version: "0.0.0".to_owned(),
            position: 1,
            synced: 1,
            height: 1,
            result: B256::repeat_byte(7),
            beat,
            ..ReplicaRecord::default()
        };
        let text = serde_json::to_vec(&record).expect("JSON");
        etcd.put(format!("/selfsame/replicas/{name}"), text, None).await.expect("it is written");
    };
    // Of two that differ, the one that leads goes on, and says so.
    let mut beat = 0;
    until("a replica that notices another result", async || {
        beat += 1;
        publish("other", beat).await;
        if cluster.replicas[0].log().contains("a replica has another result of a block") { Ok(()) } else { Err(beat) }
    })
    .await;
    create(&cluster.replicas[0].client(), 1..2).await;
    let ending = tokio::spawn(async move {
        let status = cluster.replicas[0].wait_for_end().await;
        (status, cluster)
    });
    until("the end of a replica with another result than most", async || {
        beat += 1;
        publish("other", beat).await;
        publish("third", beat).await;
        if ending.is_finished() { Ok(()) } else { Err(beat) }
    })
    .await;
    let (status, cluster) = ending.await.expect("it does not panic");
    assert_eq!(status.code(), Some(78));
    assert!(cluster.replicas[0].log().contains("the result of block 1 is 0x"), "{}", cluster.replicas[0].log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn only_replicas_are_answered_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, "", "").await;
    cluster.start_replica(0);
    cluster.wait_for_leader().await;
    let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().expect("a client");
    let url = |address: SocketAddr, path: &str| format!("http://{address}{path}");
    let address = cluster.replicas[0].listen();
    for path in ["/leader", "/bridge", "/copies"] {
        let refused = http.post(url(address, path)).send().await.expect("an answer");
        assert_eq!(refused.status(), 401, "{path}");
        let refused = http.post(url(address, path)).bearer_auth("the secret of others").send().await;
        assert_eq!(refused.expect("an answer").status(), 401, "{path}");
    }
    // With the secret, a message that nobody can read is answered, and nothing happens.
    let answer = http.post(url(address, "/leader")).bearer_auth("the secret of a test").body("x").send().await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert!(String::from_utf8_lossy(&answer.bytes().await.expect("a body")).contains("cannot be read"));
    let unknown = http.get(url(address, "/copies/00?file=../operator.token")).bearer_auth("the secret of a test");
    assert_eq!(unknown.send().await.expect("an answer").status(), 404);
    create(&cluster.replicas[0].client(), 0..1).await;
    cluster.stop_and_check();
}
