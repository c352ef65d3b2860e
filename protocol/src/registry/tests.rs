//! The rules in tables. For each operation there is a valid [`OperationCase`] and a list of
//! [`BrokenRule`]s in the contract's order. Each of them breaks one rule and names the violation;
//! when two rules are broken, the earlier check reports its violation.

pub(crate) mod arbitrary;
mod broken_rules;
mod cases;

use std::collections::BTreeSet;

use alloy_primitives::U256;
use proptest::prelude::*;
use strum::VariantNames;

use self::arbitrary::{any_address, any_operation};
use self::broken_rules::*;
use self::cases::*;
use super::*;
use crate::commitment::PublicKeyError;
use crate::gateway::{GatewayErrorCode, RequestError, check_request};
use crate::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use crate::ledger::MemoryRegistry;
use crate::time::UnixSeconds;
use crate::tree::CAPACITY;

#[test]
fn good_operations_change_their_account() {
    let after = |mut case: OperationCase| {
        assert_eq!(case.apply(), Ok(case.operation.leaf_index().unwrap_or(LeafIndex(3))));
        case.registry
    };
    let packed = |recovery_counter, pubkey_id| PackedAccount {
        recovery_counter,
        pubkey_id: PubkeyId(pubkey_id),
        leaf_index: LeafIndex(1),
    };
    let alice = &REGISTRY.accounts[&LeafIndex(1)];

    let created = after(create());
    assert_eq!(
        created.accounts[&LeafIndex(3)],
        Account {
            commitment: commitment_of(&[30, 31]),
            slots: vec![authenticator(NEW, 30), authenticator(NEW_TOO, 31)],
            recovery_agent: AGENT,
            pending_recovery_agent: None,
            nonce: 0,
            recovery_counter: 0,
        }
    );
    assert_eq!(
        created.addresses[&NEW_TOO],
        PackedAccount { recovery_counter: 0, pubkey_id: PubkeyId(1), leaf_index: LeafIndex(3) }
    );
    assert_eq!(created.next_leaf_index, LeafIndex(4));

    let updated = after(update());
    let mut slots = alice.slots.clone();
    slots[0] = authenticator(NEW, 30);
    let commitment = commitment_of(&[30, 11, 0, 13]);
    assert_eq!(updated.accounts[&LeafIndex(1)], Account { commitment, slots, nonce: 7, ..alice.clone() });
    assert_eq!((updated.addresses.get(&ALICE), updated.addresses[&NEW]), (None, packed(2, 0)));

    let inserted = after(insert());
    let mut slots = alice.slots.clone();
    slots[2] = authenticator(NEW, 30);
    let commitment = commitment_of(&[10, 11, 30, 13]);
    assert_eq!(inserted.accounts[&LeafIndex(1)], Account { commitment, slots, nonce: 7, ..alice.clone() });
    assert_eq!((inserted.addresses[&ALICE], inserted.addresses[&NEW]), (packed(2, 0), packed(2, 2)));

    let removed = after(remove());
    let mut slots = alice.slots.clone();
    slots[1] = None;
    let commitment = commitment_of(&[10, 0, 0, 13]);
    assert_eq!(removed.accounts[&LeafIndex(1)], Account { commitment, slots, nonce: 7, ..alice.clone() });
    assert_eq!(removed.addresses.get(&ALICE_TABLET), None);

    let recovered = after(recover().with(start_agent_update));
    assert_eq!(
        recovered.accounts[&LeafIndex(1)],
        Account {
            commitment: commitment_of(&[30]),
            slots: vec![authenticator(NEW, 30)],
            recovery_agent: AGENT,
            pending_recovery_agent: None,
            nonce: 7,
            recovery_counter: 3,
        }
    );
    // The old addresses keep their mapping with the old counter.
    assert_eq!((recovered.addresses[&ALICE], recovered.addresses[&NEW]), (packed(2, 0), packed(3, 0)));

    let initiated = after(initiate().with(start_agent_update));
    let execute_after = NOW.plus(14 * 24 * 3600);
    let pending_recovery_agent = Some(PendingRecoveryAgent { agent: NEW, execute_after });
    assert_eq!(initiated.accounts[&LeafIndex(1)], Account { pending_recovery_agent, nonce: 7, ..alice.clone() });

    let executed = after(execute());
    assert_eq!(executed.accounts[&LeafIndex(1)], Account { recovery_agent: NEW, ..alice.clone() });

    let cancelled = after(cancel());
    assert_eq!(cancelled.accounts[&LeafIndex(1)], Account { nonce: 7, ..alice.clone() });
}

