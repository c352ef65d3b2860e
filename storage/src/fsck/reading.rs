//! Reads stores in which any record may be damaged, in memory that does not grow with the store.

use std::cmp::Ordering;

use selfsame_protocol::encoding::Encoding;

use crate::database::RecordSource;
use crate::error::StoreError;
use crate::schema::family::Family;
use crate::store::Store;

/// A record; `None` also when it does not decode, which is a finding of its own.
pub(super) fn find<Key: Encoding, Value: Encoding>(
    store: &Store,
    family: &Family<Key, Value>,
    key: &Key,
) -> Result<Option<Value>, StoreError> {
    match store.database().get(family, key) {
        Err(StoreError::Damaged { .. }) => Ok(None),
        found => found,
    }
}

/// The records of a family in the order of their keys, without those that do not decode.
pub(super) fn records<'a, Key: Encoding + 'a, Value: Encoding + 'a>(
    store: &'a Store,
    family: &Family<Key, Value>,
) -> Result<impl Iterator<Item = Result<(Key, Value), StoreError>> + use<'a, Key, Value>, StoreError> {
    let records = store.database().records(family)?;
    Ok(records.filter(|record| !matches!(record, Err(StoreError::Damaged { .. }))))
}

/// Walks a family of two stores in the order of the keys. `visit` gets each key with its value in
/// `store` and in `rebuilt`.
pub(super) fn walk(
    store: &Store,
    rebuilt: &Store,
    family: &'static str,
    mut visit: impl FnMut(&[u8], Option<&[u8]>, Option<&[u8]>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut found = store.database().raw_records(family)?;
    let mut expected = rebuilt.database().raw_records(family)?;
    let (mut left, mut right) = (found.next().transpose()?, expected.next().transpose()?);
    loop {
        let order = match (&left, &right) {
            (None, None) => return Ok(()),
            (Some(left), Some(right)) => left.0.cmp(&right.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        let here = left.as_ref().filter(|_| order.is_le());
        let there = right.as_ref().filter(|_| order.is_ge());
        if let Some((key, _)) = here.or(there) {
            visit(key, here.map(|(_, value)| &**value), there.map(|(_, value)| &**value))?;
        }
        if order.is_le() {
            left = found.next().transpose()?;
        }
        if order.is_ge() {
            right = expected.next().transpose()?;
        }
    }
}
