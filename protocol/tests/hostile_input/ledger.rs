//! Blocks, Merkle paths, receipts, signed heads and traces.

use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::sample::Index;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::ids::{CompressedKey, Nonce, PubkeyId};
use selfsame_protocol::json::from_object;
use selfsame_protocol::ledger::{
    Block, BlockHeader, ChainWalk, Entry, Head, MemoryRegistry, Outcome, Receipt, RegistryKey, RequestId, Seal,
    SignedHead, apply_block, compare_heads, merkle_path, merkle_root, verify_path,
};
use selfsame_protocol::registry::{CommitmentCheck, CreateAccount, Operation, RecoveredSigner, RuleParameters};
use selfsame_protocol::signature::SignatureError;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::trace::{Trace, replay};
use selfsame_protocol::{Address, B256, U256, keccak256};
use serde_json::{Value, json};

use crate::cases;
use crate::damage::{any_byte_damage, apply_damage};
use crate::json::{any_json, any_json_damage};
use crate::memory::check_memory_in_proportion;
use crate::samples::{Sample, any_sealed_block, modulus};

/// The root to which a path leads, by the definition; `None` if the path has another length than
/// the way from leaf to root.
fn root_of_path(leaf: &[u8], position: usize, count: usize, path: &[B256]) -> Option<B256> {
    let mut node = keccak256([&[0], leaf].concat());
    let (mut position, mut count, mut path) = (position, count, path.iter());
    while count > 1 {
        if position % 2 == 1 {
            node = keccak256([&[1], &path.next()?[..], &node[..]].concat());
        } else if position + 1 < count {
            node = keccak256([&[1], &node[..], &path.next()?[..]].concat());
        }
        (position, count) = (position / 2, count.div_ceil(2));
    }
    (position == 0 && path.next().is_none()).then_some(node)
}

/// The hash with each of its bytes changed in turn.
fn every_byte(hash: &B256, by: u8) -> impl Iterator<Item = B256> + use<> {
    let hash = *hash;
    (0..32).map(move |place| {
        let mut changed = hash;
        changed[place] ^= by;
        changed
    })
}

/// Two receipts of a sealed block, which may be of the same entry.
fn any_receipts() -> BoxedStrategy<[Receipt; 2]> {
    (any_sealed_block(), any::<[Index; 2]>())
        .prop_map(|((block, result, outcomes), at)| {
            at.map(|at| {
                let position = at.index(block.entries.len()) as u32;
                Receipt::new(&block, &result, &outcomes, position).expect("an entry")
            })
        })
        .boxed()
}

fn any_receipt() -> BoxedStrategy<Receipt> {
    any_receipts().prop_map(|[receipt, _]| receipt).boxed()
}

