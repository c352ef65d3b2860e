//! Steps: acts on one group that are decided together and written at once.
//!
//! The journal of a cluster takes so much at once. A step that is larger is divided, and its parts
//! are written one after the other, each durable before the next: the acts of several callers, the
//! numbers of one list, the members who have left. What ends many roots ends them before, in writes
//! of their own: a root may end early, and must not end late.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use selfsame_protocol::events::record::{MemberEvent, RecordedEvent};
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::{Enrolled, EnrolmentRequest, GroupChanges, LoadedGroup, MemberChange, Step};
use selfsame_protocol::groups::names::{Day, GroupId, MemberNumber};
use selfsame_protocol::groups::wire::{EnrolledResponse, InvitedMembers};
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_storage::{Decision, GroupReader, StoreError, UnloggedKey};
use tokio::time::Instant;

use super::group_keeper::{ATTEMPTS, Reply, decided};
use super::handle::{EnrolmentAnswer, GroupError, Invited};
use super::kept::{GroupsState, KeptGroup};
use crate::support::notify::ServiceEvent;

/// About how many bytes of an entry it takes to end a root, with a root of one page.
const BYTES_OF_ENDED_ROOT: usize = 256;

/// So many roots of a step end with it, also when it is too large.
const FEW_ROOTS: usize = 8;

/// An act of a step, whose decision can be made again.
pub(super) enum StepAct {
    Enrol(Box<EnrolmentRequest>, Reply<EnrolmentAnswer>),
    Invite(Vec<(MemberNumber, Code)>, InvitedMembers, Reply<Invited>),
    Remove(MemberNumber, Reply<bool>),
}

/// What an act of a step gave.
enum Decided {
    Enrolled(Result<Enrolled, GroupError>),
    Invited(Invited),
    Removed(bool),
}

impl StepAct {
    /// Answers when the step is durable and readers see it. An error of `send` means that the
    /// caller no longer waits.
    fn answer(self, decided: Decided, version: u64) {
        match (self, decided) {
            (Self::Enrol(_, reply), Decided::Enrolled(result)) => {
                drop(reply.send(result.map(|enrolled| match enrolled {
                    Enrolled::At(position) => EnrolmentAnswer::At(EnrolledResponse { position, version }),
                    Enrolled::Left => EnrolmentAnswer::Left,
                })))
            }
            (Self::Invite(_, _, reply), Decided::Invited(invited)) => drop(reply.send(Ok(invited))),
            (Self::Remove(_, reply), Decided::Removed(is_removed)) => drop(reply.send(Ok(is_removed))),
            // Each act has the decision of its kind.
            (act, _) => act.fail(&StoreError::Panicked.into()),
        }
    }

