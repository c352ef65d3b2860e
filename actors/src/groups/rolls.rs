//! Rolls: lists of the members of one moment, which are taken when it comes and kept until they are
//! removed.
//!
//! They are steps of the group keeper, whose lock the callers hold.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use selfsame_protocol::groups::enrolment::LoadedGroup;
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, RollName};
use selfsame_protocol::groups::records::{AwaitedRollRecord, GroupRecord, RollPageRecord, RollRecord};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RollWrite, StoreError};

use super::group_keeper::{ATTEMPTS, decided};
use super::handle::{GroupError, RollError};
use super::kept::{GroupState, Groups, GroupsState, KeptGroup};
use super::settings::{AwaitedRoll, GroupDefinition};
use super::steps::divide;

impl GroupsState {
    pub fn has_due_rolls(&self, now: UnixSeconds) -> bool {
        self.groups.load().iter().any(|(definition, kept)| has_due_roll(definition, kept, now))
    }

    pub fn has_due_roll_of(&self, group: &GroupId, now: UnixSeconds) -> bool {
        self.groups.load().defined(group).is_some_and(|(definition, kept)| has_due_roll(definition, kept, now))
    }

    /// Notes the times of the configuration's rolls, so that they are taken also when the service
    /// is down then. A time that was over when it was first seen is not noted.
    pub async fn await_rolls(&self, groups: &Groups) {
        let now = self.clock().unix_seconds();
        for (definition, kept) in groups.iter() {
            for roll in definition.rolls.iter().filter(|roll| roll.at > now) {
                if let Err(error) = self.await_roll(kept, roll).await {
                    tracing::warn!(group = %kept.id, roll = %roll.name, %error, "the time of a roll cannot be noted, and is tried again");
                }
            }
        }
    }

    async fn await_roll(&self, kept: &KeptGroup, roll: &AwaitedRoll) -> Result<(), StoreError> {
        let known = self.awaited(kept, &roll.name).await?;
        if known.is_some_and(|known| known.is_taken || known.at == roll.at) {
            return Ok(());
        }
        // A roll that was taken by hand before is the one with this name.
        let is_taken = kept.read().as_ref().is_some_and(|state| state.rolls.contains_key(&roll.name));
        let after = AwaitedRollRecord { at: roll.at, is_taken };
        decided(|decided| self.records.await_roll(&kept.id, &roll.name, (known.as_ref(), &after), decided)).await?;
        if is_taken && let Some(state) = kept.write().as_mut() {
            state.is_taken.insert(roll.name.clone());
        }
        Ok(())
    }

    /// What is noted of the time of a roll.
    async fn awaited(&self, kept: &KeptGroup, name: &RollName) -> Result<Option<AwaitedRollRecord>, StoreError> {
        let (id, name) = (kept.id, name.clone());
        self.read_records(move |records| Ok(records.awaited_rolls(&id)?.remove(&name))).await
    }

    pub async fn take_due_rolls(self: &Arc<Self>) {
        let (groups, now) = (self.groups.load_full(), self.clock().unix_seconds());
        for (definition, kept) in groups.iter() {
            for roll in definition.rolls.iter().filter(|roll| roll.at <= now) {
                let is_taken = kept.read().as_ref().is_none_or(|state| state.is_taken.contains(&roll.name));
                if is_taken {
                    continue;
                }
                match self.awaited(kept, &roll.name).await {
                    Ok(Some(_)) => {
                        if let Err(error) = self.take_roll(kept, roll.name.clone(), Some(roll.at)).await {
                            tracing::error!(group = %kept.id, roll = %roll.name, %error, "a roll cannot be taken, and is tried again");
                        }
                    }
                    Ok(None) => {
                        tracing::error!(group = %kept.id, roll = %roll.name, "a roll is not taken: its time was over when it was first seen");
                        if let Some(state) = kept.write().as_mut() {
                            state.is_taken.insert(roll.name.clone());
                        }
                    }
                    Err(error) => {
                        tracing::error!(group = %kept.id, roll = %roll.name, %error, "a roll cannot be taken, and is tried again");
                    }
                }
            }
        }
    }

