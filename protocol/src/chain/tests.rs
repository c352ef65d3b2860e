use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::{Bytes, address, bytes};
use alloy_sol_types::SolValue;
use proptest::prelude::*;

use super::contracts::{
    Answer, AnswerError, FollowedKey, Header, Log, RootContract, WindowStart, issuer_key_call, oprf_key_call,
    read_issuer_key, read_oprf_key, read_recorded_at, recorded_at_call,
};
use super::followed::{
    FollowedKeys, FollowedRoots, HistoryError, KeyOwner, KnownRoot, Position, PublishedRoot, RootHistory,
    RootJudgement, RootRule, Unavailable,
};
use crate::commitment::PublicKey;
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::verification::roots::RootAge;
use crate::verification::{Environment, LegacyIdentifier};
use crate::{Address, B256, U256};

mod deployment;

const CONTRACT: Address = address!("0xf7134CE138832c1456F2a91D64621eE90c2bddEa");

/// The base point of BabyJubJub's subgroup of prime order, a valid key.
const BASE_X: &str = "5299619240641551281634865583518297030282874472190772894086521144482721001553";
const BASE_Y: &str = "16950150798460657717958625567821834550301663161624707787222815936182638968203";

fn root(number: u64) -> Root {
    Root::from_number(U256::from(number))
}

fn number(decimal: &str) -> U256 {
    decimal.parse().expect("a number")
}

fn word(value: u64) -> B256 {
    B256::from(U256::from(value))
}

fn log(topics: Vec<B256>, data: Bytes) -> Log {
    Log { address: CONTRACT, topics, data, block_number: 7, block_hash: B256::ZERO, log_index: 3 }
}

fn returned(value: impl SolValue) -> Answer {
    Answer::Returned(value.abi_encode().into())
}

#[test]
fn topics_and_selectors_are_those_of_the_public_contracts() {
    use super::contracts::abi;
    use alloy_sol_types::{SolCall, SolError};
    for (topic, beginning) in [
        (RootContract::IdentityManager.topic(), "25f6d5cc356ee0b4"),
        (RootContract::Bridge.topic(), "e97c89cb"),
        (RootContract::Registry.topic(), "354c97d4"),
    ] {
        assert!(format!("{topic:x}").starts_with(beginning), "{topic}");
    }
    for (call, selector) in [
        (RootContract::IdentityManager.newest_root_call(), "d7b0fef1"),
        (RootContract::Bridge.newest_root_call(), "d7b0fef1"),
        (RootContract::Registry.newest_root_call(), "5445b007"),
        (RootContract::IdentityManager.window_call(), "43f974cb"),
        (RootContract::Bridge.window_call(), "b0d69079"),
        (RootContract::Registry.window_call(), "65b64a72"),
        (WindowStart::call(root(1)), "6ef88be1"),
        (recorded_at_call(root(1)), "8561a5ef"),
        (issuer_key_call(1), "94db8bd2"),
        (oprf_key_call(1), "7488e8e7"),
        (abi::NoRootsSeen::SELECTOR.into(), "5b8dabb7"),
        (abi::UnknownId::SELECTOR.into(), "fbf20062"),
        (abi::DeletedId::SELECTOR.into(), "0x1b02ded7"),
        (abi::RpIdDoesNotExist::SELECTOR.into(), "3200e7c0"),
        (abi::getRpUncheckedCall::SELECTOR.into(), "3d92371a"),
        (abi::getWorldIDRegistryCall::SELECTOR.into(), "c6c15ae0"),
        (abi::getCredentialSchemaIssuerRegistryCall::SELECTOR.into(), "340eb98f"),
        (abi::getOprfKeyRegistryCall::SELECTOR.into(), "1dfc0cea"),
        (abi::getVerifierCall::SELECTOR.into(), "46657fe9"),
    ] {
        let selector = selector.trim_start_matches("0x");
        assert!(format!("{call:x}").starts_with(&format!("0x{selector}")), "{call} is not {selector}");
    }
}

