//! The profile Config: the discovery document, the keys, and https.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use selfsame_interfaces::interface::Interface;
use serde_json::{Value, json};

use super::provider;
use crate::harness::{TestDaemon, folder};
use crate::sign_in_client::{SignInAnswer, SignInTestClient, fragment_or_query, parameters};
use crate::tls::certificate;

async fn document(client: &SignInTestClient) -> SignInAnswer {
    SignInAnswer::of(client.get(&client.daemon.sign_in("/.well-known/openid-configuration"), "*/*").await).await
}

/// The texts of a list in the document.
#[track_caller]
fn list<'d>(document: &'d Value, name: &str) -> Vec<&'d str> {
    let list = document[name].as_array().unwrap_or_else(|| panic!("no {name}"));
    list.iter().map(|item| item.as_str().expect("text")).collect()
}

#[tokio::test]
async fn the_discovery_document_lists_what_the_provider_supports() {
    let client = provider().await;
    let answer = document(&client).await;
    assert_eq!((answer.status, answer.header(CONTENT_TYPE)), (200, "application/json"));
    let document = &answer.body;
    assert_eq!(document["issuer"], *client.issuer());
    assert!(!client.issuer().ends_with('/'));
    for name in ["scopes_supported", "response_types_supported", "response_modes_supported", "claims_supported"] {
        let list = list(document, name);
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "{name} names each once");
    }
    assert_eq!(list(document, "scopes_supported"), ["openid", "email", "profile"]);
    // The types that the public interface lists, and the other hybrid types.
    let types = list(document, "response_types_supported");
    for response_type in ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"] {
        assert!(types.contains(&response_type), "{response_type}");
    }
    assert_eq!(list(document, "response_modes_supported"), ["query", "fragment", "form_post"]);
    assert_eq!(list(document, "grant_types_supported"), ["authorization_code", "implicit"]);
    assert_eq!(list(document, "subject_types_supported"), ["pairwise"]);
    assert_eq!(list(document, "id_token_signing_alg_values_supported"), ["RSA", "RS256"]);
    assert_eq!(list(document, "code_challenge_methods_supported"), ["S256"]);
    assert_eq!(
        list(document, "token_endpoint_auth_methods_supported"),
        ["client_secret_basic", "client_secret_post", "none"]
    );
    assert_eq!(
        list(document, "introspection_endpoint_auth_methods_supported"),
        ["client_secret_basic", "client_secret_post"]
    );
    for name in ["request_parameter_supported", "request_uri_parameter_supported", "claims_parameter_supported"] {
        assert_eq!(document[name], false, "{name}");
    }
    assert_eq!(document["authorization_response_iss_parameter_supported"], true);
}

#[tokio::test]
async fn endpoints_are_where_the_document_says() {
    let client = provider().await;
    let document = document(&client).await.body;
    for (name, path) in [
        ("authorization_endpoint", "/authorize"),
        ("token_endpoint", "/token"),
        ("userinfo_endpoint", "/userinfo"),
        ("jwks_uri", "/jwks"),
        ("introspection_endpoint", "/introspect"),
        ("revocation_endpoint", "/revoke"),
        ("end_session_endpoint", "/logout"),
    ] {
        let url = document[name].as_str().expect("a URL");
        assert_eq!(url, client.daemon.sign_in(path), "{name}");
        let answer = client.send(client.http.get(url).header(ACCEPT, "application/json")).await;
        assert_ne!(answer.status, 404, "{name}");
    }
    assert_eq!(document.get("registration_endpoint"), None, "there is no endpoint for registration");
}

#[tokio::test]
async fn the_provider_issues_exactly_the_listed_claims() {
    let client = provider().await;
    let document = document(&client).await.body;
    let listed: BTreeSet<&str> = list(&document, "claims_supported").into_iter().collect();
    let location = client.sign_in("alice", &[("response_type", "code id_token token")]).await;
    let response = fragment_or_query(&location);
    let front = client.claims(&response["id_token"]).await;
    let back = client.exchange(&response["code"]).await;
    let back = client.claims(back.text("id_token")).await;
    let given = front.as_object().expect("claims").keys().chain(back.as_object().expect("claims").keys());
    // Members of a group have one more claim, as `members` tests.
    let groups = client.daemon.sign_in("/groups");
    let given: BTreeSet<&str> = given.map(String::as_str).chain([groups.as_str()]).collect();
    assert_eq!(given, listed);
    client.stop().await;
}

