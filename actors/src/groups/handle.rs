//! The handle of groups, for front-ends and embedders: enrolment by persons and by the operator,
//! rolls, and what wallets read.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;
use selfsame_protocol::groth16::EncodedClaim;
use selfsame_protocol::groups::enrolment::{EnrolmentError, EnrolmentRequest, LoadedGroup, NewInvitation, Step};
use selfsame_protocol::groups::live_roots::{LiveRoots, leaves_at};
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, MemberNumber, RollName};
use selfsame_protocol::groups::records::{MemberRecord, RollRecord};
use selfsame_protocol::groups::sealed::SealedError;
use selfsame_protocol::groups::tree::page_bytes;
use selfsame_protocol::groups::wire::{
    EnrolledResponse, GroupResponse, InvitedMembers, MOST_INVITATIONS, RollResponse,
};
use selfsame_protocol::time::{RetryAfter, UnixSeconds};
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::roots::RootAge;
use selfsame_storage::{Metrics, ReplicaError, Samples, StoreError};
use tokio::time::Instant;

use super::group_keeper::{GroupAct, GroupKeeperMessage};
use super::kept::{GroupState, GroupsState, KeptGroup};
use super::settings::{AwaitedRoll, GroupDefinition, GroupSettings};
use crate::support::replica::AwaitError;
use crate::support::slot::CallError;
use crate::support::source_limits::{TooManyRequests, register_refusals};

/// How long an act may wait for the keeper and the disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many member numbers of a list lengthen that by a second.
const INVITED_IN_A_SECOND: usize = 4000;

// Why a call is refused.

/// Why a call about groups is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GroupError {
    /// No group has the id.
    #[error("there is no group {0}; GET /groups lists them")]
    Unknown(GroupId),
    /// The rules of enrolment refuse it.
    #[error(transparent)]
    Enrolment(#[from] EnrolmentError),
    /// The rules of sealed copies refuse it.
    #[error(transparent)]
    Sealed(#[from] SealedError),
    /// The list of member numbers is not one.
    #[error(transparent)]
    Invitations(#[from] InvitationError),
    /// A roll cannot be taken or removed.
    #[error(transparent)]
    Roll(#[from] RollError),
    /// One change is larger than what the journal of the cluster takes at once. Nothing was
    /// written.
    #[error(
        "the change takes {length} bytes of the cluster's journal, which takes {most} at once; nothing was changed, and \
         the same will be refused again"
    )]
    TooLarge {
        /// Bytes that it takes.
        length: usize,
        /// The most bytes.
        most: usize,
    },
    /// A list of member numbers was written in parts, and a later part failed. The codes of the
    /// parts before it are not in any answer.
    #[error(
        "links for at least {invited} of {listed} numbers were made and cannot be shown, and then the group could not be \
         written; send the list again with \"for\": \"not_joined\" (--again), which makes a link for each number"
    )]
    InvitedInPart {
        /// How many links were made.
        invited: usize,
        /// How many numbers the list has.
        listed: usize,
    },
    /// The service was started without groups, and has no keeper for them.
    #[error("the first group needs a restart; restart the service")]
    Restart,
    /// The source address has sent as many requests as it may.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The group cannot be read or written now. What was asked for may have been done.
    #[error("the group cannot be asked ({reason}); try again in {retry_after}")]
    Unavailable {
        /// Why.
        reason: String,
        /// Time until another attempt may succeed.
        retry_after: RetryAfter,
    },
}

impl GroupError {
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: RetryAfter::SOON }
    }
}

impl From<StoreError> for GroupError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Replica(ReplicaError::TooLarge { length, most }) => Self::TooLarge { length, most },
            error => Self::unavailable(error.to_string()),
        }
    }
}

impl From<AwaitError> for GroupError {
    fn from(error: AwaitError) -> Self {
        match error {
            AwaitError::TooMany(too_many) => too_many.into(),
            AwaitError::Store(error) => error.into(),
        }
    }
}