#[test]
fn root_events_are_read_strictly() {
    let [manager, bridge, registry] = [RootContract::IdentityManager, RootContract::Bridge, RootContract::Registry];
    let changed = log(vec![manager.topic(), word(1), word(0), word(2)], Bytes::new());
    let event = manager.read_event(CONTRACT, &changed).expect("an event");
    assert_eq!((event.root, event.replaces, event.time), (root(2), Some(root(1)), None));
    let added = log(vec![bridge.topic()], (U256::from(5), U256::from(90)).abi_encode().into());
    let event = bridge.read_event(CONTRACT, &added).expect("an event");
    assert_eq!((event.root, event.replaces, event.time), (root(5), None, Some(UnixSeconds(90))));
    let recorded = log(vec![registry.topic(), word(6)], U256::from(91).abi_encode().into());
    let event = registry.read_event(CONTRACT, &recorded).expect("an event");
    assert_eq!((event.root, event.replaces, event.time), (root(6), None, Some(UnixSeconds(91))));

    let malformed = Err(AnswerError::Log { block: 7 });
    let elsewhere = Log { address: Address::ZERO, ..recorded.clone() };
    assert_eq!(registry.read_event(CONTRACT, &elsewhere), malformed);
    for (contract, log) in [
        (manager, recorded.clone()),
        (registry, changed.clone()),
        (bridge, recorded.clone()),
        (registry, log(vec![registry.topic()], recorded.data.clone())),
        (registry, log(vec![registry.topic(), word(6), word(7)], recorded.data.clone())),
        (registry, log(recorded.topics.clone(), Bytes::new())),
        (registry, log(recorded.topics.clone(), (U256::from(91), U256::ZERO).abi_encode().into())),
        (registry, log(vec![], Bytes::new())),
        (manager, log(changed.topics.clone(), bytes!("00"))),
        // A kind of change does not fit 8 bits.
        (manager, log(vec![manager.topic(), word(1), word(256), word(2)], Bytes::new())),
        // A time does not fit 128 bits.
        (bridge, log(vec![bridge.topic()], (U256::from(5), U256::MAX).abi_encode().into())),
    ] {
        assert_eq!(contract.read_event(CONTRACT, &log), malformed, "{contract:?} {log:?}");
    }
    let too_large = log(vec![registry.topic(), B256::repeat_byte(0xff)], recorded.data.clone());
    assert_eq!(registry.read_event(CONTRACT, &too_large), Err(AnswerError::Root { root: U256::MAX }));
    let too_late = log(recorded.topics, U256::MAX.abi_encode().into());
    assert_eq!(registry.read_event(CONTRACT, &too_late), Err(AnswerError::Time));
}

