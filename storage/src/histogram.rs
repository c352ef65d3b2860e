//! Histograms: how often values fell into ranges, since the start. Recording takes no lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Upper bounds, in seconds, for steps of the registry: from a fraction of a sync to a stuck disk.
pub const STEP_SECONDS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Upper bounds for how many things were done together.
pub const GROUP_SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0];

/// Counts of values by ranges with fixed upper bounds, and their sum. Clones share them. That of
/// `prometheus-client` has a lock, and cannot be read.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counted: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    /// One more than the bounds: the last is for values above all of them.
    counts: Vec<AtomicU64>,
    /// The bits of the sum, an `f64`.
    sum: AtomicU64,
}

/// What a [`Histogram`] had counted at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    /// Each upper bound (inclusive; the last one is infinity) with the number of values above the
    /// bound before it.
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all values.
    pub sum: f64,
    /// The number of all values.
    pub count: u64,
}

impl Histogram {
    /// An empty histogram. `bounds` are upper bounds in ascending order, inclusive.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counted: Arc::new(Counted { counts, sum: AtomicU64::new(0) }) }
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counted.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // The update fails only when its function returns `None`.
        _ = self.counted.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Counts a time, in seconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// The present counts. A value that is counted at the same time may be missing in the sum.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.counted.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        HistogramSnapshot { buckets, sum: f64::from_bits(self.counted.sum.load(Ordering::Relaxed)), count }
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let HistogramSnapshot { buckets, sum, count } = self.snapshot();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl HistogramSnapshot {
    /// What was counted since an earlier snapshot of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let differences = std::iter::zip(&self.buckets, &earlier.buckets);
        let buckets = differences.map(|((bound, now), (_, before))| (*bound, now.saturating_sub(*before))).collect();
        Self { buckets, sum: self.sum - earlier.sum, count: self.count.saturating_sub(earlier.count) }
    }

    /// The value that this share of the values does not exceed, as if the values of a bucket were
    /// spread evenly over it; of the last bucket, its lower bound. `None` when nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = share.clamp(0.0, 1.0) * self.count as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (upper, count) in self.buckets.iter().filter(|_| self.count > 0) {
            let count = *count as f64;
            if count > 0.0 && below + count >= wanted {
                let is_last = upper.is_infinite();
                return Some(if is_last { lower } else { lower + (upper - lower) * (wanted - below) / count });
            }
            (below, lower) = (below + count, *upper);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_below_the_first_bound_that_it_does_not_exceed() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        assert_eq!(histogram.snapshot().count, 0);
        for value in [0.0, 1.0, 1.5, 2.0, 2.5, 100.0] {
            histogram.observe(value);
        }
        let expected = vec![(1.0, 2), (2.0, 2), (f64::INFINITY, 2)];
        assert_eq!(histogram.snapshot(), HistogramSnapshot { buckets: expected, sum: 107.0, count: 6 });
    }

    #[test]
    fn quantiles_are_interpolated_within_a_bucket() {
        let histogram = Histogram::new(&[1.0, 2.0, 4.0]);
        assert_eq!(histogram.snapshot().quantile(0.5), None);
        (0..10).for_each(|_| histogram.observe(1.5));
        let before = histogram.snapshot();
        for (share, expected) in [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0)] {
            assert_eq!(before.quantile(share), Some(expected), "{share}");
        }
        (0..10).for_each(|_| histogram.observe(3.0));
        histogram.observe(100.0);
        let after = histogram.snapshot().since(&before);
        assert_eq!((after.count, after.sum), (11, 130.0));
        assert_eq!(after.quantile(0.5), Some(2.0 + 2.0 * 5.5 / 10.0));
        assert_eq!(after.quantile(1.0), Some(4.0), "the last bucket has no upper bound");
    }

    #[test]
    fn values_of_many_threads_are_all_counted() {
        let histogram = Histogram::new(GROUP_SIZES);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| histogram.observe(3.0)));
            }
        });
        let HistogramSnapshot { sum, count, .. } = histogram.snapshot();
        assert_eq!((sum, count), (12_000.0, 4000));
    }
}
