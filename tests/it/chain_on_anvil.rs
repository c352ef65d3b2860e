//! A node asked through JSON-RPC, and the contracts of `tests/chain`, on a local chain.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, B256, Bytes, U256, b256, bytes, keccak256};
use alloy_sol_types::{SolCall, SolValue};
use selfsame::chain::{JsonRpcNode, NodeSettings};
use selfsame_actors::ChainNode;
use selfsame_protocol::chain::contracts::{
    Answer, AnswerError, BlockTag, FollowedKey, Log, Question, RootContract, RootEvent, WindowStart, issuer_key_call,
    oprf_key_call, read_issuer_key, read_oprf_key, read_recorded_at, recorded_at_call,
};
use selfsame_protocol::tree::Root;

use crate::anvil::{Anvil, GENESIS_TIME, SAFE_DISTANCE};
use crate::chain_contracts::GENERATOR;
use crate::chain_contracts::abi::{
    AccountRegistry, IdentityManager, IssuerRegistry, OprfKeyRegistry, ProofVerifier, RelyingPartyRegistry, RootBridge,
};

const CHAIN_ID: u64 = 480;

const TREE_CHANGED: &str = "TreeChanged(uint256,uint8,uint256)";

/// The slot of a proxy's implementation, from ERC-1967.
const IMPLEMENTATION: B256 = b256!("0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc");

fn node(anvil: &Anvil) -> JsonRpcNode {
    JsonRpcNode::new(NodeSettings::new(anvil.url.parse().expect("a URL"))).expect("the settings are good")
}

/// The answer to a question that the node does not refuse.
async fn ask(node: &JsonRpcNode, question: Question) -> Answer {
    let answers = node.ask(std::slice::from_ref(&question)).await.expect("answers");
    answers.into_iter().next().expect("an answer").unwrap_or_else(|refusal| panic!("{question:?}: {refusal}"))
}

/// What a call answers at the newest block.
async fn call(anvil: &Anvil, to: Address, call: &impl SolCall) -> Answer {
    let at = anvil.head().await.hash;
    ask(&node(anvil), Question::Call { to, data: call.abi_encode().into(), at }).await
}

/// The logs of a contract's event in all blocks.
async fn logs(anvil: &Anvil, address: Address, event: &str) -> Vec<Log> {
    let to = anvil.head().await.number;
    let question = Question::Logs { address, topics: vec![keccak256(event)], from: 0, to };
    let Answer::Logs(logs) = ask(&node(anvil), question).await else { panic!("no logs") };
    logs
}

fn returned(value: &impl SolValue) -> Answer {
    Answer::Returned(value.abi_encode().into())
}

fn number(value: u64) -> U256 {
    U256::from(value)
}

