//! A wallet interface in memory, with one group, the real rules and the real check of link proofs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use alloy_primitives::U256;
use selfsame_protocol::groth16::{Claim, EncodedClaim, PreparedKey, Proof, VerificationKey};
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::{Enrolled, EnrolmentError, EnrolmentRequest, GroupReads, LoadedGroup, Step};
use selfsame_protocol::groups::identity::{Act, Token};
use selfsame_protocol::groups::live_roots::{LiveRoots, leaves_at};
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, GroupKey, MemberNumber, SecretHash};
use selfsame_protocol::groups::records::{CodeRecord, CopyId, GroupRecord, MemberRecord, SealedRecord};
use selfsame_protocol::groups::tree::{GroupTree, page_bytes};
use selfsame_protocol::groups::wire::{
    EnrolledResponse, GroupResponse, InvitedMembers, JoinRequest, LeaveRequest, LeftResponse, ProofText,
    ReplaceRequest, RollAction, RollResponse, SentCommitment,
};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use serde_json::Value;

use crate::server::{CannedAnswer, RawAnswer, ReceivedRequest, serve};

fn key() -> &'static PreparedKey {
    static KEY: OnceLock<PreparedKey> = OnceLock::new();
    KEY.get_or_init(|| PreparedKey::new(VerificationKey::legacy()))
}

/// Whether a legacy proof in hex holds for its public inputs.
pub fn holds(proof: &Value, root: &Value, nullifier: &Value, signal_hash: U256, external_nullifier: U256) -> bool {
    let number = |value: &Value| value.as_str().expect("text").parse::<FieldNumber>().expect("a number").0;
    let words: ProofText = serde_json::from_value(proof.clone()).expect("eight words");
    let inputs = [number(root), number(nullifier), signal_hash, external_nullifier];
    let inputs = inputs.iter().map(|input| field_element(input).expect("below the modulus")).collect();
    key().holds(&Claim::new(Proof::from_legacy(&words.0).expect("points"), inputs)).expect("four inputs")
}

#[derive(Default)]
struct Records {
    members: HashMap<MemberNumber, MemberRecord>,
    codes: HashMap<SecretHash, CodeRecord>,
    enrolments: HashMap<FieldNumber, MemberNumber>,
}

impl GroupReads for Records {
    type Error = Infallible;
    fn member(&self, member: &MemberNumber) -> Result<Option<MemberRecord>, Infallible> {
        Ok(self.members.get(member).cloned())
    }
    fn code(&self, hash: &SecretHash) -> Result<Option<CodeRecord>, Infallible> {
        Ok(self.codes.get(hash).cloned())
    }
    fn enrolled(&self, nullifier: FieldNumber) -> Result<Option<MemberNumber>, Infallible> {
        Ok(self.enrolments.get(&nullifier).cloned())
    }
    fn copy(&self, _: &SecretHash) -> Result<Option<(CopyId, SealedRecord)>, Infallible> {
        Ok(None)
    }
    fn copy_of_id(&self, _: &CopyId) -> Result<Option<SealedRecord>, Infallible> {
        Ok(None)
    }
}

/// The group, and how the service behaves.
pub struct Group {
    pub id: GroupId,
    pub environment: Environment,
    pub legacy_identifier: Option<LegacyIdentifier>,
    pub today: Day,
    /// Whether the next request that changes something is carried out and not answered.
    pub loses_answer: bool,
    /// What happens to the group when the next page is asked for, before it is given.
    pub before_page: Option<fn(&mut Group)>,
    loaded: LoadedGroup,
    records: Records,
    rolls: Vec<(RollResponse, GroupTree)>,
    codes: u8,
}

impl Group {
    fn new(id: &str) -> Self {
        let record = GroupRecord::new(GroupKey([id.len() as u8; 32]));
        Self {
            id: id.parse().expect("an id"),
            environment: Environment::Staging,
            legacy_identifier: None,
            today: Day(20_000),
            loses_answer: false,
            before_page: None,
            loaded: LoadedGroup::new(record, Vec::new(), LiveRoots::default()),
            records: Records::default(),
            rolls: Vec::new(),
            codes: 0,
        }
    }

