//! Integrity bundles over HTTP: what binds one to its request, what needs one, environments without
//! keys, and key sets that are fetched.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use selfsame::config::Config;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::integrity::SELFIE_CHECK;
use selfsame_protocol::verification::integrity::simulator::SimulatedKey;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::SimulatedParty;
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{START, until_true};
use crate::sign_in_client::{SignInTestClient, accept_current_proofs, proof_of};
use crate::verification_cases::CasePlayer;

fn uniqueness(action: &str, items: Value) -> Value {
    json!({"kind": "uniqueness", "app": "both", "action": action, "environment": "staging", "items": items})
}

fn session() -> Value {
    json!({"kind": "session", "app": "both", "environment": "staging", "items": [{}], "label": "s"})
}

/// Checks that an answer is the refusal of a bundle, with a part of its reason.
fn assert_refused((status, answer): (u16, Value), reason: &str) {
    assert_eq!((status, &answer["code"]), (403, &json!("integrity_verification_failed")), "{answer}");
    assert_eq!(answer["attribute"], "integrity_bundle");
    assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains(reason)), "{answer}");
}

#[tokio::test]
async fn a_result_that_is_forwarded_again_is_judged_again() {
    let mut player = CasePlayer::start().await;
    let nonce = json!(format!("{:#066x}", 77));
    let with_nonce = |mut make: Value, nonce: &Value| {
        make["nonce"] = nonce.clone();
        make
    };
    let one = player.with_bundle(with_nonce(uniqueness("again", json!([{}])), &nonce), json!({"version": 1})).await;
    let in_session = player.with_bundle(session(), json!({"version": 2, "platform": "ios"})).await;
    let (status, first) = player.ask("both", &one).await;
    assert_eq!((status, &first["integrity"]), (200, &json!("verified")), "{first}");
    let again = player.ask("both", &one).await;
    assert_eq!((again.0, &again.1["created_at"]), (200, &first["created_at"]));
    let first = player.ask("both", &in_session).await;
    assert_eq!((first.0, &first.1["integrity"]), (200, &json!("verified")), "{first:?}");
    assert_eq!(player.ask("both", &in_session).await, first);
    // The device of one person vouches for the nonce: it cannot vouch for other people's proofs.
    let mut others = player.make(&with_nonce(uniqueness("again", json!([{}])), &nonce)).await;
    others["integrity_bundle"] = one["integrity_bundle"].clone();
    assert_refused(player.ask("both", &others).await, "used with other nullifiers");
    let mut more = one.clone();
    more["responses"].as_array_mut().expect("entries").push(others["responses"][0].clone());
    assert_refused(player.ask("both", &more).await, "used with other nullifiers");
    // Nor after a restart, at which the service remembers no request.
    let player = player.restart().await;
    assert_refused(player.ask("both", &others).await, "used with other nullifiers");
    assert_eq!(player.ask("both", &one).await.0, 200);
    // The record is kept as long as the bundle is good.
    player.daemon.clock.advance(Duration::from_secs(301));
    assert_refused(player.ask("both", &one).await, "301 seconds old");
    player.daemon.stop().await;
}

#[tokio::test]
async fn racing_requests_bind_a_bundle_to_one_set_of_nullifiers() {
    let mut player = CasePlayer::start().await;
    let nonce = json!(format!("{:#066x}", 78));
    let mut make = uniqueness("race", json!([{}]));
    make["nonce"] = nonce;
    let first = player.with_bundle(make.clone(), json!({"version": 1})).await;
    let mut requests = vec![first.clone()];
    for _ in 0..7 {
        let mut body = player.make(&make).await;
        body["integrity_bundle"] = first["integrity_bundle"].clone();
        requests.push(body);
    }
    let answers = futures_util::future::join_all(requests.iter().map(|body| player.ask("both", body))).await;
    let good: Vec<usize> = (0..answers.len()).filter(|index| answers[*index].0 == 200).collect();
    assert_eq!(good.len(), 1, "{answers:?}");
    for (index, answer) in answers.into_iter().enumerate().filter(|(index, _)| *index != good[0]) {
        assert_refused(answer, "used with other nullifiers");
        assert_refused(player.ask("both", &requests[index]).await, "used with other nullifiers");
    }
    player.daemon.stop().await;
}