proptest! {
    #![proptest_config(cases())]

    /// Any leaf, position, count and nodes are checked without a panic, and are accepted exactly as
    /// the definition says.
    #[test]
    fn a_path_is_accepted_as_the_definition_says(
        leaf in prop::collection::vec(any::<u8>(), 0..40),
        position in prop_oneof![0..20usize, any::<usize>()],
        count in prop_oneof![0..20usize, any::<u32>().prop_map(|count| count as usize), any::<usize>()],
        path in prop::collection::vec(B256::any(), 0..66),
        has_right_length: bool,
    ) {
        let right = (0..=path.len()).find(|length| root_of_path(&leaf, position, count, &path[..*length]).is_some());
        let path = &path[..right.filter(|_| has_right_length).unwrap_or(path.len())];
        let root = root_of_path(&leaf, position, count, path).unwrap_or_default();
        let is_path = position < count && root != B256::ZERO;
        prop_assert_eq!(verify_path(&root, &leaf, position, count, path), is_path);
    }

    /// A leaf's path leads to the root. After a change of any byte, from another position, or for
    /// another leaf, it does not. A position outside the tree has a path that leads to no root.
    #[test]
    fn a_path_leads_to_the_root_only_from_its_own_leaf(
        leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..40),
        at: Index,
        other: Index,
        by in 1..=255u8,
    ) {
        let root = merkle_root(&leaves);
        let (position, count) = (at.index(leaves.len()), leaves.len());
        let path = merkle_path(&leaves, position);
        prop_assert!(verify_path(&root, &leaves[position], position, count, &path));
        prop_assert_eq!(root_of_path(&leaves[position], position, count, &path), Some(root));
        for place in 0..path.len() {
            for node in every_byte(&path[place], by) {
                let mut changed = path.clone();
                changed[place] = node;
                prop_assert!(!verify_path(&root, &leaves[position], position, count, &changed));
            }
        }
        let other = other.index(count);
        // From another position, the path leads to the root only if the same leaf is there.
        let from_other = verify_path(&root, &leaves[position], other, count, &path);
        prop_assert!(!from_other || leaves[other] == leaves[position]);
        prop_assert_eq!(verify_path(&root, &leaves[other], position, count, &path), leaves[other] == leaves[position]);
        prop_assert!(!verify_path(&root, &leaves[position], position + count, count, &path));
        prop_assert!(!verify_path(&root, &leaves[position], position, count, &[&path[..], &[root]].concat()));
        prop_assert!(path.is_empty() || !verify_path(&root, &leaves[position], position, count, &path[1..]));
        let beyond = merkle_path(&leaves, count + other);
        prop_assert!(!verify_path(&root, &leaves[position], count + other, count, &beyond));
    }

    /// A block follows its predecessor. With other entries, or another count, root, height or link,
    /// it does not.
    #[test]
    fn a_damaged_block_does_not_follow_its_predecessor(
        previous in Seal::any(),
        domain in RegistryDomain::any(),
        now in UnixSeconds::any(),
        rules in RuleParameters::any(),
        entries in Vec::<Entry>::any(),
        by in 1..=u32::MAX,
        damages in any_byte_damage(),
    ) {
        let block = Block::seal(&previous, domain, now, rules, entries);
        prop_assert!(block.follows(&previous) && block.header.height >= previous.height);
        type JsonChange = fn(&mut BlockHeader, u32);
        let changes: [JsonChange; 4] = [
            |header, by| header.height ^= u64::from(by),
            |header, by| header.count ^= by,
            |header, by| header.previous_hash[by as usize % 32] ^= 1,
            |header, by| header.operations_root[by as usize % 32] ^= 1,
        ];
        for change in changes {
            let mut changed = block.clone();
            change(&mut changed.header, by);
            prop_assert!(!changed.follows(&previous));
        }
        if let Ok(changed) = decode::<Block>(&apply_damage(&encode(&block), &damages))
            && changed.follows(&previous)
        {
            // The sealer chooses the registry, the rules and any later time. The link of the next
            // block covers them.
            let BlockHeader { time, rules, domain, .. } = changed.header;
            prop_assert_eq!(&changed.header, &BlockHeader { time, rules, domain, ..block.header.clone() });
            prop_assert_eq!(&changed.entries, &block.entries);
            prop_assert!(time >= previous.time);
            prop_assert_eq!(changed.header.hash() == block.header.hash(), changed == block);
        }
    }

    /// A receipt verifies as it was made, and round-trips through its JSON. With one changed byte
    /// in a hash or sibling, or another position or count, it does not verify.
    #[test]
    fn a_receipt_with_one_changed_byte_does_not_verify(receipt in any_receipt(), by in 1..=255u8, number in 1..=u32::MAX) {
        prop_assert_eq!(receipt.verify(), Ok(()));
        let text = serde_json::to_vec(&receipt).expect("JSON");
        prop_assert_eq!(&from_object::<Receipt>(&text).expect("a receipt"), &receipt);

        type Place = fn(&mut Receipt) -> &mut B256;
        let hashes: [Place; 9] = [
            |receipt| &mut receipt.block.hash,
            |receipt| &mut receipt.block.header.previous_hash,
            |receipt| &mut receipt.block.header.operations_root,
            |receipt| &mut receipt.result.hash,
            |receipt| &mut receipt.result.result.block_hash,
            |receipt| &mut receipt.result.result.root_before.0,
            |receipt| &mut receipt.result.result.root_after.0,
            |receipt| &mut receipt.result.result.outcomes_root,
            |receipt| &mut receipt.result.result.previous_result_hash,
        ];
        let mut changed = receipt.clone();
        for place in hashes {
            let original = *place(&mut changed);
            for hash in every_byte(&original, by) {
                *place(&mut changed) = hash;
                prop_assert!(changed.verify().is_err());
            }
            *place(&mut changed) = original;
        }
        type Path = fn(&mut Receipt) -> &mut Vec<B256>;
        let paths: [Path; 2] = [|receipt| &mut receipt.operation.path, |receipt| &mut receipt.outcome.path];
        for path in paths {
            for place in 0..path(&mut changed).len() {
                let original = path(&mut changed)[place];
                for node in every_byte(&original, by) {
                    path(&mut changed)[place] = node;
                    prop_assert!(changed.verify().is_err());
                }
                path(&mut changed)[place] = original;
            }
            path(&mut changed).push(B256::ZERO);
            prop_assert!(changed.verify().is_err());
            path(&mut changed).pop();
        }
        type Number = fn(&mut Receipt) -> &mut u32;
        let numbers: [Number; 3] = [
            |receipt| &mut receipt.operation.position,
            |receipt| &mut receipt.block.header.count,
            |receipt| &mut receipt.block.header.rules.max_authenticators,
        ];
        for place in numbers {
            *place(&mut changed) ^= number;
            prop_assert!(changed.verify().is_err());
            *place(&mut changed) ^= number;
        }
        prop_assert_eq!(changed.verify(), Ok(()));
    }

    /// A receipt with a part of another receipt, of the same block or of another block, does not
    /// verify.
    #[test]
    fn a_receipt_with_a_part_of_another_receipt_does_not_verify(receipts in any_receipts(), others in any_receipts()) {
        type Graft = fn(&mut Receipt, Receipt);
        let grafts: [Graft; 15] = [
            |to, from| to.request_id = from.request_id,
            |to, from| to.kind = from.kind,
            |to, from| to.block = from.block,
            |to, from| to.block.header = from.block.header,
            |to, from| to.operation = from.operation,
            |to, from| to.operation.position = from.operation.position,
            |to, from| to.operation.body = from.operation.body,
            |to, from| to.operation.encoding = from.operation.encoding,
            |to, from| to.operation.path = from.operation.path,
            |to, from| to.result = from.result,
            |to, from| to.result.result = from.result.result,
            |to, from| to.outcome = from.outcome,
            |to, from| to.outcome.outcome = from.outcome.outcome,
            |to, from| to.outcome.encoding = from.outcome.encoding,
            |to, from| to.outcome.path = from.outcome.path,
        ];
        let [receipt, same_block] = receipts;
        for other in [same_block].into_iter().chain(others) {
            for graft in grafts {
                let mut changed = receipt.clone();
                graft(&mut changed, other.clone());
                prop_assert_eq!(changed.verify().is_ok(), changed == receipt, "{:?}", changed);
            }
        }
    }

    /// The JSON of a receipt after hostile changes is not a receipt, does not verify, or is the
    /// same receipt.
    #[test]
    fn a_hostile_receipt_does_not_verify(receipt in any_receipt(), json_damage in any_json_damage(), any in any_json()) {
        let text = json_damage.apply(&serde_json::to_value(&receipt).expect("JSON"));
        if let Ok(changed) = check_memory_in_proportion(text.len(), || from_object::<Receipt>(&text))? {
            prop_assert!(changed == receipt || changed.verify().is_err());
        }
        prop_assert!(from_object::<Receipt>(any.to_string().as_bytes()).is_err());
    }

    /// The JSON of a signed head after hostile changes is not a head, does not verify, or is the
    /// same head.
    #[test]
    fn a_hostile_head_does_not_verify(head in Head::any(), json_damage in any_json_damage(), any in any_json()) {
        let signed = head.sign(&RegistryKey::from_seed(&[7; 32]).expect("a key")).expect("signed");
        let text = json_damage.apply(&serde_json::to_value(signed).expect("JSON"));
        if let Ok(changed) = check_memory_in_proportion(text.len(), || from_object::<SignedHead>(&text))? {
            prop_assert!(changed == signed || changed.verify().is_err());
            prop_assert!(changed == signed || compare_heads(&signed, &changed).is_err());
        }
        prop_assert!(from_object::<SignedHead>(any.to_string().as_bytes()).is_err());
    }

    /// A walk never leaves the heights of its history, whatever headers it is given.
    #[test]
    fn a_walk_takes_only_the_header_that_it_expects(head in Head::any(), header in BlockHeader::any()) {
        let head = Head { domain: header.domain, ..head };
        for (height, hash) in [(head.height, head.block_hash), (header.height, header.hash())] {
            let mut walk = ChainWalk::from_head(&Head { height, block_hash: hash, ..head });
            let is_expected = height > 0 && (header.height, header.hash()) == (height, hash);
            prop_assert_eq!(walk.step_back(&header).is_ok(), is_expected);
            let reached = if is_expected { (height - 1, header.previous_hash) } else { (height, hash) };
            prop_assert_eq!((walk.height, walk.hash), reached);
        }
    }

    /// A receipt with a damaged encoding of its operation or outcome does not verify.
    #[test]
    fn a_receipt_with_a_damaged_encoding_does_not_verify(receipt in any_receipt(), damages in any_byte_damage()) {
        let mut changed = receipt.clone();
        changed.operation.encoding = apply_damage(&receipt.operation.encoding, &damages).into();
        prop_assert_eq!(changed.verify().is_ok(), changed.operation.encoding == receipt.operation.encoding);
        let mut changed = receipt.clone();
        changed.outcome.encoding = apply_damage(&receipt.outcome.encoding, &damages).into();
        prop_assert_eq!(changed.verify().is_ok(), changed.outcome.encoding == receipt.outcome.encoding);
    }
}

