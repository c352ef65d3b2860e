//! The eight operations over HTTP, through the wallet library.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy_primitives::Address;
use selfsame_protocol::gateway::{BlockResponse, GatewayRequestState};
use selfsame_protocol::ids::{Nonce, PubkeyId};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::time::UnixSeconds;
use selfsame_wallet::account::AccountError;
use selfsame_wallet::client::{Client, ClientError};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::create_account;

use crate::harness::{START, TestDaemon, folder, in_time};
use crate::test_accounts::{carry_out, create, final_state, fresh, key, registry, submit};

#[tokio::test]
async fn all_eight_kinds_are_finalized() {
    let folder = folder();
    let no_cooldown = |config: &mut selfsame::config::Config| {
        config.registry.recovery_agent_update_cooldown = Duration::ZERO.into();
    };
    let daemon = TestDaemon::start_with(folder.path(), no_cooldown).await;
    let registry = registry(daemon.client()).await;
    let (client, domain) = (registry.client(), registry.domain());
    let [laptop, phone, tablet, spare] = ["laptop", "phone", "tablet", "spare"].map(key);
    let [other, agent] = ["other", "agent"].map(key);
    let mut kinds = BTreeSet::new();
    let mut done = async |step| {
        let report = carry_out(&registry, step).await;
        kinds.insert(<&str>::from(report.receipt.kind));
        report.account
    };

    let account = done(create_account(&[laptop.authenticator()], Address::ZERO)).await;
    let account =
        done(account.insert(domain, &laptop, phone.authenticator(), PubkeyId(1)).expect("a valid operation")).await;
    let account = done(account.update(domain, &phone, tablet.authenticator()).expect("a valid operation")).await;
    let account = done(account.remove(domain, &tablet, laptop.address()).expect("a valid operation")).await;
    let account =
        done(account.update_recovery_agent(domain, &tablet, other.address()).expect("a valid operation")).await;
    let pending = client.pending_recovery_agent(account.leaf_index).await.expect("an answer");
    assert_eq!(pending.pending_recovery_agent, other.address());
    let account = done(account.cancel_recovery_agent_update(domain, &tablet).expect("a valid operation")).await;
    assert_eq!(client.recovery_agent(account.leaf_index).await.expect("an answer"), Address::ZERO);
    let account =
        done(account.update_recovery_agent(domain, &tablet, agent.address()).expect("a valid operation")).await;
    let account = done(account.execute_recovery_agent_update()).await;
    assert_eq!(client.recovery_agent(account.leaf_index).await.expect("an answer"), agent.address());
    let account = done(account.recover(domain, &agent, spare.authenticator()).expect("a valid operation")).await;

    let all = [
        "create_account",
        "update_authenticator",
        "insert_authenticator",
        "remove_authenticator",
        "update_recovery_agent",
        "cancel_recovery_agent_update",
        "execute_recovery_agent_update",
        "recover_account",
    ];
    assert_eq!(kinds, BTreeSet::from(all));
    assert_eq!(registry.account(account.leaf_index).await.expect("read"), account);
    assert_eq!(account.nonce, Nonce::from(7), "every signed operation uses one nonce");
    for revoked in [&laptop, &phone, &tablet] {
        assert_eq!(client.packed_account(revoked.address()).await.expect("an answer"), None);
    }
    let packed = client.packed_account(spare.address()).await.expect("an answer").expect("an authenticator");
    assert_eq!((packed.recovery_counter, packed.pubkey_id, packed.leaf_index), (1, PubkeyId(0), account.leaf_index));
    daemon.stop().await;
}

