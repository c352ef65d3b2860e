//! What a member's secret gives: seeds, commitments, nullifiers, and the statement of a link proof.

use std::fmt;

use alloy_primitives::{U256, U512};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use sha2::{Digest, Sha256};
use zeroize::Zeroize;

use super::codes::Code;
use super::names::{FieldNumber, GroupKey, ReplacementSecret};
use super::poseidon::{hash_one, hash_two};
use crate::verification::identity::hash_to_field;

/// The modulus of BN254's scalar field.
const MODULUS: U256 =
    U256::from_limbs([0x43e1_f593_f000_0001, 0x2833_e848_79b9_7091, 0xb850_45b6_8181_585d, 0x3064_4e72_e131_a029]);

/// A member's secret in a group: 16 random bytes. Every device of the member has the same.
#[derive(Clone, PartialEq, Eq)]
pub struct MemberSecret(pub [u8; 16]);

impl fmt::Debug for MemberSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MemberSecret(hidden)")
    }
}

impl Drop for MemberSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The two numbers that an identity commitment is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MemberIdentity {
    /// What nullifiers are made of; the same in all groups, and at each replacement.
    pub nullifier_seed: FieldNumber,
    /// Another one in each group and at each replacement.
    pub trapdoor: FieldNumber,
}

impl MemberSecret {
    /// The identity in a group at the `n`th replacement, counted from 0.
    pub fn identity(&self, group_key: &GroupKey, n: u32) -> MemberIdentity {
        MemberIdentity {
            nullifier_seed: self.derive(b"selfsame seed", &[]),
            trapdoor: self.derive(b"selfsame trapdoor", &[group_key.0.as_slice(), &n.to_be_bytes()].concat()),
        }
    }

    fn derive(&self, label: &[u8], context: &[u8]) -> FieldNumber {
        let mut bytes = [0; 64];
        let (secret, info) = (Salt::new(HKDF_SHA256, &[]).extract(&self.0), [label, &[0], context]);
        // 64 bytes are never too long for HKDF.
        let _ = secret.expand(&info, SixtyFour).and_then(|derived| derived.fill(&mut bytes));
        let remainder = U512::from_be_bytes(bytes) % U512::from(MODULUS);
        bytes.zeroize();
        FieldNumber(U256::from_limbs_slice(&remainder.as_limbs()[..4]))
    }
}

struct SixtyFour;

impl KeyType for SixtyFour {
    fn len(&self) -> usize {
        64
    }
}

impl MemberIdentity {
    /// The leaf.
    pub fn commitment(&self) -> FieldNumber {
        hash_one(hash_two(self.nullifier_seed, self.trapdoor))
    }

    /// The nullifier for an external nullifier.
    pub fn nullifier(&self, external_nullifier: FieldNumber) -> FieldNumber {
        hash_two(external_nullifier, self.nullifier_seed)
    }
}

/// The external nullifier of link proofs of a group.
///
/// A legacy external nullifier hashes bytes that begin with byte 00 (the hash of the application's
/// id has 248 bits), and this one begins with the letter `s`: no page can ask for it.
pub fn enrolment_external_nullifier(group_key: &GroupKey) -> FieldNumber {
    FieldNumber(hash_to_field(&[b"selfsame group enrolment\0".as_slice(), &group_key.0].concat()))
}

/// What a link proof allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Act {
    /// The leaf is added for a member number without a live one.
    Join,
    /// The leaf takes the place of the live one.
    Replace,
    /// The live leaf is removed.
    Leave,
}

impl Act {
    /// Its name in the statement.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What makes a link proof good once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// An invitation or an enroller's link.
    Code(Code),
    /// The present replacement secret.
    ReplacementSecret(ReplacementSecret),
}

impl Token {
    fn hash(&self) -> [u8; 32] {
        match self {
            Self::Code(code) => Sha256::digest(code.letters()).into(),
            Self::ReplacementSecret(secret) => Sha256::digest(secret.0).into(),
        }
    }
}

/// What a link proof states: the owner of a seed wants this leaf in this group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatement<'a> {
    /// What it allows.
    pub act: Act,
    /// The group.
    pub group_key: &'a GroupKey,
    /// The new leaf; for leaving the live one.
    pub commitment: FieldNumber,
    /// What makes it good once.
    pub token: &'a Token,
}

impl LinkStatement<'_> {
    /// The bytes of the statement.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { act, group_key, commitment, token } = self;
        [act.name().as_bytes(), &[0], &group_key.0, &commitment.to_bytes(), &token.hash()].concat()
    }

    /// The signal hash of the proof.
    pub fn signal_hash(&self) -> FieldNumber {
        FieldNumber(hash_to_field(&self.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;
    use serde_json::Value;

    use super::super::tests::{number, text, vectors};
    use super::super::tree::one_leaf_root;
    use super::*;

    fn secret(value: &Value) -> MemberSecret {
        MemberSecret(hex::decode(text(value)).expect("hex").try_into().expect("16 bytes"))
    }

    fn key(value: &Value) -> GroupKey {
        text(value).parse().expect("a group key")
    }

    #[test]
    fn identities_match_the_recorded_vectors() {
        for case in vectors()["identities"].as_array().expect("a list") {
            let secret = secret(&case["secret"]);
            let of_action = number(&case["nullifier"]["external_nullifier"]);
            for group in case["groups"].as_array().expect("a list") {
                let group_key = key(&group["group_key"]);
                let enrolment = enrolment_external_nullifier(&group_key);
                assert_eq!(enrolment, number(&group["enrolment_external_nullifier"]));
                for (n, leaf) in group["leaves"].as_array().expect("a list").iter().enumerate() {
                    let identity = secret.identity(&group_key, n as u32);
                    assert_eq!(identity.nullifier_seed, number(&case["nullifier_seed"]));
                    assert_eq!(identity.trapdoor, number(&leaf["trapdoor"]));
                    assert_eq!(identity.commitment(), number(&leaf["commitment"]));
                    assert_eq!(identity.nullifier(enrolment), number(&group["enrolment_nullifier"]));
                    assert_eq!(identity.nullifier(of_action), number(&case["nullifier"]["out"]));
                }
            }
        }
        for case in vectors()["identities_large_n"].as_array().expect("a list") {
            let n = case["n"].as_u64().expect("a number") as u32;
            let identity = secret(&case["secret"]).identity(&key(&case["group_key"]), n);
            assert_eq!(identity.trapdoor, number(&case["trapdoor"]), "{n}");
        }
    }

    #[test]
    fn statements_of_link_proofs_match_the_recorded_vectors() {
        for case in vectors()["link_proofs"].as_array().expect("a list") {
            let act = match text(&case["act"]) {
                "join" => Act::Join,
                "replace" => Act::Replace,
                _ => Act::Leave,
            };
            let token = match case["code"].as_str() {
                Some(code) => Token::Code(Code::read_wire(code).expect("a code")),
                None => Token::ReplacementSecret(text(&case["replacement_secret"]).parse().expect("a secret")),
            };
            let (group_key, commitment) = (key(&case["group_key"]), number(&case["commitment"]));
            let statement = LinkStatement { act, group_key: &group_key, commitment, token: &token };
            assert_eq!(hex::encode(statement.bytes()), text(&case["statement"]));
            assert_eq!(statement.signal_hash(), number(&case["signal_hash"]));
            assert_eq!(FieldNumber(one_leaf_root(commitment).to_number()), number(&case["merkle_root"]));
            assert_eq!(enrolment_external_nullifier(&group_key), number(&case["external_nullifier"]));
        }
    }
}