/// An operation, and how it is adapted to the registry to which it is applied.
#[derive(Clone, Debug)]
struct AdaptedOperation {
    operation: Operation,
    account: Index,
    slot: Index,
    /// Keeps the random fields of the operation.
    keeps_random_fields: bool,
    /// The signer, if it is not an authenticator of the account.
    signer: RecoveredSigner,
}

/// Maps addresses to a few, so that operations use the same addresses.
fn map_to_few(address: Address) -> Address {
    Address::with_last_byte(1 + address[0] % 60)
}

impl AdaptedOperation {
    fn any() -> BoxedStrategy<Self> {
        Self::of(Operation::any())
    }

    fn of(operation: BoxedStrategy<Operation>) -> BoxedStrategy<Self> {
        let signer = prop_oneof![
            Address::any().prop_map(|address| Ok(map_to_few(address))),
            Just(Err(SignatureError::HighS)),
            Just(Err(SignatureError::Invalid)),
        ];
        let signer = prop::option::weighted(0.1, signer);
        (operation, any::<Index>(), any::<Index>(), prop::bool::weighted(0.1), signer)
            .prop_map(|(operation, account, slot, keeps_random_fields, signer)| Self {
                operation,
                account,
                slot,
                keeps_random_fields,
                signer,
            })
            .boxed()
    }

