//! The actor: the single writer of the groups' members, trees and rolls.
//!
//! Acts that wait at the same time are decided one after the other and written as one step, with
//! one new root. A step runs in a task of its own, which goes on when the actor ends: it may be on
//! its way to the disk. The next step begins when it is over, and reads what it left.
//!
//! In a cluster every replica has a keeper. Its writes are conditional on the group's record and
//! decided by the leader, so of two keepers that write at the same time one reads again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::EnrolmentRequest;
use selfsame_protocol::groups::names::{Day, GroupId, GroupKey, MemberNumber, RollName};
use selfsame_protocol::groups::records::{GroupRecord, RollRecord};
use selfsame_protocol::groups::sealed::SealedWrite;
use selfsame_protocol::groups::wire::{InvitedMembers, MOST_INVITATIONS};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, OnDecided, StoreError};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::handle::{EnrolmentAnswer, GroupError, Invited};
use super::kept::{GroupsState, KeptGroup};
use super::steps::StepAct;
use crate::support::slot::{OpenedMessage, Ping, TracedMessage};

/// Time between two looks at what is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long leaves of members who have left are gathered: each time that one goes, every root that
/// had it ends.
pub(super) const GATHERING_SECONDS: u64 = 1800;

/// Time between two looks for sealed copies that no joining has named.
const SWEEP_SECONDS: u64 = 600;

/// Time between two attempts to read a group that could not be read.
const READ_AGAIN_SECONDS: u64 = 5;

/// The most acts of a step.
const ACTS_OF_A_STEP: usize = 512;

/// The most sealed copies that are deleted at a look.
const SWEPT_COPIES: usize = 1000;

/// How often a step is read again when another replica has written in between.
pub(super) const ATTEMPTS: usize = 50;

pub(super) type Reply<T> = RpcReplyPort<Result<T, GroupError>>;

/// What is asked of a group.
pub(crate) enum GroupAct {
    /// A person's request, whose link proof holds.
    Enrol(Box<EnrolmentRequest>, Reply<EnrolmentAnswer>),
    /// Invite member numbers.
    Invite { members: Vec<MemberNumber>, of: InvitedMembers, reply: Reply<Invited> },
    /// Remove a member.
    Remove(MemberNumber, Reply<bool>),
    /// Take a roll.
    TakeRoll(RollName, Reply<RollRecord>),
    /// Remove a roll.
    RemoveRoll(RollName, Reply<()>),
}

/// A message to the group keeper.
pub(crate) enum GroupKeeperMessage {
    /// An act on a group.
    Act(GroupId, GroupAct),
    /// The step that was begun is over.
    StepDone,
    /// Another replica has written this group.
    Changed(GroupId),
    /// The settings changed.
    SettingsChanged,
    /// Answer when readers see what other replicas have written up to now.
    Settle(RpcReplyPort<()>),
    /// Do what is due.
    Look,
    /// Answer, to show that the actor is not stuck.
    Ping(RpcReplyPort<()>),
}

impl Ping for GroupKeeperMessage {
    fn ping(reply: RpcReplyPort<()>) -> Self {
        Self::Ping(reply)
    }
}

/// The actor.
pub(crate) struct GroupKeeper;

/// State of the actor.
pub(crate) struct GroupKeeperState {
    shared: Arc<GroupsState>,
    myself: ActorRef<TracedMessage<GroupKeeperMessage>>,
    /// What waits, by group in the order of arrival.
    waiting: BTreeMap<GroupId, VecDeque<GroupAct>>,
    /// The group of the last step.
    last: Option<GroupId>,
    /// The groups that other replicas have written.
    changed: BTreeSet<GroupId>,
    /// Those who wait until readers see these groups.
    settling: Vec<RpcReplyPort<()>>,
    /// Whether a step runs.
    is_busy: bool,
    /// What is done at a look and at the end of a step.
    due: Due,
}

/// When what comes by time is done next.
struct Due {
    clearing: UnixSeconds,
    sweeping: UnixSeconds,
    reading: UnixSeconds,
}

