//! The open sign-ins: how many there may be at a time, and the count of those that expire
//! unanswered.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use selfsame_protocol::encoding::decode;
use selfsame_protocol::rate_limit::{NetworkMultiples, RateLimit, SlidingWindows, SourceWindows};
use selfsame_protocol::shares::quarter;
use selfsame_protocol::sign_in::transaction::Transaction;
use selfsame_protocol::time::{RetryAfter, UnixSeconds};
use selfsame_storage::{Counter, Metrics, Records, StoreError};

use super::handle::SignInError;
use super::records::TransactionId;
use crate::support::source_limits::{RateLimiter, SourceRateLimiter, TooManyRequests};

/// The sign-ins that were begun within a transaction's lifetime: all of them, and those of each
/// source address. Their number is limited because each has a record, which is kept for an hour
/// after its end, and any client can begin one.
pub(super) struct OpenSignIns {
    /// How long a sign-in counts as open, even after it was completed: the lifetime of a
    /// transaction.
    open_for: Duration,
    all: RateLimiter<()>,
    of_source: SourceRateLimiter,
}

impl OpenSignIns {
    /// No sign-in is open. `open_for` is the lifetime of a transaction.
    pub fn new(open_for: Duration) -> Self {
        Self { open_for, all: RateLimiter::new(), of_source: SourceRateLimiter::new(NetworkMultiples::QUARTERS) }
    }

    /// Counts a sign-in that `source` begins at `now` (time since the Unix epoch), if fewer than
    /// `limit` are open. A source, also a /56 of IPv6, may have a quarter of the limit (rounded
    /// up), and a /48 or a /24 of IPv4 three quarters, so that they cannot use up all of it.
    pub fn open(&mut self, source: Option<IpAddr>, limit: usize, now: Duration) -> Result<(), SignInError> {
        if let (Some(source), Some(windows)) = (source, self.of_source(limit)) {
            let retry = |wait| TooManyRequests { retry_after: RetryAfter(wait) };
            windows.check(source, 1, now).map_err(retry)?;
        }
        if let Some(windows) = self.all(limit) {
            let reason = || "too many sign-ins are under way".to_owned();
            let retry = |wait| SignInError::Unavailable { reason: reason(), retry_after: RetryAfter(wait) };
            windows.check(&(), 1, now).map_err(retry)?;
            windows.charge((), 1, now);
        }
        if let (Some(source), Some(windows)) = (source, self.of_source(limit)) {
            windows.charge(source, 1, now);
        }
        Ok(())
    }

    /// Takes back the last sign-in of `source`, which was not recorded, or whose record is deleted.
    pub fn refund(&mut self, source: Option<IpAddr>, limit: usize) {
        if let Some(windows) = self.all(limit) {
            windows.refund(&());
        }
        if let (Some(source), Some(windows)) = (source, self.of_source(limit)) {
            windows.refund(source);
        }
    }

    fn all(&mut self, limit: usize) -> Option<&mut SlidingWindows<()>> {
        self.all.under(Some(RateLimit { count: limit, window: self.open_for }))
    }

    fn of_source(&mut self, limit: usize) -> Option<&mut SourceWindows> {
        self.of_source.under(Some(RateLimit { count: quarter(limit), window: self.open_for }))
    }
}

// The sign-ins that no person has answered yet, to count those that end so.
//
// The transactions that were begun since the start are listed here until they are answered. When
// the time of one is over, its record says whether an answer came first, or whether it was given
// more time.

/// The unanswered sign-ins that were begun since the start.
#[derive(Default)]
pub(crate) struct UnansweredSignIns {
    open: Mutex<BTreeSet<(UnixSeconds, TransactionId)>>,
    /// How many there are.
    unanswered: Gauge,
    /// How many have expired.
    expired: Counter,
}

impl UnansweredSignIns {
    /// Adds them to `metrics`.
    pub fn register(&self, metrics: &mut Metrics) {
        let help = "Sign-ins begun since the start that expired before a person answered them";
        metrics.add("selfsame_sign_in_expired_unanswered", help, self.expired.clone());
        let help = "Sign-ins begun since the start that wait for a person's answer";
        metrics.add("selfsame_sign_in_unanswered", help, self.unanswered.clone());
    }

    /// How many expired without an answer.
    pub fn expired(&self) -> u64 {
        self.expired.get()
    }

    /// A transaction was recorded, which expires at a time.
    pub fn add(&self, id: TransactionId, expires_at: UnixSeconds) {
        let mut open = self.open();
        open.insert((expires_at, id));
        self.unanswered.set(open.len() as i64);
    }

    /// A transaction was answered.
    pub fn remove(&self, id: TransactionId, expires_at: UnixSeconds) {
        let mut open = self.open();
        open.remove(&(expires_at, id));
        self.unanswered.set(open.len() as i64);
    }

    /// Counts those of at most `limit` transactions that ended before `time` (exclusive) without an
    /// answer. Returns how many were looked at. What cannot be read stays in the list. Blocks the
    /// thread.
    pub fn count_ended(&self, records: &dyn Records, time: UnixSeconds, limit: usize) -> Result<usize, StoreError> {
        let end = (time, TransactionId([0; 16]));
        let due: Vec<_> = self.open().range(..end).take(limit).copied().collect();
        for (ends_at, id) in due.iter().copied() {
            let stored = records.get(&id.key())?;
            // A record that cannot be decoded is deleted with the others that have expired.
            let transaction = stored.and_then(|stored| decode::<Transaction>(&stored.value).ok());
            self.remove(id, ends_at);
            match transaction.filter(|transaction| transaction.answer.is_none()) {
                Some(transaction) if transaction.ends_at >= time => self.add(id, transaction.ends_at),
                Some(_) => {
                    self.expired.inc();
                }
                None => {}
            }
        }
        Ok(due.len())
    }

