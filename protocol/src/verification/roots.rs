//! Trusted roots: roots that come from the configuration or the operator, not from this registry.

use std::collections::BTreeSet;

use super::identity::{Environment, ProofKind};
use crate::encode_fields;
use crate::time::UnixSeconds;
use crate::tree::{Node, Root};

/// A root that proofs can be made against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrustedRoot {
    /// The environment whose proofs the root is for.
    pub environment: Environment,
    /// The kind of proofs that the root is for.
    pub kind: ProofKind,
    /// The time since when the root is known.
    pub time: UnixSeconds,
    /// The root of the tree.
    pub root: Root,
}

encode_fields!(TrustedRoot { environment, kind, time, root } version 1 of "trusted root");

/// The age of a trusted root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootAge {
    /// No younger root of its environment and kind is trusted.
    Newest,
    /// A younger root is trusted; the seconds since this root became known.
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
    /// The age of a root; `None` when it is not trusted. When a root was added several times, its
    /// latest time counts. Every root with the latest time of its environment and kind is the
    /// newest.
    pub fn age(&self, environment: Environment, kind: ProofKind, root: Root, now: UnixSeconds) -> Option<RootAge> {
        let time = self.of(environment, kind).rev().find(|trusted| trusted.root == root)?.time;
        let newest = self.of(environment, kind).next_back()?.time;
        Some(if time == newest { RootAge::Newest } else { RootAge::Seconds(now.since(time)) })
    }

    /// Whether a root is trusted and is the newest, or was followed by a younger one at most
    /// `window` seconds ago, that second included.
    pub fn is_valid(
        &self,
        environment: Environment,
        kind: ProofKind,
        root: Root,
        now: UnixSeconds,
        window: u64,
    ) -> bool {
        let Some(time) = self.of(environment, kind).rev().find(|trusted| trusted.root == root).map(|found| found.time)
        else {
            return false;
        };
        let replaced = self.of(environment, kind).map(|trusted| trusted.time).find(|other| *other > time);
        replaced.is_none_or(|replaced| now <= replaced.plus(window))
    }

    /// All roots, ordered by environment, kind and time.
    pub fn iter(&self) -> impl Iterator<Item = &TrustedRoot> {
        self.roots.iter()
    }

    fn of(&self, environment: Environment, kind: ProofKind) -> impl DoubleEndedIterator<Item = &TrustedRoot> {
        let bound = |time, root| TrustedRoot { environment, kind, time, root };
        self.roots.range(
            bound(UnixSeconds(0), Root(Node::ZERO))..=bound(UnixSeconds(u64::MAX), Root(Node::repeat_byte(0xff))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::U256;

    const HERE: (Environment, ProofKind) = (Environment::Staging, ProofKind::Legacy);

    fn roots(entries: &[(u64, u64)]) -> TrustedRoots {
        let (environment, kind) = HERE;
        let trusted = |&(time, number)| TrustedRoot { environment, kind, time: UnixSeconds(time), root: root(number) };
        entries.iter().map(trusted).collect()
    }

    fn root(number: u64) -> Root {
        Root::from_number(U256::from(number))
    }

    #[test]
    fn the_age_of_a_root_is_the_time_since_it_was_published() {
        let roots = roots(&[(100, 1), (200, 2), (200, 3), (50, 3)]);
        let age = |number, now| roots.age(HERE.0, HERE.1, root(number), UnixSeconds(now));
        assert_eq!(age(1, 150), Some(RootAge::Seconds(50)));
        // The clock of this machine may be behind the operator's clock.
        assert_eq!(age(1, 90), Some(RootAge::Seconds(0)));
        assert_eq!(age(2, 1_000_000), Some(RootAge::Newest));
        assert_eq!(age(3, 1_000_000), Some(RootAge::Newest));
        assert_eq!(age(4, 300), None);
        assert_eq!(roots.age(Environment::Production, HERE.1, root(1), UnixSeconds(300)), None);
        assert_eq!(roots.age(HERE.0, ProofKind::Current, root(1), UnixSeconds(300)), None);
    }

    #[test]
    fn a_replaced_root_is_valid_for_the_validity_window() {
        let roots = roots(&[(100, 1), (200, 2), (300, 3)]);
        let valid = |number, now| roots.is_valid(HERE.0, HERE.1, root(number), UnixSeconds(now), 10);
        for (root, now, expected) in [(1, 210, true), (1, 211, false), (2, 310, true), (2, 311, false)] {
            assert_eq!(valid(root, now), expected, "{root} at {now}");
        }
        assert!(valid(3, u64::MAX) && !valid(4, 0));
    }
}
