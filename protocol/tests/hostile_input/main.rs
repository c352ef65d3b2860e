//! Input that any client may send, and records that may be damaged: no parser of the crate panics,
//! hangs, or uses more memory than a multiple of its input, and every accepted value has the
//! properties of its type.
//!
//! | module | input | properties, in short |
//! |---|---|---|
//! | [`records`] | binary records | values round-trip; any bytes are rejected or canonical; claimed lengths reserve no memory |
//! | [`numbers`] | texts of fixed form | the same results as a second reader, written from the description |
//! | [`bodies`] | JSON of gateway and indexer | rejected or stable; requests mean what a second reader finds; no key occurs twice |
//! | [`verification`] | verification requests | rejected or within bounds; a changed request proves nothing else |
//! | [`proofs`] | Groth16 points, proofs, keys | one spelling each; only recorded proofs hold |
//! | [`signing`] | signatures, typed data, keys | one signer of the signed operation; digests by the definition; one number for a key |
//! | [`tree`] | pages and inclusion paths | any content works; a changed path leads to another root |
//! | [`ledger`] | blocks, paths, receipts, signed heads, traces | a changed value does not follow or verify; any block can be applied |
//! | [`sign_in`] | forms, authorization requests, responses | redirects go only to a registered URI |
//! | [`sizes`] | all of the above | time and memory in proportion to the input |
//!
//! There are 355 properties. With 256 cases for each property, these are 90 880 cases.
//! `PROPTEST_CASES` sets another number of cases; 3000 give a million cases, which take a minute
//! and a half on one processor in the release profile. A failing property prints its smallest case.
//!
//! [`samples`] generates valid values, [`damage`] and [`json`] change them, and [`memory`] measures
//! memory.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

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

/// `PROPTEST_CASES` cases for each property, 256 by default. The smallest failing case is printed;
/// no file is written.
fn cases() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

/// A value of any type. The properties that exist for many types run as properties of this trait
/// object, because proptest's runner is large and would be compiled again for each type.
trait AnyValue: Any + Debug {}

impl<Value: Any + Debug> AnyValue for Value {}

/// Checks a property for generated values. It does what `proptest!` does, for properties that exist
/// for many types.
fn check_property<Value: Any + Debug>(
    values: BoxedStrategy<Value>,
    property: impl Fn(Value) -> Result<(), TestCaseError>,
) {
    let property = |value: Box<dyn AnyValue>| {
        let value: Box<dyn Any> = value;
        property(*value.downcast::<Value>().expect("a value of the strategy"))
    };
    run(values.prop_map(|value| Box::new(value) as Box<dyn AnyValue>).boxed(), &property);
}

fn run(values: BoxedStrategy<Box<dyn AnyValue>>, property: &dyn Fn(Box<dyn AnyValue>) -> Result<(), TestCaseError>) {
    if let Err(error) = TestRunner::new(cases()).run(&values, property) {
        panic!("{error}");
    }
}
