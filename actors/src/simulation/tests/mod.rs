//! The histories that this crate's own services are tested with. Each kind is a module.
//!
//! | module | what it plays |
//! |---|---|
//! | [`registry`] | one service that dies again and again, checked against [`model`] ([`checks`]) |
//! | [`shared_ledger`] | two services on one ledger |
//! | [`verification`] | one service that counts who has acted how often ([`people`]) |
//! | [`sign_in`] | one service that people sign in with |
//! | [`public`] | short runs that show what the public module promises |
//! | [`planted`] | the same with a mistake that was planted, which the checks find |
//! | [`cluster`] | replicas of one journal, all of whose answers could be those of one service ([`linearizability`]), for requests and for single records ([`cells`]) |
//!
//! `SELFSAME_SIMULATION_HISTORIES`, `SELFSAME_SHARED_LEDGER_HISTORIES`,
//! `SELFSAME_VERIFICATION_HISTORIES`, `SELFSAME_SIGN_IN_HISTORIES` and `SELFSAME_CLUSTER_HISTORIES`
//! are the numbers of histories, `SELFSAME_SIMULATION_SEED` is the first seed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod cells;
mod checks;
mod clients;
mod cluster;
mod intruder;
mod linearizability;
mod model;
mod people;
mod planted;
mod public;
mod registry;
mod shared_ledger;
mod sign_in;
mod verification;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::eip712::RegistryDomain;

use super::{SeededRandom, Simulation, play_seeds};
use crate::{BatchLimits, RegistryHandle, Settings, VerificationSettings};
use clients::ClientLog;

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

const CLIENTS: u64 = 4;

/// Settings of a service that seals blocks of few requests.
fn settings(instance: &str, random: &SeededRandom) -> Settings {
    Settings {
        verification: VerificationSettings { workers: 1, ..VerificationSettings::default() },
        batch: BatchLimits {
            max_operations: 1 + random.below(6) as usize,
            min_wait: Duration::from_micros(random.below(3000)),
            max_wait: Duration::from_micros(random.below(6000)),
        },
        ..Settings::for_instance(instance)
    }
}

/// Sends every request without an answer again, and waits until every accepted request is final.
async fn finish_requests(registry: &RegistryHandle, random: &SeededRandom, log: &ClientLog) {
    let count = log.requests().len();
    for number in 0..count {
        let mut attempts = 0;
        while log.requests()[number].answer.is_none() && !clients::send(registry, log, number).await {
            attempts += 1;
            assert!(attempts < 1000, "request {number} gets no answer");
            random.pause(Duration::from_millis(5)).await;
        }
    }
    for number in 0..count {
        let mut attempts = 0;
        while !clients::observe(registry, log, number) {
            attempts += 1;
            assert!(attempts < 10_000, "request {number} does not become final");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // The tracker learns of the last block shortly after its requests are final.
    let mut attempts = 0;
    while registry.statistics().open_requests > 0 {
        attempts += 1;
        assert!(attempts < 10_000, "a request that was not accepted stays open");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The seeds to play: so many as the variable says, or the default number.
fn seeds(variable: &str, default: u64) -> Range<u64> {
    let first = number_from_environment("SELFSAME_SIMULATION_SEED", 1);
    first..first + number_from_environment(variable, default)
}

/// Plays these seeds, and prints what was played. Each play returns how many things succeeded: with
/// fewer than `least` in a history on average, the histories would show nothing.
fn play_and_count(kind: &str, seeds: Range<u64>, least: u64, play: impl Fn(&mut Simulation) -> u64 + Sync) {
    let histories = seeds.end - seeds.start;
    let succeeded = AtomicU64::new(0);
    let played = play_seeds(seeds, |simulation| {
        succeeded.fetch_add(play(simulation), Ordering::Relaxed);
    });
    let succeeded = succeeded.into_inner();
    println!("{kind}: {played}, {succeeded} successes");
    assert!(succeeded >= least * histories, "only {succeeded} successes in {histories} histories of {kind}");
}

/// Asserts that these seeds repeat their histories, event by event.
fn check_repeats<T>(seeds: impl IntoIterator<Item = u64>, play: impl Fn(&mut Simulation) -> T) {
    for seed in seeds {
        let events = || {
            let mut simulation = Simulation::from_seed(seed);
            play(&mut simulation);
            simulation.events()
        };
        let (first, second) = (events(), events());
        let differs = (0..first.len().max(second.len())).find(|index| first.get(*index) != second.get(*index));
        if let Some(index) = differs {
            let before = &first[index.saturating_sub(10)..index];
            let (first, second) = (first.get(index), second.get(index));
            panic!("seed {seed} does not repeat: {first:?} and {second:?}, after {before:#?}");
        }
    }
}
