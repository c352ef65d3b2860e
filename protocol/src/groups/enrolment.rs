//! The rules of enrolment: inviting, joining, replacing, leaving, removing.
//!
//! Acts that wait at the same time are one [`Step`]: each is decided on what the acts before it
//! left, a refused one changes nothing, and the group gets one new root for all. The checks of an
//! act come in the order of the table in `docs/interfaces/wallet.md`, and the first fault answers.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use super::codes::Code;
use super::identity::{Act, LinkStatement, Token, enrolment_external_nullifier};
pub use super::loaded::{GroupChanges, LoadedGroup, MemberChange, MemberChangeKind, TreeChanges};
use super::names::{Day, FieldNumber, GroupId, GroupKey, MemberNumber, ReplacementSecret, SecretHash};
use super::records::{
    CodeRecord, CopyId, GroupRecord, LiveRootRecord, MemberRecord, PageRecord, SealedRecord, Standing, StoredLeaf,
};
use super::tree::{MOST_POSITIONS, PAGE_LEAVES, one_leaf_root};
use super::wire::{GroupErrorCode, InvitedMembers, JoinRequest, LeaveRequest, ReplaceRequest, SentCommitment};
use crate::groth16::EncodedClaim;
use crate::groth16::ProofWords;
use crate::time::UnixSeconds;
use crate::tree::{field_element, is_below_field};

/// Why an act of enrolment is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnrolmentError {
    /// The code was never made, or was ended by a newer one.
    #[error("no invitation has this code; a newer link may have ended it: use the newest one")]
    UnknownCode,
    /// The code's last day is over.
    #[error("the link was good until {expires_on}; ask for a new one")]
    CodeExpired {
        /// Its last day.
        expires_on: Day,
    },
    /// The code was used.
    #[error("the link was used; ask for a new one")]
    CodeUsed,
    /// The member number has a live leaf.
    #[error("the member number has a leaf in the tree: make the statement \"replace\" with the same code")]
    UseReplace,
    /// The member number has no live leaf.
    #[error("the member number has no leaf in the tree: make the statement \"join\" with the same code")]
    UseJoin,
    /// The commitment cannot be a leaf.
    #[error("commitment: is {0}; send the identity commitment as the wallet made it")]
    CommitmentInvalid(&'static str),
    /// The link proof does not hold.
    #[error(
        "the link proof does not hold for this commitment, group, act and token; make it for the values of this request"
    )]
    LinkProofInvalid,
    /// The enrolment nullifier is another member number's.
    #[error("this person is enrolled in the group under another member number; a person has one")]
    EnrolledUnderAnotherNumber,
    /// The person has no live leaf.
    #[error("no member has this enrolment nullifier and this leaf now; ask for a new link")]
    NotAMember,
    /// The replacement secret is another one.
    #[error("the replacement secret is not the present one; a replacement may have been made elsewhere")]
    ReplacementSecretWrong,
    /// The commitment is a leaf of the tree.
    #[error("a leaf of the tree is this commitment already; make another one with n + 1")]
    CommitmentInTree,
    /// The member has replaced the leaf today.
    #[error("the leaf was replaced today already; try again tomorrow, or use a link of the organization")]
    ReplacedToday,
    /// No position is left.
    #[error("the group has all {MOST_POSITIONS} positions that a group can have")]
    GroupFull,
    /// The sealed copy is missing.
    #[error("copy: there is no sealed copy with this handle; make it before")]
    CopyMissing,
}

impl EnrolmentError {
    /// The code of the answer.
    pub fn code(&self) -> GroupErrorCode {
        match self {
            Self::UnknownCode => GroupErrorCode::UnknownCode,
            Self::CodeExpired { .. } => GroupErrorCode::CodeExpired,
            Self::CodeUsed => GroupErrorCode::CodeUsed,
            Self::UseReplace => GroupErrorCode::UseReplace,
            Self::UseJoin => GroupErrorCode::UseJoin,
            Self::CommitmentInvalid(_) => GroupErrorCode::CommitmentInvalid,
            Self::LinkProofInvalid => GroupErrorCode::LinkProofInvalid,
            Self::EnrolledUnderAnotherNumber => GroupErrorCode::EnrolledUnderAnotherNumber,
            Self::NotAMember => GroupErrorCode::NotAMember,
            Self::ReplacementSecretWrong => GroupErrorCode::ReplacementSecretWrong,
            Self::CommitmentInTree => GroupErrorCode::CommitmentInTree,
            Self::ReplacedToday => GroupErrorCode::ReplacedToday,
            Self::GroupFull => GroupErrorCode::GroupFull,
            Self::CopyMissing => GroupErrorCode::CopyMissing,
        }
    }
}

