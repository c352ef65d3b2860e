//! Reads during writes: every answer shows one version of the registry, and what is finalized is in
//! every answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::{Address, B256};
use selfsame_protocol::commitment::{commitment, decompress_slots};
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex, PubkeyId};
use selfsame_protocol::tree::Root;
use selfsame_wallet::account::Registry;
use selfsame_wallet::client::Client;
use selfsame_wallet::operations::{AccountState, Step, create_account};

use crate::harness::{TestDaemon, folder, in_time};
use crate::test_accounts::{create, final_state, key, registry, submit};

/// How often a writer changes its account.
const CHANGES: usize = 40;

/// The commitment of public keys as an answer lists them.
fn commitment_of(keys: &[Option<CompressedKey>]) -> Commitment {
    commitment(&decompress_slots(keys.iter().copied()).expect("keys of the curve"))
}

/// Reads inclusion proofs of an account without a pause. Checks each and returns the roots seen.
async fn read_proofs(client: Client, leaf_index: LeafIndex, writing: Arc<AtomicBool>) -> BTreeSet<Root> {
    let mut roots = BTreeSet::new();
    while writing.load(Ordering::Relaxed) {
        let proof = client.inclusion_proof(leaf_index).await.expect("an answer");
        let path = proof.path().expect("thirty siblings");
        let leaf = commitment_of(&proof.authenticator_pubkeys).leaf();
        assert_eq!(path.root_from(&leaf), proof.root, "the keys of an answer lead to its root");
        roots.insert(proof.root);
    }
    roots
}

/// Reads an account's authenticators without a pause. Checks each answer and returns the
/// commitments seen.
async fn read_authenticators(client: Client, leaf_index: LeafIndex, writing: Arc<AtomicBool>) -> BTreeSet<Commitment> {
    let mut commitments = BTreeSet::new();
    while writing.load(Ordering::Relaxed) {
        let answer = client.authenticators(leaf_index).await.expect("an answer");
        let stated = answer.offchain_signer_commitment;
        assert_eq!(commitment_of(&answer.authenticator_pubkeys), stated, "the keys have the stated commitment");
        let has_key = answer.authenticator_pubkeys.iter().map(Option::is_some);
        assert!(has_key.eq(answer.authenticator_addresses.iter().map(Option::is_some)));
        commitments.insert(stated);
    }
    commitments
}

/// The next change of an account: inserts or removes its second authenticator, with a new key each
/// time.
fn change(registry: &Registry, account: &AccountState, owner: &str, number: usize) -> Step {
    let phone = key(&format!("{owner}'s phone {}", number / 2));
    let owner = key(owner);
    match number % 2 {
        0 => account.insert(registry.domain(), &owner, phone.authenticator(), PubkeyId(1)).expect("a valid operation"),
        _ => account.remove(registry.domain(), &owner, phone.address()).expect("a valid operation"),
    }
}

/// Polls a request's state without a pause until it is finalized.
async fn poll_until_finalized(registry: &Registry, step: Step) -> AccountState {
    let after = step.after.clone();
    let request_id = submit(registry, step).await.request_id;
    let polling =
        async { while !registry.client().status(request_id, 0).await.expect("an answer").status.is_final() {} };
    in_time("a final state", polling).await;
    after
}

/// Asserts that the first answer of every endpoint shows this account.
async fn expect_shown(client: &Client, account: &AccountState) {
    let leaf_index = account.leaf_index;
    let (nonce, authenticators, proof) = tokio::join!(
        client.signature_nonce(leaf_index),
        client.authenticators(leaf_index),
        client.inclusion_proof(leaf_index),
    );
    assert_eq!(nonce.expect("an answer"), account.nonce);
    assert_eq!(authenticators.expect("an answer").offchain_signer_commitment, account.commitment);
    let keys: Vec<_> = account.slots.iter().map(|slot| slot.map(|slot| slot.compressed_key())).collect();
    assert_eq!(proof.expect("an answer").authenticator_pubkeys, keys);
    for (pubkey_id, slot) in (0..).map(PubkeyId).zip(&account.slots) {
        let Some(slot) = slot else { continue };
        let packed = client.packed_account(slot.address).await.expect("an answer").expect("an authenticator");
        assert_eq!((packed.leaf_index, packed.pubkey_id), (leaf_index, pubkey_id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_shows_one_version_of_the_registry() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let registry = registry(daemon.client()).await;
    let mut accounts = Vec::new();
    for owner in ["ann", "ben", "cem"] {
        accounts.push((owner, create(&registry, &key(owner), Address::ZERO).await));
    }
    let writing = Arc::new(AtomicBool::new(true));
    let mut proofs = Vec::new();
    let mut lists = Vec::new();
    for (_, account) in &accounts {
        proofs.push(tokio::spawn(read_proofs(daemon.client(), account.leaf_index, Arc::clone(&writing))));
        lists.push(tokio::spawn(read_authenticators(daemon.client(), account.leaf_index, Arc::clone(&writing))));
    }
    let writers = accounts.into_iter().map(|(owner, mut account)| {
        let registry = registry.clone();
        tokio::spawn(async move {
            for number in 0..CHANGES {
                account = poll_until_finalized(&registry, change(&registry, &account, owner, number)).await;
                expect_shown(registry.client(), &account).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    // Other writers keep the blocks full.
    let mut crowd = Vec::new();
    for number in 0..200 {
        let step = create_account(&[key(&format!("crowd {number}")).authenticator()], Address::ZERO);
        crowd.push(submit(&registry, step).await.request_id);
    }
    for writer in writers {
        writer.await.expect("every effect is seen once its request is finalized");
    }
    for request_id in crowd {
        final_state(registry.client(), request_id).await;
    }
    writing.store(false, Ordering::Relaxed);

    let mut roots = BTreeSet::new();
    for reader in proofs {
        roots.extend(reader.await.expect("every proof verifies"));
    }
    for reader in lists {
        assert!(
            reader.await.expect("every list has its stated commitment").len() > 2,
            "the account was read while it changed"
        );
    }
    assert!(roots.len() > CHANGES / 2, "{} roots were seen", roots.len());
    for root in roots {
        assert!(registry.client().is_valid_root(root).await.expect("an answer"), "{root:#x} was a root");
    }
    assert!(!registry.client().is_valid_root(Root(B256::repeat_byte(1))).await.expect("an answer"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finalized_request_is_in_every_answer() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let registry = registry(daemon.client()).await;
    for number in 0..30 {
        let owner = format!("owner {number}");
        let created = create_account(&[key(&owner).authenticator()], Address::ZERO);
        let mut account = poll_until_finalized(&registry, created).await;
        let packed = registry.client().packed_account(key(&owner).address()).await.expect("an answer");
        account.leaf_index = packed.expect("the authenticator is known").leaf_index;
        expect_shown(registry.client(), &account).await;
        for number in 0..2 {
            account = poll_until_finalized(&registry, change(&registry, &account, &owner, number)).await;
            expect_shown(registry.client(), &account).await;
        }
        let revoked = registry.client().packed_account(key(&format!("{owner}'s phone 0")).address()).await;
        assert_eq!(revoked.expect("an answer"), None, "a removed authenticator is gone at once");
    }
    daemon.stop().await;
}
