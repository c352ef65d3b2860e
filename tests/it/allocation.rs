//! `docs/operations/allocation.md`: what strangers can make the daemon keep is as large, and
//! bounded, as the page says.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;

use alloy_primitives::Address;
use futures_util::StreamExt;
use selfsame::config::Config;
use selfsame_protocol::B256;
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::RootRecord;
use selfsame_protocol::registry::RegistryView;
use selfsame_protocol::sign_in::authorize::LONGEST_KEPT;
use selfsame_protocol::sign_in::transaction::LONGEST_TRANSACTION;
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_protocol::tree::Page;
use selfsame_protocol::verification::identity::{ActionRecord, NullifierRecord, RECORDED_TEXT};
use selfsame_storage::{
    AppliedBlock, EmbeddedRecords, GroupCommit, Place, RecordKey, RecordKind, Records, Store, StoredRecord,
};
use sha2::{Digest, Sha256};

use crate::registry_client::RegistryClient;
use crate::sign_in_client::{SignInTestClient, pair};
use crate::test_accounts::key;

const PAGE: &str = include_str!("../../docs/operations/allocation.md");

/// The cells of the page's tables by the first one of their row.
fn rows() -> BTreeMap<&'static str, Vec<&'static str>> {
    let cells =
        |line: &'static str| -> Vec<&'static str> { line.trim_matches('|').split('|').map(str::trim).collect() };
    let rows = PAGE.lines().filter(|line| line.starts_with("| ")).map(cells);
    rows.map(|cells| (cells[0], cells[1..].to_vec())).collect()
}

/// The first number of a cell.
fn number(cell: &str) -> u64 {
    let digits: String =
        cell.chars().skip_while(|c| !c.is_ascii_digit()).take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{cell:?} has no number"))
}

/// Checks the bytes that the page has for a row: not less than what was measured, and not much
/// more.
fn expect_bytes(row: &str, measured: usize) {
    let rows = rows();
    let stated = number(rows.get(row).unwrap_or_else(|| panic!("the page has no row {row:?}"))[0]);
    let measured = measured as u64;
    assert!(
        (measured..=measured + measured / 6 + 16).contains(&stated),
        "{row}: {stated} on the page, {measured} measured"
    );
}

/// The records of sign-in in the store of a stopped daemon.
fn records_of<T>(data: &Path, read: impl FnOnce(&dyn Records) -> T) -> T {
    let store = Store::open_existing(&data.join("store"), 1 << 20).expect("the store opens");
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the thread starts");
    let records = EmbeddedRecords::new(store, group_commit);
    let result = read(&records);
    drop(records);
    committing.join().expect("no panic");
    result
}

/// The bytes of a record with its key, and of its entry in the list of what expires.
fn bytes_of(key: &RecordKey, stored: &StoredRecord) -> usize {
    2 * encode(key).len() + encode(&stored.expires_at).len() + encode(stored).len()
}

/// What a sign-in takes that a stranger made as large as it can be, and a browser's session.
#[tokio::test]
async fn sign_ins_and_sessions_take_what_the_page_says() {
    let client = SignInTestClient::start().await;
    let long = "a".repeat(LONGEST_KEPT);
    let page = client.browse(&[("state", &long), ("nonce", &long)], "").await;
    let (_, base) = client.transaction_of_page(&page);
    let opened = client.http.get(format!("{base}/request")).send().await.expect("an answer");
    assert_eq!(opened.status(), 200);
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let id: [u8; 16] = hex_bytes(base.rsplit('/').next().expect("an id"));
    let transaction = RecordKey { kind: RecordKind::Transaction, id: B256::left_padding_from(&id) };
    let secret = pair(session).split_once('=').expect("a pair").1.to_owned();
    let session = RecordKey { kind: RecordKind::BrowserSession, id: B256::from_slice(&Sha256::digest(secret)) };
    let SignInTestClient { daemon, folder, .. } = client;
    daemon.stop().await;
    let [transaction, session] = records_of(folder.path(), |records| {
        [transaction, session].map(|key| bytes_of(&key, &records.get(&key).expect("read").expect("it is there")))
    });
    let stated = number(rows()["a sign-in that was begun and opened"][0]);
    assert_eq!(stated, LONGEST_TRANSACTION as u64);
    assert!((2 * LONGEST_KEPT..=LONGEST_TRANSACTION).contains(&transaction), "{transaction} measured");
    expect_bytes("a browser session with one application", session);
    let nonce = RecordKey { kind: RecordKind::SignedNonce, id: B256::ZERO };
    let used = StoredRecord { expires_at: UnixSeconds(0), value: Vec::new() };
    expect_bytes("a nonce that a relying party signed", bytes_of(&nonce, &used));
}

