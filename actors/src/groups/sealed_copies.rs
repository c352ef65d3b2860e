//! The handle's calls about sealed copies. Each decides by compare-and-write in its own task: the
//! group keeper has no part in them.

use std::net::IpAddr;
use std::sync::Arc;

use selfsame_protocol::B256;
use selfsame_protocol::groups::names::{Day, SealedHandle, WriteKey};
use selfsame_protocol::groups::sealed::{self, SealedError, SealedReads, SealedWrite, stored_handle};
use selfsame_protocol::groups::wire::{ChangedSealed, NewSealed, SealedResponse};
use selfsame_storage::{Decision, GroupRecords, StoreError};

use super::group_keeper::decided;
use super::handle::{GroupError, GroupsHandle};

/// How often a sealed copy is read again when another call has written it in between.
const ATTEMPTS: usize = 10;

impl GroupsHandle {
    /// The sealed copy with a handle.
    ///
    /// # Errors
    /// [`SealedError::NotFound`], [`GroupError::TooMany`] and [`GroupError::Unavailable`].
    pub async fn sealed(&self, handle: &SealedHandle, source: Option<IpAddr>) -> Result<SealedResponse, GroupError> {
        let stored = stored_handle(handle);
        let read = || async {
            let copy = self.state.read_records(move |records| records.copy(&stored)).await?;
            let (_, record) = copy.ok_or(SealedError::NotFound)?;
            Ok(SealedResponse { version: record.version, content: record.content })
        };
        self.look_again(source, is_refused_copy, read).await
    }

    /// Makes a sealed copy. Returns its version.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn create_sealed(
        &self,
        path: SealedHandle,
        request: NewSealed,
        source: Option<IpAddr>,
    ) -> Result<u64, GroupError> {
        self.charge(source)?;
        let needs_permit = self.state.groups.load().settings.needs_permit;
        let today = Day::of(self.state.clock().unix_seconds());
        let mut random = [0; 32];
        self.state.random().fill(&mut random);
        let id = B256::from(random);
        self.write_sealed(source, move |records| {
            let write = sealed::create(&path, request.clone(), id, (today, needs_permit), records)?;
            Ok(write.map(|write| (write, 1)))
        })
        .await
    }

    /// Changes a sealed copy. Returns its new version.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn change_sealed(
        &self,
        path: SealedHandle,
        request: ChangedSealed,
        (version, write_key): (u64, WriteKey),
        source: Option<IpAddr>,
    ) -> Result<u64, GroupError> {
        self.charge(source)?;
        let write = move |records: &_| sealed::change(&path, request.clone(), (version, &write_key), records);
        self.write_sealed(source, write).await
    }

    /// Deletes a sealed copy.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn delete_sealed(
        &self,
        path: SealedHandle,
        (version, write_key): (u64, WriteKey),
        source: Option<IpAddr>,
    ) -> Result<(), GroupError> {
        self.charge(source)?;
        let write = move |records: &_| {
            let write = sealed::delete(&path, (version, &write_key), records)?;
            Ok(write.map(|write| (write, 0)))
        };
        self.write_sealed(source, write).await.map(drop)
    }

    /// Decides and writes; again when another call has written in between.
    async fn write_sealed(
        &self,
        source: Option<IpAddr>,
        decide: impl Fn(&GroupRecords) -> Result<Result<(SealedWrite, u64), SealedError>, StoreError>
        + Send
        + Sync
        + 'static,
    ) -> Result<u64, GroupError> {
        let decide = Arc::new(decide);
        let deciding = || async {
            let decide = Arc::clone(&decide);
            Ok(self.state.read_records(move |records| decide(records)).await??)
        };
        for _ in 0..ATTEMPTS {
            let (write, version) = self.look_again(source, is_refused_copy, deciding).await?;
            if decided(|decided| self.state.records.write_sealed(&write, decided)).await? == Decision::Written {
                return Ok(version);
            }
        }
        Err(GroupError::unavailable("other calls write the copy all the time"))
    }
}

/// Whether the sealed copies that the store has, or lacks, refuse a call.
fn is_refused_copy<T>(outcome: &Result<T, GroupError>) -> bool {
    matches!(outcome, Err(GroupError::Sealed(_)))
}
