//! Contracts that a verifier names, and the code that contracts run.

use selfsame_protocol::chain::deployment::{AcceptedCode, Deployment, UnacceptedCode};
use selfsame_protocol::chain::followed::Unavailable;

use super::*;
use crate::chain::contracts::{ChainSettings, OnUpgrade, VerifierSettings};
use crate::chain::follower::ChainState;
use crate::support::surroundings::Surroundings;

const VERIFIER: Address = Address::repeat_byte(0xee);
const OTHER: Address = Address::repeat_byte(0xc1);
const PROOF_VERIFIER: Address = Address::repeat_byte(0x99);

/// From the newest block on, the verifier names this registry and this proof verifier.
fn name(fixture: &Fixture, registry: Address, proof_verifier: Address) {
    fixture.chain().mine(&[]);
    for (call, address) in Deployment::calls().into_iter().zip([registry, OTHER, OTHER, proof_verifier]) {
        fixture.chain().set(call, Answer::Returned(address.into_word().0.into()));
    }
    fixture.set_clock();
}

fn verifier(fixture: &Fixture, code: CodeSettings) -> Arc<VerifierSource> {
    let settings = VerifierSettings {
        name: "test/verifier".to_owned(),
        address: VERIFIER,
        environment: Environment::Production,
        freshness: freshness(),
        code,
    };
    let (nodes, records) = (fixture.nodes(1), Arc::clone(&fixture.records));
    let clock = Arc::clone(&fixture.clock);
    Arc::new(VerifierSource::load(settings, CHAIN, nodes, records, clock).expect("loaded"))
}

fn located(settings: &mut RootSourceSettings) {
    settings.place = ContractPlace::FromVerifier;
}

fn stops() -> CodeSettings {
    CodeSettings { on_upgrade: OnUpgrade::Stop, ..CodeSettings::default() }
}

