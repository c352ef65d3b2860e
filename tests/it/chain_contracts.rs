//! The contracts of `tests/chain/contracts`: stand-ins of our own for the public ones, with the
//! same reading functions, events and errors, and with functions that let a test change them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use alloy_primitives::{Bytes, U256, hex, keccak256, uint};
use alloy_sol_types::{SolCall, SolError, SolEvent};
use serde::Deserialize;

/// What tests call. Parameters that are structs of numbers are listed as their fields, which has
/// the same encoding.
pub mod abi {
    alloy_sol_types::sol! {
        interface IdentityManager {
            function pushRoot(uint256 root) external;
            function returnToRoot(uint256 root) external;
            function setRootHistoryExpiry(uint256 newExpiry) external;
            function latestRoot() external view returns (uint256);
            function queryRoot(uint256 root) external view returns (uint256 root, uint128 supersededTimestamp, bool isValid);
        }
        interface RootBridge {
            function receiveRoot(uint256 root) external;
            function setRootHistoryExpiry(uint256 newExpiry) external;
            function latestRoot() external view returns (uint256);
        }
        interface AccountRegistry {
            function upgrade() external;
            function setRootValidityWindow(uint256 newWindow) external;
            function recordRoot(uint256 root) external;
            function recordRoots(uint256 first, uint256 second) external;
            function getLatestRoot() external view returns (uint256);
            function isValidRoot(uint256 root) external view returns (bool);
            function getRootExpiration(uint256 root) external view returns (uint256);
        }
        interface IssuerRegistry {
            function register(uint64 id, uint256 x, uint256 y, address signer) external;
            function updatePubkey(uint64 id, uint256 x, uint256 y) external;
            function remove(uint64 id) external;
            function issuerSchemaIdToPubkey(uint64 id) external view returns (uint256 x, uint256 y);
        }
        interface OprfKeyRegistry {
            function setKey(uint160 id, uint256 x, uint256 y) external;
            function reshare(uint160 id) external;
            function deleteKey(uint160 id) external;
            function getOprfPublicKey(uint160 id) external view returns (uint256 x, uint256 y);
        }
        interface RelyingPartyRegistry {
            struct RelyingParty {
                bool initialized;
                bool active;
                address manager;
                address signer;
                uint160 oprfKeyId;
                string unverifiedWellKnownDomain;
            }
            function register(uint64 id, address manager, address signer, string domain) external;
            function update(uint64 id, bool active, address signer) external;
            function getRpUnchecked(uint64 id) external view returns (RelyingParty memory);
        }
        interface ProofVerifier {
            function updateWorldIDRegistry(address registry) external;
            function setImplementation(address implementation) external;
            function getWorldIDRegistry() external view returns (address);
        }
    }
}

/// A valid public key: the generator of the curve's subgroup of prime order (ERC-2494).
pub const GENERATOR: [U256; 2] = [
    uint!(5299619240641551281634865583518297030282874472190772894086521144482721001553_U256),
    uint!(16950150798460657717958625567821834550301663161624707787222815936182638968203_U256),
];

/// A contract of `tests/chain/contracts.json`.
#[derive(Deserialize)]
pub struct Contract {
    /// Selectors in hex, by signature.
    functions: BTreeMap<String, String>,
    /// Signatures.
    events: Vec<String>,
    errors: Vec<String>,
    bytecode: Bytes,
}

static CONTRACTS: LazyLock<BTreeMap<String, Contract>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../chain/contracts.json")).expect("the compiled contracts"));

/// The code that creates a contract; the encoded arguments of its constructor follow it.
pub fn bytecode(contract: &str) -> &'static Bytes {
    &CONTRACTS[contract].bytecode
}

/// The functions that are called on the public contracts, by contract.
const FUNCTIONS: [(&str, &[(&str, &str)]); 7] = [
    (
        "IdentityManager",
        &[
            ("latestRoot()", "0xd7b0fef1"),
            ("queryRoot(uint256)", "0x3f7c178d"),
            ("getRootHistoryExpiry()", "0x43f974cb"),
        ],
    ),
    (
        "RootBridge",
        &[
            ("latestRoot()", "0xd7b0fef1"),
            ("rootHistory(uint256)", "0xf1c621ee"),
            ("rootHistoryExpiry()", "0xb0d69079"),
        ],
    ),
    (
        "AccountRegistry",
        &[
            ("getLatestRoot()", "0x5445b007"),
            ("currentRoot()", "0xfdab463d"),
            ("isValidRoot(uint256)", "0x2cdabbce"),
            ("getRootTimestamp(uint256)", "0x8561a5ef"),
            ("getRootValidityWindow()", "0x65b64a72"),
            ("getRootExpiration(uint256)", "0x6ef88be1"),
        ],
    ),
    ("IssuerRegistry", &[("issuerSchemaIdToPubkey(uint64)", "0x94db8bd2")]),
    (
        "OprfKeyRegistry",
        &[("getOprfPublicKey(uint160)", "0x7488e8e7"), ("getOprfPublicKeyAndEpoch(uint160)", "0x8f065f8d")],
    ),
    (
        "RelyingPartyRegistry",
        &[
            ("getRp(uint64)", "0x5f311457"),
            ("getRpUnchecked(uint64)", "0x3d92371a"),
            ("getOprfKeyIdAndSigner(uint64)", "0x87c362a7"),
        ],
    ),
    (
        "ProofVerifier",
        &[
            ("getWorldIDRegistry()", "0xc6c15ae0"),
            ("getCredentialSchemaIssuerRegistry()", "0x340eb98f"),
            ("getOprfKeyRegistry()", "0x1dfc0cea"),
            ("getVerifier()", "0x46657fe9"),
            ("getMinExpirationThreshold()", "0x2fbeebea"),
        ],
    ),
];

