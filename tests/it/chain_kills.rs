//! A daemon that follows a chain and is killed in each step of it: after every question to the
//! node, and before and after every write.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use alloy_primitives::{Address, U256};
use serde_json::Value;

use crate::chain_following::{WINDOW, legacy_proof};
use crate::fake_contracts::manager_root;
use crate::fake_node::{FakeChain, FakeNode};
use crate::harness::{DaemonProcess, copy_folder, folder, operator_token, until, until_true};
use crate::verification_client::DEV_APP;

const MANAGER: Address = Address::repeat_byte(0x11);

/// The service's time at its start, a few minutes after the newest block.
const CLOCK: &str = "2027-01-15T08:02:30Z";

/// A block with a root for each of so many; the last root is `newest`.
const ROOTS: u64 = 12;

/// The chain from the start: a root in every fifth block, the last one `newest`, and after that
/// `rest` empty blocks.
fn chain_with(newest: U256, rest: u64) -> FakeChain {
    let mut chain = FakeChain::new(480);
    for number in 0..ROOTS {
        let root = if number == ROOTS - 1 { newest } else { U256::from(number + 1) };
        chain.mine(manager_root(MANAGER, U256::from(number), root, WINDOW));
        chain.mine_empty(4);
    }
    chain.mine_empty(rest);
    chain
}

fn configuration(path: &Path, url: &str) {
    // Few blocks at a time, so that the first reading takes many steps.
    let text = format!(
        "[[chains]]\nname = 'local'\nchain_id = 480\nrpc = ['{url}']\n[[chains.contracts]]\nname = 'orb'\n\
         kind = 'identity_manager'\naddress = '{MANAGER:#x}'\nenvironment = 'staging'\nidentifiers = ['orb']\n\
         interval = '1s'\nfresh_for = '10m'\nblocks_per_request = 16\n"
    );
    std::fs::write(path, text).expect("the configuration is written");
}

struct Scene {
    http: reqwest::Client,
    node: FakeNode,
    proof: Value,
    unknown: Value,
}

impl Scene {
    fn start(&self, folder: &Path) -> DaemonProcess {
        self.try_start(folder, &[]).expect("the daemon starts")
    }

    fn try_start(&self, folder: &Path, variables: &[(&str, &str)]) -> Result<DaemonProcess, ExitStatus> {
        let file = folder.join("selfsame.toml");
        configuration(&file, &self.node.url);
        let arguments = ["--clock", CLOCK, "--config", file.to_str().expect("UTF-8")];
        DaemonProcess::try_start(&folder.join("data"), &arguments, variables, Stdio::null())
    }

    async fn ask(&self, daemon: &DaemonProcess, proof: &Value) -> Option<(u16, Value)> {
        let url = format!("{}/api/v4/verify/{DEV_APP}", daemon.verification);
        let answer = self.http.post(url).json(proof).send().await.ok()?;
        Some((answer.status().as_u16(), answer.json().await.ok()?))
    }

    /// Whether an answer refuses the root for good.
    fn is_refused((_, body): &(u16, Value)) -> bool {
        body["results"][0]["code"] == "invalid_merkle_root"
    }

    /// Starts a daemon whose node hangs after so many requests, asks about the proof meanwhile, and
    /// kills the daemon.
    async fn kill_after(&self, folder: &Path, requests: usize, check: impl Fn(&(u16, Value), bool)) {
        {
            let mut chain = self.node.chain();
            (chain.hangs_after, chain.is_hanging) = (Some(requests), false);
        }
        let daemon = self.start(folder);
        until_true(format!("request {requests} to the node"), async || self.node.chain().is_hanging).await;
        let (known, unknown) = tokio::join!(self.ask(&daemon, &self.proof), self.ask(&daemon, &self.unknown));
        check(&known.expect("an answer"), true);
        check(&unknown.expect("an answer"), false);
        daemon.kill();
        self.node.chain().hangs_after = None;
    }

