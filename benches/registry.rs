//! The cost of the registry's rules, beside that of the primitives that they need.
//!
//! Criterion measures each line. The table at the end compares it with its yardstick, so that a
//! result means the same on every machine: a multiple of the bare hash, the bare signature
//! recovery, or both. docs/benchmarks-parts.md explains the lines.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark ends when a step fails"
)]

mod machine;

use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ark_bn254::Fr;
use criterion::Criterion;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::{LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::json::from_object;
use selfsame_protocol::ledger::{
    Block, Entry, MemoryRegistry, RequestId, Seal, apply_block, recover_signer, recover_signers,
};
use selfsame_protocol::registry::{CreateAccount, InsertAuthenticator, Operation, RuleParameters};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Node, hash_pair, hash_pairs, inclusion_path, node, update};
use selfsame_protocol::{Address, B256, U256, keccak256};
use selfsame_wallet::keys::{Authenticator, AuthenticatorKey};
use selfsame_wallet::operations::{AccountState, create_account};

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(0xcf) };

/// Operations in a block: the default limit of the daemon.
const BLOCK: u64 = 1024;

fn main() {
    // `cargo test --benches` passes no `--bench`; there is nothing to test here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    machine::print();
    let mut benchmarks = Benchmarks::new();
    primitives(&mut benchmarks);
    tree(&mut benchmarks);
    blocks(&mut benchmarks);
    bodies(&mut benchmarks);
    benchmarks.criterion.final_summary();
    benchmarks.print_table();
}

/// Criterion, and the table that this program adds to it.
struct Benchmarks {
    criterion: Criterion,
    primitives: Primitives,
    lines: Vec<Line>,
}

/// A line of the table.
struct Line {
    name: &'static str,
    yardstick: Yardstick,
    samples: Vec<Sample>,
}

/// The least possible cost of a line, as numbers of the primitives.
#[derive(Clone, Copy)]
struct Yardstick {
    hashes: u32,
    recoveries: u32,
}

/// A measured time, and its yardstick's time measured directly after it.
#[derive(Clone, Copy)]
struct Sample {
    measured: Duration,
    yardstick: Duration,
}

impl Benchmarks {
    fn new() -> Self {
        let criterion = Criterion::default()
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_millis(1200))
            .sample_size(10)
            .nresamples(10_000)
            .without_plots()
            .configure_from_args();
        Self { criterion, primitives: Primitives::new(), lines: Vec::new() }
    }

    /// Measures `routine`. The yardstick is measured again in each sample, so that a change of the
    /// machine's speed affects both.
    fn compare<T>(&mut self, name: &'static str, yardstick: Yardstick, mut routine: impl FnMut() -> T) {
        let Self { criterion, primitives, lines } = self;
        let mut samples = Vec::new();
        criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let elapsed = time(iterations, &mut routine);
                let measured = elapsed.div_f64(iterations as f64);
                samples.push(Sample { measured, yardstick: primitives.cost(yardstick) });
                elapsed
            });
        });
        // The samples are empty when the command line's filter excludes the line.
        if !samples.is_empty() {
            lines.push(Line { name, yardstick, samples });
        }
    }

    fn print_table(&self) {
        println!("{:<36}{:>12}   {:<30}{:>12}{:>8}", "", "measured", "yardstick", "", "ratio");
        for Line { name, yardstick, samples } in &self.lines {
            let measured = median(samples.iter().map(|sample| sample.measured.as_secs_f64()));
            let cost = median(samples.iter().map(|sample| sample.yardstick.as_secs_f64()));
            let ratio = median(samples.iter().map(|sample| sample.measured.div_duration_f64(sample.yardstick)));
            let measured = format!("{:.2?}", Duration::from_secs_f64(measured));
            match yardstick.to_string() {
                nothing if nothing.is_empty() => println!("{name:<36}{measured:>12}"),
                what => {
                    let cost = format!("{:.2?}", Duration::from_secs_f64(cost));
                    println!("{name:<36}{measured:>12}   {what:<30}{cost:>12}{ratio:>8.2}");
                }
            }
        }
    }
}

impl Yardstick {
    const NONE: Self = Self { hashes: 0, recoveries: 0 };

