//! The accounts of the load: their keys, and the signed bodies, which are made before a
//! measurement.

use bytes::Bytes;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::{LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::registry::Operation;
use selfsame_protocol::{Address, B256, U256, keccak256};
use selfsame_wallet::keys::{Authenticator, AuthenticatorKey};
use selfsame_wallet::operations::{AccountState, create_account};

use crate::Failure;
use crate::client::Call;

/// Number of public keys that the accounts without a signer share. The registry allows shared keys,
/// and making a key takes longer than creating an account.
const SHARED_KEYS: usize = 16;

/// The accounts of a run.
pub struct Accounts {
    /// Keys of the first accounts.
    signers: Vec<AuthenticatorKey>,
    /// Authenticators of all accounts, those of the signers first.
    authenticators: Vec<Authenticator>,
}

impl Accounts {
    /// `count` accounts, the first `signers` of them with keys of their own. Every run has the same
    /// accounts.
    pub fn new(count: usize, signers: usize) -> Result<Self, Failure> {
        let mut seed = B256::ZERO;
        let mut next = |bytes: &mut [u8; 32]| {
            seed = keccak256(seed);
            *bytes = seed.0;
        };
        let keys = SHARED_KEYS.max(signers);
        let mut signers_and_shared =
            (0..keys).map(|_| AuthenticatorKey::generate(&mut next)).collect::<Result<Vec<_>, _>>()?;
        let mut authenticators: Vec<_> = signers_and_shared.iter().map(AuthenticatorKey::authenticator).collect();
        let public_keys: Vec<_> = authenticators.iter().take(SHARED_KEYS).map(|own| own.public_key).collect();
        let unsigned = std::iter::zip(0u64.., public_keys.iter().cycle()).map(|(number, public_key)| Authenticator {
            address: Address::from_word(keccak256(number.to_be_bytes())),
            public_key: *public_key,
        });
        signers_and_shared.truncate(signers);
        authenticators.truncate(signers);
        authenticators.extend(unsigned.take(count.saturating_sub(signers)));
        Ok(Self { signers: signers_and_shared, authenticators })
    }

    /// The bodies that create the accounts.
    pub fn creates(&self) -> Result<Vec<Call>, Failure> {
        let create = |own: &Authenticator| body("/create-account", &create_account(&[*own], Address::ZERO).operation);
        self.authenticators.iter().map(create).collect()
    }

    /// The queries for the signers' leaf indices.
    pub fn packed_accounts(&self) -> Vec<Call> {
        let ask = |signer: &AuthenticatorKey| {
            let query = serde_json::json!({"authenticator_address": format!("{:#x}", signer.address())});
            Call::post("/packed-account", query.to_string())
        };
        self.signers.iter().map(ask).collect()
    }

    /// The signed bodies that give each signer's account a second authenticator.
    pub fn inserts(&self, domain: &RegistryDomain, leaf_indices: &[u64]) -> Result<Vec<Call>, Failure> {
        let insert = |(signer, leaf_index): (&AuthenticatorKey, &u64)| {
            let own = signer.authenticator();
            let second = Authenticator { address: Address::from_word(keccak256(own.address)), ..own };
            let account = AccountState::new(LeafIndex(*leaf_index), vec![Some(own)], Nonce(U256::ZERO));
            let step = account.insert(domain, signer, second, PubkeyId(1))?;
            body("/insert-authenticator", &step.operation)
        };
        self.signers.iter().zip(leaf_indices).map(insert).collect()
    }
}

/// `count` queries of `path` about leaf indices from 1 to `accounts` (inclusive), scattered but the
/// same in every run.
pub fn queries(path: &str, accounts: u64, count: u64) -> Vec<(u64, Call)> {
    let scattered = |number: u64| U256::from_be_bytes(keccak256(number.to_be_bytes()).0).as_limbs()[0];
    let ask = |number| {
        let leaf_index = scattered(number) % accounts + 1;
        (leaf_index, Call::post(path, format!("{{\"leaf_index\":\"{leaf_index:#x}\"}}")))
    };
    (0..count).map(ask).collect()
}

fn body(path: &str, operation: &Operation) -> Result<Call, Failure> {
    Ok(Call::post(path, Bytes::from(serde_json::to_vec(operation)?)))
}
