//! Schema 7: the families of events and webhooks, which begin empty. No earlier record changes.

use super::FamilyChange;

pub(super) const CHANGES: [FamilyChange; 0] = [];
