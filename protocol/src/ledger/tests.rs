//! Blocks, results and receipts: their links, the stability of their encodings, and the rejection
//! of changed ones.

mod heads;
mod steps;

use alloy_primitives::{Address, B256, U256, b256, hex, keccak256};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::steps::any_step;
use super::*;
use crate::eip712::RegistryDomain;
use crate::encoding::{DecodeError, Encoding, decode, encode};
use crate::gateway::GatewayErrorCode;
use crate::ids::{Commitment, CompressedKey, LeafIndex};
use crate::registry::tests::arbitrary::any_operation;
use crate::registry::{
    CommitmentCheck, CreateAccount, ExecuteRecoveryAgentUpdate, Operation, RecoveredSigner, RuleParameters,
};
use crate::time::{UnixMillis, UnixSeconds};
use crate::tree::{DEPTH, Root, empty_node, inclusion_path};

const TIME: UnixSeconds = UnixSeconds(1_800_000_000);

fn request_id(number: u8) -> RequestId {
    RequestId::from_random([number; 16])
}

fn entry(number: u8, operation: impl Into<Operation>) -> Entry {
    Entry { request_id: request_id(number), operation: operation.into() }
}

/// The creation of an account with one authenticator.
fn create(number: u8) -> Entry {
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::repeat_byte(number)],
        authenticator_pubkeys: vec![CompressedKey(U256::from(number))],
        offchain_signer_commitment: Commitment(U256::from(1000 + u64::from(number))),
    };
    entry(number, operation)
}

/// An operation that fails, because account 9 does not exist.
fn failing_entry(number: u8) -> Entry {
    entry(number, ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(9) })
}

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 1, verifying_contract: Address::repeat_byte(0xcc) };

fn seal(entries: Vec<Entry>) -> Block {
    Block::seal(&Seal::default(), DOMAIN, TIME, RuleParameters::default(), entries)
}

/// Applies a block of unsigned operations to an empty registry.
fn apply_unsigned(block: &Block) -> BlockEffects {
    let registry = MemoryRegistry::default();
    let Ok(effects) = apply_block(block, &vec![None; block.entries.len()], &registry, &registry.tip);
    effects
}

#[test]
fn a_sealed_block_follows_only_its_predecessor() {
    let first = seal(vec![create(1), create(2)]);
    let seal_of_first = Seal::of(&first.header);
    assert!(first.follows(&Seal::default()));
    assert!(!first.follows(&seal_of_first));
    assert_eq!((first.header.height, first.header.previous_hash), (1, B256::ZERO));
    assert_eq!(seal_of_first, Seal { height: 1, hash: first.header.hash(), time: TIME });

    // The clock went back, so the block takes the time of its predecessor.
    let second = Block::seal(&seal_of_first, DOMAIN, TIME.minus(5), RuleParameters::default(), vec![create(3)]);
    assert_eq!((second.header.height, second.header.time), (2, TIME));
    assert_eq!(second.header.previous_hash, first.header.hash());
    assert!(second.follows(&seal_of_first));
    let empty = Block::seal(&seal_of_first, DOMAIN, TIME.plus(9), RuleParameters::default(), Vec::new());
    assert_eq!((empty.header.time, empty.header.operations_root), (TIME.plus(9), B256::ZERO));
    assert!(empty.follows(&seal_of_first));

    let changes: [fn(&mut Block); 9] = [
        |block| block.header.height += 1,
        |block| block.header.previous_hash = B256::ZERO,
        |block| block.header.time.0 -= 1,
        |block| block.header.count += 1,
        |block| block.header.operations_root = B256::ZERO,
        |block| block.entries[0].request_id = request_id(9),
        |block| block.entries[0] = create(9),
        |block| block.entries.clear(),
        |block| block.entries.push(create(9)),
    ];
    for (position, tamper) in changes.iter().enumerate() {
        let mut block = second.clone();
        tamper(&mut block);
        assert!(!block.follows(&seal_of_first), "tampering {position}");
    }
}