#[test]
fn results_of_calls_are_read_strictly() {
    let reverted = |data: Bytes| Answer::Reverted(data);
    let (no_roots, unknown, deleted): (Bytes, Bytes, Bytes) = (
        bytes!("5b8dabb7"),
        [bytes!("fbf20062").to_vec(), U256::from(9).abi_encode()].concat().into(),
        [bytes!("0x1b02ded7").to_vec(), U256::from(9).abi_encode()].concat().into(),
    );
    let newest = |contract: RootContract, answer: &Answer| contract.read_newest_root(answer);
    let [manager, bridge, registry] = [RootContract::IdentityManager, RootContract::Bridge, RootContract::Registry];
    for contract in [manager, bridge, registry] {
        assert_eq!(newest(contract, &returned(U256::from(4))), Ok(Some(root(4))));
        assert_eq!(newest(contract, &Answer::Returned(Bytes::new())), Err(AnswerError::NoContract));
        assert_eq!(newest(contract, &Answer::ChainId(1)), Err(AnswerError::OtherKind));
        assert_eq!(newest(contract, &returned(U256::MAX)), Err(AnswerError::Root { root: U256::MAX }));
        let long = newest(contract, &returned((U256::from(4), U256::from(5))));
        assert!(matches!(long, Err(AnswerError::Encoding { .. })), "{long:?}");
        assert!(matches!(newest(contract, &reverted(unknown.clone())), Err(AnswerError::Reverted { .. })));
        assert_eq!(contract.read_window(&returned(U256::from(3600))), Ok(3600));
        assert_eq!(contract.read_window(&returned(U256::MAX)), Err(AnswerError::Time));
    }
    assert_eq!(newest(bridge, &reverted(no_roots.clone())), Ok(None));
    assert!(newest(manager, &reverted(no_roots)).is_err());

    assert_eq!(WindowStart::read(&reverted(Bytes::new())), Ok(WindowStart::Recorded));
    assert_eq!(WindowStart::read(&returned(U256::ZERO)), Ok(WindowStart::Replaced));
    assert!(WindowStart::read(&returned(U256::from(1))).is_err());
    assert!(WindowStart::read(&reverted(unknown.clone())).is_err());
    assert_eq!(read_recorded_at(&returned(U256::from(8))), Ok(Some(UnixSeconds(8))));
    assert_eq!(read_recorded_at(&returned(U256::ZERO)), Ok(None));

    let point = (number(BASE_X), number(BASE_Y));
    let key = PublicKey::from_coordinates(&point.0, &point.1).expect("a key");
    assert_eq!(read_issuer_key(&returned(point)), Ok(FollowedKey::Present(key)));
    for absent in [(U256::ZERO, U256::ZERO), (U256::ZERO, point.1), (point.0, U256::ZERO)] {
        assert_eq!(read_issuer_key(&returned(absent)), Ok(FollowedKey::Absent));
    }
    let off_the_curve = returned((point.0, point.0));
    assert!(matches!(read_issuer_key(&off_the_curve), Err(AnswerError::Key(_))));
    assert_eq!(read_oprf_key(&returned(point)), Ok(FollowedKey::Present(key)));
    assert_eq!(read_oprf_key(&reverted(unknown)), Ok(FollowedKey::Absent));
    assert_eq!(read_oprf_key(&reverted(deleted.clone())), Ok(FollowedKey::Deleted));
    assert!(matches!(read_oprf_key(&off_the_curve), Err(AnswerError::Key(_))));
    // A named error with other parameters is not that error.
    assert!(read_oprf_key(&reverted(deleted.slice(..4))).is_err());
    assert!(read_oprf_key(&returned((U256::ZERO, U256::ZERO))).is_err());
}

fn at(block: u64, log_index: u64) -> Position {
    Position { block, log_index }
}

fn published(number: u64, time: u64, block: u64) -> PublishedRoot {
    PublishedRoot { root: root(number), block_hash: word(block), time: UnixSeconds(time) }
}

#[test]
fn a_history_accepts_only_what_fits() {
    let mut history = RootHistory::default();
    assert_eq!(history.insert(at(5, 1), published(1, 50, 5)), Ok(true));
    assert_eq!(history.check_replaced(at(5, 1), root(99)), Ok(()), "the first may have replaced any");
    assert_eq!(history.insert(at(5, 1), published(1, 50, 5)), Ok(false), "the same once more");
    assert_eq!(history.insert(at(5, 1), published(2, 50, 5)), Err(HistoryError::Changed(at(5, 1))));
    assert_eq!(history.insert(at(9, 0), published(1, 90, 9)), Ok(true), "a root may come back");
    assert_eq!(history.check_replaced(at(9, 0), root(2)), Err(HistoryError::Gap(at(9, 0))));
    // A root that was missing is added where it belongs.
    assert_eq!(history.insert(at(5, 2), published(2, 50, 5)), Ok(true));
    assert_eq!(history.check_replaced(at(9, 0), root(2)), Ok(()));
    assert_eq!(
        (history.first_after(UnixSeconds(49)), history.first_after(UnixSeconds(50))),
        (Some(UnixSeconds(50)), Some(UnixSeconds(90)),)
    );
    // The last occurrence counts.
    assert_eq!(history.get(root(1)), Some(KnownRoot { time: UnixSeconds(90), replaced_at: None }));
    assert_eq!(history.get(root(2)), Some(KnownRoot { time: UnixSeconds(50), replaced_at: Some(UnixSeconds(90)) }));
    assert_eq!(history.blocks_backwards().collect::<Vec<_>>(), [(9, word(9)), (5, word(5))]);
    assert_eq!(history.undo_above(5), [at(9, 0)]);
    assert_eq!(
        history.get(root(1)),
        Some(KnownRoot { time: UnixSeconds(50), replaced_at: Some(UnixSeconds(50)) }),
        "the occurrence before counts again"
    );
    assert_eq!(history.newest(), Some((at(5, 2), published(2, 50, 5))));
}

