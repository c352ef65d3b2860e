//! The roots of one contract over time: how far they were followed, and the first block whose logs
//! are read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::chain::contracts::{Header, RootContract, WindowStart};
use selfsame_protocol::chain::followed::{FollowedRoots, RootHistory, RootRule};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{ChainRecords, KnownFrom, RootSourceRecord, StoreError};

use super::contracts::{ChainError, Freshness, RootSourceSettings};
use super::deployment::Place;
use super::nodes::Nodes;
use crate::clock::Clock;

// How far the roots of one contract were followed, as a step changes it.

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

// Looks for the first block whose logs are read: the first one of the time that roots are kept
// for.
//
// Nodes do not keep all old blocks. That a node does not give a block can also be the failure of a
// moment, so the search goes on as if it were true, and asks again about the block at the end.

/// How often the nodes must deny a block before it counts as one that they do not keep, and for how
/// long, in seconds.
const DENIALS: u32 = 5;
const DENIAL_PATIENCE: u64 = 120;

/// The first block of a contract. Steps that fail, or do not end in time, leave what was found.
#[derive(Default)]
pub(super) struct FirstBlock {
    search: Mutex<Option<(Place, Search)>>,
}

impl FirstBlock {
    /// The first block of the time that roots are kept for, or the configured one. The step fails
    /// while a block that no node gives is to be asked for again.
    pub async fn find(
        &self,
        settings: &RootSourceSettings,
        place: Place,
        nodes: &Nodes,
        head: Header,
        clock: &dyn Clock,
    ) -> Result<KnownFrom, ChainError> {
        const START: &str = "the configured first block";
        const OLD: &str = "an old block";
        let earliest = head.time.minus(settings.reach.as_secs());
        if let Some(start) = settings.start_block {
            let first = match start.min(head.number) {
                start if start == head.number => head,
                start => nodes.block(start, START).await?.ok_or(ChainError::NoBlock(START))?,
            };
            return Ok(from_block(settings, first, earliest));
        }
        loop {
            let now = clock.unix_seconds();
            let begin = || Search::new(earliest, head, settings.blocks_per_question);
            let number = match self.with_search(place, begin, |search| (search.next(now), search.earliest)) {
                (Next::Ask(number), _) => number,
                (Next::Found { first, is_cut: true }, earliest) => return Ok(from_block(settings, first, earliest)),
                // Everything younger than the earliest time is read.
                (Next::Found { first, is_cut: false }, earliest) => {
                    return Ok(KnownFrom { block: first.number, time: earliest });
                }
            };
            let denial = match nodes.block(number, OLD).await {
                Ok(Some(block)) => {
                    self.with_search(place, begin, |search| search.take(block));
                    continue;
                }
                Ok(None) => ChainError::NoOldBlock(number),
                Err(error @ (ChainError::Refused { .. } | ChainError::Disagreement { .. })) => error,
                Err(error) => return Err(error),
            };
            if self.with_search(place, begin, |search| search.deny(number, now)) {
                return Err(denial);
            }
        }
    }

    /// Forgets the search, after something of the contract was read.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    /// Does something with the search for a contract, and begins a search that is missing.
    fn with_search<T>(&self, place: Place, begin: impl FnOnce() -> Search, work: impl FnOnce(&mut Search) -> T) -> T {
        let mut held = self.lock();
        let begun = held.take().filter(|(of, _)| *of == place);
        let (_, search) = held.insert(begun.unwrap_or_else(|| (place, begin())));
        work(search)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Place, Search)>> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Roots are known from a block on. The log says so when that is less than they are kept for.
fn from_block(settings: &RootSourceSettings, first: Header, earliest: UnixSeconds) -> KnownFrom {
    // Before the first block of a chain there is nothing to know.
    let time = if first.number == 0 { UnixSeconds(0) } else { first.time };
    if time > earliest {
        tracing::warn!(
            source = settings.name,
            first_block = first.number,
            missing_seconds = time.since(earliest),
            "roots are known for less time than `reach`, because `start_block` says so or no node gives the blocks \
             before; proofs against older roots are refused"
        );
    }
    KnownFrom { block: first.number, time }
}

/// From when on roots are known, as a sentence, when that is less than `reach` seconds before the
/// newest block.
pub(super) fn missing_history(
    known_from: KnownFrom,
    newest: UnixSeconds,
    reach: u64,
    now: UnixSeconds,
) -> Option<String> {
    let KnownFrom { block, time } = known_from;
    (newest.since(time) < reach).then(|| {
        let known = now.since(time);
        format!(
            "roots are known only from block {block} on, for the last {known} s, and `reach` is {reach} s; proofs \
             against older roots are refused"
        )
    })
}

/// A search for the first block from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Search {
    /// Blocks from before this time are not read.
    earliest: UnixSeconds,
    /// The newest block.
    head: u64,
    /// All blocks below this one are too old.
    old: u64,
    /// All blocks below this one are too old, or were denied.
    low: u64,
    /// The lowest block that is known to be young enough.
    high: Header,
    /// How far below the newest block the next question is about.
    distance: u64,
    /// The block below [`Self::low`] when it was denied: how often, and since when.
    denials: (u32, UnixSeconds),
}

