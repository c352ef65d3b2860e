//! The order in which waiting proofs are checked, and which of them are checked together.
//!
//! Every origin has a queue of its own, and the origins take turns, so that an origin with many
//! proofs delays the others by one proof at a time. Proofs of different origins share a batch,
//! because a batch costs less; but an origin that sent false proofs pays for them itself: its
//! proofs are checked alone until it has sent enough good ones.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use selfsame_protocol::groth16::PreparedKey;
use tokio::time::Instant;

use super::messages::{Batch, Job};
use super::permits::Origin;

/// The most proofs that are checked together. Larger batches would hardly lower the cost of a
/// proof, and a false proof would delay more others.
const LARGEST_BATCH: usize = 64;

/// The most proofs of a suspect origin that a worker checks, one by one, before it takes the next
/// origin's.
const MOST_OF_SUSPECT: usize = 16;

/// How many good proofs a false one outweighs.
const WEIGHT_OF_FALSE_PROOF: u32 = 16;

/// The most weight that an origin collects.
const MOST_WEIGHT: u32 = 1024;

/// How long an origin is suspect after its last false proof, at most.
const SUSPECT_FOR: Duration = Duration::from_secs(60);

/// When more origins than these are suspect, no batch has proofs of different origins: then a
/// client with many addresses fails batches faster than their origins become suspect.
const MANY_SUSPECTS: usize = 32;

/// The most suspects that are remembered. While there are so many, every origin counts as suspect.
const MOST_SUSPECTS: usize = 10_000;

/// The waiting proofs, and what is known of their origins.
#[derive(Default)]
pub(crate) struct FairQueue {
    /// In the order of their turns; none is empty.
    origins: VecDeque<(Origin, VecDeque<Job>)>,
    suspects: Suspects,
}

