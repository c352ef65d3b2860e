//! Trusted roots: those that come from configuration or the operator, not from this registry.

use std::collections::BTreeSet;

use super::identity::{Environment, ProofKind};
use crate::{U256, encode_fields};

/// A root that proofs may be made against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrustedRoot {
    pub environment: Environment,
    pub kind: ProofKind,
    /// Since when it is known, Unix seconds.
    pub time: u64,
    pub root: U256,
}

encode_fields!(TrustedRoot { environment, kind, time, root } version 1 of "trusted root");

/// How old a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootAge {
    /// No younger one is trusted.
    Newest,
    /// A younger one is; so many seconds have passed since this one became known.
    Seconds(u64),
}

/// A set of trusted roots, in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedRoots {
    roots: BTreeSet<TrustedRoot>,
}

impl FromIterator<TrustedRoot> for TrustedRoots {
    fn from_iter<T: IntoIterator<Item = TrustedRoot>>(roots: T) -> Self {
        Self { roots: roots.into_iter().collect() }
    }
}

impl TrustedRoots {
    /// The age of a root; `None` when it is not trusted. Of a root with several times the latest counts, and roots with the
    /// latest time of all are all the newest.
    pub fn age(&self, environment: Environment, kind: ProofKind, root: &U256, now: u64) -> Option<RootAge> {
        let time = self.of(environment, kind).rev().find(|trusted| trusted.root == *root)?.time;
        let newest = self.of(environment, kind).next_back()?.time;
        Some(if time == newest { RootAge::Newest } else { RootAge::Seconds(now.saturating_sub(time)) })
    }

    /// Whether a root is the newest or was replaced by a younger one at most `window` seconds ago.
    pub fn is_valid(&self, environment: Environment, kind: ProofKind, root: &U256, now: u64, window: u64) -> bool {
        let Some(time) = self.of(environment, kind).rev().find(|trusted| trusted.root == *root).map(|found| found.time)
        else {
            return false;
        };
        let replaced = self.of(environment, kind).map(|trusted| trusted.time).find(|other| *other > time);
        replaced.is_none_or(|replaced| now <= replaced.saturating_add(window))
    }

    /// All of them, by environment, kind and time.
    pub fn iter(&self) -> impl Iterator<Item = &TrustedRoot> {
        self.roots.iter()
    }

    fn of(&self, environment: Environment, kind: ProofKind) -> impl DoubleEndedIterator<Item = &TrustedRoot> {
        let bound = |time, root| TrustedRoot { environment, kind, time, root };
        self.roots.range(bound(0, U256::ZERO)..=bound(u64::MAX, U256::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: (Environment, ProofKind) = (Environment::Staging, ProofKind::Legacy);

    fn roots(entries: &[(u64, u64)]) -> TrustedRoots {
        let (environment, kind) = HERE;
        let root = |(time, root): &(u64, u64)| TrustedRoot { environment, kind, time: *time, root: U256::from(*root) };
        entries.iter().map(root).collect()
    }

    #[test]
    fn ages() {
        let roots = roots(&[(100, 1), (200, 2), (200, 3), (50, 3)]);
        let age = |root: u64, now| roots.age(HERE.0, HERE.1, &U256::from(root), now);
        assert_eq!(age(1, 150), Some(RootAge::Seconds(50)));
        // The clock may be behind the operator's.
        assert_eq!(age(1, 90), Some(RootAge::Seconds(0)));
        assert_eq!(age(2, 1_000_000), Some(RootAge::Newest));
        assert_eq!(age(3, 1_000_000), Some(RootAge::Newest));
        assert_eq!(age(4, 300), None);
        assert_eq!(roots.age(Environment::Production, HERE.1, &U256::from(1), 300), None);
        assert_eq!(roots.age(HERE.0, ProofKind::Current, &U256::from(1), 300), None);
    }

    #[test]
    fn validity() {
        let roots = roots(&[(100, 1), (200, 2), (300, 3)]);
        let valid = |root: u64, now| roots.is_valid(HERE.0, HERE.1, &U256::from(root), now, 10);
        for (root, now, expected) in [(1, 210, true), (1, 211, false), (2, 310, true), (2, 311, false)] {
            assert_eq!(valid(root, now), expected, "{root} at {now}");
        }
        assert!(valid(3, u64::MAX) && !valid(4, 0));
    }
}
