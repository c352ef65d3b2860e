//! Schema 7: the families of events and webhooks, which begin empty. No earlier record changes.

use super::SchemaChange;

pub(super) const CHANGE: SchemaChange = SchemaChange::NONE;
