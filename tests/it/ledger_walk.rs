//! Blocks and receipts over HTTP: every block is linked to the first block, and every request is in
//! the ledger once.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use selfsame_protocol::gateway::{BlockResponse, GatewayErrorCode, GatewayRequestState, ServiceApiError};
use selfsame_protocol::ids::{LeafIndex, PubkeyId};
use selfsame_protocol::ledger::{Outcome, Receipt, ReceiptError, RequestId, SealedHeader, SealedResult};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_wallet::client::Client;
use selfsame_wallet::operations::create_account;
use serde_json::json;

use crate::harness::{START, TestDaemon, folder};
use crate::test_accounts::{carry_out, final_state, key, registry, submit};

/// A daemon with a history: accounts made one by one and many at a time, changes, a restart, and
/// finally a block of two requests of which the first failed. Also returns the ids of all requests.
async fn daemon_with_history(data: &Path) -> (TestDaemon, Vec<RequestId>) {
    let daemon = TestDaemon::start(data).await;
    let open = registry(daemon.client()).await;
    let domain = open.domain();
    let (owner, agent) = (key("owner"), key("agent"));
    let mut request_ids = Vec::new();
    let mut done = async |step| {
        let report = carry_out(&open, step).await;
        request_ids.push(report.receipt.request_id);
        report.account
    };
    let account = done(create_account(&[owner.authenticator()], Address::ZERO)).await;
    let account =
        done(account.insert(domain, &owner, key("phone").authenticator(), PubkeyId(1)).expect("a valid operation"))
            .await;
    let account =
        done(account.update_recovery_agent(domain, &owner, agent.address()).expect("a valid operation")).await;
    for number in 0..40 {
        let step = create_account(&[key(&format!("crowd {number}")).authenticator()], agent.address());
        request_ids.push(submit(&open, step).await.request_id);
    }
    for request_id in &request_ids {
        let state = final_state(open.client(), *request_id).await;
        assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{state:?}");
    }
    daemon.stop().await;

    let cooldown = Duration::from_secs(14 * 24 * 3600);
    let daemon = TestDaemon::start_at(data, START + cooldown, |config| {
        config.batcher.max_operations = 2;
        config.batcher.min_wait = Duration::from_secs(3600).into();
        config.batcher.max_wait = Duration::from_secs(3600).into();
    })
    .await;
    let open = registry(daemon.client()).await;
    // The request is admitted after the cooldown, then the clock is set back.
    request_ids.push(submit(&open, account.execute_recovery_agent_update()).await.request_id);
    daemon.clock.set(START);
    request_ids.push(submit(&open, create_account(&[key("last").authenticator()], Address::ZERO)).await.request_id);
    final_state(open.client(), request_ids[request_ids.len() - 1]).await;
    (daemon, request_ids)
}

#[tokio::test]
async fn every_hash_leads_back_to_the_first_block() {
    let folder = folder();
    let (daemon, request_ids) = daemon_with_history(folder.path()).await;
    let client = daemon.client();
    let tip = client.root().await.expect("an answer");
    let (mut block_hash, mut result_hash) = (B256::ZERO, B256::ZERO);
    let (mut root, mut time) = (Root::empty(), UnixSeconds(0));
    let mut walked = Vec::new();
    for height in 1..=tip.height {
        let BlockResponse { block: SealedHeader { header, hash }, result, request_ids } =
            client.block(height).await.expect("a block");
        assert_eq!((header.height, header.previous_hash), (height, block_hash));
        assert_eq!(hash, header.hash());
        assert_eq!(header.count as usize, request_ids.len());
        assert!(header.time >= time);
        let SealedResult { result, hash: own_hash } = result.expect("applied");
        assert_eq!((result.block_hash, result.previous_result_hash, result.root_before), (hash, result_hash, root));
        assert_eq!(own_hash, result.hash());
        let by_hash = reqwest::get(daemon.gateway(&format!("/block/{hash:#x}"))).await.expect("an answer");
        assert_eq!(by_hash.json::<BlockResponse>().await.expect("a block").block.hash, hash);
        (block_hash, result_hash, root, time) = (hash, own_hash, result.root_after, header.time);
        walked.extend(request_ids);
    }
    assert_eq!((block_hash, result_hash, root), (tip.block_hash, tip.result_hash, tip.root));
    assert_eq!(tip.timestamp, time);
    assert_eq!(walked.len(), request_ids.len(), "every request is in the ledger once");
    assert_eq!(BTreeSet::from_iter(walked), BTreeSet::from_iter(request_ids));
    daemon.stop().await;
}

