//! Steps that fail and are tried again: a full disk, a record that cannot be read.
//!
//! An actor that met such a failure does not die of it. It says what is wrong, tries again after [`RETRY`], and goes on where it was
//! when the cause is gone. Until then the registry takes no requests; reading goes on.

use std::time::Duration;

use arc_swap::ArcSwapOption;
use selfsame_storage::StoreError;

/// How long a failed step rests.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

/// A step that is tried again as long as it fails.
pub(crate) struct Step {
    name: &'static str,
    failure: ArcSwapOption<StoreError>,
}

impl Step {
    pub fn new(name: &'static str) -> Self {
        Self { name, failure: ArcSwapOption::empty() }
    }

    /// It failed; only the first failure in a row is logged.
    pub fn failed(&self, error: StoreError) {
        if self.failure.load().is_none() {
            tracing::error!(step = self.name, %error, "a step of the registry failed and is tried again");
        }
        self.failure.store(Some(error.into()));
    }

    /// It succeeded.
    pub fn succeeded(&self) {
        if self.failure.load().is_some() {
            tracing::info!(step = self.name, "a step of the registry works again");
            self.failure.store(None);
        }
    }

    /// Its name, if it fails at the moment.
    pub fn failing(&self) -> Option<&'static str> {
        self.failure.load().as_ref().map(|_| self.name)
    }

    /// What is wrong with it, for operators.
    pub fn trouble(&self) -> Option<String> {
        self.failure.load().as_ref().map(|error| format!("{} fails: {error}", self.name))
    }
}