#[tokio::test]
async fn without_keys_a_bundle_is_not_checked_and_a_needed_one_is_not_passed() {
    let mut player = CasePlayer::start_with(|config| {
        config.integrity.retain(|entry| entry.issuer != "attestation.worldcoin.dev");
    })
    .await;
    let mut forged = player.with_bundle(uniqueness("unchecked", json!([{}])), json!({"version": 1})).await;
    forged["integrity_bundle"]["jwt"] = json!("a.b.c");
    let (status, answer) = player.ask("both", &forged).await;
    assert_eq!((status, &answer["integrity"]), (200, &json!("not_checked")), "{answer}");
    let plain = player.make(&uniqueness("unchecked", json!([{}]))).await;
    let (status, answer) = player.ask("both", &plain).await;
    assert_eq!((status, answer.get("integrity")), (200, None), "{answer}");
    let selfie = json!([{"issuer": 11, "score": 12}]);
    let selfie = player.with_bundle(uniqueness("unchecked", selfie), json!({"version": 2})).await;
    let (status, answer) = player.ask("both", &selfie).await;
    assert_eq!((status, &answer["code"]), (503, &json!("verifier_unavailable")), "{answer}");
    // Sandbox has keys of its own.
    let mut make = uniqueness("unchecked", json!([{}]));
    make["environment"] = json!("sandbox");
    let sandbox = player.with_bundle(make, json!({"version": 1})).await;
    assert_eq!(player.ask("both", &sandbox).await.1["integrity"], "verified");
    player.daemon.stop().await;
}

fn require_for(config: &mut Config, action: &str) {
    let mut entry = config.actions[0].clone();
    (entry.action, entry.max_verifications) = (action.to_owned(), 0);
    entry.require_integrity = true;
    config.actions.push(entry);
}

#[tokio::test]
async fn applications_and_actions_can_require_a_bundle() {
    let mut player = CasePlayer::start_with(|config| {
        require_for(config, "guarded");
        config.apps[1].require_integrity = true;
    })
    .await;
    let without = player.make(&uniqueness("guarded", json!([{}]))).await;
    assert_refused(
        player.ask("both", &without).await,
        "action \"guarded\" takes only results with an integrity bundle",
    );
    let with = player.with_bundle(uniqueness("guarded", json!([{}])), json!({"version": 1})).await;
    assert_eq!(player.ask("both", &with).await.0, 200);
    // Requests of version 2 have none.
    let version_2 = json!({
        "action": "guarded", "verification_level": "orb", "merkle_root": "0x1", "nullifier_hash": "0x2",
        "proof": format!("0x{}", "1".repeat(512)),
    });
    let path = "/api/v2/verify/app_staging_5e1f5a3e000000000000000000000001";
    let answer = player.send("POST", path, Some(version_2.to_string())).await;
    assert_refused(answer, "takes only results with an integrity bundle");
    let free = player.make(&uniqueness("free", json!([{}]))).await;
    assert_eq!(player.ask("both", &free).await.0, 200);
    let mut make = uniqueness("any", json!([{}]));
    make["app"] = json!("current");
    let without = player.make(&make).await;
    let (status, answer) = player.ask("current", &without).await;
    assert_refused((status, answer), "takes only results with an integrity bundle");
    player.daemon.stop().await;
}