impl From<CallError> for GroupError {
    fn from(error: CallError) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// Why a list of member numbers is refused. Nothing is written then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvitationError {
    /// A number is there twice.
    #[error("members[{second}]: is members[{first}] again; name each member number once")]
    Twice {
        /// The index of the first one.
        first: usize,
        /// The index of the other one.
        second: usize,
    },
    /// More numbers than a request may have.
    #[error("members: has {count} numbers; send at most {MOST_INVITATIONS} at a time")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

/// Why a roll cannot be taken, removed or awaited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollError {
    /// There is a roll with the name.
    #[error("there is a roll {0} already; choose another name, or remove it first")]
    Taken(RollName),
    /// There is no roll with the name.
    #[error("there is no roll {0}")]
    Unknown(RollName),
    /// An action of the configuration counts the roll.
    #[error("an action of {by} counts roll {roll}; take the roll out of [[actions]] first")]
    Counted {
        /// The roll.
        roll: RollName,
        /// The application.
        by: String,
    },
    /// The time of a roll that was not seen before is over.
    #[error(
        "the time of roll {roll} of group {group} is over, and it was not seen before; name a time to come, or take \
             the roll with `selfsame group roll {group} {roll}` and leave the time out"
    )]
    Past {
        /// The group.
        group: GroupId,
        /// The roll.
        roll: RollName,
    },
}

/// The answer to a person's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnrolmentAnswer {
    /// The member has a leaf.
    At(EnrolledResponse),
    /// The member has left.
    Left,
}

/// New invitations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invited {
    /// The numbers that get a link, in the order of the request, each with the link's last day.
    pub invitations: Vec<(MemberNumber, NewInvitation, Day)>,
    /// How many stay as they are.
    pub unchanged: usize,
}

/// How a group does, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its id.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// Positions that were ever given.
    pub size: u32,
    /// Leaves that are not 0.
    pub members: u32,
    /// Member numbers that were ever invited.
    pub invited: u32,
    /// Codes that were not used and not ended. They may have expired.
    pub open_codes: u32,
    /// Roots that proofs may be made against.
    pub live_roots: usize,
    /// The rolls, by name.
    pub rolls: Vec<(RollName, RollRecord)>,
    /// Why the group cannot be read; `None` while it can.
    pub failure: Option<String>,
}

/// Groups, for front-ends and embedders. Cheap to clone. The handle stays valid when the keeper
/// restarts.
#[derive(Clone)]
pub struct GroupsHandle {
    pub(crate) state: Arc<GroupsState>,
}

impl GroupsHandle {
    pub(crate) fn new(state: Arc<GroupsState>) -> Self {
        Self { state }
    }

    /// The configured groups.
    pub fn definitions(&self) -> Arc<Vec<GroupDefinition>> {
        Arc::clone(&self.state.groups.load().definitions)
    }

    fn kept(&self, id: &GroupId) -> Result<Arc<KeptGroup>, GroupError> {
        self.state.groups.load().get(id).cloned().ok_or(GroupError::Unknown(*id))
    }

    /// Reads what is published of a group.
    fn read<T>(&self, id: &GroupId, read: impl FnOnce(&GroupState) -> T) -> Result<T, GroupError> {
        let kept = self.kept(id)?;
        let state = kept.read();
        state.as_ref().map(read).ok_or_else(|| GroupError::unavailable("the group was not read yet"))
    }

    // What wallets read.

