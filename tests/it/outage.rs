//! A demonstration, not run by default: what legitimate clients notice while one client attacks.
//!
//! It prints a table. `TEST_OUTAGE_SECONDS` is the length of each part, 60 by default.
//!
//! ```sh
//! cargo test --release --workspace --features fault-injection --test it outage -- \
//!     --ignored --nocapture
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::header::ACCEPT;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout_at};

use crate::harness::{DaemonProcess, folder};
use crate::sign_in_client::{APP, Form, SECRET, parameters, random};
use crate::test_accounts::person_of;

/// The one client that attacks.
const ATTACKER: &str = "192.0.2.1";

/// Time between two requests of each kind of legitimate client.
const PACE: Duration = Duration::from_millis(100);

/// A legitimate client that waits for longer counts as failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Clients of a daemon behind a proxy, which opens a connection for each request.
struct Scene {
    daemon: DaemonProcess,
    http: reqwest::Client,
    good: Value,
    bad: Value,
}

impl Scene {
    fn verify(&self, source: &str, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("{}/api/v4/verify/{APP}", self.daemon.verification);
        self.http.post(url).header("x-forwarded-for", source).json(body)
    }

    fn authorize(&self, source: &str) -> reqwest::RequestBuilder {
        let url = reqwest::Url::parse_with_params(&format!("{}/authorize", self.daemon.sign_in), parameters(&[]));
        self.http.get(url.expect("a URL")).header(ACCEPT, "application/json").header("x-forwarded-for", source)
    }

    /// The requests of legitimate clients: what they are, and the status that answers them.
    fn request(&self, kind: &str, source: &str) -> (reqwest::RequestBuilder, u16) {
        match kind {
            "GET /authorize" => (self.authorize(source), 200),
            "POST /token" => {
                let form = [
                    ("grant_type", "authorization_code"),
                    ("code", "x"),
                    ("redirect_uri", "http://localhost:3000/callback"),
                ];
                let request = self.http.post(format!("{}/token", self.daemon.sign_in));
                (request.basic_auth(APP, Some(SECRET)).form(&form).header("x-forwarded-for", source), 400)
            }
            "GET /jwks" => {
                (self.http.get(format!("{}/jwks", self.daemon.sign_in)).header("x-forwarded-for", source), 200)
            }
            _ => (self.verify(source, &self.good), 200),
        }
    }

    /// Sends the requests of legitimate clients for a time and prints what they noticed.
    async fn observe(self: &Arc<Self>, name: &str, length: Duration) {
        let until = Instant::now() + length;
        let kinds = ["GET /authorize", "POST /token", "GET /jwks", "POST /api/v4/verify"];
        let observed = join_all(kinds.map(|kind| async move {
            let (mut ticks, mut asked, mut number) = (interval(PACE), JoinSet::new(), 0);
            while Instant::now() < until {
                ticks.tick().await;
                number += 1;
                let (scene, source) = (Arc::clone(self), format!("198.51.{}.{}", number / 250 % 250, number % 250));
                asked.spawn(async move {
                    let (request, expected) = scene.request(kind, &source);
                    let started = Instant::now();
                    let answer = timeout_at(started + ANSWER_WITHIN, request.send()).await;
                    let is_good = matches!(answer, Ok(Ok(answer)) if answer.status() == expected);
                    (is_good, started.elapsed())
                });
            }
            (kind, asked.join_all().await)
        }));
        for (kind, answers) in observed.await {
            let mut times: Vec<Duration> = answers.iter().filter(|(good, _)| *good).map(|(_, time)| *time).collect();
            times.sort_unstable();
            let share = 100.0 * times.len() as f64 / answers.len() as f64;
            let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or(ANSWER_WITHIN);
            let [middle, slow] = [0.5, 0.99].map(|part| format!("{:.1} ms", at(part).as_secs_f64() * 1000.0));
            println!(
                "{name:<24}{kind:<22}{:>6} requests {share:>6.1} % answered {middle:>10} p50 {slow:>10} p99",
                answers.len()
            );
        }
    }

    /// Opens as many streams as the daemon allows, again and again.
    async fn hold_streams(self: Arc<Self>) {
        let begin = |_| async {
            let answer = self.authorize(ATTACKER).send().await.expect("an answer");
            answer.json::<Value>().await.expect("JSON")
        };
        let transactions = join_all((0..50).map(begin)).await;
        join_all((0..400).map(|number| {
            let transaction = &transactions[number % transactions.len()];
            let text = |name: &str| transaction[name].as_str().unwrap_or_default().to_owned();
            let url = format!("{}/authorize/{}/events", self.daemon.sign_in, text("transaction"));
            let request = self.http.get(url).bearer_auth(text("secret")).header("x-forwarded-for", ATTACKER);
            async move {
                loop {
                    if let Ok(mut stream) = request.try_clone().expect("no body").send().await
                        && stream.status() == 200
                    {
                        while let Ok(Some(_)) = stream.chunk().await {}
                    }
                    sleep(Duration::from_millis(200)).await;
                }
            }
        }))
        .await;
    }

    /// Sends as many requests with sixteen false proofs as the daemon answers.
    async fn send_false_proofs(self: Arc<Self>) {
        join_all((0..64).map(|_| async {
            loop {
                let _ = self.verify(ATTACKER, &self.bad).send().await;
            }
        }))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, and prints instead of asserting"]
async fn outage() {
    let seconds = std::env::var("TEST_OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(60));
    let folder = folder();
    let variables =
        [("SELFSAME_LIMITS__TRUSTED_PROXIES", r#"["127.0.0.0/8"]"#), ("SELFSAME_LIMITS__MAX_CONNECTIONS", "200")];
    let daemon = DaemonProcess::start(folder.path(), &[], &variables);
    let root = daemon.client().root().await.expect("an answer").root;
    let simulation = Operator::new(&daemon.operator).expect("an address").simulation().await.expect("an answer");
    let party = SimulatedParty::of(simulation, APP, root).expect("a known application");
    let wanted =
        ProofParameters { app_id: APP, action: "vote", signal: "", environment: Environment::Staging, nonce: None };
    let good = prove::uniqueness(&person_of("alice"), &wanted, &party, &mut random()).expect("a proof");
    // The proof with other nullifiers: everything but the pairing is right.
    let mut bad = good.clone();
    let item = good["responses"][0].clone();
    bad["responses"] = (1..=16)
        .map(|number| {
            let mut item = item.clone();
            item["nullifier"] = json!(format!("0x{number:x}"));
            item
        })
        .collect();
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("a client");
    let scene = Arc::new(Scene { daemon, http, good, bad });
    let refused = scene.verify(ATTACKER, &scene.bad).send().await.expect("an answer").text().await.expect("text");
    assert_eq!(refused.matches("invalid_proof").count(), 16, "the false proofs reach the pairing: {refused}");

    scene.observe("no attack", length).await;
    let attack = tokio::spawn(Arc::clone(&scene).hold_streams());
    sleep(Duration::from_secs(2)).await;
    scene.observe("streams", length).await;
    attack.abort();
    let attack = tokio::spawn(Arc::clone(&scene).send_false_proofs());
    sleep(Duration::from_secs(2)).await;
    scene.observe("false proofs", length).await;
    attack.abort();
}
