//! Schema 6: a kind of record for the nonces that relying parties sign. No earlier record changes;
//! a program of schema 5 could not read the new ones.

use super::SchemaChange;

pub(super) const CHANGE: SchemaChange = SchemaChange::NONE;