/// The beginnings of the first topics of the public contracts' events, and of the selectors of
/// their errors. Events of the same name have different parameters in different contracts.
const TOPICS: [(&str, &str, &str); 26] = [
    ("IdentityManager", "TreeChanged", "0x25f6d5cc356ee0b4"),
    ("IdentityManager", "RootHistoryExpirySet", "0xf62a6f06"),
    ("RootBridge", "RootAdded", "0xe97c89cb"),
    ("RootBridge", "RootHistoryExpirySet", "0x147b815b"),
    ("RootBridge", "NoRootsSeen", "0x5b8dabb7"),
    ("AccountRegistry", "RootRecorded", "0x354c97d4"),
    ("AccountRegistry", "RootValidityWindowUpdated", "0xa63279ea"),
    ("AccountRegistry", "UnknownRoot", "0x29fd3379"),
    ("IssuerRegistry", "IssuerSchemaRegistered", "0xd180155b"),
    ("IssuerRegistry", "IssuerSchemaRemoved", "0xc08fd7f2"),
    ("IssuerRegistry", "IssuerSchemaPubkeyUpdated", "0xd5013fdf"),
    ("IssuerRegistry", "IssuerSchemaSignerUpdated", "0x4ece8d4e"),
    ("OprfKeyRegistry", "SecretGenFinalize", "0xeca0bbf8"),
    ("OprfKeyRegistry", "KeyDeletion", "0x80289566"),
    ("OprfKeyRegistry", "UnknownId", "0xfbf20062"),
    ("OprfKeyRegistry", "DeletedId", "0x1b02ded7"),
    ("RelyingPartyRegistry", "RpRegistered", "0xf55f173d"),
    ("RelyingPartyRegistry", "RpUpdated", "0xa21bdece"),
    ("RelyingPartyRegistry", "RpIdDoesNotExist", "0x3200e7c0"),
    ("RelyingPartyRegistry", "RpIdInactive", "0x0bfc5e0d"),
    ("ProofVerifier", "WorldIDRegistryUpdated", "0x77392248"),
    ("ProofVerifier", "CredentialSchemaIssuerRegistryUpdated", "0x7486a240"),
    ("ProofVerifier", "OprfKeyRegistryUpdated", "0x14dfc6d8"),
    ("ProofVerifier", "VerifierUpdated", "0x0243549a"),
    ("ProofVerifier", "MinExpirationThresholdUpdated", "0xe79fa2ee"),
    ("ProofVerifier", "Upgraded", "0xbc7cd75a"),
];

#[test]
fn the_stand_ins_have_what_the_daemon_calls_and_reads() {
    use selfsame_protocol::chain::contracts::abi;
    fn call<C: SolCall>() -> (&'static str, String) {
        (C::SIGNATURE, hex::encode(C::SELECTOR))
    }
    for (contract, (signature, selector)) in [
        ("IdentityManager", call::<abi::latestRootCall>()),
        ("IdentityManager", call::<abi::getRootHistoryExpiryCall>()),
        ("RootBridge", call::<abi::latestRootCall>()),
        ("RootBridge", call::<abi::rootHistoryExpiryCall>()),
        ("AccountRegistry", call::<abi::getLatestRootCall>()),
        ("AccountRegistry", call::<abi::getRootTimestampCall>()),
        ("AccountRegistry", call::<abi::getRootValidityWindowCall>()),
        ("AccountRegistry", call::<abi::getRootExpirationCall>()),
        ("IssuerRegistry", call::<abi::issuerSchemaIdToPubkeyCall>()),
        ("OprfKeyRegistry", call::<abi::getOprfPublicKeyCall>()),
        ("RelyingPartyRegistry", call::<abi::getRpUncheckedCall>()),
        ("ProofVerifier", call::<abi::getWorldIDRegistryCall>()),
        ("ProofVerifier", call::<abi::getCredentialSchemaIssuerRegistryCall>()),
        ("ProofVerifier", call::<abi::getOprfKeyRegistryCall>()),
        ("ProofVerifier", call::<abi::getVerifierCall>()),
    ] {
        assert_eq!(CONTRACTS[contract].functions.get(signature), Some(&selector), "{contract} {signature}");
    }
    for (contract, signature) in [
        ("IdentityManager", abi::TreeChanged::SIGNATURE),
        ("RootBridge", abi::RootAdded::SIGNATURE),
        ("RootBridge", abi::NoRootsSeen::SIGNATURE),
        ("AccountRegistry", abi::RootRecorded::SIGNATURE),
        ("OprfKeyRegistry", abi::UnknownId::SIGNATURE),
        ("OprfKeyRegistry", abi::DeletedId::SIGNATURE),
        ("RelyingPartyRegistry", abi::RpIdDoesNotExist::SIGNATURE),
    ] {
        let Contract { events, errors, .. } = &CONTRACTS[contract];
        assert!(events.iter().chain(errors).any(|found| found == signature), "{contract} {signature}");
    }
}

#[test]
fn the_stand_ins_have_the_interface_of_the_public_contracts() {
    for (contract, functions) in FUNCTIONS {
        for (signature, selector) in functions {
            assert_eq!(format!("0x{}", CONTRACTS[contract].functions[*signature]), *selector, "{contract} {signature}");
        }
    }
    for (contract, name, topic) in TOPICS {
        let Contract { events, errors, .. } = &CONTRACTS[contract];
        let mut signatures = events.iter().chain(errors);
        let signature = signatures.find(|signature| signature.split('(').next() == Some(name));
        let signature = signature.unwrap_or_else(|| panic!("{contract} has no {name}"));
        let hash = hex::encode_prefixed(keccak256(signature));
        assert!(hash.starts_with(topic), "{contract} {signature}: {hash}");
    }
}