    fn fail(self, error: &GroupError) {
        match self {
            Self::Enrol(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Invite(_, _, reply) => drop(reply.send(Err(error.clone()))),
            Self::Remove(_, reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}

impl GroupsState {
    /// Decides about acts, writes them, and answers each. Acts that are too large together are
    /// divided, and each part is decided on what the one before it left.
    pub(super) async fn act_together(self: &Arc<Self>, kept: &Arc<KeptGroup>, acts: Vec<StepAct>, link_days: u32) {
        let mut parts = VecDeque::from([acts]);
        while let Some(acts) = parts.pop_front() {
            if acts.is_empty() {
                continue;
            }
            let part = Arc::new(Acts { acts, link_days });
            let decided = self.step(kept, &part).await;
            // The decision is over, so nothing else holds the acts.
            let mut acts = Arc::into_inner(part).map(|part| part.acts).unwrap_or_default();
            match decided {
                Ok((decided, version)) => {
                    for (act, decided) in acts.into_iter().zip(decided) {
                        act.answer(decided, version);
                    }
                }
                Err(GroupError::TooLarge { length, most }) if acts.len() > 1 => {
                    divide(acts, length, most).into_iter().rev().for_each(|part| parts.push_front(part));
                }
                Err(error) => match (error, acts.pop()) {
                    (GroupError::TooLarge { length, most }, Some(StepAct::Invite(members, of, reply)))
                        if members.len() > 1 =>
                    {
                        let whole = Invitations { members, of, link_days };
                        drop(reply.send(self.invite_in_parts(kept, whole.divide(length, most)).await));
                    }
                    (error, last) => acts.into_iter().chain(last).for_each(|act| act.fail(&error)),
                },
            }
        }
    }

    /// Invites the numbers of a list that is too large for one write. An error after the first part
    /// says that there are links which have not been given to anyone.
    async fn invite_in_parts(
        self: &Arc<Self>,
        kept: &Arc<KeptGroup>,
        parts: Vec<Invitations>,
    ) -> Result<Invited, GroupError> {
        let listed = parts.iter().map(|part| part.members.len()).sum();
        let mut invited = Invited { invitations: Vec::new(), unchanged: 0 };
        let written = self.step_in_parts(kept, parts, |part: Invited| {
            invited.invitations.extend(part.invitations);
            invited.unchanged += part.unchanged;
        });
        match written.await {
            Ok(()) => Ok(invited),
            Err(error) if invited.invitations.is_empty() => Err(error),
            Err(error) => {
                let invited = invited.invitations.len();
                tracing::error!(group = %kept.id, %error, invited, listed, "a list of member numbers was invited in part");
                Err(GroupError::InvitedInPart { invited, listed })
            }
        }
    }

    /// Takes the leaves of members who have left out of the tree.
    pub async fn clear(self: &Arc<Self>, kept: &Arc<KeptGroup>, left: Vec<MemberNumber>) -> Result<(), GroupError> {
        self.step_in_parts(kept, vec![LeftMembers(left)], drop).await
    }

    /// Makes steps one after the other, and divides one that is too large. What each part gives
    /// goes to `taken`. After an error the parts before it are written, and those after it are not.
    async fn step_in_parts<D: Divide>(
        self: &Arc<Self>,
        kept: &Arc<KeptGroup>,
        parts: Vec<D>,
        mut taken: impl FnMut(D::Value) + Send,
    ) -> Result<(), GroupError> {
        let mut parts = VecDeque::from(parts);
        while let Some(part) = parts.pop_front() {
            let part = Arc::new(part);
            match self.step(kept, &part).await {
                Ok((value, _)) => taken(value),
                Err(GroupError::TooLarge { length, most }) if part.len() > 1 => {
                    // The decision is over, so nothing else holds the part.
                    let part = Arc::into_inner(part).ok_or(StoreError::Panicked)?;
                    part.divide(length, most).into_iter().rev().for_each(|part| parts.push_front(part));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the roots of a step that is too large with all of them, before it is decided again. The
    /// newest stays: it ends with the step.
    async fn end_roots(
        self: &Arc<Self>,
        kept: &Arc<KeptGroup>,
        ended: Vec<u64>,
        most: usize,
    ) -> Result<(), GroupError> {
        let mut together = (most / BYTES_OF_ENDED_ROOT).max(1);
        let mut ended = VecDeque::from(ended);
        while !ended.is_empty() {
            let some: BTreeSet<u64> = ended.iter().take(together).copied().collect();
            let changes = kept.read().as_ref().map(|state| state.loaded.without_roots(&some));
            let changes = changes.ok_or_else(|| GroupError::unavailable("the group was not read yet"))?;
            match self.write(kept, &changes).await {
                Ok(Decision::Written) => drop(ended.drain(..some.len())),
                // The roots of another replica's group end with the step, or before it again.
                Ok(Decision::Changed) => return self.read_if_changed(kept).await.map_err(GroupError::from),
                Err(error) => match GroupError::from(error) {
                    GroupError::TooLarge { .. } if some.len() > 1 => together = some.len() / 2,
                    error @ GroupError::TooLarge { .. } => return Err(error),
                    error => {
                        drop(self.read_again(kept).await);
                        return Err(error);
                    }
                },
            }
        }
        Ok(())
    }

    /// Makes a step: decides on what the store has, writes, and publishes. Decides again when
    /// another replica has written in between. After a failure readers see what the store has: it
    /// is unknown whether the step was written.
    async fn step<D: Decide>(
        self: &Arc<Self>,
        kept: &Arc<KeptGroup>,
        decide: &Arc<D>,
    ) -> Result<(D::Value, u64), GroupError> {
        let begun = Instant::now();
        for _ in 0..ATTEMPTS {
            let (shared, own, decide) = (Arc::clone(self), Arc::clone(kept), Arc::clone(decide));
            let now = self.clock().unix_seconds();
            let deciding = move || {
                // The lock keeps no reader out while the step is decided.
                let loaded = own.read().as_ref().map(|state| Arc::clone(&state.loaded));
                let loaded = loaded.ok_or_else(|| GroupError::unavailable("the group was not read yet"))?;
                decide_step(&shared, &own.id, &loaded, now, &*decide)
            };
            let (value, changes) = self.blocking().run(deciding).await.unwrap_or(Err(StoreError::Panicked.into()))?;
            let Some(changes) = changes else {
                let version = kept.read().as_ref().map_or(0, |state| state.loaded.record.version);
                return Ok((value, version));
            };
            match self.write(kept, &changes).await {
                Ok(Decision::Written) => {
                    self.step_seconds.observe(begun.elapsed().as_secs_f64());
                    return Ok((value, changes.after.version));
                }
                Ok(Decision::Changed) => self.read_if_changed(kept).await?,
                Err(error) => match (GroupError::from(error), ended_roots(&changes)) {
                    (GroupError::TooLarge { most, .. }, ended) if ended.len() > FEW_ROOTS => {
                        self.end_roots(kept, ended, most).await?;
                    }
                    // Nothing was written.
                    (error @ GroupError::TooLarge { .. }, _) => return Err(error),
                    (error, _) => {
                        drop(self.read_again(kept).await);
                        return Err(error);
                    }
                },
            }
        }
        Err(GroupError::unavailable("other replicas write the group all the time"))
    }

    /// Writes a step and publishes it.
    async fn write(&self, kept: &KeptGroup, changes: &GroupChanges) -> Result<Decision, StoreError> {
        let scope = self.surroundings.fault_scope();
        fault_point!(scope, GroupStepBefore);
        let today = Day::of(self.clock().unix_seconds());
        let told = |change: &MemberChange| self.member_event(&kept.id, change, today);
        let events: Vec<_> = changes.told.iter().filter_map(told).collect();
        let decision = decided(|decided| self.records.write(&kept.id, changes, &events, decided)).await?;
        if decision == Decision::Written {
            fault_point!(scope, GroupStepAfter);
            if let Some(state) = kept.write().as_mut() {
                Arc::make_mut(&mut state.loaded).apply(changes);
            }
            if !events.is_empty() {
                self.events.written();
            }
            for MemberChange { member, change } in &changes.told {
                self.announcer().announce(|| ServiceEvent::MemberChanged {
                    group: kept.id,
                    member: member.clone(),
                    change: *change,
                });
            }
        }
        Ok(decision)
    }

    /// The record of an event. Its time is the beginning of the day.
    fn member_event(
        &self,
        group: &GroupId,
        MemberChange { member, change }: &MemberChange,
        day: Day,
    ) -> Option<(UnloggedKey, RecordedEvent)> {
        let event = MemberEvent { group: *group, member: member.clone(), change: *change, day };
        let time = UnixMillis(day.begins_at().0.saturating_mul(1000));
        self.events.record(event.kind(), None, time, || RecordedEvent::Member(event.clone()))
    }
}

/// What a step decides. It can be decided again.
trait Decide: Send + Sync + 'static {
    /// What it gives.
    type Value: Send + 'static;
    fn decide(&self, step: &mut Step<'_, GroupReader<'_>>) -> Result<Self::Value, StoreError>;
}

/// Acts, of which each is decided on what those before it left.
struct Acts {
    acts: Vec<StepAct>,
    link_days: u32,
}

impl Decide for Acts {
    type Value = Vec<Decided>;

    fn decide(&self, step: &mut Step<'_, GroupReader<'_>>) -> Result<Vec<Decided>, StoreError> {
        self.acts.iter().map(|act| decide_act(step, act, self.link_days)).collect()
    }
}

/// Items that can be decided in parts.
trait Divide: Decide + Sized {
    /// How many there are.
    fn len(&self) -> usize;
    /// Parts of them, in their order, of which each may be small enough. There are two at least.
    fn divide(self, length: usize, most: usize) -> Vec<Self>;
}

/// Divides what takes `length` bytes of an entry, where `most` are possible: into two parts at
/// least.
pub(super) fn divide<Item>(items: Vec<Item>, length: usize, most: usize) -> Vec<Vec<Item>> {
    let parts = (length / most.max(1) + 1).max(2);
    let part = items.len().div_ceil(parts).max(1);
    let mut items = items.into_iter().peekable();
    std::iter::from_fn(|| items.peek().is_some().then(|| items.by_ref().take(part).collect())).collect()
}

/// Member numbers of one list, which are invited.
struct Invitations {
    members: Vec<(MemberNumber, Code)>,
    of: InvitedMembers,
    link_days: u32,
}

impl Decide for Invitations {
    type Value = Invited;

    fn decide(&self, step: &mut Step<'_, GroupReader<'_>>) -> Result<Invited, StoreError> {
        invite(step, &self.members, self.of, self.link_days)
    }
}

impl Divide for Invitations {
    fn len(&self) -> usize {
        self.members.len()
    }

    fn divide(self, length: usize, most: usize) -> Vec<Self> {
        let Self { members, of, link_days } = self;
        divide(members, length, most).into_iter().map(|members| Self { members, of, link_days }).collect()
    }
}

/// Members who have left, whose leaves go.
struct LeftMembers(Vec<MemberNumber>);

impl Divide for LeftMembers {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn divide(self, length: usize, most: usize) -> Vec<Self> {
        divide(self.0, length, most).into_iter().map(Self).collect()
    }
}

impl Decide for LeftMembers {
    type Value = ();

    fn decide(&self, step: &mut Step<'_, GroupReader<'_>>) -> Result<(), StoreError> {
        self.0.iter().try_for_each(|member| step.clear_left(member))
    }
}

/// Decides about a step on what the store has.
fn decide_step<D: Decide>(
    shared: &GroupsState,
    group: &GroupId,
    loaded: &LoadedGroup,
    now: UnixSeconds,
    decide: &D,
) -> Result<(D::Value, Option<GroupChanges>), GroupError> {
    let reader = shared.records.reader(group);
    let mut step = Step::new(group, loaded, &reader, Day::of(now));
    let value = decide.decide(&mut step)?;
    Ok((value, step.finish(now)))
}

fn decide_act(step: &mut Step<'_, GroupReader<'_>>, act: &StepAct, link_days: u32) -> Result<Decided, StoreError> {
    Ok(match act {
        StepAct::Enrol(request, _) => Decided::Enrolled(step.enrol(request)?.map_err(GroupError::Enrolment)),
        StepAct::Remove(member, _) => Decided::Removed(step.remove(member)?),
        StepAct::Invite(members, of, _) => Decided::Invited(invite(step, members, *of, link_days)?),
    })
}

fn invite(
    step: &mut Step<'_, GroupReader<'_>>,
    members: &[(MemberNumber, Code)],
    of: InvitedMembers,
    link_days: u32,
) -> Result<Invited, StoreError> {
    let mut invited = Invited { invitations: Vec::new(), unchanged: 0 };
    let expires_on = step.today().plus(link_days);
    for (member, code) in members {
        match step.invite(member, of, expires_on, || code.clone())? {
            Some(invitation) => invited.invitations.push((member.clone(), invitation, expires_on)),
            None => invited.unchanged += 1,
        }
    }
    Ok(invited)
}

/// The versions of the roots that a step ends.
fn ended_roots(changes: &GroupChanges) -> Vec<u64> {
    let live = changes.tree.iter().flat_map(|tree| &tree.live.versions);
    live.filter(|(_, root)| root.is_none()).map(|(version, _)| *version).collect()
}
