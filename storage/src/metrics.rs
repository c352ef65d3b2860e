//! The metrics of one service: each is registered where it is counted, and all are written
//! together.
//!
//! Owners keep the handles of what they count ([`Counter`], [`crate::Histogram`]), and add clones
//! of them here when the service starts. What an owner knows anyway, such as a height, is read when
//! the metrics are written.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
pub use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Metric, Unit};

use crate::histogram::Histogram;

/// The metrics that the owners have added; complete when the service has started.
#[derive(Default)]
pub struct Metrics {
    families: Vec<MetricFamily>,
    groups: Vec<WriteGroup>,
}

/// Writes metrics that are read from their owner.
type WriteGroup = Box<dyn Fn(&mut Samples<'_>) -> fmt::Result + Send + Sync>;

/// A metric with the series that its owners have added.
struct MetricFamily {
    name: &'static str,
    help: &'static str,
    series: Vec<Series>,
}

struct Series {
    labels: Vec<(&'static str, String)>,
    metric: Box<dyn Metric>,
}

/// The labels of one sample, as pairs of name and value.
type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl Metrics {
    /// Adds a metric. The name has its unit at the end, and that of a counter no `_total`.
    pub fn add(&mut self, name: &'static str, help: &'static str, metric: impl Metric) {
        self.add_series(name, help, [], metric);
    }

    /// Adds one of several series that differ in their labels. Different owners may add series of
    /// one metric, with the same help.
    pub fn add_series<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_, N>,
        metric: impl Metric,
    ) {
        let labels = labels.map(|(label, value)| (label, value.to_owned())).to_vec();
        let series = Series { labels, metric: Box::new(metric) };
        match self.families.iter_mut().find(|family| family.name == name) {
            Some(family) => family.series.push(series),
            None => self.families.push(MetricFamily { name, help, series: vec![series] }),
        }
    }

    /// Adds metrics that are read from their owner when they are written.
    pub fn add_group(&mut self, write: impl Fn(&mut Samples<'_>) -> fmt::Result + Send + Sync + 'static) {
        self.groups.push(Box::new(write));
    }
}

/// Metrics for a registry of `prometheus-client`. The series that several of them have of one
/// metric are written together.
#[derive(Clone)]
pub struct CollectedMetrics(pub Vec<Arc<Metrics>>);

impl fmt::Debug for CollectedMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().flat_map(|metrics| &metrics.families).map(|family| family.name);
        formatter.debug_list().entries(names).finish()
    }
}

impl Collector for CollectedMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut samples = Samples(encoder);
        let families = || self.0.iter().flat_map(|metrics| &metrics.families);
        for (place, MetricFamily { name, help, .. }) in families().enumerate() {
            if families().take(place).all(|earlier| earlier.name != *name) {
                let of_all = families().filter(|family| family.name == *name);
                samples.series(name, help, of_all.flat_map(|family| &family.series))?;
            }
        }
        self.0.iter().flat_map(|metrics| &metrics.groups).try_for_each(|write| write(&mut samples))
    }
}

/// Where metrics are written.
pub struct Samples<'a>(DescriptorEncoder<'a>);

impl Samples<'_> {
    fn series<'s>(&mut self, name: &str, help: &str, series: impl Iterator<Item = &'s Series>) -> fmt::Result {
        let mut series = series.peekable();
        let Some(first) = series.peek() else { return Ok(()) };
        let kind = EncodeMetric::metric_type(first.metric.as_ref());
        // The encoder appends the unit of a histogram to its name.
        let seconds = name.strip_suffix("_seconds").filter(|_| matches!(kind, MetricType::Histogram));
        let unit = seconds.map(|_| &Unit::Seconds);
        let mut encoder = self.0.encode_descriptor(seconds.unwrap_or(name), help, unit, kind)?;
        for Series { labels, metric } in series {
            if labels.is_empty() {
                return metric.encode(encoder);
            }
            metric.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    /// A number that only grows. The name is written with `_total` behind it.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
    }

    /// Seconds that only grow. The name is written with `_seconds_total` behind it.
    pub fn counter_of_seconds(&mut self, name: &str, help: &str, seconds: f64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, f64, u64>(&seconds, None)
    }

    /// Counters that differ in their labels.
    pub fn counters<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
    ) -> fmt::Result
    where
        Labels<'a, N>: EncodeLabelSet,
    {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
        }
        Ok(())
    }

    /// A number that grows and shrinks.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Gauges that differ in their labels.
    pub fn gauges<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a, N>, impl EncodeGaugeValue)>,
    ) -> fmt::Result
    where
        Labels<'a, N>: EncodeLabelSet,
    {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Histograms of seconds that differ in their labels. The name has no unit; it is written with
    /// `_seconds` behind it.
    pub fn histograms_of_seconds<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a, N>, &'a Histogram)>,
    ) -> fmt::Result
    where
        Labels<'a, N>: EncodeLabelSet,
    {
        let mut metric = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        values.into_iter().try_for_each(|(labels, histogram)| histogram.encode(metric.encode_family(&labels)?))
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn series_of_several_owners_are_one_metric() {
        let (mut one, mut other) = (Metrics::default(), Metrics::default());
        let (first, second): (Counter, Counter) = Default::default();
        one.add_series("refusals", "What was refused", [("limit", "a")], first.clone());
        other.add_series("refusals", "What was refused", [("limit", "b")], second.clone());
        let seconds = Histogram::new(&[1.0]);
        one.add("wait_seconds", "Time that was waited", seconds.clone());
        other.add_group(|samples| samples.gauge("height", "The height", 7_u64));
        first.inc();
        second.inc_by(2);
        seconds.observe(3.0);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(CollectedMetrics(vec![Arc::new(one), Arc::new(other)])));
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        let expected = "# HELP refusals What was refused\n# TYPE refusals counter\n\
                        refusals_total{limit=\"a\"} 1\nrefusals_total{limit=\"b\"} 2\n\
                        # HELP wait_seconds Time that was waited\n# TYPE wait_seconds histogram\n\
                        # UNIT wait_seconds seconds\nwait_seconds_sum 3.0\nwait_seconds_count 1\n\
                        wait_seconds_bucket{le=\"1.0\"} 0\nwait_seconds_bucket{le=\"+Inf\"} 1\n\
                        # HELP height The height\n# TYPE height gauge\nheight 7\n# EOF\n";
        assert_eq!(text, expected);
    }
}
