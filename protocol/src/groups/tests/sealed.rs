//! The life of a sealed copy, and each refusal.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::super::codes::Code;
use super::super::names::{Day, SealedHandle, SecretHash, WriteKey};
use super::super::records::{CodeRecord, CopyId, SealedRecord};
use super::super::sealed::{self, SealedError, SealedReads, SealedWrite, stored_handle};
use super::super::wire::{
    ChangedSealed, HexText, LONGEST_SEALED, MOST_SLOTS, NewSealed, SealedContent, SealedPermit, SealedSlot, SlotKind,
};
use super::community::{TODAY, leaf, member};

/// The copies and codes of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Service {
    copies: BTreeMap<CopyId, SealedRecord>,
    handles: BTreeMap<SecretHash, CopyId>,
    codes: BTreeMap<SecretHash, CodeRecord>,
}

fn handle(number: u8) -> SealedHandle {
    SealedHandle([number; 32])
}

fn key(number: u8) -> WriteKey {
    WriteKey([number; 32])
}

fn code() -> Code {
    Code::from_random_bytes([5; 17])
}

fn content(byte: u8) -> SealedContent {
    let slot = SealedSlot { kind: SlotKind::Passkey, iv: HexText(vec![1; 12]), key: HexText(vec![2; 48]) };
    SealedContent { iv: HexText(vec![3; 12]), sealed: HexText(vec![byte; 100]), slots: vec![slot] }
}

/// A new copy with a write key, and content that has its number.
fn new(handles: &[u8], write_key: u8, permit: Option<SealedPermit>) -> NewSealed {
    NewSealed {
        content: content(write_key),
        handles: handles.iter().map(|number| handle(*number)).collect(),
        write_key_hash: SecretHash::of(&key(write_key).0),
        permit,
    }
}

fn changed(handles: &[u8], write_key: u8) -> ChangedSealed {
    let NewSealed { content, handles, write_key_hash, .. } = new(handles, write_key, None);
    ChangedSealed { content, handles, write_key_hash }
}

fn by_code() -> Option<SealedPermit> {
    Some(SealedPermit::Code { group: "members".parse().expect("an id"), code: code() })
}

fn by_copy(number: u8, write_key: u8) -> Option<SealedPermit> {
    Some(SealedPermit::Copy { handle: handle(number), write_key: key(write_key) })
}

impl SealedReads for Service {
    type Error = Infallible;

    fn copy(&self, handle: &SecretHash) -> Result<Option<(CopyId, SealedRecord)>, Infallible> {
        Ok(self.handles.get(handle).map(|id| (*id, self.copies[id].clone())))
    }

    fn copy_of_id(&self, id: &CopyId) -> Result<Option<SealedRecord>, Infallible> {
        Ok(self.copies.get(id).cloned())
    }

    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, Infallible> {
        Ok(self.codes.get(hash).cloned())
    }
}

impl Service {
    /// With an open code.
    fn new() -> Self {
        let group = "members".parse().expect("an id");
        let record = CodeRecord { group, member: member("1"), expires_on: TODAY, used_for: None, copy: None };
        Self { codes: [(code().hash(), record)].into(), ..Self::default() }
    }

    fn write(&mut self, write: SealedWrite) {
        for (handle, (before, after)) in write.handles {
            assert_eq!(self.handles.get(&handle), before.as_ref());
            match after {
                Some(id) => drop(self.handles.insert(handle, id)),
                None => drop(self.handles.remove(&handle)),
            }
        }
        for (id, (before, after)) in write.copies {
            assert_eq!(self.copies.get(&id), before.as_ref());
            match after {
                Some(record) => drop(self.copies.insert(id, record)),
                None => drop(self.copies.remove(&id)),
            }
        }
        if let Some((hash, before, after)) = write.code {
            assert_eq!(self.codes.insert(hash, after), Some(before));
        }
        // Each handle leads to a copy that names it, and each copy's handles lead to it.
        for (handle, id) in &self.handles {
            assert!(self.copies[id].handles.contains(handle));
        }
        for (id, record) in &self.copies {
            assert!(record.handles.iter().all(|handle| self.handles.get(handle) == Some(id)));
        }
    }

    fn create(&mut self, path: u8, request: NewSealed) -> Result<(), SealedError> {
        self.create_on(TODAY, true, path, request)
    }