    /// A group as wallets read it, of one moment.
    ///
    /// # Errors
    /// [`GroupError::Unknown`] and [`GroupError::Unavailable`].
    pub fn describe(&self, id: &GroupId) -> Result<GroupResponse, GroupError> {
        let groups = self.state.groups.load();
        let (definition, _) = groups.defined(id).ok_or(GroupError::Unknown(*id))?;
        self.read(id, |GroupState { loaded, rolls, .. }| {
            let roll = |(name, roll): (&RollName, &RollRecord)| {
                let counted = definition.actions.iter().filter(|counted| counted.roll == *name);
                RollResponse {
                    name: name.clone(),
                    taken_on: roll.taken_on,
                    size: roll.size,
                    members: roll.members,
                    root: roll.root,
                    page_roots: roll.page_roots.clone(),
                    actions: counted.map(|counted| counted.action.clone()).collect(),
                }
            };
            GroupResponse {
                id: *id,
                name: definition.name.clone(),
                group_key: loaded.record.group_key,
                environment: definition.environment,
                legacy_identifier: definition.legacy_identifier,
                version: loaded.record.version,
                size: loaded.record.size,
                members: loaded.record.members,
                root: loaded.record.root,
                page_roots: loaded.tree.page_roots(),
                rolls: rolls.iter().map(roll).collect(),
            }
        })
    }

    /// A page by its root: 1024 leaves of 32 bytes. `None` when neither a live root nor a roll has
    /// it.
    ///
    /// # Errors
    /// [`GroupError::Unknown`], [`GroupError::TooMany`] and [`GroupError::Unavailable`].
    pub async fn page(
        &self,
        id: &GroupId,
        root: FieldNumber,
        source: Option<IpAddr>,
    ) -> Result<Option<Vec<u8>>, GroupError> {
        let is_missing = |page: &Result<Option<_>, _>| matches!(page, Ok(None));
        self.look_again(source, is_missing, || self.page_here(id, root)).await
    }

    async fn page_here(&self, id: &GroupId, root: FieldNumber) -> Result<Option<Vec<u8>>, GroupError> {
        let (live, is_of_roll) = self.read(id, |GroupState { loaded, rolls, .. }| {
            let live = loaded
                .live
                .page_with(root)
                .map(|(page, version)| page_bytes(&leaves_at(&loaded.stored_page(page as usize), version)));
            (live, rolls.values().any(|roll| roll.page_roots.contains(&root)))
        })?;
        if live.is_some() || !is_of_roll {
            return Ok(live);
        }
        let id = *id;
        let page = self.state.read_records(move |records| records.roll_page(&id, root)).await?;
        Ok(page.map(|page| page_bytes(&page.leaves)))
    }

    /// The age of a root of a group; `None` when it is not live, and when the group cannot be read.
    pub fn root_age(&self, id: &GroupId, root: Root, now: UnixSeconds) -> Option<RootAge> {
        self.read_root_age(id, root, now).ok().flatten()
    }

    /// The root of a roll; `None` when it was not taken, and when the group cannot be read.
    pub fn roll_root(&self, id: &GroupId, roll: &RollName) -> Option<Root> {
        self.read_roll_root(id, roll).ok().flatten()
    }

    /// The age of a root of a group; `None` when it is not live.
    ///
    /// # Errors
    /// The group cannot be read, so that nothing can be said of the root.
    pub(crate) fn read_root_age(
        &self,
        id: &GroupId,
        root: Root,
        now: UnixSeconds,
    ) -> Result<Option<RootAge>, GroupError> {
        self.read(id, |state| state.loaded.live.age(root, now))
    }

    /// The root of a roll; `None` when it was not taken.
    ///
    /// # Errors
    /// The group cannot be read, so that nothing can be said of its rolls.
    pub(crate) fn read_roll_root(&self, id: &GroupId, roll: &RollName) -> Result<Option<Root>, GroupError> {
        self.read(id, |state| state.rolls.get(roll).map(|roll| roll.root))
    }

    /// Calls, and calls again when the outcome can be that of a replica which has not seen what
    /// another one has answered.
    pub(super) async fn look_again<T, F: Future<Output = Result<T, GroupError>>>(
        &self,
        source: Option<IpAddr>,
        is_missing: impl Fn(&Result<T, GroupError>) -> bool,
        call: impl Fn() -> F,
    ) -> Result<T, GroupError> {
        let outcome = call().await;
        let catching_up = &self.state.catching_up;
        if !catching_up.is_replica() || !is_missing(&outcome) {
            return outcome;
        }
        catching_up.find_for(source, self.state.clock().now()).await?;
        self.settle().await?;
        let outcome = call().await;
        if !is_missing(&outcome) {
            catching_up.found(source);
        }
        outcome
    }

