//! The instances whose points are passed, by their names.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use super::step::Points;

/// Visits in every scope, and the steps of plans for the whole process.
pub(super) static PROCESS: Points = Points::new();

/// The scopes with one name share this.
#[derive(Debug)]
pub(super) struct Instance {
    pub name: String,
    pub points: Points,
}

impl Instance {
    /// The instance with this name: the present one, or another one when no scope is left of it.
    pub fn with_name(name: &str) -> Arc<Self> {
        static INSTANCES: LazyLock<Mutex<HashMap<String, Weak<Instance>>>> = LazyLock::new(Mutex::default);
        let mut instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = instances.get(name).and_then(Weak::upgrade) {
            return present;
        }
        // A program may start very many services, each with a name of its own.
        instances.retain(|_, instance| instance.strong_count() > 0);
        let instance = Arc::new(Self { name: name.to_owned(), points: Points::new() });
        instances.insert(name.to_owned(), Arc::downgrade(&instance));
        instance
    }
}
