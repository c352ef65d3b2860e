//! From the configuration to the settings of the actors and the interfaces.
//!
//! | module | what it makes |
//! |---|---|
//! | this one | the settings of the message bridge; the simulation that `/simulator` answers |
//! | [`groups`] | the groups, with their rolls and the actions that count them |
//! | [`sign_in`] | clients, limits and keys of sign-in; whose pages end users see |
//! | [`wallet_links`] | how sign-in opens authenticators |
//! | [`verification`] | the keys, roots and applications of the verifier |

pub mod groups;
pub mod sign_in;
pub mod verification;
pub mod wallet_links;

use selfsame_actors::BridgeSettings;
use selfsame_protocol::bridge::entries::EntryLimits;
use selfsame_protocol::operator::{
    Coordinates, SimulatedAttestationIssuer, SimulatedIssuer, SimulatedRelyingParty, Simulation,
};
use selfsame_protocol::verification::Environment;

use crate::config::{self, Config, RateLimit};

/// The settings of the bridge.
pub fn bridge(config: &Config) -> BridgeSettings {
    let limits = EntryLimits { lifetime: *config.bridge.lifetime, bytes: config.bridge.memory_mib << 20 };
    BridgeSettings {
        limits,
        per_source: config.limits.bridge_per_source.map(RateLimit::limit),
        followers_per_source: config.limits.followers_per_source,
        waiting_calls: config.limits.in_flight,
    }
}

/// The simulation of a seed: the issuers of staging with a configured key, and all relying parties.
pub fn simulation(config: &Config, seed: String) -> Simulation {
    let is_staging = |issuer: &&config::Issuer| issuer.environments().contains(&Environment::Staging);
    let issuer = |issuer: &config::Issuer| {
        Some(SimulatedIssuer {
            id: issuer.id,
            identifiers: issuer.identifiers().into_iter().map(str::to_owned).collect(),
            public_key: Coordinates::from(&issuer.public_key.as_ref()?.0),
        })
    };
    let relying_party = |app: &config::App| {
        let entry = config.relying_parties.iter().find(|party| party.app_id == app.id);
        SimulatedRelyingParty {
            app_id: app.id.clone(),
            rp_id: config.relying_party_id(&app.id),
            oprf_public_key: entry
                .and_then(|party| party.oprf_public_key.as_ref())
                .map(|key| Coordinates::from(&key.0)),
            signing_key: entry.and_then(|party| party.signing_key).map(|key| key.0).unwrap_or_default(),
        }
    };
    let attestation_issuer = |entry: &config::Integrity| {
        let (issuer, environments) = (entry.issuer.clone(), entry.environments.clone());
        SimulatedAttestationIssuer { issuer, environments }
    };
    Simulation {
        seed,
        issuers: config.issuers.iter().filter(is_staging).filter_map(issuer).collect(),
        relying_parties: config.apps.iter().map(relying_party).collect(),
        attestation_issuers: config.integrity.iter().filter(|entry| entry.simulator).map(attestation_issuer).collect(),
    }
}