/// What a search needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The block of this height.
    Ask(u64),
    /// Nothing: this is the first block.
    Found {
        first: Header,
        /// Whether younger blocks than the earliest may be below it, which the nodes do not give.
        is_cut: bool,
    },
}

impl Search {
    /// A search for the first block from `earliest` on. It goes back from the newest block in
    /// growing steps, of which the first is `distance` blocks long.
    fn new(earliest: UnixSeconds, head: Header, distance: u64) -> Self {
        let (low, denials) = (0, (0, UnixSeconds(0)));
        Self { earliest, head: head.number, old: low, low, high: head, distance: distance.max(1), denials }
    }

    /// What is needed next, at `now`.
    fn next(&self, now: UnixSeconds) -> Next {
        if self.low < self.high.number {
            let back = self.head.saturating_sub(self.distance);
            let is_step = self.low == 0 && (1..self.high.number).contains(&back);
            let middle = self.low + (self.high.number - self.low) / 2;
            return Next::Ask(if is_step { back } else { middle });
        }
        let (denials, since) = self.denials;
        let is_cut = self.low > self.old;
        let is_believed = denials >= DENIALS && now.since(since) >= DENIAL_PATIENCE;
        if is_cut && !is_believed { Next::Ask(self.low - 1) } else { Next::Found { first: self.high, is_cut } }
    }

    /// Takes over a block that was asked for.
    fn take(&mut self, block: Header) {
        self.distance = self.distance.saturating_mul(2);
        if block.time >= self.earliest {
            self.high = block;
            // What was denied below it may have been the failure of a moment, too.
            self.low = if block.number < self.low { self.old } else { self.low };
        } else {
            self.old = self.old.max(block.number + 1);
            self.low = self.low.max(self.old);
        }
    }

    /// Takes over that no node gave a block, and returns whether the block was denied before, so
    /// that the nodes need time until they are asked again.
    fn deny(&mut self, number: u64, now: UnixSeconds) -> bool {
        self.distance = self.distance.saturating_mul(2);
        let is_again = number < self.low;
        if is_again {
            self.denials.0 += 1;
        } else {
            self.low = number + 1;
            self.denials = (1, now);
        }
        is_again
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::B256;

    use super::super::root_history::*;

    /// Blocks 0 to 999, one each two seconds.
    fn block(number: u64) -> Header {
        Header { number, hash: B256::ZERO, time: UnixSeconds(1000 + 2 * number) }
    }

    fn search(earliest: u64) -> Search {
        Search::new(block(earliest).time, block(999), 100)
    }

    /// Asks until the first block is found, with ten seconds after a block that was denied again.
    /// `denies` says whether a question, by its number, is denied.
    fn find(search: &mut Search, mut denies: impl FnMut(u64, u32) -> bool) -> (u64, bool, u32) {
        let (mut now, mut asked) = (UnixSeconds(5000), 0);
        loop {
            assert!(asked < 200, "{search:?}");
            match search.next(now) {
                Next::Found { first, is_cut } => return (first.number, is_cut, asked),
                Next::Ask(number) => {
                    asked += 1;
                    match denies(number, asked) {
                        true => now = now.plus(if search.deny(number, now) { 10 } else { 0 }),
                        false => search.take(block(number)),
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_block_of_a_time_is_found_in_few_questions() {
        for earliest in [0, 1, 2, 499, 500, 898, 899, 900, 998, 999] {
            let (first, is_cut, asked) = find(&mut search(earliest), |_, _| false);
            assert_eq!((first, is_cut), (earliest, false));
            assert!(asked <= 15, "{earliest}: {asked}");
        }
        // Older than the chain.
        let mut all = Search::new(UnixSeconds(1), block(999), 100);
        assert_eq!(find(&mut all, |_, _| false).0, 0);
    }

    #[test]
    fn any_denials_of_a_moment_change_nothing() {
        for earliest in [0, 1, 300, 899, 998] {
            for first in 1..15 {
                for count in 1..5 {
                    let found = find(&mut search(earliest), |_, asked| (first..first + count).contains(&asked));
                    assert_eq!((found.0, found.1), (earliest, false), "{first} {count}");
                }
            }
            // Every third question.
            let found = find(&mut search(earliest), |_, asked| asked.is_multiple_of(3));
            assert_eq!((found.0, found.1), (earliest, false));
        }
    }

    #[test]
    fn blocks_that_are_denied_for_long_are_not_kept() {
        for kept in [1, 301, 950, 999] {
            let (first, is_cut, asked) = find(&mut search(0), |number, _| number < kept);
            assert_eq!((first, is_cut), (kept, true));
            assert!((12..40).contains(&asked), "{asked}");
        }
        // A block that is too old anyway may be missing.
        let (first, is_cut, _) = find(&mut search(300), |number, _| number < 200);
        assert_eq!((first, is_cut), (300, false));
    }
}
