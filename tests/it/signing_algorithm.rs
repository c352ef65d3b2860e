//! ID tokens and proof requests that are signed with ES256, and the change from one algorithm to
//! another.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use reqwest::Url;
use reqwest::header::{ACCEPT, LOCATION};
use selfsame::config::{Config, SigningAlgorithm};
use selfsame_protocol::sign_in::authorize::half_hash;
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use crate::harness::folder;
use crate::sign_in_client::{
    APP, SignInAnswer, SignInTestClient, accept_current_proofs, current_proof, fragment_or_query, pair,
};

const BYE: &str = "https://app.example/bye";

fn use_es256(config: &mut Config) {
    accept_current_proofs(config);
    config.apps[0].post_logout_redirect_uris = vec![BYE.parse().expect("a redirect URI")];
    config.sign_in.signing_algorithm = SigningAlgorithm::Es256;
}

/// The algorithms that the discovery document lists.
async fn listed(client: &SignInTestClient) -> Value {
    let url = client.daemon.sign_in("/.well-known/openid-configuration");
    let answer = SignInAnswer::of(client.get(&url, "*/*").await).await;
    answer.body["id_token_signing_alg_values_supported"].clone()
}

/// The algorithms of the published keys, oldest first.
async fn published(client: &SignInTestClient) -> Vec<String> {
    let keys = client.published_keys().await;
    let keys = keys["keys"].as_array().expect("keys").iter();
    keys.map(|key| key["alg"].as_str().expect("text").to_owned()).collect()
}

/// Signs a person in. Returns the session cookie, and the ID token with the algorithm of its
/// header. Its signature verifies with the published key.
async fn sign_in(client: &SignInTestClient) -> (String, String, Algorithm) {
    let (location, session) = client.sign_in_by_page("alice", &[("response_type", "id_token")], "").await;
    let id_token = fragment_or_query(&location)["id_token"].clone();
    client.claims(&id_token).await;
    let algorithm = jsonwebtoken::decode_header(&id_token).expect("a header").alg;
    (pair(session), id_token, algorithm)
}

/// Asserts that the ID token ends the session, and leads back to the application.
async fn sign_out(client: &SignInTestClient, session: &str, id_token: &str) {
    let parameters = [("id_token_hint", id_token), ("post_logout_redirect_uri", BYE)];
    let url = Url::parse_with_params(&client.daemon.sign_in("/logout"), parameters).expect("a URL");
    let request = client.http.get(url).header(ACCEPT, "text/html").header("Cookie", session);
    let done = request.send().await.expect("an answer");
    assert_eq!((done.status().as_u16(), done.headers()[LOCATION].to_str().expect("text")), (303, BYE));
    let silent = [("response_type", "id_token"), ("prompt", "none")];
    assert_eq!(client.browse_silently(&silent, session).await["error"], "login_required");
}

async fn rotate(client: &SignInTestClient) {
    let rotated = client.rotate_keys("{\"now\":true}", &client.operator_token()).await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
}

