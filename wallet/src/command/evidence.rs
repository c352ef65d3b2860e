//! The options about what stands beside proofs: integrity bundles, the score of Selfie Check, and
//! the word about facts.

use selfsame_protocol::operator::Simulation;
use selfsame_protocol::verification::identity::RequestedEnvironment;
use selfsame_protocol::verification::integrity::{BundleVersion, GREATEST_SCORE, Platform};

use super::CommandError;
use crate::bridge::evidence::Evidence;
use crate::bundle::{BundleMaker, Device};
use crate::person::Person;

/// What stands beside the proofs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EvidenceOptions {
    /// Attach an integrity bundle of this version, with the simulator's attestation issuer
    /// [default: 2 for Selfie Check when the daemon judges the simulator's bundles, else none].
    #[arg(long, value_enum, value_name = "VERSION")]
    bundle: Option<BundleChoice>,
    /// The system of the device that signs the bundle.
    #[arg(long, value_enum, value_name = "SYSTEM", default_value_t)]
    device_system: DeviceSystem,
    /// The score of Selfie Check.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=GREATEST_SCORE))]
    score: u64,
    /// Say whether the person has the facts that the page asked for. It is this wallet's word, and
    /// nothing binds it.
    #[arg(long, value_name = "BOOL")]
    identity_attested: Option<bool>,
}

/// The integrity bundle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BundleChoice {
    /// No bundle.
    None,
    /// Of version 1: about the nonce, or the texts of legacy proofs.
    #[value(name = "1")]
    One,
    /// Of version 2: about the nonce, the nullifiers and the scores of current proofs.
    #[value(name = "2")]
    Two,
}

/// The systems of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum DeviceSystem {
    /// Signs in DER.
    #[default]
    Android,
    /// Signs an assertion of App Attest.
    Ios,
}

impl EvidenceOptions {
    /// Whether the wallet says something about asked facts.
    pub fn attests_facts(&self) -> bool {
        self.identity_attested.is_some()
    }

    /// The score of Selfie Check.
    pub fn score(&self) -> u64 {
        self.score
    }

    /// The evidence of a person's device. `is_selfie_check` says whether one of the proofs needs a
    /// bundle.
    ///
    /// # Errors
    /// [`CommandError::Bundle`] and [`CommandError::NoSimulatedIssuer`].
    pub fn evidence(
        &self,
        person: &Person,
        simulation: Option<&Simulation>,
        environment: RequestedEnvironment,
        is_selfie_check: bool,
    ) -> Result<Evidence, CommandError> {
        let platform = match self.device_system {
            DeviceSystem::Android => Platform::Android,
            DeviceSystem::Ios => Platform::Ios,
        };
        let is_judged = simulation.is_some_and(|simulation| {
            simulation.attestation_issuers.iter().any(|issuer| issuer.environments.contains(&environment))
        });
        let version = match self.bundle {
            Some(BundleChoice::One) => Some(BundleVersion::One),
            Some(BundleChoice::Two) => Some(BundleVersion::Two),
            None if is_selfie_check && is_judged => Some(BundleVersion::Two),
            Some(BundleChoice::None) | None => None,
        };
        let bundle = match (version, simulation) {
            (None, _) => None,
            (Some(_), None) => return Err(CommandError::NoSimulatedIssuer),
            (Some(version), Some(simulation)) => {
                let device = Device::of_person(person, platform)?;
                Some(BundleMaker::new(version, device, simulation, environment)?)
            }
        };
        Ok(Evidence { bundle, score: self.score, identity_attested: self.identity_attested })
    }
}
