//! The cases of `verification_cases.json`: what the public endpoint answers to what client kits
//! produce. Each row has the public answer, and some have another one that this service may give,
//! with the reason.

use std::collections::HashMap;
use std::path::Path;

use reqwest::RequestBuilder;
use selfsame::config::{Config, SecretHash};
use selfsame_protocol::U256;
use selfsame_protocol::groth16::key::CURRENT_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::ids::{LeafIndex, Nullifier};
use selfsame_protocol::operator::Simulation;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::identity::{RelyingPartyId, hash_text, hash_to_field};
use selfsame_protocol::verification::integrity::simulator::SimulatedKey;
use selfsame_protocol::verification::integrity::{BundleVersion, Platform, payload_of};
use selfsame_protocol::verification::items::{CurrentInputs, current_inputs};
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_wallet::bundle::{Device, bundle, claims, header, sign_token};
use selfsame_wallet::operator::Operator;
use selfsame_wallet::person::Person;
use selfsame_wallet::prove::{self, ProofParameters};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::harness::{Folder, START, TestDaemon, folder, operator_token};
use crate::sign_in_client::{SECRET, random};
use crate::signed_requests::{SIGNER, signature_of};
use crate::test_accounts::key;

/// The applications of `verification_cases.toml` by the names in the cases: id and relying party.
const APPS: [(&str, &str, &str); 10] = [
    ("both", "app_staging_5e1f5a3e000000000000000000000001", "rp_ae569966006aca98"),
    ("current", "app_staging_00000000000000000000000000000a02", "rp_e6e5b5eef4f31d03"),
    ("inactive_app", "app_staging_00000000000000000000000000000a03", "rp_ee764d43bf239392"),
    ("inactive_rp", "app_staging_00000000000000000000000000000a04", "rp_27c13115a97c9220"),
    ("no_oprf", "app_staging_00000000000000000000000000000a05", "rp_a8e528b1b3a088e6"),
    ("selfie_only", "app_staging_00000000000000000000000000000a06", "rp_74f7c578d581c51f"),
    ("production_only", "app_00000000000000000000000000000a07", "rp_4f88d3b5e92c154f"),
    ("custom_rp", "app_staging_00000000000000000000000000000a08", "rp_00000000000000c8"),
    ("signing", "app_staging_00000000000000000000000000000a09", "rp_00000000000000c9"),
    ("configured", "app_staging_00000000000000000000000000000a0a", "rp_00000000000000ca"),
];

/// The attestation issuers by environment.
const ISSUERS: [(&str, &str); 3] = [
    ("production", "attestation.worldcoin.org"),
    ("staging", "attestation.worldcoin.dev"),
    ("sandbox", "attestation.sandbox.example"),
];

fn app(name: &str) -> (&'static str, &'static str) {
    let (_, app_id, rp_id) = APPS.into_iter().find(|(known, ..)| *known == name).expect("a known application");
    (app_id, rp_id)
}

pub fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("verification_cases.json")).expect("JSON")
}

/// The key of the attestation issuer of an environment, and its id.
fn issuer_key(environment: &str) -> (SimulatedKey, String) {
    (SimulatedKey::of_issuer(environment).expect("a key"), format!("key_{environment}"))
}