/// What a person asks for with a link proof. Joining and replacing bring a new leaf; leaving names
/// the live one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrolmentRequest {
    /// What it is.
    pub act: Act,
    /// What allows it once.
    pub token: Token,
    /// The leaf, as it was sent.
    pub commitment: SentCommitment,
    /// The enrolment nullifier.
    pub nullifier: FieldNumber,
    /// The words of the link proof.
    pub proof: [crate::U256; crate::groth16::proof::LEGACY_WORDS],
    /// The hash of the next replacement secret; zeros for leaving.
    pub replacement_hash: SecretHash,
    /// The hash of a handle of the sealed copy that is kept from this write on.
    pub copy: Option<SecretHash>,
}

impl From<JoinRequest> for EnrolmentRequest {
    fn from(request: JoinRequest) -> Self {
        let JoinRequest { code, commitment, nullifier, proof, replacement_hash, copy } = request;
        let (act, token) = (Act::Join, Token::Code(code));
        Self { act, token, commitment, nullifier, proof: proof.0, replacement_hash, copy }
    }
}

/// A replacement that does not have exactly one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("send exactly one of code and replacement_secret")]
pub struct NotOneToken;

impl TryFrom<ReplaceRequest> for EnrolmentRequest {
    type Error = NotOneToken;

    fn try_from(request: ReplaceRequest) -> Result<Self, NotOneToken> {
        let ReplaceRequest { code, replacement_secret, commitment, nullifier, proof, replacement_hash, copy } = request;
        let token = match (code, replacement_secret) {
            (Some(code), None) => Token::Code(code),
            (None, Some(secret)) => Token::ReplacementSecret(secret),
            _ => return Err(NotOneToken),
        };
        Ok(Self { act: Act::Replace, token, commitment, nullifier, proof: proof.0, replacement_hash, copy })
    }
}

impl From<LeaveRequest> for EnrolmentRequest {
    fn from(request: LeaveRequest) -> Self {
        let LeaveRequest { replacement_secret, commitment, nullifier, proof } = request;
        let (act, token) = (Act::Leave, Token::ReplacementSecret(replacement_secret));
        let replacement_hash = SecretHash([0; 32]);
        Self { act, token, commitment, nullifier, proof: proof.0, replacement_hash, copy: None }
    }
}

impl EnrolmentRequest {
    /// The leaf that the request names.
    ///
    /// # Errors
    /// [`EnrolmentError::CommitmentInvalid`].
    pub fn leaf(&self) -> Result<FieldNumber, EnrolmentError> {
        let SentCommitment(number) = self.commitment;
        if number.is_zero() {
            return Err(EnrolmentError::CommitmentInvalid("0, which is the leaf of nobody"));
        }
        match is_below_field(&number) {
            true => Ok(FieldNumber(number)),
            false => Err(EnrolmentError::CommitmentInvalid("not below the modulus of the scalar field")),
        }
    }

    /// The claim of the link proof: that the owner of the nullifier's seed has the leaf of the tree
    /// of this one leaf, and states the act. The public inputs are in the circuit's order.
    ///
    /// # Errors
    /// [`EnrolmentError::CommitmentInvalid`].
    pub fn claim(&self, group_key: &GroupKey) -> Result<EncodedClaim, EnrolmentError> {
        let commitment = self.leaf()?;
        let statement = LinkStatement { act: self.act, group_key, commitment, token: &self.token };
        let inputs = [
            one_leaf_root(commitment).to_number(),
            self.nullifier.0,
            statement.signal_hash().0,
            enrolment_external_nullifier(group_key).0,
        ];
        // All four are below the modulus, by construction or by their form.
        let inputs = inputs.iter().filter_map(field_element).collect();
        Ok(EncodedClaim::new(ProofWords::Legacy(self.proof), inputs))
    }
}

