//! The numbers that name parts of the registry and of a proof, each as a type of its own, so that
//! one cannot be taken for another.
//!
//! Such a number is a numeric string in JSON ([`crate::number`]) and is encoded like the integer
//! that it wraps. Roots are in [`crate::tree`], points in time in [`crate::time`].

use std::fmt::{self, Display};

use alloy_primitives::U256;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};
use crate::number::number_type;

number_type! {
    /// Leaf index of an account: the position of its commitment in the tree. Counted from 1; leaf 0
    /// is reserved.
    LeafIndex(u64), pattern = "^(0x0*[1-9a-fA-F][0-9a-fA-F]{0,15}|0*[1-9][0-9]{0,18})$", example = "0x1"
}

impl LeafIndex {
    /// The leaf index after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

number_type! {
    /// Slot of an authenticator in its account, counted from 0: the position of its key in the
    /// commitment.
    PubkeyId(u32), pattern = "^(0x0*[0-6]|0*[0-6])$", example = "0x0"
}

impl PubkeyId {
    /// As an index into a list of slots.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

number_type! {
    /// Commitment to the public keys of an account: its leaf in the tree.
    Commitment(U256), pattern = "^(0x0*([1-9a-fA-F][0-9a-fA-F]{0,62}|[12][0-9a-fA-F]{63}|30[0-6][0-9a-fA-F]{61})|0*[1-9][0-9]{0,75})$", example = "0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758"
}

number_type! {
    /// Compressed public key of an authenticator, as the client sent it. It can be a number that
    /// does not decode.
    CompressedKey(U256), pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x800b41c1ebf9e053d97498a268e2697470098183f200cb42009e64678f96a703"
}

number_type! {
    /// Signature nonce of an account: a signed operation must carry the account's next one.
    Nonce(U256), pattern = "^(0x0*[0-9a-fA-F]{1,64}|0*[0-9]{1,77})$", example = "0x0"
}

impl From<u64> for Nonce {
    fn from(nonce: u64) -> Self {
        Self(U256::from(nonce))
    }
}

/// A nullifier: the number that a proof shows for a person and an action. A person who proves the
/// same action to the same application again has the same nullifier; nullifiers for other actions
/// are unrelated to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(
    value_type = String,
    pattern = "^0x[0-9a-f]{64}$",
    example = "0x022de8edbfa1fbb8148fee9c613079d43c6b8c1a1c6b19ba41b67e79a313054d"
)]
pub struct Nullifier(pub U256);

impl Nullifier {
    /// Its only text, in answers, events, records of the log and documents: `0x` and 64 lower-case
    /// hex digits. Relying parties compare it as a text.
    pub fn to_text(self) -> String {
        format!("{:#066x}", self.0)
    }
}

impl Display for Nullifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_text())
    }
}

impl Serialize for Nullifier {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Encoding for Nullifier {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Encoding::decode(input).map(Self)
    }
}
