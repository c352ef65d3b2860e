//! What the registry's rules cost, beside the primitives that they cannot do without.
//!
//! Criterion measures each line; the table at the end sets it against its yardstick, so that a result means the same on every
//! machine: how many times the bare hash, the bare signature recovery, or both. docs/benchmarks.md explains the lines.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ark_bn254::Fr;
use criterion::Criterion;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::json::from_object;
use selfsame_protocol::ledger::{
    Block, Entry, MemoryRegistry, RequestId, Seal, apply_block, recover_signer, recover_signers,
};
use selfsame_protocol::registry::{CreateAccount, InsertAuthenticator, Operation, RuleParameters};
use selfsame_protocol::tree::{Node, hash_pair, inclusion_path, node, update};
use selfsame_protocol::{Address, B256, U256, keccak256};
use selfsame_wallet::keys::{Authenticator, AuthenticatorKey};
use selfsame_wallet::operations::{AccountState, create_account};

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(0xcf) };

/// Operations in a block, as many as the daemon's default allows.
const BLOCK: u64 = 1024;

fn main() {
    // `cargo test --benches` runs this program too, without the argument: there is nothing to test here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let mut benchmarks = Benchmarks::new();
    let primitives = Primitives::measure(&mut benchmarks);
    tree(&mut benchmarks, &primitives);
    blocks(&mut benchmarks, &primitives);
    bodies(&mut benchmarks);
    benchmarks.criterion.final_summary();
    benchmarks.print_table();
}

/// Criterion, and the table that it does not make.
struct Benchmarks {
    criterion: Criterion,
    lines: Vec<Line>,
}

/// A line of the table: what was measured, and what it is compared with.
struct Line {
    name: &'static str,
    measured: Duration,
    yardstick: Option<Yardstick>,
}

/// The least that something could cost.
struct Yardstick {
    what: String,
    cost: Duration,
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
        Self { criterion, lines: Vec::new() }
    }

    /// Measures `routine`; the answer is the time of its fastest sample, the one that was disturbed least. `None` when the
    /// command line leaves this benchmark out.
    fn measure<T>(&mut self, name: &'static str, mut routine: impl FnMut() -> T) -> Option<Duration> {
        let fastest = Cell::new(None::<Duration>);
        self.criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let started = Instant::now();
                for _ in 0..iterations {
                    black_box(routine());
                }
                let elapsed = started.elapsed();
                let once = elapsed / u32::try_from(iterations).unwrap_or(u32::MAX);
                fastest.set(Some(fastest.get().map_or(once, |before| before.min(once))));
                elapsed
            });
        });
        fastest.get()
    }

    /// Measures `routine` for the table, beside a yardstick if there is one.
    fn compare<T>(&mut self, name: &'static str, yardstick: Option<Yardstick>, routine: impl FnMut() -> T) {
        if let Some(measured) = self.measure(name, routine) {
            self.lines.push(Line { name, measured, yardstick });
        }
    }

    fn print_table(&self) {
        println!("{:<36}{:>12}   {:<40}{:>12}{:>8}", "", "measured", "yardstick", "", "ratio");
        for Line { name, measured, yardstick } in &self.lines {
            let measured_text = format!("{measured:.2?}");
            match yardstick {
                None => println!("{name:<36}{measured_text:>12}"),
                Some(Yardstick { what, cost }) => {
                    let ratio = measured.as_secs_f64() / cost.as_secs_f64();
                    let cost = format!("{cost:.2?}");
                    println!("{name:<36}{measured_text:>12}   {what:<40}{cost:>12}{ratio:>8.2}");
                }
            }
        }
    }
}

/// The costs that no registry of this kind gets around. `None` when the command line leaves them out.
struct Primitives {
    hash: Option<Duration>,
    recovery: Option<Duration>,
}

impl Primitives {
    fn measure(benchmarks: &mut Benchmarks) -> Self {
        let mut state = [Fr::from(1u64), Fr::from(2u64)];
        let hash = benchmarks.measure("bare Poseidon2 permutation", || {
            taceo_poseidon2::bn254::t2::permutation_in_place(&mut state);
            state[0]
        });

        let insert = &signed_inserts(&keys(1))[0];
        let digest = DOMAIN.signing_digest(insert).expect("an insert is signed");
        let signature = insert.signature().expect("an insert is signed");
        let signature = alloy_primitives::Signature::from_raw(&signature.0).expect("a signature");
        let recovery = benchmarks.measure("bare signature recovery", || signature.recover_from_prehash(&digest));

        let primitives = Self { hash, recovery };
        let (left, right) = (leaf(1), leaf(2));
        benchmarks.compare("node hash", primitives.hashes(1), || hash_pair(black_box(&left), &right));
        let yardstick = primitives.recovery.map(|cost| Yardstick { what: "1 recovery".to_owned(), cost });
        benchmarks.compare("digest and signer of an insert", yardstick, || recover_signer(black_box(insert), &DOMAIN));
        primitives
    }

