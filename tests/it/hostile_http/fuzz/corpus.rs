//! The material that random requests are made from: a good request to each endpoint, what the
//! daemon knows, and texts that are difficult to handle.

use std::fmt::Write as _;
use std::net::SocketAddr;

use alloy_primitives::Address;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::ids::PubkeyId;
use selfsame_protocol::registry::Operation;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operations::{AccountState, create_account};
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use serde_json::{Map, Value, json};

use super::{FuzzChoices, LONG};
use crate::hostile_http::raw::get;
use crate::http_contract::MISSING_OPERATIONS;
use crate::registry_client::route;
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, PRODUCTION_APP, SECRET, SignInTestClient, VERIFIER, parameters, random,
};
use crate::test_accounts::{create, key, person_of, registry};

/// The body of a good request.
#[derive(Clone)]
enum GoodBody {
    None,
    Json(Vec<Value>),
    Form(Vec<(&'static str, String)>),
}

/// One endpoint, and a good request to it.
#[derive(Clone)]
struct FuzzTarget {
    address: SocketAddr,
    method: &'static str,
    /// Segments with `{}` stand for any known name.
    path: &'static str,
    query: Vec<(&'static str, String)>,
    body: GoodBody,
}

/// The material that random requests are made from.
pub(super) struct Corpus {
    endpoints: Vec<FuzzTarget>,
    /// Names and secrets that the daemon knows, and texts that are difficult to handle.
    texts: Vec<String>,
    operator: SocketAddr,
    operator_token: String,
}

impl Corpus {
    /// A good request's parts for every endpoint.
    pub(super) async fn new(client: &SignInTestClient) -> Self {
        let addresses = client.daemon.addresses;
        let (operations, mut texts) = operations(client).await;
        let code = client.code("alice", &[]).await;
        let used = client.code("bob", &[]).await;
        let access_token = client.exchange(&used).await.text("access_token").to_owned();
        let (transaction, transaction_secret) = refused_transaction(client).await;
        let operator_token = client.operator_token();
        let owned = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
        };
        let authorize = owned(&parameters(&[("code_challenge", CHALLENGE), ("code_challenge_method", "S256")]));
        let credentials = [("client_id", APP), ("client_secret", SECRET)];
        let exchange = [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)];
        let exchange = owned(&[exchange.as_slice(), &credentials, &[("code_verifier", VERIFIER)]].concat());
        let introspect = owned(&[credentials.as_slice(), &[("token", &access_token)]].concat());
        let userinfo = owned(&[("access_token", &access_token)]);

        let mut endpoints = Vec::new();
        let mut add = |address, method, path, query, body| {
            endpoints.push(FuzzTarget { address, method, path, query, body });
        };
        let none = Vec::new;
        for path in [
            "/.well-known/openid-configuration",
            "/jwks",
            "/jwks.json",
            "/",
            "/sign-in.css",
            "/sign-in.js",
            "/sign-in-address.js",
            "/sign-in-logo",
            "/sign-in-authenticator-logo",
            "/health",
        ] {
            add(addresses[Interface::SignIn], "GET", path, none(), GoodBody::None);
        }
        add(addresses[Interface::SignIn], "GET", "/authorize", authorize.clone(), GoodBody::None);
        add(addresses[Interface::SignIn], "POST", "/authorize", none(), GoodBody::Form(authorize));
        for path in
            ["/authorize/{}/request", "/authorize/{}/progress", "/authorize/{}/events", "/authorize/{}/complete"]
        {
            add(addresses[Interface::SignIn], "GET", path, none(), GoodBody::None);
        }
        add(addresses[Interface::SignIn], "POST", "/authorize/{}/cancel", none(), GoodBody::Form(none()));
        let proofs = proofs(client).await;
        let refusal = json!({"error": "access_denied"});
        let answers = proofs.iter().cloned().chain([refusal]).collect();
        add(addresses[Interface::SignIn], "POST", "/authorize/{}/proof", none(), GoodBody::Json(answers));
        add(addresses[Interface::SignIn], "POST", "/token", none(), GoodBody::Form(exchange));
        add(addresses[Interface::SignIn], "POST", "/introspect", none(), GoodBody::Form(introspect));
        add(addresses[Interface::SignIn], "POST", "/userinfo", none(), GoodBody::Form(userinfo.clone()));
        add(addresses[Interface::SignIn], "GET", "/userinfo", userinfo, GoodBody::None);

        for _ in 0..4 {
            add(
                addresses[Interface::Verification],
                "POST",
                "/api/v4/verify/{}",
                none(),
                GoodBody::Json(proofs.clone()),
            );
        }
        for path in ["/health", "/openapi.json"] {
            add(addresses[Interface::Verification], "GET", path, none(), GoodBody::None);
        }

        for (path, body) in &operations {
            add(addresses[Interface::Gateway], "POST", path, none(), GoodBody::Json(vec![body.clone()]));
        }
        for path in MISSING_OPERATIONS {
            add(addresses[Interface::Gateway], "POST", path, none(), GoodBody::Json(vec![json!({})]));
        }
        add(addresses[Interface::Gateway], "GET", "/status/{}", owned(&[("wait", "0")]), GoodBody::None);
        add(addresses[Interface::Gateway], "GET", "/receipt/{}", none(), GoodBody::None);
        add(addresses[Interface::Gateway], "GET", "/block/{}", none(), GoodBody::None);
        add(addresses[Interface::Gateway], "GET", "/is-valid-root", owned(&[("root", "0x1")]), GoodBody::None);
        for path in ["/head", "/config", "/health", "/openapi.json"] {
            add(addresses[Interface::Gateway], "GET", path, none(), GoodBody::None);
        }

        let account = GoodBody::Json(vec![json!({"leaf_index": "0x1"})]);
        for path in [
            "/inclusion-proof",
            "/signature-nonce",
            "/authenticator-pubkeys",
            "/authenticators",
            "/recovery-agent",
            "/pending-recovery-agent",
            "/compat/inclusion-proof",
            "/compat/signature-nonce",
            "/compat/authenticator-pubkeys",
            "/compat/authenticators",
            "/compat/recovery-agent",
            "/compat/pending-recovery-agent",
        ] {
            add(addresses[Interface::Indexer], "POST", path, none(), account.clone());
        }
        let address = GoodBody::Json(vec![json!({"authenticator_address": key("alice").address()})]);
        add(addresses[Interface::Indexer], "POST", "/packed-account", none(), address.clone());
        add(addresses[Interface::Indexer], "POST", "/compat/packed-account", none(), address);
        for path in ["/root", "/health", "/openapi.json", "/compat/root", "/compat/health", "/compat/openapi.json"] {
            add(addresses[Interface::Indexer], "GET", path, none(), GoodBody::None);
        }

        let root = json!({
            "root": "0x2a", "kind": "legacy", "environment": "staging", "identifiers": ["orb"],
            "time": "2026-07-01T00:00:00Z",
        });
        add(addresses[Interface::Operator], "POST", "/roots", none(), GoodBody::Json(vec![root]));
        let root = json!({"root": "0x2a", "kind": "legacy", "environment": "staging"});
        add(addresses[Interface::Operator], "POST", "/roots/remove", none(), GoodBody::Json(vec![root]));
        let root = json!({"root": "0x2b", "environment": "staging", "identifier": "orb"});
        add(addresses[Interface::Operator], "POST", "/simulator/roots", none(), GoodBody::Json(vec![root]));
        add(
            addresses[Interface::Operator],
            "POST",
            "/keys/rotate",
            none(),
            GoodBody::Json(vec![json!({"now": false})]),
        );
        for path in [
            "/",
            "/health",
            "/ready",
            "/metrics",
            "/actors",
            "/status",
            "/roots",
            "/keys",
            "/simulator",
            "/page.js",
            "/page.css",
        ] {
            add(addresses[Interface::Operator], "GET", path, none(), GoodBody::None);
        }

        let simulation = Operator::new(&client.daemon.operator("")).expect("an address").simulation().await;
        let rp_id = SimulatedParty::of(simulation.expect("simulated"), APP, Default::default())
            .expect("a known application")
            .rp_id
            .to_string();
        texts.extend([code, used, access_token, transaction, transaction_secret, rp_id].map(|text| text.clone()));
        texts.extend([APP, PRODUCTION_APP, SECRET, CALLBACK, "alice", "1", "0", "0x1", "60"].map(str::to_owned));
        texts.extend(difficult_texts());
        Self { endpoints, texts, operator: addresses[Interface::Operator], operator_token }
    }

    /// A text that the daemon knows, or a random one.
    fn text(&self, choices: &mut FuzzChoices) -> String {
        match choices.below(8) {
            0 => choices.next().to_string(),
            1 => format!("{:#x}", choices.next()),
            2 => String::from_utf8_lossy(&choices.bytes(40)).into_owned(),
            3 if choices.once_in(20) => "x".repeat(choices.below(LONG)),
            _ => choices.pick(&self.texts).clone(),
        }
    }

    /// A JSON value of any kind.
    fn value(&self, choices: &mut FuzzChoices) -> Value {
        match choices.below(12) {
            0 => Value::Null,
            1 => Value::Bool(choices.once_in(2)),
            2 => (choices.next() as i64).into(),
            3 => choices.next().into(),
            4 => f64::from_bits(choices.next()).into(),
            5 => json!([]),
            6 => json!({}),
            7 => (0..choices.below(40))
                .fold(json!(1), |inner, _| if choices.once_in(2) { json!([inner]) } else { json!({"x": inner}) }),
            8 => Value::Array((0..choices.below(20)).map(|_| self.text(choices).into()).collect()),
            _ => self.text(choices).into(),
        }
    }

    /// Changes a value somewhere inside another value.
    fn disturb(&self, value: &mut Value, choices: &mut FuzzChoices) {
        match value {
            Value::Object(fields) if !fields.is_empty() && !choices.once_in(8) => self.disturb_object(fields, choices),
            Value::Array(items) if !items.is_empty() && !choices.once_in(8) => match choices.below(6) {
                0 => drop(items.remove(choices.below(items.len()))),
                1 => items.push(choices.pick(items).clone()),
                2 => items.insert(0, self.value(choices)),
                3 if choices.once_in(10) => *items = vec![choices.pick(items).clone(); choices.below(200)],
                _ => {
                    let place = choices.below(items.len());
                    self.disturb(&mut items[place], choices);
                }
            },
            Value::String(text) if choices.once_in(2) => {
                let mut bytes = std::mem::take(text).into_bytes();
                choices.scratch(&mut bytes);
                *text = String::from_utf8_lossy(&bytes).into_owned();
            }
            other => *other = self.value(choices),
        }
    }

    fn disturb_object(&self, fields: &mut Map<String, Value>, choices: &mut FuzzChoices) {
        let names: Vec<String> = fields.keys().cloned().collect();
        let (name, other) = (choices.pick(&names), choices.pick(&names));
        match choices.below(8) {
            0 => drop(fields.remove(name)),
            1 => drop(fields.insert(self.text(choices), self.value(choices))),
            2 => drop(fields.insert(name.clone(), fields[other].clone())),
            3 => drop(fields.insert(name.clone(), self.value(choices))),
            _ => self.disturb(&mut fields[name], choices),
        }
    }

    /// A body with its content type.
    fn body(&self, endpoint: &FuzzTarget, choices: &mut FuzzChoices) -> (Vec<u8>, &'static str) {
        const JSON: &str = "application/json";
        const FORM: &str = "application/x-www-form-urlencoded";
        match &endpoint.body {
            // Rarely the body is of another kind.
            _ if choices.once_in(40) => (choices.bytes(300), if choices.once_in(2) { JSON } else { FORM }),
            _ if choices.once_in(60) => (self.value(choices).to_string().into_bytes(), JSON),
            GoodBody::None => (if choices.once_in(20) { choices.bytes(50) } else { Vec::new() }, JSON),
            GoodBody::Json(good) => {
                let mut value = choices.pick(good).clone();
                for _ in 0..choices.below(4) {
                    self.disturb(&mut value, choices);
                }
                let mut body = value.to_string().into_bytes();
                if choices.once_in(6) {
                    choices.scratch(&mut body);
                }
                (body, JSON)
            }
            GoodBody::Form(pairs) => {
                let mut body = self.pairs(pairs, choices).into_bytes();
                if choices.once_in(6) {
                    choices.scratch(&mut body);
                }
                (body, FORM)
            }
        }
    }

    /// Parameters, form-encoded, some of them malformed.
    fn pairs(&self, good: &[(&'static str, String)], choices: &mut FuzzChoices) -> String {
        let mut pairs: Vec<(String, String)> =
            good.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        for _ in 0..choices.below(3) {
            let place = choices.below(pairs.len() + 1);
            match (pairs.get_mut(place), choices.below(4)) {
                (Some(_), 0) => drop(pairs.remove(place)),
                (Some(pair), 1) => {
                    let again = pair.clone();
                    pairs.push(again);
                }
                (Some(pair), _) => pair.1 = self.text(choices),
                (None, _) => pairs.push((self.text(choices), self.text(choices))),
            }
        }
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    }

    fn target(&self, endpoint: &FuzzTarget, choices: &mut FuzzChoices) -> String {
        let mut target = String::new();
        for segment in endpoint.path.split('/').skip(1) {
            let segment = match segment {
                "{}" => self.text(choices),
                fixed if choices.once_in(60) => fixed.to_owned() + &self.text(choices),
                fixed => fixed.to_owned(),
            };
            let segment: String = segment.chars().take(2000).collect();
            let _ = write!(target, "/{}", utf8_percent_encode(&segment, NON_ALPHANUMERIC));
        }
        // Letters need no percent-encoding and rarely get it.
        let mut target = if choices.once_in(30) {
            target
        } else {
            target.replace("%2D", "-").replace("%5F", "_").replace("%2E", ".")
        };
        if !endpoint.query.is_empty() || choices.once_in(20) {
            let query = self.pairs(&endpoint.query, choices);
            let _ = write!(target, "?{}", query.get(..4000).unwrap_or(&query));
        }
        if choices.once_in(30) {
            let mut bytes = target.into_bytes();
            choices.scratch(&mut bytes);
            // Another test sends what hyper refuses as HTTP.
            bytes.retain(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(byte));
            target = format!("/{}", String::from_utf8_lossy(&bytes).trim_start_matches('/'));
        }
        target
    }

    /// Header lines besides those of the content.
    fn headers(&self, endpoint: &FuzzTarget, choices: &mut FuzzChoices) -> String {
        let mut lines = String::new();
        if endpoint.address == self.operator && endpoint.path != "/keys/rotate" && !choices.once_in(4) {
            let _ = write!(lines, "authorization: Bearer {}\r\n", self.operator_token);
        }
        for _ in 0..choices.below(4) {
            let text = self.text(choices);
            let name = match choices.below(18) {
                // A real change of the keys takes long.
                0 | 1 if endpoint.path != "/keys/rotate" && choices.once_in(2) => {
                    let _ = write!(lines, "authorization: Bearer {}\r\n", self.operator_token);
                    continue;
                }
                0 | 1 => "authorization: Bearer ",
                2 => {
                    let pair = if choices.once_in(2) {
                        format!("{APP}:{SECRET}")
                    } else {
                        format!("{text}:{}", self.text(choices))
                    };
                    let _ = write!(lines, "authorization: Basic {}\r\n", STANDARD.encode(pair));
                    continue;
                }
                3 => "authorization: ",
                4 => "accept: application/json;",
                5 => "accept: ",
                6 => "cookie: selfsame_session=",
                7 => "cookie: selfsame_transaction=",
                8 => "cookie: ",
                9 => "idempotency-key: ",
                10 => "forwarded: for=",
                11 => "x-forwarded-for: ",
                12 => "origin: https://",
                13 => "x-request-id: ",
                14 => "content-encoding: ",
                15 => "content-type: ",
                16 => "access-control-request-method: ",
                _ => "x-unknown: ",
            };
            // A header value has no line ends and no other control characters.
            let text: String = text.chars().filter(|c| !c.is_control()).take(1000).collect();
            let _ = write!(lines, "{name}{text}\r\n");
        }
        lines
    }

    /// A whole request, and whether its answer has a body.
    pub(super) fn request(&self, choices: &mut FuzzChoices) -> (SocketAddr, Vec<u8>, bool) {
        let endpoint = choices.pick(&self.endpoints);
        let (body, content_type) = self.body(endpoint, choices);
        let method = match choices.below(30) {
            0 => *choices.pick(&["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"]),
            1 if endpoint.method == "GET" => "HEAD",
            _ => endpoint.method,
        };
        // A stream of events has no end that HTTP/1.0 could mark except the end of the connection.
        let version = if choices.once_in(40) && !endpoint.path.ends_with("/events") { "1.0" } else { "1.1" };
        let target = self.target(endpoint, choices);
        let headers = self.headers(endpoint, choices);
        let mut request = format!("{method} {target} HTTP/{version}\r\nhost: localhost\r\n{headers}").into_bytes();
        if !choices.once_in(30) {
            request.extend(format!("content-type: {content_type}\r\n").bytes());
        }
        if choices.once_in(40) {
            request.extend(b"expect: 100-continue\r\n");
        }
        if version == "1.1" && choices.once_in(8) {
            request.extend(b"transfer-encoding: chunked\r\n\r\n");
            let mut rest = body.as_slice();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(1 + choices.below(rest.len()));
                request.extend(format!("{:x}\r\n", piece.len()).bytes().chain(piece.iter().copied()).chain(*b"\r\n"));
                rest = behind;
            }
            request.extend(b"0\r\n\r\n");
        } else {
            request.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
            request.extend(body);
        }
        (endpoint.address, request, method != "HEAD")
    }
}

/// Texts that are difficult to handle.
fn difficult_texts() -> Vec<String> {
    let texts = [
        "",
        " ",
        "\0",
        "\u{feff}",
        "\u{202e}",
        "é",
        "٣",
        "𝟙",
        "../../etc/passwd",
        "%00",
        "%ff",
        "'",
        "\"",
        "<script>",
        "${x}",
        "{}",
        "[]",
        "null",
        "true",
        "NaN",
        "-0",
        "-1",
        "+1",
        "1e308",
        "1e-400",
        "0x",
        "0X1",
        "0b1",
        "18446744073709551615",
        "18446744073709551616",
        "115792089237316195423570985008687907853269984665640564039457584007913129639935",
        "21888242871839275222246405745257275088548364400416034343698204186575808495617",
        "9999-12-31T23:59:59Z",
        "0000-00-00T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2026-07-01T00:00:60Z",
        "gw_00000000-0000-4000-8000-000000000000",
        "gw_",
        "rp_0000000000000000",
        "rp_ffffffffffffffff",
        "app_",
        "app_staging_",
        "session_",
        "00000000000000000000000000000000",
        "0x0000000000000000000000000000000000000000",
        "none",
        "login",
        "consent",
        "select_account",
        "openid",
        "code id_token token",
        "query",
        "fragment",
        "form_post",
        "plain",
        "S256",
        "production",
        "staging",
        "legacy",
        "current",
        "3.0",
        "4.0",
        "orb",
        "proof_of_human",
        "[::1]:80",
        "\"[2001:db8::1]\"",
        "unknown",
        "_hidden",
        "127.0.0.1",
        "gzip",
        "identity",
        "text/html",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin1",
    ];
    texts.map(str::to_owned).into()
}

/// A good body for each of the gateway's operations, and names that the registry knows.
async fn operations(client: &SignInTestClient) -> (Vec<(&'static str, Value)>, Vec<String>) {
    let [alice, bob, tablet, agent, new] = ["alice", "bob", "tablet", "agent", "new"].map(key);
    let registry = registry(client.daemon.client()).await;
    let alices = create(&registry, &alice, agent.address()).await;
    let bobs = create(&registry, &bob, Address::ZERO).await;
    let domain = client.daemon.registry.domain();
    let body = |operation: &Operation| (route(operation.kind()), serde_json::to_value(operation).expect("JSON"));
    let of = |account: &AccountState| account.leaf_index.to_string();
    let steps = [
        Ok(create_account(&[new.authenticator()], agent.address())),
        alices.insert(&domain, &alice, tablet.authenticator(), PubkeyId(1)),
        alices.update(&domain, &alice, tablet.authenticator()),
        alices.remove(&domain, &alice, alice.address()),
        alices.recover(&domain, &agent, tablet.authenticator()),
        alices.update_recovery_agent(&domain, &alice, bob.address()),
        alices.cancel_recovery_agent_update(&domain, &alice),
        Ok(alices.execute_recovery_agent_update()),
    ];
    let operations = steps.iter().map(|step| body(&step.as_ref().expect("a valid operation").operation)).collect();
    let block = get(client.daemon.addresses[Interface::Gateway], "/block/1").await;
    let block: Value = serde_json::from_slice(&block.body).expect("JSON");
    let mut texts = vec![of(&alices), of(&bobs), alice.address().to_string(), agent.address().to_string()];
    texts.extend([&block["request_ids"][0], &block["hash"]].iter().filter_map(|text| text.as_str()).map(str::to_owned));
    (operations, texts)
}

/// A sign-in that its person refused, so that no client waits for it. Its id and its secret.
async fn refused_transaction(client: &SignInTestClient) -> (String, String) {
    let started =
        crate::sign_in_client::SignInAnswer::of(client.get(&client.authorization_url(&[]), "application/json").await)
            .await;
    let transaction = started.text("transaction").to_owned();
    let url = client.daemon.sign_in(&format!("/authorize/{transaction}/proof"));
    let refused = client.send(client.http.post(url).json(&json!({"error": "access_denied"}))).await;
    assert_eq!(refused.status, 200, "{refused:?}");
    (transaction, started.text("secret").to_owned())
}

/// Good proofs: current ones of the simulator and a recorded legacy one.
async fn proofs(client: &SignInTestClient) -> Vec<Value> {
    let root = client.daemon.client().root().await.expect("an answer").root;
    let simulation =
        Operator::new(&client.daemon.operator("")).expect("an address").simulation().await.expect("an answer");
    let simulated = SimulatedParty::of(simulation, APP, root).expect("a known application");
    let asked =
        ProofParameters { app_id: APP, action: "vote", signal: "yes", environment: Environment::Staging, nonce: None };
    let uniqueness = prove::uniqueness(&person_of("alice"), &asked, &simulated, &mut random()).expect("a proof");
    let session = prove::session(&person_of("alice"), &asked, &simulated, &mut random()).expect("a proof");
    let recorded: Value =
        serde_json::from_str(include_str!("../../../../protocol/vectors/v3_depth30_verify_user.json")).expect("JSON");
    let legacy = json!({
        "protocol_version": "3.0", "nonce": "n", "action": "verify-user", "environment": "staging",
        "responses": [{
            "identifier": "orb", "merkle_root": recorded["root"], "nullifier": recorded["nullifier_hash"],
            "proof": recorded["proof"], "signal_hash": recorded["signal_hash"],
        }],
    });
    vec![uniqueness, session, legacy]
}
