//! How fast one node is asked: as fast as it answers, until it asks for fewer questions.
//!
//! The questions of a second before a refusal are the rate that was refused. From then on the node
//! is asked at half of it, and a round trip has the questions of half a second at most: nodes count
//! the questions of a batch one by one.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The time over which questions are counted.
const SECOND: Duration = Duration::from_secs(1);

/// The longest time between two questions after the first refusal: a single refusal can also mean
/// that the node does not work.
const LONGEST_AT_FIRST: Duration = Duration::from_millis(250);

/// The longest time between two questions. With more, no step would end in time.
const LONGEST: Duration = SECOND;

/// Below this time between two questions, the node is asked without a pace.
const SHORTEST: Duration = Duration::from_millis(20);

/// After so long without a refusal, the node is asked twice as fast.
const EASE_AFTER: Duration = Duration::from_secs(300);

/// The questions of a round trip are those of this time.
const ROUND_TRIP: Duration = Duration::from_millis(500);

/// How fast one node is asked.
#[derive(Default)]
pub(super) struct Pace {
    /// Time between two questions; zero while the node has not asked for fewer.
    interval: Duration,
    /// When the next question may be put.
    next: Option<Instant>,
    /// When the interval changed last.
    changed: Option<Instant>,
    /// The round trips of the last second, with the number of their questions.
    recent: VecDeque<(Instant, usize)>,
}

impl Pace {
    /// The most questions of one round trip.
    pub fn most_questions(&self) -> usize {
        match self.interval.is_zero() {
            true => usize::MAX,
            false => usize::try_from(ROUND_TRIP.as_nanos() / self.interval.as_nanos()).unwrap_or(usize::MAX).max(1),
        }
    }

    /// When a round trip with so many questions may begin. Those that are reserved later begin
    /// later.
    pub fn reserve(&mut self, questions: usize, now: Instant) -> Instant {
        if self.changed.is_some_and(|changed| now.duration_since(changed) >= EASE_AFTER) {
            self.interval = Some(self.interval / 2).filter(|half| *half >= SHORTEST).unwrap_or_default();
            self.changed = Some(now).filter(|_| !self.interval.is_zero());
            self.next = self.next.filter(|_| !self.interval.is_zero());
        }
        let at = self.next.map_or(now, |next| next.max(now));
        self.next = Some(at + self.interval * u32::try_from(questions).unwrap_or(u32::MAX));
        self.recent.retain(|(before, _)| *before + SECOND > now);
        self.recent.push_back((at, questions));
        at
    }

    /// Gives a reservation back whose questions were not put: enough other nodes had answered
    /// before it was time.
    pub fn give_back(&mut self, at: Instant, questions: usize) {
        let taken = self.interval * u32::try_from(questions).unwrap_or(u32::MAX);
        self.next = self.next.and_then(|next| next.checked_sub(taken)).map(|next| next.max(at));
        if let Some(index) = self.recent.iter().position(|reserved| *reserved == (at, questions)) {
            self.recent.remove(index);
        }
    }

    /// The node asked for fewer questions, in answer to a round trip that was reserved for `at`.
    pub fn slow_down(&mut self, at: Instant, now: Instant) {
        // What was on its way when the pace changed says nothing about the new one.
        if self.changed.is_some_and(|changed| at < changed) {
            return;
        }
        let second = self.recent.iter().filter(|(before, _)| *before <= at && *before + SECOND > at);
        let rate: usize = second.map(|(_, questions)| questions).sum();
        let half = SECOND * 2 / u32::try_from(rate.max(1)).unwrap_or(u32::MAX);
        self.interval = half.min(LONGEST_AT_FIRST).max(self.interval * 2).clamp(SHORTEST, LONGEST);
        self.changed = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reserved_and_not_asked_delays_nothing() {
        let start = Instant::now();
        let mut pace = Pace::default();
        let at = pace.reserve(4, start);
        pace.slow_down(at, start);
        let interval = pace.interval;
        let first = pace.reserve(1, start);
        for _ in 0..1000 {
            let at = pace.reserve(2, start);
            pace.give_back(at, 2);
        }
        assert_eq!(pace.reserve(1, start), first + interval);
    }

    #[test]
    fn a_node_is_asked_at_half_the_rate_that_it_refused() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert_eq!(pace.most_questions(), usize::MAX);
        // Twenty questions in a second, of which the last is refused.
        for number in 0..20 {
            assert_eq!(pace.reserve(1, after(number * 50)), after(number * 50), "nothing is slowed down");
        }
        pace.slow_down(after(950), after(960));
        assert_eq!(pace.interval, Duration::from_millis(100));
        assert_eq!(pace.most_questions(), 5);
        // Those that were on their way count for nothing.
        pace.slow_down(after(940), after(970));
        assert_eq!(pace.interval, Duration::from_millis(100));
        assert_eq!(pace.reserve(5, after(1000)), after(1000));
        assert_eq!(pace.reserve(1, after(1000)), after(1500), "after the five of the round trip before");
        // Refused again.
        pace.slow_down(after(1500), after(1500));
        assert_eq!(pace.interval, Duration::from_millis(200));
        for _ in 0..5 {
            pace.slow_down(after(2000), after(2000));
        }
        assert_eq!((pace.interval, pace.most_questions()), (LONGEST, 1));
    }

    #[test]
    fn a_node_that_refuses_no_more_is_asked_faster_by_and_by() {
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.reserve(1, start);
        pace.slow_down(start, start);
        assert_eq!(pace.interval, LONGEST_AT_FIRST, "one question that is refused is no rate");
        for (number, expected) in (1..).zip([125, 62, 31, 0, 0]) {
            pace.reserve(1, start + EASE_AFTER * number - Duration::from_millis(1));
            pace.reserve(1, start + EASE_AFTER * number);
            assert_eq!(pace.interval.as_millis(), expected);
        }
    }
}
