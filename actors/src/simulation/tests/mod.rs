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
//! `TEST_SIMULATION_HISTORIES`, `TEST_SHARED_LEDGER_HISTORIES`,
//! `TEST_VERIFICATION_HISTORIES`, `TEST_SIGN_IN_HISTORIES` and `TEST_CLUSTER_HISTORIES`
//! are the numbers of histories. The first seed is `TEST_SIMULATION_SEED`, without it
//! `TEST_SEED`, which is the seed of all random tests, and without that 1. The seeds of
//! `failed_seeds.txt` are played in addition.

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

/// Seeds that have found a mistake: lines of a kind, a seed, and as a comment what it found.
const FAILED_SEEDS: &str = include_str!("failed_seeds.txt");

/// How many histories of each kind are played, unless the kind's variable says otherwise.
const HISTORIES: u64 = 150;

/// The kinds of histories, by their modules.
const KINDS: [&str; 5] = ["registry", "shared_ledger", "verification", "sign_in", "cluster"];

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

/// The seeds of this kind in a text like [`FAILED_SEEDS`].
fn failed_seeds(kind: &str, text: &str) -> Vec<u64> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let seed = |line: &str| {
        let (of, seed) = line.split_once(' ').filter(|(of, _)| KINDS.contains(of))?;
        Some((of == kind, seed.trim().parse().ok()?))
    };
    let seeds = lines.filter(|line| !line.is_empty());
    let seeds = seeds.map(|line| seed(line).unwrap_or_else(|| panic!("{line:?} is not a kind and a seed")));
    seeds.filter_map(|(is_of_kind, seed)| is_of_kind.then_some(seed)).collect()
}

/// Plays the histories of a kind, as many as `variable` says, and returns their number. Each play
/// returns how many things succeeded: with fewer than `least` in a history on average, the
/// histories would show nothing.
fn play_and_count(kind: &str, variable: &str, least: u64, play: impl Fn(&mut Simulation) -> u64 + Sync) -> u64 {
    for seed in failed_seeds(kind, FAILED_SEEDS) {
        play_seeds(seed..seed + 1, |simulation| {
            play(simulation);
        });
    }
    let first = number_from_environment("TEST_SIMULATION_SEED").or_else(|| number_from_environment("TEST_SEED"));
    let (first, histories) = (first.unwrap_or(1), number_from_environment(variable).unwrap_or(HISTORIES));
    println!("{kind}: the first seed is {first}. TEST_SIMULATION_SEED=… {variable}=1 plays one seed");
    let succeeded = AtomicU64::new(0);
    let played = play_seeds(first..first + histories, |simulation| {
        succeeded.fetch_add(play(simulation), Ordering::Relaxed);
    });
    let succeeded = succeeded.into_inner();
    println!("{kind}: {played}, {succeeded} successes");
    assert!(succeeded >= least * histories, "only {succeeded} successes in {histories} histories of {kind}");
    histories
}

#[test]
fn the_seeds_that_failed_are_read() {
    let text = "# a comment\n\nregistry 7  # a lost request\nsign_in 8\nregistry 9\n";
    assert_eq!(failed_seeds("registry", text), [7, 9]);
    assert_eq!(failed_seeds("sign_in", text), [8]);
    assert_eq!(failed_seeds("cluster", text), [0_u64; 0]);
    for wrong in ["7", "registry", "registry seven", "people 7"] {
        std::panic::catch_unwind(|| failed_seeds("registry", wrong)).expect_err(wrong);
    }
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