    /// Writes what acts on the group give.
    fn write<T>(&mut self, act: impl FnOnce(&mut Step<'_, Records>) -> T) -> T {
        let mut step = Step::new(&self.id, &self.loaded, &self.records, self.today);
        let given = act(&mut step);
        let Some(changes) = step.finish(UnixSeconds(1_800_000_000)) else { return given };
        self.loaded.apply(&changes);
        self.records.members.extend(changes.members);
        self.records.enrolments.extend(changes.enrolments);
        for (hash, code) in changes.codes {
            match code {
                Some(code) => self.records.codes.insert(hash, code),
                None => self.records.codes.remove(&hash),
            };
        }
        given
    }

    /// The link of a new invitation.
    pub fn invite(&mut self, wallet_url: &str, member: &str) -> String {
        self.codes += 1;
        let (code, expires_on) = (Code::from_random_bytes([self.codes; 17]), self.today.plus(30));
        let member = member.parse().expect("a member number");
        let invited = self.write(|step| step.invite(&member, InvitedMembers::All, expires_on, || code));
        let invited = invited.expect("no error").expect("a new link");
        invited.code.link(wallet_url, &self.id, invited.replaces)
    }

    /// Fills positions with members that nobody knows.
    pub fn add_others(&mut self, count: u32) {
        for number in 0..count {
            let member: MemberNumber = format!("other {}", self.loaded.record.size).parse().expect("a member number");
            let leaf = FieldNumber(U256::from(self.loaded.record.size + 100_000 + number));
            let request = |code| EnrolmentRequest {
                act: Act::Join,
                token: Token::Code(code),
                commitment: SentCommitment(leaf.0),
                nullifier: leaf,
                proof: [U256::ZERO; 8],
                replacement_hash: SecretHash([0; 32]),
                copy: None,
            };
            let code = Code::from_random_bytes([200; 17]);
            let expires_on = self.today;
            self.write(|step| step.invite(&member, InvitedMembers::All, expires_on, || code.clone()))
                .expect("no error");
            self.write(|step| step.enrol(&request(code))).expect("no error").expect("joined");
        }
    }

    pub fn remove(&mut self, member: &str) {
        let member = member.parse().expect("a member number");
        assert!(self.write(|step| step.remove(&member)).expect("no error"));
    }

    /// The tree follows who has left.
    pub fn clear_left(&mut self, member: &str) {
        let member = member.parse().expect("a member number");
        self.write(|step| step.clear_left(&member)).expect("no error");
    }

    /// Takes a roll that an action counts.
    pub fn take_roll(&mut self, name: &str, external_nullifier: U256) {
        let tree = self.loaded.tree.clone();
        let action = RollAction { app_id: "app_vote".to_owned(), external_nullifier: FieldNumber(external_nullifier) };
        let roll = RollResponse {
            name: name.parse().expect("a name"),
            taken_on: self.today,
            size: tree.size(),
            members: self.loaded.record.members,
            root: tree.root(),
            page_roots: tree.page_roots(),
            actions: vec![action],
        };
        self.rolls.push((roll, tree));
    }

    /// The root of a roll, or the live one.
    pub fn root(&self, roll: Option<&str>) -> Root {
        match roll {
            Some(name) => self.rolls.iter().find(|(roll, _)| roll.name.as_str() == name).expect("a roll").0.root,
            None => self.loaded.tree.root(),
        }
    }

    fn describe(&self) -> GroupResponse {
        let GroupRecord { group_key, version, size, members, .. } = self.loaded.record;
        GroupResponse {
            id: self.id,
            name: "Members of the cooperative".to_owned(),
            group_key,
            environment: self.environment,
            legacy_identifier: self.legacy_identifier,
            version,
            size,
            members,
            root: self.loaded.tree.root(),
            page_roots: self.loaded.tree.page_roots(),
            rolls: self.rolls.iter().map(|(roll, _)| roll.clone()).collect(),
        }
    }

    fn page(&mut self, root: FieldNumber) -> Option<Vec<u8>> {
        if let Some(change) = self.before_page.take() {
            change(self);
        }
        let of_roll = self.rolls.iter().find_map(|(roll, tree)| {
            let page = roll.page_roots.iter().position(|page| *page == root)?;
            Some(page_bytes(tree.page_leaves(page)))
        });
        let of_live = || {
            let (page, version) = self.loaded.live.page_with(root)?;
            Some(page_bytes(&leaves_at(&self.loaded.stored_page(page as usize), version)))
        };
        of_roll.or_else(of_live)
    }

    fn enrol(&mut self, request: &EnrolmentRequest) -> CannedAnswer {
        let is_proved = match request.claim(&self.loaded.record.group_key).map(EncodedClaim::decode) {
            Ok(Ok(claim)) => key().holds(&claim).expect("four inputs"),
            _ => false,
        };
        let decided = self.write(|step| match step.check_before_proof(request).expect("no error") {
            Ok(()) if !is_proved => Err(EnrolmentError::LinkProofInvalid),
            Ok(()) => step.enrol(request).expect("no error"),
            Err(error) => Err(error),
        });
        if std::mem::take(&mut self.loses_answer) {
            return CannedAnswer::error(500, "internal_server_error", "the answer was lost");
        }
        let version = self.loaded.record.version;
        match decided {
            Ok(Enrolled::At(position)) => CannedAnswer::ok(EnrolledResponse { position, version }),
            Ok(Enrolled::Left) => CannedAnswer::ok(LeftResponse {}),
            Err(error) => CannedAnswer::error(409, error.code().into(), &error.to_string()),
        }
    }

    fn answer(&mut self, request: &ReceivedRequest) -> RawAnswer {
        let prefix = format!("/groups/{}", self.id);
        let Some(path) = request.path.strip_prefix(&prefix) else {
            return CannedAnswer::error(404, "unknown_group", "there is no such group").into();
        };
        let body = || request.body.clone();
        let read = "a body in its form";
        match path {
            "" => CannedAnswer::ok(self.describe()),
            "/join" => self.enrol(&serde_json::from_value::<JoinRequest>(body()).expect(read).into()),
            "/replace" => {
                let request = serde_json::from_value::<ReplaceRequest>(body()).expect(read);
                self.enrol(&request.try_into().expect("one token"))
            }
            "/leave" => self.enrol(&serde_json::from_value::<LeaveRequest>(body()).expect(read).into()),
            path => {
                let root = path.strip_prefix("/pages/").expect("a page").parse().expect("a root");
                return match self.page(root) {
                    Some(page) => RawAnswer(200, None, page),
                    None => CannedAnswer::error(404, "unknown_page", "no live root has the page").into(),
                };
            }
        }
        .into()
    }
}

/// A wallet interface with a group.
pub struct GroupService {
    /// Base address of the wallet interface.
    pub url: String,
    group: Arc<Mutex<Group>>,
}

impl GroupService {
    pub async fn start(id: &str) -> Self {
        let group = Arc::new(Mutex::new(Group::new(id)));
        let answering = Arc::clone(&group);
        let url = serve(move |request| answering.lock().expect("no panic").answer(&request)).await;
        Self { url, group }
    }

    pub fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().expect("no panic")
    }

    /// The link of a new invitation.
    pub fn invite(&self, member: &str) -> String {
        self.group().invite(&self.url, member)
    }
}
