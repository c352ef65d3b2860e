//! Steps that are retried while they fail: a full disk, a record that cannot be read.
//!
//! An actor whose step fails does not stop. It records the failure, retries after
//! [`RETRY_INTERVAL`], and continues when the step succeeds. Until then the registry refuses
//! requests; reads continue.

use std::fmt::Display;
use std::time::Duration;

use arc_swap::ArcSwapOption;

/// Time from a failure to the next attempt.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// A step that is retried while it fails.
pub(crate) struct RetriedStep {
    name: &'static str,
    failure: ArcSwapOption<String>,
}

impl RetriedStep {
    /// A step that has not failed. `name` completes "… fails".
    pub fn new(name: &'static str) -> Self {
        Self { name, failure: ArcSwapOption::empty() }
    }

    /// Records a failure. It is logged only when the step worked before.
    pub fn record_failure(&self, error: &dyn Display) {
        if self.failure.load().is_none() {
            tracing::error!(step = self.name, %error, "a step failed and is retried");
        }
        self.failure.store(Some(error.to_string().into()));
    }

    /// Records that the step succeeded.
    pub fn record_success(&self) {
        if self.failure.load().is_some() {
            tracing::info!(step = self.name, "a step works again");
            self.failure.store(None);
        }
    }

    /// The step's name while it fails; `None` while it works.
    pub fn failing(&self) -> Option<&'static str> {
        self.failure.load().as_ref().map(|_| self.name)
    }

    /// The step and its failure, for operators; `None` while it works.
    pub fn describe_failure(&self) -> Option<String> {
        self.failure.load().as_ref().map(|error| format!("{} fails: {error}", self.name))
    }
}
