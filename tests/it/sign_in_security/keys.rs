//! Key changes under load: every token verifies with the keys that clients have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use crate::sign_in_client::{APP, SignInTestClient, accept_current_proofs, pair, unverified_claims, verified};

/// A key set and the time at which it was fetched, in Unix seconds.
struct FetchedKeys {
    at: u64,
    keys: Value,
}

/// Signs in silently with a browser's session, with and without the front channel, until `is_over`;
/// returns the ID tokens that the application gets.
async fn sign_in_until(client: &SignInTestClient, session: &str, is_over: &AtomicBool) -> Vec<String> {
    let mut id_tokens = Vec::new();
    // The bound is for a machine on which making a key takes very long.
    for round in 0..200 {
        let is_last = is_over.load(Ordering::Relaxed) && round > 0;
        let response = client.browse_silently(&[("response_type", "code")], session).await;
        let tokens = client.exchange(&response["code"]).await;
        assert_eq!(tokens.status, 200, "{tokens:?}");
        id_tokens.push(tokens.text("id_token").to_owned());
        let response = client.browse_silently(&[("response_type", "code id_token token")], session).await;
        id_tokens.push(response["id_token"].clone());
        let tokens = client.exchange(&response["code"]).await;
        id_tokens.push(tokens.text("id_token").to_owned());
        if is_last {
            break;
        }
    }
    id_tokens
}

/// Fetches the keys until `is_over`; returns each different key set.
async fn fetch_until(client: &SignInTestClient, is_over: &AtomicBool) -> Vec<FetchedKeys> {
    let mut fetched: Vec<FetchedKeys> = Vec::new();
    for _ in 0..500 {
        let keys = client.published_keys().await;
        if fetched.last().is_none_or(|last| last.keys != keys) {
            fetched.push(FetchedKeys { at: client.now(), keys });
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        tokio::task::yield_now().await;
    }
    fetched
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_verify_with_keys_fetched_within_an_hour_under_rotation() {
    const ROTATIONS: usize = 10;
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.sign_in.session_lifetime = Duration::from_secs(30 * 24 * 3600).into();
    })
    .await;
    let token = client.operator_token();
    let mut sessions = Vec::new();
    for person in ["alice", "bob", "carol", "dave"] {
        let session = pair(client.sign_in_by_page(person, &[], "").await.1);
        let hybrid = [("response_type", "code id_token token")];
        sessions.push(pair(client.sign_in_by_page(person, &hybrid, &session).await.1));
    }
    let (mut issued, mut fetched) = (Vec::new(), Vec::new());
    // A round is a quarter of an hour. Every fourth round, a little longer, changes the key; one
    // round in the middle tries to and is refused.
    for quarter in 1..=4 * ROTATIONS {
        client.daemon.clock.advance(Duration::from_secs(if quarter % 4 == 0 { 901 } else { 900 }));
        let is_over = AtomicBool::new(false);
        let rotating = async {
            if quarter % 4 == 0 {
                let rotated = client.rotate_keys("{}", &token).await;
                assert_eq!(rotated.status, 200, "{rotated:?}");
            } else if quarter == 4 * (ROTATIONS / 2) + 2 {
                assert_eq!(client.rotate_keys("{}", &token).await.status, 400, "too early");
            }
            is_over.store(true, Ordering::Relaxed);
        };
        let signing_in = join_all(sessions.iter().map(|session| sign_in_until(&client, session, &is_over)));
        let (id_tokens, keys, ()) = tokio::join!(signing_in, fetch_until(&client, &is_over), rotating);
        issued.extend(id_tokens.into_iter().flatten());
        fetched.extend(keys);
    }
    assert!(issued.len() > 4 * 4 * ROTATIONS, "{} tokens", issued.len());
    // Old and new keys have signed, and the tests saw each of them appear and disappear.
    let mut signed: BTreeMap<String, usize> = BTreeMap::new();
    let mut checked = 0;
    for id_token in &issued {
        *signed.entry(jsonwebtoken::decode_header(id_token).expect("a header").kid.expect("a name")).or_default() += 1;
        let claims = unverified_claims(id_token);
        let issued_at = claims["iat"].as_u64().expect("a time");
        // A token also verifies with keys that are fetched later, until it expires.
        for FetchedKeys { keys, .. } in fetched.iter().filter(|fetched| fetched.at.abs_diff(issued_at) <= 3600) {
            assert_eq!(verified(id_token, keys, &client.issuer(), APP), claims);
            checked += 1;
        }
    }
    assert_eq!(signed.len(), ROTATIONS + 1, "{signed:?}");
    assert!(checked > issued.len(), "{checked}");
    assert!(fetched.iter().all(|fetched| (2..=4).contains(&fetched.keys["keys"].as_array().map_or(0, Vec::len))));
    client.stop().await;
}