#[tokio::test]
async fn a_recovery_agent_update_executes_after_fourteen_days_and_not_earlier() {
    const COOLDOWN: Duration = Duration::from_secs(14 * 24 * 3600);
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let (owner, agent, heir) = (key("owner"), key("agent"), key("heir"));
    let open = registry(daemon.client()).await;
    let account = create(&open, &owner, Address::ZERO).await;
    let step = account.update_recovery_agent(open.domain(), &owner, agent.address()).expect("a valid operation");
    let account = carry_out(&open, step).await.account;
    let leaf_index = account.leaf_index;
    let pending = open.client().pending_recovery_agent(leaf_index).await.expect("an answer");
    assert_eq!(pending.execute_after, UnixSeconds((START + COOLDOWN).as_secs()));
    daemon.stop().await;

    let daemon = TestDaemon::start_at(folder.path(), START + COOLDOWN - Duration::from_secs(1), |_| {}).await;
    let early = registry(daemon.client()).await;
    let refused = early.submit(account.execute_recovery_agent_update(), &mut fresh).await;
    let Err(AccountError::Client(ClientError::Service { status, code, message, .. })) = refused else {
        panic!("refused: {refused:?}")
    };
    assert_eq!((status, code.as_str()), (400, "bad_request"));
    assert!(message.starts_with("RecoveryAgentUpdateStillInCooldown: "), "{message}");
    assert_eq!(early.client().recovery_agent(leaf_index).await.expect("an answer"), Address::ZERO);
    daemon.stop().await;

    let daemon = TestDaemon::start_at(folder.path(), START + COOLDOWN, |_| {}).await;
    let late = registry(daemon.client()).await;
    let account = carry_out(&late, account.execute_recovery_agent_update()).await.account;
    assert_eq!(late.client().recovery_agent(leaf_index).await.expect("an answer"), agent.address());
    let pending = late.client().pending_recovery_agent(leaf_index).await.expect("an answer");
    assert_eq!((pending.pending_recovery_agent, pending.execute_after), (Address::ZERO, UnixSeconds(0)));
    carry_out(&late, account.recover(late.domain(), &agent, heir.authenticator()).expect("a valid operation")).await;
    daemon.stop().await;
}

/// A state's position in the order of states, and the transaction hash that it carries.
fn rank(state: &GatewayRequestState) -> (u8, Option<&str>) {
    match state {
        GatewayRequestState::Queued => (0, None),
        GatewayRequestState::Batching => (1, None),
        GatewayRequestState::Submitted { tx_hash } => (2, Some(tx_hash)),
        GatewayRequestState::Finalized { tx_hash } => (3, Some(tx_hash)),
        GatewayRequestState::Failed { error, .. } => panic!("{error}"),
    }
}

/// Polls a request's state without a pause until it is finalized. Returns every state seen, without
/// repetitions.
async fn watch(client: Client, request_id: RequestId) -> Vec<GatewayRequestState> {
    let mut seen: Vec<GatewayRequestState> = Vec::new();
    in_time("a final state", async {
        while seen.last().is_none_or(|state| !state.is_final()) {
            let answer = client.status(request_id, 0).await.expect("an answer");
            assert_eq!(answer.request_id, request_id);
            if seen.last() != Some(&answer.status) {
                seen.push(answer.status);
            }
        }
    })
    .await;
    seen
}

