//! Makes proofs of the legacy circuit (Semaphore, Groth16 on BN254, depth 30), in a browser or
//! natively.
//!
//! | module | what it does |
//! |---|---|
//! | [`field`] | the prime fields of BN254 and the extension of the base field |
//! | [`curve`] | points of both groups |
//! | [`multiples`] | sums of many multiples of points |
//! | [`poseidon`] | the circuit's hash function |
//! | [`witness`] | values of the circuit's wires and constraints |
//! | [`key`] | the file of the proving key |
//! | [`prove`] | the proof |
//! | `wasm` | the border to JavaScript |
//! | [`secret`], [`sha256`] | memory that is overwritten; the hash that recognizes the key |
//!
//! The crate has no dependencies, draws no random numbers and reads no clock. It compiles with
//! Rust 1.63, the compiler of Debian 12.

#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod curve;
pub mod field;
pub mod key;
pub mod multiples;
pub mod poseidon;
pub mod prove;
pub mod secret;
pub mod sha256;
// What is exported has its plain name, which the compiler cannot check for collisions.
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code)]
mod wasm;
pub mod witness;

use core::fmt;

pub use key::ProvingKey;
pub use poseidon::Poseidon;
pub use prove::{prove, Proof, Request};

/// A number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The identity's nullifier seed.
    NullifierSeed,
    /// The identity's trapdoor.
    Trapdoor,
    /// One of the siblings.
    Sibling,
    /// The root that the path must lead to.
    Root,
    /// The external nullifier.
    ExternalNullifier,
    /// The signal hash.
    SignalHash,
    /// A number to hash.
    Hashed,
}

/// Why there is no key or no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The file of the key has another length than [`key::KEY_LENGTH`]; it was cut off, perhaps.
    KeyLength,
    /// The file of the key has another hash than [`key::KEY_HASH`].
    KeyDamaged,
    /// The file of the key has a point that is not on its curve.
    KeyPoint,
    /// A proof was asked for before the key was read.
    KeyMissing,
    /// A request has another length than the border's layout.
    RequestLength,
    /// A number is not below the modulus of the scalar field.
    NotInField(Input),
    /// The tree has no such position.
    PositionOutsideTree,
    /// The path from this position does not lead to the root: position, siblings or identity are of
    /// another leaf or of another time.
    PathNotOfRoot,
    /// The random bytes are zero, or twice the same.
    NotRandom,
    /// A point of the proof is the one at infinity. Another attempt gives another proof.
    Infinity,
}

impl Error {
    /// The name that JavaScript gets.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyLength => "key_length",
            Self::KeyDamaged => "key_damaged",
            Self::KeyPoint => "key_point",
            Self::KeyMissing => "key_missing",
            Self::RequestLength => "request_length",
            Self::NotInField(Input::NullifierSeed) => "nullifier_seed_not_in_field",
            Self::NotInField(Input::Trapdoor) => "trapdoor_not_in_field",
            Self::NotInField(Input::Sibling) => "sibling_not_in_field",
            Self::NotInField(Input::Root) => "root_not_in_field",
            Self::NotInField(Input::ExternalNullifier) => "external_nullifier_not_in_field",
            Self::NotInField(Input::SignalHash) => "signal_hash_not_in_field",
            Self::NotInField(Input::Hashed) => "hashed_not_in_field",
            Self::PositionOutsideTree => "position_outside_tree",
            Self::PathNotOfRoot => "path_not_of_root",
            Self::NotRandom => "not_random",
            Self::Infinity => "infinity",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::error::Error for Error {}