#[tokio::test]
#[ignore = "needs anvil; run make test-chain"]
async fn a_local_chain_answers_every_question() {
    let anvil = Anvil::start(CHAIN_ID).await;
    let node = node(&anvil);
    let first = anvil.block("0x0").await;
    assert_eq!(first.time.0, GENESIS_TIME);
    assert_eq!(ask(&node, Question::ChainId).await, Answer::ChainId(CHAIN_ID));
    let manager = anvil.deploy("IdentityManager", &number(1).abi_encode()).await;
    let created = anvil.head().await;
    anvil.set_next_time(GENESIS_TIME + 1_000).await;
    let pushed = anvil.send(manager, &IdentityManager::pushRootCall { root: number(2) }).await.block;
    assert_eq!(pushed.time.0, GENESIS_TIME + 1_000);
    anvil.mine(2 * SAFE_DISTANCE + 1).await;
    let head = anvil.head().await;

    // Blocks, by tag and by height, in one round trip.
    let tags = [
        BlockTag::Latest,
        BlockTag::Safe,
        BlockTag::Finalized,
        BlockTag::Number(pushed.number),
        BlockTag::Number(head.number + 1),
    ];
    let expected = [
        Some(head),
        Some(anvil.block(&format!("{:#x}", head.number - SAFE_DISTANCE)).await),
        Some(anvil.block(&format!("{:#x}", head.number - 2 * SAFE_DISTANCE)).await),
        Some(pushed),
        None,
    ];
    let answers = node.ask(&tags.map(Question::Block)).await.expect("answers");
    assert_eq!(answers, expected.map(|header| Ok(Answer::Block(header))));

    // A log: the roots are in its topics.
    let topics = [keccak256(TREE_CHANGED), number(1).into(), B256::ZERO, number(2).into()];
    let log = Log {
        address: manager,
        topics: topics.to_vec(),
        data: Bytes::new(),
        block_number: pushed.number,
        block_hash: pushed.hash,
        log_index: 0,
    };
    assert_eq!(logs(&anvil, manager, TREE_CHANGED).await, [log]);
    assert_eq!(logs(&anvil, manager, "RootAdded(uint256,uint128)").await, []);

    // A call at the hash of a block, before and after the change; and before the contract.
    let latest = Bytes::from(IdentityManager::latestRootCall {}.abi_encode());
    let at = |hash| Question::Call { to: manager, data: latest.clone(), at: hash };
    assert_eq!(ask(&node, at(first.hash)).await, Answer::Returned(Bytes::new()));
    assert_eq!(ask(&node, at(created.hash)).await, returned(&number(1)));
    assert_eq!(ask(&node, at(pushed.hash)).await, returned(&number(2)));
    // A function that the contract does not have.
    let unknown = Question::Call { to: manager, data: Bytes::from_static(&[1, 2, 3, 4]), at: head.hash };
    assert_eq!(ask(&node, unknown).await, Answer::Reverted(Bytes::new()));

    // A range that ends past the head is answered up to the head. Other nodes refuse it.
    let past = Question::Logs { address: manager, topics: vec![keccak256(TREE_CHANGED)], from: 0, to: head.number + 1 };
    let Answer::Logs(until_head) = ask(&node, past).await else { panic!("no logs") };
    assert_eq!(until_head.len(), 1);
    // What the node refuses: a range after the head, and blocks that are not in the chain.
    let (from, to) = (head.number + 1, head.number + 2);
    let past = Question::Logs { address: manager, topics: vec![keccak256(TREE_CHANGED)], from, to };
    let nowhere = at(B256::repeat_byte(1));
    let storage = Question::Storage { address: manager, slot: B256::ZERO, at: B256::repeat_byte(1) };
    for question in [past, nowhere, storage] {
        let answers = node.ask(&[question.clone(), Question::ChainId]).await.expect("answers");
        assert!(answers[0].is_err(), "{question:?}: {answers:?}");
        assert_eq!(answers[1], Ok(Answer::ChainId(CHAIN_ID)));
    }
    let first_word = |hash| Question::Storage { address: manager, slot: B256::ZERO, at: hash };
    assert_eq!(ask(&node, first_word(created.hash)).await, Answer::Storage(number(1).into()));
    assert_eq!(ask(&node, first_word(head.hash)).await, Answer::Storage(number(2).into()));

    // A reorganization replaces blocks; a call at a replaced block is refused.
    anvil.reorganize(1).await;
    let replaced = anvil.head().await;
    assert_eq!(replaced.number, head.number);
    assert_ne!(replaced.hash, head.hash);
    assert!(node.ask(&[at(head.hash)]).await.expect("answers")[0].is_err());
    assert_eq!(ask(&node, at(replaced.hash)).await, returned(&number(2)));
}