#[tokio::test]
async fn keys_have_unique_names_and_no_private_parts() {
    let client = provider().await;
    let token = client.operator_token();
    // One key is retired, one current, one next.
    assert_eq!(client.rotate_keys("{\"now\":true}", &token).await.status, 200);
    let answer = SignInAnswer::of(client.get(&client.daemon.sign_in("/jwks"), "*/*").await).await;
    assert_eq!((answer.status, answer.header(CONTENT_TYPE)), (200, "application/json"));
    assert_eq!(answer.body.as_object().expect("an object").len(), 1, "{answer:?}");
    let keys = answer.body["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 3);
    let mut names = BTreeSet::new();
    let mut moduli = BTreeSet::new();
    for key in keys {
        let parts: BTreeSet<&str> = key.as_object().expect("a key").keys().map(String::as_str).collect();
        assert_eq!(parts, BTreeSet::from(["kty", "n", "e", "kid", "use", "alg"]), "public parts only");
        let fixed = ["kty", "use", "alg", "e"].map(|name| key[name].clone());
        assert_eq!(fixed, [json!("RSA"), json!("sig"), json!("RS256"), json!("AQAB")]);
        let modulus = URL_SAFE_NO_PAD.decode(key["n"].as_str().expect("text")).expect("base64url without padding");
        assert!(modulus.len() == 256 && modulus[0] >= 0x80, "2048 bits, no leading zeros");
        assert!(names.insert(key["kid"].to_string()) && moduli.insert(modulus), "{keys:?}");
    }
    // The other address of the keys answers the same.
    let other = SignInAnswer::of(client.get(&client.daemon.sign_in("/jwks.json"), "*/*").await).await;
    assert_eq!(other.body, answer.body);
    client.stop().await;
}

#[tokio::test]
async fn the_keys_expire_in_caches_before_a_new_key_signs() {
    let client = provider().await;
    for path in ["/jwks", "/.well-known/openid-configuration"] {
        let answer = SignInAnswer::of(client.get(&client.daemon.sign_in(path), "*/*").await).await;
        let control = answer.header(CACHE_CONTROL);
        let seconds = control.split("max-age=").nth(1).and_then(|seconds| seconds.parse::<u64>().ok());
        assert!(seconds.is_some_and(|seconds| seconds <= 3600), "{control}");
    }
}

#[tokio::test]
async fn every_url_is_https_under_tls() {
    let folder = folder();
    let (tls, trusted) = certificate(&folder);
    let daemon = TestDaemon::start_with(folder.path(), |config| config.tls = Some(tls)).await;
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let http = builder.tls_certs_only([trusted]).build().expect("a client");
    let issuer = format!("https://{}", daemon.addresses[Interface::SignIn]);
    daemon.sign_in.published_keys().await.expect("keys");
    let get = async |url: &str, accept: &str| http.get(url).header(ACCEPT, accept).send().await.expect("an answer");

    let document = SignInAnswer::of(get(&format!("{issuer}/.well-known/openid-configuration"), "*/*").await).await.body;
    assert_eq!(document["issuer"], *issuer);
    let urls = document.as_object().expect("fields").iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    for (name, url) in urls {
        assert!(url.starts_with("https://"), "{name}: {url}");
        let is_served = get(url, "*/*").await.status() != 404;
        assert!(is_served || name == "issuer", "{name}: {url}");
    }
    assert!(!document.to_string().contains("http://"), "{document}");

    let authorize = |changes: &[(&str, &str)]| {
        let url = reqwest::Url::parse_with_params(&format!("{issuer}/authorize"), parameters(changes));
        String::from(url.expect("a URL"))
    };
    let started = SignInAnswer::of(get(&authorize(&[]), "application/json").await).await;
    let request_url = started.text("request_url");
    assert!(request_url.starts_with(&issuer), "{started:?}");
    let asked = SignInAnswer::of(get(request_url, "*/*").await).await;
    assert!(asked.text("answer_url").starts_with(&issuer), "{asked:?}");

    let begun = get(&authorize(&[]), "text/html").await;
    let cookie = begun.headers()[SET_COOKIE].to_str().expect("text").to_owned();
    assert!(cookie.split("; ").any(|part| part == "Secure"), "{cookie}");
    let page = format!("{issuer}{}", begun.headers()[LOCATION].to_str().expect("text"));
    let page = http.get(page).header(ACCEPT, "text/html").header("Cookie", cookie.split(';').next().expect("a pair"));
    let page = page.send().await.expect("an answer");
    let text = page.text().await.expect("text");
    // The namespace of SVG in the picture is not an address that the browser loads.
    let text = text.replace("http://www.w3.org/2000/svg", "");
    assert!(text.contains(&format!("href=\"{issuer}/s/")) && !text.contains("http://"), "{text}");

    let refused = get(&authorize(&[("prompt", "none")]), "text/html").await;
    let response = fragment_or_query(refused.headers()[LOCATION].to_str().expect("text"));
    assert_eq!((&*response["error"], &*response["iss"]), ("login_required", &*issuer));
}
