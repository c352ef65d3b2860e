//! A membership of a group: what the wallet keeps of it, link proofs, and proofs for applications.
//!
//! Everything here is pure but for the prover, which draws the numbers that blind a proof and uses
//! all cores for about a second. The caller fetches the group and one page of its leaves; the
//! wallet computes its own path, so that nobody learns whose proof follows.
//!
//! A replacement is begun ([`Member::begin_replacement`]) and stored before it is asked for. Until
//! the answer came ([`Member::enrolled`]) the same request can be made again and again: the service
//! answers it as before.

use std::fmt;

use alloy_primitives::{U256, hex};
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::identity::{
    Act, LinkStatement, MemberIdentity, MemberSecret, Token, enrolment_external_nullifier,
};
use selfsame_protocol::groups::names::{FieldNumber, GroupId, GroupKey, ReplacementSecret, RollName, SecretHash};
use selfsame_protocol::groups::tree::{
    MOST_POSITIONS, PAGE_LEAVES, one_leaf_path, page_of, page_root, path_in, read_page, root_of_pages,
};
use selfsame_protocol::groups::wire::{
    GroupResponse, JoinRequest, LeaveRequest, ProofText, ReplaceRequest, RollResponse, SentCommitment,
};
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use semaphore_rs::identity::Identity;
use semaphore_rs::poseidon_tree::{Branch, Proof as TreePath};
use semaphore_rs::protocol::generate_proof;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::Random;
use crate::prove::{LegacyProof, ProveError};

/// The most leaves of a secret that are looked for: from the newest n downwards.
const MOST_LEAVES: u32 = 4096;

/// Why a member's request or proof was not made.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The prover failed.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// The group is another one than the wallet joined, although it has the same name.
    #[error(
        "the group {group} at this address has another group key than the one that this wallet has joined: it is another \
         group with the same name, and this wallet proves nothing for it"
    )]
    OtherGroup {
        /// The group.
        group: GroupId,
    },
    /// The group or its page contradicts itself.
    #[error("what the service says about the group {group} is not consistent: {what}")]
    Inconsistent {
        /// The group.
        group: GroupId,
        /// What is wrong.
        what: &'static str,
    },
    /// No leaf of the wallet is in the tree.
    #[error(
        "this wallet's leaf is not in the group {group} any more: the member was removed, has left, or has replaced the \
         leaf with another device; ask the organization for a new link"
    )]
    NoLeaf {
        /// The group.
        group: GroupId,
    },
    /// No leaf of the wallet is in the roll.
    #[error(
        "the action counts the members of {group} on the roll {roll}, and this wallet's leaf is not on it: it was joined, \
         or given a new secret, after the roll was taken"
    )]
    NotOnRoll {
        /// The group.
        group: GroupId,
        /// The roll.
        roll: RollName,
    },
    /// The proof would be a link proof.
    #[error(
        "the request asks for the proof with which a member joins the group {group}, replaces its leaf or leaves; a wallet \
         makes it for the group itself only"
    )]
    LinkProof {
        /// The group.
        group: GroupId,
    },
    /// A replacement without a code was not begun.
    #[error("no replacement of the leaf in the group {group} has begun")]
    NoReplacement {
        /// The group.
        group: GroupId,
    },
    /// The leaf cannot be replaced more often with this secret.
    #[error("the leaf in the group {group} was replaced too often with this secret; take a new one (--new-secret)")]
    TooManyLeaves {
        /// The group.
        group: GroupId,
    },
}

/// What a leaf is made of, and what replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafSecrets {
    /// The secret: nullifiers are made of it alone.
    #[serde(with = "secret_hex")]
    pub secret: MemberSecret,
    /// Counts the leaves of the secret in the group, from 0.
    pub n: u32,
    /// What the member has to show to replace the leaf, or to leave.
    pub replacement_secret: ReplacementSecret,
}

/// A membership as the wallet keeps it. In JSON it has the form of an entry of a sealed copy
/// (`docs/interfaces/wallet.md`), and where the wallet found the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The group's id.
    pub group: GroupId,
    /// The group key.
    pub group_key: GroupKey,
    /// The present leaf.
    #[serde(flatten)]
    pub leaf: LeafSecrets,
    /// Position of the leaf; `None` until the service has answered the joining.
    pub position: Option<u32>,
    /// The leaf that is to take the place of the present one, while a replacement is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<LeafSecrets>,
    /// Whether the member has left. The secret stays, for a member who comes back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_left: bool,
    /// Base address of the wallet interface.
    pub wallet_url: String,
    /// The environment of the member's proofs.
    pub environment: Environment,
    /// The public name under which pages made with client kits ask for the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_identifier: Option<LegacyIdentifier>,
}

