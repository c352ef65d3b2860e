//! The published client library of wallets, unchanged, against the daemon.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use selfsame_protocol::ids::LeafIndex;
use selfsame_published_client::{CHAIN_ID, CONTRACT, Daemon, seed};
use selfsame_wallet::keys::AuthenticatorKey;
use world_id_authenticator::api_types::{GatewayRequestId, GatewayRequestState};
use world_id_authenticator::proof::artifacts::dummy::DummyZkArtifactSource;
use world_id_authenticator::{Authenticator, AuthenticatorError, Config, OnchainKeyRepresentable, ServiceEndpoint};
use world_id_primitives::Signer;
use zeroize::Zeroizing;

/// The configuration of a wallet: no RPC, and the indexer under the prefix for this library.
fn configuration(daemon: &Daemon) -> Config {
    let indexer = ServiceEndpoint::direct(format!("{}/compat", daemon.indexer));
    let gateway = ServiceEndpoint::direct(daemon.gateway.clone());
    Config::new(None, CHAIN_ID, CONTRACT, indexer, gateway, Vec::new(), 2).expect("good")
}

async fn init(name: &str, config: &Config) -> Result<Authenticator, AuthenticatorError> {
    Authenticator::init(&seed(name), config.clone(), Arc::new(DummyZkArtifactSource)).await
}

fn address(name: &str) -> Address {
    signer(name).onchain_signer_address()
}

fn signer(name: &str) -> Signer {
    Signer::from_seed_bytes(&seed(name)).expect("a signer")
}

/// Waits with this project's client, then lets the library read the state.
async fn finalized(daemon: &Daemon, library: &Authenticator, request_id: &GatewayRequestId) {
    daemon.finalized(request_id.as_str()).await;
    let state = library.poll_status(request_id).await.expect("read");
    assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{state:?}");
}

/// Registers `name` and waits until the account exists.
async fn register(daemon: &Daemon, name: &str, recovery_agent: Option<Address>) -> Authenticator {
    let config = configuration(daemon);
    let registering = Authenticator::register(&seed(name), config.clone(), recovery_agent).await.expect("accepted");
    daemon.finalized(registering.request_id().as_str()).await;
    let state = registering.poll_status().await.expect("read");
    assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{state:?}");
    init(name, &config).await.expect("registered")
}

#[tokio::test]
async fn the_library_registers_and_manages_authenticators() {
    let daemon = Daemon::start();
    let config = configuration(&daemon);
    let unregistered = init("laptop", &config).await;
    assert!(matches!(unregistered, Err(AuthenticatorError::AccountDoesNotExist)), "{unregistered:?}");
    let unknown = Authenticator::fetch_account_authenticators(1, &config).await;
    assert!(matches!(unknown, Err(AuthenticatorError::AccountDoesNotExist)), "{unknown:?}");

    let laptop = register(&daemon, "laptop", Some(address("agent"))).await;
    assert_eq!((laptop.leaf_index(), laptop.pubkey_id(), laptop.recovery_counter()), (1, U256::ZERO, U256::ZERO));
    assert_eq!(laptop.signing_nonce().await.expect("read"), U256::ZERO);
    assert_eq!(daemon.client().recovery_agent(LeafIndex(1)).await.expect("an answer"), address("agent"));

    let phone = signer("phone");
    let request_id = laptop.insert_authenticator(phone.offchain_signer_pubkey(), phone.onchain_signer_address()).await;
    finalized(&daemon, &laptop, &request_id.expect("accepted")).await;
    let mut phone = init("phone", &config).await.expect("inserted");
    assert_eq!((phone.leaf_index(), phone.pubkey_id()), (1, U256::from(1)));
    assert_eq!(phone.refresh_packed_account_data().await.expect("read"), phone.packed_account_data);
    let artifacts = Arc::new(DummyZkArtifactSource);
    let by_leaf_index = Authenticator::init_with_leaf_index(&seed("phone"), 1, config.clone(), artifacts).await;
    assert_eq!(by_leaf_index.expect("found").packed_account_data, phone.packed_account_data);
    let listed = laptop.fetch_authenticators().await.expect("the commitment matches the keys");
    assert_eq!(listed.addresses(), [Some(laptop.onchain_address()), Some(phone.onchain_address())]);

    let tablet = signer("tablet");
    let request_id = phone
        .update_authenticator(
            phone.onchain_address(),
            tablet.onchain_signer_address(),
            tablet.offchain_signer_pubkey(),
            1,
        )
        .await;
    finalized(&daemon, &laptop, &request_id.expect("accepted")).await;
    let replaced = init("phone", &config).await;
    assert!(matches!(replaced, Err(AuthenticatorError::AccountDoesNotExist)), "{replaced:?}");
    let tablet = init("tablet", &config).await.expect("updated");
    assert_eq!(tablet.pubkey_id(), U256::from(1));

    let request_id = tablet.remove_authenticator(laptop.onchain_address(), 0).await;
    finalized(&daemon, &tablet, &request_id.expect("accepted")).await;
    let keys = tablet.fetch_authenticator_pubkeys().await.expect("read");
    assert!(keys.get(0).is_none(), "a removed slot keeps its place");
    assert_eq!(keys.get(1).map(|key| key.pk), Some(tablet.offchain_pubkey().pk));
    assert_eq!(tablet.signing_nonce().await.expect("read"), U256::from(3));

    // The lowest free slot is the one that the removal left.
    let spare = signer("spare");
    let request_id = tablet.insert_authenticator(spare.offchain_signer_pubkey(), spare.onchain_signer_address()).await;
    finalized(&daemon, &tablet, &request_id.expect("accepted")).await;
    assert_eq!(init("spare", &config).await.expect("inserted").pubkey_id(), U256::ZERO);
}