/// The configuration of the cases, with the key sets in files of the folder.
fn configure(config: &mut Config, data: &Path) {
    let file = data.join("cases.toml");
    let mut text = include_str!("verification_cases.toml").to_owned();
    for (environment, issuer) in ISSUERS {
        let (key, id) = issuer_key(environment);
        let mut jwk = key.point().to_jwk();
        jwk["kid"] = id.into();
        let path = data.join(format!("jwks-{environment}.json"));
        std::fs::write(&path, json!({"keys": [jwk]}).to_string()).expect("written");
        text += &format!(
            "[[integrity]]\nissuer = {issuer:?}\nenvironments = [{environment:?}]\njwks_file = {:?}\n",
            path.to_str().expect("a path")
        );
    }
    std::fs::write(&file, text).expect("written");
    let cases = Config::load(Some(&file), std::iter::empty(), false, None).expect("a good configuration");
    config.apps = cases.apps;
    config.relying_parties = cases.relying_parties;
    config.issuers = cases.issuers;
    config.actions = cases.actions;
    config.integrity = cases.integrity;
    config.verifier.simulator_seed = Some("cases".to_owned());
    let (both, signing) = (app("both").0, app("signing").0);
    let with_secret = config.apps.iter_mut().find(|app| app.id == both).expect("an application");
    with_secret.client_secret_hash = Some(SecretHash::of([9; 16], SECRET));
    let party = config.relying_parties.iter_mut().find(|party| party.app_id == signing).expect("a party");
    party.signing_key = Some(key(SIGNER).address().into());
    (party.require_signed_requests, party.require_signal_nonce) = (true, true);
}

/// What a step of a case was answered.
#[derive(Debug)]
pub struct Outcome {
    pub status: u16,
    pub answer: Value,
    /// How it differs from the public answer; `None` also where the public endpoint has no such
    /// setting.
    pub of_public: Option<String>,
    /// Whether it differs from the public answer in that `attribute` names a field of the entry.
    pub is_deeper: bool,
    /// How it differs from the other answer that is allowed.
    pub of_allowed: Option<String>,
}

/// Plays the steps of the cases.
pub struct CasePlayer {
    pub daemon: TestDaemon,
    folder: Folder,
    http: reqwest::Client,
    simulation: Simulation,
    root: Root,
    counter: u64,
    /// Values that the steps of a case share.
    labels: HashMap<String, Value>,
    saved: HashMap<String, Value>,
    legacy: HashMap<String, Value>,
}

