//! The proofs that wait: the permits of a request's proofs, bounded for all, for each source and
//! for the networks around it; the order in which waiting proofs are checked, and which of them are
//! checked together.
//!
//! Every origin has a queue of its own, and the origins take turns. In a turn a suspect origin gets
//! [`MOST_ALONE`] proofs checked, another origin at most a batch ([`LARGEST_BATCH`]).
//!
//! Proofs of different origins share a batch, because a proof of a good batch costs a third of a
//! proof alone, and less in lanes. In a batch with a false proof each costs up to 1.3 times as much
//! as alone (`docs/benchmarks-parts.md`). That is what the first false proof of an origin costs its
//! neighbours. The origin is then suspect: it shares no batch until good proofs or time outweigh
//! its false ones. While so many origins send a first false proof that sharing does not pay
//! ([`Sharing`]), no batch has proofs of different origins.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::groth16::PreparedKey;
use selfsame_protocol::groth16::check::{SMALLEST_BATCH, SMALLEST_BATCH_IN_LANES};
use selfsame_protocol::shares::{SourceShares, quarter};
use selfsame_storage::Counter;
use tokio::time::Instant;

use super::pool::{Batch, Job};

// The permits of proofs that wait or are checked: bounded for all, for each source, and for the
// networks around it.

/// Where a proof comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// Whether it answers a sign-in.
    pub is_sign_in: bool,
    /// The network of its client (IPv6: its /64); `None` when the caller names no source.
    pub network: Option<IpAddr>,
}

/// The permits of one kind of request. No request waits for a permit.
pub(crate) struct Permits {
    limit: usize,
    /// The most permits of one source.
    share: usize,
    taken: Mutex<SourceShares>,
    /// The requests that were refused since the start because their source has its share.
    pub refused_of_source: Counter,
}

impl Permits {
    /// Permits for `limit` proofs. One source may have a quarter of them, but at least
    /// `largest_request`; [`SourceShares`] has what the networks around it may have.
    pub fn new(limit: usize, largest_request: usize) -> Self {
        let share = quarter(limit).max(largest_request);
        Self { limit, share, taken: Mutex::default(), refused_of_source: Counter::default() }
    }

    /// Takes a permit for each of `count` proofs of a request; `None` when there are not enough for
    /// all of them. A request without a source has only the limit of all.
    pub fn take(permits: &Arc<Self>, source: Option<IpAddr>, count: usize) -> Option<Vec<ProofPermit>> {
        let mut taken = permits.lock();
        if !taken.has_room(count, permits.limit) {
            return None;
        }
        if !taken.has_share(count, source, permits.share) {
            permits.refused_of_source.inc();
            return None;
        }
        taken.take(count, source);
        drop(taken);
        Some((0..count).map(|_| ProofPermit { permits: Arc::clone(permits), source }).collect())
    }

    /// How many permits are taken.
    pub fn taken(&self) -> usize {
        self.lock().all()
    }

    /// How many permits there are.
    pub fn limit(&self) -> usize {
        self.limit
    }

    fn lock(&self) -> MutexGuard<'_, SourceShares> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of one proof, given back when it is dropped.
pub(crate) struct ProofPermit {
    permits: Arc<Permits>,
    source: Option<IpAddr>,
}

impl Drop for ProofPermit {
    fn drop(&mut self) {
        self.permits.lock().give_back(1, self.source);
    }
}

// The order in which waiting proofs are checked.

/// The most proofs that are checked together. Larger batches would hardly lower the cost of a
/// proof, and a false proof would delay more others.
const LARGEST_BATCH: usize = 64;

/// The most proofs in a turn of an origin whose proofs are checked alone.
const MOST_ALONE: usize = 4;

// So few proofs are not checked as a batch.
const _: () = assert!(MOST_ALONE < SMALLEST_BATCH && MOST_ALONE < SMALLEST_BATCH_IN_LANES);

/// How many good proofs a false one outweighs.
const WEIGHT_OF_FALSE_PROOF: u32 = 16;

/// The most weight that an origin collects.
const MOST_WEIGHT: u32 = 1024;

/// How long an origin is suspect after its last false proof, at most.
const SUSPECT_FOR: Duration = Duration::from_secs(60);

/// The most suspects that are remembered. The false proofs of further origins count for
/// [`Sharing`], which then ends.
const MOST_SUSPECTS: usize = 10_000;

/// The waiting proofs, and what is known of their origins.
#[derive(Default)]
pub(crate) struct FairQueue {
    /// In the order of their turns; none is empty.
    origins: Origins,
    suspects: Suspects,
    sharing: Sharing,
}

type Origins = VecDeque<(Origin, VecDeque<Job>)>;

impl FairQueue {
    /// Adds a proof behind those of the same origin.
    pub fn push(&mut self, job: Job) {
        match self.origins.iter_mut().find(|(origin, _)| *origin == job.origin) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.origins.push_back((job.origin, VecDeque::from([job]))),
        }
    }

