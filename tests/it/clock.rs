//! The machine's clock is set forward while the daemon runs: the registry waits instead of sealing
//! a block from the future.

use std::time::Duration;

use alloy_primitives::Address;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_wallet::operations::create_account;
use serde_json::Value;

use selfsame_actors::Clock;

use crate::harness::{TestDaemon, folder, operator_token, until};
use crate::test_accounts::{final_state, key, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_block_is_sealed_with_a_clock_that_was_set_far_forward() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let client = daemon.client();
    let create = |name: &str| create_account(&[key(name).authenticator()], Address::ZERO).operation;
    let first = client.submit(&create("first"), &seed("first")).await.expect("accepted").request_id;
    assert!(matches!(final_state(&client, first).await, GatewayRequestState::Finalized { .. }));

    // A fortnight ends every waiting period for a recovery agent.
    daemon.clock.step_forward(Duration::from_secs(14 * 24 * 3600));
    let second = client.submit(&create("second"), &seed("second")).await.expect("accepted").request_id;
    let reason = until("a daemon that is not ready", async || {
        let ready = reqwest::get(daemon.operator("/ready")).await.expect("an answer");
        if ready.status() == 503 { Ok(ready.text().await.expect("text")) } else { Err(ready.status()) }
    })
    .await;
    let expected =
        "sealing a block fails: the clock was set forward by 1209600 seconds while the service ran; correct it";
    assert!(reason.contains(expected), "{reason}");
    let refused = client.submit(&create("third"), &seed("third")).await.expect_err("read-only").to_string();
    assert!(refused.contains("read-only: sealing a block fails"), "{refused}");
    assert!(!client.status(second, 0).await.expect("an answer").status.is_final());

    // The clock is corrected. The request that waited is carried out, in the present.
    daemon.clock.step_back();
    assert!(matches!(final_state(&client, second).await, GatewayRequestState::Finalized { .. }));
    let now = daemon.clock.unix_seconds();
    let block = client.receipt(second).await.expect("a receipt");
    let time = serde_json::to_value(&block).expect("JSON")["block"]["time"].clone();
    let time = time.as_u64().or_else(|| time.as_str().and_then(|text| text.parse().ok())).expect("a number");
    assert!(time <= now.0, "{time} is after {}", now.0);
    let token = operator_token(folder.path());
    let status: Value = {
        let request = reqwest::Client::new().get(daemon.operator("/status")).bearer_auth(token);
        request.send().await.expect("an answer").json().await.expect("JSON")
    };
    assert_eq!(status["ready"], true, "{status}");
    daemon.stop().await;
}