    /// Starts a daemon and waits until it has read all of the chain; then every root of the
    /// chain is known, once, and no other.
    async fn complete(&self, folder: &Path) -> DaemonProcess {
        let daemon = self.start(folder);
        let token = operator_token(&folder.join("data"));
        let head = self.node.chain().head().number;
        until("the whole chain to be read", async || {
            let request = self.http.get(format!("{}/status", daemon.operator)).bearer_auth(&token);
            let status: Value = request.send().await.expect("an answer").json().await.expect("JSON");
            let source = &status["chains"][0]["sources"][0];
            if source["state"] == "following" && source["read"] == head { Ok(()) } else { Err(source.clone()) }
        })
        .await;
        daemon
    }
}

async fn scene(newest: impl Fn(U256) -> FakeChain) -> Scene {
    let (root, proof) = legacy_proof("alice");
    let (_, unknown) = legacy_proof("bob");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    Scene { http, node: FakeNode::start(newest(root)).await, proof, unknown }
}

async fn roots(scene: &Scene, daemon: &DaemonProcess, folder: &Path) -> u64 {
    let token = operator_token(&folder.join("data"));
    let request = scene.http.get(format!("{}/status", daemon.operator)).bearer_auth(token);
    let status: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    status["chains"][0]["sources"][0]["roots"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_after_any_question_loses_no_root_and_invents_none() {
    let scene = scene(|root| chain_with(root, 3)).await;
    // The chain's id, the newest block, the search for the first block, then the blocks.
    for requests in 0..12 {
        let folder = folder();
        scene
            .kill_after(folder.path(), requests, |answer, is_published| {
                // What was not read yet is not judged.
                let is_right = if is_published { answer.0 == 200 } else { Scene::is_refused(answer) };
                assert!(answer.0 == 503 || is_right, "{requests}: {answer:?}");
            })
            .await;
        let daemon = scene.complete(folder.path()).await;
        assert_eq!(roots(&scene, &daemon, folder.path()).await, ROOTS, "{requests}");
        assert_eq!(scene.ask(&daemon, &scene.proof).await.expect("an answer").0, 200);
        assert!(Scene::is_refused(&scene.ask(&daemon, &scene.unknown).await.expect("an answer")));
        assert!(daemon.terminate().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_during_a_reorganization_leaves_no_root_of_the_old_fork() {
    let scene = scene(|root| chain_with(root, 3)).await;
    let before = folder();
    assert!(scene.complete(before.path()).await.terminate().success());
    {
        let mut chain = scene.node.chain();
        chain.reorganize(20);
        chain.mine_empty(21);
    }
    for requests in 0..10 {
        let folder = folder();
        copy_folder(&before.path().join("data"), &folder.path().join("data"));
        scene
            .kill_after(folder.path(), requests, |answer, was_published| {
                // Until the daemon has seen the reorganization, the root counts.
                let is_expected = answer.0 == 503 || Scene::is_refused(answer) || (answer.0 == 200 && was_published);
                assert!(is_expected, "{requests}: {answer:?}");
            })
            .await;
        let daemon = scene.complete(folder.path()).await;
        let answer = scene.ask(&daemon, &scene.proof).await.expect("an answer");
        assert!(Scene::is_refused(&answer), "{requests}: {answer:?}");
        // The 43 blocks that stayed have nine roots, each with four blocks after it.
        assert_eq!(roots(&scene, &daemon, folder.path()).await, 9, "{requests}");
        assert!(daemon.terminate().success());
    }
}

#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_write_loses_no_root_and_invents_none() {
    let scene = scene(|root| chain_with(root, 3)).await;
    for point in ["chain-store.before", "chain-store.after"] {
        for skipped in 0..5 {
            let folder = folder();
            let plan = format!("{point}={skipped}*off->1*return(crash)");
            // The write may come before the daemon serves.
            if let Ok(daemon) = scene.try_start(folder.path(), &[("FAILPOINTS", &plan)]) {
                assert!(!daemon.wait().success(), "{plan}");
            }
            let daemon = scene.complete(folder.path()).await;
            assert_eq!(roots(&scene, &daemon, folder.path()).await, ROOTS, "{plan}");
            assert_eq!(scene.ask(&daemon, &scene.proof).await.expect("an answer").0, 200, "{plan}");
            assert!(daemon.terminate().success());
            let data = folder.path().join("data").display().to_string();
            let (success, text) = crate::harness::run(&["registry", "fsck", "--data", &data]);
            assert!(success && text.contains(", 0 findings"), "{text}");
        }
    }
}
