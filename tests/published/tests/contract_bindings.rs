//! The signatures of the public contracts, as published bindings have them: the stand-ins of
//! `tests/chain` have the same.

use std::collections::BTreeMap;

use alloy_primitives::{hex, keccak256};
use alloy_sol_types::{SolCall, SolError, SolEvent};
use serde::Deserialize;
use world_id_issuer::CredentialSchemaIssuerRegistry as issuers;
use world_id_registries::world_id::{WorldIdRegistry as registry, WorldIdRegistryV2 as registry_2};

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
    fn call<C: SolCall>() -> (&'static str, [u8; 4]) {
        (C::SIGNATURE, C::SELECTOR)
    }
    fn event<E: SolEvent>() -> (&'static str, [u8; 32]) {
        (E::SIGNATURE, E::SIGNATURE_HASH.0)
    }
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