#[tokio::test]
async fn unknown_and_malformed_block_ids_are_refused() {
    let folder = folder();
    let (daemon, _) = daemon_with_history(folder.path()).await;
    let beyond = daemon.client().root().await.expect("an answer").height + 1;
    let unknown = format!("0x{}", "ab".repeat(32));
    let cases = [
        ("0".to_owned(), 404),
        (beyond.to_string(), 404),
        (u64::MAX.to_string(), 404),
        (unknown, 404),
        ("tip".to_owned(), 400),
        ("-1".to_owned(), 400),
        (format!("{}0", u64::MAX), 400),
    ];
    for (id, status) in cases {
        let answer = reqwest::get(daemon.gateway(&format!("/block/{id}"))).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{id}");
        let body: ServiceApiError<GatewayErrorCode> = answer.json().await.expect("an error object");
        let code = if status == 404 { GatewayErrorCode::NotFound } else { GatewayErrorCode::BadRequest };
        assert_eq!(body.code, code, "{id}: {}", body.message);
    }
    let receipt = format!("/receipt/{}", RequestId::from_random([7; 16]));
    assert_eq!(reqwest::get(daemon.gateway(&receipt)).await.expect("an answer").status().as_u16(), 404);
    daemon.stop().await;
}

/// A receipt with the block that it names.
async fn receipt_and_block(client: &Client, request_id: RequestId) -> (Receipt, BlockResponse) {
    let receipt = client.receipt(request_id).await.expect("a receipt");
    let block = client.block(receipt.block.header.height).await.expect("a block");
    (receipt, block)
}

#[tokio::test]
async fn every_receipt_verifies_against_its_block() {
    let folder = folder();
    let (daemon, request_ids) = daemon_with_history(folder.path()).await;
    let client = daemon.client();
    let mut failures = 0;
    for request_id in &request_ids {
        let (receipt, block) = receipt_and_block(&client, *request_id).await;
        receipt.verify().expect("the receipt verifies");
        assert_eq!(receipt.request_id, *request_id);
        assert_eq!(receipt.block, block.block);
        assert_eq!(Some(&receipt.result), block.result.as_ref());
        assert_eq!(block.request_ids[receipt.operation.position as usize], *request_id);
        let state = final_state(&client, *request_id).await;
        match receipt.outcome.outcome {
            Outcome::Applied { .. } => {
                assert_eq!(state, GatewayRequestState::Finalized { tx_hash: format!("{:#x}", receipt.block.hash) });
            }
            Outcome::Failed { rule, code } => {
                let GatewayRequestState::Failed { error, error_code } = state else { panic!("{state:?}") };
                assert!(error.starts_with(&format!("{rule}: ")), "{error}");
                assert_eq!(error_code, Some(code));
                failures += 1;
            }
        }
    }
    assert_eq!(failures, 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_tampered_receipt_does_not_verify() {
    let folder = folder();
    let (daemon, request_ids) = daemon_with_history(folder.path()).await;
    let client = daemon.client();
    // The last two requests are in one block, so both receipts have paths.
    let (failed, _) = receipt_and_block(&client, request_ids[request_ids.len() - 2]).await;
    let (applied, _) = receipt_and_block(&client, request_ids[request_ids.len() - 1]).await;
    let (first, _) = receipt_and_block(&client, request_ids[0]).await;
    assert_eq!((failed.operation.path.len(), applied.outcome.path.len()), (1, 1));

    type Tampering<'a> = Box<dyn Fn(&mut Receipt) + 'a>;
    let table: Vec<(Tampering, ReceiptError)> = vec![
        (Box::new(|receipt| receipt.block.header.time.0 += 1), ReceiptError::BlockHash),
        (Box::new(|receipt| receipt.block.hash = B256::ZERO), ReceiptError::BlockHash),
        (Box::new(|receipt| receipt.result.result.root_after = Root(B256::ZERO)), ReceiptError::ResultHash),
        (Box::new(|receipt| receipt.result = first.result.clone()), ReceiptError::OtherBlock),
        (Box::new(|receipt| receipt.request_id = first.request_id), ReceiptError::OperationEncoding),
        (Box::new(|receipt| receipt.kind = first.kind), ReceiptError::OperationEncoding),
        (Box::new(|receipt| receipt.operation.body = json!({ "leaf_index": "0x2" })), ReceiptError::OperationEncoding),
        (Box::new(|receipt| receipt.operation.path[0] = B256::ZERO), ReceiptError::OperationPath),
        (Box::new(|receipt| receipt.operation.path.clear()), ReceiptError::OperationPath),
        (Box::new(|receipt| receipt.operation.position = 1), ReceiptError::OperationPath),
        (Box::new(|receipt| receipt.operation.position = 2), ReceiptError::OperationPath),
        (
            Box::new(|receipt| receipt.outcome.outcome = Outcome::Applied { leaf_index: LeafIndex(1) }),
            ReceiptError::OutcomeEncoding,
        ),
        (Box::new(|receipt| receipt.outcome = applied.outcome.clone()), ReceiptError::OutcomePath),
    ];
    for (number, (tamper, error)) in table.iter().enumerate() {
        let mut receipt = failed.clone();
        tamper(&mut receipt);
        assert_eq!(receipt.verify(), Err(error.clone()), "tampering {number}");
    }
    assert_eq!(failed.verify(), Ok(()));
    daemon.stop().await;
}
