//! What a stranger may send, and what a damaged record may hold: no parser of the crate panics, hangs, or takes more
//! memory than its input deserves, and each keeps its laws for whatever it lets through.
//!
//! | module | of what | the laws, in short |
//! |---|---|---|
//! | [`records`] | binary records | values come back; any bytes are refused or canonical; claimed lengths cost nothing |
//! | [`numbers`] | texts of fixed form | the same as a second reader, written from the description |
//! | [`bodies`] | JSON of gateway and indexer | refused or stable; requests mean what a second reader finds; no key twice |
//! | [`verification`] | verification requests | judged within bounds; a changed request proves nothing else |
//! | [`proofs`] | Groth16 points, proofs, keys | one spelling each; nothing but what was recorded holds |
//! | [`signing`] | signatures, typed data, keys | one signer, of what was signed; digests by the definition; one number a key |
//! | [`tree`] | pages and inclusion paths | any content works; a changed path leads elsewhere |
//! | [`ledger`] | blocks, paths, receipts, traces | a changed one does not follow, hold or verify; any block can be applied |
//! | [`sign_in`] | forms, authorization requests, responses | nobody is sent anywhere but to a registered URI |
//! | [`sizes`] | all of them | time and memory in proportion to the input |
//!
//! There are 347 properties. With 256 cases of each these are 88 832 cases; `PROPTEST_CASES` sets another number, and
//! 3000 make a million in a minute and a half of one processor, optimized. A failing property prints its smallest
//! case.
//!
//! [`samples`] makes valid values up, [`damage`] and [`json`] spoil them, [`memory`] counts.

mod bodies;
mod damage;
mod json;
mod ledger;
mod memory;
mod numbers;
mod proofs;
mod records;
mod samples;
mod sign_in;
mod signing;
mod sizes;
mod tree;
mod verification;

use std::any::Any;
use std::fmt::Debug;

use proptest::prelude::{BoxedStrategy, Strategy};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// `PROPTEST_CASES` cases a property, 256 where it is not set. The smallest failing case is printed; no file is
/// written.
fn cases() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

/// Any value. Properties that are made for many types are run as properties of this one: proptest's runner is large,
/// and would be compiled again for each.
trait Shown: Any + Debug {}

impl<Value: Any + Debug> Shown for Value {}

/// Requires a law of all values, in as many cases: what `proptest!` does, for properties that are made for many
/// types.
fn always<Value: Any + Debug>(values: BoxedStrategy<Value>, law: impl Fn(Value) -> Result<(), TestCaseError>) {
    let law = |value: Box<dyn Shown>| {
        let value: Box<dyn Any> = value;
        law(*value.downcast::<Value>().expect("a value of the strategy"))
    };
    run(values.prop_map(|value| Box::new(value) as Box<dyn Shown>).boxed(), &law);
}

fn run(values: BoxedStrategy<Box<dyn Shown>>, law: &dyn Fn(Box<dyn Shown>) -> Result<(), TestCaseError>) {
    if let Err(error) = TestRunner::new(cases()).run(&values, law) {
        panic!("{error}");
    }
}