/// Which secret the next leaf has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextSecret {
    /// The same, with the next n: the member stays who they are to applications and votes.
    Same,
    /// A new one: to applications the member is somebody else from then on. For a stolen device,
    /// whose thief could recognize the old nullifiers.
    New,
}

impl Member {
    /// A member-to-be with a new secret. Store it before [`Member::join`] is sent.
    pub fn new(group: &GroupResponse, wallet_url: &str, random: &mut Random<'_>) -> Self {
        Self::with_secret(group, wallet_url, random_secret(random), random)
    }

    /// The same with a secret that the person has in another group.
    pub fn with_secret(group: &GroupResponse, wallet_url: &str, secret: MemberSecret, random: &mut Random<'_>) -> Self {
        Self {
            group: group.id,
            group_key: group.group_key,
            leaf: LeafSecrets { secret, n: 0, replacement_secret: random_replacement(random) },
            position: None,
            next: None,
            has_left: false,
            wallet_url: wallet_url.to_owned(),
            environment: group.environment,
            legacy_identifier: group.legacy_identifier,
        }
    }

    /// The identity of the present leaf.
    pub fn identity(&self) -> MemberIdentity {
        self.identity_of(&self.leaf)
    }

    /// The present leaf.
    pub fn commitment(&self) -> FieldNumber {
        self.identity().commitment()
    }

    /// The identity of the leaf that is to be live: the next one while a replacement is under way.
    pub fn coming_identity(&self) -> MemberIdentity {
        self.identity_of(self.coming())
    }

    fn coming(&self) -> &LeafSecrets {
        self.next.as_ref().unwrap_or(&self.leaf)
    }

    fn identity_of(&self, leaf: &LeafSecrets) -> MemberIdentity {
        leaf.secret.identity(&self.group_key, leaf.n)
    }

    // Enrolment.

    /// The request that adds the leaf: the first one, or the next one of a member who comes back.
    ///
    /// # Errors
    /// [`MemberError::Prove`].
    pub fn join(&self, code: &Code) -> Result<JoinRequest, MemberError> {
        let token = Token::Code(code.clone());
        let LinkProof { commitment, nullifier, proof } = self.link_proof(Act::Join, self.coming(), &token)?;
        let replacement_hash = SecretHash::of(&self.coming().replacement_secret.0);
        Ok(JoinRequest { code: code.clone(), commitment, nullifier, proof, replacement_hash, copy: None })
    }

    /// Begins a replacement: the next leaf is made. Store the member before [`Member::replace`] is
    /// sent. One that is under way stays as it is, so that it can go on.
    ///
    /// # Errors
    /// [`MemberError::TooManyLeaves`].
    pub fn begin_replacement(&mut self, secret: NextSecret, random: &mut Random<'_>) -> Result<(), MemberError> {
        if self.next.is_some() {
            return Ok(());
        }
        let group = self.group;
        let (secret, n) = match secret {
            NextSecret::New => (random_secret(random), 0),
            NextSecret::Same => {
                let n = self.leaf.n.checked_add(1).ok_or(MemberError::TooManyLeaves { group })?;
                (self.leaf.secret.clone(), n)
            }
        };
        self.next = Some(LeafSecrets { secret, n, replacement_secret: random_replacement(random) });
        Ok(())
    }

    /// The request that puts the coming leaf in the place of the live one: with an enroller's code,
    /// or without one by the present replacement secret.
    ///
    /// # Errors
    /// [`MemberError::NoReplacement`] without a code when none was begun, and
    /// [`MemberError::Prove`].
    pub fn replace(&self, code: Option<&Code>) -> Result<ReplaceRequest, MemberError> {
        if code.is_none() && self.next.is_none() {
            return Err(MemberError::NoReplacement { group: self.group });
        }
        let secret = self.leaf.replacement_secret;
        let token = code.map_or(Token::ReplacementSecret(secret), |code| Token::Code(code.clone()));
        let LinkProof { commitment, nullifier, proof } = self.link_proof(Act::Replace, self.coming(), &token)?;
        Ok(ReplaceRequest {
            code: code.cloned(),
            replacement_secret: code.is_none().then_some(secret),
            commitment,
            nullifier,
            proof,
            replacement_hash: SecretHash::of(&self.coming().replacement_secret.0),
            copy: None,
        })
    }