#[test]
fn the_hash_of_a_block_covers_rules_and_order() {
    let block = seal(vec![create(1), create(2)]);
    let swapped = seal(vec![create(2), create(1)]);
    assert_ne!(block.header.hash(), swapped.header.hash());
    let changes: [fn(&mut RuleParameters); 4] = [
        |rules| rules.max_authenticators = 6,
        |rules| rules.recovery_agent_update_cooldown = 1,
        |rules| rules.root_validity_window = 1,
        |rules| rules.commitment_check = CommitmentCheck::Enforce,
    ];
    for change in changes {
        let mut changed = block.clone();
        change(&mut changed.header.rules);
        assert_ne!(block.header.hash(), changed.header.hash());
    }
}

#[test]
fn the_encoding_of_a_block_is_stable() {
    let block = seal(vec![create(1), failing_entry(2)]);
    let effects = apply_unsigned(&block);
    let entry = encode(&block.entries[1]);
    // Request id (a version 4 UUID), tag of the kind, leaf index.
    assert_eq!(hex::encode(&entry), concat!("02020202020242028202020202020202", "07", "0000000000000009"));
    let header = [
        hex::decode("02").expect("version"),
        hex::decode("0000000000000001").expect("height"),
        vec![0; 32],
        TIME.0.to_be_bytes().to_vec(),
        hex::decode("00000002").expect("count"),
        block.header.operations_root.to_vec(),
        hex::decode(concat!("00000007", "0000000000127500", "0000000000000e10", "00")).expect("rules"),
        hex::decode("0000000000000001").expect("chain id"),
        vec![0xcc; 20],
    ];
    assert_eq!(encode(&block.header), header.concat());
    let result = [
        vec![1],
        block.header.hash().to_vec(),
        empty_node(DEPTH).to_vec(),
        effects.tip.root.0.to_vec(),
        effects.result.outcomes_root.to_vec(),
        vec![0; 32],
    ];
    assert_eq!(encode(&effects.result), result.concat());
    assert_eq!(hex::encode(encode(&effects.outcomes[0])), "000000000000000001");

    let hashes =
        [block.header.hash(), keccak256(encode(&block)), effects.result.hash(), keccak256(encode(&effects.outcomes))];
    let recorded = [
        b256!("5f347f790a25e4c4225218694b97b2a11b0c7d8c372f3e828f5146c677265175"),
        b256!("2fa4bc74959c6f18540e3fa1ac6be2a6a6d12dab95a54d277cac53c2486b985d"),
        b256!("8042963ca392afaeedf23a00608c8a2c08c920eb53e71c9fdbdf46a9ad9d48bc"),
        b256!("6a5c23099c20df549ec615bf92d1ffdd0233f315c74f61d779212590dbab91ca"),
    ];
    assert_eq!(hashes, recorded, "stored blocks must keep their hashes");
}

#[test]
fn a_block_belongs_to_one_registry() {
    let block = seal(vec![create(1)]);
    assert!(block.belongs_to(&DOMAIN));
    for other in
        [RegistryDomain { chain_id: 2, ..DOMAIN }, RegistryDomain { verifying_contract: Address::ZERO, ..DOMAIN }]
    {
        assert!(!block.belongs_to(&other), "{other:?}");
        let elsewhere = Block::seal(&Seal::default(), other, TIME, RuleParameters::default(), vec![create(1)]);
        assert_ne!(elsewhere.header.hash(), block.header.hash());
    }
}

