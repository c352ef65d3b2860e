//! What the public module promises by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use selfsame_protocol::ledger::{Block, Entry, RequestId};
use selfsame_protocol::registry::RuleParameters;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{GroupCommit, Ledger, LedgerError, LedgerReader};

use super::{DOMAIN, check_repeats, clients, settings};
use crate::clock::Clock;
use crate::simulation::{FaultRates, MemoryLedger, SeededRandom, Simulation, find_failure, play_seeds};

#[test]
fn the_first_seed_that_fails_is_found() {
    let played = AtomicU64::new(0);
    let play = |simulation: &mut Simulation| {
        played.fetch_add(1, Ordering::Relaxed);
        simulation.log().note(format!("play {}", simulation.seed()));
        assert!(![7, 8, 30].contains(&simulation.seed()), "this one fails");
    };
    let failure = find_failure(1..1000, play).expect("a failure");
    assert_eq!((failure.seed, &*failure.message), (7, "this one fails"));
    assert_eq!(failure.events, ["play 7"]);
    assert!(failure.to_string().contains("seed 7 fails: this one fails"), "{failure}");
    assert!(played.load(Ordering::Relaxed) < 100, "it ends with the first failure");
    assert_eq!(find_failure(1..7, play), None);
    assert_eq!(play_seeds(9..29, play).histories, 20);
}

#[test]
fn a_panic_in_a_task_of_a_run_fails_the_play() {
    let failure = find_failure(1..2, |simulation| {
        simulation.run(FaultRates::NONE, async |run| {
            run.spawn(async { panic!("a check fails") });
            tokio::time::sleep(Duration::from_secs(1)).await;
            panic!("the run goes on");
        });
    });
    assert_eq!(failure.expect("a failure").message, "a check fails");
}

#[test]
fn time_passes_in_runs_and_jumps() {
    let mut simulation = Simulation::from_seed(1);
    let (clock, ahead) = (simulation.clock().clone(), simulation.clock().ahead_by(Duration::from_secs(5)));
    let start = clock.now();
    assert_eq!(clock.now(), start, "it stands still");
    simulation.run(FaultRates::NONE, async |run| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(run.clock().now(), start + Duration::from_secs(60));
        let timer = tokio::time::Instant::now();
        run.clock().jump(Duration::from_secs(3600));
        assert_eq!(run.clock().now(), start + Duration::from_secs(3660));
        assert_eq!(timer.elapsed(), Duration::ZERO, "timers do not jump");
    });
    let end = clock.now();
    assert_eq!(end, start + Duration::from_secs(3661), "a restart takes a second");
    assert_eq!(ahead.now(), end + Duration::from_secs(5));
}

#[test]
fn what_is_not_committed_when_the_process_ends_is_lost() {
    let mut simulation = Simulation::from_seed(1);
    let store = simulation.new_store(DOMAIN).expect("the store opens");
    let operation = clients::random_creation(simulation.random()).operation;
    let never = FaultRates { commit_delay: Duration::from_secs(3600), ..FaultRates::NONE };
    simulation.run(never, async |run| {
        let service = run.service(settings("lost", run.random()), &store).start().await.expect("the service starts");
        let (registry, submission) = (service.registry(), operation.clone().into());
        let submitting = tokio::spawn(async move { registry.submit(submission).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!submitting.is_finished(), "it is not durable");
    });
    simulation.run(FaultRates::NONE, async |run| {
        let service = run.service(settings("lost", run.random()), &store).start().await.expect("the service starts");
        assert_eq!(service.registry().statistics().open_requests, 0);
        service.registry().submit(operation.clone().into()).await.expect("it was never accepted");
    });
}

/// An actor of an embedder.
struct Sleeper;

impl Actor for Sleeper {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

#[test]
fn the_actors_of_an_embedder_die_when_the_seed_says_so() {
    let deaths = AtomicU64::new(0);
    let play = |simulation: &mut Simulation| {
        simulation.run(FaultRates::default(), async |run| {
            let (sleeper, sleeping) = Actor::spawn(Some(run.name("sleeper")), Sleeper, ()).await.expect("it starts");
            run.kill_by_chance(["sleeper"]);
            tokio::time::sleep(Duration::from_secs(10)).await;
            if sleeping.is_finished() {
                deaths.fetch_add(1, Ordering::Relaxed);
            } else {
                assert!(run.kill("sleeper"));
                sleeping.await.expect("no panic");
            }
            assert!(!run.kill("sleeper"), "it is dead");
            run.note(format!("{:?}", sleeper.get_status()));
        });
    };
    play_seeds(1..21, play);
    assert!((1..20).contains(&deaths.load(Ordering::Relaxed)), "{deaths:?} of 20");
    check_repeats([1, 2, 3], play);
}

#[test]
fn a_ledger_in_memory_takes_one_block_of_a_height() {
    let simulation = Simulation::from_seed(1);
    let store = simulation.new_store(DOMAIN).expect("the store opens");
    let (commits, _) = GroupCommit::manual(store);
    let (ledger, random) = (MemoryLedger::default(), SeededRandom::from_seed(1));
    let block = |number| {
        let operation = clients::random_creation(&random).operation;
        let entry = Entry { request_id: RequestId::from_random([number; 16]), operation };
        Block::seal(&ledger.head(), DOMAIN, UnixSeconds(1), RuleParameters::default(), vec![entry])
    };
    let append = |block: &Block, is_next: bool| {
        let appended = move |outcome: Result<(), LedgerError>| match outcome {
            Ok(()) => assert!(is_next),
            Err(error) => assert!(!is_next && matches!(error, LedgerError::NotNext { .. }), "{error}"),
        };
        ledger.append(block, &commits, Box::new(appended));
    };
    let (first, other) = (block(1), block(2));
    append(&first, true);
    append(&other, false);
    let second = block(3);
    append(&second, true);
    assert_eq!(ledger.head().height, 2);
    assert_eq!(ledger.block(1).expect("it is read"), Some(first));
    assert_eq!(ledger.block(0).expect("it is read"), None);
    assert_eq!(ledger.block(3).expect("it is read"), None);
    let place = ledger.place(&second.entries[0].request_id).expect("it is read").expect("it has a place");
    assert_eq!((place.height, place.position), (2, 0));
    let hash = ledger.hash_at(2).expect("it is read").expect("there is a block");
    assert_eq!((hash, ledger.height_of(&hash).expect("it is read")), (second.header.hash(), Some(2)));
    assert_eq!(ledger.place(&other.entries[0].request_id).expect("it is read"), None);
}