    /// The service has answered a joining or a replacement: the coming leaf is the present one.
    pub fn enrolled(&mut self, position: u32) {
        if let Some(next) = self.next.take() {
            self.leaf = next;
        }
        self.position = Some(position);
        self.has_left = false;
    }

    /// The group has the coming leaf already, which another copy of this wallet made: the one
    /// after it is made in its place.
    ///
    /// # Errors
    /// [`MemberError::TooManyLeaves`].
    pub fn skip_leaf(&mut self, random: &mut Random<'_>) -> Result<(), MemberError> {
        let group = self.group;
        let LeafSecrets { secret, n, .. } = self.coming().clone();
        let n = n.checked_add(1).ok_or(MemberError::TooManyLeaves { group })?;
        self.next = Some(LeafSecrets { secret, n, replacement_secret: random_replacement(random) });
        Ok(())
    }

    /// A leaf of the wallet was found in the live tree: when it is the coming one, its answer was
    /// lost.
    pub fn found(&mut self, leaf: &FoundLeaf) {
        if self.next.as_ref().is_some_and(|next| self.identity_of(next) == leaf.identity) {
            self.enrolled(leaf.position);
        } else if leaf.identity == self.identity() {
            self.position = Some(leaf.position);
        }
    }

    /// Takes over what the service says of the group now, and where it is.
    pub fn update(&mut self, group: &GroupResponse, wallet_url: &str) {
        self.wallet_url = wallet_url.to_owned();
        (self.environment, self.legacy_identifier) = (group.environment, group.legacy_identifier);
    }

    /// The service has refused a replacement for good: the present leaf stays.
    pub fn abandon_replacement(&mut self) {
        self.next = None;
    }

    /// The request that removes the live leaf.
    ///
    /// # Errors
    /// [`MemberError::Prove`].
    pub fn leave(&self) -> Result<LeaveRequest, MemberError> {
        let replacement_secret = self.leaf.replacement_secret;
        let token = Token::ReplacementSecret(replacement_secret);
        let LinkProof { commitment, nullifier, proof } = self.link_proof(Act::Leave, &self.leaf, &token)?;
        Ok(LeaveRequest { replacement_secret, commitment, nullifier, proof })
    }

    /// Proves over the tree of the one leaf that its owner wants the act.
    fn link_proof(&self, act: Act, leaf: &LeafSecrets, token: &Token) -> Result<LinkProof, MemberError> {
        let identity = self.identity_of(leaf);
        let (group_key, commitment) = (&self.group_key, identity.commitment());
        let statement = LinkStatement { act, group_key, commitment, token };
        let external_nullifier = enrolment_external_nullifier(group_key);
        let words = prove(&identity, 0, &one_leaf_path(), external_nullifier.0, statement.signal_hash().0)?;
        Ok(LinkProof {
            commitment: SentCommitment(commitment.0),
            nullifier: identity.nullifier(external_nullifier),
            proof: ProofText(words),
        })
    }

    // Proofs for applications.