#[test]
fn the_json_of_a_receipt_is_stable() {
    let block = seal(vec![create(1), failing_entry(2)]);
    let effects = apply_unsigned(&block);
    let receipt = Receipt::new(&block, &effects.result, &effects.outcomes, 1).expect("two entries");
    let recorded = json!({
        "request_id": "gw_02020202-0202-4202-8202-020202020202",
        "kind": "execute_recovery_agent_update",
        "block": {
            "height": 1,
            "previous_hash": B256::ZERO,
            "time": TIME,
            "count": 2,
            "operations_root": "0xea84a5a42b3e80499cbb8f004001ae0cbbc865348c178e4e1654e98925761eaa",
            "rules": {
                "max_authenticators": 7,
                "recovery_agent_update_cooldown": 1_209_600,
                "root_validity_window": 3600,
                "commitment_check": "off",
            },
            "domain": {
                "chain_id": 1,
                "verifying_contract": "0xcccccccccccccccccccccccccccccccccccccccc",
            },
            "hash": "0x5f347f790a25e4c4225218694b97b2a11b0c7d8c372f3e828f5146c677265175",
        },
        "operation": {
            "position": 1,
            "body": { "leaf_index": "0x9" },
            "encoding": "0x02020202020242028202020202020202070000000000000009",
            "path": ["0xf665e4c51e984c402000ba3f7362816dfdb9c5fe1e8b9526081034f83516d672"],
        },
        "result": {
            "block_hash": "0x5f347f790a25e4c4225218694b97b2a11b0c7d8c372f3e828f5146c677265175",
            "root_before": "0x228ffdf6570d757e6ebc79516241b636bdceed0996036242d00fdd61050975a2",
            "root_after": "0x2242288105a3131472297b8a0d8e9157568f29beed2dc3bc506ab6bf05e16de6",
            "outcomes_root": "0xcfa4b767a6c893f1be2417886c261c8b6c86502c9e4048fd2ed836ffb53a0cbb",
            "previous_result_hash": B256::ZERO,
            "hash": "0x8042963ca392afaeedf23a00608c8a2c08c920eb53e71c9fdbdf46a9ad9d48bc",
        },
        "outcome": {
            "outcome": "failed",
            "rule": "AccountDoesNotExist",
            "code": "bad_request",
            "encoding": concat!(
                "0x01",
                "00000013", "4163636f756e74446f65734e6f744578697374",
                "03",
            ),
            "path": ["0x07e6b4e345ecd77633cc1011e5c5d4e8e0c7fa3cda1a5ae626a045f3e61bbd5e"],
        },
    });
    assert_eq!(serde_json::to_value(&receipt).expect("JSON"), recorded);
}

#[test]
fn a_failing_operation_does_not_affect_the_others() {
    let mut entries: Vec<Entry> = (1..=99).map(create).collect();
    // The address of the first account.
    entries.insert(40, Entry { request_id: request_id(200), ..create(1) });
    let effects = apply_unsigned(&seal(entries));
    assert_eq!(effects.outcomes.len(), 100);
    for (position, outcome) in effects.outcomes.iter().enumerate() {
        match position {
            40 => assert!(matches!(
                outcome,
                Outcome::Failed { rule, code: GatewayErrorCode::AuthenticatorAlreadyExists }
                    if rule == "AuthenticatorAddressAlreadyInUse"
            )),
            before if before < 40 => {
                assert_eq!(*outcome, Outcome::Applied { leaf_index: LeafIndex(before as u64 + 1) })
            }
            after => assert_eq!(*outcome, Outcome::Applied { leaf_index: LeafIndex(after as u64) }),
        }
    }
    assert_eq!((effects.accounts.len(), effects.addresses.len(), effects.next_leaf_index), (99, 99, LeafIndex(100)));

    let mut registry = MemoryRegistry::default();
    registry.absorb(&effects);
    for (leaf_index, account) in &effects.accounts {
        let Ok(path) = inclusion_path(&registry, *leaf_index);
        assert_eq!(path.root, effects.tip.root);
        assert_eq!(path.root_from(&account.commitment.leaf()), effects.tip.root);
    }
}

