//! Prometheus's text format 0.0.4, made of the OpenMetrics format.
//!
//! The formats differ in what describes a metric. In the older one a counter has its whole name in
//! the description too, with `_total`, and there are neither units nor an end mark.

use std::collections::HashSet;
use std::fmt::Write;

/// The same samples in the text format.
pub fn prometheus(open_metrics: &str) -> String {
    let type_of = |line: &'_ str| -> Option<(String, bool)> {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind == "counter"))
    };
    let counters: HashSet<String> =
        open_metrics.lines().filter_map(type_of).filter_map(|(name, is_counter)| is_counter.then_some(name)).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => {}
            (Some("#"), Some(what), Some(name), Some(rest)) => {
                let total = if counters.contains(name) { "_total" } else { "" };
                // Writing to a string cannot fail.
                _ = writeln!(text, "# {what} {name}{total} {rest}");
            }
            _ => _ = writeln!(text, "{line}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_their_whole_name() {
        let open_metrics = "# HELP a Things.\n# TYPE a counter\na_total{b=\"# c\"} 1\n\
                            # HELP d_seconds Time.\n# TYPE d_seconds gauge\n# UNIT d_seconds seconds\nd_seconds 2\n# EOF\n";
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{b=\"# c\"} 1\n\
                        # HELP d_seconds Time.\n# TYPE d_seconds gauge\nd_seconds 2\n";
        assert_eq!(prometheus(open_metrics), expected);
    }
}