impl CasePlayer {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same with changed settings.
    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(folder(), change).await
    }

    async fn start_in(folder: Folder, change: impl FnOnce(&mut Config)) -> Self {
        let daemon = TestDaemon::start_with(folder.path(), |config| {
            configure(config, folder.path());
            change(config);
        });
        let daemon = daemon.await;
        let operator = Operator::new(&daemon.operator("")).expect("an address");
        let simulation = operator.simulation().await.expect("an answer");
        let root = daemon.client().root().await.expect("an answer").root;
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let (labels, saved, legacy) = Default::default();
        Self { daemon, folder, http, simulation, root, counter: 0, labels, saved, legacy }
    }

    /// Stops the daemon and starts it again on the same data.
    pub async fn restart(self) -> Self {
        self.restart_with(|_| {}).await
    }

    /// The same with changed settings.
    pub async fn restart_with(self, change: impl FnOnce(&mut Config)) -> Self {
        let Self { daemon, folder, counter, .. } = self;
        daemon.stop().await;
        Self { counter, ..Self::start_in(folder, change).await }
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a body to the relying party of an application; status and body of the answer.
    pub async fn ask(&self, name: &str, body: &Value) -> (u16, Value) {
        self.send("POST", &format!("/api/v4/verify/{}", app(name).1), Some(body.to_string())).await
    }

    /// The answer of the operator interface's `GET /status`.
    pub async fn status(&self) -> Value {
        let request = self.http.get(self.daemon.operator("/status")).bearer_auth(operator_token(self.folder.path()));
        request.send().await.expect("an answer").json().await.expect("JSON")
    }

    /// A request for the application `both`, with the bundle that is wanted.
    pub async fn with_bundle(&mut self, make: Value, wanted: Value) -> Value {
        let mut body = self.make(&make).await;
        let (app_id, rp_id) = app("both");
        body["integrity_bundle"] = self.bundle(&body, &wanted, app_id, rp_id);
        body
    }

    /// A new number below the modulus.
    fn element(&mut self) -> U256 {
        self.counter += 1;
        hash_to_field(&self.counter.to_be_bytes())
    }

    fn labelled(&mut self, label: Option<String>, make: impl FnOnce(&mut Self) -> Value) -> Value {
        let Some(label) = label else { return make(self) };
        if let Some(known) = self.labels.get(&label) {
            return known.clone();
        }
        let made = make(self);
        self.labels.insert(label, made.clone());
        made
    }

    /// Plays the steps of a case.
    pub async fn play(&mut self, case: &Value) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for step in case["steps"].as_array().expect("steps") {
            let (body, status, answer) = self.step(step).await;
            assert_ne!(status, 500, "{}: {answer}", case["id"]);
            let differs = |want: &Value| self.differs(want, body.as_ref(), status, &answer);
            let public = Some(&step["portal"]).filter(|public| !public.is_null());
            let of_allowed = step.get("selfsame").map_or_else(|| Some("none is allowed".to_owned()), differs);
            let is_deeper = public.is_some_and(|public| {
                let of_entry = |attribute: &str| attribute.starts_with("responses[");
                public["attribute"].as_str().is_some_and(of_entry) && public["attribute"] != answer["attribute"]
            });
            outcomes.push(Outcome { of_public: public.and_then(differs), is_deeper, of_allowed, status, answer });
            if let (Some(name), Some(last)) = (step["save"].as_str(), outcomes.last()) {
                self.saved.insert(name.to_owned(), last.answer.clone());
            }
        }
        outcomes
    }

    async fn step(&mut self, step: &Value) -> (Option<Value>, u16, Value) {
        if let Some(http) = step["http"].as_array() {
            let [method, path, body] = http.as_slice() else { panic!("{step}") };
            let path = fill(path.as_str().expect("a path"));
            let (status, answer) =
                self.send(method.as_str().expect("a method"), &path, (!body.is_null()).then(|| body.to_string())).await;
            return (None, status, answer);
        }
        if let Some(raw) = step["raw"].as_str() {
            let path = format!("/api/v4/verify/{}", app("both").1);
            let (status, answer) = self.send("POST", &path, Some(raw.to_owned())).await;
            return (None, status, answer);
        }
        let (app_id, rp_id) = app(step["make"]["app"].as_str().expect("an application"));
        let mut body = self.make(&step["make"]).await;
        patch(&mut body, &step["patch"]);
        if let Some(wanted) = step.get("bundle") {
            body["integrity_bundle"] = self.bundle(&body, wanted, app_id, rp_id);
        }
        if let Some(wanted) = step.get("rp_signature") {
            body["rp_signature"] = rp_signature(&body, wanted);
        }
        patch(&mut body, &step["late"]);
        let id = match (step["path"].as_str(), step["by"].as_str()) {
            (Some(path), _) => fill(path),
            (None, Some("app_id")) => app_id.to_owned(),
            (None, Some("rp_upper")) => format!("rp_{}", rp_id[3..].to_uppercase()),
            (None, _) => rp_id.to_owned(),
        };
        let (sent, path) = match step["version"].as_u64() {
            Some(2) => (of_version_2(&body), format!("/api/v2/verify/{app_id}")),
            _ => (body.to_string(), format!("/api/v4/verify/{id}")),
        };
        let mut request = self.request("POST", &path, Some(sent));
        if let [Value::String(name), Value::String(secret)] = step["basic"].as_array().map_or(&[][..], Vec::as_slice) {
            request = request.basic_auth(app(name).0, Some(secret.replace("{secret}", SECRET)));
        }
        let (status, answer) = answered(request).await;
        (Some(body), status, answer)
    }

    pub async fn send(&self, method: &str, path: &str, body: Option<String>) -> (u16, Value) {
        answered(self.request(method, path, body)).await
    }

    fn request(&self, method: &str, path: &str, body: Option<String>) -> RequestBuilder {
        let request = self.http.request(method.parse().expect("a method"), self.daemon.verify(path));
        match body {
            Some(body) => request.header("content-type", "application/json").body(body),
            None => request,
        }
    }

    /// The body of a request that proves what a step asks for.
    pub async fn make(&mut self, make: &Value) -> Value {
        let (app_id, _) = app(make["app"].as_str().expect("an application"));
        let kind = make["kind"].as_str().expect("a kind");
        if kind == "legacy" {
            let mut body = self.legacy(app_id).await;
            body["environment"] = make["environment"].clone();
            return body;
        }
        let is_session = kind == "session";
        let nonce = make.get("nonce").map_or_else(|| self.element(), number);
        let mut body = json!({
            "protocol_version": "4.0", "nonce": hex(nonce), "environment": make["environment"], "responses": [],
        });
        let mut commitment = U256::ZERO;
        if kind != "uniqueness" {
            let label = make["label"].as_str().map(str::to_owned);
            let chosen =
                self.labelled(label.clone().map(|label| format!("c{label}")), |player| hex(player.element()).into());
            commitment = number(&chosen);
            let id = self.labelled(label.map(|label| format!("s{label}")), |player| {
                let seed = player.element() & (U256::MAX >> 8) | (U256::from(1) << 248);
                format!("session_{commitment:064x}{seed:064x}").into()
            });
            body["session_id"] = id;
        }
        if kind == "bound" {
            body["proof_type"] = "uniqueness".into();
        }
        if !is_session {
            body["action"] = make["action"].clone();
        }
        let in_proof = if make["commit"] == json!(false) { U256::ZERO } else { commitment };
        for item in make["items"].as_array().expect("items") {
            let nullifier = item["nullifier"].as_str().map(str::to_owned);
            let nullifier = self.labelled(nullifier, |player| hex(player.element()).into());
            let action = match is_session {
                true => (self.element() >> 8) | (U256::from(2) << 248),
                false => hash_text(make["action"].as_str().expect("an action")),
            };
            let made = self.item(app_id, item, nonce, number(&nullifier), action, in_proof, is_session);
            body["responses"].as_array_mut().expect("entries").push(made);
        }
        body
    }

    #[expect(clippy::too_many_arguments, reason = "the values of one proof")]
    fn item(
        &mut self,
        app_id: &str,
        item: &Value,
        nonce: U256,
        nullifier: U256,
        action: U256,
        session_commitment: U256,
        is_session: bool,
    ) -> Value {
        let party = self.simulation.relying_parties.iter().find(|party| party.app_id == app_id).expect("a party");
        let id = item["issuer"].as_u64().unwrap_or(1);
        let issuer = self.simulation.issuers.iter().find(|issuer| issuer.id == id).expect("an issuer");
        let expires = match item["expires"].as_i64() {
            Some(relative @ ..0) => START.as_secs().saturating_add_signed(relative),
            Some(time) => time.unsigned_abs(),
            None => 4_102_444_800,
        };
        let signal_hash = item["signal"].as_str().map(hash_text).unwrap_or_default();
        let genesis = item["genesis"].as_u64().unwrap_or_default();
        // A relying party without a key takes no proof, whatever it was made with.
        let oprf = party.oprf_public_key.unwrap_or(issuer.public_key);
        let inputs = current_inputs(&CurrentInputs {
            nullifier: Nullifier(nullifier),
            issuer_schema_id: id,
            issuer_public_key: [issuer.public_key.x, issuer.public_key.y],
            expires_at_min: UnixSeconds(expires),
            credential_genesis_issued_at_min: UnixSeconds(genesis),
            root: self.root,
            rp_id: party.rp_id.0,
            action,
            oprf_public_key: [oprf.x, oprf.y],
            signal_hash,
            nonce,
            session_commitment,
        });
        let identifier = item["identifier"].as_str().unwrap_or(&issuer.identifiers[0]).to_owned();
        let simulator = Simulator::from_seed(self.simulation.seed.as_bytes(), CURRENT_INPUTS);
        let scalars = [self.element(), self.element()].map(|scalar| field_element(&scalar).expect("below the modulus"));
        let proof = simulator.prove(&inputs.expect("below the modulus"), scalars).expect("a proof");
        let words: Vec<String> = proof.to_current().into_iter().chain([self.root.to_number()]).map(hex).collect();
        let mut made = json!({
            "identifier": identifier, "issuer_schema_id": id, "expires_at_min": expires, "proof": words,
        });
        match is_session {
            true => made["session_nullifier"] = json!([hex(nullifier), hex(action)]),
            false => made["nullifier"] = hex(nullifier).into(),
        }
        if !signal_hash.is_zero() {
            made["signal_hash"] = hex(signal_hash).into();
        }
        if genesis > 0 {
            made["credential_genesis_issued_at_min"] = genesis.into();
        }
        if let Some(score) = item.get("score") {
            made["sybil_score"] = score.clone();
        }
        made
    }

    /// A genuine legacy proof, which takes a second; one for each application.
    async fn legacy(&mut self, app_id: &str) -> Value {
        if let Some(known) = self.legacy.get(app_id) {
            return known.clone();
        }
        let asked = ProofParameters {
            app_id,
            action: "verify-legacy",
            signal: "",
            environment: Environment::Staging,
            nonce: None,
        };
        let person = Person::assumed(&self.simulation.seed, LeafIndex(1));
        let made = prove::legacy(&person, &asked, &mut random()).expect("a proof");
        let operator = Operator::new(&self.daemon.operator("")).expect("an address");
        let trusted = operator
            .trust_simulated_root(made.root, Environment::Staging, LegacyIdentifier::Orb, self.folder.path())
            .await;
        trusted.expect("trusted");
        self.legacy.insert(app_id.to_owned(), made.body.clone());
        made.body
    }

    /// The bundle that a step asks for.
    pub fn bundle(&mut self, body: &Value, wanted: &Value, app_id: &str, rp_id: &str) -> Value {
        let now = START.as_secs();
        let platform = if wanted["platform"] == "ios" { Platform::Ios } else { Platform::Android };
        let version = if wanted["version"] == 2 { BundleVersion::Two } else { BundleVersion::One };
        let environment = wanted["issuer"].as_str().or(body["environment"].as_str()).expect("an environment");
        let (mut key, key_id) = issuer_key(environment);
        if wanted["forged"] == true {
            (key, _) = issuer_key("forged");
        }
        let (_, issuer) = ISSUERS.into_iter().find(|(known, _)| *known == environment).expect("an issuer");
        let mut device = || Device::of_seed(&self.element().to_be_bytes::<32>(), platform).expect("a device");
        let (own, other) = (device(), device());
        let certified = if wanted["other_device"] == true { &other } else { &own };
        let named = |audience: &Value| match audience.as_str() {
            Some("$derived") => RelyingPartyId::derived_from(app_id).to_string().into(),
            Some("$rp") => rp_id.into(),
            _ => audience.clone(),
        };
        let token = wanted["token"].as_object().cloned().unwrap_or_default();
        let audience = match token.get("aud") {
            Some(Value::Array(several)) => several.iter().map(named).collect(),
            Some(audience) => named(audience),
            None => rp_id.into(),
        };
        let mut claims = claims(issuer, &audience, certified, now);
        let mut head = header();
        head["kid"] = key_id.into();
        for (name, value) in token.iter().filter(|(name, _)| *name != "aud") {
            match name.as_str() {
                "lifetime" => claims["exp"] = now.saturating_add_signed(value.as_i64().expect("seconds")).into(),
                "header" => value.as_object().expect("an object").iter().for_each(|(name, value)| {
                    head[name] = value.clone();
                }),
                "drop" => {
                    let claims = claims.as_object_mut().expect("an object");
                    claims.retain(|name, _| !value.as_array().expect("names").contains(&json!(name)));
                }
                _ => claims[name] = value.clone(),
            }
        }
        let token = sign_token(&key, &head, &claims).expect("signed");
        let mut signed = body.clone();
        if let Some(nonce) = wanted.get("nonce") {
            signed["nonce"] = nonce.clone();
        }
        if let Some(proof) = wanted.get("proof") {
            signed["responses"][0]["proof"] = proof.clone();
        }
        let of_legacy = version == BundleVersion::Two && body["protocol_version"] == "3.0";
        let signed_version = if of_legacy { BundleVersion::One } else { version };
        let payload = match wanted["encoding"].as_str() {
            Some("claims only") => claims_only(body),
            _ => payload_of(signed_version, &signed).expect("a request").expect("a payload"),
        };
        let at = |name: &str| wanted[name].as_i64().map(|moved| now.saturating_add_signed(moved));
        let timestamp = at("timestamp").unwrap_or(now);
        let signature = own.sign(at("signed_timestamp").unwrap_or(timestamp), &payload).expect("signed");
        bundle(version, platform, timestamp, &signature, &token)
    }

    /// Why an answer is not the one that is wanted; `None` when it is.
    fn differs(&self, want: &Value, body: Option<&Value>, status: u16, answer: &Value) -> Option<String> {
        let is_one_of = |want: &Value, got: &Value| match want {
            Value::Array(several) => several.contains(got),
            want => want == got,
        };
        if want["status"] != status {
            return Some(format!("status {status}: {answer}"));
        }
        for name in ["code", "attribute"] {
            let Some(want) = want.get(name) else { continue };
            // A path inside the entry is more exact.
            let is_within = name == "attribute"
                && want.as_str().is_some_and(|want| {
                    want.starts_with("responses[") && answer[name].as_str().is_some_and(|got| got.starts_with(want))
                });
            if !is_one_of(want, &answer[name]) && !is_within {
                return Some(format!("{name} {}", answer[name]));
            }
        }
        for (index, want) in want["results"].as_array().into_iter().flatten().enumerate() {
            for (name, want) in want.as_object().expect("an object") {
                let got = &answer["results"][index][name];
                if !is_one_of(want, got) {
                    return Some(format!("results[{index}].{name} {got}"));
                }
            }
        }
        let empty = Map::new();
        for (pointer, want) in want["body"].as_object().unwrap_or(&empty) {
            let got = answer.pointer(pointer).cloned().unwrap_or_default();
            let is_same = match want.as_object().and_then(|how| how.iter().next()) {
                Some((how, place)) if how == "$saved" => {
                    let (name, pointer) = place.as_str().and_then(|place| place.split_once(' ')).expect("a place");
                    Some(&got) == self.saved[name].pointer(pointer)
                }
                Some((how, pointer)) => {
                    let asked = body.and_then(|body| body.pointer(pointer.as_str().expect("text"))).expect("asked");
                    if how == "$request" { got == *asked } else { number(&got) == number(asked) }
                }
                None => want.as_str().map_or(got == *want, |want| got == json!(fill(want))),
            };
            if !is_same {
                return Some(format!("{pointer} {got}"));
            }
        }
        None
    }
}