impl FairQueue {
    /// Adds a proof behind those of the same origin.
    pub fn push(&mut self, job: Job) {
        match self.origins.iter_mut().find(|(origin, _)| *origin == job.origin) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.origins.push_back((job.origin, VecDeque::from([job]))),
        }
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
        if self.suspects.contains(&first) {
            return Some(Batch::new(key.clone(), self.take(&key, MOST_OF_SUSPECT, |origin| *origin == first), true));
        }
        let waiting: usize = self.origins.iter().map(|(_, jobs)| jobs.len()).sum();
        let share = waiting.div_ceil(idle_workers).clamp(1, LARGEST_BATCH);
        let is_shared = !self.suspects.are_many();
        let suspects = std::mem::take(&mut self.suspects);
        let jobs = self.take(&key, share, |origin| *origin == first || (is_shared && !suspects.contains(origin)));
        self.suspects = suspects;
        Some(Batch::new(key, jobs, false))
    }

    /// Takes at most `most` proofs of a key from these origins, in turns. An origin of which a
    /// proof was taken goes to the end.
    fn take(&mut self, key: &Arc<PreparedKey>, most: usize, is_wanted: impl Fn(&Origin) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        let mut passed = VecDeque::new();
        while taken.len() < most {
            let Some((origin, mut jobs)) = self.origins.pop_front() else { break };
            let is_next = jobs.front().is_some_and(|job| Arc::ptr_eq(&job.key, key));
            if !(is_next && is_wanted(&origin)) {
                passed.push_back((origin, jobs));
                continue;
            }
            taken.extend(jobs.pop_front());
            if !jobs.is_empty() {
                self.origins.push_back((origin, jobs));
            }
        }
        // The origins that were passed keep their turns.
        passed.append(&mut self.origins);
        self.origins = passed;
        taken
    }

    /// Records whether proofs of these origins held.
    pub fn record(&mut self, verdicts: impl IntoIterator<Item = (Origin, bool)>, now: Instant) {
        verdicts.into_iter().for_each(|(origin, holds)| self.suspects.record(origin, holds, now));
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
        self.weights.contains_key(origin) || self.weights.len() >= MOST_SUSPECTS
    }

    fn are_many(&self) -> bool {
        self.weights.len() > MANY_SUSPECTS
    }

    fn record(&mut self, origin: Origin, holds: bool, now: Instant) {
        let has_room = self.weights.len() < MOST_SUSPECTS;
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
            None if !holds && has_room => {
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
    use selfsame_protocol::groth16::Claim;
    use selfsame_protocol::groth16::simulator::Simulator;
    use selfsame_protocol::tree::field_element;
    use tokio::sync::oneshot;

    use super::*;

    struct Waiting {
        queue: FairQueue,
        keys: [Arc<PreparedKey>; 2],
        claim: Claim,
        /// Keeps the callers waiting.
        callers: Vec<oneshot::Receiver<bool>>,
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
                claim: Claim::new(proof, vec![scalar(1)]),
                callers: Vec::new(),
            }
        }

        fn push(&mut self, last: u8, key: usize, count: usize) {
            for _ in 0..count {
                let (reply, caller) = oneshot::channel();
                self.callers.push(caller);
                self.queue.push(Job {
                    key: Arc::clone(&self.keys[key]),
                    claim: self.claim.clone(),
                    origin: origin(last),
                    deadline: Instant::now() + Duration::from_secs(3600),
                    reply: RpcReplyPort::from(reply),
                    permit: None,
                });
            }
        }

        /// The origins of the next batch, and whether its proofs are checked alone.
        fn next(&mut self, now: Instant) -> Option<(Vec<u8>, bool)> {
            let batch = self.queue.next_batch(now, 1)?;
            let last = |origin: &Origin| match origin.network {
                Some(IpAddr::V4(address)) => address.octets()[3],
                _ => 0,
            };
            Some((batch.origins.iter().map(last).collect(), batch.checks_each_alone))
        }
    }

    #[tokio::test]
    async fn origins_take_turns_and_share_batches_of_one_key() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        waiting.push(1, 0, 100);
        waiting.push(2, 0, 2);
        waiting.push(3, 1, 3);
        let (first, alone) = waiting.next(now).expect("a batch");
        assert_eq!((&first[..5], first.len(), alone), (&[1, 2, 1, 2, 1][..], LARGEST_BATCH, false));
        assert_eq!(waiting.next(now), Some((vec![3; 3], false)), "the other key has its turn");
        assert_eq!(waiting.next(now), Some((vec![1; 38], false)));
        assert_eq!(waiting.next(now), None);
        // Nothing is left of callers that no longer wait.
        waiting.push(1, 0, 5);
        waiting.callers.clear();
        assert_eq!(waiting.next(now), None);
    }

    #[tokio::test]
    async fn false_proofs_cost_their_origin_alone() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        waiting.queue.record([(origin(1), false), (origin(2), true)], now);
        waiting.push(1, 0, 40);
        waiting.push(2, 0, 40);
        waiting.push(3, 0, 10);
        assert_eq!(waiting.next(now), Some((vec![1; MOST_OF_SUSPECT], true)));
        let (batch, alone) = waiting.next(now).expect("a batch");
        assert!(!alone && batch.len() == 50 && !batch.contains(&1), "{batch:?}");
        // Good proofs outweigh the false one.
        waiting.queue.record((0..WEIGHT_OF_FALSE_PROOF).map(|_| (origin(1), true)), now);
        assert_eq!(waiting.next(now), Some((vec![1; 24], false)));
        // Otherwise time does.
        waiting.queue.record((0..1000).map(|_| (origin(1), false)), now);
        for (after, alone) in [(Duration::ZERO, true), (SUSPECT_FOR, false)] {
            waiting.push(1, 0, 1);
            assert_eq!(waiting.next(now + after), Some((vec![1], alone)));
        }
    }

    #[tokio::test]
    async fn while_many_origins_are_suspect_no_batch_is_shared() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        waiting.queue.record((100..133).map(|last| (origin(last), false)), now);
        waiting.push(1, 0, 20);
        waiting.push(2, 0, 20);
        assert_eq!(waiting.next(now), Some((vec![1; 20], false)));
        assert_eq!(waiting.next(now), Some((vec![2; 20], false)));
    }
}
