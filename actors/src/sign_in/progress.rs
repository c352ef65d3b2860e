//! Following a transaction: whoever has its secret learns when somebody has answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selfsame_protocol::sign_in::records::Transaction;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::handle::{Read, SignInFailure, SignInHandle, SignInShared, TransactionId, owned};

/// Where a transaction stands for who follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Waiting,
    /// Complete it: a proof was accepted, or the person refused.
    Answered,
    /// It was completed, or has expired.
    Over,
}

/// Who follows which transaction: what is rung for them, and how many they are.
#[derive(Default)]
pub(super) struct Following(Mutex<HashMap<TransactionId, (Arc<Notify>, usize)>>);

impl Following {
    fn bells(&self) -> MutexGuard<'_, HashMap<TransactionId, (Arc<Notify>, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has happened to a transaction.
    pub fn ring(&self, id: TransactionId) {
        if let Some((bell, _)) = self.bells().get(&id) {
            bell.notify_waiters();
        }
    }
}

impl SignInHandle {
    /// Where a transaction stands, for who has its secret.
    pub fn progress(&self, id: TransactionId, secret: &str) -> Result<Progress, SignInFailure> {
        let Some(Read { value, .. }) = self.shared.get::<Transaction>(&id.key())? else { return Ok(Progress::Over) };
        owned(&value, secret)?;
        Ok(match (&value.answer, value.is_done) {
            (_, 1..) => Progress::Over,
            (Some(_), 0) => Progress::Answered,
            (None, 0) => Progress::Waiting,
        })
    }

    /// Waits until a transaction is no longer waiting, or until `deadline`.
    pub async fn follow(&self, id: TransactionId, secret: &str, deadline: Instant) -> Result<Progress, SignInFailure> {
        let follower = Follower::new(&self.shared, id);
        loop {
            let bell = follower.bell.notified();
            let progress = self.progress(id, secret)?;
            if progress != Progress::Waiting || timeout_at(deadline, bell).await.is_err() {
                return Ok(progress);
            }
        }
    }
}

/// Somebody who follows a transaction; dropping it ends that.
struct Follower<'a> {
    shared: &'a SignInShared,
    id: TransactionId,
    bell: Arc<Notify>,
}

impl<'a> Follower<'a> {
    fn new(shared: &'a SignInShared, id: TransactionId) -> Self {
        let mut following = shared.following.bells();
        let (bell, sharing) = following.entry(id).or_default();
        *sharing += 1;
        Self { shared, id, bell: Arc::clone(bell) }
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        let mut following = self.shared.following.bells();
        if let Some((_, sharing)) = following.get_mut(&self.id) {
            *sharing -= 1;
            if *sharing == 0 {
                following.remove(&self.id);
            }
        }
    }
}