#[tokio::test]
async fn an_action_takes_the_scores_within_its_bounds() {
    let mut player = CasePlayer::start_with(|config| {
        let mut entry = config.actions[0].clone();
        (entry.action, entry.max_verifications) = ("scored".to_owned(), 0);
        (entry.min_sybil_score, entry.max_sybil_score) = (Some(10), Some(20));
        assert_eq!(entry.environment, Environment::Staging);
        config.actions.push(entry);
    })
    .await;
    for (score, is_taken) in [(9, false), (10, true), (20, true), (21, false)] {
        let make = uniqueness("scored", json!([{"issuer": 11, "score": score}]));
        let body = player.with_bundle(make, json!({"version": 2})).await;
        let (status, answer) = player.ask("both", &body).await;
        assert_eq!(status == 200, is_taken, "{score}: {answer}");
        if !is_taken {
            let result = &answer["results"][0];
            assert_eq!(result["code"], "sybil_score_not_accepted");
            let expected = format!("the action takes scores from 10 to 20, not {score}");
            assert_eq!(result["detail"], json!(expected));
        }
    }
    // A credential without a score is not bound by the rule.
    let other = player.make(&uniqueness("scored", json!([{}]))).await;
    assert_eq!(player.ask("both", &other).await.0, 200);
    player.daemon.stop().await;
}

/// A Selfie Check signs in without a bundle, and beside one that does not hold, where the
/// application requires bundles for verification.
#[tokio::test]
async fn a_sign_in_reads_no_bundle() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        let mut issuer = config.issuers[0].clone();
        issuer.id = SELFIE_CHECK;
        config.issuers.push(issuer);
        config.apps[0].require_integrity = true;
    })
    .await;
    let operator = Operator::new(&client.daemon.operator("")).expect("an address");
    for bundle in [None, Some(json!({"version": 1, "jwt": "a.b.c"})), Some(json!("a text"))] {
        let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
        let (root, simulation) = (client.daemon.client().root().await, operator.simulation().await);
        let (root, simulation) = (root.expect("an answer").root, simulation.expect("an answer"));
        let mut party = SimulatedParty::of(simulation, &session.request().app_id, root).expect("a known application");
        (party.issuer_schema_id, party.identifier) = (SELFIE_CHECK, "selfie".to_owned());
        let mut proof = proof_of(&session, "alice", &party);
        assert!(proof["responses"][0].get("sybil_score").is_none(), "{proof}");
        if let Some(bundle) = bundle {
            proof["integrity_bundle"] = bundle;
        }
        session.answer_from(session.request(), &proof, Place::Unsaid).await.expect("accepted");
        assert!(session.complete().await.expect("completed").is_some(), "{proof}");
    }
    client.stop().await;
}