    fn open(&self) -> MutexGuard<'_, BTreeSet<(UnixSeconds, TransactionId)>> {
        // Each change of the list is complete, also when a thread panicked at another time.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::open_sign_ins::*;

    const OPEN_FOR: Duration = Duration::from_secs(300);

    #[test]
    fn a_source_can_open_a_quarter_of_the_sign_ins() {
        let mut open = OpenSignIns::new(OPEN_FOR);
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|text| Some(text.parse().expect("an address")));
        let at = Duration::from_secs(1_800_000_000);
        assert!(open.open(one, 8, at).is_ok() && open.open(one, 8, at).is_ok());
        assert!(matches!(open.open(one, 8, at), Err(SignInError::TooMany(_))));
        open.refund(one, 8);
        assert!(open.open(one, 8, at).is_ok());
        assert!(open.open(two, 8, at).is_ok() && open.open(two, 8, at).is_ok());
        // A sign-in without a source is limited only by the total.
        for _ in 0..4 {
            open.open(None, 8, at).expect("fewer than eight are open");
        }
        assert!(matches!(open.open(None, 8, at), Err(SignInError::Unavailable { .. })));
        assert!(open.open(one, 8, at + OPEN_FOR).is_ok(), "they have expired");
    }

    mod unanswered {
        use selfsame_protocol::B256;
        use selfsame_protocol::sign_in::asks::Ask;
        use selfsame_protocol::sign_in::authorize::KeptRequest;
        use selfsame_protocol::sign_in::claims::Scopes;
        use selfsame_protocol::sign_in::openings::ShortId;
        use selfsame_protocol::sign_in::proof_request::Initiator;
        use selfsame_protocol::sign_in::response::{ResponseMode, ResponseType, Target};
        use selfsame_protocol::sign_in::transaction::Answer;
        use selfsame_storage::Decision;

        use super::super::super::records::write;
        use super::super::*;
        use crate::sign_in::memory_records::MemoryRecords;

        const EXPIRES_AT: UnixSeconds = UnixSeconds(1_800_000_000);

        fn transaction() -> Transaction {
            let target =
                Target { redirect_uri: "https://app.example/".to_owned(), mode: ResponseMode::Query, state: None };
            Transaction {
                short_id: ShortId([0; 10]),
                request: KeptRequest {
                    client_id: "app_a".to_owned(),
                    target,
                    response_type: ResponseType::CODE,
                    scopes: Scopes::default(),
                    nonce: None,
                    code_challenge: None,
                    expected_subject: None,
                },
                secret_hash: B256::ZERO,
                signal: B256::ZERO,
                challenge_seed: B256::ZERO,
                challenges: Vec::new(),
                ask: Ask::Legacy,
                attachable: Vec::new(),
                is_continued: false,
                is_chosen: false,
                elsewhere: Vec::new(),
                answered_at: None,
                pointer: None,
                account: None,
                initiator: Initiator::default(),
                ends_at: EXPIRES_AT,
                extensions: 0,
                opened_at: None,
                opened: None,
                refused: 0,
                answer: None,
                return_hash: None,
                digits: None,
                response: None,
            }
        }

        fn store(records: &MemoryRecords, id: TransactionId, transaction: &Transaction) {
            let before = records.get(&id.key()).expect("read");
            let writes = vec![write(id.key(), before.as_ref(), transaction, transaction.kept_until())];
            records.compare_and_write(writes, Box::new(|decision| assert_eq!(decision.ok(), Some(Decision::Written))));
        }

        #[test]
        fn an_unanswered_sign_in_is_counted_once_and_after_its_time() {
            let (records, unanswered) = (MemoryRecords::default(), UnansweredSignIns::default());
            let ids = [1, 2, 3, 4, 5].map(|byte| TransactionId([byte; 16]));
            let [_, two, three, four, five] = ids;
            for id in ids {
                store(&records, id, &transaction());
                unanswered.add(id, EXPIRES_AT);
            }
            // The second is answered, and the list does not know it, as when the write of an answer
            // reports an error although it is durable. The fourth got more time from another
            // replica, and the fifth is gone.
            store(&records, two, &Transaction { answer: Some(Answer::Refused), ..transaction() });
            unanswered.remove(three, EXPIRES_AT);
            store(&records, four, &Transaction { ends_at: EXPIRES_AT.plus(300), ..transaction() });
            unanswered.add(TransactionId([9; 16]), EXPIRES_AT);
            unanswered.remove(five, EXPIRES_AT);
            let count = |time| unanswered.count_ended(&records, time, 10).expect("no failure");
            assert_eq!((count(EXPIRES_AT), unanswered.expired()), (0, 0));
            let later = EXPIRES_AT.plus(1);
            assert_eq!((count(later), unanswered.expired()), (4, 1));
            assert_eq!((count(later), unanswered.expired()), (0, 1));
            assert_eq!((count(later.plus(300)), unanswered.expired()), (1, 2));
        }

        #[test]
        fn a_limit_leaves_the_others_for_the_next_time() {
            let (records, unanswered) = (MemoryRecords::default(), UnansweredSignIns::default());
            for byte in 1..=3 {
                store(&records, TransactionId([byte; 16]), &transaction());
                unanswered.add(TransactionId([byte; 16]), EXPIRES_AT);
            }
            let count = || unanswered.count_ended(&records, UnixSeconds::NEVER, 2).expect("no failure");
            assert_eq!([(count(), unanswered.expired()), (count(), unanswered.expired())], [(2, 2), (1, 3)]);
        }
    }
}
