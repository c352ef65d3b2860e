//! The client with canned answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, U256};
use selfsame_protocol::ids::{LeafIndex, PubkeyId};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{ExecuteRecoveryAgentUpdate, Operation};
use selfsame_wallet::client::{Client, ClientError};
use serde_json::{Value, json};

use crate::server::{CannedAnswer, ReceivedRequest, serve};

type ReceivedRequests = Arc<Mutex<Vec<ReceivedRequest>>>;

/// A client, and the requests that its service receives. The service gives the answers in their
/// order, and repeats the last answer.
async fn client(answers: Vec<CannedAnswer>) -> (Client, ReceivedRequests) {
    let requests = ReceivedRequests::default();
    let received = Arc::clone(&requests);
    let answer = move |request| {
        let mut received = received.lock().expect("no panic");
        received.push(request);
        let CannedAnswer(status, retry_after, body) = &answers[(received.len() - 1).min(answers.len() - 1)];
        CannedAnswer(*status, *retry_after, body.clone())
    };
    let service = serve(answer).await;
    let mut client = Client::new(&service, &service).expect("an address");
    client.poll_pause = Duration::ZERO;
    (client, requests)
}

fn status(state: Value) -> CannedAnswer {
    let request_id = RequestId::from_random([1; 16]);
    CannedAnswer::ok(json!({ "request_id": request_id, "kind": "execute_recovery_agent_update", "status": state }))
}

fn busy(status: u16, retry_after: Option<u32>) -> CannedAnswer {
    CannedAnswer(status, retry_after, r#"{"code":"batcher_unavailable","message":"the queue is full"}"#.to_owned())
}

fn operation() -> Operation {
    ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(1) }.into()
}

#[tokio::test]
async fn a_request_to_a_busy_gateway_is_retried_with_the_same_key() {
    let answers = vec![busy(503, Some(0)), busy(429, Some(0)), status(json!({ "state": "queued" }))];
    let (client, requests) = client(answers).await;
    client.submit(&operation(), &[7; 32]).await.expect("the last retry is accepted");
    let requests = requests.lock().expect("no panic");
    assert_eq!(requests.len(), 3);
    for request in requests.iter() {
        assert_eq!(request.path, "/execute-recovery-agent-update");
        assert_eq!(request.idempotency_key.as_deref(), Some("07".repeat(32).as_str()));
        assert_eq!(request.body, json!({ "leaf_index": "0x1" }));
    }
}

#[tokio::test]
async fn retries_are_bounded() {
    // Answers, and how many requests the client sends.
    let table = [
        (busy(503, Some(0)), 5),
        (busy(503, None), 1),
        (busy(429, Some(3600)), 1),
        (busy(500, Some(0)), 1),
        (busy(400, Some(0)), 1),
    ];
    for (answer, expected) in table {
        let CannedAnswer(code, retry_after, _) = answer;
        let (client, requests) = client(vec![answer]).await;
        let error = client.submit(&operation(), &[7; 32]).await.expect_err("the request fails");
        assert!(matches!(error, ClientError::Service { status, .. } if status == code));
        assert_eq!(error.code(), Some("batcher_unavailable"));
        assert_eq!(requests.lock().expect("no panic").len(), expected, "{code} {retry_after:?}");
    }
}

#[tokio::test]
async fn errors_quote_the_answer_and_name_the_address() {
    let table = [
        (
            CannedAnswer::error(400, "mismatched_signature_nonce", "nonce is 4"),
            "400 mismatched_signature_nonce: nonce is 4",
        ),
        (CannedAnswer::error(500, "x\u{1b}[2J", "\u{7}y"), "500 x[2J: y"),
        (CannedAnswer(502, None, "<html>".to_owned()), "502 unknown: the answer is not an error object"),
        (CannedAnswer(200, None, "<html>".to_owned()), "cannot be read: the body is not valid JSON"),
        (CannedAnswer(200, None, "[]".to_owned()), "cannot be read: the body must be a JSON object"),
        (CannedAnswer::ok(json!({ "signature_nonce": 4 })), "cannot be read: signature_nonce: invalid type"),
        (CannedAnswer(307, None, String::new()), "307 unknown"),
        (CannedAnswer(200, None, " ".repeat(9 << 20)), "longer than"),
    ];
    for (answer, expected) in table {
        let (client, _) = client(vec![answer]).await;
        let message = client.signature_nonce(LeafIndex(1)).await.expect_err("the request fails").to_string();
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        assert!(message.contains("/signature-nonce"), "{message:?} should name the address");
    }
    // No server listens on the discard port of a test machine.
    let client = Client::new("http://127.0.0.1:9", "http://127.0.0.1:9").expect("an address");
    let message = client.config().await.expect_err("no server listens").to_string();
    assert!(message.starts_with("no answer from http://127.0.0.1:9/config: "), "{message}");
}

#[tokio::test]
async fn waiting_ends_at_the_first_final_state() {
    for state in [json!({ "state": "finalized", "tx_hash": "0x1" }), json!({ "state": "failed", "error": "no" })] {
        let open = [json!({ "state": "queued" }), json!({ "state": "batching" })].map(status);
        let answers = open.into_iter().chain([busy(503, Some(0)), status(state)]).collect();
        let (client, requests) = client(answers).await;
        let request_id = RequestId::from_random([1; 16]);
        let answer = client.wait_final(request_id, Duration::from_secs(60)).await.expect("the request is final");
        assert!(answer.status.is_final());
        let requests = requests.lock().expect("no panic");
        assert_eq!(requests.len(), 4);
        assert_eq!(requests[0].path, format!("/status/{request_id}?wait=30"));
    }
    let (client, _) = client(vec![status(json!({ "state": "queued" }))]).await;
    let error =
        client.wait_final(RequestId::from_random([1; 16]), Duration::ZERO).await.expect_err("the request is not final");
    assert!(error.to_string().ends_with("is not final after 0s"), "{error}");
}

#[tokio::test]
async fn packed_account_data_is_decoded() {
    let answer = |data: &str| CannedAnswer::ok(json!({ "packed_account_data": data }));
    let data = U256::from_limbs([5, 0, 0, (3 << 32) | 2]);
    let (client_of_one, _) = client(vec![answer(&data.to_string())]).await;
    let packed =
        client_of_one.packed_account(Address::ZERO).await.expect("the answer is read").expect("the account exists");
    assert_eq!((packed.recovery_counter, packed.pubkey_id, packed.leaf_index), (3, PubkeyId(2), LeafIndex(5)));
    assert_eq!(packed.to_number(), data);
    let (client_of_none, _) = client(vec![CannedAnswer::error(400, "account_does_not_exist", "none")]).await;
    assert_eq!(client_of_none.packed_account(Address::ZERO).await.expect("the answer is read"), None);
    let (client_of_nonsense, _) = client(vec![answer("0x10000000000000000")]).await;
    assert!(matches!(client_of_nonsense.packed_account(Address::ZERO).await, Err(ClientError::Unreadable { .. })));
}