/// What a step reads of the stored records.
pub trait GroupReads {
    /// Why they cannot be read.
    type Error;
    /// A member number.
    fn member(&self, member: &MemberNumber) -> Result<Option<MemberRecord>, Self::Error>;
    /// A code, of any group.
    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, Self::Error>;
    /// The member number that has or had an enrolment nullifier.
    fn enrolled(&self, nullifier: FieldNumber) -> Result<Option<MemberNumber>, Self::Error>;
    /// The sealed copy with a handle.
    fn copy(&self, handle: &SecretHash) -> Result<Option<(CopyId, SealedRecord)>, Self::Error>;
    /// A sealed copy by its id.
    fn copy_of_id(&self, id: &CopyId) -> Result<Option<SealedRecord>, Self::Error>;
}

/// What an act of a person gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// The member has the leaf at this position.
    At(u32),
    /// The member has left.
    Left,
}

/// Acts on one group that are written together.
pub struct Step<'a, Reads> {
    group: &'a GroupId,
    loaded: &'a LoadedGroup,
    reads: &'a Reads,
    today: Day,
    record: GroupRecord,
    leaves: BTreeMap<u32, FieldNumber>,
    /// The commitments that these acts took out of the tree and put into it.
    taken_out: HashSet<FieldNumber>,
    put_in: HashSet<FieldNumber>,
    members: BTreeMap<MemberNumber, MemberRecord>,
    codes: BTreeMap<SecretHash, Option<CodeRecord>>,
    permits: BTreeMap<SecretHash, (CodeRecord, CodeRecord)>,
    enrolments: BTreeMap<FieldNumber, MemberNumber>,
    copies: BTreeMap<CopyId, (SealedRecord, SealedRecord)>,
    told: Vec<MemberChange>,
}

type Decided<T, Reads> = Result<Result<T, EnrolmentError>, <Reads as GroupReads>::Error>;