proptest! {
    /// Appending, undoing and forgetting give the same answers as a list that is searched.
    #[test]
    fn a_history_is_a_list(
        roots in prop::collection::vec((1_u64..6, 0_u64..3, 1_u64..20), 1..40),
        fork in 0_u64..60,
        forgotten in 0_u64..400,
    ) {
        let (mut history, mut list) = (RootHistory::default(), Vec::new());
        let (mut block, mut time) = (1, 100);
        for (index, (number, blocks, seconds)) in roots.into_iter().enumerate() {
            (block, time) = (block + blocks, time + if blocks == 0 { 0 } else { seconds });
            let entry = (at(block, index as u64), published(number, time, block));
            list.push(entry);
        }
        // The order of insertion does not matter.
        for (position, published) in list.iter().skip(1).step_by(2).chain(list.iter().step_by(2)) {
            prop_assert_eq!(history.insert(*position, *published), Ok(true));
        }
        let undone = history.undo_above(fork);
        prop_assert_eq!(undone, list.iter().filter(|(at, _)| at.block > fork).map(|(at, _)| *at).collect::<Vec<_>>());
        list.retain(|(at, _)| at.block <= fork);
        history.forget_replaced_before(UnixSeconds(forgotten));
        let kept = list.iter().zip(list.iter().skip(1)).take_while(|(_, (_, next))| next.time.0 < forgotten).count();
        list.drain(..kept);
        prop_assert_eq!(history.len(), list.len());
        prop_assert_eq!(history.newest(), list.last().copied());
        for number in 1..6 {
            let last = list.iter().rposition(|(_, published)| published.root == root(number));
            let expected = last.map(|last| KnownRoot {
                time: list[last].1.time,
                replaced_at: list.get(last + 1).map(|(_, next)| next.time),
            });
            prop_assert_eq!(history.get(root(number)), expected);
        }
        prop_assert_eq!(&RootHistory::from_stored(list), &history);
    }
}

/// Roots 1 and 2, published at 1000 and 2000, known up to a block of time 2100.
fn followed(rule: RootRule) -> FollowedRoots {
    let history = RootHistory::from_stored([(at(1, 0), published(1, 1000, 1)), (at(2, 0), published(2, 2000, 2))]);
    FollowedRoots {
        source: "a contract".into(),
        environment: Environment::Production,
        rule,
        window: 600,
        stale_after: 900,
        fresh_for: 60,
        confirmed: Some(Header { number: 9, hash: word(9), time: UnixSeconds(2100) }),
        history: Arc::new(history),
    }
}

#[test]
fn legacy_roots_count_until_nothing_newer_was_heard_for_too_long() {
    use RootJudgement::{Published, Unknown};
    let legacy = followed(RootRule::Legacy { of: vec![LegacyIdentifier::Orb] });
    let old = |age| Err(Unavailable::Old { source_name: "a contract".into(), age });
    for (number, now, expected) in [
        (2, 2100, Ok(Published(RootAge::Newest))),
        // The newest root of the last known block counts for the contract's window.
        (2, 2700, Ok(Published(RootAge::Newest))),
        (2, 2701, old(601)),
        // The age of an older root counts from the root that followed, and is known without newer
        // blocks.
        (1, 2100, Ok(Published(RootAge::Seconds(100)))),
        (1, 2701, Ok(Published(RootAge::Seconds(701)))),
        (1, 3000, Ok(Published(RootAge::Seconds(1000)))),
        (1, 3001, old(901)),
        // An unknown root may have been published since.
        (3, 2160, Ok(Unknown)),
        (3, 2161, old(61)),
        // The clock may be behind the chain.
        (2, 2000, Ok(Published(RootAge::Newest))),
    ] {
        assert_eq!(legacy.legacy_age(root(number), UnixSeconds(now)), expected, "root {number} at {now}");
    }
    let unread = FollowedRoots { confirmed: None, ..legacy };
    let not_read = Err(Unavailable::NotRead { what: "roots", source_name: "a contract".into() });
    assert_eq!(unread.legacy_age(root(2), UnixSeconds(2100)), not_read);
}