#[tokio::test]
async fn states_only_move_forward() {
    let folder = folder();
    let daemon = TestDaemon::start_with(folder.path(), |config| {
        config.batcher.min_wait = Duration::from_millis(20).into();
        config.batcher.max_wait = Duration::from_millis(20).into();
        config.batcher.max_operations = 16;
    })
    .await;
    let registry = registry(daemon.client()).await;
    let mut watchers = Vec::new();
    for number in 0..60 {
        let step = create_account(&[key(&format!("watched {number}")).authenticator()], Address::ZERO);
        let accepted = submit(&registry, step).await;
        watchers.push((accepted.request_id, tokio::spawn(watch(daemon.client(), accepted.request_id))));
    }
    let mut ranks = BTreeSet::new();
    for (request_id, watcher) in watchers {
        let seen = watcher.await.expect("the task does not panic");
        assert!(seen.is_sorted_by(|before, after| rank(before).0 < rank(after).0), "{seen:?}");
        ranks.extend(seen.iter().map(|state| rank(state).0));
        let hashes: BTreeSet<_> = seen.iter().filter_map(|state| rank(state).1).collect();
        assert_eq!(hashes.len(), 1, "submitted and finalized name the same block: {seen:?}");
        let hash = hashes.into_iter().next().expect("a hash");
        let block = reqwest::get(daemon.gateway(&format!("/block/{hash}"))).await.expect("an answer");
        let block: BlockResponse = block.json().await.expect("a block");
        assert_eq!(format!("{:#x}", block.block.hash), hash);
        assert!(block.request_ids.contains(&request_id));
    }
    assert!(ranks.contains(&0) && ranks.contains(&3), "states before the last were seen: {ranks:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn one_bad_operation_fails_alone_among_ninety_nine_good_ones() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let owner = key("owner");
    let open = registry(daemon.client()).await;
    let account = create(&open, &owner, Address::ZERO).await;
    let step = account.update_recovery_agent(open.domain(), &owner, key("agent").address()).expect("a valid operation");
    let account = carry_out(&open, step).await.account;
    daemon.stop().await;

    // A block is sealed when a hundred requests wait, and not earlier.
    let cooldown = Duration::from_secs(14 * 24 * 3600);
    let daemon = TestDaemon::start_at(folder.path(), START + cooldown, |config| {
        config.batcher.max_operations = 100;
        config.batcher.min_wait = Duration::from_secs(3600).into();
        config.batcher.max_wait = Duration::from_secs(3600).into();
    })
    .await;
    let registry = registry(daemon.client()).await;
    let client = registry.client();
    let mut good = Vec::new();
    let mut create_good = async |number| {
        let step = create_account(&[key(&format!("good {number}")).authenticator()], Address::ZERO);
        good.push(submit(&registry, step).await.request_id);
    };
    for number in 0..50 {
        create_good(number).await;
    }
    // The operation is admitted when the cooldown is over. Then the machine's clock is set back, so
    // the time of the block is before the end of the cooldown.
    let bad = submit(&registry, account.execute_recovery_agent_update()).await.request_id;
    daemon.clock.set(START + Duration::from_secs(60));
    for number in 50..99 {
        create_good(number).await;
    }

    let GatewayRequestState::Failed { error, error_code } = final_state(client, bad).await else {
        panic!("it broke a rule")
    };
    assert!(error.starts_with("RecoveryAgentUpdateStillInCooldown: "), "{error}");
    assert_eq!(error_code.map(|code| code.to_string()).as_deref(), Some("bad_request"));
    let receipt = client.receipt(bad).await.expect("a receipt");
    receipt.verify().expect("the receipt verifies");
    assert_eq!((receipt.operation.position, receipt.block.header.count), (50, 100));
    assert_eq!(client.recovery_agent(account.leaf_index).await.expect("an answer"), Address::ZERO);
    for request_id in good {
        let state = final_state(client, request_id).await;
        assert_eq!(state, GatewayRequestState::Finalized { tx_hash: format!("{:#x}", receipt.block.hash) });
    }
    assert_eq!(client.root().await.expect("an answer").leaf_count, 1 + 1 + 99);
    daemon.stop().await;
}

#[tokio::test]
async fn two_wallets_of_one_account_see_each_others_changes() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let registry = registry(daemon.client()).await;
    let (laptop, phone) = (key("laptop"), key("phone"));
    let account = create(&registry, &laptop, Address::ZERO).await;
    let step =
        account.insert(registry.domain(), &laptop, phone.authenticator(), PubkeyId(6)).expect("a valid operation");
    carry_out(&registry, step).await;
    let read_by = async |key: &AuthenticatorKey| registry.account_of(key.address()).await.expect("read");
    let (seen, mine) = (read_by(&phone).await, read_by(&laptop).await);
    assert_eq!(seen, mine);
    assert_eq!(seen.slots.len(), 7, "a slot list reaches to the highest slot used");
    carry_out(&registry, seen.remove(registry.domain(), &phone, laptop.address()).expect("a valid operation")).await;
    let refused = registry.account_of(laptop.address()).await;
    assert!(matches!(refused, Err(AccountError::NoAccount(_))), "{refused:?}");
    daemon.stop().await;
}
