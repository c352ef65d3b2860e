//! Current proofs with contracts that a verifier contract names, and what an upgrade of their code
//! changes.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, U256};
use alloy_sol_types::SolValue;
use selfsame::config::{Chain, Config};
use selfsame_protocol::chain::deployment::IMPLEMENTATION_SLOT;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::{Environment, RelyingPartyId};
use selfsame_wallet::prove::SimulatedParty;
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::chain_contracts::GENERATOR;
use crate::chain_contracts::abi::{
    AccountRegistry, IssuerRegistry, OprfKeyRegistry, ProofVerifier, RelyingPartyRegistry,
};
use crate::chain_following::{WINDOW, ask_until, following, is_unavailable, is_verified, set_clock, status};
use crate::fake_contracts::{FakeOprfKey, deployment, issuer_key, oprf_key, registry_root};
use crate::fake_node::{BlockContent, FakeChain, FakeNode, GENESIS_TIME};
use crate::harness::{folder, run, until};
use crate::verification_client::{DEV_APP, VerificationAnswer, VerificationClient, uniqueness};

/// The root that the proofs of these tests are made against.
const ROOT: u64 = 77;

/// A chain whose verifier names the other contracts, which count as long as their code is the
/// first that was seen.
fn chain(url: &str, verifier: Address, relying_parties: Option<Address>) -> Chain {
    toml::from_str(&chain_text(url, verifier, relying_parties)).expect("a chain")
}

fn chain_text(url: &str, verifier: Address, relying_parties: Option<Address>) -> String {
    let contract = |name: &str, kind: &str, more: &str| {
        format!("[[contracts]]\nname = '{name}'\nkind = '{kind}'\nenvironment = 'staging'\ninterval = '1s'\n{more}\n")
    };
    let parties = relying_parties
        .map(|address| contract("relying-parties", "relying_parties", &format!("address = '{address:#x}'")));
    let text = [
        format!("name = 'local'\nchain_id = 480\nrpc = ['{url}']\n"),
        contract("verifier", "verifier", &format!("address = '{verifier:#x}'\non_upgrade = 'stop'")),
        contract("registry", "registry", ""),
        contract("issuers", "issuers", ""),
        contract("oprf-keys", "oprf_keys", ""),
        parties.unwrap_or_default(),
    ];
    text.concat()
}

/// A daemon that follows the chain and has no configured key.
async fn client_of(chain: Chain) -> VerificationClient {
    following(|config: &mut Config| {
        config.chains = vec![chain];
        config.issuers.retain(|issuer| issuer.id == 1 && issuer.environments().contains(&Environment::Staging));
        config.issuers.iter_mut().for_each(|issuer| issuer.public_key = None);
        config.relying_parties.iter_mut().for_each(|party| party.oprf_public_key = None);
    })
    .await
}

fn rp_id() -> RelyingPartyId {
    RelyingPartyId::derived_from(DEV_APP)
}

/// A proof against [`ROOT`] with a credential of issuer 1, whose key is the generator.
fn current_proof() -> Value {
    let party = SimulatedParty {
        seed: "integration tests".to_owned(),
        rp_id: rp_id(),
        oprf_public_key: GENERATOR,
        issuer_schema_id: 1,
        identifier: "proof_of_human".to_owned(),
        issuer_public_key: GENERATOR,
        root: Root::from_number(U256::from(ROOT)),
        genesis_issued_at_min: UnixSeconds(0),
    };
    uniqueness("alice", "vote", &party)
}

fn has_detail(text: &str) -> impl Fn(&VerificationAnswer) -> bool {
    move |answer| answer.body["detail"].as_str().is_some_and(|detail| detail.contains(text))
}

fn has_item_code(code: &str) -> impl Fn(&VerificationAnswer) -> bool {
    move |answer| answer.body["results"][0]["code"] == code
}

/// A source in the status, by its name.
async fn source(client: &VerificationClient, name: &str) -> Value {
    let status = status(client).await;
    let sources = status["chains"][0]["sources"].as_array().expect("a list");
    sources.iter().find(|source| source["name"] == name).expect("the source").clone()
}