/// Returns from a function with `Ok(Err(error))`, as `?` returns from one with an error.
macro_rules! refuse_unless_ok {
    ($decided:expr) => {
        match $decided {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}

impl<'a, Reads: GroupReads> Step<'a, Reads> {
    /// A step without acts.
    pub fn new(group: &'a GroupId, loaded: &'a LoadedGroup, reads: &'a Reads, today: Day) -> Self {
        Self {
            group,
            loaded,
            reads,
            today,
            record: loaded.record,
            leaves: BTreeMap::new(),
            taken_out: HashSet::new(),
            put_in: HashSet::new(),
            members: BTreeMap::new(),
            codes: BTreeMap::new(),
            permits: BTreeMap::new(),
            enrolments: BTreeMap::new(),
            copies: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// The day of the step.
    pub fn today(&self) -> Day {
        self.today
    }

    fn member(&self, member: &MemberNumber) -> Result<Option<MemberRecord>, Reads::Error> {
        match self.members.get(member) {
            Some(record) => Ok(Some(record.clone())),
            None => self.reads.member(member),
        }
    }

    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, Reads::Error> {
        let code = match self.codes.get(hash) {
            Some(code) => code.clone(),
            None => self.reads.code(hash)?,
        };
        Ok(code.filter(|code| code.group == *self.group))
    }

    fn enrolled(&self, nullifier: FieldNumber) -> Result<Option<MemberNumber>, Reads::Error> {
        match self.enrolments.get(&nullifier) {
            Some(member) => Ok(Some(member.clone())),
            None => self.reads.enrolled(nullifier),
        }
    }

    fn is_in_tree(&self, leaf: FieldNumber) -> bool {
        let was_in = self.loaded.positions.contains_key(&leaf) && !self.taken_out.contains(&leaf);
        was_in || self.put_in.contains(&leaf)
    }

    fn put_leaf(&mut self, position: u32, leaf: FieldNumber) {
        let before = self.leaves.get(&position).copied().unwrap_or_else(|| self.loaded.tree.leaf(position));
        if before != FieldNumber::ZERO {
            self.record.members -= 1;
            self.put_in.remove(&before);
            self.taken_out.insert(before);
        }
        if leaf != FieldNumber::ZERO {
            self.record.members += 1;
            self.put_in.insert(leaf);
        }
        self.record.size = self.record.size.max(position + 1);
        self.leaves.insert(position, leaf);
    }

    // What a person asks for.

    /// Checks the code of a request: that it is open, or that the leaf which it brought is live and
    /// is the request's.
    fn check_code(&self, request: &EnrolmentRequest) -> Decided<Option<(SecretHash, CodeRecord)>, Reads> {
        let Token::Code(code) = &request.token else { return Ok(Ok(None)) };
        let hash = code.hash();
        let Some(record) = self.code(&hash)? else { return Ok(Err(EnrolmentError::UnknownCode)) };
        if self.today > record.expires_on {
            return Ok(Err(EnrolmentError::CodeExpired { expires_on: record.expires_on }));
        }
        let live_leaf = self.member(&record.member)?.and_then(|member| member.live_leaf());
        match record.used_for {
            Some(leaf) if live_leaf == Some(leaf) && request.commitment == SentCommitment(leaf.0) => {}
            Some(_) => return Ok(Err(EnrolmentError::CodeUsed)),
            None => match (request.act, live_leaf) {
                (Act::Join, Some(_)) => return Ok(Err(EnrolmentError::UseReplace)),
                (Act::Replace, None) => return Ok(Err(EnrolmentError::UseJoin)),
                _ => {}
            },
        }
        Ok(Ok(Some((hash, record))))
    }

    /// The checks that come before the link proof is looked at. They spare its check when the
    /// request is refused in any case; [`Step::enrol`] makes them again.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn check_before_proof(&self, request: &EnrolmentRequest) -> Decided<(), Reads> {
        refuse_unless_ok!(self.check_code(request)?);
        Ok(request.leaf().map(drop))
    }

    /// Decides about a request whose link proof holds.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn enrol(&mut self, request: &EnrolmentRequest) -> Decided<Enrolled, Reads> {
        let code = refuse_unless_ok!(self.check_code(request)?);
        let leaf = refuse_unless_ok!(request.leaf());
        let enrolled = self.enrolled(request.nullifier)?;
        let number = match (&code, enrolled) {
            (Some((_, code)), Some(other)) if other != code.member => {
                return Ok(Err(EnrolmentError::EnrolledUnderAnotherNumber));
            }
            (Some((_, code)), _) => code.member.clone(),
            (None, Some(member)) => member,
            (None, None) => return Ok(Err(EnrolmentError::NotAMember)),
        };
        let Some(member) = self.member(&number)? else { return Ok(Err(EnrolmentError::NotAMember)) };
        if code.is_none() && member.enrolment != Some(request.nullifier) {
            return Ok(Err(EnrolmentError::NotAMember));
        }
        match &request.token {
            Token::ReplacementSecret(secret) if request.act == Act::Leave => self.leave(number, member, leaf, secret),
            _ => self.bring_leaf(request, number, member, leaf, code),
        }
    }

    fn leave(
        &mut self,
        number: MemberNumber,
        member: MemberRecord,
        leaf: FieldNumber,
        secret: &ReplacementSecret,
    ) -> Decided<Enrolled, Reads> {
        let is_secret = member.replacement_hash == Some(SecretHash::of(&secret.0));
        match member.standing {
            Standing::Leaving | Standing::Left if member.leaf == Some(leaf) && is_secret => Ok(Ok(Enrolled::Left)),
            Standing::Member if !is_secret => Ok(Err(EnrolmentError::ReplacementSecretWrong)),
            Standing::Member if member.leaf == Some(leaf) => {
                let after = MemberRecord { standing: Standing::Leaving, changed_on: self.today, ..member };
                self.members.insert(number.clone(), after);
                self.told.push(MemberChange { member: number, change: MemberChangeKind::Removed });
                Ok(Ok(Enrolled::Left))
            }
            _ => Ok(Err(EnrolmentError::NotAMember)),
        }
    }

    /// Joins, comes back or replaces.
    fn bring_leaf(
        &mut self,
        request: &EnrolmentRequest,
        number: MemberNumber,
        member: MemberRecord,
        leaf: FieldNumber,
        code: Option<(SecretHash, CodeRecord)>,
    ) -> Decided<Enrolled, Reads> {
        let live_leaf = member.live_leaf();
        if code.is_none() && live_leaf.is_none() {
            return Ok(Err(EnrolmentError::NotAMember));
        }
        if live_leaf == Some(leaf) && member.replacement_hash == Some(request.replacement_hash) {
            return Ok(Ok(Enrolled::At(member.position.unwrap_or_default())));
        }
        if let Token::ReplacementSecret(secret) = &request.token
            && member.replacement_hash != Some(SecretHash::of(&secret.0))
        {
            return Ok(Err(EnrolmentError::ReplacementSecretWrong));
        }
        if self.is_in_tree(leaf) {
            return Ok(Err(EnrolmentError::CommitmentInTree));
        }
        if code.is_none() && member.replaced_on == Some(self.today) {
            return Ok(Err(EnrolmentError::ReplacedToday));
        }
        let position = member.position.unwrap_or(self.record.size);
        if position >= MOST_POSITIONS {
            return Ok(Err(EnrolmentError::GroupFull));
        }
        let copy = match &request.copy {
            Some(handle) => match self.reads.copy(handle)? {
                Some(copy) => Some(copy),
                None => return Ok(Err(EnrolmentError::CopyMissing)),
            },
            None => None,
        };
        if let Some((id, before)) = copy
            && !before.is_kept
        {
            if let Some(hash) = before.made_with {
                self.release(hash, id)?;
            }
            let kept = SealedRecord { is_kept: true, made_with: None, ..before.clone() };
            self.copies.insert(id, (before, kept));
        }
        let is_own = code.is_none();
        if let Some((hash, code)) = code {
            // A copy that was made with the code and is not the kept one goes within two days. It
            // must not say until then whose it is.
            if let Some(id) = code.copy
                && let Entry::Vacant(place) = self.copies.entry(id)
                && let Some(before) = self.reads.copy_of_id(&id)?.filter(|copy| copy.made_with == Some(hash))
            {
                let after = SealedRecord { made_with: None, ..before.clone() };
                place.insert((before, after));
            }
            let used = CodeRecord { used_for: Some(leaf), copy: None, ..code };
            self.codes.insert(hash, Some(used));
            self.record.open_codes = self.record.open_codes.saturating_sub(1);
        }
        self.put_leaf(position, leaf);
        self.enrolments.insert(request.nullifier, number.clone());
        let change = if live_leaf.is_some() { MemberChangeKind::Replaced } else { MemberChangeKind::Joined };
        self.told.push(MemberChange { member: number.clone(), change });
        let after = MemberRecord {
            standing: Standing::Member,
            changed_on: self.today,
            position: Some(position),
            leaf: Some(leaf),
            enrolment: Some(request.nullifier),
            replacement_hash: Some(request.replacement_hash),
            replaced_on: if is_own { Some(self.today) } else { member.replaced_on },
            open_code: if is_own { member.open_code } else { None },
            ..member
        };
        self.members.insert(number, after);
        Ok(Ok(Enrolled::At(position)))
    }

    /// Forgets that a code permitted a copy which is kept from now on. The code may be another one
    /// than that of the request, also one of another group, and stay open: it must not say whose
    /// the copy is.
    fn release(&mut self, hash: SecretHash, id: CopyId) -> Result<(), Reads::Error> {
        let stored = match self.codes.get(&hash) {
            Some(code) => code.clone(),
            None => self.reads.code(&hash)?,
        };
        let Some(permitting) = stored.filter(|code| code.copy == Some(id)) else { return Ok(()) };
        let after = CodeRecord { copy: None, ..permitting.clone() };
        match permitting.group == *self.group {
            true => drop(self.codes.insert(hash, Some(after))),
            // Another group's record does not guard it, so it has a condition of its own.
            false => drop(self.permits.insert(hash, (permitting, after))),
        }
        Ok(())
    }

    // What the operator asks for.

    /// Invites a member number, if the mode says so. Returns whether the number is new, and whether
    /// the link leads to a replacement; `None` when the number stays as it is.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn invite(
        &mut self,
        number: &MemberNumber,
        of: InvitedMembers,
        expires_on: Day,
        code: impl FnOnce() -> Code,
    ) -> Result<Option<NewInvitation>, Reads::Error> {
        let before = self.member(number)?;
        let is_wanted = match (&before, of) {
            (None, _) | (Some(_), InvitedMembers::All) => true,
            (Some(_), InvitedMembers::New) => false,
            (Some(member), InvitedMembers::NotJoined) => {
                member.position.is_none() && member.standing == Standing::Invited
            }
        };
        if !is_wanted {
            return Ok(None);
        }
        let is_new = before.is_none();
        let mut member = before.unwrap_or_else(|| MemberRecord::invited(self.today));
        self.end_code(&mut member)?;
        let code = code();
        let hash = code.hash();
        let record = CodeRecord { group: *self.group, member: number.clone(), expires_on, used_for: None, copy: None };
        self.codes.insert(hash, Some(record));
        self.record.open_codes += 1;
        self.record.invited += u32::from(is_new);
        let replaces = member.live_leaf().is_some();
        member.open_code = Some(hash);
        if member.standing == Standing::Removed && member.position.is_none() {
            member.standing = Standing::Invited;
        }
        self.members.insert(number.clone(), member);
        Ok(Some(NewInvitation { code, is_new, replaces }))
    }

    /// Ends the open code of a member number. A sealed copy that it permitted stays as others do
    /// that no joining has named: for a day or two.
    fn end_code(&mut self, member: &mut MemberRecord) -> Result<(), Reads::Error> {
        let Some(hash) = member.open_code.take() else { return Ok(()) };
        self.codes.insert(hash, None);
        self.record.open_codes = self.record.open_codes.saturating_sub(1);
        Ok(())
    }

    /// Removes a member: the leaf, and the open code, also that of a number that was removed
    /// before. Returns whether there was something to remove.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn remove(&mut self, number: &MemberNumber) -> Result<bool, Reads::Error> {
        let is_removable = |member: &MemberRecord| member.standing != Standing::Removed || member.open_code.is_some();
        let Some(mut member) = self.member(number)?.filter(is_removable) else { return Ok(false) };
        self.end_code(&mut member)?;
        let has_leaf = matches!(member.standing, Standing::Member | Standing::Leaving);
        if let Some(position) = member.position.filter(|_| has_leaf) {
            self.put_leaf(position, FieldNumber::ZERO);
        }
        if member.standing == Standing::Member {
            self.told.push(MemberChange { member: number.clone(), change: MemberChangeKind::Removed });
        }
        let after = MemberRecord { standing: Standing::Removed, changed_on: self.today, ..member };
        self.members.insert(number.clone(), after);
        Ok(true)
    }

    /// Takes the leaf of a member out of the tree who has left.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn clear_left(&mut self, number: &MemberNumber) -> Result<(), Reads::Error> {
        let Some(member) = self.member(number)?.filter(|member| member.standing == Standing::Leaving) else {
            return Ok(());
        };
        if let Some(position) = member.position {
            self.put_leaf(position, FieldNumber::ZERO);
        }
        self.members.insert(number.clone(), MemberRecord { standing: Standing::Left, ..member });
        Ok(())
    }

    /// What the acts write together; `None` when they change nothing. The new root is there from
    /// `now` on.
    pub fn finish(self, now: UnixSeconds) -> Option<GroupChanges> {
        let Self { loaded, mut record, leaves, members, codes, permits, enrolments, copies, told, .. } = self;
        let is_unchanged = members.is_empty() && codes.is_empty() && enrolments.is_empty() && leaves.is_empty();
        if is_unchanged {
            return None;
        }
        let before = loaded.record;
        record.revision += 1;
        let tree = (!leaves.is_empty()).then(|| {
            record.version += 1;
            let mut tree = loaded.tree.clone();
            let changed = tree.set(&leaves);
            record.root = tree.root();
            let is_taken_out = |position: &u32| loaded.tree.leaf(*position) != FieldNumber::ZERO;
            let ended = leaves.keys().filter(|position| is_taken_out(position));
            let first_ended = ended.filter_map(|position| loaded.since.get(*position as usize)).min().copied();
            let root = LiveRootRecord { root: record.root, size: record.size, replaced_at: None };
            let roots = tree.page_roots();
            let page_roots: Vec<_> = changed.iter().map(|page| (*page as u32, roots[*page])).collect();
            let live = loaded.live.next((record.version, root), first_ended, &page_roots, now);
            let page_record = |page: usize| {
                let stored = (page * PAGE_LEAVES..).zip(tree.page_leaves(page)).map(|(position, leaf)| {
                    let is_changed = leaves.contains_key(&(position as u32));
                    let since = loaded.since.get(position).filter(|_| !is_changed);
                    StoredLeaf { leaf: *leaf, since: since.copied().unwrap_or(record.version) }
                });
                PageRecord { leaves: stored.collect(), root: roots[page] }
            };
            let pages = changed.iter().map(|page| (*page as u32, page_record(*page))).collect();
            TreeChanges { tree, leaves, pages, live }
        });
        Some(GroupChanges {
            before: Some(before),
            after: record,
            members,
            codes,
            permits,
            enrolments,
            copies,
            tree,
            told,
        })
    }
}

/// A new link for a member number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    /// The code.
    pub code: Code,
    /// Whether the number was never invited before.
    pub is_new: bool,
    /// Whether the number has a live leaf, which the link leads to replace.
    pub replaces: bool,
}