#[test]
fn applying_is_deterministic_and_keeps_the_order() {
    let block = seal(vec![create(1), create(2), failing_entry(3)]);
    let (once, again) = (apply_unsigned(&block), apply_unsigned(&block));
    assert_eq!(
        (once.outcomes, once.accounts, once.addresses, once.pages, once.result, once.tip),
        (again.outcomes, again.accounts, again.addresses, again.pages, again.result, again.tip),
    );
    let swapped = apply_unsigned(&seal(vec![create(2), create(1), failing_entry(3)]));
    assert_ne!(swapped.tip.root, once.tip.root);
    assert_eq!(swapped.accounts[&LeafIndex(1)].commitment, Commitment(U256::from(1002)));
}

#[test]
fn results_are_linked_and_carry_the_roots() {
    let mut registry = MemoryRegistry::default();
    let mut before = registry.tip;
    for number in 1..=3 {
        let block = Block::seal(&registry.tip.seal, DOMAIN, TIME, RuleParameters::default(), vec![create(number)]);
        let result = registry.apply(&block, &DOMAIN).result;
        assert_eq!(result.previous_result_hash, before.result_hash);
        assert_eq!((result.root_before, result.root_after), (before.root, registry.tip.root));
        assert_eq!((result.block_hash, result.hash()), (registry.tip.seal.hash, registry.tip.result_hash));
        before = registry.tip;
    }
    // A block of failing operations keeps the root, and still extends the chain of results.
    let block = Block::seal(&registry.tip.seal, DOMAIN, TIME, RuleParameters::default(), vec![failing_entry(4)]);
    let effects = registry.apply(&block, &DOMAIN);
    assert_eq!((effects.result.root_before, effects.result.root_after), (before.root, before.root));
    assert_eq!((effects.accounts.len(), effects.pages.len(), registry.next_leaf_index), (0, 0, LeafIndex(4)));
    assert_ne!(registry.tip.result_hash, before.result_hash);
}

/// A receipt from the middle of a block, for an applied or a failed operation.
fn receipt(of_failed: bool) -> Receipt {
    let block = seal(vec![create(1), create(2), failing_entry(3), create(4), create(5)]);
    let effects = apply_unsigned(&block);
    Receipt::new(&block, &effects.result, &effects.outcomes, 1 + u32::from(of_failed)).expect("five entries")
}

#[test]
fn every_receipt_of_a_block_verifies() {
    for count in 1..=9 {
        let block =
            seal((1..=count).map(|number| if number == 2 { failing_entry(2) } else { create(number) }).collect());
        let effects = apply_unsigned(&block);
        for position in 0..u32::from(count) {
            let receipt =
                Receipt::new(&block, &effects.result, &effects.outcomes, position).expect("an entry of the block");
            assert_eq!(receipt.verify(), Ok(()));
            let text = serde_json::to_string(&receipt).expect("JSON");
            assert_eq!(serde_json::from_str::<Receipt>(&text).expect("a receipt"), receipt);
        }
        assert_eq!(Receipt::new(&block, &effects.result, &effects.outcomes, count.into()), None);
        assert_eq!(Receipt::new(&block, &effects.result, &effects.outcomes, u32::MAX), None);
    }
}

/// All variants of a JSON tree with one changed value, or one list made longer or shorter.
fn tampered_variants(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, field)| {
                tampered_variants(field).into_iter().map(move |field| {
                    let mut fields = fields.clone();
                    fields.insert(key.clone(), field);
                    Value::Object(fields)
                })
            })
            .collect(),
        Value::Array(items) => {
            let mut lists: Vec<Value> = (0..items.len())
                .flat_map(|position| {
                    tampered_variants(&items[position]).into_iter().map(move |item| {
                        let mut items = items.clone();
                        items[position] = item;
                        Value::Array(items)
                    })
                })
                .collect();
            lists.push(items.iter().cloned().chain([json!(B256::repeat_byte(5))]).collect());
            if let [rest @ .., _] = items.as_slice() {
                lists.push(rest.to_vec().into());
                lists.push([&items[1..], &items[..1]].concat().into());
            }
            lists.retain(|list| list != value);
            lists
        }
        Value::String(text) => {
            let (rest, last) = text.split_at(text.len() - 1);
            vec![json!(format!("{rest}{}", if last == "1" { "2" } else { "1" })), json!(B256::repeat_byte(5))]
        }
        Value::Number(number) => vec![json!(number.as_u64().expect("unsigned") + 1), json!(0)]
            .into_iter()
            .filter(|other| other != value)
            .collect(),
        Value::Bool(_) | Value::Null => vec![json!("0x0000000000000000000000000000000000000001")],
    }
}