    /// Whether the wallet answers for this group when a credential of this name is asked for: the
    /// group's id, or its public name.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.group.as_str() || self.legacy_identifier.is_some_and(|identifier| identifier.name() == name)
    }

    /// Whether a proof for this external nullifier would be a link proof of the group, whatever was
    /// hashed to it.
    pub fn is_link_proof(&self, external_nullifier: U256) -> bool {
        enrolment_external_nullifier(&self.group_key).0 == external_nullifier
    }

    /// Checks that a group is the one that the wallet joined, and that its roots are those of its
    /// page roots.
    ///
    /// # Errors
    /// [`MemberError::OtherGroup`] and [`MemberError::Inconsistent`].
    pub fn check_group(&self, group: &GroupResponse) -> Result<(), MemberError> {
        if (group.id, group.group_key) != (self.group, self.group_key) {
            return Err(MemberError::OtherGroup { group: self.group });
        }
        let trees = group.rolls.iter().map(AskedTree::of_roll).chain([AskedTree::live(group)]);
        trees.into_iter().try_for_each(|tree| tree.check(self.group))
    }

    /// The page to fetch for a proof against a tree: the one with the wallet's position. `None`
    /// when the position is not known (then each page of the tree is tried), or is not in the tree.
    pub fn page(&self, tree: &AskedTree<'_>) -> Option<FieldNumber> {
        tree.page_roots.get(page_of(self.position?)).copied()
    }

    /// Finds the wallet's leaf on a page of a tree, by trying n downwards from the newest leaf on.
    /// `None` when the page has none of them.
    ///
    /// # Errors
    /// [`MemberError::Inconsistent`] when the bytes are not a page of the tree.
    pub fn find(&self, tree: &AskedTree<'_>, page: &[u8]) -> Result<Option<FoundLeaf>, MemberError> {
        let wrong = |what| MemberError::Inconsistent { group: self.group, what };
        let leaves = read_page(page).ok_or_else(|| wrong("a page is not 1024 numbers of the field"))?;
        let root = page_root(&leaves);
        let index = tree.page_roots.iter().position(|of_page| *of_page == root);
        let index = index.ok_or_else(|| wrong("a page has another root than the tree names"))?;
        let mut candidates =
            self.next.iter().chain([&self.leaf]).map(|leaf| self.identity_of(leaf)).collect::<Vec<_>>();
        let LeafSecrets { secret, n, .. } = &self.leaf;
        let older = (n.saturating_sub(MOST_LEAVES)..*n).rev().map(|n| secret.identity(&self.group_key, n));
        let place_of = |identity: &MemberIdentity| {
            let commitment = identity.commitment();
            leaves.iter().position(|leaf| *leaf == commitment)
        };
        let known = candidates.drain(..).chain(older);
        let found = known.into_iter().find_map(|identity| Some((place_of(&identity)?, identity)));
        Ok(found.map(|(place, identity)| {
            // A page index and a place are below 1024 each.
            let position = (index * PAGE_LEAVES + place) as u32;
            FoundLeaf { position, identity, path: path_in(&leaves, tree.page_roots, position), root: tree.root }
        }))
    }

    /// The error for a tree in which the wallet has no leaf.
    pub fn no_leaf(&self, tree: &AskedTree<'_>) -> MemberError {
        match tree.roll {
            Some(roll) => MemberError::NotOnRoll { group: self.group, roll: roll.clone() },
            None => MemberError::NoLeaf { group: self.group },
        }
    }

    /// [`Member::check_group`], [`AskedTree::for_proof`], [`Member::find`] and
    /// [`Member::prove_with`] in one call, with the page that the tree has for the wallet.
    ///
    /// # Errors
    /// A [`MemberError`].
    pub fn prove(
        &self,
        group: &GroupResponse,
        page: &[u8],
        external_nullifier: U256,
        signal_hash: U256,
    ) -> Result<LegacyProof, MemberError> {
        self.check_group(group)?;
        let tree = AskedTree::for_proof(group, external_nullifier);
        let leaf = self.find(&tree, page)?.ok_or_else(|| self.no_leaf(&tree))?;
        self.prove_with(&leaf, external_nullifier, signal_hash)
    }

    /// Proves to an application, for values that are hashed already, that the leaf is in its tree.
    ///
    /// # Errors
    /// [`MemberError::LinkProof`] for the external nullifier of link proofs, and
    /// [`MemberError::Prove`].
    pub fn prove_with(
        &self,
        leaf: &FoundLeaf,
        external_nullifier: U256,
        signal_hash: U256,
    ) -> Result<LegacyProof, MemberError> {
        if self.is_link_proof(external_nullifier) {
            return Err(MemberError::LinkProof { group: self.group });
        }
        let FoundLeaf { position, identity, path, root } = leaf;
        let words = prove(identity, *position, path, external_nullifier, signal_hash)?;
        let words: String = words.iter().map(|word| format!("{word:064x}")).collect();
        let FieldNumber(nullifier) = identity.nullifier(FieldNumber(external_nullifier));
        Ok(LegacyProof { root: *root, nullifier, words: format!("0x{words}") })
    }
}

/// The values of a link proof that a request has.
struct LinkProof {
    commitment: SentCommitment,
    nullifier: FieldNumber,
    proof: ProofText,
}