#[tokio::test]
#[ignore = "needs anvil; run make test-chain"]
async fn stand_ins_for_root_contracts_follow_their_rules_on_anvil() {
    let anvil = Anvil::start(CHAIN_ID).await;
    let manager = anvil.deploy("IdentityManager", &number(1).abi_encode()).await;
    anvil.send(manager, &IdentityManager::pushRootCall { root: number(2) }).await;
    let state = anvil.snapshot().await;
    anvil.send(manager, &IdentityManager::returnToRootCall { root: number(1) }).await;
    let changes = logs(&anvil, manager, TREE_CHANGED).await;
    let ends: Vec<_> = changes.iter().map(|log| [log.topics[1], log.topics[2], log.topics[3]]).collect();
    let word = |value| B256::from(number(value));
    assert_eq!(ends, [[word(1), word(0), word(2)], [word(2), word(1), word(1)]]);
    // A root that was the newest is valid for an hour, and the newest for ever.
    let superseded = anvil.head().await.time.0;
    let query = |root| IdentityManager::queryRootCall { root: number(root) };
    for (age, is_valid) in [(3_600, true), (3_601, false)] {
        anvil.set_next_time(superseded + age).await;
        anvil.mine(1).await;
        assert_eq!(call(&anvil, manager, &query(2)).await, returned(&(number(2), u128::from(superseded), is_valid)));
        assert_eq!(call(&anvil, manager, &query(1)).await, returned(&(number(1), 0_u128, true)));
    }
    assert_eq!(call(&anvil, manager, &query(3)).await, returned(&(number(0), 0_u128, false)));
    anvil.revert(state).await;
    assert_eq!(logs(&anvil, manager, TREE_CHANGED).await.len(), 1);
    assert_eq!(call(&anvil, manager, &IdentityManager::latestRootCall {}).await, returned(&number(2)));

    let bridge = anvil.deploy("RootBridge", &[]).await;
    let latest = RootBridge::latestRootCall {};
    assert_eq!(call(&anvil, bridge, &latest).await, Answer::Reverted(bytes!("0x5b8dabb7")), "NoRootsSeen");
    let block = anvil.send(bridge, &RootBridge::receiveRootCall { root: number(7) }).await.block;
    assert_eq!(call(&anvil, bridge, &latest).await, returned(&number(7)));
    let added = logs(&anvil, bridge, "RootAdded(uint256,uint128)").await;
    assert_eq!(added[0].topics.len(), 1, "nothing of the event is indexed");
    assert_eq!(added[0].data, (number(7), u128::from(block.time.0)).abi_encode());

    // Two roots in one block, ordered by their logs; version 2 counts from the replacement.
    let registry = anvil.deploy("AccountRegistry", &(number(1), false).abi_encode()).await;
    let expiration = AccountRegistry::getRootExpirationCall { root: number(1) };
    assert_eq!(call(&anvil, registry, &expiration).await, Answer::Reverted(Bytes::new()));
    anvil.send(registry, &AccountRegistry::upgradeCall {}).await;
    assert_eq!(call(&anvil, registry, &expiration).await, returned(&number(0)));
    let block =
        anvil.send(registry, &AccountRegistry::recordRootsCall { first: number(2), second: number(3) }).await.block;
    assert_eq!(call(&anvil, registry, &AccountRegistry::getLatestRootCall {}).await, returned(&number(3)));
    assert_eq!(call(&anvil, registry, &expiration).await, returned(&number(block.time.0 + 3_600)));
    let recorded = logs(&anvil, registry, "RootRecorded(uint256,uint256)").await;
    let recorded: Vec<_> = recorded.iter().map(|log| (log.block_number, log.log_index, log.topics[1])).collect();
    assert_eq!(recorded[1..], [(block.number, 0, word(2)), (block.number, 1, word(3))]);
    for (age, is_valid) in [(3_600, true), (3_601, false)] {
        anvil.set_next_time(block.time.0 + age).await;
        anvil.mine(1).await;
        let valid = AccountRegistry::isValidRootCall { root: number(1) };
        assert_eq!(call(&anvil, registry, &valid).await, returned(&is_valid));
    }
}