impl Actor for GroupKeeper {
    type Msg = TracedMessage<GroupKeeperMessage>;
    type State = GroupKeeperState;
    type Arguments = Arc<GroupsState>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Arc<GroupsState>,
    ) -> Result<GroupKeeperState, ActorProcessingErr> {
        shared.slot.occupy(myself.clone());
        fault_point!(shared.surroundings.fault_scope(), GroupKeeperStart);
        myself.send_interval(LOOK_INTERVAL, || GroupKeeperMessage::Look.into());
        let now = shared.clock().unix_seconds();
        let due = Due { clearing: now, sweeping: now, reading: now };
        let mut state = GroupKeeperState {
            shared,
            myself,
            waiting: BTreeMap::new(),
            last: None,
            changed: BTreeSet::new(),
            settling: Vec::new(),
            is_busy: false,
            due,
        };
        state.begin();
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut GroupKeeperState,
    ) -> Result<(), ActorProcessingErr> {
        let OpenedMessage { span, caller, message } = message.open(state.shared.slot.name());
        async {
            fault_point!(state.shared.surroundings.fault_scope(), GroupKeeperHandle);
            state.handle(message);
            Ok(())
        }
        .instrument(span)
        .instrument(caller)
        .await
    }
}

impl GroupKeeperState {
    fn handle(&mut self, message: GroupKeeperMessage) {
        match message {
            GroupKeeperMessage::Ping(reply) => return drop(reply.send(())),
            GroupKeeperMessage::Act(group, act) => self.waiting.entry(group).or_default().push_back(act),
            GroupKeeperMessage::StepDone => self.is_busy = false,
            GroupKeeperMessage::Changed(group) => _ = self.changed.insert(group),
            GroupKeeperMessage::Settle(reply) => self.settling.push(reply),
            GroupKeeperMessage::SettingsChanged => self.due.reading = UnixSeconds(0),
            GroupKeeperMessage::Look => {}
        }
        if !self.is_busy {
            self.begin();
        }
        // The step that was begun may read the groups again that they wait for.
        if !self.is_busy {
            self.settling.drain(..).for_each(|reply| drop(reply.send(())));
        }
    }

    /// Begins the next step, if there is something to do.
    fn begin(&mut self) {
        let now = self.shared.clock().unix_seconds();
        let leads = self.shared.records.leads();
        let mut work = Work { leads, changed: std::mem::take(&mut self.changed), ..Work::default() };
        if now >= self.due.reading {
            self.due.reading = now.plus(READ_AGAIN_SECONDS);
            work.reads = true;
        }
        if leads && now >= self.due.clearing {
            self.due.clearing = now.plus(GATHERING_SECONDS);
            work.clears = true;
        }
        if leads && now >= self.due.sweeping {
            self.due.sweeping = now.plus(SWEEP_SECONDS);
            work.sweeps = true;
        }
        work.has_due_rolls = leads && self.shared.has_due_rolls(now);
        self.waiting.retain(|_, acts| !acts.is_empty());
        // One group after the other: a group with many acts keeps no other one waiting.
        let after_last = |group: &GroupId| self.last.is_none_or(|last| *group > last);
        let next = self.waiting.keys().copied().find(after_last).or_else(|| self.waiting.keys().next().copied());
        if let Some(group) = next
            && let Some(acts) = self.waiting.get_mut(&group)
        {
            let count = acts_together(acts);
            work.acts = Some((group, acts.drain(..count).collect()));
            self.last = Some(group);
        }
        if work.is_empty() {
            return;
        }
        self.is_busy = true;
        let (shared, myself) = (Arc::clone(&self.shared), self.myself.clone());
        let working = async move {
            let stepping = Arc::clone(&shared);
            let step = async move {
                let _writing = Arc::clone(&stepping.writing).lock_owned().await;
                stepping.work(work).await;
            };
            if tokio::spawn(step.in_current_span()).await.is_err() {
                shared.read_all_again().await;
            }
            // The actor may have ended; its successor begins by itself.
            drop(myself.cast(GroupKeeperMessage::StepDone.into()));
        };
        tokio::spawn(working.in_current_span());
    }
}