    /// The operation with its signer. It changes an existing account, with that account's nonce and
    /// commitment, and is signed by one of its authenticators.
    fn adapt(mut self, registry: &MemoryRegistry) -> (Operation, RecoveredSigner) {
        if self.keeps_random_fields {
            return (self.operation, self.signer);
        }
        if let Operation::CreateAccount(operation) = &mut self.operation {
            operation.authenticator_addresses.iter_mut().for_each(|address| *address = map_to_few(*address));
            operation
                .authenticator_pubkeys
                .resize(operation.authenticator_addresses.len(), CompressedKey(U256::from(1)));
            operation.offchain_signer_commitment.0 %= modulus();
        }
        let Some((leaf_index, account)) =
            registry.accounts.iter().nth(self.account.index(registry.accounts.len().max(1)))
        else {
            return (self.operation, None);
        };
        let slots =
            account.slots.iter().zip(0..).filter_map(|(slot, number)| Some((slot.as_ref()?.address, PubkeyId(number))));
        let slots: Vec<(Address, PubkeyId)> = slots.collect();
        let (signer, slot) = if slots.is_empty() { (Address::ZERO, PubkeyId(0)) } else { *self.slot.get(&slots) };
        let nonce = Nonce::from(account.nonce);
        let mut signed_by = signer;
        match &mut self.operation {
            Operation::CreateAccount(_) => {}
            Operation::UpdateAuthenticator(operation) => {
                (operation.leaf_index, operation.nonce, operation.old_offchain_signer_commitment) =
                    (*leaf_index, nonce, account.commitment);
                operation.new_offchain_signer_commitment.0 %= modulus();
                (operation.old_authenticator_address, operation.pubkey_id) = (signer, slot);
                operation.new_authenticator_address = map_to_few(operation.new_authenticator_address);
            }
            Operation::InsertAuthenticator(operation) => {
                (operation.leaf_index, operation.nonce, operation.old_offchain_signer_commitment) =
                    (*leaf_index, nonce, account.commitment);
                operation.new_offchain_signer_commitment.0 %= modulus();
                operation.new_authenticator_address = map_to_few(operation.new_authenticator_address);
                // In some cases a slot that would need four billion slots before it.
                let PubkeyId(slot) = operation.pubkey_id;
                operation.pubkey_id = PubkeyId(if slot > u32::MAX - 2 { slot } else { slot % 9 });
            }
            Operation::RemoveAuthenticator(operation) => {
                (operation.leaf_index, operation.nonce, operation.old_offchain_signer_commitment) =
                    (*leaf_index, nonce, account.commitment);
                operation.new_offchain_signer_commitment.0 %= modulus();
                (operation.authenticator_address, operation.pubkey_id) = (signer, slot);
            }
            Operation::RecoverAccount(operation) => {
                (operation.leaf_index, operation.nonce, operation.old_offchain_signer_commitment) =
                    (*leaf_index, nonce, account.commitment);
                operation.new_offchain_signer_commitment.0 %= modulus();
                operation.new_authenticator_address = map_to_few(operation.new_authenticator_address);
                signed_by = account.recovery_agent;
            }
            Operation::UpdateRecoveryAgent(operation) => (operation.leaf_index, operation.nonce) = (*leaf_index, nonce),
            Operation::CancelRecoveryAgentUpdate(operation) => {
                (operation.leaf_index, operation.nonce) = (*leaf_index, nonce)
            }
            Operation::ExecuteRecoveryAgentUpdate(operation) => operation.leaf_index = *leaf_index,
        }
        (self.operation, self.signer.or(Some(Ok(signed_by))))
    }
}