    fn create_on(&mut self, day: Day, needs_permit: bool, path: u8, request: NewSealed) -> Result<(), SealedError> {
        let id = CopyId::repeat_byte(self.copies.len() as u8 + request.content.sealed.0[0]);
        let Ok(decided) = sealed::create(&handle(path), request, id, (day, needs_permit), self);
        decided.map(|write| self.write(write))
    }

    fn change(&mut self, path: u8, request: ChangedSealed, version: u64, write_key: u8) -> Result<u64, SealedError> {
        let Ok(decided) = sealed::change(&handle(path), request, (version, &key(write_key)), self);
        decided.map(|(write, version)| {
            self.write(write);
            version
        })
    }

    fn delete(&mut self, path: u8, version: u64, write_key: u8) -> Result<(), SealedError> {
        let Ok(decided) = sealed::delete(&handle(path), (version, &key(write_key)), self);
        decided.map(|write| self.write(write))
    }

    fn found(&self, number: u8) -> Option<(u64, u8)> {
        let Ok(copy) = self.copy(&stored_handle(&handle(number)));
        copy.map(|(_, record)| (record.version, record.content.sealed.0[0]))
    }

    /// Keeps the copy with a handle, as a joining does that names it.
    fn keep(&mut self, number: u8) {
        let id = self.handles[&stored_handle(&handle(number))];
        let record = self.copies.get_mut(&id).expect("a copy");
        (record.is_kept, record.made_with) = (true, None);
        self.codes.get_mut(&code().hash()).expect("a code").copy = None;
    }
}

#[test]
fn a_copy_is_made_changed_and_deleted_by_its_owner() {
    let mut service = Service::new();
    service.create(1, new(&[1, 2], 10, by_code())).expect("a copy");
    assert_eq!((service.found(1), service.found(2), service.found(3)), (Some((1, 10)), Some((1, 10)), None));
    let (_, record) = service.copies.first_key_value().expect("a copy");
    assert_eq!((record.made_on, record.is_kept, record.made_with), (TODAY, false, Some(code().hash())));
    // Another handle takes the place of one, and another write key.
    assert_eq!(service.change(2, changed(&[2, 3], 11), 1, 10), Ok(2));
    assert_eq!((service.found(1), service.found(2), service.found(3)), (None, Some((2, 11)), Some((2, 11))));
    assert_eq!(service.change(3, changed(&[3], 11), 2, 10), Err(SealedError::WriteKeyWrong));
    assert_eq!(service.change(3, changed(&[3], 12), 2, 11), Ok(3));
    assert_eq!(service.delete(2, 3, 12), Err(SealedError::NotFound));
    assert_eq!(service.delete(3, 2, 12), Err(SealedError::VersionMismatch { found: 3 }));
    assert_eq!(service.delete(3, 3, 11), Err(SealedError::WriteKeyWrong));
    assert_eq!(service.delete(3, 3, 12), Ok(()));
    assert!(service.copies.is_empty() && service.handles.is_empty());
}

#[test]
fn a_code_has_one_copy_that_is_not_kept() {
    let mut service = Service::new();
    service.create(1, new(&[1, 2], 10, by_code())).expect("a copy");
    // The newer one takes the place of the other, also under the same handle.
    service.create(2, new(&[2, 3], 11, by_code())).expect("a copy");
    assert_eq!((service.copies.len(), service.found(1), service.found(2)), (1, None, Some((1, 11))));
    service.keep(2);
    // A copy that is kept stays, and a newer one has to have other handles.
    assert_eq!(service.create(2, new(&[2], 12, by_code())), Err(SealedError::HandleTaken));
    service.create(4, new(&[4], 12, by_code())).expect("a copy");
    assert_eq!((service.copies.len(), service.found(2)), (2, Some((1, 11))));
}

#[test]
fn a_replacement_makes_a_new_copy_with_the_older_one_and_then_deletes_that() {
    let mut service = Service::new();
    service.create(1, new(&[1], 10, by_code())).expect("a copy");
    service.keep(1);
    service.create(2, new(&[2, 3], 20, by_copy(1, 10))).expect("a copy");
    assert_eq!((service.found(1), service.found(2)), (Some((1, 10)), Some((1, 20))));
    service.delete(1, 1, 10).expect("deleted");
    assert_eq!((service.found(1), service.found(3)), (None, Some((1, 20))));
    assert_eq!(service.create(4, new(&[4], 30, by_copy(1, 10))), Err(SealedError::PermitInvalid));
}

