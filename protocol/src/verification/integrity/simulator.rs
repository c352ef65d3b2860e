//! Keys of the simulator, whose seed is public: that of an attestation issuer, and those of
//! devices.
//!
//! They stand for an issuer that finds every app genuine, so that results with integrity bundles
//! can be tried out. The configuration takes such an issuer for staging and sandbox alone.

use std::fmt;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};

use super::keys::{KeySet, P256Point};
use crate::keccak256;

/// The id of the key of the simulated issuer.
pub const SIMULATED_KEY_ID: &str = "key_simulator";

/// A private key on the curve P-256 that follows from a seed.
#[derive(Clone)]
pub struct SimulatedKey {
    secret: [u8; 32],
    point: P256Point,
}

impl fmt::Debug for SimulatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedKey({:?})", self.point)
    }
}

impl SimulatedKey {
    /// The key of the attestation issuer.
    pub fn of_issuer(seed: &str) -> Option<Self> {
        Self::derive(b"selfsame simulator attestation issuer", seed.as_bytes())
    }

    /// The key of a device.
    pub fn of_device(seed: &[u8]) -> Option<Self> {
        Self::derive(b"selfsame simulator device", seed)
    }

    /// The first of some hashes that is a private key. One in 2^32 hashes is none.
    fn derive(purpose: &[u8], seed: &[u8]) -> Option<Self> {
        (0..=u8::MAX).find_map(|counter| {
            let secret = keccak256([purpose, &[counter], seed].concat()).0;
            let public = PrivateKey::from_private_key(&ECDH_P256, &secret).ok()?.compute_public_key().ok()?;
            Some(Self { secret, point: P256Point::of_bytes(public.as_ref().try_into().ok()?)? })
        })
    }

    /// The private key, big-endian.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The public key.
    pub fn point(&self) -> &P256Point {
        &self.point
    }

    /// The key set of the issuer with this key.
    pub fn key_set(&self) -> KeySet {
        KeySet::of_key(SIMULATED_KEY_ID, self.point)
    }
}
