//! The sign-ins that no person has answered yet, to count those that expire so.
//!
//! The store deletes expired records without a word about their kind. So the transactions that were
//! begun since the start are listed here until they are answered. An unanswered one is deleted by a
//! compare-and-write of its own, and is counted when that write deletes it: once, and never when an
//! answer came first.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};

use selfsame_protocol::encoding::decode;
use selfsame_protocol::sign_in::records::Transaction;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RecordWrite, Records, StoreError};

use super::ids::TransactionId;

/// The unanswered sign-ins that were begun since the start.
#[derive(Default)]
pub(crate) struct UnansweredSignIns {
    open: Mutex<BTreeSet<(UnixSeconds, TransactionId)>>,
    /// How many have expired.
    expired: AtomicU64,
}

impl UnansweredSignIns {
    /// A transaction was recorded, which expires at a time.
    pub fn add(&self, id: TransactionId, expires_at: UnixSeconds) {
        self.open().insert((expires_at, id));
    }

    /// A transaction was answered.
    pub fn remove(&self, id: TransactionId, expires_at: UnixSeconds) {
        self.open().remove(&(expires_at, id));
    }

    /// How many expired without an answer.
    pub fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Deletes and counts at most `limit` transactions that expired before `time` (exclusive)
    /// without an answer. Returns how many were looked at. What cannot be read or written stays in
    /// the list. Blocks the thread.
    pub fn expire(&self, records: &dyn Records, time: UnixSeconds, limit: usize) -> Result<usize, StoreError> {
        let end = (time, TransactionId([0; 16]));
        let due: Vec<_> = self.open().range(..end).take(limit).copied().collect();
        let (sender, decisions) = channel();
        let mut failed = None;
        for (expires_at, id) in due.iter().copied() {
            let before = match records.get(&id.key()) {
                Ok(before) => before,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            // A record that cannot be decoded is deleted with the others that have expired.
            let transaction = before.as_ref().and_then(|stored| decode::<Transaction>(&stored.value).ok());
            if transaction.is_none_or(|transaction| transaction.answer.is_some()) {
                self.remove(id, expires_at);
                continue;
            }
            let sender = sender.clone();
            let decided = Box::new(move |decision| drop(sender.send((expires_at, id, decision))));
            records.compare_and_write(vec![RecordWrite { key: id.key(), before, after: None }], decided);
        }
        drop(sender);
        for (expires_at, id, decision) in decisions {
            match decision {
                Ok(decision) => {
                    self.remove(id, expires_at);
                    self.expired.fetch_add(u64::from(decision == Decision::Written), Ordering::Relaxed);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(due.len()), Err)
    }

    fn open(&self) -> MutexGuard<'_, BTreeSet<(UnixSeconds, TransactionId)>> {
        // Each change of the list is complete, also when a thread panicked at another time.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::B256;
    use selfsame_protocol::sign_in::authorize::KeptRequest;
    use selfsame_protocol::sign_in::claims::Scopes;
    use selfsame_protocol::sign_in::proof_request::Initiator;
    use selfsame_protocol::sign_in::records::Answer;
    use selfsame_protocol::sign_in::response::{ResponseMode, ResponseType, Target};

    use super::*;
    use crate::sign_in::memory_records::MemoryRecords;
    use crate::sign_in::state::write;

    const EXPIRES_AT: UnixSeconds = UnixSeconds(1_800_000_000);

    fn transaction() -> Transaction {
        let target = Target { redirect_uri: "https://app.example/".to_owned(), mode: ResponseMode::Query, state: None };
        Transaction {
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
            challenges: 0,
            initiator: Initiator::default(),
            opened_at: None,
            opened: None,
            answer: None,
            return_hash: None,
            is_done: false,
        }
    }

    fn store(records: &MemoryRecords, id: TransactionId, transaction: &Transaction) {
        let before = records.get(&id.key()).expect("read");
        let writes = vec![write(id.key(), before.as_ref(), transaction, EXPIRES_AT)];
        records.compare_and_write(writes, Box::new(|decision| assert_eq!(decision.ok(), Some(Decision::Written))));
    }

    #[test]
    fn an_unanswered_sign_in_is_counted_once_and_after_its_time() {
        let (records, unanswered) = (MemoryRecords::default(), UnansweredSignIns::default());
        let [one, two, three] = [1, 2, 3].map(|byte| TransactionId([byte; 16]));
        for id in [one, two, three] {
            store(&records, id, &transaction());
            unanswered.add(id, EXPIRES_AT);
        }
        // The second is answered, and the list does not know it, as when the write of an answer
        // reports an error although it is durable.
        store(&records, two, &Transaction { answer: Some(Answer::Refused), ..transaction() });
        unanswered.remove(three, EXPIRES_AT);
        let expire = |time| unanswered.expire(&records, time, 10).expect("no failure");
        assert_eq!((expire(EXPIRES_AT), unanswered.expired()), (0, 0));
        let later = EXPIRES_AT.plus(1);
        assert_eq!((expire(later), unanswered.expired()), (2, 1));
        assert_eq!(records.get(&one.key()).expect("read"), None);
        assert!(records.get(&two.key()).expect("read").is_some(), "others delete what was answered");
        assert_eq!((expire(later), unanswered.expired()), (0, 1));
    }

    #[test]
    fn a_limit_leaves_the_others_for_the_next_time() {
        let (records, unanswered) = (MemoryRecords::default(), UnansweredSignIns::default());
        for byte in 1..=3 {
            store(&records, TransactionId([byte; 16]), &transaction());
            unanswered.add(TransactionId([byte; 16]), EXPIRES_AT);
        }
        // This one was deleted already.
        unanswered.add(TransactionId([9; 16]), EXPIRES_AT);
        let expire = || unanswered.expire(&records, UnixSeconds::NEVER, 2).expect("no failure");
        assert_eq!([(expire(), unanswered.expired()), (expire(), unanswered.expired())], [(2, 2), (2, 3)]);
    }
}