#[test]
fn each_check_reports_its_violation() {
    for (good, broken_rules) in tables() {
        assert!(good.clone().with(OperationCase::enforce).apply().is_ok(), "the valid case is applied: {good:?}");
        for (position, (break_rule, violation)) in broken_rules.iter().enumerate() {
            let found = good.clone().with(break_rule).apply();
            assert_eq!(found.as_ref(), Err(violation), "rule {position} of {:?}", good.operation.kind());
        }
    }
}

#[test]
fn the_first_broken_rule_is_reported() {
    for (good, broken_rules) in tables() {
        for (later, (break_later, _)) in broken_rules.iter().enumerate() {
            for (earlier, (break_earlier, violation)) in broken_rules[..later].iter().enumerate() {
                let found = good.clone().with(break_later).with(break_earlier).apply();
                let kind = good.operation.kind();
                assert_eq!(found.as_ref(), Err(violation), "rules {earlier} and {later} of {kind:?}");
            }
        }
    }
}

#[test]
fn stateless_checks_find_the_same_violations() {
    let stateless = [
        "PubkeyIdOutOfBounds",
        "EmptyAddressArray",
        "MismatchingArrayLengths",
        "ZeroAddress",
        "NewLeafCannotEqualOldLeaf",
        "ValueGreaterThanSnarkScalarField",
    ];
    for (good, broken_rules) in tables() {
        assert_eq!(check_stateless(&good.operation, &good.parameters), Ok(()));
        for (break_rule, violation) in broken_rules {
            let case = good.clone().with(break_rule);
            let found = check_stateless(&case.operation, &case.parameters);
            if stateless.contains(&violation.name()) || violation == in_use(NEW) {
                assert_eq!(found, Err(violation));
            } else {
                assert_eq!(found, Ok(()), "{violation} needs the state");
            }
        }
    }
}

#[test]
fn a_failed_operation_keeps_earlier_changes() {
    let before = update();
    let failing = insert().with(|case| {
        case.insert().new_authenticator_address = NEW_TOO;
        case.insert().nonce = Nonce::from(9);
    });
    let mut state = Overlay::new(&before.registry);
    let Ok(first) = apply(&before.operation, before.signer, &before.parameters, NOW, &mut state);
    assert!(first.is_ok());
    let (accounts, addresses) = (state.accounts.clone(), state.addresses.clone());
    let Ok(second) = apply(&failing.operation, Some(Ok(NEW)), &failing.parameters, NOW, &mut state);
    assert_eq!(second, Err(RuleViolation::MismatchedSignatureNonce { stated: Nonce::from(9), expected: 7 }));
    assert_eq!((state.accounts, state.addresses), (accounts, addresses));
}

#[test]
fn a_failed_creation_takes_no_leaf_index() {
    let registry = MemoryRegistry::default();
    let mut state = Overlay::new(&registry);
    let good = create();
    let bad = create().with(|case| case.create().offchain_signer_commitment = Commitment(MODULUS));
    let other = create().with(|case| case.create().authenticator_addresses = vec![ALICE, BOB]);
    let mut leaf_indices = Vec::new();
    for case in [&bad, &good, &bad, &good, &other] {
        let Ok(outcome) = apply(&case.operation, None, &case.parameters, NOW, &mut state);
        leaf_indices.push(outcome.ok());
    }
    assert_eq!(leaf_indices, [None, Some(LeafIndex(1)), None, None, Some(LeafIndex(2))]);
    assert_eq!(state.next_leaf_index(), Ok(LeafIndex(3)));
}

#[test]
fn operations_on_an_account_that_does_not_exist_are_rejected() {
    let expected =
        |leaf_index| Err(RuleViolation::MismatchedLeafIndex { signer: ALICE, actual: LeafIndex(1), leaf_index });
    for leaf_index in [0, 3, CAPACITY, u64::MAX].map(LeafIndex) {
        assert_eq!(insert().with(|case| case.insert().leaf_index = leaf_index).apply(), expected(leaf_index));
        assert_eq!(remove().with(|case| case.remove().leaf_index = leaf_index).apply(), expected(leaf_index));
    }
}

