//! The settings of a service, among them how often actors are restarted, and when one counts as
//! stuck.

use std::time::Duration;

use selfsame_protocol::registry::RuleParameters;

use crate::bridge::handle::BridgeSettings;
use crate::chain::settings::ChainSettings;
use crate::events::handle::EventSettings;
use crate::registry::limits::{AdmissionLimits, BatchLimits};
use crate::sign_in::settings::SignInSettings;
use crate::verification::settings::VerificationSettings;

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Prefix of all actor names, so that several services can run in one process.
    pub instance: String,
    /// The rule parameters that new blocks carry.
    pub rules: RuleParameters,
    /// Limits of a block.
    pub batch: BatchLimits,
    /// Limits of admission.
    pub limits: AdmissionLimits,
    /// Settings of proof verification.
    pub verification: VerificationSettings,
    /// Settings of sign-in.
    pub sign_in: SignInSettings,
    /// Settings of the message bridge.
    pub bridge: BridgeSettings,
    /// Settings of events and webhooks.
    pub events: EventSettings,
    /// The chains that trusted data is followed from.
    pub chains: Vec<ChainSettings>,
    /// How often actors are restarted, and when one counts as stuck.
    pub supervision: SupervisionSettings,
}

impl Settings {
    /// The default settings, under an instance name.
    pub fn for_instance(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            rules: RuleParameters::default(),
            batch: BatchLimits::default(),
            limits: AdmissionLimits::default(),
            verification: VerificationSettings::default(),
            sign_in: SignInSettings::default(),
            bridge: BridgeSettings::default(),
            events: EventSettings::default(),
            chains: Vec::new(),
            supervision: SupervisionSettings::default(),
        }
    }
}

/// An actor that has given no answer for this long makes the service not ready, by default.
pub const UNREADY_AFTER: Duration = Duration::from_secs(10);

/// An actor that has given no answer for this long has failed the service, by default.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// How often actors are restarted, and when one counts as stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisionSettings {
    /// The most restarts of its actors that the supervisor of a group makes within `window`. At the
    /// next failure within it the supervisor gives up, which is a failure of the group.
    pub actor_restarts: usize,
    /// The most restarts of its children that the root makes within `window`: of the groups and of
    /// the actors outside of groups, counted together. At the next failure within it the service
    /// ends. Within one window the registry's actors are therefore restarted at most
    /// (`group_restarts` + 1) × `actor_restarts` times, by as many successive supervisors.
    pub group_restarts: usize,
    /// The time within which restarts are counted.
    pub window: Duration,
    /// How long a supervisor waits before the first restart within `window`. Before each further
    /// one it waits twice as long as before the last.
    pub first_pause: Duration,
    /// The longest that a supervisor waits before a restart.
    pub longest_pause: Duration,
    /// An actor that has given no answer for this long or longer makes the service not ready.
    pub unready_after: Duration,
    /// An actor that has given no answer for this long or longer has failed the service.
    pub stuck_after: Duration,
}

impl Default for SupervisionSettings {
    /// Restarts at once: an actor that is down keeps calls waiting.
    fn default() -> Self {
        Self {
            actor_restarts: 10,
            group_restarts: 3,
            window: Duration::from_secs(60),
            first_pause: Duration::ZERO,
            longest_pause: Duration::ZERO,
            unready_after: UNREADY_AFTER,
            stuck_after: STUCK_AFTER,
        }
    }
}

impl SupervisionSettings {
    /// How long to wait before the `number`th restart within a window, counted from one.
    pub(super) fn pause(&self, number: usize) -> Duration {
        let doublings = u32::try_from(number.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first_pause.saturating_mul(factor).min(self.longest_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = Duration::from_secs;
        let settings = SupervisionSettings {
            first_pause: seconds(1),
            longest_pause: seconds(5),
            ..SupervisionSettings::default()
        };
        let pauses = [1, 2, 3, 4, 40].map(|number| settings.pause(number));
        assert_eq!(pauses, [seconds(1), seconds(2), seconds(4), seconds(5), seconds(5)]);
        assert_eq!(SupervisionSettings::default().pause(7), Duration::ZERO, "by default there is no pause");
    }
}
