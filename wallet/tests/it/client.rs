//! The client against canned answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, U256};
use selfsame_protocol::ids::{LeafIndex, PubkeyId};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{ExecuteRecoveryAgentUpdate, Operation};
use selfsame_wallet::client::{Client, ClientError};
use serde_json::{Value, json};

use crate::server::{Answer, Call, serve};

type Calls = Arc<Mutex<Vec<Call>>>;

/// A client of a service that gives the answers in turn, the last one for ever, and keeps the calls.
async fn client(answers: Vec<Answer>) -> (Client, Calls) {
    let calls = Calls::default();
    let kept = Arc::clone(&calls);
    let answer = move |call| {
        let mut kept = kept.lock().expect("no panic");
        kept.push(call);
        let Answer(status, retry_after, body) = &answers[(kept.len() - 1).min(answers.len() - 1)];
        Answer(*status, *retry_after, body.clone())
    };
    let service = serve(answer).await;
    let mut client = Client::new(&service, &service).expect("an address");
    client.poll_pause = Duration::ZERO;
    (client, calls)
}

fn status(state: Value) -> Answer {
    let request_id = RequestId::from_random([1; 16]);
    Answer::ok(json!({ "request_id": request_id, "kind": "execute_recovery_agent_update", "status": state }))
}

fn busy(status: u16, retry_after: Option<u32>) -> Answer {
    Answer(status, retry_after, r#"{"code":"batcher_unavailable","message":"the queue is full"}"#.to_owned())
}

fn operation() -> Operation {
    ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(1) }.into()
}

#[tokio::test]
async fn a_busy_gateway_is_asked_again_with_the_same_key() {
    let answers = vec![busy(503, Some(0)), busy(429, Some(0)), status(json!({ "state": "queued" }))];
    let (client, calls) = client(answers).await;
    client.submit(&operation(), &[7; 32]).await.expect("accepted in the end");
    let calls = calls.lock().expect("no panic");
    assert_eq!(calls.len(), 3);
    for call in calls.iter() {
        assert_eq!(call.path, "/execute-recovery-agent-update");
        assert_eq!(call.idempotency_key.as_deref(), Some("07".repeat(32).as_str()));
        assert_eq!(call.body, json!({ "leaf_index": "0x1" }));
    }
}

#[tokio::test]
async fn asking_again_is_bounded() {
    // Answer, and how often it is asked for.
    let table = [
        (busy(503, Some(0)), 5),
        (busy(503, None), 1),
        (busy(429, Some(3600)), 1),
        (busy(500, Some(0)), 1),
        (busy(400, Some(0)), 1),
    ];
    for (answer, expected) in table {
        let Answer(code, retry_after, _) = answer;
        let (client, calls) = client(vec![answer]).await;
        let error = client.submit(&operation(), &[7; 32]).await.expect_err("refused");
        assert!(matches!(error, ClientError::Service { status, .. } if status == code));
        assert_eq!(error.code(), Some("batcher_unavailable"));
        assert_eq!(calls.lock().expect("no panic").len(), expected, "{code} {retry_after:?}");
    }
}

#[tokio::test]
async fn errors_say_what_was_answered() {
    let table = [
        (Answer::error(400, "mismatched_signature_nonce", "nonce is 4"), "400 mismatched_signature_nonce: nonce is 4"),
        (Answer::error(500, "x\u{1b}[2J", "\u{7}y"), "500 x[2J: y"),
        (Answer(502, None, "<html>".to_owned()), "502 without a code: the answer is not an error object"),
        (Answer(200, None, "<html>".to_owned()), "cannot be read: the body is not valid JSON"),
        (Answer(200, None, "[]".to_owned()), "cannot be read: the body must be a JSON object"),
        (Answer::ok(json!({ "signature_nonce": 4 })), "cannot be read: signature_nonce: invalid type"),
        (Answer(307, None, String::new()), "307 without a code"),
        (Answer(200, None, " ".repeat(9 << 20)), "longer than"),
    ];
    for (answer, expected) in table {
        let (client, _) = client(vec![answer]).await;
        let message = client.signature_nonce(LeafIndex(1)).await.expect_err("refused").to_string();
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        assert!(message.contains("/signature-nonce"), "{message:?} should name the address");
    }
    // Nothing listens on the discard port of a test machine.
    let client = Client::new("http://127.0.0.1:9", "http://127.0.0.1:9").expect("an address");
    let message = client.config().await.expect_err("nothing listens").to_string();
    assert!(message.starts_with("no answer from http://127.0.0.1:9/config: "), "{message}");
}

#[tokio::test]
async fn waiting_ends_at_the_first_final_state() {
    for state in [json!({ "state": "finalized", "tx_hash": "0x1" }), json!({ "state": "failed", "error": "no" })] {
        let open = [json!({ "state": "queued" }), json!({ "state": "batching" })].map(status);
        let answers = open.into_iter().chain([busy(503, Some(0)), status(state)]).collect();
        let (client, calls) = client(answers).await;
        let request_id = RequestId::from_random([1; 16]);
        let answer = client.wait_final(request_id, Duration::from_secs(60)).await.expect("final");
        assert!(answer.status.is_final());
        let calls = calls.lock().expect("no panic");
        assert_eq!(calls.len(), 4);
        assert_eq!(calls[0].path, format!("/status/{request_id}?wait=30"));
    }
    let (client, _) = client(vec![status(json!({ "state": "queued" }))]).await;
    let error = client.wait_final(RequestId::from_random([1; 16]), Duration::ZERO).await.expect_err("not final");
    assert!(error.to_string().ends_with("is not final after 0s"), "{error}");
}

#[tokio::test]
async fn packed_account_data_is_taken_apart() {
    let answer = |data: &str| Answer::ok(json!({ "packed_account_data": data }));
    let data = U256::from_limbs([5, 0, 0, (3 << 32) | 2]);
    let (client_of_one, _) = client(vec![answer(&data.to_string())]).await;
    let packed = client_of_one.packed_account(Address::ZERO).await.expect("an answer").expect("an account");
    assert_eq!((packed.recovery_counter, packed.pubkey_id, packed.leaf_index), (3, PubkeyId(2), LeafIndex(5)));
    assert_eq!(packed.to_number(), data);
    let (client_of_none, _) = client(vec![Answer::error(400, "account_does_not_exist", "none")]).await;
    assert_eq!(client_of_none.packed_account(Address::ZERO).await.expect("an answer"), None);
    let (client_of_nonsense, _) = client(vec![answer("0x10000000000000000")]).await;
    assert!(matches!(client_of_nonsense.packed_account(Address::ZERO).await, Err(ClientError::Unreadable { .. })));
}