/// The first rows of the recorded trace, as JSON.
fn short_trace() -> &'static Value {
    static TRACE: OnceLock<Value> = OnceLock::new();
    TRACE.get_or_init(|| {
        let mut trace: Value = serde_json::from_str(include_str!("../../vectors/registry_trace_1.json")).expect("JSON");
        trace["rows"].as_array_mut().expect("rows").truncate(12);
        trace
    })
}

proptest! {
    #![proptest_config(cases())]

    /// Any operations with any signers, under any rules that a record can hold, are applied without
    /// a panic. A failed operation changes nothing, and no account gets more slots than the rules
    /// allow, for any pubkey id.
    #[test]
    fn any_block_is_applied_without_a_panic(
        creations in prop::collection::vec(AdaptedOperation::of(CreateAccount::any().prop_map_into().boxed()), 0..5),
        attempts in prop::collection::vec(AdaptedOperation::any(), 0..36),
        rules in RuleParameters::any(),
        domain in RegistryDomain::any(),
        now in UnixSeconds::any(),
    ) {
        let rules = RuleParameters { commitment_check: CommitmentCheck::Off, ..rules };
        let mut registry = MemoryRegistry::default();
        for attempts in [creations, attempts].concat().chunks(3) {
            let (operations, signers): (Vec<_>, Vec<_>) =
                attempts.iter().map(|attempt| attempt.clone().adapt(&registry)).unzip();
            let entry = |operation| Entry { request_id: RequestId::from_random([1; 16]), operation };
            let entries = operations.into_iter().map(entry).collect();
            let block = Block::seal(&registry.tip.seal, domain, now, rules, entries);
            let before = registry.clone();
            let Ok(effects) = apply_block(&block, &signers, &registry, &registry.tip);
            registry.absorb(&effects);
            prop_assert_eq!(effects.outcomes.len(), block.entries.len());
            if effects.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Failed { .. })) {
                prop_assert_eq!(MemoryRegistry { tip: before.tip, ..registry.clone() }, before);
            }
            for (leaf_index, account) in &registry.accounts {
                prop_assert!(
                    account.slots.len() <= rules.max_authenticators as usize && *leaf_index < registry.next_leaf_index
                );
            }
        }
    }

    /// A trace after hostile changes is rejected with the row of the error, if the error is in a
    /// row, or can be replayed.
    #[test]
    fn a_hostile_trace_is_rejected_or_replayed(json_damage in any_json_damage(), any in any_json()) {
        let text = json_damage.apply(short_trace());
        if let Ok(trace) = check_memory_in_proportion(text.len(), || Trace::parse(&text))? {
            prop_assert!(replay(&trace).iter().all(|difference| (1..=trace.rows.len()).contains(&difference.row)));
        }
        prop_assert!(Trace::parse(any.to_string().as_bytes()).is_err());
        let rows = json!({"rows": any});
        prop_assert!(Trace::parse(rows.to_string().as_bytes()).is_err());
    }
}
