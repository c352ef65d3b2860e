//! Trusted roots: roots that come from the configuration or the operator, not from this registry.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::identity::{Environment, LegacyIdentifier, ProofKind};
use super::request::MAX_AGE;
use crate::encode_fields;
use crate::time::UnixSeconds;
use crate::tree::Root;

/// How far the time of a trusted root may be ahead of the service's clock, in seconds: clocks of
/// different machines differ.
const CLOCK_TOLERANCE: u64 = 60;

/// Whether the time of a root is too far ahead of `now` to be trusted: the root would stay the
/// newest, and make the genuine newest root age.
pub fn is_ahead(time: UnixSeconds, now: UnixSeconds) -> bool {
    time > now.plus(CLOCK_TOLERANCE)
}

/// What a trusted root is found by. Equal roots of one environment and kind are one root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RootKey {
    /// The environment whose proofs the root is for.
    pub environment: Environment,
    /// The kind of proofs that the root is for.
    pub kind: ProofKind,
    /// The root of the tree.
    pub root: Root,
}

encode_fields!(RootKey { environment, kind, root });

/// Why the credentials of a trusted root do not go with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifiersError {
    /// A legacy root without credentials.
    #[error("is missing; name the credentials that all members of the root's tree have: [\"orb\"]")]
    Missing,
    /// A current root with credentials.
    #[error("is for legacy roots only; a current proof names its issuer instead")]
    NotLegacy,
}

/// Checks that a legacy root names credentials, and a current one none.
pub fn check_identifiers(kind: ProofKind, identifiers: &[LegacyIdentifier]) -> Result<(), IdentifiersError> {
    match (kind, identifiers.is_empty()) {
        (ProofKind::Legacy, true) => Err(IdentifiersError::Missing),
        (ProofKind::Current, false) => Err(IdentifiersError::NotLegacy),
        (ProofKind::Legacy, false) | (ProofKind::Current, true) => Ok(()),
    }
}

/// Since when a root is trusted, and for which credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootTrust {
    /// The time since when the root is known.
    pub time: UnixSeconds,
    /// For a legacy root the credentials that all members of its tree have, at least one. In the
    /// public system each has a tree of its own, and nothing in a proof says which tree it is from.
    /// Empty for a current root, whose proofs name their issuer.
    pub identifiers: Vec<LegacyIdentifier>,
}

encode_fields!(RootTrust { time, identifiers });

/// A root that proofs can be made against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedRoot {
    /// What it is found by.
    pub key: RootKey,
    /// Since when it is trusted, and for which credentials.
    pub trust: RootTrust,
}

/// What the operator decided about a root while the service ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootDecision {
    /// `None` when the operator took the root back. It is then not trusted, also when the
    /// configuration lists it.
    pub trust: Option<RootTrust>,
}

encode_fields!(RootDecision { trust } version 1 of "decision about a root");

/// The age of a trusted root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootAge {
    /// No younger root is trusted for the same environment and identifier: the root has no age.
    Newest,
    /// The seconds since a younger root took its place.
    Seconds(u64),
}

/// Why a legacy root does not count for a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UntrustedRoot {
    /// The root is not trusted in the environment.
    Unknown,
    /// The root is not trusted in the environment, and the contract that publishes the roots of the
    /// credential has not published it, or more than seven days ago.
    Unpublished {
        /// The contract's name.
        source_name: Arc<str>,
    },
    /// The root is trusted, for these other credentials.
    OtherIdentifiers(Vec<LegacyIdentifier>),
}

/// A set of trusted roots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedRoots {
    roots: HashMap<RootKey, RootTrust>,
    /// The roots that the operator took back.
    removed: HashSet<RootKey>,
    /// The times of the legacy roots of each environment and identifier.
    legacy_times: BTreeSet<(Environment, LegacyIdentifier, UnixSeconds)>,
    /// The times of the current roots of each environment.
    current_times: BTreeSet<(Environment, UnixSeconds)>,
}