/// What one step does.
#[derive(Default)]
struct Work {
    leads: bool,
    changed: BTreeSet<GroupId>,
    reads: bool,
    clears: bool,
    sweeps: bool,
    has_due_rolls: bool,
    acts: Option<(GroupId, Vec<GroupAct>)>,
}

impl Work {
    fn is_empty(&self) -> bool {
        !(self.reads || self.clears || self.sweeps || self.has_due_rolls)
            && self.changed.is_empty()
            && self.acts.is_none()
    }
}

/// How many acts are one step: with all their member numbers no more than one list can have, so
/// that what is written at once is bounded.
fn acts_together(acts: &VecDeque<GroupAct>) -> usize {
    let mut numbers = 0;
    let fitting = acts.iter().take(ACTS_OF_A_STEP).take_while(|act| {
        numbers += match act {
            GroupAct::Invite { members, .. } => members.len(),
            _ => 1,
        };
        numbers <= MOST_INVITATIONS
    });
    fitting.count().max(1)
}

impl GroupsState {
    /// Does the work of a step. The caller holds the lock.
    async fn work(self: &Arc<Self>, work: Work) {
        for group in work.changed {
            // A failure is noted, and the group read again, at a later look.
            if let Some(kept) = self.groups.load().get(&group).cloned() {
                drop(self.read_again(&kept).await);
            }
        }
        if work.reads {
            self.read_missing(work.leads).await;
        }
        // A roll has the members of its moment: it is taken before acts that came later, also by a
        // replica that does not lead and has such acts, and also when its group was read just now.
        let now = self.clock().unix_seconds();
        if (work.leads || work.acts.is_some()) && self.has_due_rolls(now) {
            self.take_due_rolls().await;
        }
        if work.clears {
            self.clear_left().await;
            self.sweep_roll_pages().await;
        }
        if work.sweeps {
            self.sweep_copies().await;
        }
        if let Some((group, acts)) = work.acts {
            match self.has_due_roll_of(&group, now) {
                // The roll cannot be taken now, and would have the members that these acts leave.
                // Without a reply their callers are told that the group cannot be asked.
                true => drop(acts),
                false => self.act(group, acts).await,
            }
        }
    }

    /// Reads every group again after a step that panicked: it is unknown what it has written.
    async fn read_all_again(self: &Arc<Self>) {
        let _writing = Arc::clone(&self.writing).lock_owned().await;
        let groups = self.groups.load_full();
        for (_, kept) in groups.iter() {
            drop(self.read_again(kept).await);
        }
    }

    /// Reads the groups that were not read yet, and makes those that are not there.
    pub async fn read_missing(self: &Arc<Self>, leads: bool) {
        let groups = self.groups.load_full();
        for (_, kept) in groups.iter().filter(|(_, kept)| kept.read().is_none()) {
            if let Ok(false) = self.read_again(kept).await
                && leads
            {
                let mut group_key = [0; 32];
                self.random().fill(&mut group_key);
                let record = GroupRecord::new(GroupKey(group_key));
                let made = decided(|decided| self.records.create(&kept.id, &record, decided)).await;
                match made {
                    Ok(_) => drop(self.read_again(kept).await),
                    Err(error) => kept.reading.record_failure(&error),
                }
            }
        }
        if leads {
            self.await_rolls(&groups).await;
        }
    }

    /// Reads a group again. One that cannot be read counts as not read: what is published may be
    /// out of date, and a member who was removed must not count any more.
    pub(super) async fn read_again(self: &Arc<Self>, kept: &Arc<KeptGroup>) -> Result<bool, StoreError> {
        let own = Arc::clone(kept);
        let read = self.read_records(move |records| own.load(records)).await;
        if read.is_err() {
            *kept.write() = None;
        }
        read
    }