    fn hashes(count: usize) -> Self {
        Self { hashes: count as u32, ..Self::NONE }
    }
}

impl fmt::Display for Yardstick {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let parts = [(self.hashes, "hash", "hashes"), (self.recoveries, "recovery", "recoveries")];
        let parts = parts.iter().filter(|(count, ..)| *count > 0);
        let texts: Vec<_> =
            parts.map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many })).collect();
        formatter.write_str(&texts.join(", "))
    }
}

/// The primitives that every registry of this kind needs: the bare permutation and the bare
/// signature recovery.
struct Primitives {
    words: [Fr; 2],
    digest: B256,
    signature: alloy_primitives::Signature,
}

impl Primitives {
    fn new() -> Self {
        let insert = &signed_inserts(&keys(1))[0];
        let digest = DOMAIN.signing_digest(insert).expect("an insert is signed");
        let signature = insert.signature().expect("an insert is signed");
        let signature = alloy_primitives::Signature::from_raw(&signature.0).expect("a signature");
        Self { words: [Fr::from(1u64), Fr::from(2u64)], digest, signature }
    }

    /// Measures a yardstick: the time that its primitives take now.
    fn cost(&self, yardstick: Yardstick) -> Duration {
        let Yardstick { hashes, recoveries } = yardstick;
        let each = |count: u32, repeated: u64, total: Duration| total.div_f64(repeated as f64) * count;
        let hashing = if hashes > 0 { each(hashes, 64, time(64, || self.hash())) } else { Duration::ZERO };
        let recovering = if recoveries > 0 { each(recoveries, 4, time(4, || self.recover())) } else { Duration::ZERO };
        hashing + recovering
    }

    fn hash(&self) -> [Fr; 2] {
        let mut state = black_box(self.words);
        taceo_poseidon2::bn254::t2::permutation_in_place(&mut state);
        state
    }

    fn recover(&self) -> bool {
        self.signature.recover_from_prehash(black_box(&self.digest)).is_ok()
    }
}