impl TrustedRoots {
    /// The roots of the configuration, changed by what the operator decided. A decision about a
    /// root of the configuration replaces it.
    pub fn new(
        configured: impl IntoIterator<Item = TrustedRoot>,
        decisions: impl IntoIterator<Item = (RootKey, RootDecision)>,
    ) -> Self {
        let mut roots: HashMap<_, _> = configured.into_iter().map(|TrustedRoot { key, trust }| (key, trust)).collect();
        let mut removed = HashSet::new();
        for (key, decision) in decisions {
            match decision.trust {
                Some(trust) => drop(roots.insert(key, trust)),
                None => {
                    roots.remove(&key);
                    removed.insert(key);
                }
            }
        }
        let mut trusted = Self { roots, removed, ..Self::default() };
        for (RootKey { environment, kind, .. }, RootTrust { time, identifiers }) in &trusted.roots {
            if *kind == ProofKind::Current {
                trusted.current_times.insert((*environment, *time));
            }
            for identifier in identifiers {
                trusted.legacy_times.insert((*environment, *identifier, *time));
            }
        }
        trusted
    }

    /// The age of a legacy root among those of its environment that are trusted for `identifier`.
    /// Each of them with the latest time is the newest, unless a root that is not in this set is
    /// younger: `first_followed_after` gives the time of the first root that a chain has for the
    /// identifier after a time.
    ///
    /// # Errors
    /// The root is not trusted in the environment, or not for the identifier.
    pub fn legacy_age(
        &self,
        environment: Environment,
        identifier: LegacyIdentifier,
        root: Root,
        now: UnixSeconds,
        first_followed_after: impl FnOnce(UnixSeconds) -> Option<UnixSeconds>,
    ) -> Result<RootAge, UntrustedRoot> {
        let key = RootKey { environment, kind: ProofKind::Legacy, root };
        let RootTrust { time, identifiers } = self.roots.get(&key).ok_or(UntrustedRoot::Unknown)?;
        if !identifiers.contains(&identifier) {
            return Err(UntrustedRoot::OtherIdentifiers(identifiers.clone()));
        }
        let own = self.legacy_replacement(environment, identifier, *time);
        let replaced_at = own.into_iter().chain(first_followed_after(*time)).min();
        Ok(replaced_at.map_or(RootAge::Newest, |replaced_at| RootAge::Seconds(now.since(replaced_at))))
    }

    /// The time of the first legacy root for an identifier after a time.
    fn legacy_replacement(
        &self,
        environment: Environment,
        identifier: LegacyIdentifier,
        time: UnixSeconds,
    ) -> Option<UnixSeconds> {
        let later = (environment, identifier, time.plus(1))..=(environment, identifier, UnixSeconds::NEVER);
        self.legacy_times.range(later).next().map(|(.., replaced_at)| *replaced_at)
    }

    /// Whether a current root is trusted and is the newest of its environment, or was followed by a
    /// younger one at most `window` seconds ago, that second included.
    pub fn is_current(&self, environment: Environment, root: Root, now: UnixSeconds, window: u64) -> bool {
        let trusted_since = self.current_since(environment, root);
        trusted_since.is_some_and(|time| !self.is_replaced(environment, time, now, window))
    }

    /// The time of a current root; `None` when it is not trusted.
    pub fn current_since(&self, environment: Environment, root: Root) -> Option<UnixSeconds> {
        self.roots.get(&RootKey { environment, kind: ProofKind::Current, root }).map(|trust| trust.time)
    }

    /// Whether a current root of `time` was replaced more than `window` seconds ago.
    fn is_replaced(&self, environment: Environment, time: UnixSeconds, now: UnixSeconds, window: u64) -> bool {
        let later = (environment, time.plus(1))..=(environment, UnixSeconds::NEVER);
        self.current_times.range(later).next().is_some_and(|(_, replaced)| now > replaced.plus(window))
    }