fn hex_bytes(text: &str) -> [u8; 16] {
    u128::from_str_radix(text, 16).expect("hex digits").to_be_bytes()
}

/// What an account takes for ever, alone in its block.
#[tokio::test]
async fn accounts_take_what_the_page_says() {
    let client = RegistryClient::start().await;
    let mut blocks = pin!(client.daemon.registry.follow(0));
    for (row, authenticators) in [("an account with one authenticator", 1), ("an account with seven authenticators", 7)]
    {
        let keys: Vec<_> =
            (0..authenticators).map(|number| key(&format!("allocation {authenticators} {number}"))).collect();
        let account = client.create(&keys.iter().collect::<Vec<_>>(), Address::ZERO).await;
        let followed = blocks.next().await.expect("a block").expect("it is read");
        assert_eq!(followed.block.entries.len(), 1);
        let snapshot = client.daemon.registry.snapshot();
        let stored = snapshot.on_disk().account(account.leaf_index).expect("read").expect("it exists");
        let height = 8;
        let applied = AppliedBlock { result: followed.result, outcomes: followed.outcomes };
        let root = RootRecord { height: 1, replaced_at: Some(UnixSeconds(1)) };
        let of_account = encode(&LeafIndex(1)).len() + encode(&stored).len() + authenticators * (20 + 32);
        let of_tree = Page::ENCODED_LENGTH / 32 + 32 + encode(&root).len();
        let of_block = height + encode(&followed.block).len() + 32 + height + height + encode(&applied).len();
        let of_request = 16 + encode(&Place { height: 1, position: 0 }).len();
        expect_bytes(row, of_account + of_tree + of_block + of_request);
    }
}

#[test]
fn what_a_proof_leaves_takes_what_the_page_says() {
    // The application, the environment, the action; and the nullifier.
    let action_key = 32 + 1 + 32;
    let now = UnixMillis(1);
    let record =
        NullifierRecord { created_at: now, verifications: 1, user_presence_completed: true, told_at: Some(now) };
    expect_bytes("a nullifier", action_key + 32 + encode(&record).len());
    let long = "a".repeat(2 * RECORDED_TEXT);
    let action = ActionRecord::new(&long, now);
    expect_bytes("an action that nobody configured", action_key + encode(&action).len());
}

/// The bounds of the page are the defaults of the program.
#[test]
fn the_bounds_on_the_page_are_the_defaults() {
    let (config, rows) = (Config::default(), rows());
    let quarter = |count: usize| count.div_ceil(4);
    for (row, expected) in [
        ("`limits.open_sign_ins`", config.limits.open_sign_ins),
        ("`limits.followers_per_source`", config.limits.followers_per_source),
        ("`limits.queue_length`", config.limits.queue_length),
        ("`limits.status_waiters`", config.limits.status_waiters),
        ("`limits.max_connections`", config.limits.max_connections),
        ("`bridge.memory_mib`", config.bridge.memory_mib),
        ("`verifier.queue`", config.verifier.queue),
    ] {
        let cells = rows.get(row).unwrap_or_else(|| panic!("the page has no row {row}"));
        assert_eq!(number(cells[0]), expected as u64, "{row}");
        if cells[1].starts_with(|c: char| c.is_ascii_digit()) {
            assert_eq!(number(cells[1]), quarter(expected) as u64, "{row}: a source");
        }
    }
}
