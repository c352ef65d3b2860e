//! Integrity bundles of the simulator, as a phone attaches them to a result: the device signs what
//! the bundle speaks of, and the simulator's attestation issuer signs the device's key.
//!
//! Tests make wrong bundles of the same parts: [`Device::sign`], [`sign_token`], [`claims`].

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use selfsame_protocol::operator::Simulation;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::identity::RequestedEnvironment;
use selfsame_protocol::verification::integrity::simulator::{SIMULATED_KEY_ID, SimulatedKey};
use selfsame_protocol::verification::integrity::{BundleVersion, Platform, payload_of};
use selfsame_protocol::verification::request::ValidationError;
use serde_json::{Value, json};

use crate::person::Person;

/// How long a token is good, in seconds.
const TOKEN_LIFETIME: u64 = 300;

/// Why no bundle can be made.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// No bundle of the simulator is good for the environment.
    #[error(
        "the daemon judges no bundles of the simulator for {environment}; add an entry with simulator = true to [[integrity]]",
        environment = .0.name()
    )]
    NoIssuer(RequestedEnvironment),
    /// The result is not one that a bundle can speak of.
    #[error("no bundle can speak of this result: {0}")]
    Result(#[from] ValidationError),
    /// A bundle of version 2 speaks of current proofs alone.
    #[error("a bundle of version 2 speaks of current proofs alone; make one of version 1 for a legacy proof")]
    Legacy,
    /// The cryptographic library failed.
    #[error("the key cannot sign")]
    Key,
}

/// A device with a key in its secure element.
#[derive(Clone, Debug)]
pub struct Device {
    /// The system.
    pub platform: Platform,
    /// The key.
    pub key: SimulatedKey,
}

impl Device {
    /// The device of a person.
    ///
    /// # Errors
    /// [`BundleError::Key`].
    pub fn of_person(person: &Person, platform: Platform) -> Result<Self, BundleError> {
        Self::of_seed(&person.number(&["device"]).to_be_bytes::<32>(), platform)
    }

    /// The device whose key follows from a seed.
    ///
    /// # Errors
    /// [`BundleError::Key`].
    pub fn of_seed(seed: &[u8], platform: Platform) -> Result<Self, BundleError> {
        Ok(Self { platform, key: SimulatedKey::of_device(seed).ok_or(BundleError::Key)? })
    }

    /// Signs a payload at a time, in the form of the device's system.
    ///
    /// # Errors
    /// [`BundleError::Key`].
    pub fn sign(&self, timestamp: u64, payload: &[u8; 32]) -> Result<Vec<u8>, BundleError> {
        let signed = [timestamp.to_be_bytes().as_slice(), payload].concat();
        match self.platform {
            Platform::Android => sign(&self.key, &ECDSA_P256_SHA256_ASN1_SIGNING, &signed),
            Platform::Ios => {
                // The hash of the app's id, flags and a counter: nothing looks at them.
                let data = [digest(&SHA256, b"TEAMID.org.example.app").as_ref(), &[0x40, 0, 0, 0, 1]].concat();
                let message = digest(&SHA256, &[&data, digest(&SHA256, &signed).as_ref()].concat());
                let signature = sign(&self.key, &ECDSA_P256_SHA256_ASN1_SIGNING, message.as_ref())?;
                Ok(assertion(&signature, &data))
            }
        }
    }
}

/// The map of an assertion in CBOR. Both values are shorter than 256 bytes.
fn assertion(signature: &[u8], authenticator_data: &[u8]) -> Vec<u8> {
    let mut map = vec![0xa2];
    for (name, value) in [("signature", signature), ("authenticatorData", authenticator_data)] {
        map.push(0x60 | name.len() as u8);
        map.extend_from_slice(name.as_bytes());
        map.extend([0x58, value.len() as u8]);
        map.extend_from_slice(value);
    }
    map
}

/// The claims of a token for a device.
pub fn claims(issuer: &str, audience: &Value, device: &Device, now: u64) -> Value {
    let platform = match device.platform {
        Platform::Ios => "ios",
        Platform::Android => "android",
    };
    json!({
        "iss": issuer, "aud": audience, "iat": now, "exp": now + TOKEN_LIFETIME, "v": "1", "app_version": "4.0.0",
        "platform": platform, "pass": true, "cnf": {"jwk": device.key.point().to_jwk()},
    })
}

/// The header of a token.
pub fn header() -> Value {
    json!({"typ": "JWT", "alg": "ES256", "kid": SIMULATED_KEY_ID})
}

/// Signs a token.
///
/// # Errors
/// [`BundleError::Key`].
pub fn sign_token(key: &SimulatedKey, header: &Value, claims: &Value) -> Result<String, BundleError> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = sign(key, &ECDSA_P256_SHA256_FIXED_SIGNING, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn sign(key: &SimulatedKey, form: &'static EcdsaSigningAlgorithm, message: &[u8]) -> Result<Vec<u8>, BundleError> {
    let pair = EcdsaKeyPair::from_private_key_and_public_key(form, key.secret(), key.point().as_bytes());
    let pair = pair.map_err(|_| BundleError::Key)?;
    Ok(pair.sign(&SystemRandom::new(), message).map_err(|_| BundleError::Key)?.as_ref().to_vec())
}

/// A bundle of these parts.
pub fn bundle(version: BundleVersion, platform: Platform, timestamp: u64, signature: &[u8], token: &str) -> Value {
    json!({
        "version": match version {
            BundleVersion::One => 1,
            BundleVersion::Two => 2,
        },
        "signature_format": match platform {
            Platform::Ios => "apple_app_attest",
            Platform::Android => "android_keystore",
        },
        "timestamp": timestamp,
        "signature": alloy_primitives::hex::encode(signature),
        "jwt": token,
    })
}

/// What the bundles of a device are made with.
#[derive(Clone, Debug)]
pub struct BundleMaker {
    /// What they speak of.
    pub version: BundleVersion,
    device: Device,
    issuer: String,
    issuer_key: SimulatedKey,
}

impl BundleMaker {
    /// The maker for a person's device, with the daemon's simulated attestation issuer.
    ///
    /// # Errors
    /// [`BundleError::NoIssuer`] and [`BundleError::Key`].
    pub fn new(
        version: BundleVersion,
        device: Device,
        simulation: &Simulation,
        environment: RequestedEnvironment,
    ) -> Result<Self, BundleError> {
        let issuers = &simulation.attestation_issuers;
        let issuer = issuers.iter().find(|issuer| issuer.environments.contains(&environment));
        let issuer = issuer.ok_or(BundleError::NoIssuer(environment))?.issuer.clone();
        let issuer_key = SimulatedKey::of_issuer(&simulation.seed).ok_or(BundleError::Key)?;
        Ok(Self { version, device, issuer, issuer_key })
    }

    /// A bundle for a result of the client kit: the body of a verification request. `audience` is
    /// the id of the relying party.
    ///
    /// # Errors
    /// A [`BundleError`].
    pub fn make(&self, result: &Value, audience: &str, now: UnixSeconds) -> Result<Value, BundleError> {
        let payload = payload_of(self.version, result)?.ok_or(BundleError::Legacy)?;
        let claims = claims(&self.issuer, &audience.into(), &self.device, now.0);
        let token = sign_token(&self.issuer_key, &header(), &claims)?;
        let signature = self.device.sign(now.0, &payload)?;
        Ok(bundle(self.version, self.device.platform, now.0, &signature, &token))
    }
}