#[tokio::test]
#[ignore = "needs anvil; run make test-chain"]
async fn stand_ins_for_registries_of_keys_hold_and_delete_keys_on_anvil() {
    let anvil = Anvil::start(CHAIN_ID).await;
    let pair = |x, y| returned(&(number(x), number(y)));

    let issuers = anvil.deploy("IssuerRegistry", &[]).await;
    let key = IssuerRegistry::issuerSchemaIdToPubkeyCall { id: 5 };
    assert_eq!(call(&anvil, issuers, &key).await, pair(0, 0));
    let signer = Address::repeat_byte(1);
    let register = IssuerRegistry::registerCall { id: 5, x: number(1), y: number(2), signer };
    anvil.send(issuers, &register).await;
    assert_eq!(call(&anvil, issuers, &key).await, pair(1, 2));
    anvil.send(issuers, &IssuerRegistry::updatePubkeyCall { id: 5, x: number(3), y: number(4) }).await;
    assert_eq!(call(&anvil, issuers, &key).await, pair(3, 4));
    anvil.send(issuers, &IssuerRegistry::removeCall { id: 5 }).await;
    assert_eq!(call(&anvil, issuers, &key).await, pair(0, 0));

    let keys = anvil.deploy("OprfKeyRegistry", &[]).await;
    let id = U160::from(9);
    let key = OprfKeyRegistry::getOprfPublicKeyCall { id };
    let reverted = |selector: &Bytes| Answer::Reverted([selector.as_ref(), &number(9).abi_encode()].concat().into());
    assert_eq!(call(&anvil, keys, &key).await, reverted(&bytes!("0xfbf20062")), "UnknownId");
    anvil.send(keys, &OprfKeyRegistry::setKeyCall { id, x: number(1), y: number(2) }).await;
    anvil.send(keys, &OprfKeyRegistry::reshareCall { id }).await;
    assert_eq!(call(&anvil, keys, &key).await, pair(1, 2));
    assert_eq!(logs(&anvil, keys, "SecretGenFinalize(uint160,uint32)").await.len(), 2);
    anvil.send(keys, &OprfKeyRegistry::deleteKeyCall { id }).await;
    assert_eq!(call(&anvil, keys, &key).await, reverted(&bytes!("0x1b02ded7")), "DeletedId");

    let parties = anvil.deploy("RelyingPartyRegistry", &[]).await;
    let party = RelyingPartyRegistry::getRpUncheckedCall { id: 9 };
    assert_eq!(call(&anvil, parties, &party).await, Answer::Reverted(bytes!("0x3200e7c0")), "RpIdDoesNotExist");
    let manager = Address::repeat_byte(2);
    let domain = "party.example".to_owned();
    let register = RelyingPartyRegistry::registerCall { id: 9, manager, signer, domain: domain.clone() };
    anvil.send(parties, &register).await;
    anvil.send(parties, &RelyingPartyRegistry::updateCall { id: 9, active: false, signer: manager }).await;
    let Answer::Returned(data) = call(&anvil, parties, &party).await else { panic!("no party") };
    let party = RelyingPartyRegistry::getRpUncheckedCall::abi_decode_returns(&data).expect("a party");
    assert_eq!((party.initialized, party.active, party.manager, party.signer), (true, false, manager, manager));
    assert_eq!((party.oprfKeyId, party.unverifiedWellKnownDomain), (id, domain));

    let places = (issuers, keys, parties, signer);
    let verifier = anvil.deploy("ProofVerifier", &places.abi_encode()).await;
    let registry = ProofVerifier::getWorldIDRegistryCall {};
    assert_eq!(call(&anvil, verifier, &registry).await, returned(&issuers));
    anvil.send(verifier, &ProofVerifier::updateWorldIDRegistryCall { registry: keys }).await;
    assert_eq!(call(&anvil, verifier, &registry).await, returned(&keys));
    anvil.send(verifier, &ProofVerifier::setImplementationCall { implementation: manager }).await;
    let at = anvil.head().await.hash;
    let implementation = Question::Storage { address: verifier, slot: IMPLEMENTATION, at };
    assert_eq!(ask(&node(&anvil), implementation).await, Answer::Storage(manager.into_word()));
    assert_eq!(logs(&anvil, verifier, "Upgraded(address)").await[0].topics[1], manager.into_word());
}

/// The root as the protocol's type.
fn root(value: u64) -> Root {
    Root::from_number(number(value))
}

