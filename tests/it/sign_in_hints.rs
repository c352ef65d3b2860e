//! `id_token_hint` after years: an ID token is a hint until the key that signed it is revoked.

use std::time::Duration;

use selfsame_protocol::sign_in::SigningAlgorithm;
use serde_json::{Value, json};

use crate::account_client::{Asks, Browser, ask_for_accounts, asks, location};
use crate::sign_in_client::{SignInTestClient, fragment_or_query};

/// What a browser that remembers nothing asks for with a hint.
async fn asks_with(client: &SignInTestClient, hint: &str) -> Asks {
    asks(&Browser::default().begin(client, &[("id_token_hint", hint)]).await).await
}

/// An ID token of `person`, who is remembered nowhere.
async fn id_token(client: &SignInTestClient, person: &str) -> String {
    let mut browser = Browser::default();
    let begun = browser.begin(client, &[]).await;
    begun.answer(client, person).await;
    let answer = browser.get(client, &format!("{}/complete?remember=no", begun.base)).await;
    client.exchange(&fragment_or_query(location(&answer))["code"]).await.text("id_token").to_owned()
}

fn signer_of(token: &str) -> String {
    jsonwebtoken::decode_header(token).expect("a header").kid.expect("a key")
}

async fn published(client: &SignInTestClient) -> Vec<String> {
    let keys = client.published_keys().await;
    keys["keys"].as_array().expect("keys").iter().map(|key| key["kid"].as_str().expect("text").to_owned()).collect()
}

/// The operator's list of keys: id and state.
async fn listed(client: &SignInTestClient) -> Vec<(String, String)> {
    let request = client.http.get(client.daemon.operator("/keys")).bearer_auth(client.operator_token());
    let keys = client.send(request).await.body;
    let text = |key: &Value, name: &str| key[name].as_str().expect("text").to_owned();
    keys.as_array().expect("keys").iter().map(|key| (text(key, "kid"), text(key, "state"))).collect()
}

#[tokio::test]
async fn an_id_token_is_a_hint_for_years_until_its_key_is_revoked() {
    let set = |config: &mut selfsame::config::Config| {
        ask_for_accounts(config);
        config.sign_in.signing_algorithm = SigningAlgorithm::Es256;
    };
    let mut client = SignInTestClient::start_with_keys(set).await;
    let mut hints = vec![id_token(&client, "alice").await];
    for rotation in 0..5 {
        client.daemon.clock.advance(Duration::from_secs(365 * 24 * 3600));
        let rotated = client.rotate_keys("{\"now\":true}", &client.operator_token()).await;
        assert_eq!(rotated.status, 200, "{rotated:?}");
        for hint in &hints {
            assert!(matches!(asks_with(&client, hint).await, Asks::Return(_)), "after {rotation} years");
        }
        hints.push(id_token(&client, "alice").await);
    }
    let published_now = published(&client).await;
    let unpublished: Vec<String> =
        listed(&client).await.into_iter().filter(|(_, state)| state == "unpublished").map(|(kid, _)| kid).collect();
    let signers: Vec<String> = hints.iter().map(|hint| signer_of(hint)).collect();
    for old in &signers[..4] {
        assert!(unpublished.contains(old) && !published_now.contains(old), "{old}: {unpublished:?} {published_now:?}");
    }

    // The keys are in the store.
    let now = Duration::from_secs(client.now());
    let SignInTestClient { daemon, folder, http } = client;
    drop(http);
    daemon.stop().await;
    client = SignInTestClient::start_in(folder, set).await;
    client.daemon.clock.advance(now - Duration::from_secs(client.now()));
    assert!(matches!(asks_with(&client, &hints[0]).await, Asks::Return(_)));

    // What cannot be checked is no hint: as without one, the person is asked.
    let (head, signature) = hints[0].rsplit_once('.').expect("a signature");
    let other = hints[1].rsplit_once('.').expect("a signature").1;
    assert_ne!(signature, other);
    for forged in [format!("{head}.{other}"), format!("{head}."), head.to_owned()] {
        assert_eq!(asks_with(&client, &forged).await, Asks::First, "{forged}");
    }

    // A stolen key signs hints until it is revoked, however long ago it was retired.
    let revoke = client.http.post(client.daemon.operator("/keys/revoke")).bearer_auth(client.operator_token());
    let revoked = client.send(revoke.json(&json!({"kid": signers[1]}))).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    for (hint, signer) in hints.iter().zip(&signers) {
        let is_hint = matches!(asks_with(&client, hint).await, Asks::Return(_));
        assert_eq!(is_hint, *signer != signers[1], "{signer}");
    }
    let new = id_token(&client, "bob").await;
    assert!(published(&client).await.contains(&signer_of(&new)), "the others sign on");
    client.stop().await;
}