    fn hashes(&self, count: usize) -> Option<Yardstick> {
        let cost = self.hash? * u32::try_from(count).ok()?;
        let what = if count == 1 { "1 hash".to_owned() } else { format!("{count} hashes") };
        Some(Yardstick { what, cost })
    }

    fn hashes_and_recoveries(&self, hashes: usize, recoveries: u32) -> Option<Yardstick> {
        let Yardstick { what, cost } = self.hashes(hashes)?;
        let what = format!("{what}, {recoveries} recoveries");
        Some(Yardstick { what, cost: cost + self.recovery? * recoveries })
    }
}

/// Batches of leaves and inclusion paths, over pages in memory.
fn tree(benchmarks: &mut Benchmarks, primitives: &Primitives) {
    let mut registry = MemoryRegistry::default();
    let Ok(first) = update(&registry, &leaves(1..=16_384));
    registry.pages.extend(first.pages);

    let batches = [
        ("change 1 leaf", leaves([77])),
        ("append 64 leaves", leaves(16_385..16_385 + 64)),
        ("append 1024 leaves", leaves(16_385..16_385 + 1024)),
        ("append 16384 leaves", leaves(16_385..16_385 + 16_384)),
        // What is in a page costs nothing, so the million leaves between which these lie need not be there.
        ("1024 leaves among the first million", leaves((0..1024).map(|step| scattered(step) % (1 << 20)))),
    ];
    for (name, leaves) in batches {
        let Ok(done) = update(&registry, &leaves);
        benchmarks.compare(name, primitives.hashes(done.hashes), || update(&registry, black_box(&leaves)));
    }
    benchmarks.compare("inclusion path", None, || inclusion_path(&registry, black_box(4711)));
}

/// Blocks of a thousand operations, applied in memory.
fn blocks(benchmarks: &mut Benchmarks, primitives: &Primitives) {
    let keys = keys(BLOCK);
    let created = block(&Seal::default(), keys.iter().map(|key| create(key.authenticator())));
    let signers = recover_signers(&created.entries, &DOMAIN);
    let mut registry = MemoryRegistry::default();
    let yardstick = primitives.hashes(hashes_of(&registry, 1..=BLOCK));
    benchmarks.compare("apply 1024 creates", yardstick, || {
        apply_block(black_box(&created), &signers, &registry, &registry.tip)
    });

    registry.apply(&created, &DOMAIN);
    let inserted = block(&registry.tip.seal, signed_inserts(&keys));
    let yardstick = primitives.hashes_and_recoveries(hashes_of(&registry, 1..=BLOCK), BLOCK as u32);
    benchmarks.compare("apply 1024 inserts, one core", yardstick, || {
        let signers = recover_signers(black_box(&inserted.entries), &DOMAIN);
        apply_block(&inserted, &signers, &registry, &registry.tip)
    });
}

/// Request bodies.
fn bodies(benchmarks: &mut Benchmarks) {
    let key = &keys(1)[0];
    let create = serde_json::to_vec(&create(key.authenticator())).expect("JSON");
    benchmarks.compare("read a create-account body", None, || from_object::<CreateAccount>(black_box(&create)));
    let insert = serde_json::to_vec(&signed_inserts(std::slice::from_ref(key))[0]).expect("JSON");
    benchmarks
        .compare("read an insert-authenticator body", None, || from_object::<InsertAuthenticator>(black_box(&insert)));
}

fn hashes_of(registry: &MemoryRegistry, changed: impl IntoIterator<Item = u64>) -> usize {
    let Ok(done) = update(registry, &leaves(changed));
    done.hashes
}

fn leaves(indices: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Node> {
    indices.into_iter().map(|index| (index, leaf(scattered(index)))).collect()
}

fn leaf(value: u64) -> Node {
    node(U256::from(value))
}

/// The same numbers in every run, without a pattern.
fn scattered(number: u64) -> u64 {
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

/// An authenticator for each account; `keys[0]` is the authenticator of the account with leaf index 1, and so on.
fn signed_inserts(keys: &[AuthenticatorKey]) -> Vec<Operation> {
    let insert = |(leaf_index, key): (u64, &AuthenticatorKey)| {
        let own = key.authenticator();
        let address = Address::from_word(keccak256(own.address));
        let account = AccountState::new(leaf_index, vec![Some(own)], U256::ZERO);
        let step = account.insert(&DOMAIN, key, Authenticator { address, ..own }, 1).expect("a good operation");
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
    Block::seal(previous, 1_782_864_000, RuleParameters::default(), entries)
}