/// What `selfsame chain check` prints for a chain with this verifier, and whether it is good.
async fn check(url: &str, verifier: Address) -> (bool, String) {
    check_text(&chain_text(url, verifier, None)).await
}

async fn check_text(chain: &str) -> (bool, String) {
    let chain = chain.replace("[[contracts]]", "[[chains.contracts]]");
    let issuer = "[[issuers]]\nid = 1\nenvironments = ['staging']\nidentifiers = ['passport']\n";
    let folder = folder();
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, format!("[[chains]]\n{chain}{issuer}")).expect("written");
    let checked =
        tokio::task::spawn_blocking(move || run(&["chain", "check", "--config", &file.display().to_string()]));
    checked.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_names_what_would_be_followed() {
    let [verifier, registry, issuers, proof_verifier] = [0x55, 0x22, 0x33, 0x99].map(Address::repeat_byte);
    let mut fake = FakeChain::new(480);
    fake.mine(registry_root(registry, U256::from(ROOT), GENESIS_TIME + 2, WINDOW));
    fake.mine(
        issuer_key(issuers, 1, Some(GENERATOR)).and(deployment(verifier, [registry, issuers, issuers, proof_verifier])),
    );
    let node = FakeNode::start(fake).await;
    let (is_good, text) = check(&node.url, verifier).await;
    assert!(is_good, "{text}");
    for line in [
        format!("local: {}", node.url.trim_start_matches("http://")),
        "  chain 480, block 2, ".to_owned(),
        format!(
            "  local/verifier {verifier:#x}: implementation {:#x}, proofs are checked with {proof_verifier:#x}",
            Address::ZERO
        ),
        format!("  local/registry {registry:#x}: newest root 0x4d"),
        format!("  local/issuers {issuers:#x}: issuer 1 has a key"),
    ] {
        assert!(text.contains(&line), "{text:?} should contain {line:?}");
    }
    // Nothing is at the address of the verifier, so no contract says where the others are.
    let (is_good, text) = check(&node.url, registry).await;
    assert!(
        !is_good && text.contains("the answer is empty; there is no contract of this kind at the address"),
        "{text}"
    );
    assert!(text.contains("  local/registry: the verifier does not say where it is"), "{text}");
    node.chain().chain_id = 1;
    let (is_good, text) = check(&node.url, verifier).await;
    assert!(!is_good && text.contains("  is a node of chain 1, not 480"), "{text}");
    node.chain().chain_id = 480;

    // The registry is followed at a block that the node does not name.
    let settled =
        chain_text(&node.url, verifier, None).replace("kind = 'registry'", "kind = 'registry'\nblock = 'finalized'");
    let (is_good, text) = check_text(&settled).await;
    assert!(is_good && text.contains("  local/registry: the newest block that is `finalized` is 0"), "{text}");
    node.chain().question_habit = Some(Box::new(|_, parameters| {
        let error = json!({ "code": -32602, "message": "hex string without 0x prefix" });
        (parameters[0] == "finalized").then_some(Err(error))
    }));
    let (is_good, text) = check_text(&settled).await;
    let problem = "  local/registry: asked for the newest block that is `finalized`, the node refused with code -32602";
    assert!(!is_good && text.contains(problem), "{text}");
    node.chain().question_habit =
        Some(Box::new(|_, parameters| (parameters[0] == "finalized").then_some(Ok(Value::Null))));
    let (is_good, text) = check_text(&settled).await;
    assert!(!is_good && text.contains("`finalized`, the node has no such block"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verifier_moves_the_deployment_and_its_code_is_watched() {
    let [verifier, first, second, issuers, oprf_keys, proof_verifier] =
        [0x55, 0x22, 0x23, 0x33, 0x44, 0x99].map(Address::repeat_byte);
    let named = |registry| deployment(verifier, [registry, issuers, oprf_keys, proof_verifier]);
    let mut fake = FakeChain::new(480);
    fake.mine(registry_root(first, U256::from(ROOT), GENESIS_TIME + 2, WINDOW));
    fake.mine(issuer_key(issuers, 1, Some(GENERATOR)).and(oprf_key(
        oprf_keys,
        rp_id().0,
        FakeOprfKey::Present(GENERATOR),
    )));
    fake.mine(named(first));
    let node = FakeNode::start(fake).await;
    let client = client_of(chain(&node.url, verifier, None)).await;
    let proof = current_proof();
    ask_until(&client, &proof, is_verified).await;
    let shown = source(&client, "local/verifier").await;
    assert_eq!(shown["deployment"]["registry"], json!(first));
    assert_eq!((&shown["state"], &shown["alarm"]), (&json!("following"), &Value::Null));

    // Another registry, which does not know the root.
    let time = node.chain().head().time.0 + 2;
    node.chain().mine(named(second).and(registry_root(second, U256::from(9), time, WINDOW)));
    ask_until(&client, &proof, has_item_code("invalid_root")).await;
    assert_eq!(source(&client, "local/registry").await["address"], json!(second));
    let time = node.chain().head().time.0 + 2;
    node.chain().mine(registry_root(second, U256::from(ROOT), time, WINDOW));
    ask_until(&client, &proof, is_verified).await;

    // Another implementation behind the verifier, which is seen within ten minutes of the chain.
    let mut upgrade = BlockContent::default();
    upgrade.storage.insert((verifier, IMPLEMENTATION_SLOT), Address::repeat_byte(0xbb).into_word());
    let time = node.chain().head().time.0 + 601;
    node.chain().mine_at(time, upgrade);
    set_clock(&client, time);
    let stopped = ask_until(&client, &proof, is_unavailable).await;
    let detail = stopped.body["detail"].as_str().expect("text");
    assert!(detail.starts_with("local/verifier has the implementation 0xbbbb"), "{detail}");
    let shown = source(&client, "local/verifier").await;
    assert_eq!((&shown["state"], &shown["implementation"]), (&json!("stopped"), &json!(Address::repeat_byte(0xbb))));
    let metrics = client.http.get(client.daemon.operator("/metrics")).send().await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.contains("selfsame_chain_alarm{source=\"local/verifier\"} 1"), "{metrics}");
    let (operator, data) = (client.daemon.operator(""), client.folder.path().display().to_string());
    let shown =
        tokio::task::spawn_blocking(move || run(&["chain", "status", "--operator", &operator, "--data", &data]));
    let (success, text) = shown.await.expect("no panic");
    assert!(!success && text.contains("alarm: the contract has the implementation 0xbb"), "{text}");
    client.daemon.stop().await;
}

/// The same contracts on a local chain, from their deployment to their removal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs anvil; run make test-chain"]
async fn current_proofs_follow_a_deployment_on_a_local_chain() {
    let anvil = Anvil::start(480).await;
    let registry = anvil.deploy("AccountRegistry", &(U256::from(ROOT), true).abi_encode()).await;
    let issuers = anvil.deploy("IssuerRegistry", &[]).await;
    let oprf_keys = anvil.deploy("OprfKeyRegistry", &[]).await;
    let parties = anvil.deploy("RelyingPartyRegistry", &[]).await;
    let places = (registry, issuers, oprf_keys, Address::repeat_byte(0x99));
    let verifier = anvil.deploy("ProofVerifier", &places.abi_encode()).await;
    let client = client_of(chain(&anvil.url, verifier, Some(parties))).await;
    set_clock(&client, anvil.head().await.time.0);
    let follow_clock = async || set_clock(&client, anvil.head().await.time.0);
    let proof = current_proof();
    let (id, [x, y]) = (U160::from(rp_id().0), GENERATOR);

    // Keys appear.
    ask_until(&client, &proof, has_detail("it was not made yet")).await;
    anvil.send(oprf_keys, &OprfKeyRegistry::setKeyCall { id, x, y }).await;
    follow_clock().await;
    ask_until(&client, &proof, has_item_code("invalid_credential_issuer")).await;
    let signer = Address::repeat_byte(7);
    anvil.send(issuers, &IssuerRegistry::registerCall { id: 1, x, y, signer }).await;
    follow_clock().await;
    ask_until(&client, &proof, is_verified).await;

    // A new sharing changes no key, and another key of the issuer makes the proof a false one.
    anvil.send(oprf_keys, &OprfKeyRegistry::reshareCall { id }).await;
    let [other_x, other_y] = double_of_the_generator();
    anvil.send(issuers, &IssuerRegistry::updatePubkeyCall { id: 1, x: other_x, y: other_y }).await;
    follow_clock().await;
    ask_until(&client, &proof, has_item_code("invalid_proof")).await;
    anvil.send(issuers, &IssuerRegistry::updatePubkeyCall { id: 1, x, y }).await;
    follow_clock().await;
    ask_until(&client, &proof, is_verified).await;

    // The relying party in its registry.
    let state = async |expected: &str| {
        until(format!("a relying party that is {expected}"), async || {
            let source = source(&client, "local/relying-parties").await;
            if source["relying_parties"][0]["state"] == expected { Ok(()) } else { Err(source) }
        })
        .await;
    };
    state("unregistered").await;
    let register = RelyingPartyRegistry::registerCall {
        id: rp_id().0,
        manager: signer,
        signer,
        domain: "party.example".to_owned(),
    };
    anvil.send(parties, &register).await;
    state("active").await;
    anvil.send(parties, &RelyingPartyRegistry::updateCall { id: rp_id().0, active: false, signer }).await;
    state("inactive").await;
    follow_clock().await;
    assert_eq!(client.ask(DEV_APP, &proof).await.status, 200, "it decides nothing about proofs");

    // The root is replaced and counts for the window, exactly.
    anvil.send(registry, &AccountRegistry::recordRootCall { root: U256::from(78) }).await;
    let replaced_at = anvil.head().await.time.0;
    for (later, is_valid) in [(3600, true), (3601, false)] {
        anvil.set_next_time(replaced_at + later).await;
        anvil.mine(1).await;
        follow_clock().await;
        if is_valid {
            ask_until(&client, &proof, is_verified).await;
        } else {
            ask_until(&client, &proof, has_item_code("invalid_root")).await;
        }
    }
    anvil.send(registry, &AccountRegistry::recordRootCall { root: U256::from(ROOT) }).await;
    follow_clock().await;
    ask_until(&client, &proof, is_verified).await;

    // Another registry, then back.
    let other = anvil.deploy("AccountRegistry", &(U256::from(5), false).abi_encode()).await;
    anvil.send(verifier, &ProofVerifier::updateWorldIDRegistryCall { registry: other }).await;
    follow_clock().await;
    ask_until(&client, &proof, has_item_code("invalid_root")).await;
    anvil.send(verifier, &ProofVerifier::updateWorldIDRegistryCall { registry }).await;
    follow_clock().await;
    ask_until(&client, &proof, is_verified).await;

    // Removals.
    anvil.send(issuers, &IssuerRegistry::removeCall { id: 1 }).await;
    follow_clock().await;
    ask_until(&client, &proof, has_item_code("invalid_credential_issuer")).await;
    anvil.send(oprf_keys, &OprfKeyRegistry::deleteKeyCall { id }).await;
    follow_clock().await;
    ask_until(&client, &proof, has_detail("it was deleted, for good")).await;

    // An upgrade behind the verifier, which stops the deployment.
    anvil.send(verifier, &ProofVerifier::setImplementationCall { implementation: signer }).await;
    anvil.set_next_time(anvil.head().await.time.0 + 601).await;
    anvil.mine(1).await;
    follow_clock().await;
    let stopped = ask_until(&client, &proof, is_unavailable).await;
    assert!(has_detail("which was not accepted")(&stopped), "{stopped:?}");
    client.daemon.stop().await;
}

/// A valid public key other than the generator.
fn double_of_the_generator() -> [U256; 2] {
    let decimal = |text: &str| text.parse::<U256>().expect("a number");
    [
        decimal("10031262171927540148667355526369034398030886437092045105752248699557385197826"),
        decimal("633281375905621697187330766174974863687049529291089048651929454608812697683"),
    ]
}