#[tokio::test]
async fn id_tokens_are_signed_with_es256_where_it_is_configured() {
    let client = SignInTestClient::start_in(folder(), use_es256).await;
    assert_eq!(listed(&client).await, json!(["RSA", "RS256", "ES256"]));
    let keys = client.published_keys().await;
    let keys = keys["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 2, "the next key is published too");
    for key in keys {
        let members: BTreeSet<&str> = key.as_object().expect("a key").keys().map(String::as_str).collect();
        assert_eq!(members, BTreeSet::from(["kty", "crv", "x", "y", "kid", "use", "alg"]), "public parts only");
        let fixed = ["kty", "crv", "use", "alg"].map(|name| key[name].clone());
        assert_eq!(fixed, [json!("EC"), json!("P-256"), json!("sig"), json!("ES256")]);
        for coordinate in [&key["x"], &key["y"]] {
            let coordinate = URL_SAFE_NO_PAD.decode(coordinate.as_str().expect("text")).expect("base64url");
            assert_eq!(coordinate.len(), 32);
        }
    }
    assert_ne!(keys[0]["kid"], keys[1]["kid"]);

    let location = client.sign_in("alice", &[("response_type", "code id_token token")]).await;
    let response = fragment_or_query(&location);
    let tokens = client.exchange(&response["code"]).await;
    for (id_token, access_token) in
        [(&*response["id_token"], &*response["access_token"]), (tokens.text("id_token"), tokens.text("access_token"))]
    {
        assert_eq!(jsonwebtoken::decode_header(id_token).expect("a header").alg, Algorithm::ES256);
        let claims = client.claims(id_token).await;
        assert_eq!((&claims["aud"], &claims["nonce"]), (&json!(APP), &json!("the nonce")));
        assert_eq!(claims["at_hash"], half_hash(access_token));
        // The token is known as an ID token, which cannot be revoked.
        let refused = client.post("/revoke", &[("token", id_token)]).await;
        refused.expect_error(400, "unsupported_token_type", "unsupported_token_type");
    }
    let (session, id_token, _) = sign_in(&client).await;
    sign_out(&client, &session, &id_token).await;
    client.stop().await;
}

#[tokio::test]
async fn a_wallet_checks_a_proof_request_that_is_signed_with_es256() {
    let client = SignInTestClient::start_in(folder(), use_es256).await;
    let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    let request = session.verify(&client.issuer()).await.expect("signed by the issuer");
    assert_eq!(request.app_id, APP);
    let forms = SignInAnswer::of(client.get(&request.answer_url.replace("/proof", "/request"), "*/*").await).await;
    let header = jsonwebtoken::decode_header(forms.text("request")).expect("a header");
    assert_eq!((header.alg, header.typ.as_deref()), (Algorithm::ES256, Some("selfsame-request+jwt")));
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &session, "alice").await;
    session.answer_from(&request, &proof, Place::Unsaid).await.expect("accepted");
    client.stop().await;
}

/// The first rotation makes a key of the new algorithm, and the second lets it sign. Discovery
/// lists ES256 while tokens may be signed with it, also after the setting was taken back.
#[tokio::test]
async fn another_algorithm_signs_after_two_rotations_there_and_back() {
    // The store has RSA keys.
    let client = SignInTestClient::start_with_keys(use_es256).await;
    assert_eq!(listed(&client).await, json!(["RSA", "RS256", "ES256"]));
    assert_eq!(published(&client).await, ["RS256", "RS256"]);
    let (first_session, first, algorithm) = sign_in(&client).await;
    assert_eq!(algorithm, Algorithm::RS256);
    rotate(&client).await;
    assert_eq!(published(&client).await, ["RS256", "RS256", "ES256"]);
    let (_, second, algorithm) = sign_in(&client).await;
    assert_eq!(algorithm, Algorithm::RS256);
    rotate(&client).await;
    assert_eq!(published(&client).await, ["RS256", "RS256", "ES256", "ES256"]);
    let (third_session, third, algorithm) = sign_in(&client).await;
    assert_eq!(algorithm, Algorithm::ES256);
    for id_token in [&first, &second, &third] {
        client.claims(id_token).await;
    }
    sign_out(&client, &first_session, &first).await;
    sign_out(&client, &third_session, &third).await;

    let SignInTestClient { daemon, http, folder } = client;
    drop(http);
    daemon.stop().await;
    let client = SignInTestClient::start_in(folder, accept_current_proofs).await;
    assert_eq!(listed(&client).await, json!(["RSA", "RS256", "ES256"]), "a published key signs with ES256");
    assert_eq!(sign_in(&client).await.2, Algorithm::ES256);
    rotate(&client).await;
    rotate(&client).await;
    assert_eq!(sign_in(&client).await.2, Algorithm::RS256);
    assert_eq!(listed(&client).await, json!(["RSA", "RS256", "ES256"]), "tokens of the retired keys are valid");
    client.daemon.clock.advance(Duration::from_secs(3661));
    assert_eq!(published(&client).await, ["RS256", "RS256"]);
    assert_eq!(listed(&client).await, json!(["RSA", "RS256"]));
    client.stop().await;
}