    /// Whether no proof waits.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// The next batch for one of `idle_workers` workers; `None` when nothing waits.
    pub fn next_batch(&mut self, now: Instant, idle_workers: usize) -> Option<Batch> {
        // Removes jobs whose callers no longer wait.
        self.origins.retain_mut(|(_, jobs)| {
            jobs.retain(|job| job.deadline > now && !job.reply.is_closed());
            !jobs.is_empty()
        });
        self.suspects.forget_old(now);
        let (first, jobs) = self.origins.front()?;
        let (first, key) = (*first, Arc::clone(&jobs.front()?.key));
        let is_shared = self.sharing.pays();
        // Proofs without a network may be of different clients, so they do not share one either.
        if self.suspects.contains(&first) || (!is_shared && first.network.is_none()) {
            let jobs = take(&mut self.origins, &key, MOST_ALONE, |origin| *origin == first);
            return Some(Batch::new(key, jobs));
        }
        let waiting: usize = self.origins.iter().map(|(_, jobs)| jobs.len()).sum();
        let share = waiting.div_ceil(idle_workers).clamp(1, LARGEST_BATCH);
        let Self { origins, suspects, .. } = self;
        let jobs = take(origins, &key, share, |origin| *origin == first || (is_shared && !suspects.contains(origin)));
        Some(Batch::new(key, jobs))
    }

    /// Records whether proofs of these origins held.
    pub fn record(&mut self, verdicts: impl IntoIterator<Item = (Origin, bool)>, now: Instant) {
        for (origin, holds) in verdicts {
            if !self.suspects.contains(&origin) {
                self.sharing.record(holds);
            }
            self.suspects.record(origin, holds, now);
        }
    }
}

/// Takes at most `most` proofs of a key from the wanted origins, in turns. An origin of which a
/// proof was taken goes to the end.
fn take(origins: &mut Origins, key: &Arc<PreparedKey>, most: usize, is_wanted: impl Fn(&Origin) -> bool) -> Vec<Job> {
    let mut taken = Vec::new();
    let mut passed = VecDeque::new();
    while taken.len() < most {
        let Some((origin, mut jobs)) = origins.pop_front() else { break };
        let is_next = jobs.front().is_some_and(|job| Arc::ptr_eq(&job.key, key));
        if !(is_next && is_wanted(&origin)) {
            passed.push_back((origin, jobs));
            continue;
        }
        taken.extend(jobs.pop_front());
        if !jobs.is_empty() {
            origins.push_back((origin, jobs));
        }
    }
    // The origins that were passed keep their turns.
    passed.append(origins);
    *origins = passed;
    taken
}

/// Whether it pays that origins share batches, by what became of the last proofs that could share
/// one: those of origins that were not suspect. They are counted also while no batch is shared, so
/// sharing begins again as soon as it would pay.
///
/// The verdicts are counted in groups of [`SMALLEST_BATCH`]. When half of such groups have a false
/// proof, three quarters of the batches of twice as many have one, and they cost as much as their
/// proofs alone: 0.75 × 1.3 + 0.25 × 0.3. In lanes sharing would pay a little longer.
#[derive(Default)]
struct Sharing {
    /// Which of the last 64 groups had a false proof; the newest is the lowest bit.
    failed: u64,
    /// Number of verdicts in the group that is not complete.
    count: usize,
    /// Whether that group has a false proof.
    has_false: bool,
}

impl Sharing {
    fn pays(&self) -> bool {
        self.failed.count_ones() <= u64::BITS / 2
    }

    fn record(&mut self, holds: bool) {
        self.count += 1;
        self.has_false |= !holds;
        if self.count == SMALLEST_BATCH {
            self.failed = self.failed << 1 | u64::from(self.has_false);
            (self.count, self.has_false) = (0, false);
        }
    }
}

/// Origins that sent more false proofs than good ones outweigh.
#[derive(Default)]
struct Suspects {
    weights: HashMap<Origin, Suspicion>,
}

struct Suspicion {
    weight: u32,
    last_false: Instant,
}