    /// Whether a root is trusted but no proof against it can pass from now on: it was replaced
    /// longer ago than every request allows. `window` is that of [`Self::is_current`].
    pub fn is_outdated(&self, key: &RootKey, now: UnixSeconds, window: u64) -> bool {
        let Some(RootTrust { time, identifiers }) = self.roots.get(key) else { return false };
        match key.kind {
            ProofKind::Current => self.is_replaced(key.environment, *time, now, window),
            ProofKind::Legacy => {
                let is_over = |replaced_at: UnixSeconds| now.since(replaced_at) > *MAX_AGE.end();
                let replaced_at = |of: &LegacyIdentifier| self.legacy_replacement(key.environment, *of, *time);
                identifiers.iter().all(|identifier| replaced_at(identifier).is_some_and(is_over))
            }
        }
    }

    /// Whether the operator took a root back, so that it is not trusted wherever it comes from.
    pub fn is_removed(&self, key: &RootKey) -> bool {
        self.removed.contains(key)
    }

    /// Whether a root is trusted.
    pub fn contains(&self, key: &RootKey) -> bool {
        self.roots.contains_key(key)
    }

    /// All roots, ordered by environment, kind, time and root.
    pub fn to_vec(&self) -> Vec<TrustedRoot> {
        let listed = |(key, trust): (&RootKey, &RootTrust)| TrustedRoot { key: *key, trust: trust.clone() };
        let mut all: Vec<_> = self.roots.iter().map(listed).collect();
        all.sort_by_key(|TrustedRoot { key, trust }| (key.environment, key.kind, trust.time, key.root));
        all
    }
}

#[cfg(test)]
mod tests {
    use LegacyIdentifier::{Device, Orb};

    use super::*;
    use crate::U256;

    const HERE: Environment = Environment::Staging;
    const WINDOW: u64 = 10;

    fn root(number: u64) -> Root {
        Root::from_number(U256::from(number))
    }

    fn key(kind: ProofKind, number: u64) -> RootKey {
        RootKey { environment: HERE, kind, root: root(number) }
    }

    fn legacy(time: u64, number: u64, identifiers: &[LegacyIdentifier]) -> TrustedRoot {
        let trust = RootTrust { time: UnixSeconds(time), identifiers: identifiers.to_vec() };
        TrustedRoot { key: key(ProofKind::Legacy, number), trust }
    }

    fn current(time: u64, number: u64) -> TrustedRoot {
        let trust = RootTrust { time: UnixSeconds(time), identifiers: Vec::new() };
        TrustedRoot { key: key(ProofKind::Current, number), trust }
    }

    fn decided(root: TrustedRoot) -> (RootKey, RootDecision) {
        (root.key, RootDecision { trust: Some(root.trust) })
    }

    #[test]
    fn a_root_may_be_a_minute_ahead() {
        for (time, expected) in [(0, false), (160, false), (161, true), (u64::MAX, true)] {
            assert_eq!(is_ahead(UnixSeconds(time), UnixSeconds(100)), expected, "{time}");
        }
    }

    #[test]
    fn the_age_of_a_legacy_root_is_the_time_since_it_was_replaced() {
        let roots = TrustedRoots::new([legacy(100, 1, &[Orb]), legacy(200, 2, &[Orb]), legacy(200, 3, &[Orb])], []);
        let age = |number, now| roots.legacy_age(HERE, Orb, root(number), UnixSeconds(now), |_| None);
        assert_eq!(age(1, 250), Ok(RootAge::Seconds(50)));
        // The clock of this machine may be behind the operator's clock.
        assert_eq!(age(1, 90), Ok(RootAge::Seconds(0)));
        assert_eq!(age(2, 1_000_000), Ok(RootAge::Newest));
        assert_eq!(age(3, 1_000_000), Ok(RootAge::Newest));
        assert_eq!(age(4, 300), Err(UntrustedRoot::Unknown));
        // A younger root that a chain has makes the others age; the first one after each counts.
        let beside = |number, followed: u64| {
            let followed = UnixSeconds(followed);
            let first_after = |time| (followed > time).then_some(followed);
            roots.legacy_age(HERE, Orb, root(number), UnixSeconds(250), first_after)
        };
        for (number, followed, expected) in [
            (2, 200, RootAge::Newest),
            (2, 201, RootAge::Seconds(49)),
            (1, 100, RootAge::Seconds(50)),
            (1, 150, RootAge::Seconds(100)),
            (1, 230, RootAge::Seconds(50)),
        ] {
            assert_eq!(beside(number, followed), Ok(expected), "{number} {followed}");
        }
        let elsewhere = roots.legacy_age(Environment::Production, Orb, root(1), UnixSeconds(300), |_| None);
        assert_eq!(elsewhere, Err(UntrustedRoot::Unknown));
        assert!(!roots.is_current(HERE, root(2), UnixSeconds(300), WINDOW));
    }

