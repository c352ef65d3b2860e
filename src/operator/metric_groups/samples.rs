//! Writes the samples of metrics that are read when they are asked for.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use selfsame_actors::{HistogramSnapshot, Metric, MetricKind, MetricSample, MetricValue};

/// Where a group of metrics writes its samples.
pub(super) struct Samples<'a>(DescriptorEncoder<'a>);

/// Adds a group of metrics to `registry`: a function that writes their samples.
pub(super) fn register(
    registry: &mut Registry,
    write: impl Fn(&mut Samples<'_>) -> fmt::Result + Send + Sync + 'static,
) {
    registry.register_collector(Box::new(Group(write)));
}

struct Group<F>(F);

impl<F> fmt::Debug for Group<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Group")
    }
}

impl<F: Fn(&mut Samples<'_>) -> fmt::Result + Send + Sync + 'static> Collector for Group<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Samples(encoder))
    }
}

/// The labels of one sample, as pairs of name and value.
type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl Samples<'_> {
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

    /// A metric that the service reports.
    pub fn reported(&mut self, metric: &Metric<'_>, samples: &[MetricSample<'_>]) -> fmt::Result {
        let Metric { name, help, kind, .. } = *metric;
        let kind = match kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Histogram => MetricType::Histogram,
        };
        // The encoder appends the unit of a histogram to its name.
        let seconds = name.strip_suffix("_seconds").filter(|_| metric.kind == MetricKind::Histogram);
        let unit = seconds.map(|_| Unit::Seconds);
        let mut encoder = self.0.encode_descriptor(seconds.unwrap_or(name), help, unit.as_ref(), kind)?;
        for MetricSample { labels, value } in samples {
            if labels.is_empty() {
                encode(encoder, metric.kind, *value)?;
                break;
            }
            encode(encoder.encode_family(labels)?, metric.kind, *value)?;
        }
        Ok(())
    }
}

fn encode(mut encoder: MetricEncoder<'_>, kind: MetricKind, value: MetricValue<'_>) -> fmt::Result {
    match (value, kind) {
        (MetricValue::Integer(value), MetricKind::Counter) => {
            encoder.encode_counter::<NoLabelSet, u64, u64>(&value, None)
        }
        (MetricValue::Integer(value), _) => encoder.encode_gauge(&value),
        (MetricValue::Real(value), _) => encoder.encode_gauge(&value),
        (MetricValue::Histogram(HistogramSnapshot { buckets, sum, count }), _) => {
            encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}