#[test]
fn a_receipt_with_any_change_is_rejected() {
    for original in [receipt(false), receipt(true)] {
        let variants = tampered_variants(&serde_json::to_value(&original).expect("JSON"));
        assert!(variants.len() > 50);
        let mut readable = 0;
        for variant in variants {
            // Many changed texts are not receipts; those that are must not verify.
            if let Ok(receipt) = serde_json::from_value::<Receipt>(variant.clone()) {
                assert!(receipt.verify().is_err(), "{variant:#}");
                readable += 1;
            }
        }
        assert!(readable > 40);
    }
}

#[test]
fn the_error_of_a_receipt_names_the_failed_check() {
    type Tampering = fn(&mut Receipt);
    let table: [(Tampering, ReceiptError); 14] = [
        (|receipt| receipt.block.hash = B256::ZERO, ReceiptError::BlockHash),
        (|receipt| receipt.block.header.time.0 += 1, ReceiptError::BlockHash),
        (|receipt| receipt.result.hash = B256::ZERO, ReceiptError::ResultHash),
        (|receipt| receipt.result.result.root_after = Root(B256::ZERO), ReceiptError::ResultHash),
        (
            |receipt| {
                let mut result = receipt.result.result.clone();
                result.block_hash = B256::ZERO;
                receipt.result = result.into();
            },
            ReceiptError::OtherBlock,
        ),
        (|receipt| receipt.request_id = request_id(9), ReceiptError::OperationEncoding),
        (|receipt| receipt.kind = crate::registry::OperationKind::RecoverAccount, ReceiptError::OperationEncoding),
        (|receipt| receipt.operation.body["leaf_index"] = json!("0x8"), ReceiptError::OperationEncoding),
        (|receipt| receipt.operation.body["more"] = json!(1), ReceiptError::OperationEncoding),
        (|receipt| receipt.operation.encoding = vec![1].into(), ReceiptError::OperationEncoding),
        (|receipt| receipt.operation.position = 1, ReceiptError::OperationPath),
        (|receipt| receipt.operation.path[0] = B256::ZERO, ReceiptError::OperationPath),
        (
            |receipt| receipt.outcome.outcome = Outcome::Applied { leaf_index: LeafIndex(9) },
            ReceiptError::OutcomeEncoding,
        ),
        (|receipt| receipt.outcome.path.push(B256::ZERO), ReceiptError::OutcomePath),
    ];
    for (tamper, error) in table {
        let mut receipt = receipt(true);
        tamper(&mut receipt);
        assert_eq!(receipt.verify(), Err(error));
    }
}

#[test]
fn a_consistently_forged_receipt_fails_at_its_path() {
    // A forger who also corrects the encoding gets a leaf that is not in the tree.
    let mut forged = receipt(true);
    let applied = Outcome::Applied { leaf_index: LeafIndex(9) };
    forged.outcome.encoding = encode(&applied).into();
    forged.outcome.outcome = applied;
    assert_eq!(forged.verify(), Err(ReceiptError::OutcomePath));

    let mut forged = receipt(true);
    let other = entry(3, ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(8) });
    forged.operation.body = serde_json::to_value(&other.operation).expect("JSON");
    forged.operation.encoding = encode(&other).into();
    assert_eq!(forged.verify(), Err(ReceiptError::OperationPath));
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u64>().prop_map(|leaf_index| Outcome::Applied { leaf_index: LeafIndex(leaf_index) }),
        (any::<String>(), 1u8..=16).prop_map(|(rule, code)| Outcome::Failed {
            rule,
            code: GatewayErrorCode::from_repr(code).expect("a code"),
        }),
    ]
}