/// The digest of the encoding of version 2 before it spoke of nullifiers.
fn claims_only(body: &Value) -> [u8; 32] {
    let items = body["responses"].as_array().expect("entries");
    let mut bytes = b"worldcoin/proof-integrity/v4".to_vec();
    bytes.extend(number(&body["nonce"]).to_be_bytes::<32>());
    bytes.extend((items.len() as u32).to_be_bytes());
    for item in items {
        let score = item["sybil_score"].as_u64();
        bytes.extend(u32::from(score.is_some()).to_be_bytes());
        bytes.extend(score.into_iter().flat_map(|score| U256::from(score).to_be_bytes::<32>()));
    }
    Sha256::digest(&bytes).into()
}

async fn answered(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

/// The field `rp_signature` for a body: by the relying party's key or `signer`, from `created` to
/// `expires` seconds from now.
fn rp_signature(body: &Value, wanted: &Value) -> Value {
    let at = |name: &str| START.as_secs().saturating_add_signed(wanted[name].as_i64().expect("seconds"));
    let nonce = number(&body["nonce"]).to::<u64>();
    let signer = wanted["signer"].as_str().unwrap_or(SIGNER);
    signature_of(signer, nonce, at("created"), at("expires"), body["action"].as_str())
}

/// A legacy request in the form of version 2.
fn of_version_2(body: &Value) -> String {
    let entry = &body["responses"][0];
    json!({
        "action": body["action"], "verification_level": entry["identifier"], "merkle_root": entry["merkle_root"],
        "nullifier_hash": entry["nullifier"], "proof": entry["proof"], "signal_hash": entry["signal_hash"],
    })
    .to_string()
}

fn hex(number: U256) -> String {
    format!("{number:#066x}")
}

fn number(text: &Value) -> U256 {
    selfsame_protocol::number::parse(text.as_str().expect("text")).expect("a number")
}

/// A text with the ids of the applications that it names.
fn fill(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, app_id, rp_id) in APPS {
        text = text.replace(&format!("{{app:{name}}}"), app_id).replace(&format!("{{rp:{name}}}"), rp_id);
    }
    text
}