#[test]
fn addresses_left_behind_by_a_recovery_can_be_used_again() {
    let cases = [
        create().with(|case| case.create().authenticator_addresses[0] = ALICE_LOST),
        update().with(|case| case.update().new_authenticator_address = ALICE_LOST),
        insert().with(|case| case.insert().new_authenticator_address = ALICE_LOST),
        recover().with(|case| case.recover().new_authenticator_address = ALICE_LOST),
    ];
    for mut case in cases {
        let leaf_index = case.apply().expect("the address is free");
        let packed = case.registry.addresses[&ALICE_LOST];
        assert_eq!(packed.leaf_index, leaf_index);
        assert_eq!(packed.recovery_counter, case.registry.accounts[&leaf_index].recovery_counter);
    }
}

#[test]
fn a_recovery_revokes_every_authenticator() {
    let recovered = recover().with(|case| assert_eq!(case.apply(), Ok(LeafIndex(1)))).registry;
    for address in [ALICE, ALICE_TABLET, ALICE_PHONE] {
        let mut case = initiate().with(|case| case.signer = Some(Ok(address)));
        case.registry = recovered.clone();
        assert_eq!(case.apply(), Err(RuleViolation::MismatchedRecoveryCounter { address }));
    }
}

#[test]
fn the_last_authenticator_can_be_removed_and_slots_keep_their_numbers() {
    let mut case = remove();
    for (address, pubkey_id) in [(ALICE_PHONE, PubkeyId(3)), (ALICE_TABLET, PubkeyId(1)), (ALICE, PubkeyId(0))] {
        let account = case.alice();
        let (nonce, old) = (Nonce::from(account.nonce), account.commitment);
        let removal = case.remove();
        removal.authenticator_address = address;
        removal.pubkey_id = pubkey_id;
        removal.nonce = nonce;
        removal.old_offchain_signer_commitment = old;
        removal.new_offchain_signer_commitment = Commitment(U256::from(100 + pubkey_id.0));
        assert_eq!(case.apply(), Ok(LeafIndex(1)));
        assert_eq!(case.alice().slots.len(), 4, "the list keeps its length");
        assert_eq!(case.alice().slots[pubkey_id.index()], None);
    }
    assert_eq!(case.alice().addresses(), [None; 4]);
    // No authenticator is left to sign, but the recovery agent can recover the account.
    let mut case = recover().with(|recovery| recovery.registry = case.registry.clone());
    case.recover().nonce = Nonce::from(9);
    case.recover().old_offchain_signer_commitment = Commitment(U256::from(100));
    assert_eq!(case.apply(), Ok(LeafIndex(1)));
    assert_eq!(case.alice().addresses(), [Some(NEW)]);
}

#[test]
fn an_authenticator_can_be_inserted_beyond_the_last_slot() {
    let mut case = insert().with(|case| case.insert().pubkey_id = PubkeyId(6));
    assert_eq!(case.apply(), Ok(LeafIndex(1)));
    let used: Vec<bool> = case.alice().slots.iter().map(Option::is_some).collect();
    assert_eq!(used, [true, true, false, true, false, false, true]);
}

#[test]
fn the_rule_parameters_limit_the_number_of_slots() {
    let three = |case: &mut OperationCase| case.parameters.max_authenticators = 3;
    assert_eq!(insert().with(three).apply(), Ok(LeafIndex(1)));
    let beyond = insert().with(three).with(|case| case.insert().pubkey_id = PubkeyId(4)).apply();
    assert_eq!(beyond, Err(RuleViolation::PubkeyIdOutOfBounds { pubkey_id: 4, max: 3 }));
    let one = |case: &mut OperationCase| case.parameters.max_authenticators = 1;
    assert_eq!(create().with(one).apply(), Err(RuleViolation::PubkeyIdOutOfBounds { pubkey_id: 1, max: 1 }));
}