/// A tree that a proof is made against: the live one, or that of a roll.
#[derive(Clone, Copy, Debug)]
pub struct AskedTree<'a> {
    /// The roll; `None` for the live tree.
    pub roll: Option<&'a RollName>,
    /// The root of each page.
    pub page_roots: &'a [FieldNumber],
    size: u32,
    root: Root,
}

impl<'a> AskedTree<'a> {
    /// The live tree.
    pub fn live(group: &'a GroupResponse) -> Self {
        Self { roll: None, page_roots: &group.page_roots, size: group.size, root: group.root }
    }

    /// The tree of a roll.
    pub fn of_roll(roll: &'a RollResponse) -> Self {
        Self { roll: Some(&roll.name), page_roots: &roll.page_roots, size: roll.size, root: roll.root }
    }

    /// The tree that counts for an external nullifier: that of the roll whose actions have it,
    /// otherwise the live one.
    pub fn for_proof(group: &'a GroupResponse, external_nullifier: U256) -> Self {
        let counts = |roll: &&RollResponse| {
            roll.actions.iter().any(|action| action.external_nullifier == FieldNumber(external_nullifier))
        };
        group.rolls.iter().find(counts).map_or_else(|| Self::live(group), Self::of_roll)
    }

    /// The root.
    pub fn root(&self) -> Root {
        self.root
    }

    /// Checks that the size, the page roots and the root are of one tree.
    fn check(&self, group: GroupId) -> Result<(), MemberError> {
        let wrong = |what| Err(MemberError::Inconsistent { group, what });
        if self.size > MOST_POSITIONS || self.page_roots.len() != (self.size as usize).div_ceil(PAGE_LEAVES) {
            return wrong("the number of page roots is not that of the size");
        }
        match root_of_pages(self.page_roots) == self.root {
            true => Ok(()),
            false => wrong("the root is not that of the page roots"),
        }
    }
}

/// A leaf of the wallet in a tree, with its path.
pub struct FoundLeaf {
    /// The position.
    pub position: u32,
    identity: MemberIdentity,
    path: [FieldNumber; selfsame_protocol::tree::DEPTH],
    root: Root,
}

impl FoundLeaf {
    /// The leaf.
    pub fn commitment(&self) -> FieldNumber {
        self.identity.commitment()
    }
}

impl fmt::Debug for FoundLeaf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FoundLeaf").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Makes a proof of the public legacy circuit: eight words.
fn prove(
    identity: &MemberIdentity,
    position: u32,
    path: &[FieldNumber],
    external_nullifier: U256,
    signal_hash: U256,
) -> Result<[U256; 8], ProveError> {
    let identity = Identity { trapdoor: identity.trapdoor.0, nullifier: identity.nullifier_seed.0 };
    let branch = |(level, sibling): (usize, &FieldNumber)| match position >> level & 1 {
        0 => Branch::Left(sibling.0),
        _ => Branch::Right(sibling.0),
    };
    let path = TreePath { 0: path.iter().enumerate().map(branch).collect() };
    let proof = generate_proof(&identity, &path, external_nullifier, signal_hash);
    Ok(proof.map_err(|error| ProveError::Legacy(error.to_string()))?.flatten())
}

fn random_secret(random: &mut Random<'_>) -> MemberSecret {
    let mut bytes = Zeroizing::new([0; 32]);
    random(&mut bytes);
    let mut secret = MemberSecret([0; 16]);
    secret.0.copy_from_slice(&bytes[..16]);
    secret
}

fn random_replacement(random: &mut Random<'_>) -> ReplacementSecret {
    let mut bytes = [0; 32];
    random(&mut bytes);
    ReplacementSecret(bytes)
}

/// A secret as 32 hex digits. The texts are wiped.
pub(crate) mod secret_hex {
    use super::*;

    pub fn serialize<S: Serializer>(secret: &MemberSecret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(hex::encode(secret.0)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MemberSecret, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        let is_lower = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let mut secret = MemberSecret([0; 16]);
        match is_lower && hex::decode_to_slice(text.as_str(), &mut secret.0).is_ok() {
            true => Ok(secret),
            false => Err(D::Error::custom("must be 32 lower-case hex digits")),
        }
    }
}

#[cfg(test)]
mod tests;