/// Changes a body: `set`, `del`, `append`, `prefix`, `upper`, `fill` (a text of so many bytes),
/// `repeat` (the first entry of a list, so many times) and `flip` at a pointer.
fn patch(body: &mut Value, operations: &Value) {
    for operation in operations.as_array().into_iter().flatten() {
        let [name, pointer, rest @ ..] = operation.as_array().expect("an operation").as_slice() else {
            panic!("{operation}")
        };
        let (pointer, at) = pointer.as_str().map(|text| text.split_once('@').unwrap_or((text, ""))).expect("a pointer");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("{operation}"));
        let name = name.as_str().expect("a name");
        if name == "del" {
            match parent {
                Value::Array(items) => drop(items.remove(key.parse().expect("an index"))),
                parent => drop(parent.as_object_mut().expect("an object").remove(key)),
            }
            continue;
        }
        if let (Value::Array(items), "set") = (&mut *parent, name) {
            match key.parse::<usize>() {
                Ok(index) if index < items.len() => items[index] = rest[0].clone(),
                _ => items.push(rest[0].clone()),
            }
            continue;
        }
        let place = match parent {
            Value::Array(items) => &mut items[key.parse::<usize>().expect("an index")],
            parent => &mut parent[key],
        };
        let text = || rest[0].as_str().expect("text");
        let old = place.as_str().unwrap_or_default().to_owned();
        *place = match name {
            "set" => rest[0].clone(),
            "append" => format!("{old}{}", text()).into(),
            "prefix" => format!("{}{old}", text()).into(),
            "fill" => "x".repeat(rest[0].as_u64().expect("a length") as usize).into(),
            "repeat" => vec![place[0].clone(); rest[0].as_u64().expect("a number") as usize].into(),
            "upper" => format!("0x{}", old[2..].to_uppercase()).into(),
            "flip" => {
                let index = at.parse().unwrap_or(old.len() - 1);
                let other = if old.as_bytes()[index] == b'0' { "1" } else { "0" };
                format!("{}{other}{}", &old[..index], &old[index + 1..]).into()
            }
            other => panic!("{other}"),
        };
    }
}

/// The ids in the table are those that the service derives.
#[test]
fn derived_ids_of_the_cases_are_right() {
    for (name, app_id, rp_id) in APPS.into_iter().filter(|(_, _, rp_id)| !rp_id.starts_with("rp_00000000")) {
        assert_eq!(RelyingPartyId::derived_from(app_id).to_string(), rp_id, "{name}");
    }
}