#[test]
fn counters_do_not_wrap_around() {
    let exhaust_counter = |case: &mut OperationCase| case.alice().recovery_counter = u32::MAX;
    let violation = RuleViolation::CounterExhausted { counter: Counter::Recovery };
    assert_eq!(recover().with(exhaust_counter).apply(), Err(violation));
    let mut case = initiate().with(|case| case.alice().nonce = u64::MAX);
    case.initiate().nonce = Nonce::from(u64::MAX);
    assert_eq!(case.apply(), Err(RuleViolation::CounterExhausted { counter: Counter::Nonce }));
    // A nonce whose low 64 bits are the expected nonce.
    let wide = Nonce(U256::from(6) + (U256::from(1) << 64));
    let expected = Err(RuleViolation::MismatchedSignatureNonce { stated: wide, expected: 6 });
    assert_eq!(initiate().with(|case| case.initiate().nonce = wide).apply(), expected);
    // A cooldown ends at the greatest number of seconds at the latest.
    let mut case = initiate().with(|case| case.time = UnixSeconds::NEVER);
    assert_eq!(case.apply(), Ok(LeafIndex(1)));
    assert_eq!(
        case.alice().pending_recovery_agent.as_ref().map(|pending| pending.execute_after),
        Some(UnixSeconds::NEVER)
    );
}

#[test]
fn a_commitment_mismatch_names_the_expected_commitment() {
    let mut case = create()
        .with(OperationCase::enforce)
        .with(|case| case.create().offchain_signer_commitment = Commitment(U256::from(5)));
    let message = case.apply().expect_err("another commitment").message();
    let expected = crate::number::canonical(commitment_of(&[30, 31]));
    assert_eq!(
        message,
        format!("MismatchedCommitment: the commitment is 0x5, that of the account's public keys would be {expected}")
    );
}

#[test]
fn every_violation_has_a_code() {
    use GatewayErrorCode as Code;
    let (address, signer, agent, expected) = (ALICE, ALICE, ALICE, ALICE);
    let (leaf_index, actual) = (LeafIndex(1), LeafIndex(2));
    let (pubkey_id, commitment) = (PubkeyId(3), Commitment(U256::from(4)));
    let table = [
        (no_account(1), Code::BadRequest),
        (in_use(ALICE), Code::AuthenticatorAlreadyExists),
        (RuleViolation::AuthenticatorDoesNotExist { address }, Code::AuthenticatorDoesNotExist),
        (
            RuleViolation::AuthenticatorDoesNotBelongToAccount { address, actual, leaf_index },
            Code::AuthenticatorDoesNotBelongToAccount,
        ),
        (RuleViolation::EmptyAddressArray, Code::BadRequest),
        (RuleViolation::MismatchingArrayLengths { addresses: 1, pubkeys: 2 }, Code::BadRequest),
        (RuleViolation::ZeroAddress, Code::BadRequest),
        (RuleViolation::ReusedAuthenticatorAddress { address }, Code::BadRequest),
        (RuleViolation::PubkeyIdOutOfBounds { pubkey_id: 8, max: 7 }, Code::PubkeyIdOutOfBounds),
        (RuleViolation::PubkeyIdInUse { pubkey_id }, Code::PubkeyIdInUse),
        (RuleViolation::PubkeyIdDoesNotExist { pubkey_id }, Code::BadRequest),
        (RuleViolation::MismatchedPubkeyId { stated: PubkeyId(1), actual: PubkeyId(2) }, Code::BadRequest),
        (RuleViolation::MismatchedLeafIndex { signer, actual, leaf_index }, Code::BadRequest),
        (RuleViolation::MismatchedAuthenticatorSigner { signer, expected }, Code::BadRequest),
        (nonce_is_not_6(4), Code::MismatchedSignatureNonce),
        (RuleViolation::MismatchedRecoveryCounter { address }, Code::BadRequest),
        (RuleViolation::RecoveryNotEnabled, Code::BadRequest),
        (RuleViolation::InvalidSignature { agent }, Code::BadRequest),
        (RuleViolation::NoPendingRecoveryAgentUpdate, Code::BadRequest),
        (
            RuleViolation::RecoveryAgentUpdateStillInCooldown { execute_after: UnixSeconds(2), now: UnixSeconds(1) },
            Code::BadRequest,
        ),
        (RuleViolation::NewLeafCannotEqualOldLeaf, Code::BadRequest),
        (RuleViolation::ValueGreaterThanSnarkScalarField { commitment }, Code::BadRequest),
        (RuleViolation::LeafDoesNotExist { stated: commitment, actual: commitment }, Code::BadRequest),
        (RuleViolation::ECDSAInvalidSignature, Code::BadRequest),
        (RuleViolation::ECDSAInvalidSignatureS, Code::BadRequest),
        (RuleViolation::MismatchedCommitment { stated: commitment, expected: commitment }, Code::BadRequest),
        (RuleViolation::InvalidAuthenticatorPubkey { pubkey_id, error: PublicKeyError::Identity }, Code::BadRequest),
        (RuleViolation::TreeIsFull, Code::BadRequest),
        (RuleViolation::CounterExhausted { counter: Counter::Nonce }, Code::BadRequest),
    ];
    let named: BTreeSet<&str> = table.iter().map(|(violation, _)| violation.name()).collect();
    assert_eq!(named, RuleViolation::VARIANTS.iter().copied().collect(), "every violation is in the table");
    for (violation, code) in table {
        assert_eq!(violation.code(), code, "{violation}");
        assert_eq!(violation.message(), format!("{}: {violation}", violation.name()));
    }
    assert_eq!(nonce_is_not_6(4).message(), "MismatchedSignatureNonce: nonce is 4, the account's next nonce is 6");
}

