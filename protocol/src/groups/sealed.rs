//! The rules of sealed copies: what a wallet keeps at the service so that a person's other device,
//! or a browser that has forgotten everything, finds it again.
//!
//! A copy is found by the hash of one of its handles, and changed with its write key. A new one
//! needs an open code or an older copy, so that no caller fills the store; it is deleted after a
//! day unless a joining or a replacement has named it.

use std::collections::BTreeMap;

use subtle::ConstantTimeEq;

use super::names::{Day, SealedHandle, SecretHash, WriteKey};
use super::records::{CodeRecord, CopyId, SealedRecord};
use super::wire::{
    ChangedSealed, GroupErrorCode, LONGEST_SEALED, MOST_SLOTS, NewSealed, SealedContent, SealedPermit, SealedSlot,
};

/// Bytes of an initialization vector of AES-GCM.
const IV_LENGTH: usize = 12;

/// Bytes of the tag of AES-GCM: no ciphertext is shorter.
const TAG_LENGTH: usize = 16;

/// Bytes of a sealed key: 32 and the tag.
const KEY_LENGTH: usize = 32 + TAG_LENGTH;

/// The most handles of a copy.
const MOST_HANDLES: usize = 2;

/// Why a call about a sealed copy is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealedError {
    /// A field is not in its form.
    #[error("{0}")]
    BadRequest(&'static str),
    /// There is no copy with the handle.
    #[error("there is no sealed copy with this handle")]
    NotFound,
    /// The write key is missing.
    #[error("the write key is missing; send it as Authorization: Bearer and 64 hex digits")]
    Unauthorized,
    /// The write key is another one.
    #[error("the write key is not the copy's")]
    WriteKeyWrong,
    /// Nothing permits a new copy.
    #[error("a new copy needs permit: an open code of a group, or the handle and the write key of an older copy")]
    PermitInvalid,
    /// Another copy has a handle.
    #[error("another copy has one of these handles; take another handle, or change that copy with If-Match")]
    HandleTaken,
    /// The copy was written since.
    #[error("the copy has version {found}; read it again and change that version")]
    VersionMismatch {
        /// The version that it has.
        found: u64,
    },
    /// The request does not say what it expects.
    #[error("send If-None-Match: * for a new copy, or If-Match with the version of the one that is changed")]
    PreconditionRequired,
    /// The copy is too long.
    #[error("a copy has at most {LONGEST_SEALED} digits in sealed, and {MOST_SLOTS} slots")]
    TooLarge,
}

impl SealedError {
    /// The code of the answer.
    pub fn code(&self) -> GroupErrorCode {
        match self {
            Self::BadRequest(_) => GroupErrorCode::BadRequest,
            Self::NotFound => GroupErrorCode::NotFound,
            Self::Unauthorized => GroupErrorCode::Unauthorized,
            Self::WriteKeyWrong => GroupErrorCode::WriteKeyWrong,
            Self::PermitInvalid => GroupErrorCode::PermitInvalid,
            Self::HandleTaken => GroupErrorCode::HandleTaken,
            Self::VersionMismatch { .. } => GroupErrorCode::VersionMismatch,
            Self::PreconditionRequired => GroupErrorCode::PreconditionRequired,
            Self::TooLarge => GroupErrorCode::SealedTooLarge,
        }
    }
}

/// The stored handle of a copy.
pub fn stored_handle(handle: &SealedHandle) -> SecretHash {
    SecretHash::of(&handle.0)
}

/// What the rules read.
pub trait SealedReads {
    /// Why it cannot be read.
    type Error;
    /// The copy with a handle.
    fn copy(&self, handle: &SecretHash) -> Result<Option<(CopyId, SealedRecord)>, Self::Error>;
    /// A copy by its id.
    fn copy_of_id(&self, id: &CopyId) -> Result<Option<SealedRecord>, Self::Error>;
    /// A code of any group.
    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, Self::Error>;
}

/// What a call writes, if the records are as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealedWrite {
    /// Copies: as they were, and as they are then.
    pub copies: BTreeMap<CopyId, (Option<SealedRecord>, Option<SealedRecord>)>,
    /// Handles: the copy that each had, and has then.
    pub handles: BTreeMap<SecretHash, (Option<CopyId>, Option<CopyId>)>,
    /// The code that permitted a new copy: as it was, and as it is then.
    pub code: Option<(SecretHash, CodeRecord, CodeRecord)>,
}

impl SealedWrite {
    /// Deletes a copy with its handles.
    pub fn delete(&mut self, id: CopyId, record: SealedRecord) {
        for handle in &record.handles {
            self.handles.insert(*handle, (Some(id), None));
        }
        self.copies.insert(id, (Some(record), None));
    }

    /// Puts a copy, whose handles are free or its own.
    fn put(&mut self, id: CopyId, before: Option<SealedRecord>, after: SealedRecord) {
        for handle in before.iter().flat_map(|before| &before.handles) {
            self.handles.insert(*handle, (Some(id), None));
        }
        for handle in &after.handles {
            self.handles.entry(*handle).or_insert((None, None)).1 = Some(id);
        }
        self.copies.insert(id, (before, Some(after)));
    }
}

