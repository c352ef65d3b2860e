//! Groups in a cluster: what an entry of etcd cannot hold at once.

use serde_json::{Value, json};

use super::replicas::TestCluster;
use crate::harness::{PATIENCE, folder, operator_token, until};

const GROUP: &str = "[[groups]]\nid = 'members'\nname = 'Members of the cooperative'\nenvironment = 'staging'\n";

/// More than six entries of the journal hold.
const LISTED: usize = 30_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn a_list_that_no_entry_can_hold_is_invited_at_a_replica_that_does_not_lead_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, GROUP, "").await;
    cluster.start_all().await;
    let leader = cluster.wait_for_leader().await;
    let invited = async |index: usize| {
        let status = cluster.status(index).await;
        status.as_ref().and_then(|status| status["groups"][0]["invited"].as_u64()).ok_or(status)
    };
    let reads_group = async |index: usize| match cluster.status(index).await {
        Some(status) if status["groups"][0]["failure"].is_null() => Ok(()),
        other => Err(other),
    };
    for index in 0..cluster.replicas.len() {
        until("the group is made", async || reads_group(index).await).await;
    }
    let other = &cluster.replicas[(leader + 1) % cluster.replicas.len()];
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    let url = format!("http://{}/groups/members/invitations", other.address("operator"));
    let members: Vec<String> = (0..LISTED).map(|number| format!("K-{number:05}")).collect();
    for (new, unchanged) in [(LISTED, 0), (0, LISTED)] {
        let asked = http.post(&url).bearer_auth(operator_token(&other.data)).json(&json!({"members": members}));
        let answer = asked.send().await.expect("an answer");
        let (status, body) = (answer.status(), answer.json::<Value>().await.expect("JSON"));
        assert_eq!(status, 200, "{body}");
        assert_eq!((&body["new"], &body["unchanged"]), (&json!(new), &json!(unchanged)));
        let links = body["invitations"].as_array().expect("a list");
        assert_eq!(links.len(), new);
        assert!(links.iter().zip(&members).all(|(link, member)| link["member"] == json!(member)), "in their order");
    }
    for index in 0..cluster.replicas.len() {
        let all = async || match invited(index).await {
            Ok(number) if number == LISTED as u64 => Ok(()),
            other => Err(format!("{other:?}")),
        };
        until("every replica has all numbers", all).await;
    }
    cluster.stop_and_check();
}