impl Suspects {
    fn contains(&self, origin: &Origin) -> bool {
        self.weights.contains_key(origin)
    }

    /// Records a verdict. An origin without a network never becomes suspect: its proofs may be of
    /// different clients.
    fn record(&mut self, origin: Origin, holds: bool, now: Instant) {
        let can_be_added = origin.network.is_some() && self.weights.len() < MOST_SUSPECTS;
        match self.weights.get_mut(&origin) {
            Some(suspicion) if holds => {
                suspicion.weight -= 1;
                if suspicion.weight == 0 {
                    self.weights.remove(&origin);
                }
            }
            Some(suspicion) => {
                suspicion.weight = (suspicion.weight + WEIGHT_OF_FALSE_PROOF).min(MOST_WEIGHT);
                suspicion.last_false = now;
            }
            None if !holds && can_be_added => {
                self.weights.insert(origin, Suspicion { weight: WEIGHT_OF_FALSE_PROOF, last_false: now });
            }
            None => {}
        }
    }

    fn forget_old(&mut self, now: Instant) {
        self.weights.retain(|_, suspicion| now.duration_since(suspicion.last_false) < SUSPECT_FOR);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ractor::RpcReplyPort;
    use selfsame_protocol::U256;
    use selfsame_protocol::groth16::simulator::Simulator;
    use selfsame_protocol::groth16::{EncodedClaim, ProofWords};
    use selfsame_protocol::tree::field_element;
    use tokio::sync::oneshot;

    use super::super::pool::ProofVerdict;
    use super::*;

    struct Waiting {
        queue: FairQueue,
        keys: [Arc<PreparedKey>; 2],
        claim: EncodedClaim,
        /// Keeps the callers waiting.
        callers: Vec<oneshot::Receiver<ProofVerdict>>,
    }

    fn origin(last: u8) -> Origin {
        Origin { is_sign_in: false, network: Some(IpAddr::from([192, 0, 2, last])) }
    }

    impl Waiting {
        fn new() -> Self {
            let simulator = Simulator::from_seed(b"queue", 1);
            let scalar = |number: u64| field_element(&U256::from(number)).expect("a field element");
            let proof = simulator.prove(&[scalar(1)], [scalar(2), scalar(3)]).expect("one input");
            let key = || Arc::new(PreparedKey::new(&simulator.verification_key()));
            Self {
                queue: FairQueue::default(),
                keys: [key(), key()],
                claim: EncodedClaim::new(ProofWords::Legacy(proof.to_legacy()), vec![scalar(1)]),
                callers: Vec::new(),
            }
        }

        fn push(&mut self, last: u8, key: usize, count: usize) {
            self.push_of(origin(last), key, count);
        }

        fn push_of(&mut self, origin: Origin, key: usize, count: usize) {
            for _ in 0..count {
                let (reply, caller) = oneshot::channel();
                self.callers.push(caller);
                self.queue.push(Job {
                    key: Arc::clone(&self.keys[key]),
                    claim: self.claim.clone(),
                    origin,
                    queued_at: Instant::now(),
                    deadline: Instant::now() + Duration::from_secs(3600),
                    reply: RpcReplyPort::from(reply),
                    permit: None,
                });
            }
        }

        /// The last bytes of the addresses of the next batch's origins; 0 without a network.
        fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
            let batch = self.queue.next_batch(now, 1)?;
            let last = |origin: &Origin| match origin.network {
                Some(IpAddr::V4(address)) => address.octets()[3],
                _ => 0,
            };
            Some(batch.origins.iter().map(last).collect())
        }

        /// Records groups of verdicts of origins without a network; each has a false one.
        fn record_failed_groups(&mut self, groups: usize, now: Instant) {
            let without_network = Origin { is_sign_in: false, network: None };
            let verdicts = (0..groups * SMALLEST_BATCH).map(|index| (without_network, index % SMALLEST_BATCH > 0));
            self.queue.record(verdicts, now);
        }
    }