    /// Waits until readers see what other replicas have written and this one has in its store.
    ///
    /// # Errors
    /// [`GroupError::Unavailable`].
    pub(crate) async fn settle(&self) -> Result<(), GroupError> {
        match self.state.has_keeper {
            true => Ok(self.state.slot.call(GroupKeeperMessage::Settle, Instant::now() + PATIENCE).await?),
            false => Ok(()),
        }
    }

    // Enrolment.

    /// Joins, replaces or leaves for a person. When this returns success, it is durable, and every
    /// reader of this service sees it.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn enrol(
        &self,
        id: &GroupId,
        request: EnrolmentRequest,
        source: Option<IpAddr>,
    ) -> Result<EnrolmentAnswer, GroupError> {
        self.charge(source)?;
        let deadline = Instant::now() + PATIENCE;
        let environment = {
            let groups = self.state.groups.load();
            groups.defined(id).ok_or(GroupError::Unknown(*id))?.0.environment
        };
        let claim = self.look_again(source, is_refused_act, || self.check_before_proof(id, &request)).await?;
        let checked = self.state.link_proofs.check(environment, claim, source, deadline).await;
        let holds = checked.map_err(GroupError::unavailable)?;
        if !holds {
            return Err(EnrolmentError::LinkProofInvalid.into());
        }
        // A refused act has changed nothing, and can be decided again.
        let enrol = || self.act(id, |reply| GroupAct::Enrol(Box::new(request.clone()), reply));
        self.look_again(source, is_refused_act, enrol).await
    }

    /// Checks what needs no proof; returns what the link proof must prove.
    async fn check_before_proof(&self, id: &GroupId, request: &EnrolmentRequest) -> Result<EncodedClaim, GroupError> {
        let (kept, request) = (self.kept(id)?, request.clone());
        let (shared, today) = (Arc::clone(&self.state), Day::of(self.state.clock().unix_seconds()));
        let check = move || {
            let record = kept.read().as_ref().map(|state| state.loaded.record);
            let record = record.ok_or_else(|| GroupError::unavailable("the group was not read yet"))?;
            // These checks look at codes and members alone. A handle of the loaded group, held here
            // while the keeper publishes a step, would make it copy all leaves before it changes
            // them, and readers wait.
            let without_leaves = LoadedGroup::new(record, Vec::new(), LiveRoots::default());
            let reader = shared.records.reader(&kept.id);
            let step = Step::new(&kept.id, &without_leaves, &reader, today);
            step.check_before_proof(&request)??;
            Ok::<_, GroupError>(request.claim(&record.group_key)?)
        };
        self.state.blocking().run(check).await.unwrap_or(Err(StoreError::Panicked.into()))
    }

    /// Invites member numbers. The codes are in the answer and nowhere else. All are written at
    /// once or none, but for a list that is too large for the journal of a cluster: that is written
    /// in parts, in its order, and the answer comes after the last one.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn invite(
        &self,
        id: &GroupId,
        members: Vec<MemberNumber>,
        of: InvitedMembers,
    ) -> Result<Invited, GroupError> {
        check_list(&members)?;
        self.kept(id)?;
        let patience = PATIENCE + Duration::from_secs(1) * (members.len() / INVITED_IN_A_SECOND) as u32;
        let message = |reply| GroupKeeperMessage::Act(*id, GroupAct::Invite { members, of, reply });
        self.state.slot.call(message, Instant::now() + patience).await?
    }

    /// Removes a member. From the answer on no proof with the leaf counts, but for a roll that has
    /// it. An open link ends, also that of a number that was removed before. Returns whether there
    /// was something to remove.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn remove(&self, id: &GroupId, member: MemberNumber) -> Result<bool, GroupError> {
        let remove = || self.act(id, |reply| GroupAct::Remove(member.clone(), reply));
        self.look_again(None, |removed| matches!(removed, Ok(false)), remove).await
    }

    /// All member numbers, in the order of their bytes.
    ///
    /// # Errors
    /// [`GroupError::Unknown`] and [`GroupError::Unavailable`].
    pub async fn members(&self, id: &GroupId) -> Result<Vec<(MemberNumber, MemberRecord)>, GroupError> {
        let kept = self.kept(id)?;
        Ok(self.state.read_records(move |records| records.members(&kept.id)).await?)
    }

    /// Takes a roll of the members of this moment.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn take_roll(&self, id: &GroupId, name: RollName) -> Result<RollRecord, GroupError> {
        let take = || self.act(id, |reply| GroupAct::TakeRoll(name.clone(), reply));
        self.look_again(None, is_refused_roll, take).await
    }

    /// Removes a roll with its pages. An action that counts it counts nothing from then on.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn remove_roll(&self, id: &GroupId, name: RollName) -> Result<(), GroupError> {
        let remove = || self.act(id, |reply| GroupAct::RemoveRoll(name.clone(), reply));
        self.look_again(None, is_refused_roll, remove).await
    }

    /// The rolls, by name.
    ///
    /// # Errors
    /// [`GroupError::Unknown`] and [`GroupError::Unavailable`].
    pub fn rolls(&self, id: &GroupId) -> Result<Vec<(RollName, RollRecord)>, GroupError> {
        self.read(id, |state| state.rolls.iter().map(|(name, roll)| (name.clone(), roll.clone())).collect())
    }

    async fn act<T: Send + 'static>(
        &self,
        id: &GroupId,
        act: impl FnOnce(RpcReplyPort<Result<T, GroupError>>) -> GroupAct,
    ) -> Result<T, GroupError> {
        self.kept(id)?;
        let message = |reply| GroupKeeperMessage::Act(*id, act(reply));
        self.state.slot.call(message, Instant::now() + PATIENCE).await?
    }

    pub(super) fn charge(&self, source: Option<IpAddr>) -> Result<(), GroupError> {
        match source {
            Some(source) => Ok(self.state.per_source.charge(source, self.state.clock().now())?),
            None => Ok(()),
        }
    }

    // Settings, status and metrics.

    /// Replaces the settings, from the next call on. Groups that are new are made.
    ///
    /// # Errors
    /// [`RollError::Past`], and [`GroupError::Restart`] for the first groups of a service that was
    /// started without: nothing is replaced.
    pub fn set_settings(&self, settings: GroupSettings) -> Result<(), GroupError> {
        self.check_settings(&settings)?;
        self.state.set_settings(settings);
        self.state.slot.cast(GroupKeeperMessage::SettingsChanged);
        Ok(())
    }

    /// Checks that [`Self::set_settings`] would take these settings now.
    ///
    /// # Errors
    /// Those of it.
    pub fn check_settings(&self, settings: &GroupSettings) -> Result<(), GroupError> {
        match !settings.groups.is_empty() && !self.state.has_keeper {
            true => Err(GroupError::Restart),
            false => self.check_awaited(settings),
        }
    }

    /// Refuses a roll whose time is over and that was never seen before: its members are
    /// unknown.
    ///
    /// # Errors
    /// [`RollError::Past`] and [`GroupError::Unavailable`].
    pub(crate) fn check_awaited(&self, settings: &GroupSettings) -> Result<(), GroupError> {
        let now = self.state.clock().unix_seconds();
        for group in &settings.groups {
            let is_past = |roll: &&AwaitedRoll| roll.at <= now;
            let mut past = group.rolls.iter().filter(is_past).peekable();
            if past.peek().is_none() {
                continue;
            }
            let (rolls, awaited) = (self.state.records.rolls(&group.id)?, self.state.records.awaited_rolls(&group.id)?);
            let unseen = past.find(|roll| !rolls.contains_key(&roll.name) && !awaited.contains_key(&roll.name));
            if let Some(roll) = unseen {
                return Err(RollError::Past { group: group.id, roll: roll.name.clone() }.into());
            }
        }
        Ok(())
    }

    /// How each group does, in the order of the configuration.
    pub fn status(&self) -> Vec<GroupStatus> {
        let groups = self.state.groups.load();
        let status = |(definition, kept): (&GroupDefinition, &Arc<KeptGroup>)| {
            let failure = kept.reading.describe_failure();
            let state = kept.read();
            let unread = || Some("it was not read yet".to_owned());
            let status = GroupStatus {
                id: definition.id,
                name: definition.name.clone(),
                size: 0,
                members: 0,
                invited: 0,
                open_codes: 0,
                live_roots: 0,
                rolls: Vec::new(),
                failure: failure.clone().or_else(unread).filter(|_| state.is_none()).or(failure),
            };
            let Some(GroupState { loaded, rolls, .. }) = state.as_ref() else { return status };
            GroupStatus {
                size: loaded.record.size,
                members: loaded.record.members,
                invited: loaded.record.invited,
                open_codes: loaded.record.open_codes,
                live_roots: loaded.live.count(),
                rolls: rolls.iter().map(|(name, roll)| (name.clone(), roll.clone())).collect(),
                ..status
            }
        };
        groups.iter().map(status).collect()
    }

    /// Adds the numbers of groups to `metrics`.
    pub(crate) fn register(&self, metrics: &mut Metrics) {
        let help = "Time of a step of a group, from its first decision to the end of its write";
        metrics.add("selfsame_group_step_seconds", help, self.state.step_seconds.clone());
        register_refusals(metrics, "groups_per_source", "wallet", &self.state.per_source.refused);
        let groups = self.clone();
        metrics.add_group(move |samples| groups.write_metrics(samples));
    }

    fn write_metrics(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let status = self.status();
        type Number = fn(&GroupStatus) -> u64;
        let numbers: [(&str, &str, Number); 5] = [
            ("selfsame_group_members", "Members of a group", |group| group.members.into()),
            ("selfsame_group_size", "Positions of a group that were ever given", |group| group.size.into()),
            ("selfsame_group_invited", "Member numbers that were ever invited", |group| group.invited.into()),
            ("selfsame_group_open_codes", "Links of a group that were not used and not ended", |group| {
                group.open_codes.into()
            }),
            ("selfsame_group_live_roots", "Roots of a group that proofs may be made against", |group| {
                group.live_roots as u64
            }),
        ];
        for (name, help, number) in numbers {
            let series = status.iter().map(|group| ([("group", group.id.as_str())], number(group)));
            samples.gauges(name, help, series)?;
        }
        Ok(())
    }
}

/// Whether the members and codes that the store has refuse an act.
fn is_refused_act<T>(outcome: &Result<T, GroupError>) -> bool {
    matches!(outcome, Err(GroupError::Enrolment(_)))
}

/// Whether the rolls that the store has refuse a call.
fn is_refused_roll<T>(outcome: &Result<T, GroupError>) -> bool {
    matches!(outcome, Err(GroupError::Roll(_)))
}

/// Refuses a list with a number twice, or with too many.
fn check_list(members: &[MemberNumber]) -> Result<(), InvitationError> {
    if members.len() > MOST_INVITATIONS {
        return Err(InvitationError::TooMany { count: members.len() });
    }
    let mut seen = std::collections::HashMap::with_capacity(members.len());
    for (second, member) in members.iter().enumerate() {
        if let Some(first) = seen.insert(member, second) {
            return Err(InvitationError::Twice { first, second });
        }
    }
    Ok(())
}