#[test]
fn a_new_copy_needs_a_permit() {
    let mut service = Service::new();
    service.create(1, new(&[1], 10, by_code())).expect("a copy");
    let other_code = Code::from_random_bytes([6; 17]);
    let group = || "members".parse().expect("an id");
    let refused = [
        ("nothing", None),
        ("an unknown code", Some(SealedPermit::Code { group: group(), code: other_code })),
        ("another group", Some(SealedPermit::Code { group: "others".parse().expect("an id"), code: code() })),
        ("no copy", by_copy(9, 10)),
        ("another key", by_copy(1, 11)),
    ];
    let before = service.clone();
    for (what, permit) in refused {
        assert_eq!(service.create(2, new(&[2], 20, permit)), Err(SealedError::PermitInvalid), "{what}");
    }
    let tomorrow = service.create_on(TODAY.plus(1), true, 2, new(&[2], 20, by_code()));
    assert_eq!(tomorrow, Err(SealedError::PermitInvalid), "after the code's last day");
    assert_eq!(service, before);
    service.codes.get_mut(&code().hash()).expect("a code").used_for = Some(leaf(1));
    assert_eq!(service.create(2, new(&[2], 20, by_code())), Err(SealedError::PermitInvalid), "a used code");
    service.create_on(TODAY, false, 2, new(&[2], 20, None)).expect("development needs none");
    let wrong = service.create_on(TODAY, false, 3, new(&[3], 20, by_copy(9, 10)));
    assert_eq!(wrong, Err(SealedError::PermitInvalid), "a wrong one is wrong there too");
}

#[test]
fn a_handle_has_one_copy() {
    let mut service = Service::new();
    service.create_on(TODAY, false, 1, new(&[1], 10, None)).expect("a copy");
    service.create_on(TODAY, false, 2, new(&[2], 20, None)).expect("a copy");
    for handles in [[2, 1], [1, 2]] {
        assert_eq!(service.change(2, changed(&handles, 20), 1, 20), Err(SealedError::HandleTaken));
        assert_eq!(service.create_on(TODAY, false, 2, new(&handles, 30, None)), Err(SealedError::HandleTaken));
    }
    assert_eq!((service.found(1), service.found(2)), (Some((1, 10)), Some((1, 20))));
}

#[test]
fn what_is_not_in_its_form_is_refused_before_anything_is_looked_at() {
    let mut service = Service::new();
    let mut refuse = |change: fn(&mut NewSealed), is_too_large: bool| {
        // Neither permit nor handle would be right.
        let mut request = new(&[1], 10, by_copy(9, 9));
        change(&mut request);
        let decided = service.create(1, request.clone());
        match is_too_large {
            true => assert_eq!(decided, Err(SealedError::TooLarge)),
            false => assert!(matches!(decided, Err(SealedError::BadRequest(_))), "{decided:?}"),
        }
        let NewSealed { content, handles, write_key_hash, .. } = request;
        let changed = ChangedSealed { content, handles, write_key_hash };
        assert_eq!(service.change(1, changed, 1, 9).err(), decided.err());
    };
    refuse(|request| request.content.sealed.0.resize(LONGEST_SEALED / 2 + 1, 0), true);
    refuse(|request| request.content.slots = vec![request.content.slots[0].clone(); MOST_SLOTS + 1], true);
    refuse(|request| request.content.sealed.0.truncate(15), false);
    refuse(|request| request.content.iv.0.push(0), false);
    refuse(|request| request.content.slots.clear(), false);
    refuse(|request| request.content.slots[0].iv.0.truncate(11), false);
    refuse(|request| request.content.slots[0].key.0.truncate(47), false);
    refuse(|request| request.content.slots[0].key.0.push(0), false);
    refuse(|request| request.handles.clear(), false);
    refuse(|request| request.handles = vec![handle(2)], false);
    refuse(|request| request.handles = vec![handle(1), handle(1)], false);
    refuse(|request| request.handles = vec![handle(1), handle(2), handle(3)], false);
    // The longest that is allowed.
    let mut request = new(&[2, 1], 10, by_code());
    request.content.sealed.0.resize(LONGEST_SEALED / 2, 0);
    request.content.slots = vec![request.content.slots[0].clone(); MOST_SLOTS];
    assert_eq!(service.create(1, request), Ok(()));
}
