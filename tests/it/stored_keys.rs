//! The signing keys in the store: their encryption, a start without the key that decrypts them, and
//! the way on when that key is lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use selfsame::config::Config;
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use crate::harness::{Folder, TestDaemon, folder, operator_token, run, write_secret};
use crate::sign_in_client::{
    APP, CALLBACK, Form, SECRET, SignInAnswer, accept_current_proofs, browser, current_proof, fragment_or_query,
    parameters, wait_for_signing_keys,
};

/// The time on the clock of the daemons: 2023-11-14. `--end-sessions` of the command takes the time
/// of the machine, which is later.
const TIME: Duration = Duration::from_secs(1_700_000_000);

/// A data folder, and two files with keys that encrypt signing keys.
struct Deployment {
    folder: Folder,
    key: PathBuf,
    other_key: PathBuf,
}

impl Deployment {
    fn new() -> Self {
        let folder = folder();
        let [key, other_key] = [("encryption.key", "0f"), ("other.key", "1f")].map(|(name, byte)| {
            let path = folder.path().join(name);
            write_secret(&path, format!("{}\n", byte.repeat(32)));
            path
        });
        Self { folder, key, other_key }
    }

    fn data(&self) -> &Path {
        self.folder.path()
    }

    async fn start(&self, key: Option<&Path>) -> TestDaemon {
        self.try_start(key).await.unwrap_or_else(|error| panic!("the daemon starts: {error}"))
    }

    /// Starts a daemon; the error is the text of its refusal.
    async fn try_start(&self, key: Option<&Path>) -> Result<TestDaemon, String> {
        let change = |config: &mut Config| {
            accept_current_proofs(config);
            config.sign_in.key_encryption_key_file = key.map(Path::to_owned);
        };
        TestDaemon::try_start_at(self.data(), TIME, change).await.map_err(|error| error.to_string())
    }

    /// Runs `selfsame keys revoke --all` for this data folder.
    fn revoke_all(&self, more: &[&str]) -> (bool, String) {
        let data = self.data().to_str().expect("text");
        run(&[&["keys", "revoke", "--all", "--data", data], more].concat())
    }

    /// Calls the operator interface.
    async fn operate(&self, daemon: &TestDaemon, path: &str, body: Value) -> u16 {
        let request = browser().post(daemon.operator(path)).bearer_auth(operator_token(self.data())).json(&body);
        request.send().await.expect("an answer").status().as_u16()
    }
}

