//! Accounts, and the changes of a block over them.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};

use crate::commitment::{PublicKey, SlotError, decompress_slots};
use crate::encode_fields;
use crate::encoding::{Compact, DecodeError, Encoding};
use crate::ids::{Commitment, CompressedKey, LeafIndex, PubkeyId};
use crate::time::UnixSeconds;

/// An account. Its leaf in the tree is [`Account::commitment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The leaf: the commitment to the account's public keys, as its operations stated it.
    pub commitment: Commitment,
    /// Authenticators by pubkey id. The list reaches to the highest slot that was used since the
    /// account was created or last recovered. The slot of a removed authenticator is `None`.
    pub slots: Vec<Option<Authenticator>>,
    /// The address that may recover the account; the zero address when the account has no recovery
    /// agent.
    pub recovery_agent: Address,
    /// The update of the recovery agent that waits for its cooldown.
    pub pending_recovery_agent: Option<PendingRecoveryAgent>,
    /// The nonce that the next signed operation must carry.
    pub nonce: u64,
    /// How often the account was recovered.
    pub recovery_counter: u32,
}

/// Every inclusion proof reads an account from anywhere in the registry, and the more of them the
/// memory holds, the better. So what is nearly always small or missing takes a byte: the count of
/// the slots, the nonce and the recovery counter are [`Compact`], and the recovery agent is an
/// option, which is never the zero address. An account with one authenticator and without a
/// recovery agent has 90 bytes.
impl Encoding for Account {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter } = self;
        commitment.encode(out);
        Compact(slots.len() as u64).encode(out);
        slots.iter().for_each(|slot| slot.encode(out));
        Some(*recovery_agent).filter(|agent| !agent.is_zero()).encode(out);
        pending_recovery_agent.encode(out);
        Compact(*nonce).encode(out);
        Compact(u64::from(*recovery_counter)).encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let commitment = Commitment::decode(input)?;
        let Compact(count) = Compact::decode(input)?;
        // A false count cannot reserve more memory than the input has bytes.
        let most = input.len() / size_of::<Option<Authenticator>>();
        let mut slots = Vec::with_capacity(most.min(usize::try_from(count).unwrap_or(most)));
        for _ in 0..count {
            slots.push(Option::decode(input)?);
        }
        let recovery_agent = match Option::<Address>::decode(input)? {
            None => Address::ZERO,
            Some(agent) if agent.is_zero() => return Err(DecodeError::OutOfRange("a recovery agent")),
            Some(agent) => agent,
        };
        let pending_recovery_agent = Option::decode(input)?;
        let Compact(nonce) = Compact::decode(input)?;
        let Compact(counter) = Compact::decode(input)?;
        let recovery_counter = u32::try_from(counter).map_err(|_| DecodeError::OutOfRange("a recovery counter"))?;
        Ok(Self { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter })
    }
}

impl Account {
    /// The compressed public keys, slot by slot.
    pub fn public_keys(&self) -> Vec<Option<CompressedKey>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|authenticator| authenticator.public_key)).collect()
    }

    /// The addresses, slot by slot.
    pub fn addresses(&self) -> Vec<Option<Address>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|authenticator| authenticator.address)).collect()
    }

    /// The decoded public keys, slot by slot.
    ///
    /// # Errors
    /// The first slot whose key does not decode.
    pub fn decoded_keys(&self) -> Result<Vec<Option<PublicKey>>, SlotError> {
        decompress_slots(self.public_keys())
    }
}

/// An authenticator in its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticator {
    /// The address that its signatures recover to.
    pub address: Address,
    /// Its compressed public key, as sent; the registry does not decode it.
    pub public_key: CompressedKey,
}

encode_fields!(Authenticator { address, public_key });

/// A pending update of the recovery agent. It can be executed in a block whose time is at or after
/// `execute_after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRecoveryAgent {
    /// The new recovery agent; the zero address ends recovery.
    pub agent: Address,
    /// The earliest block time of the execution, inclusive.
    pub execute_after: UnixSeconds,
}

encode_fields!(PendingRecoveryAgent { agent, execute_after });

/// What an authenticator's address maps to (`docs/interfaces/indexer.md`, "Answers").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedAccount {
    /// The account's recovery counter when the address was added. When it is less than the
    /// account's, a recovery revoked the address.
    pub recovery_counter: u32,
    /// The authenticator's slot in the account.
    pub pubkey_id: PubkeyId,
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
}

encode_fields!(PackedAccount { recovery_counter, pubkey_id, leaf_index });

impl PackedAccount {
    /// The packed number: recovery counter (32 bits) ‖ pubkey id (32 bits) ‖ leaf index (192 bits).
    pub fn to_number(self) -> U256 {
        U256::from_limbs([
            self.leaf_index.0,
            0,
            0,
            u64::from(self.recovery_counter) << 32 | u64::from(self.pubkey_id.0),
        ])
    }

    /// Reads the packed number; `None` when its leaf index does not fit 64 bits.
    pub fn from_number(number: U256) -> Option<Self> {
        let [leaf_index, 0, 0, high] = *number.as_limbs() else { return None };
        let (recovery_counter, pubkey_id) = ((high >> 32) as u32, PubkeyId(high as u32));
        Some(Self { recovery_counter, pubkey_id, leaf_index: LeafIndex(leaf_index) })
    }
}

// The registry's state as the rules read and change it.

