//! The records of one write.

use selfsame_protocol::encoding::Encoding;

use crate::schema::family::Family;

/// Where the bytes of a change lie among those of all changes: the key begins where the change
/// before it ends.
struct Change {
    family: &'static str,
    key_end: usize,
    /// The value's end; `None` deletes.
    value_end: Option<usize>,
}

/// Changes that are written together or not at all.
///
/// A request is a handful of small records, so their keys and values are encoded one behind the
/// other, and not each into memory of its own.
#[derive(Default)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
    items: Vec<Change>,
}

impl Changes {
    pub(crate) fn put<Key: Encoding, Value: Encoding>(
        &mut self,
        family: &Family<Key, Value>,
        key: &Key,
        value: &Value,
    ) {
        key.encode(&mut self.bytes);
        let key_end = self.bytes.len();
        value.encode(&mut self.bytes);
        self.items.push(Change { family: family.name, key_end, value_end: Some(self.bytes.len()) });
    }

    pub(crate) fn delete<Key: Encoding, Value: Encoding>(&mut self, family: &Family<Key, Value>, key: &Key) {
        key.encode(&mut self.bytes);
        self.items.push(Change { family: family.name, key_end: self.bytes.len(), value_end: None });
    }

    pub(crate) fn put_raw(&mut self, family: &'static str, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(key.as_ref());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value.as_ref());
        self.items.push(Change { family, key_end, value_end: Some(self.bytes.len()) });
    }

    pub(crate) fn delete_raw(&mut self, family: &'static str, key: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(key.as_ref());
        self.items.push(Change { family, key_end: self.bytes.len(), value_end: None });
    }

    /// Family, key and new value of each change; `None` deletes.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&'static str, &[u8], Option<&[u8]>)> {
        let mut start = 0;
        self.items.iter().map(move |&Change { family, key_end, value_end }| {
            let key = &self.bytes[start..key_end];
            start = value_end.unwrap_or(key_end);
            (family, key, value_end.map(|end| &self.bytes[key_end..end]))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Appends other changes to these.
    pub(crate) fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.items.extend(other.items.into_iter().map(|Change { family, key_end, value_end }| Change {
            family,
            key_end: before + key_end,
            value_end: value_end.map(|end| before + end),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A put, an empty value and a deletion, whose keys and values begin with `first`.
    fn changes(first: &str) -> Changes {
        let mut changes = Changes::default();
        changes.put_raw("accounts", format!("{first} key"), format!("{first} value"));
        changes.put_raw("pages", format!("{first} other key"), "");
        changes.delete_raw("accounts", format!("{first} third key"));
        changes
    }

    fn lines(changes: &Changes) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a text");
        let line = |(family, key, value): (&str, &[u8], Option<&[u8]>)| {
            format!("{family}: {} = {:?}", text(key), value.map(text))
        };
        changes.items().map(line).collect()
    }

    #[test]
    fn appended_changes_follow_in_their_order() {
        let expected = [
            r#"accounts: one key = Some("one value")"#,
            r#"pages: one other key = Some("")"#,
            "accounts: one third key = None",
            r#"accounts: two key = Some("two value")"#,
            r#"pages: two other key = Some("")"#,
            "accounts: two third key = None",
        ];
        let mut appended = Changes::default();
        assert!(appended.is_empty());
        appended.append(changes("one"));
        assert_eq!(lines(&appended), expected[..3]);
        appended.append(Changes::default());
        appended.append(changes("two"));
        assert_eq!(lines(&appended), expected);
    }
}