#[test]
fn the_gateway_refuses_leaf_zero_and_zero_commitments() {
    let zero = Commitment(U256::ZERO);
    let old = RequestError::ZeroCommitment("old_offchain_signer_commitment");
    let new = RequestError::ZeroCommitment("new_offchain_signer_commitment");
    let table = [
        (create(), Ok(())),
        (update(), Ok(())),
        (initiate(), Ok(())),
        (
            create().with(|case| case.create().offchain_signer_commitment = zero),
            Err(RequestError::ZeroCommitment("offchain_signer_commitment")),
        ),
        (update().with(|case| case.update().old_offchain_signer_commitment = zero), Err(old.clone())),
        (update().with(|case| case.update().new_offchain_signer_commitment = zero), Err(new.clone())),
        (insert().with(|case| case.insert().old_offchain_signer_commitment = zero), Err(old.clone())),
        (remove().with(|case| case.remove().new_offchain_signer_commitment = zero), Err(new.clone())),
        (recover().with(|case| case.recover().new_offchain_signer_commitment = zero), Err(new.clone())),
        (recover().with(|case| case.recover().leaf_index = LeafIndex(0)), Err(RequestError::LeafIndexZero)),
        (insert().with(|case| case.insert().leaf_index = LeafIndex(0)), Err(RequestError::LeafIndexZero)),
        (initiate().with(|case| case.initiate().leaf_index = LeafIndex(0)), Err(RequestError::LeafIndexZero)),
        (cancel().with(|case| case.cancel().leaf_index = LeafIndex(0)), Err(RequestError::LeafIndexZero)),
        (execute().with(|case| case.execute().leaf_index = LeafIndex(0)), Err(RequestError::LeafIndexZero)),
    ];
    for (case, expected) in table {
        assert_eq!(check_request(&case.operation, &case.parameters), expected, "{:?}", case.operation);
    }
}

#[test]
fn an_operation_locks_its_account_and_the_addresses_it_names_or_adds() {
    use Lock::Address as Addressed;
    let account = Lock::LeafIndex(LeafIndex(1));
    let table = [
        (
            create().with(|case| case.create().authenticator_addresses = vec![NEW_TOO, NEW, NEW]),
            vec![Addressed(NEW), Addressed(NEW_TOO)],
        ),
        (update(), vec![account, Addressed(ALICE), Addressed(NEW)]),
        (insert(), vec![account, Addressed(NEW)]),
        (remove(), vec![account, Addressed(ALICE_TABLET)]),
        (recover(), vec![account, Addressed(NEW)]),
        (initiate(), vec![account]),
        (execute(), vec![account]),
        (cancel(), vec![account]),
    ];
    for (case, locks) in table {
        assert_eq!(case.operation.locks(), locks, "{:?}", case.operation.kind());
    }
    assert_eq!(Lock::LeafIndex(LeafIndex(26)).to_string(), "leaf index 0x1a");
    assert_eq!(Addressed(ALICE).to_string(), format!("address 0x{}", "a0".repeat(20)));
}

proptest! {
    #[test]
    fn an_operation_that_fails_its_stateless_checks_fails_on_every_state(operation in any_operation(), signer in any_address()) {
        let case = OperationCase::new(operation, Some(signer));
        if let Err(violation) = check_stateless(&case.operation, &case.parameters) {
            prop_assert!(case.clone().apply().is_err(), "{violation}");
        }
        prop_assert_eq!(case.clone().apply(), case.clone().apply());
    }
}