#[tokio::test]
async fn inclusion_proofs_pass_the_check_of_the_library() {
    let daemon = Daemon::start();
    for name in ["first", "second", "third"] {
        let library = register(&daemon, name, None).await;
        let proof = library.fetch_inclusion_proof().await.expect("read");
        assert!(proof.inclusion_proof.is_valid(proof.authenticator_pubkeys.leaf_hash().into()));
        assert_eq!(proof.inclusion_proof.leaf_index, library.leaf_index());
        assert_eq!(proof.authenticator_pubkeys.get(0).map(|key| key.pk), Some(library.offchain_pubkey().pk));
        assert!(!proof.inclusion_proof.is_valid(1u64.into()), "it proves one leaf only");
    }
    // The library does not hash trailing slots that were removed.
    let config = configuration(&daemon);
    let first = init("first", &config).await.expect("registered");
    let extra = signer("extra");
    let request_id = first.insert_authenticator(extra.offchain_signer_pubkey(), extra.onchain_signer_address()).await;
    finalized(&daemon, &first, &request_id.expect("accepted")).await;
    let request_id = first.remove_authenticator(extra.onchain_signer_address(), 1).await;
    finalized(&daemon, &first, &request_id.expect("accepted")).await;
    let proof = first.fetch_inclusion_proof().await.expect("read");
    assert!(proof.inclusion_proof.is_valid(proof.authenticator_pubkeys.leaf_hash().into()));
}

#[tokio::test]
#[expect(deprecated, reason = "the names that belong to version v1 of the registry's rules")]
async fn the_library_updates_recovery_agents() {
    let daemon = Daemon::start();
    let (first, second) = (address("first agent"), address("second agent"));
    let owner = register(&daemon, "owner", None).await;
    let agent = async || daemon.client().recovery_agent(LeafIndex(1)).await.expect("an answer");

    let request_id = owner.initiate_recovery_agent_update(first).await.expect("accepted");
    finalized(&daemon, &owner, &request_id).await;
    let request_id = owner.cancel_recovery_agent_update().await.expect("accepted");
    finalized(&daemon, &owner, &request_id).await;
    let nothing_pending = owner.execute_recovery_agent_update().await;
    let Err(AuthenticatorError::GatewayError { status, body }) = nothing_pending else { panic!("{nothing_pending:?}") };
    assert_eq!(status.as_u16(), 400);
    assert!(body.contains("NoPendingRecoveryAgentUpdate"), "{body}");
    assert_eq!(agent().await, Address::ZERO);

    let at_once = owner.update_recovery_agent(second).await;
    let Err(AuthenticatorError::GatewayError { status, .. }) = at_once else { panic!("{at_once:?}") };
    assert_eq!(status.as_u16(), 501, "an operation of version v2");
    let request_id = owner.initiate_recovery_agent_update(second).await.expect("accepted");
    finalized(&daemon, &owner, &request_id).await;
    assert_eq!(agent().await, Address::ZERO, "not before it is executed");
    let request_id = owner.execute_recovery_agent_update().await.expect("accepted");
    finalized(&daemon, &owner, &request_id).await;
    assert_eq!(agent().await, second);

    let reverted = owner.revert_recovery_agent_update().await;
    let Err(AuthenticatorError::GatewayError { status, .. }) = reverted else { panic!("{reverted:?}") };
    assert_eq!(status.as_u16(), 501);
}

#[tokio::test]
async fn init_or_register_registers_and_then_initializes() {
    let daemon = Daemon::start();
    for _ in 0..2 {
        let artifacts = Arc::new(DummyZkArtifactSource);
        let library = Authenticator::init_or_register(&seed("new"), configuration(&daemon), None, artifacts).await;
        assert_eq!(library.expect("an account").leaf_index(), 1);
    }
    let again = Authenticator::register(&seed("new"), configuration(&daemon), None).await.err().expect("refused");
    let AuthenticatorError::GatewayError { status, body } = again else { panic!("{again:?}") };
    assert_eq!(status.as_u16(), 400);
    assert!(body.contains("authenticator_already_exists"), "{body}");
}

#[test]
fn this_wallet_has_the_same_keys_as_the_library() {
    for name in ["laptop", "phone", "tablet"] {
        let ours = AuthenticatorKey::from_seed(Zeroizing::new(seed(name))).expect("a key").authenticator();
        let theirs = signer(name);
        assert_eq!(ours.address, theirs.onchain_signer_address());
        let compressed = theirs.offchain_signer_pubkey().to_ethereum_representation().expect("a point");
        assert_eq!(ours.compressed_key().0, compressed);
    }
}