    pub async fn take_roll(
        self: &Arc<Self>,
        kept: &Arc<KeptGroup>,
        name: RollName,
        at: Option<UnixSeconds>,
    ) -> Result<RollRecord, GroupError> {
        // One that is taken before its time is not taken again, also after it was removed.
        let awaited = at.or_else(|| self.awaited_time(kept, &name));
        // The pages that were written before the roll, all of one revision of the group.
        let mut stored = BTreeSet::new();
        for _ in 0..ATTEMPTS {
            let now = self.clock().unix_seconds();
            let (mut write, roll) = {
                let state = kept.read();
                let state = state.as_ref().ok_or_else(|| GroupError::unavailable("the group was not read yet"))?;
                if state.rolls.contains_key(&name) {
                    return Err(RollError::Taken(name).into());
                }
                let LoadedGroup { record, tree, .. } = &*state.loaded;
                let page_roots = tree.page_roots();
                let roll = RollRecord {
                    taken_on: Day::of(at.unwrap_or(now)),
                    size: record.size,
                    members: record.members,
                    root: record.root,
                    page_roots: page_roots.clone(),
                };
                let page = |(page, root)| (root, Some(RollPageRecord { leaves: tree.page_leaves(page).to_vec() }));
                let write = RollWrite {
                    group: (*record, GroupRecord { revision: record.revision + 1, ..*record }),
                    name: name.clone(),
                    roll: Some(roll.clone()),
                    pages: page_roots.into_iter().enumerate().map(page).collect(),
                    awaited: awaited.map(|at| AwaitedRollRecord { at, is_taken: true }),
                };
                (write, roll)
            };
            write.pages.retain(|root, _| !stored.contains(root));
            match self.write_roll(kept, &write).await {
                Ok(Decision::Written) => return Ok(roll),
                // Another replica may have removed a roll with the same pages.
                Ok(Decision::Changed) => stored.clear(),
                Err(GroupError::TooLarge { length, most }) if !write.pages.is_empty() => {
                    let pages = write.pages.into_iter().filter_map(|(root, page)| Some((root, page?))).collect();
                    stored = self.write_roll_pages(kept, pages, (length, most)).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(GroupError::unavailable("other replicas write the group all the time"))
    }

    /// Writes the pages of a roll that is too large for one write of a cluster, in parts. Returns
    /// those that the store has; none when another replica has written the group in between. Pages
    /// that no roll comes to have are removed at a later look.
    async fn write_roll_pages(
        self: &Arc<Self>,
        kept: &Arc<KeptGroup>,
        pages: Vec<(FieldNumber, RollPageRecord)>,
        (length, most): (usize, usize),
    ) -> Result<BTreeSet<FieldNumber>, GroupError> {
        let mut stored = BTreeSet::new();
        let mut parts = VecDeque::from(divide(pages, length, most));
        while let Some(part) = parts.pop_front() {
            let before = kept.read().as_ref().map(|state| state.loaded.record);
            let before = before.ok_or_else(|| GroupError::unavailable("the group was not read yet"))?;
            let after = GroupRecord { revision: before.revision + 1, ..before };
            let (id, records) = (&kept.id, &self.records);
            let written = decided(|decided| records.write_roll_pages(id, (&before, &after), &part, decided)).await;
            match written {
                Ok(Decision::Written) => {
                    if let Some(state) = kept.write().as_mut() {
                        Arc::make_mut(&mut state.loaded).record = after;
                    }
                    stored.extend(part.into_iter().map(|(root, _)| root));
                }
                Ok(Decision::Changed) => {
                    self.read_again(kept).await?;
                    return Ok(BTreeSet::new());
                }
                Err(error) => match GroupError::from(error) {
                    GroupError::TooLarge { length, most } if part.len() > 1 => {
                        divide(part, length, most).into_iter().rev().for_each(|part| parts.push_front(part));
                    }
                    error @ GroupError::TooLarge { .. } => return Err(error),
                    error => {
                        drop(self.read_again(kept).await);
                        return Err(error);
                    }
                },
            }
        }
        Ok(stored)
    }

    /// Removes pages of rolls that no roll has: a replica that writes a large roll may die, or be
    /// refused, before it has written the roll itself. A store that has left its cluster may have
    /// some, too.
    pub async fn sweep_roll_pages(self: &Arc<Self>) {
        let groups = self.groups.load_full();
        for (_, kept) in groups.iter() {
            let id = kept.id;
            let Ok(stored) = self.read_records(move |records| records.roll_page_roots(&id)).await else { continue };
            let write = kept.read().as_ref().and_then(|state| {
                let record = state.loaded.record;
                let is_of_roll = |root: &FieldNumber| state.rolls.values().any(|roll| roll.page_roots.contains(root));
                let unused: BTreeSet<_> = stored.into_iter().filter(|root| !is_of_roll(root)).collect();
                let after = GroupRecord { revision: record.revision + 1, ..record };
                (!unused.is_empty()).then_some((record, after, unused))
            });
            let Some((before, after, unused)) = write else { continue };
            let removed = decided(|decided| self.records.remove_roll_pages(&id, (&before, &after), &unused, decided));
            match removed.await {
                Ok(Decision::Written) => {
                    if let Some(state) = kept.write().as_mut() {
                        Arc::make_mut(&mut state.loaded).record = after;
                    }
                }
                // They are removed at a later look.
                Ok(Decision::Changed) => {}
                Err(error) => {
                    tracing::error!(group = %kept.id, %error, "pages that no roll has cannot be removed");
                    drop(self.read_again(kept).await);
                }
            }
        }
    }

    /// The time of a roll in the configuration.
    fn awaited_time(&self, kept: &KeptGroup, name: &RollName) -> Option<UnixSeconds> {
        let groups = self.groups.load();
        let (definition, _) = groups.defined(&kept.id)?;
        definition.rolls.iter().find(|roll| roll.name == *name).map(|roll| roll.at)
    }

    pub async fn remove_roll(self: &Arc<Self>, kept: &Arc<KeptGroup>, name: RollName) -> Result<(), GroupError> {
        let counted = self.groups.load().defined(&kept.id).and_then(|(definition, _)| {
            definition.actions.iter().find(|counted| counted.roll == name).map(|counted| counted.action.app_id.clone())
        });
        if let Some(by) = counted {
            return Err(RollError::Counted { roll: name, by }.into());
        }
        for _ in 0..ATTEMPTS {
            let write = {
                let state = kept.read();
                let state = state.as_ref().ok_or_else(|| GroupError::unavailable("the group was not read yet"))?;
                let Some(roll) = state.rolls.get(&name) else { return Err(RollError::Unknown(name).into()) };
                let unused = roll.page_roots.iter().filter(|root| !state.others_with_page(**root, &name));
                let record = state.loaded.record;
                RollWrite {
                    group: (record, GroupRecord { revision: record.revision + 1, ..record }),
                    name: name.clone(),
                    roll: None,
                    pages: unused.map(|root| (*root, None)).collect(),
                    awaited: None,
                }
            };
            if self.write_roll(kept, &write).await? == Decision::Written {
                return Ok(());
            }
        }
        Err(GroupError::unavailable("other replicas write the group all the time"))
    }

    async fn write_roll(self: &Arc<Self>, kept: &Arc<KeptGroup>, write: &RollWrite) -> Result<Decision, GroupError> {
        let scope = self.surroundings.fault_scope();
        let written = async {
            fault_point!(scope, GroupStepBefore);
            let decision = decided(|decided| self.records.write_roll(&kept.id, write, decided)).await?;
            fault_point!(scope, GroupStepAfter);
            Ok::<_, StoreError>(decision)
        };
        match written.await {
            Ok(Decision::Written) => {
                if let Some(state) = kept.write().as_mut() {
                    state.apply_roll(write);
                }
                Ok(Decision::Written)
            }
            Ok(Decision::Changed) => {
                self.read_again(kept).await?;
                Ok(Decision::Changed)
            }
            Err(error) => match GroupError::from(error) {
                // Nothing was written.
                error @ GroupError::TooLarge { .. } => Err(error),
                error => {
                    drop(self.read_again(kept).await);
                    Err(error)
                }
            },
        }
    }
}

/// Whether a roll of the configuration is to be taken now. It is not while the group is not read.
fn has_due_roll(definition: &GroupDefinition, kept: &KeptGroup, now: UnixSeconds) -> bool {
    let state = kept.read();
    let is_missing = |roll: &AwaitedRoll| state.as_ref().is_some_and(|state| !state.is_taken.contains(&roll.name));
    definition.rolls.iter().any(|roll| roll.at <= now && is_missing(roll))
}

impl GroupState {
    fn apply_roll(&mut self, write: &RollWrite) {
        Arc::make_mut(&mut self.loaded).record = write.group.1;
        if write.awaited.is_some_and(|awaited| awaited.is_taken) {
            self.is_taken.insert(write.name.clone());
        }
        match &write.roll {
            Some(roll) => drop(self.rolls.insert(write.name.clone(), roll.clone())),
            None => drop(self.rolls.remove(&write.name)),
        }
    }
}