/// One version of the registry's state.
pub trait RegistryView {
    /// Why the state could not be read.
    type Error;
    /// The account at a leaf index; `None` for leaf 0 and for leaves that are not assigned yet.
    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, Self::Error>;
    /// What an address maps to; `None` when the address was never an authenticator's, or was
    /// unmapped.
    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, Self::Error>;
    /// The leaf index that the next account gets; 1 in an empty registry.
    fn next_leaf_index(&self) -> Result<LeafIndex, Self::Error>;
}

/// A view and, on top of it, the changes of the operations that were applied so far.
pub struct Overlay<'view, V> {
    view: &'view V,
    /// Accounts that were created or changed.
    pub accounts: BTreeMap<LeafIndex, Account>,
    /// Addresses that were mapped, or unmapped (`None`).
    pub addresses: BTreeMap<Address, Option<PackedAccount>>,
    next_leaf_index: Option<LeafIndex>,
}

impl<'view, V: RegistryView> Overlay<'view, V> {
    /// An overlay without changes.
    pub fn new(view: &'view V) -> Self {
        Self { view, accounts: BTreeMap::new(), addresses: BTreeMap::new(), next_leaf_index: None }
    }

    /// Adds the changes of one operation.
    pub(super) fn write(
        &mut self,
        leaf_index: LeafIndex,
        account: Account,
        addresses: Vec<(Address, Option<PackedAccount>)>,
    ) {
        if self.next_leaf_index == Some(leaf_index) {
            self.next_leaf_index = Some(leaf_index.next());
        }
        self.accounts.insert(leaf_index, account);
        self.addresses.extend(addresses);
    }

    /// The next leaf index. The overlay keeps it, so that [`Overlay::write`] advances it.
    pub(super) fn allocate_leaf_index(&mut self) -> Result<LeafIndex, V::Error> {
        let next = RegistryView::next_leaf_index(self)?;
        self.next_leaf_index = Some(next);
        Ok(next)
    }
}

impl<V: RegistryView> RegistryView for Overlay<'_, V> {
    type Error = V::Error;

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, V::Error> {
        match self.accounts.get(&leaf_index) {
            Some(account) => Ok(Some(account.clone())),
            None => self.view.account(leaf_index),
        }
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, V::Error> {
        match self.addresses.get(&address) {
            Some(mapping) => Ok(*mapping),
            None => self.view.packed_account(address),
        }
    }

    fn next_leaf_index(&self) -> Result<LeafIndex, V::Error> {
        match self.next_leaf_index {
            Some(index) => Ok(index),
            None => self.view.next_leaf_index(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{decode, encode};

    const AGENT: Address = Address::repeat_byte(0x33);

    fn account(slots: Vec<Option<Authenticator>>) -> Account {
        Account {
            commitment: Commitment(U256::from(0x11)),
            slots,
            recovery_agent: Address::ZERO,
            pending_recovery_agent: None,
            nonce: 0,
            recovery_counter: 0,
        }
    }

    fn authenticator() -> Authenticator {
        Authenticator { address: Address::repeat_byte(0x22), public_key: CompressedKey::default() }
    }

    #[test]
    fn an_account_is_encoded_shortly() {
        let new = account(vec![Some(authenticator())]);
        let begin = [&encode(&new.commitment)[..], &[1, 1], &encode(&authenticator())].concat();
        let agent = AGENT.to_vec();
        let pending = PendingRecoveryAgent { agent: Address::ZERO, execute_after: UnixSeconds(5) };
        let cases = [
            (new.clone(), [&begin[..], &[0, 0, 0, 0]].concat(), 90),
            (
                Account { nonce: 127, recovery_counter: 128, ..new.clone() },
                [&begin[..], &[0, 0, 127, 128, 1]].concat(),
                91,
            ),
            (Account { recovery_agent: AGENT, ..new.clone() }, [&begin[..], &[1], &agent, &[0, 0, 0]].concat(), 110),
            (
                Account { pending_recovery_agent: Some(pending.clone()), ..new.clone() },
                [&begin[..], &[0, 1], &encode(&pending), &[0, 0]].concat(),
                118,
            ),
            (account(vec![None, None]), [&encode(&new.commitment)[..], &[2, 0, 0, 0, 0, 0, 0]].concat(), 39),
        ];
        for (account, bytes, length) in cases {
            assert_eq!(encode(&account), bytes, "{account:?}");
            assert_eq!(bytes.len(), length, "{account:?}");
            assert_eq!(decode::<Account>(&bytes), Ok(account));
            for cut in 0..bytes.len() {
                assert_eq!(decode::<Account>(&bytes[..cut]), Err(DecodeError::Truncated), "cut at {cut}");
            }
        }
    }

    #[test]
    fn an_account_has_one_encoding() {
        let new = account(vec![Some(authenticator())]);
        let bytes = encode(&Account { recovery_agent: AGENT, ..new });
        let mut without_agent = bytes.clone();
        without_agent[87..107].fill(0);
        assert_eq!(decode::<Account>(&without_agent), Err(DecodeError::OutOfRange("a recovery agent")));
        let counter = [&bytes[..109], &encode(&Compact(1 << 32))].concat();
        assert_eq!(decode::<Account>(&counter), Err(DecodeError::OutOfRange("a recovery counter")));
        // A list of more slots than any input has.
        let mut false_count = encode(&account(Vec::new()).commitment);
        Compact(u64::MAX).encode(&mut false_count);
        assert_eq!(decode::<Account>(&false_count), Err(DecodeError::Truncated));
    }
}
