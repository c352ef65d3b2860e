//! What a year of sign-ins leaves in the store: the accounts, with what finds them, and a record of
//! each browser that remembers one. Everything else of a sign-in ends within two days.
//!
//! `TEST_GROWTH_PEOPLE` sets how many people sign in each month.

use std::collections::BTreeMap;
use std::time::Duration;

use selfsame::daemon::store_folder;
use selfsame_protocol::encoding::decode;
use selfsame_storage::{RecordKey, Store, StoredRecord};
use tokio::task::block_in_place;

use crate::account_client::{Browser, start_behind_https};
use crate::harness::variable;
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{SignInTestClient, proof_of};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Records that may be added within a year whatever the number of people: signing keys.
const FIXED: u64 = 4;

/// The bytes of the record that finds an expiring one by its time: the time, and the key.
const EXPIRY: u64 = 8 + 33;

/// How many records of each kind there are, and their bytes, with their keys and uncompressed.
type Sizes = BTreeMap<String, (u64, u64)>;

/// The records of a store that have not expired: those are deleted within seconds.
fn sizes(client: &SignInTestClient) -> Sizes {
    let (mut sizes, now) = (Sizes::new(), client.now());
    let store = Store::open_read_only(&store_folder(client.folder.path()), 1 << 20).expect("the store opens");
    let visit = |family: &str, key: &[u8], value: &[u8]| {
        let (kind, expiry) = match family {
            // They have the keys of the records again.
            "record_expiries" => return,
            "records" => {
                let (key, record): (RecordKey, StoredRecord) =
                    (decode(key).expect("a key"), decode(value).expect("a record"));
                let has_expiry = record.expires_at.0 != u64::MAX;
                if record.expires_at.0 <= now {
                    return;
                }
                (format!("{:?}", key.kind), if has_expiry { EXPIRY } else { 0 })
            }
            family => (family.to_owned(), 0),
        };
        let (count, bytes) = sizes.entry(kind).or_default();
        *count += 1;
        *bytes += (key.len() + value.len()) as u64 + expiry;
    };
    store.visit_records(visit).expect("records");
    sizes
}

fn total(sizes: &Sizes) -> u64 {
    sizes.values().map(|(_, bytes)| bytes).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_year_of_sign_ins_leaves_accounts_and_browsers_that_remember() {
    let people: usize = variable("TEST_GROWTH_PEOPLE").unwrap_or(8);
    let client = start_behind_https().await;
    let measure = || block_in_place(|| sizes(&client));
    let empty = measure();
    let first = Browser::default().begin(&client, &[]).await;
    let party = Proofs { client: &client, person: "a person" }.party(&first.open().await).await;
    let mut browsers = vec![Browser::default(); people];
    let (mut after, mut busiest) = (Vec::new(), Vec::new());
    for _ in 0..=12 {
        for (number, browser) in browsers.iter_mut().enumerate() {
            let begun = browser.begin(&client, &[]).await;
            let proof = proof_of(&begun.open().await, &format!("person {number}"), &party);
            begun.post(&client, &proof).await.expect_success();
            browser.complete(&client, &begun, "?remember=yes").await;
        }
        busiest.push(measure());
        client.daemon.clock.advance(2 * DAY);
        after.push(measure());
        client.daemon.clock.advance(28 * DAY);
    }
    let (begin, end) = (&after[0], &after[12]);
    for (kind, (count, _)) in end {
        let before = begin.get(kind).map_or(0, |(count, _)| *count);
        assert!(*count <= before + FIXED, "{kind}: {before} records after a month, {count} after a year: {end:?}");
    }
    let of = |sizes: &Sizes, kind: &str| sizes.get(kind).map_or(0, |(count, _)| *count as usize);
    for kind in ["Account", "AccountByNullifier", "AccountBySession", "Pointers"] {
        assert_eq!((of(begin, kind), of(end, kind)), (people, people), "{kind}: {end:?}");
    }
    // What ends was there: the test sees it.
    for kind in ["Transaction", "BrowserSession", "AccessToken"] {
        assert!(of(&busiest[12], kind) >= people && of(end, kind) == 0, "{kind}: {:?} {end:?}", busiest[12]);
    }
    let each = |sizes: &Sizes, before: &Sizes| (total(sizes) - total(before)) / people as u64;
    println!("{people} people, a sign-in a month, bytes of records with their keys, uncompressed");
    println!("a person after a month {}, after a year {}", each(begin, &empty), each(end, &empty));
    println!("a sign-in until its records end {}", each(&busiest[12], &after[11]));
    for (kind, (count, bytes)) in end {
        println!("  {kind}: {count} records, {bytes} bytes");
    }
    client.stop().await;
}