/// The ids of the published keys.
async fn kids(daemon: &TestDaemon) -> Vec<String> {
    wait_for_signing_keys(&daemon.sign_in("")).await;
    let answer = SignInAnswer::of(browser().get(daemon.sign_in("/jwks")).send().await.expect("an answer")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let keys = answer.body["keys"].as_array().expect("keys").clone();
    keys.iter().map(|key| key["kid"].as_str().expect("an id").to_owned()).collect()
}

/// Signs a person in; returns the answer of the token endpoint.
async fn sign_in(daemon: &TestDaemon) -> SignInAnswer {
    wait_for_signing_keys(&daemon.sign_in("")).await;
    let url = reqwest::Url::parse_with_params(&daemon.sign_in("/authorize"), parameters(&[])).expect("a URL");
    let session = SignInSession::open(url.as_str()).await.expect("the sign-in starts");
    let proof = current_proof(&daemon.operator(""), &daemon.client(), &session, "alice").await;
    session.answer_from(session.request(), &proof, Place::Unsaid).await.expect("accepted");
    let target = session.complete().await.expect("completed").expect("a target");
    let code = fragment_or_query(&target)["code"].clone();
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
    let request = browser().post(daemon.sign_in("/token")).basic_auth(APP, Some(SECRET)).form(&form);
    let tokens = SignInAnswer::of(request.send().await.expect("an answer")).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    tokens
}

async fn is_active(daemon: &TestDaemon, token: &str) -> bool {
    let request = browser().post(daemon.sign_in("/introspect")).basic_auth(APP, Some(SECRET));
    let answer = SignInAnswer::of(request.form(&[("token", token)]).send().await.expect("an answer")).await;
    assert!([200, 401].contains(&answer.status), "{answer:?}");
    answer.status == 200
}

/// Whether a file of the store contains these bytes.
fn is_in_store(data: &Path, wanted: &[u8]) -> bool {
    let files = std::fs::read_dir(data.join("store")).expect("a folder");
    let mut contents = files.map(|file| std::fs::read(file.expect("an entry").path()).unwrap_or_default());
    contents.any(|content| content.windows(wanted.len()).any(|window| window == wanted))
}

#[tokio::test]
async fn signing_keys_are_encrypted_in_the_store_with_a_key_from_outside() {
    let deployment = Deployment::new();
    let key = deployment.key.clone();
    // The fixed part of the encoding of an RSA key of 2048 bits (PKCS #1), up to its modulus.
    let private_key = [0x02, 0x01, 0x00, 0x02, 0x82, 0x01, 0x01, 0x00];
    let encrypted = deployment.start(Some(&key)).await;
    kids(&encrypted).await;
    assert!(!is_in_store(deployment.data(), &private_key), "a private key in clear");
    encrypted.stop().await;

    // Keys that were stored before the setting stay readable, and new ones are encrypted.
    let deployment = Deployment::new();
    let plain = deployment.start(None).await;
    let before = kids(&plain).await;
    // The log has it as it is; a clean stop writes it into a compressed file.
    assert!(is_in_store(deployment.data(), &private_key), "the pattern is right");
    plain.stop().await;
    let daemon = deployment.start(Some(&key)).await;
    assert_eq!(kids(&daemon).await, before);
    assert_eq!(deployment.operate(&daemon, "/keys/rotate", json!({"now": true})).await, 200);
    assert_eq!(kids(&daemon).await[..2], before[..]);
    daemon.stop().await;
}

/// Without the keys the daemon could sign nothing, and would not know which sign-ins the operator
/// has ended.
#[tokio::test]
async fn a_daemon_does_not_start_with_signing_keys_that_it_cannot_read() {
    let deployment = Deployment::new();
    let daemon = deployment.start(Some(&deployment.key)).await;
    let tokens = sign_in(&daemon).await;
    let token = tokens.text("access_token");
    let stolen = kids(&daemon).await;
    assert!(is_active(&daemon, token).await);
    let body = json!({"kid": stolen[0], "end_sessions": true});
    assert_eq!(deployment.operate(&daemon, "/keys/revoke", body).await, 200);
    assert!(!is_active(&daemon, token).await);
    daemon.stop().await;

    for (key, reason) in [(None, "is encrypted; set"), (Some(&*deployment.other_key), "cannot be decrypted with")] {
        match deployment.try_start(key).await {
            Ok(daemon) => panic!("it started, and the ended sign-in is live: {}", is_active(&daemon, token).await),
            Err(error) => {
                assert!(error.contains(reason) && error.contains("selfsame keys revoke --all"), "{error}");
            }
        }
    }
    let daemon = deployment.start(Some(&deployment.key)).await;
    assert!(!is_active(&daemon, token).await, "the end of the sign-ins outlives a restart");
    assert_eq!(kids(&daemon).await[0], stolen[1]);
    daemon.stop().await;
}

#[tokio::test]
async fn when_the_encryption_key_is_lost_all_signing_keys_are_replaced_on_demand() {
    let deployment = Deployment::new();
    let daemon = deployment.start(Some(&deployment.key)).await;
    let tokens = sign_in(&daemon).await;
    let (token, lost) = (tokens.text("access_token").to_owned(), kids(&daemon).await);
    let head_status = async |daemon: &TestDaemon| {
        browser().get(daemon.gateway("/head")).send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(head_status(&daemon).await, 200, "the registry has a key");
    let (is_done, text) = deployment.revoke_all(&[]);
    assert!(!is_done && text.contains("stop the daemon"), "the store is in use: {text}");
    daemon.stop().await;

    let (is_done, text) = deployment.revoke_all(&[]);
    assert!(is_done && text.contains(&lost[0]) && text.contains(&lost[1]), "{text}");
    let daemon = deployment.start(Some(&deployment.other_key)).await;
    let new = kids(&daemon).await;
    assert!(new.len() == 2 && new.iter().all(|kid| !lost.contains(kid)), "{new:?}");
    assert!(is_active(&daemon, &token).await, "sign-ins go on unless the operator ends them");
    sign_in(&daemon).await;
    assert_eq!(head_status(&daemon).await, 500, "the registry's key is lost with the file");
    daemon.stop().await;
    let (is_done, text) = deployment.revoke_all(&["--registry-key"]);
    assert!(is_done && text.contains("the key of the registry's heads is removed"), "{text}");
    let daemon = deployment.start(Some(&deployment.other_key)).await;
    assert_eq!(head_status(&daemon).await, 200);
    daemon.stop().await;

    let (is_done, text) = deployment.revoke_all(&["--end-sessions"]);
    assert!(is_done && text.contains("all sign-ins up to now have ended"), "{text}");
    let daemon = deployment.start(None).await;
    assert!(!is_active(&daemon, &token).await);
    assert_eq!(kids(&daemon).await.len(), 2);
    daemon.stop().await;
    // Again, without keys; what has ended stays so.
    let (is_done, text) = deployment.revoke_all(&[]);
    assert!(is_done, "{text}");
    let (is_done, text) = deployment.revoke_all(&[]);
    assert!(is_done && text.contains("no signing keys are stored"), "{text}");
    let daemon = deployment.start(None).await;
    assert!(!is_active(&daemon, &token).await);
    daemon.stop().await;
}