fn any_hash() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::from)
}

fn any_result() -> impl Strategy<Value = BlockResult> {
    prop::array::uniform5(any_hash()).prop_map(
        |[block_hash, root_before, root_after, outcomes_root, previous_result_hash]| BlockResult {
            block_hash,
            root_before: Root(root_before),
            root_after: Root(root_after),
            outcomes_root,
            previous_result_hash,
        },
    )
}

fn any_block() -> impl Strategy<Value = Block> {
    let entry = (any::<[u8; 16]>(), any_operation())
        .prop_map(|(bytes, operation)| Entry { request_id: RequestId::from_random(bytes), operation });
    let rules = (1..=7u32, any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(max, cooldown, window, enforce)| {
        RuleParameters {
            max_authenticators: max,
            recovery_agent_update_cooldown: cooldown,
            root_validity_window: window,
            commitment_check: if enforce { CommitmentCheck::Enforce } else { CommitmentCheck::Off },
        }
    });
    let seal = (0..u64::MAX, any_hash(), any::<u64>()).prop_map(|(height, hash, time)| Seal {
        height,
        hash,
        time: UnixSeconds(time),
    });
    (seal, any::<u64>(), rules, prop::collection::vec(entry, 0..5))
        .prop_map(|(seal, now, rules, entries)| Block::seal(&seal, DOMAIN, UnixSeconds(now), rules, entries))
}

