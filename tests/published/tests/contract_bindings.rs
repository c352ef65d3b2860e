//! The signatures of the public contracts, as published bindings have them: what the daemon calls
//! and reads has the same, and so have the stand-ins of `tests/chain`.

use std::collections::BTreeMap;

use alloy_primitives::{U256, hex, keccak256};
use alloy_sol_types::{SolCall, SolError, SolEvent};
use selfsame_protocol::chain::contracts::abi;
use serde::Deserialize;
use world_id_issuer::{CredentialSchemaIssuerRegistry as issuers, ICredentialSchemaIssuerRegistry};
use world_id_registries::world_id::{WorldIdRegistry as registry, WorldIdRegistryV2 as registry_2};

fn call<C: SolCall>() -> (&'static str, [u8; 4]) {
    (C::SIGNATURE, C::SELECTOR)
}

fn event<E: SolEvent>() -> (&'static str, [u8; 32]) {
    (E::SIGNATURE, E::SIGNATURE_HASH.0)
}

#[test]
fn the_daemon_calls_and_reads_what_the_published_bindings_do() {
    assert_eq!(event::<abi::RootRecorded>(), event::<registry::RootRecorded>());
    assert_eq!(event::<abi::RootRecorded>(), event::<registry_2::RootRecorded>());
    for (own, published) in [
        (call::<abi::getLatestRootCall>(), call::<registry::getLatestRootCall>()),
        (call::<abi::getRootTimestampCall>(), call::<registry::getRootTimestampCall>()),
        (call::<abi::getRootValidityWindowCall>(), call::<registry::getRootValidityWindowCall>()),
        (call::<abi::getLatestRootCall>(), call::<registry_2::getLatestRootCall>()),
        (call::<abi::getRootTimestampCall>(), call::<registry_2::getRootTimestampCall>()),
        (call::<abi::getRootValidityWindowCall>(), call::<registry_2::getRootValidityWindowCall>()),
        (call::<abi::getRootExpirationCall>(), call::<registry_2::getRootExpirationCall>()),
        (call::<abi::issuerSchemaIdToPubkeyCall>(), call::<issuers::issuerSchemaIdToPubkeyCall>()),
    ] {
        assert_eq!(own, published);
    }
    // What they return and which parameters of an event are topics is not in the signatures.
    let root = U256::from(7);
    let log = registry::RootRecorded { root, timestamp: U256::from(8) }.encode_log_data();
    let event = abi::RootRecorded::decode_log_data(&log).expect("the event");
    assert_eq!((event.root, event.timestamp), (root, U256::from(8)));
    let key = issuers::issuerSchemaIdToPubkeyCall::abi_encode_returns(&ICredentialSchemaIssuerRegistry::Pubkey {
        x: root,
        y: U256::from(9),
    });
    let key = abi::issuerSchemaIdToPubkeyCall::abi_decode_returns(&key).expect("the key");
    assert_eq!((key.x, key.y), (root, U256::from(9)));
}

/// A contract of `tests/chain/contracts.json`.
#[derive(Deserialize)]
struct Contract {
    functions: BTreeMap<String, String>,
    events: Vec<String>,
    errors: Vec<String>,
}

fn stand_in(name: &str) -> Contract {
    let mut contracts: BTreeMap<String, Contract> =
        serde_json::from_str(include_str!("../../chain/contracts.json")).expect("the compiled contracts");
    contracts.remove(name).expect("the contract is there")
}

#[test]
fn stand_ins_have_the_signatures_of_the_published_bindings() {
    let accounts = stand_in("AccountRegistry");
    let issuer_registry = stand_in("IssuerRegistry");
    for (contract, (signature, selector)) in [
        (&accounts, call::<registry::getLatestRootCall>()),
        (&accounts, call::<registry::currentRootCall>()),
        (&accounts, call::<registry::isValidRootCall>()),
        (&accounts, call::<registry::getRootTimestampCall>()),
        (&accounts, call::<registry::getRootValidityWindowCall>()),
        (&accounts, call::<registry_2::getRootExpirationCall>()),
        (&issuer_registry, call::<issuers::issuerSchemaIdToPubkeyCall>()),
        (&issuer_registry, call::<issuers::getSignerForIssuerSchemaIdCall>()),
    ] {
        assert_eq!(contract.functions.get(signature), Some(&hex::encode(selector)), "{signature}");
    }
    for (contract, (signature, topic)) in [
        (&accounts, event::<registry::RootRecorded>()),
        (&accounts, event::<registry::RootValidityWindowUpdated>()),
        (&accounts, event::<registry_2::RootRecorded>()),
        (&issuer_registry, event::<issuers::IssuerSchemaRegistered>()),
        (&issuer_registry, event::<issuers::IssuerSchemaRemoved>()),
        (&issuer_registry, event::<issuers::IssuerSchemaPubkeyUpdated>()),
        (&issuer_registry, event::<issuers::IssuerSchemaSignerUpdated>()),
    ] {
        let found = contract.events.iter().find(|event| event.as_str() == signature);
        assert_eq!(found.map(keccak256), Some(topic.into()), "{signature}");
    }
    assert!(accounts.errors.iter().any(|error| error == registry_2::UnknownRoot::SIGNATURE));
}
