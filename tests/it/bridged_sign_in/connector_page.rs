//! The page of a connector URI: what it shows of a request, and what it takes.

use reqwest::StatusCode;
use reqwest::header::{CACHE_CONTROL, REFERRER_POLICY, RETRY_AFTER};
use selfsame::config::{Config, RateLimit, SignInProof, TimeSpan};
use selfsame_wallet::bridge;
use serde_json::{Value, json};

use super::BridgedClient;

/// What every page of a connector URI says.
const UNCHECKED: &str = "Answer only if you opened that page yourself.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_connector_uri_shows_what_is_asked_and_takes_nothing() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let shown = client.client.get(&page.link, "text/html").await;
    assert_eq!(shown.status(), StatusCode::OK);
    assert_eq!(shown.headers()[CACHE_CONTROL], "no-store");
    assert_eq!(shown.headers()[REFERRER_POLICY], "no-referrer", "the key is in the address");
    let text = shown.text().await.expect("text");
    assert!(text.contains("Example application asks you to prove that you are a person."), "{text}");
    assert!(text.contains("“Sign in to Example application (localhost:3000)”"), "{text}");
    assert!(text.contains(&page.link.replace('&', "&amp;")), "the address can be copied: {text}");

    // A page of any application can put any text there.
    let own = bridge::parse(&page.link).expect("a connector URI");
    let hostile = json!({
        "app_id": "app_<script>", "action": "<b>vote</b>", "signal": "0x0", "verification_level": "orb",
    });
    let sealed = own.key.seal(hostile.to_string().as_bytes(), [9; 12]).expect("sealed");
    let id = "a-request-of-a-hostile-page";
    let mut body = serde_json::to_value(&sealed).expect("JSON");
    body["request_id"] = id.into();
    assert_eq!(client.bridge(reqwest::Method::POST, "/request", Some(body)).await, StatusCode::OK);
    let link = page.link.replace(own.id.as_str(), id);
    let text = client.client.get(&link, "text/html").await.text().await.expect("text");
    assert!(text.contains("app_&lt;script&gt; asks") && text.contains("“&lt;b&gt;vote&lt;/b&gt;”"), "{text}");
    assert!(!text.contains("<b>vote"), "{text}");

    assert!(text.contains(UNCHECKED), "{text}");

    // The same bridge, written in another way.
    let same = page.link.replace("http%3A%2F%2F", "HTTP%3A%2F%2F");
    assert_ne!(same, page.link);
    let text = client.client.get(&same, "text/html").await.text().await.expect("text");
    assert!(text.contains("Example application asks you"), "{text}");

    // At another bridge this service sees nothing.
    let bridge = own.bridge.replace(':', "%3A").replace('/', "%2F");
    let elsewhere = page.link.replace(&bridge, "https%3A%2F%2Fbridge.example");
    let text = client.client.get(&elsewhere, "text/html").await.text().await.expect("text");
    assert!(text.contains("Your authenticator shows what exactly it asks.") && !text.contains("Example app"), "{text}");
    assert!(text.contains("kept by bridge.example, which") && text.contains(UNCHECKED), "{text}");

    let status = async |link: &str| client.client.get(link, "text/html").await.status();
    let other_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D";
    let key = page.link.split("&k=").nth(1).and_then(|rest| rest.split('&').next()).expect("a key");
    for (wrong, why) in [
        (page.link.replace("t=wld", "t=x"), "another kind"),
        (page.link.replace(key, "AAAA"), "no key"),
        (page.link.replace(key, other_key), "another key"),
        (page.link.replace("&i=", "&j="), "no id"),
        (format!("{}&i=another-request-id", page.link), "two ids"),
        (page.link.replace(&bridge, "bridge.example"), "no origin of a bridge"),
        (format!("{}&return_to=https%3A%2F%2Fa&return_to=https%3A%2F%2Fb", page.link), "two pages to return to"),
        (page.link.split('?').next().expect("a path").to_owned(), "nothing"),
    ] {
        assert_eq!(status(&wrong).await, StatusCode::BAD_REQUEST, "{why}");
    }

    // After all this the request is still there, and no challenge of it is used up. A client's
    // request is there once.
    let text = client.wallet(&page).fetch().await.expect("a request");
    assert!(String::from_utf8_lossy(&text).contains(".0\""), "it has the first challenge");
    let taken = client.bridge(reqwest::Method::GET, &format!("/request/{id}"), None).await;
    assert_eq!((taken, status(&page.link.replace(own.id.as_str(), id)).await), (StatusCode::OK, StatusCode::NOT_FOUND));
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_connector_uri_names_an_application_only_when_its_party_has_signed() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    let own = bridge::parse(&page.link).expect("a connector URI");
    let genuine: Value = serde_json::from_slice(&client.wallet(&page).fetch().await.expect("a request")).expect("JSON");
    let mut unsigned = genuine.clone();
    unsigned.as_object_mut().expect("an object").remove("proof_request");
    unsigned["allow_legacy_proofs"] = true.into();
    let mut forged = genuine.clone();
    forged["proof_request"]["nonce"] = json!("0x01");
    let mut other_app = genuine.clone();
    other_app["app_id"] = "app_staging_other".into();
    for (request, is_named, id) in [
        (genuine, true, "a-request-of-a-page-0001"),
        (unsigned, false, "a-request-of-a-page-0002"),
        (forged, false, "a-request-of-a-page-0003"),
        (other_app, false, "a-request-of-a-page-0004"),
    ] {
        let sealed = own.key.seal(request.to_string().as_bytes(), [9; 12]).expect("sealed");
        let mut body = serde_json::to_value(&sealed).expect("JSON");
        body["request_id"] = id.into();
        assert_eq!(client.bridge(reqwest::Method::POST, "/request", Some(body)).await, StatusCode::OK);
        let link = page.link.replace(own.id.as_str(), id);
        let text = client.client.get(&link, "text/html").await.text().await.expect("text");
        let named = text.contains("Example application asks you");
        assert_eq!(named, is_named, "{id}: {text}");
        assert!(text.contains(UNCHECKED), "{text}");
    }
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_connector_uri_bounds_what_is_copied_into_it() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let page = client.page().await;
    // The wallet on the browser's own device goes back to the page of the sign-in.
    let (start, own) = page.link.split_once("&return_to=").expect("a way back");
    let (own, end) = own.find('&').map_or((own, ""), |end| own.split_at(end));
    assert!(own.contains("%2Fauthorize%2F"), "{own}");
    let link = format!("{start}{end}");
    let with = |length: usize| format!("{link}&return_to=https%3A%2F%2Fa.example%2F{}", "x".repeat(length));
    let shown = client.client.get(&with(100), "text/html").await;
    assert_eq!(shown.status(), StatusCode::OK);
    assert!(shown.text().await.expect("text").contains("<svg"), "a code of usual length is drawn");
    let shown = client.client.get(&with(900), "text/html").await;
    assert_eq!(shown.status(), StatusCode::OK);
    let text = shown.text().await.expect("text");
    assert!(!text.contains("<svg") && text.contains("x".repeat(900).as_str()), "it can be copied: {text}");
    assert_eq!(client.client.get(&with(1100), "text/html").await.status(), StatusCode::BAD_REQUEST);
    client.client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_connector_uri_counts_against_the_limit_of_its_source() {
    let limit = |config: &mut Config| {
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 4, window: TimeSpan::from_secs(60) });
    };
    let client = BridgedClient::start_with(SignInProof::Current, limit).await;
    // The sign-in and its short page count, too.
    let page = client.page().await;
    let status = async || client.client.get(&page.link, "text/html").await.status();
    assert_eq!((status().await, status().await), (StatusCode::OK, StatusCode::OK));
    let refused = client.client.get(&page.link, "text/html").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[RETRY_AFTER], "60");
    client.client.stop().await;
}