fn time<T>(iterations: u64, mut routine: impl FnMut() -> T) -> Duration {
    let started = Instant::now();
    for _ in 0..iterations {
        black_box(routine());
    }
    started.elapsed()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Measures the node hash, alone and of many pairs, and the recovery of an operation's signer.
fn primitives(benchmarks: &mut Benchmarks) {
    let (left, right) = (leaf(1), leaf(2));
    benchmarks.compare("node hash", Yardstick::hashes(1), || hash_pair(black_box(&left), &right));
    let pairs: Vec<_> = (0..1024).map(|number| [scatter(2 * number), scatter(2 * number + 1)].map(leaf)).collect();
    let batches = [
        ("batch of 1 pair", 1),
        ("batch of 8 pairs", 8),
        ("batch of 16 pairs", 16),
        ("batch of 64 pairs", 64),
        ("batch of 1024 pairs", 1024),
    ];
    for (name, count) in batches {
        benchmarks.compare(name, Yardstick::hashes(count), || hash_pairs(black_box(&pairs[..count])));
    }
    let insert = &signed_inserts(&keys(1))[0];
    let recovery = Yardstick { recoveries: 1, ..Yardstick::NONE };
    benchmarks.compare("digest and signer of an insert", recovery, || recover_signer(black_box(insert), &DOMAIN));
}

/// Measures batches of leaves and inclusion paths, over pages in memory.
fn tree(benchmarks: &mut Benchmarks) {
    let mut registry = MemoryRegistry::default();
    let Ok(first) = update(&registry, &leaves(1..=16_384));
    registry.pages.extend(first.pages);

    let batches = [
        ("change 1 leaf", leaves([77])),
        ("append 64 leaves", leaves(16_385..16_385 + 64)),
        ("append 1024 leaves", leaves(16_385..16_385 + 1024)),
        ("append 16384 leaves", leaves(16_385..16_385 + 16_384)),
        // The cost does not depend on a page's contents, so the other leaves of the million can be
        // absent.
        ("1024 leaves among the first million", leaves((0..1024).map(|step| scatter(step) % (1 << 20)))),
    ];
    for (name, leaves) in batches {
        let Ok(done) = update(&registry, &leaves);
        benchmarks.compare(name, Yardstick::hashes(done.hashes), || update(&registry, black_box(&leaves)));
    }
    benchmarks.compare("inclusion path", Yardstick::NONE, || inclusion_path(&registry, black_box(LeafIndex(4711))));
}

/// Measures blocks of [`BLOCK`] operations, applied in memory.
fn blocks(benchmarks: &mut Benchmarks) {
    let keys = keys(BLOCK);
    let created = block(&Seal::default(), keys.iter().map(|key| create(key.authenticator())));
    let signers = recover_signers(&created.entries, &DOMAIN);
    let mut registry = MemoryRegistry::default();
    let yardstick = Yardstick::hashes(hashes_of(&registry, 1..=BLOCK));
    benchmarks.compare("apply 1024 creates", yardstick, || {
        apply_block(black_box(&created), &signers, &registry, &registry.tip)
    });

    registry.apply(&created, &DOMAIN);
    let inserted = block(&registry.tip.seal, signed_inserts(&keys));
    let hashes = Yardstick::hashes(hashes_of(&registry, 1..=BLOCK));
    let yardstick = Yardstick { recoveries: BLOCK as u32, ..hashes };
    benchmarks.compare("apply 1024 inserts, one core", yardstick, || {
        let signers = recover_signers(black_box(&inserted.entries), &DOMAIN);
        apply_block(&inserted, &signers, &registry, &registry.tip)
    });
}

/// Measures the reading of request bodies.
fn bodies(benchmarks: &mut Benchmarks) {
    let key = &keys(1)[0];
    let create = serde_json::to_vec(&create(key.authenticator())).expect("JSON");
    benchmarks
        .compare("read a create-account body", Yardstick::NONE, || from_object::<CreateAccount>(black_box(&create)));
    let insert = serde_json::to_vec(&signed_inserts(std::slice::from_ref(key))[0]).expect("JSON");
    benchmarks.compare("read an insert-authenticator body", Yardstick::NONE, || {
        from_object::<InsertAuthenticator>(black_box(&insert))
    });
}

fn hashes_of(registry: &MemoryRegistry, changed: impl IntoIterator<Item = u64>) -> usize {
    let Ok(done) = update(registry, &leaves(changed));
    done.hashes
}

fn leaves(indices: impl IntoIterator<Item = u64>) -> BTreeMap<LeafIndex, Node> {
    indices.into_iter().map(|index| (LeafIndex(index), leaf(scatter(index)))).collect()
}

fn leaf(value: u64) -> Node {
    node(U256::from(value))
}

/// A number without a pattern, the same in every run.
fn scatter(number: u64) -> u64 {
    U256::from_be_bytes(keccak256(number.to_be_bytes()).0).as_limbs()[0]
}

fn keys(count: u64) -> Vec<AuthenticatorKey> {
    let mut seed = B256::ZERO;
    let mut next = |bytes: &mut [u8; 32]| {
        seed = keccak256(seed);
        *bytes = seed.0;
    };
    (0..count).map(|_| AuthenticatorKey::generate(&mut next).expect("a key")).collect()
}

fn create(authenticator: Authenticator) -> Operation {
    create_account(&[authenticator], Address::ZERO).operation
}

/// An operation for each key that adds a second authenticator. `keys[0]` is the authenticator of
/// the account with leaf index 1, and so on.
fn signed_inserts(keys: &[AuthenticatorKey]) -> Vec<Operation> {
    let insert = |(leaf_index, key): (u64, &AuthenticatorKey)| {
        let own = key.authenticator();
        let address = Address::from_word(keccak256(own.address));
        let account = AccountState::new(LeafIndex(leaf_index), vec![Some(own)], Nonce(U256::ZERO));
        let step =
            account.insert(&DOMAIN, key, Authenticator { address, ..own }, PubkeyId(1)).expect("a good operation");
        step.operation
    };
    (1..).zip(keys).map(insert).collect()
}

fn block(previous: &Seal, operations: impl IntoIterator<Item = Operation>) -> Block {
    let entry = |(number, operation): (u128, Operation)| Entry {
        request_id: RequestId::from_random(number.to_be_bytes()),
        operation,
    };
    let entries = (0..).zip(operations).map(entry).collect();
    Block::seal(previous, DOMAIN, UnixSeconds(1_782_864_000), RuleParameters::default(), entries)
}
