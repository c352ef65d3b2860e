//! The roots of groups, as a check of items sees them.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::groth16::EncodedClaim;
use selfsame_protocol::groups::names::{GroupId, RollName};
use selfsame_protocol::verification::directory::{Action, Admitted};
use selfsame_protocol::verification::groups::VerifiedGroup;
use selfsame_protocol::verification::items::{ItemError, check_items};
use selfsame_protocol::verification::roots::{RootAge, RootDecision, TrustedRoots};

use super::*;
use crate::chain::handle::{RootUse, UnseenContracts};
use crate::groups::handle::GroupError;
use crate::verification::roots::{
    CheckedItems, GroupRoots, TrustedDataAt, TrustedDataError, has_unknown_root, roots_to_look_for,
};

/// A group with one live root and one roll; `None` for one that cannot be read.
struct OneGroup(Option<(Root, RootAge, Root)>);

impl OneGroup {
    fn read(&self, group: &GroupId) -> Result<(Root, RootAge, Root), GroupError> {
        match self.0 {
            _ if group.as_str() != "members" => Err(GroupError::Unknown(*group)),
            Some(known) => Ok(known),
            None => Err(GroupError::unavailable("the group was not read yet")),
        }
    }
}

impl GroupRoots for OneGroup {
    fn root_age(&self, group: &GroupId, root: Root, _: UnixSeconds) -> Result<Option<RootAge>, GroupError> {
        self.read(group).map(|(live, age, _)| (live == root).then_some(age))
    }

    fn roll_root(&self, group: &GroupId, roll: &RollName) -> Result<Option<Root>, GroupError> {
        self.read(group).map(|(.., root)| (roll.as_str() == "assembly").then_some(root))
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), GroupError>> {
        std::future::ready(Ok(())).boxed()
    }
}

fn root(number: u64) -> Root {
    Root::from_number(U256::from(number))
}

fn id(text: &str) -> GroupId {
    text.parse().expect("an id")
}

/// A directory with the groups `members`, called `device` as well, and `forgotten`.
fn directory(accepted: &[&str]) -> Directory {
    let names = accepted.iter().map(|name| (*name).to_owned()).collect();
    let party = RelyingParty { accepted_identifiers: Some(names), ..relying_party() };
    let group = |name: &str, legacy_identifier| VerifiedGroup { id: id(name), environment: HERE.0, legacy_identifier };
    Directory::new([party], [], [], [HERE])
        .with_groups([group("members", Some(LegacyIdentifier::Device)), group("forgotten", None)])
}

/// A request with a proof that names this credential and the root 5.
fn request_of(identifier: &str, directory: &Directory) -> VerificationRequest {
    let mut item = item(1, true);
    item["identifier"] = json!(identifier);
    let body = json!({
        "protocol_version": "3.0", "nonce": "n", "action": "a", "environment": "staging", "responses": [item],
    });
    VerificationRequest::read_with(&body, directory.known_groups()).expect("the request is well-formed")
}

/// What the checks without a curve say of the only proof.
fn checked(
    running: &VerificationService,
    identifier: &str,
    roll: Option<&str>,
    groups: &OneGroup,
    trusted: &TrustedRoots,
) -> Result<Result<EncodedClaim, ItemError>, TrustedDataError> {
    let directory = directory(&["members", "forgotten"]);
    let request = request_of(identifier, &directory);
    let admitted = directory.admit(APP, &request).expect("the request is admitted");
    let action = roll.map(|roll| Arc::new(action_with(roll)));
    let admitted = Admitted { action, ..admitted };
    let (registry, chain) = (&running.service.registry(), &running.service.chain());
    let (now, unseen) = (UnixSeconds(1_800_000_000), &UnseenContracts::new());
    let data = TrustedDataAt { trusted, registry, chain, groups, unseen, now };
    check_items(&request.proofs, &admitted, &directory, &data, now).map(|mut items| items.remove(0))
}