    /// Reads a group again after a refused step, unless a sealed copy alone was changed: the owner
    /// of a copy must not make the keeper read a large group again and again.
    pub(super) async fn read_if_changed(self: &Arc<Self>, kept: &Arc<KeptGroup>) -> Result<(), StoreError> {
        let known = kept.read().as_ref().map(|state| state.loaded.record);
        let id = kept.id;
        match self.read_records(move |records| records.group(&id)).await {
            Ok(record) if known.is_some() && record == known => Ok(()),
            _ => self.read_again(kept).await.map(drop),
        }
    }

    /// Takes the leaves of members who have left out of the trees.
    async fn clear_left(self: &Arc<Self>) {
        let groups = self.groups.load_full();
        for (_, kept) in groups.iter() {
            let id = kept.id;
            let Ok(leaving) = self.read_records(move |records| records.leaving(&id)).await else { continue };
            if leaving.is_empty() {
                continue;
            }
            if let Err(error) = self.clear(kept, leaving).await {
                tracing::error!(group = %kept.id, %error, "the leaves of members who have left cannot be removed");
            }
        }
    }

    /// Deletes sealed copies that no joining has named within a day.
    async fn sweep_copies(self: &Arc<Self>) {
        let today = Day::of(self.clock().unix_seconds());
        let before = Day(today.0.saturating_sub(1));
        let unkept = self.read_records(move |records| records.unkept_copies(before, SWEPT_COPIES)).await;
        let copies = match unkept {
            Ok(copies) => copies,
            Err(error) => return tracing::error!(%error, "sealed copies that no joining has named cannot be read"),
        };
        // All at once, so that they share a sync: acts wait meanwhile.
        let deletions = copies.into_iter().map(|(id, copy)| async move {
            let mut write = SealedWrite::default();
            write.delete(id, copy);
            decided(|decided| self.records.write_sealed(&write, decided)).await
        });
        if let Some(error) = join_all(deletions).await.into_iter().find_map(Result::err) {
            tracing::error!(%error, "sealed copies that no joining has named cannot be deleted");
        }
    }

    /// Decides about acts on a group, writes and publishes them, and answers.
    async fn act(self: &Arc<Self>, group: GroupId, acts: Vec<GroupAct>) {
        let Some(kept) = self.groups.load().get(&group).cloned() else { return };
        let link_days = self.groups.load().defined(&group).map_or(0, |(definition, _)| definition.link_days);
        let mut acts = VecDeque::from(acts);
        while !acts.is_empty() {
            let mut together = Vec::new();
            while let Some(act) = acts.pop_front() {
                together.push(match act {
                    GroupAct::Enrol(request, reply) => StepAct::Enrol(request, reply),
                    GroupAct::Remove(member, reply) => StepAct::Remove(member, reply),
                    GroupAct::Invite { members, of, reply } => {
                        let members = members.into_iter().map(|member| (member, self.new_code()));
                        StepAct::Invite(members.collect(), of, reply)
                    }
                    // A roll is taken between the acts before it and those after it.
                    GroupAct::TakeRoll(name, reply) => {
                        self.act_together(&kept, std::mem::take(&mut together), link_days).await;
                        drop(reply.send(self.take_roll(&kept, name, None).await));
                        break;
                    }
                    GroupAct::RemoveRoll(name, reply) => {
                        self.act_together(&kept, std::mem::take(&mut together), link_days).await;
                        drop(reply.send(self.remove_roll(&kept, name).await));
                        break;
                    }
                });
            }
            self.act_together(&kept, together, link_days).await;
        }
    }

    fn new_code(&self) -> Code {
        // 17 of 32 random bytes.
        let mut random = [0; 32];
        self.random().fill(&mut random);
        let mut bytes = [0; 17];
        bytes.copy_from_slice(&random[..17]);
        Code::from_random_bytes(bytes)
    }
}

/// Makes a conditional write, and waits for its decision.
pub(super) async fn decided(write: impl FnOnce(OnDecided)) -> Result<Decision, StoreError> {
    let (sender, decision) = oneshot::channel();
    write(Box::new(move |decided| drop(sender.send(decided))));
    decision.await.unwrap_or(Err(StoreError::Closing))
}
