//! The metrics of what is followed from chains.

use super::sink::Reporter;
use crate::chain::status::{ChainStatus, SourceData, SourceStatus};

/// Reports them.
pub(super) fn report(chains: &[ChainStatus], reporter: &mut Reporter<'_>) {
    let sources: Vec<&SourceStatus> = chains.iter().flat_map(|chain| &chain.sources).collect();
    let ages = |age: fn(&SourceStatus) -> Option<u64>| {
        sources.iter().filter_map(move |source| Some(([("source", source.name.as_str())], age(source)?)))
    };
    let help = "Age of the last block at which a contract's data was complete";
    reporter.gauges("selfsame_chain_confirmed_age_seconds", help, ages(|source| source.confirmed_seconds_ago));
    let help = "Age of a contract's newest root";
    reporter.gauges("selfsame_chain_newest_root_age_seconds", help, ages(newest_root_age));
    let flags = |flag: fn(&SourceStatus) -> bool| {
        sources.iter().map(move |source| ([("source", source.name.as_str())], u64::from(flag(source))))
    };
    let help = "1 while a contract's data is unread or too old, so that proofs are refused";
    reporter.gauges("selfsame_chain_stale", help, flags(|source| !source.is_usable()));
    let help = "1 while the last look at a contract failed";
    reporter.gauges("selfsame_chain_failing", help, flags(|source| source.failure.is_some()));
    let help = "1 while a contract runs code that was not accepted";
    reporter.gauges("selfsame_chain_alarm", help, flags(|source| source.alarm.is_some()));
    let reorganizations = sources.iter().map(|source| ([("source", source.name.as_str())], source.reorganizations));
    reporter.counters("selfsame_chain_reorganizations", "Reorganizations that were followed", reorganizations);
}

fn newest_root_age(source: &SourceStatus) -> Option<u64> {
    match source.data {
        SourceData::Roots { newest_root_seconds_ago, .. } => newest_root_seconds_ago,
        _ => None,
    }
}