/// Checks that the encoding decodes to the value, and that no shorter or longer bytes decode.
fn check_round_trip<T: Encoding + PartialEq + std::fmt::Debug>(value: &T) -> Result<(), TestCaseError> {
    let mut bytes = encode(value);
    let decoded = decode::<T>(&bytes);
    prop_assert_eq!(decoded.as_ref(), Ok(value));
    for cut in 0..bytes.len() {
        prop_assert_eq!(decode::<T>(&bytes[..cut]), Err(DecodeError::Truncated), "cut at {}", cut);
    }
    bytes.push(0);
    prop_assert_eq!(decode::<T>(&bytes), Err(DecodeError::LeftOver(1)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn operations_round_trip_through_their_encoding(operation in any_operation()) {
        check_round_trip(&operation)?;
        check_round_trip(&Entry { request_id: request_id(1), operation: operation.clone() })?;
        check_round_trip(&operation.kind())?;
        check_round_trip(&operation.locks())?;
    }

    #[test]
    fn blocks_and_results_round_trip_through_their_encoding(
        block in any_block(), outcome in any_outcome(), result in any_result(),
    ) {
        check_round_trip(&block.header)?;
        check_round_trip(&block)?;
        check_round_trip(&outcome)?;
        check_round_trip(&result)?;
    }

    #[test]
    fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(operation) = decode::<Operation>(&bytes) {
            prop_assert_eq!(encode(&operation), bytes);
        }
    }
}

#[test]
fn unknown_versions_and_tags_are_rejected() {
    let block = seal(vec![failing_entry(1)]);
    let mut header = encode(&block.header);
    for found in [0, 1, 3, 255] {
        header[0] = found;
        let error = DecodeError::UnknownVersion { kind: "block header", found, known: 2 };
        assert_eq!(decode::<BlockHeader>(&header), Err(error));
    }
    for tag in [0, 9, 255] {
        let error = DecodeError::UnknownTag { kind: "operation kind", tag };
        assert_eq!(decode::<Operation>(&[tag]), Err(error));
    }
    assert_eq!(decode::<Outcome>(&[2]), Err(DecodeError::UnknownTag { kind: "outcome", tag: 2 }));
    let failed = Outcome::Failed { rule: String::new(), code: GatewayErrorCode::BadRequest };
    let mut bytes = encode(&failed);
    for tag in [0, 17] {
        bytes[5] = tag;
        assert_eq!(decode::<Outcome>(&bytes), Err(DecodeError::UnknownTag { kind: "gateway error code", tag }));
    }
}

/// Applies operations as one block.
fn apply_together(registry: &mut MemoryRegistry, operations: &[(Operation, RecoveredSigner)]) -> Vec<Outcome> {
    let rules = RuleParameters { recovery_agent_update_cooldown: 0, ..RuleParameters::default() };
    let entries = operations.iter().map(|(operation, _)| entry(1, operation.clone())).collect();
    let signers: Vec<RecoveredSigner> = operations.iter().map(|(_, signer)| *signer).collect();
    let block = Block::seal(&registry.tip.seal, DOMAIN, TIME, rules, entries);
    let Ok(effects) = apply_block(&block, &signers, registry, &registry.tip);
    registry.absorb(&effects);
    effects.outcomes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn the_state_does_not_depend_on_where_blocks_end(
        steps in prop::collection::vec(any_step(), 1..40),
        cuts in prop::collection::vec(1..12usize, 40),
    ) {
        let mut one_by_one = MemoryRegistry::default();
        let mut operations = Vec::new();
        let mut outcomes = Vec::new();
        for (number, step) in (0..).zip(&steps) {
            operations.push(step.operation(number, &one_by_one));
            outcomes.extend(apply_together(&mut one_by_one, &operations[operations.len() - 1..]));
        }

        let mut in_blocks = MemoryRegistry::default();
        let mut rest = operations.as_slice();
        let mut outcomes_in_blocks = Vec::new();
        for cut in cuts {
            let (block, later) = rest.split_at(cut.min(rest.len()));
            outcomes_in_blocks.extend(apply_together(&mut in_blocks, block));
            rest = later;
        }
        prop_assert_eq!(outcomes_in_blocks, outcomes);
        prop_assert_eq!(in_blocks.tip.root, one_by_one.tip.root);
        prop_assert_eq!(MemoryRegistry { tip: one_by_one.tip, ..in_blocks }, one_by_one);
    }
}

#[test]
fn request_ids_have_the_order_in_which_they_are_made() {
    let mut place = IdPlace::default();
    let mut id = |now: u64| {
        place = place.next(UnixMillis(now));
        RequestId::from_place(place, [0xff; 8])
    };
    let now = 0x0189_b2f4_6c0e;
    let first = id(now);
    assert_eq!(first.to_string(), "gw_0189b2f4-6c0e-7000-bfff-ffffffffffff");
    // The clock is set back, and more ids are made in a millisecond than it can count.
    let later: Vec<RequestId> = [now, now + 1, now - 5000].into_iter().chain([now + 1; 5000]).map(&mut id).collect();
    let ids: Vec<RequestId> = std::iter::once(first).chain(later).collect();
    assert!(ids.is_sorted_by(|before, after| before < after));
    assert_eq!(ids[3].to_string(), "gw_0189b2f4-6c0f-7001-bfff-ffffffffffff");
    assert_eq!(ids[5003].to_string(), "gw_0189b2f4-6c10-7389-bfff-ffffffffffff");
    assert!(ids.iter().all(|id| id.to_string().parse() == Ok(*id)));
}

#[test]
fn every_random_bit_of_a_request_id_counts() {
    let of = |random: u64| RequestId::from_place(IdPlace::default(), random.to_be_bytes());
    let distinct = (0..64).filter(|bit| of(1 << bit) != of(0)).count();
    assert_eq!(distinct, 62, "two bits say that it is a UUID");
}