#[tokio::test]
#[ignore = "needs anvil; run make test-chain"]
async fn what_contracts_answer_on_anvil_is_read() {
    let anvil = Anvil::start(CHAIN_ID).await;
    let node = node(&anvil);
    let first = number(1).abi_encode();
    let manager = anvil.deploy("IdentityManager", &first).await;
    let bridge = anvil.deploy("RootBridge", &[]).await;
    let registry = anvil.deploy("AccountRegistry", &(number(1), true).abi_encode()).await;
    let at = anvil.head().await.hash;
    let call = |to, data, at| ask(&node, Question::Call { to, data, at });
    let newest = RootContract::Bridge.newest_root_call();
    assert_eq!(RootContract::Bridge.read_newest_root(&call(bridge, newest, at).await), Ok(None));

    anvil.submit(manager, &IdentityManager::pushRootCall { root: number(2) }).await;
    anvil.submit(bridge, &RootBridge::receiveRootCall { root: number(2) }).await;
    anvil.submit(registry, &AccountRegistry::recordRootCall { root: number(2) }).await;
    anvil.mine(1).await;
    let head = anvil.head().await;
    for (contract, address, replaces, time, window) in [
        (RootContract::IdentityManager, manager, Some(root(1)), None, 3_600),
        (RootContract::Bridge, bridge, None, Some(head.time), 604_800),
        (RootContract::Registry, registry, None, Some(head.time), 3_600),
    ] {
        let newest = call(address, contract.newest_root_call(), head.hash).await;
        assert_eq!(contract.read_newest_root(&newest), Ok(Some(root(2))), "{contract:?}");
        let seconds = call(address, contract.window_call(), head.hash).await;
        assert_eq!(contract.read_window(&seconds), Ok(window), "{contract:?}");
        let (from, to) = (head.number, head.number);
        let question = Question::Logs { address, topics: vec![contract.topic()], from, to };
        let Answer::Logs(logs) = ask(&node, question).await else { panic!("no logs") };
        let event = RootEvent { root: root(2), replaces, time };
        assert_eq!(contract.read_event(address, &logs[0]), Ok(event), "{contract:?}");
        // An address without a contract.
        let nothing = call(Address::repeat_byte(1), contract.newest_root_call(), head.hash).await;
        assert_eq!(contract.read_newest_root(&nothing), Err(AnswerError::NoContract), "{contract:?}");
    }
    let version = call(registry, WindowStart::call(root(2)), head.hash).await;
    assert_eq!(WindowStart::read(&version), Ok(WindowStart::Replaced));
    let old = anvil.deploy("AccountRegistry", &(number(1), false).abi_encode()).await;
    let version = call(old, WindowStart::call(root(1)), anvil.head().await.hash).await;
    assert_eq!(WindowStart::read(&version), Ok(WindowStart::Recorded));
    let recorded = call(registry, recorded_at_call(root(2)), head.hash).await;
    assert_eq!(read_recorded_at(&recorded), Ok(Some(head.time)));
    let recorded = call(registry, recorded_at_call(root(9)), head.hash).await;
    assert_eq!(read_recorded_at(&recorded), Ok(None));

    // Keys: the generator of the curve's prime-order group.
    let keys = anvil.deploy("OprfKeyRegistry", &[]).await;
    let issuers = anvil.deploy("IssuerRegistry", &[]).await;
    let read_keys = async || {
        let at = anvil.head().await.hash;
        let oprf_key = ask(&node, Question::Call { to: keys, data: oprf_key_call(9), at }).await;
        let issuer_key = ask(&node, Question::Call { to: issuers, data: issuer_key_call(9), at }).await;
        (read_oprf_key(&oprf_key), read_issuer_key(&issuer_key))
    };
    assert_eq!(read_keys().await, (Ok(FollowedKey::Absent), Ok(FollowedKey::Absent)));
    let [x, y] = GENERATOR;
    anvil.send(keys, &OprfKeyRegistry::setKeyCall { id: U160::from(9), x, y }).await;
    anvil.send(issuers, &IssuerRegistry::registerCall { id: 9, x, y, signer: manager }).await;
    let (oprf_key, issuer_key) = read_keys().await;
    assert!(matches!(oprf_key, Ok(FollowedKey::Present(_))), "{oprf_key:?}");
    assert_eq!(oprf_key, issuer_key);
    anvil.send(keys, &OprfKeyRegistry::deleteKeyCall { id: U160::from(9) }).await;
    anvil.send(issuers, &IssuerRegistry::removeCall { id: 9 }).await;
    assert_eq!(read_keys().await, (Ok(FollowedKey::Deleted), Ok(FollowedKey::Absent)));
}
