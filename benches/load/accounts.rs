//! The accounts of the load: their keys, and the signed bodies, which are made before a
//! measurement.

use bytes::Bytes;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::{LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::registry::{CreateAccount, Operation};
use selfsame_protocol::{Address, B256, U256, keccak256};
use selfsame_wallet::keys::{Authenticator, AuthenticatorKey};
use selfsame_wallet::operations::{AccountState, create_account};

use crate::Failure;
use crate::client::Call;

/// Number of public keys that the accounts without a signer share. The registry allows shared keys,
/// and making a key takes longer than creating an account.
const SHARED_KEYS: usize = 16;

/// Numbers that are the same in each run.
pub fn random() -> impl FnMut(&mut [u8; 32]) + Send {
    let mut seed = B256::ZERO;
    move |bytes: &mut [u8; 32]| {
        seed = keccak256(seed);
        *bytes = seed.0;
    }
}

/// The accounts that every run has, by their number from 0.
pub struct Accounts {
    /// Keys of every [`Accounts::apart`]th account, beginning with the first.
    signers: Vec<AuthenticatorKey>,
    apart: u64,
    /// Creations with the shared keys.
    shared: Vec<CreateAccount>,
}

impl Accounts {
    /// `signers` of the accounts have keys of their own: every `apart`th.
    pub fn new(signers: usize, apart: u64) -> Result<Self, Failure> {
        let mut random = random();
        let mut signers_and_shared = (0..SHARED_KEYS.max(signers))
            .map(|_| AuthenticatorKey::generate(&mut random))
            .collect::<Result<Vec<_>, _>>()?;
        let shared = signers_and_shared.iter().take(SHARED_KEYS).map(creation).collect::<Result<_, _>>()?;
        signers_and_shared.truncate(signers);
        Ok(Self { signers: signers_and_shared, apart: apart.max(1), shared })
    }

    /// The operation that creates an account.
    pub fn create(&self, number: u64) -> Result<CreateAccount, Failure> {
        let signer = usize::try_from(number / self.apart).ok().and_then(|signer| self.signers.get(signer));
        if let Some(signer) = signer.filter(|_| number.is_multiple_of(self.apart)) {
            return creation(signer);
        }
        let shared = &self.shared[(number % self.shared.len() as u64) as usize];
        let address = Address::from_word(keccak256(number.to_be_bytes()));
        Ok(CreateAccount { authenticator_addresses: vec![address], ..shared.clone() })
    }

    /// The bodies that create `count` accounts, the first one with the number `first`.
    pub fn creates(&self, first: u64, count: usize) -> Result<Vec<Call>, Failure> {
        let create = |number| body("/create-account", &Operation::CreateAccount(self.create(number)?));
        (first..).take(count).map(create).collect()
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

fn creation(key: &AuthenticatorKey) -> Result<CreateAccount, Failure> {
    match create_account(&[key.authenticator()], Address::ZERO).operation {
        Operation::CreateAccount(creation) => Ok(creation),
        other => Err(format!("a creation was expected, and not {other:?}").into()),
    }
}

fn body(path: &str, operation: &Operation) -> Result<Call, Failure> {
    Ok(Call::post(path, Bytes::from(serde_json::to_vec(operation)?)))
}