    #[test]
    fn a_legacy_root_counts_for_its_own_credentials_only() {
        let roots = TrustedRoots::new([legacy(100, 1, &[Orb]), legacy(200, 2, &[Device])], []);
        let age =
            |identifier, number| roots.legacy_age(HERE, identifier, root(number), UnixSeconds(1_000_000), |_| None);
        assert_eq!(age(Orb, 1), Ok(RootAge::Newest));
        assert_eq!(age(Device, 2), Ok(RootAge::Newest));
        assert_eq!(age(Orb, 2), Err(UntrustedRoot::OtherIdentifiers(vec![Device])));
        assert_eq!(age(Device, 1), Err(UntrustedRoot::OtherIdentifiers(vec![Orb])));
    }

    #[test]
    fn a_replaced_current_root_is_valid_for_the_validity_window() {
        let roots = TrustedRoots::new([current(100, 1), current(200, 2), current(300, 3)], []);
        let valid = |number, now| roots.is_current(HERE, root(number), UnixSeconds(now), WINDOW);
        for (root, now, expected) in [(1, 210, true), (1, 211, false), (2, 310, true), (2, 311, false)] {
            assert_eq!(valid(root, now), expected, "{root} at {now}");
        }
        assert!(valid(3, u64::MAX) && !valid(4, 0));
    }

    #[test]
    fn a_decision_of_the_operator_replaces_the_configuration() {
        let configured = [legacy(100, 1, &[Orb]), legacy(100, 2, &[Orb])];
        let removed = (key(ProofKind::Legacy, 1), RootDecision { trust: None });
        let roots = TrustedRoots::new(configured.clone(), [removed, decided(legacy(300, 2, &[Device]))]);
        assert_eq!(roots.to_vec(), [legacy(300, 2, &[Device])]);
        // A root that was taken back does not make another one older.
        let removed = (key(ProofKind::Legacy, 4), RootDecision { trust: None });
        let roots = TrustedRoots::new([legacy(900, 4, &[Orb])], [removed, decided(legacy(50, 3, &[Orb]))]);
        assert_eq!(roots.legacy_age(HERE, Orb, root(3), UnixSeconds(1_000_000), |_| None), Ok(RootAge::Newest));
        assert_eq!(TrustedRoots::new(configured.clone(), []).to_vec(), configured);
    }

    #[test]
    fn a_root_is_outdated_when_no_proof_against_it_can_pass() {
        let week = *MAX_AGE.end();
        let roots = [legacy(100, 1, &[Orb, Device]), legacy(200, 2, &[Orb]), current(100, 5), current(200, 6)];
        let trusted = TrustedRoots::new(roots, []);
        let outdated = |trusted: &TrustedRoots, kind, number, now| {
            trusted.is_outdated(&key(kind, number), UnixSeconds(now), WINDOW)
        };
        // Root 1 is still the newest of the tree of devices.
        assert!(!outdated(&trusted, ProofKind::Legacy, 1, u64::MAX));
        let trusted = TrustedRoots::new(trusted.to_vec(), [decided(legacy(150, 3, &[Device]))]);
        for (kind, number, now, expected) in [
            (ProofKind::Legacy, 1, 200 + week, false),
            (ProofKind::Legacy, 1, 201 + week, true),
            (ProofKind::Legacy, 2, u64::MAX, false),
            (ProofKind::Legacy, 9, u64::MAX, false),
            (ProofKind::Current, 5, 210, false),
            (ProofKind::Current, 5, 211, true),
            (ProofKind::Current, 6, u64::MAX, false),
        ] {
            assert_eq!(outdated(&trusted, kind, number, now), expected, "{kind:?} {number} at {now}");
        }
    }
}