#[tokio::test]
async fn key_sets_are_fetched_from_the_issuer() {
    // An endpoint that answers as the test chooses.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let (asked, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new((200u16, String::new()))));
    let (count, chosen) = (Arc::clone(&asked), Arc::clone(&answer));
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (count, chosen) = (Arc::clone(&count), Arc::clone(&chosen));
            let respond = service_fn(move |request: hyper::Request<Incoming>| {
                assert_eq!(request.uri().path(), "/.well-known/jwks.json");
                count.fetch_add(1, Ordering::SeqCst);
                let (status, text) = chosen.lock().expect("not poisoned").clone();
                let builder = hyper::Response::builder().status(status).header("location", "http://127.0.0.1:1/");
                let response = builder.body(Full::new(Bytes::from(text))).expect("a response");
                async move { Ok::<_, Infallible>(response) }
            });
            tokio::spawn(Builder::new().serve_connection(TokioIo::new(stream), respond));
        }
    });
    let choose = |status: u16, text: String| *answer.lock().expect("not poisoned") = (status, text);
    choose(503, String::new());
    let with_endpoint = |config: &mut Config| {
        for entry in config.integrity.iter_mut().filter(|entry| entry.issuer == "attestation.worldcoin.dev") {
            entry.jwks_file = None;
            entry.jwks = Some(format!("http://{address}/.well-known/jwks.json").parse().expect("a URL"));
        }
    };
    let mut player = CasePlayer::start_with(with_endpoint).await;
    let fetches = || asked.load(Ordering::SeqCst);
    until_true("the first fetch, at the start", async || fetches() == 1).await;
    let body = player.with_bundle(uniqueness("fetched", json!([{}])), json!({"version": 1})).await;
    let minute = |number: u64| START + Duration::from_secs(60 * number);
    // While the keys cannot be read, a bundle cannot be judged, and is not passed.
    for (number, (status, text)) in
        [(503, String::new()), (302, String::new()), (200, "{}".to_owned()), (200, " ".repeat(70_000))]
            .into_iter()
            .enumerate()
    {
        choose(status, text);
        player.daemon.clock.set(minute(1 + number as u64));
        let (status, answer) = player.ask("both", &body).await;
        assert_eq!((status, &answer["code"]), (503, &json!("verifier_unavailable")), "{answer}");
        let reason = "the keys of the attestation issuer attestation.worldcoin.dev cannot be read";
        assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains(reason)), "{answer}");
    }
    assert_eq!(fetches(), 5);
    let status = player.status().await;
    let of_staging = |status: &Value| {
        let issuers = status["attestation_issuers"].as_array().expect("issuers");
        issuers.iter().find(|issuer| issuer["issuer"] == "attestation.worldcoin.dev").expect("the issuer").clone()
    };
    let issuer = of_staging(&status);
    let reason = "the key set has more than 65536 bytes";
    assert!(issuer["keys"].is_null() && issuer["age_seconds"].is_null(), "{issuer}");
    assert!(issuer["failing_since"].is_u64(), "{issuer}");
    assert!(issuer["failure"] == json!("length limit exceeded") || issuer["failure"] == json!(reason), "{issuer}");
    let needs = status["attention"].as_array().expect("a list");
    let needed = needs.iter().find(|reason| reason["subject"] == "attestation_issuers").expect("attention");
    assert!(needed["text"].as_str().is_some_and(|text| text.contains("no integrity bundle can be judged")), "{needed}");
    let mut key = SimulatedKey::of_issuer("staging").expect("a key").point().to_jwk();
    key["kid"] = json!("key_staging");
    choose(200, json!({ "keys": [key] }).to_string());
    player.daemon.clock.set(minute(5));
    // At the fifth minute the bundle is 300 seconds old.
    let (status, answer) = player.ask("both", &body).await;
    assert_eq!((status, fetches()), (200, 6), "{answer}");
    let status = player.status().await;
    assert_eq!((&of_staging(&status)["keys"], &of_staging(&status)["age_seconds"]), (&json!(1), &json!(0)));
    assert!(!status.to_string().contains("no integrity bundle can be judged"), "{status}");
    // A sender that makes up key ids has nothing fetched.
    let unknown = json!({"version": 1, "token": {"header": {"kid": "key_unknown"}}, "timestamp": 300});
    for _ in 0..200 {
        let body = player.with_bundle(uniqueness("fetched", json!([{}])), unknown.clone()).await;
        assert_eq!(player.ask("both", &body).await.0, 403);
    }
    assert_eq!(fetches(), 6);
    // A start while the endpoint is away has the keys that were read last, with their age.
    let kept = player.data().join("attestation-keys");
    let is_kept = async || std::fs::read_dir(&kept).is_ok_and(|files| files.flatten().any(|file| is_json(&file)));
    until_true("the keys are kept", is_kept).await;
    serving.abort();
    drop(serving.await);
    let mut player = player.restart_with(with_endpoint).await;
    player.daemon.clock.set(minute(25));
    let body = player
        .with_bundle(
            uniqueness("fetched", json!([{}])),
            json!({"version": 1, "timestamp": 1500, "token": {"lifetime": 1800}}),
        )
        .await;
    let (status, answer) = player.ask("both", &body).await;
    assert_eq!((status, &answer["integrity"], fetches()), (200, &json!("verified"), 6), "{answer}");
    let status = player.status().await;
    assert_eq!((&of_staging(&status)["keys"], &of_staging(&status)["age_seconds"]), (&json!(1), &json!(1200)));
    let is_failing = async || of_staging(&player.status().await)["failing_since"].is_u64();
    until_true("the failed read is shown", is_failing).await;
    // Without them no bundle is judged: the keys came from the file.
    std::fs::remove_dir_all(&kept).expect("removed");
    let player = player.restart_with(with_endpoint).await;
    player.daemon.clock.set(minute(25));
    assert_eq!(player.ask("both", &body).await.0, 503);
    player.daemon.stop().await;
}

fn is_json(file: &std::fs::DirEntry) -> bool {
    file.path().extension().is_some_and(|extension| extension == "json")
}
