//! Stores that earlier versions of the program made: each is opened, migrated if it is of an older
//! schema, and answers as it did when it was made. See `tests/golden_stores/README.md`.
//!
//! | file | contents |
//! |---|---|
//! | `making.rs` | makes a golden store of the present schema |
//! | `asking.rs` | what a daemon on a golden store answers |
//! | `migrating.rs` | migrations of a golden store: kills, commands, backups |
//! | `large.rs` | makes a store of some size, to measure with |

mod asking;
mod large;
mod making;
mod migrating;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use alloy_primitives::Address;
use selfsame::config::{Chain, Config};
use selfsame_protocol::chain::deployment::IMPLEMENTATION_SLOT;
use selfsame_storage::{OLDEST_MIGRATABLE, SCHEMA_VERSION};
use serde_json::Value;
use tempfile::TempDir;

use crate::fake_node::{BlockContent, FakeNode, GENESIS_TIME};
use crate::harness::{folder, operator_token, run};
use crate::sign_in_client::{SignInTestClient, accept_current_proofs, browser};
use crate::signed_requests::SIGNER;
use crate::test_accounts::key;
use crate::verification_client::DEV_APP;
use crate::webhook_receiver::secret_file;
use asking::{Expected, answers, wait_for_events, wait_until_followed};
use making::{VERIFIER, chain, start};

/// The time on the clock of the daemons that make and open golden stores.
const NOW: Duration = Duration::from_secs(GENESIS_TIME + 60);

/// The configuration of a golden store, whose chain is asked at a URL.
fn configure(config: &mut Config, node: &str) {
    accept_current_proofs(config);
    let contract = |name: &str, kind: &str, more: &str| {
        format!(
            "[[contracts]]\nname = '{name}'\nkind = '{kind}'\nenvironment = 'production'\ninterval = '1s'\n{more}\n"
        )
    };
    let text = [
        format!("name = 'local'\nchain_id = 480\nrpc = ['{node}']\n"),
        contract("verifier", "verifier", &format!("address = '{:#x}'", VERIFIER)),
        contract("registry", "registry", ""),
        contract("issuers", "issuers", ""),
        contract("oprf-keys", "oprf_keys", ""),
    ];
    let chain: Chain = toml::from_str(&text.concat()).expect("a chain");
    config.chains = vec![chain];
    let party = config.relying_parties.iter_mut().find(|party| party.app_id == DEV_APP).expect("an entry");
    party.signing_key = Some(key(SIGNER).address());
    // Nothing listens there, so that every event waits for another attempt.
    let folder = config.data_dir.parent().expect("the folder of the test");
    let text = format!(
        "id = 'all'\nurl = 'http://127.0.0.1:9/hook'\nsecret_file = '{}'\n\
         events = ['verification.succeeded', 'request.finalized']\n",
        secret_file(folder).display()
    );
    config.webhooks = vec![toml::from_str(&text).expect("a webhook")];
}

/// A file of the golden store of a schema.
fn golden(schema: u32, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden_stores/schema-{schema}.{ending}"))
}

/// The golden store of a schema in a folder of its own, and what is known of it. The data folder is
/// `data` in the folder.
fn unpacked(schema: u32) -> (TempDir, PathBuf, Expected) {
    let folder = folder();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--file"]).arg(golden(schema, "tar.gz")).arg("--directory").arg(&data);
    assert!(tar.status().expect("tar runs").success());
    let text = std::fs::read_to_string(golden(schema, "json")).expect("the file is there");
    (folder, data, serde_json::from_str(&text).expect("JSON"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Requests stay in the queue.
fn hold(config: &mut Config) {
    config.batcher.min_wait = Duration::from_secs(3600);
    config.batcher.max_wait = Duration::from_secs(3600);
}

fn assert_sound(data: &Path) {
    let (success, text) = run(&["registry", "fsck", "--data", &data.display().to_string()]);
    assert!(success && text.ends_with(", 2 requests queued, 0 findings\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_golden_store_answers_as_when_it_was_made() {
    for schema in OLDEST_MIGRATABLE..=SCHEMA_VERSION {
        let (folder, data, Expected { notes, answers: expected }) = unpacked(schema);
        let node = FakeNode::start(chain()).await;
        let head = node.chain().head().number;
        // Twice: the second start has nothing to migrate.
        for _ in 0..2 {
            let daemon = start(&data, &node.url, hold).await;
            wait_until_followed(&daemon, &data, head).await;
            assert_eq!(answers(&daemon, &data, &notes).await, expected, "schema {schema}");
            if let Some(waiting) = notes.waiting_events {
                wait_for_events(&daemon, &data, waiting).await;
            }
            daemon.stop().await;
            assert_sound(&data);
        }
        let kept = format!("store.schema-{schema}");
        assert_eq!(names(&data).contains(&kept), schema < SCHEMA_VERSION, "schema {schema}: {:?}", names(&data));

        // What is used up by asking: the code, the session, the nullifier, and at last the queue.
        let daemon = start(&data, &node.url, |_| {}).await;
        let client = SignInTestClient { daemon, http: browser(), folder };
        let exchanged = client.exchange(&notes.code).await;
        assert_eq!(exchanged.status, 200, "schema {schema}: {exchanged:?}");
        let silently = client.browse_silently(&[("prompt", "none")], &notes.session).await;
        assert!(silently.contains_key("code"), "schema {schema}: {silently:?}");
        let url = client.daemon.verify(&format!("/api/v4/verify/{DEV_APP}"));
        let again = client.http.post(url).json(&notes.proof).send().await.expect("an answer");
        let again: Value = again.json().await.expect("JSON");
        assert!(again["message"] == "Proof verified successfully (nullifier reuse)", "schema {schema}: {again}");
        if let Some(signed) = &notes.signed_proof {
            let url = client.daemon.verify(&format!("/api/v4/verify/{DEV_APP}"));
            let again = client.http.post(url).json(signed).send().await.expect("an answer");
            let again: Value = again.json().await.expect("JSON");
            assert!(again["code"] == "duplicate_nonce", "schema {schema}: {again}");
        }
        for id in &notes.open_requests {
            crate::backup::expect_final(&client.http, &client.daemon.gateway(""), id).await;
        }
        client.stop().await;
    }
}

/// The code of a contract that was seen first is compared with what it runs now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contract_that_was_upgraded_since_is_noticed_after_the_migration() {
    for schema in OLDEST_MIGRATABLE..=SCHEMA_VERSION {
        let (_folder, data, _) = unpacked(schema);
        let mut upgraded = chain();
        let mut content = BlockContent::default();
        content.storage.insert((VERIFIER, IMPLEMENTATION_SLOT), Address::repeat_byte(0x78).into_word());
        upgraded.mine(content);
        let node = FakeNode::start(upgraded).await;
        let head = node.chain().head().number;
        let daemon = start(&data, &node.url, hold).await;
        wait_until_followed(&daemon, &data, head).await;
        let token = operator_token(&data);
        let request = browser().get(daemon.operator("/status")).bearer_auth(token);
        let status: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        let source = &status["chains"][0]["sources"][0];
        assert!(source["alarm"].to_string().contains("0x7878"), "schema {schema}: {source}");
        daemon.stop().await;
    }
}
