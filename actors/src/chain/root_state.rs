//! How far the roots of one contract were followed, as a step changes it.

use std::collections::VecDeque;
use std::sync::Arc;

use selfsame_protocol::chain::contracts::{Header, RootContract, WindowStart};
use selfsame_protocol::chain::followed::{FollowedRoots, RootHistory, RootRule};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{ChainRecords, KnownFrom, RootSourceRecord, StoreError};

use super::place::Place;
use super::settings::{Freshness, RootSourceSettings};

/// What a step changes.
pub(super) struct RootState {
    pub place: Place,
    pub history: Arc<RootHistory>,
    /// The last block whose logs were read.
    pub read: Option<Header>,
    /// Earlier values of [`Self::read`], the latest last.
    pub read_before: VecDeque<Header>,
    /// From where on roots are read; `None` before the first block was found.
    pub known_from: Option<KnownFrom>,
    /// The newest block at which the history was complete.
    pub confirmed: Option<Header>,
    /// [`Self::confirmed`] as it is stored.
    pub stored: Option<Header>,
    pub rule: Option<Rule>,
}

/// How long the contract accepts a root, and when it was asked.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub window: u64,
    pub start: WindowStart,
    pub read_at: UnixSeconds,
}

impl RootState {
    /// The state before anything was read.
    pub fn empty(place: Place) -> Self {
        Self {
            place,
            history: Arc::default(),
            read: None,
            read_before: VecDeque::new(),
            known_from: None,
            confirmed: None,
            stored: None,
            rule: None,
        }
    }

    /// The state as it is stored.
    pub fn load(records: &ChainRecords, place: Place) -> Result<Self, StoreError> {
        let id = place.id;
        let Some(record) = records.root_source(id)? else { return Ok(Self::empty(place)) };
        let RootSourceRecord { known_from, read, confirmed, rule } = record;
        Ok(Self {
            history: Arc::new(RootHistory::from_stored(records.published_roots(id)?)),
            read: Some(read),
            known_from: Some(known_from),
            confirmed,
            stored: confirmed,
            rule: rule.map(|(window, start)| Rule { window, start, read_at: UnixSeconds(0) }),
            ..Self::empty(place)
        })
    }

    /// How far the contract is followed; `None` before the first block was read.
    pub fn record(&self) -> Option<RootSourceRecord> {
        let rule = self.rule.map(|Rule { window, start, .. }| (window, start));
        let (known_from, read) = self.known_from.zip(self.read)?;
        Some(RootSourceRecord { known_from, read, confirmed: self.confirmed, rule })
    }

    /// The roots, as verification reads them.
    pub fn followed(&self, settings: &RootSourceSettings) -> FollowedRoots {
        let unread = unread(settings);
        let start = self.rule.map_or(WindowStart::Recorded, |rule| rule.start);
        FollowedRoots {
            rule: if unread.is_current() { RootRule::Current { start } } else { unread.rule },
            window: self.rule.map_or(0, |rule| rule.window),
            confirmed: self.confirmed,
            history: Arc::clone(&self.history),
            ..unread
        }
    }
}

/// What verification reads before the contract was located.
pub(super) fn unread(settings: &RootSourceSettings) -> FollowedRoots {
    let Freshness { stale_after, fresh_for, .. } = settings.freshness;
    FollowedRoots {
        source: settings.name.as_str().into(),
        environment: settings.environment,
        rule: match settings.contract {
            RootContract::Registry => RootRule::Current { start: WindowStart::Recorded },
            RootContract::IdentityManager | RootContract::Bridge => {
                RootRule::Legacy { of: settings.identifiers.clone() }
            }
        },
        window: 0,
        stale_after: stale_after.as_secs(),
        fresh_for: fresh_for.as_secs(),
        confirmed: None,
        history: Arc::default(),
    }
}