/// Checks the parts of a copy. The handles are then one or two, with that of the path.
fn check_form(
    content: &SealedContent,
    handles: &[SealedHandle],
    path: &SealedHandle,
) -> Result<Vec<SecretHash>, SealedError> {
    let SealedContent { iv, sealed, slots } = content;
    if sealed.0.len() > LONGEST_SEALED / 2 || slots.len() > MOST_SLOTS {
        return Err(SealedError::TooLarge);
    }
    if iv.0.len() != IV_LENGTH {
        return Err(SealedError::BadRequest("iv: must be 24 hex digits"));
    }
    if sealed.0.len() < TAG_LENGTH {
        return Err(SealedError::BadRequest("sealed: must have a tag, 32 hex digits, at least"));
    }
    let is_slot = |slot: &SealedSlot| slot.iv.0.len() == IV_LENGTH && slot.key.0.len() == KEY_LENGTH;
    if slots.is_empty() || !slots.iter().all(is_slot) {
        return Err(SealedError::BadRequest(
            "slots: must have at least one, each with an iv of 24 and a key of 96 hex digits",
        ));
    }
    let is_twice = handles.len() == MOST_HANDLES && handles[0] == handles[1];
    if handles.is_empty() || handles.len() > MOST_HANDLES || !handles.contains(path) || is_twice {
        return Err(SealedError::BadRequest(
            "handles: must be one or two different handles, that of the path among them",
        ));
    }
    Ok(handles.iter().map(stored_handle).collect())
}

fn is_write_key(record: &SealedRecord, key: &WriteKey) -> bool {
    SecretHash::of(&key.0).0.ct_eq(&record.write_key_hash.0).into()
}

/// Makes a new copy. `id` is random; without `needs_permit` none is needed.
///
/// # Errors
/// The outer one when the records cannot be read.
pub fn create<Reads: SealedReads>(
    path: &SealedHandle,
    request: NewSealed,
    id: CopyId,
    (today, needs_permit): (Day, bool),
    reads: &Reads,
) -> Result<Result<SealedWrite, SealedError>, Reads::Error> {
    let NewSealed { content, handles, write_key_hash, permit } = request;
    let handles = match check_form(&content, &handles, path) {
        Ok(handles) => handles,
        Err(error) => return Ok(Err(error)),
    };
    let mut write = SealedWrite::default();
    let mut made_with = None;
    match permit {
        Some(SealedPermit::Code { group, code }) => {
            let hash = code.hash();
            let is_open =
                |code: &CodeRecord| code.group == group && code.used_for.is_none() && today <= code.expires_on;
            let Some(before) = reads.code(&hash)?.filter(is_open) else { return Ok(Err(SealedError::PermitInvalid)) };
            // A newer copy takes the place of the one that was made with the code before.
            if let Some(older) = before.copy
                && let Some(record) = reads.copy_of_id(&older)?
                && !record.is_kept
            {
                write.delete(older, record);
            }
            let after = CodeRecord { copy: Some(id), ..before.clone() };
            write.code = Some((hash, before, after));
            made_with = Some(hash);
        }
        Some(SealedPermit::Copy { handle, write_key }) => {
            let older = reads.copy(&stored_handle(&handle))?;
            if !older.is_some_and(|(_, record)| is_write_key(&record, &write_key)) {
                return Ok(Err(SealedError::PermitInvalid));
            }
        }
        None if needs_permit => return Ok(Err(SealedError::PermitInvalid)),
        None => {}
    }
    for handle in &handles {
        if let Some((taken_by, _)) = reads.copy(handle)?
            && !write.copies.contains_key(&taken_by)
        {
            return Ok(Err(SealedError::HandleTaken));
        }
    }
    let record =
        SealedRecord { content, version: 1, handles, write_key_hash, made_on: today, is_kept: false, made_with };
    write.put(id, None, record);
    Ok(Ok(write))
}

/// Changes the copy with the handle of the path, if it has this version. Returns the new version.
///
/// # Errors
/// The outer one when the records cannot be read.
pub fn change<Reads: SealedReads>(
    path: &SealedHandle,
    request: ChangedSealed,
    (version, write_key): (u64, &WriteKey),
    reads: &Reads,
) -> Result<Result<(SealedWrite, u64), SealedError>, Reads::Error> {
    let ChangedSealed { content, handles, write_key_hash } = request;
    let handles = match check_form(&content, &handles, path) {
        Ok(handles) => handles,
        Err(error) => return Ok(Err(error)),
    };
    let (id, before) = match owned(path, (version, write_key), reads)? {
        Ok(owned) => owned,
        Err(error) => return Ok(Err(error)),
    };
    for handle in &handles {
        if reads.copy(handle)?.is_some_and(|(taken_by, _)| taken_by != id) {
            return Ok(Err(SealedError::HandleTaken));
        }
    }
    let version = before.version + 1;
    let after = SealedRecord { content, version, handles, write_key_hash, ..before.clone() };
    let mut write = SealedWrite::default();
    write.put(id, Some(before), after);
    Ok(Ok((write, version)))
}

/// Deletes the copy with the handle of the path, if it has this version.
///
/// # Errors
/// The outer one when the records cannot be read.
pub fn delete<Reads: SealedReads>(
    path: &SealedHandle,
    owner: (u64, &WriteKey),
    reads: &Reads,
) -> Result<Result<SealedWrite, SealedError>, Reads::Error> {
    Ok(owned(path, owner, reads)?.map(|(id, record)| {
        let mut write = SealedWrite::default();
        write.delete(id, record);
        write
    }))
}

/// The copy with a handle, whose write key and version the caller knows.
fn owned<Reads: SealedReads>(
    path: &SealedHandle,
    (version, write_key): (u64, &WriteKey),
    reads: &Reads,
) -> Result<Result<(CopyId, SealedRecord), SealedError>, Reads::Error> {
    let Some((id, record)) = reads.copy(&stored_handle(path))? else { return Ok(Err(SealedError::NotFound)) };
    if !is_write_key(&record, write_key) {
        return Ok(Err(SealedError::WriteKeyWrong));
    }
    if record.version != version {
        return Ok(Err(SealedError::VersionMismatch { found: record.version }));
    }
    Ok(Ok((id, record)))
}