fn action_with(roll: &str) -> Action {
    Action {
        app_id: APP.to_owned(),
        environment: HERE.0,
        action: "a".to_owned(),
        description: String::new(),
        max_verifications: 1,
        accept_legacy: true,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity: false,
        sybil_scores: Default::default(),
        roll: Some(roll.parse().expect("a name")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_proves_with_a_live_root_or_with_that_of_the_roll() {
    let running = start("members", |_| {}).await;
    let nothing = TrustedRoots::default();
    let group = |live: u64, age, roll: u64| OneGroup(Some((root(live), age, root(roll))));
    for (what, identifier, roll, groups, expected) in [
        ("a live root", "members", None, group(5, RootAge::Newest, 6), None),
        ("its public name", "device", None, group(5, RootAge::Newest, 6), None),
        ("replaced a moment ago", "members", None, group(5, RootAge::Seconds(604_800), 6), None),
        ("replaced too long ago", "members", None, group(5, RootAge::Seconds(604_801), 6), Some("root_too_old")),
        ("a root that ended", "members", None, group(6, RootAge::Newest, 6), Some("invalid_merkle_root")),
        ("the roll's, ended long ago", "members", Some("assembly"), group(6, RootAge::Newest, 5), None),
        (
            "live, but not the roll's",
            "members",
            Some("assembly"),
            group(5, RootAge::Newest, 6),
            Some("invalid_merkle_root"),
        ),
        ("a roll not taken", "members", Some("later"), group(5, RootAge::Newest, 5), Some("invalid_merkle_root")),
        ("not known to the keeper yet", "forgotten", None, group(5, RootAge::Newest, 5), Some("invalid_merkle_root")),
    ] {
        let checked = checked(&running, identifier, roll, &groups, &nothing).expect("the group is read");
        assert_eq!(checked.err().map(|error| error.code().name()), expected, "{what}");
    }
    // A group that cannot be read refuses no proof: the caller tries again.
    let unread = checked(&running, "members", None, &OneGroup(None), &nothing);
    assert!(matches!(unread, Err(TrustedDataError::Group(_))), "{unread:?}");
    // A live root that the operator took back ends; a roll ends with its own removal alone.
    let key = RootKey { environment: HERE.0, kind: HERE.1, root: root(5) };
    let taken_back = TrustedRoots::new([], [(key, RootDecision { trust: None })]);
    let live = checked(&running, "members", None, &group(5, RootAge::Newest, 5), &taken_back).expect("it is read");
    assert!(matches!(live, Err(ItemError::NotLiveInGroup(_))), "{live:?}");
    let roll = checked(&running, "members", Some("assembly"), &group(5, RootAge::Newest, 5), &taken_back);
    assert!(roll.expect("it is read").is_ok());
    running.stop().await;
}

#[test]
fn no_chain_is_asked_for_the_root_of_a_group() {
    let directory = directory(&["members", "orb"]);
    let failed = |error: ItemError| -> CheckedItems { Ok(vec![Err(error)]) };
    let ended = || failed(ItemError::NotLiveInGroup(id("members")));
    let unknown = || failed(ItemError::UnknownLegacyRoot(HERE.0));
    for (identifier, environment, checked, expected) in [
        ("members", HERE.0, ended(), None),
        ("device", HERE.0, ended(), None),
        ("members", Environment::Production, unknown(), None),
        ("orb", HERE.0, unknown(), Some(LegacyIdentifier::Orb)),
        // Where the name is a public one.
        ("device", Environment::Production, unknown(), Some(LegacyIdentifier::Device)),
    ] {
        // A replica reads the journal's end first in any case.
        assert!(has_unknown_root(&checked), "{identifier}");
        let proofs = request_of(identifier, &directory).proofs;
        let wanted = roots_to_look_for(&proofs, environment, &directory, &checked);
        let expected = expected.map(|identifier| (RootUse::Legacy(identifier), root(5)));
        assert_eq!(wanted.into_iter().collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>(), "{identifier}");
    }
    assert!(!has_unknown_root(&failed(ItemError::DoesNotHold)));
}