    #[tokio::test]
    async fn origins_take_turns_and_share_batches_of_one_key() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        waiting.push(1, 0, 100);
        waiting.push(2, 0, 2);
        waiting.push(3, 1, 3);
        let first = waiting.next(now).expect("a batch");
        assert_eq!((&first[..5], first.len()), (&[1, 2, 1, 2, 1][..], LARGEST_BATCH));
        assert_eq!(waiting.next(now), Some(vec![3; 3]), "the other key has its turn");
        assert_eq!(waiting.next(now), Some(vec![1; 38]));
        assert_eq!(waiting.next(now), None);
        // Nothing is left of callers that no longer wait.
        waiting.push(1, 0, 5);
        waiting.callers.clear();
        assert_eq!(waiting.next(now), None);
    }

    #[tokio::test]
    async fn proofs_of_a_suspect_share_no_batch() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        waiting.queue.record([(origin(1), false), (origin(2), true)], now);
        waiting.push(1, 0, 40);
        waiting.push(2, 0, 40);
        waiting.push(3, 0, 10);
        assert_eq!(waiting.next(now), Some(vec![1; MOST_ALONE]));
        let batch = waiting.next(now).expect("a batch");
        assert!(batch.len() == 50 && !batch.contains(&1), "{batch:?}");
        // Good proofs outweigh the false one.
        waiting.queue.record((0..WEIGHT_OF_FALSE_PROOF).map(|_| (origin(1), true)), now);
        assert_eq!(waiting.next(now), Some(vec![1; 40 - MOST_ALONE]));
        // Otherwise time does.
        waiting.queue.record((0..1000).map(|_| (origin(1), false)), now);
        for (after, expected) in [(Duration::ZERO, MOST_ALONE), (SUSPECT_FOR, 20)] {
            waiting.push(1, 0, 20);
            assert_eq!(waiting.next(now + after), Some(vec![1; expected]));
            waiting.callers.clear();
        }
    }

    #[tokio::test]
    async fn origins_share_batches_until_half_of_them_would_fail() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        let both = |waiting: &mut Waiting| {
            waiting.callers.clear();
            waiting.push(1, 0, 20);
            waiting.push(2, 0, 20);
            waiting.next(now).expect("a batch")
        };
        // False proofs of many networks, each of which becomes suspect, among good ones.
        for last in 100..200 {
            waiting.queue.record((0..80).map(|_| (origin(3), true)).chain([(origin(last), false)]), now);
        }
        assert_eq!(both(&mut waiting).len(), 40, "at most one in 81 proofs is false");
        waiting.record_failed_groups(32, now);
        waiting.queue.record((0..32 * SMALLEST_BATCH).map(|_| (origin(3), true)), now);
        waiting.record_failed_groups(32, now);
        assert_eq!(both(&mut waiting).len(), 40);
        waiting.record_failed_groups(1, now);
        assert_eq!(both(&mut waiting), [1; 20]);
        assert_eq!(waiting.next(now), Some(vec![2; 20]));
        // Good proofs begin it again, not a time.
        waiting.queue.record((0..64 * SMALLEST_BATCH).map(|_| (origin(3), true)), now);
        assert_eq!(both(&mut waiting).len(), 40);
    }

    #[tokio::test]
    async fn proofs_without_a_network_are_checked_together_while_batches_are_shared() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        let without_network = Origin { is_sign_in: false, network: None };
        waiting.queue.record([(without_network, false)], now);
        waiting.push_of(without_network, 0, 40);
        assert_eq!(waiting.next(now), Some(vec![0; 40]), "an origin without a network is not suspect");
        waiting.record_failed_groups(33, now);
        waiting.push_of(without_network, 0, 40);
        assert_eq!(waiting.next(now), Some(vec![0; MOST_ALONE]));
    }

    mod permits {
        use super::super::*;

        #[test]
        fn one_source_takes_a_quarter_of_the_permits() {
            let permits = Arc::new(Permits::new(64, 16));
            let take = |third, count| Permits::take(&permits, Some(IpAddr::from([192, 0, third, 1])), count);
            let of_one = take(1, 16).expect("a quarter");
            assert!(take(1, 1).is_none());
            let of_others: Vec<_> = (2..5).map(|third| take(third, 16).expect("a quarter")).collect();
            assert_eq!(permits.taken(), 64);
            assert!(take(9, 1).is_none() && Permits::take(&permits, None, 1).is_none());
            assert_eq!(permits.refused_of_source.get(), 1, "the others found no permit of all");
            drop(of_one);
            assert!(Permits::take(&permits, None, 17).is_none());
            let without_source = Permits::take(&permits, None, 16).expect("as many as are left");
            drop((of_others, without_source));
            assert_eq!(permits.taken(), 0);
            assert!(permits.lock().networks() == 0);
            // The largest request fits also where it is more than a quarter.
            let small = Arc::new(Permits::new(16, 16));
            assert!(Permits::take(&small, Some(IpAddr::from([192, 0, 2, 1])), 16).is_some());
        }
    }
}