#[test]
fn current_roots_count_by_the_rule_of_their_registry() {
    use RootJudgement::{Published, Unknown};
    let old = |age| Err(Unavailable::Old { source_name: "a contract".into(), age });
    let recorded = followed(RootRule::Current { start: WindowStart::Recorded });
    let replaced = followed(RootRule::Current { start: WindowStart::Replaced });
    for (followed, number, now, expected) in [
        // Version 1: 600 seconds from when it was recorded.
        (&recorded, 1, 2100, Ok(Published(false))),
        (&recorded, 2, 2100, Ok(Published(true))),
        (&recorded, 2, 2600, Ok(Published(true))),
        (&recorded, 2, 2601, old(501)),
        // Version 2: 600 seconds from when it was replaced.
        (&replaced, 1, 2600, Ok(Published(true))),
        (&replaced, 1, 2601, Ok(Published(false))),
        (&replaced, 2, 2700, Ok(Published(true))),
        (&replaced, 2, 2701, old(601)),
        (&replaced, 3, 2160, Ok(Unknown)),
        (&replaced, 3, 2161, old(61)),
        (&replaced, 1, 3001, old(901)),
    ] {
        assert_eq!(followed.is_valid(root(number), UnixSeconds(now)), expected, "{number} at {now}");
    }
    // A registry at rest: its newest root is older than the window, and is the newest still.
    let mut at_rest = recorded;
    at_rest.confirmed = Some(Header { number: 99, hash: word(99), time: UnixSeconds(9000) });
    assert_eq!(at_rest.is_valid(root(2), UnixSeconds(9060)), Ok(Published(true)));
    assert_eq!(at_rest.is_valid(root(2), UnixSeconds(9061)), old(61));
}

#[test]
fn followed_keys_count_while_they_are_confirmed() {
    let key = PublicKey::from_coordinates(&number(BASE_X), &number(BASE_Y)).expect("a key");
    let keys = FollowedKeys {
        source: "a contract".into(),
        environment: Environment::Production,
        stale_after: 900,
        confirmed: Some(Header { number: 9, hash: word(9), time: UnixSeconds(2100) }),
        keys: HashMap::from([
            (KeyOwner::Issuer(1), Some(FollowedKey::Present(key))),
            (KeyOwner::Issuer(2), Some(FollowedKey::Absent)),
            (KeyOwner::Issuer(4), None),
        ]),
    };
    let at = |keys: &FollowedKeys, id, now| keys.get(KeyOwner::Issuer(id), UnixSeconds(now));
    assert_eq!(at(&keys, 1, 3000), Ok(Some(FollowedKey::Present(key))));
    assert_eq!(at(&keys, 2, 3000), Ok(Some(FollowedKey::Absent)));
    assert_eq!(at(&keys, 3, 3000), Ok(None), "another issuer is not followed");
    assert_eq!(at(&keys, 1, 3001), Err(Unavailable::Old { source_name: "a contract".into(), age: 901 }));
    let not_read = Err(Unavailable::NotRead { what: "keys", source_name: "a contract".into() });
    assert_eq!(at(&keys, 4, 2100), not_read, "a new owner");
    let unread = FollowedKeys { confirmed: None, ..keys };
    assert!(matches!(at(&unread, 1, 2100), Err(Unavailable::NotRead { .. })));
}