#[tokio::test]
async fn the_contract_is_followed_that_the_verifier_names() {
    let fixture = Fixture::one(RootContract::Registry);
    fixture.chain().mine(&[1]);
    name(&fixture, CONTRACT, PROOF_VERIFIER);
    let verifier_source = verifier(&fixture, CodeSettings::default());
    let source = fixture.source_of(Some(Arc::clone(&verifier_source)), 1, located);
    assert_eq!(source.location.place(), None);
    // The first step waits for the verifier.
    let (stepped, named) = tokio::join!(source.step(), verifier_source.step());
    named.expect("the verifier answers");
    assert_eq!(stepped.expect("read"), Step::Done);
    assert_eq!(fixture.newest(&source), Some(root(1)));

    // A restart knows the address and the roots before any node answers.
    fixture.chain().fails_with = Some(NodeError::TimedOut);
    let restarted = fixture.source_of(Some(verifier(&fixture, CodeSettings::default())), 1, located);
    assert_eq!(*restarted.published(), *source.published());
    fixture.chain().fails_with = None;

    // The verifier names another contract, whose roots count and no others.
    fixture.chain().address = OTHER;
    fixture.chain().mine(&[2]);
    name(&fixture, OTHER, PROOF_VERIFIER);
    verifier_source.step().await.expect("the verifier answers");
    fixture.chain().longest_range = 0;
    assert_eq!(source.step().await.expect("refused"), Step::More);
    assert_eq!((source.published().confirmed, source.published().history.len()), (None, 0), "it is not read yet");
    assert_eq!(source.location.place().map(|place| place.address), Some(OTHER));
    fixture.chain().longest_range = u64::MAX;
    catch_up(&source).await.expect("read");
    let known = |source: &RootSource, number| source.published().history.get(root(number)).is_some();
    assert!(known(&source, 2) && !known(&source, 1));
    let restarted = fixture.source_of(Some(verifier(&fixture, CodeSettings::default())), 1, located);
    assert_eq!(*restarted.published(), *source.published());

    // A configured address counts before the verifier's, and the difference shows.
    let configured = fixture.source_of(Some(verifier_source), 1, |_| {});
    assert_eq!(configured.location.place().map(|place| place.address), Some(CONTRACT));
    assert_eq!(configured.location.elsewhere(), Some(OTHER));
    assert_eq!(source.location.elsewhere(), None);
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_of_the_verifier_nothing_is_followed() {
    let fixture = Fixture::one(RootContract::Registry);
    let verifier_source = verifier(&fixture, CodeSettings::default());
    let source = fixture.source_of(Some(Arc::clone(&verifier_source)), 1, located);
    let error = verifier_source.step().await.expect_err("there is no contract");
    assert!(error.to_string().contains("there is no contract"), "{error}");
    assert!(matches!(source.step().await, Err(ChainError::NotLocated)));
    name(&fixture, Address::ZERO, PROOF_VERIFIER);
    let error = verifier_source.step().await.expect_err("a registry of zeros");
    assert!(error.to_string().contains("is the zero address"), "{error}");
    assert_eq!(verifier_source.deployment(), None);
}

#[tokio::test]
async fn an_upgrade_raises_an_alarm_and_stops_what_the_settings_say() {
    let [old, new] = [Address::repeat_byte(1), Address::repeat_byte(2)];
    for on_upgrade in [OnUpgrade::Warn, OnUpgrade::Stop] {
        let fixture = Fixture::one(RootContract::Registry);
        fixture.chain().implementation = old;
        fixture.chain().mine(&[1]);
        fixture.set_clock();
        let load = |implementations: &[Address]| {
            let accepted = AcceptedCode { implementations: implementations.to_vec(), ..AcceptedCode::default() };
            fixture.source(1, |settings| settings.code = CodeSettings { accepted, on_upgrade })
        };
        let is_stopped = on_upgrade == OnUpgrade::Stop;
        let source = load(&[]);
        let unread = matches!(source.halt(), Some(Unavailable::NotRead { .. }));
        assert_eq!(unread, is_stopped, "what stops must be read first");
        catch_up(&source).await.expect("read");
        assert_eq!((source.halt(), source.code.unaccepted()), (None, None), "the first code that is seen counts");

        // It is read again after ten minutes of the chain.
        fixture.chain().implementation = new;
        fixture.chain().mine_empty(600 / BLOCK_TIME as usize);
        fixture.set_clock();
        catch_up(&source).await.expect("read");
        let alarm = Some(UnacceptedCode::Implementation(new));
        assert_eq!(source.code.unaccepted(), alarm);
        let stopped = |source: &RootSource| matches!(source.halt(), Some(Unavailable::Unaccepted { .. }));
        assert_eq!(stopped(&source), is_stopped);

        // A restart does not make the new code the first one.
        let restarted = load(&[]);
        fixture.chain().mine_empty(1);
        fixture.set_clock();
        catch_up(&restarted).await.expect("read");
        assert_eq!((restarted.code.unaccepted(), stopped(&restarted)), (alarm, is_stopped));

        // The operator accepts it.
        let accepting = load(&[new]);
        fixture.chain().mine_empty(1);
        fixture.set_clock();
        catch_up(&accepting).await.expect("read");
        assert_eq!((accepting.code.unaccepted(), accepting.halt()), (None, None));
    }
}

#[tokio::test]
async fn a_new_verification_key_stops_the_deployment_at_once() {
    let fixture = Fixture::one(RootContract::Registry);
    fixture.chain().mine(&[1]);
    name(&fixture, CONTRACT, PROOF_VERIFIER);
    let verifier_source = verifier(&fixture, stops());
    let source = fixture.source_of(Some(Arc::clone(&verifier_source)), 1, located);
    verifier_source.step().await.expect("the verifier answers");
    catch_up(&source).await.expect("read");
    assert_eq!(source.halt(), None);
    name(&fixture, CONTRACT, OTHER);
    verifier_source.step().await.expect("the verifier answers");
    let code = UnacceptedCode::ProofVerifier(OTHER);
    let halt = source.halt().expect("nothing of the deployment counts");
    assert_eq!(halt, Unavailable::Unaccepted { source_name: "test/verifier".into(), code });
    assert_eq!(
        halt.to_string(),
        "test/verifier checks proofs with 0xc1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1, which was not accepted"
    );
    // The verifier goes back, as after a reorganization.
    name(&fixture, CONTRACT, PROOF_VERIFIER);
    verifier_source.step().await.expect("the verifier answers");
    assert_eq!(source.halt(), None);
}

#[tokio::test]
async fn a_node_that_cannot_tell_the_code_stops_only_what_must_know_it() {
    for (code, is_read) in [(CodeSettings::default(), true), (stops(), false)] {
        let fixture = Fixture::one(RootContract::Registry);
        fixture.chain().mine(&[1]);
        fixture.chain().hides_code = true;
        fixture.set_clock();
        let source = fixture.source(1, |settings| settings.code = code);
        assert_eq!(catch_up(&source).await.is_ok(), is_read);
        assert_eq!(source.published().confirmed.is_some(), is_read);
    }
}

/// The contract that checks proofs is told by a call, which every node answers.
#[tokio::test]
async fn a_new_verification_key_is_noticed_where_nodes_do_not_tell_implementations() {
    let fixture = Fixture::one(RootContract::Registry);
    fixture.chain().hides_code = true;
    name(&fixture, CONTRACT, PROOF_VERIFIER);
    let verifier_source = verifier(&fixture, CodeSettings::default());
    verifier_source.step().await.expect("the verifier answers");
    name(&fixture, CONTRACT, OTHER);
    verifier_source.step().await.expect("the verifier answers");
    assert_eq!(verifier_source.code.unaccepted(), Some(UnacceptedCode::ProofVerifier(OTHER)));
}

/// What is not followed any more is removed at a start, but not the code that was seen first.
#[tokio::test]
async fn a_start_removes_what_is_not_followed_any_more() {
    let fixture = Fixture::one(RootContract::Registry);
    let [old, new] = [Address::repeat_byte(1), Address::repeat_byte(2)];
    fixture.chain().implementation = old;
    fixture.chain().mine(&[1]);
    name(&fixture, CONTRACT, PROOF_VERIFIER);
    let verifier_source = verifier(&fixture, CodeSettings::default());
    verifier_source.step().await.expect("the verifier answers");
    let source = fixture.source(1, |_| {});
    catch_up(&source).await.expect("read");
    let keep = |settings: ChainSettings| {
        let clock = Arc::clone(&fixture.clock) as _;
        let surroundings = Surroundings { clock, ..Surroundings::for_test("test") };
        ChainState::load(&surroundings, vec![settings], &fixture.records).expect("loaded");
    };
    let settings = || ChainSettings { name: "test".to_owned(), chain_id: CHAIN, ..ChainSettings::default() };
    let known = || {
        let roots = fixture.source(1, |_| {}).published().history.len();
        (roots, verifier(&fixture, CodeSettings::default()).deployment().is_some())
    };
    let (roots, verifiers) = (vec![source.settings.clone()], vec![verifier_source.settings.clone()]);
    keep(ChainSettings { roots: roots.clone(), verifiers, ..settings() });
    fixture.sync().await;
    assert_eq!(known(), (1, true));
    keep(ChainSettings { roots, ..settings() });
    fixture.sync().await;
    assert_eq!(known(), (1, false));
    keep(settings());
    fixture.sync().await;
    assert_eq!(known(), (0, false));
    // It was upgraded while it was not followed.
    fixture.chain().implementation = new;
    let again = fixture.source(1, |_| {});
    catch_up(&again).await.expect("read");
    assert_eq!(again.code.unaccepted(), Some(UnacceptedCode::Implementation(new)));
}
