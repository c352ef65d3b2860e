//! What every part of a service is started with, whatever it does.

use std::sync::Arc;

use selfsame_storage::FaultScope;

use super::notify::Announcer;
use super::tasks::Blocking;
use crate::clock::{Clock, Random};
#[cfg(test)]
use crate::clock::{SystemClock, SystemRandom};

/// What every part of a service is started with, beside its own settings. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// [`crate::Settings::instance`] of the service.
    pub instance: Arc<str>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Where blocking work runs.
    pub blocking: Blocking,
    /// Tells embedders what happens.
    pub announcer: Announcer,
}

impl Surroundings {
    /// The name of an actor of the service, from its name within the service.
    pub fn name_of(&self, actor: &str) -> String {
        format!("{}/{actor}", self.instance)
    }

    /// The scope in which the service passes its fault points.
    pub fn fault_scope(&self) -> FaultScope {
        FaultScope::of_instance(&self.instance)
    }

    /// The system's time and random bytes, for a test.
    #[cfg(test)]
    pub fn for_test(instance: &str) -> Self {
        Self {
            instance: instance.into(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            blocking: Blocking::default(),
            announcer: Announcer::default(),
        }
    }
}
