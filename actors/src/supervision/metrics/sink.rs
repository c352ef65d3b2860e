//! What a metric is, and who takes it.

use selfsame_storage::HistogramSnapshot;

/// A metric: what its samples count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric<'a> {
    /// [`crate::Settings::instance`] of the service. It is in no label: a program with several
    /// services adds it.
    pub instance: &'a str,
    /// The name in OpenMetrics: lower-case letters, digits and `_`, with the unit at the end. A
    /// counter's name has no `_total`; exporters for Prometheus append it.
    pub name: &'static str,
    /// What is counted, for people.
    pub help: &'static str,
    /// The unit of the values; `None` for plain numbers.
    pub unit: Option<MetricUnit>,
    /// How the values behave.
    pub kind: MetricKind,
}

/// How the values of a metric behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows, from zero at the start of the service.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// How often values fell into ranges since the start.
    Histogram,
}

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Seconds, of a length of time or, in a name with `_timestamp_`, since 1970.
    Seconds,
    /// Bytes.
    Bytes,
}

impl MetricUnit {
    /// The unit that a name ends with.
    fn of(name: &str) -> Option<Self> {
        match name.rsplit_once('_')?.1 {
            "seconds" => Some(Self::Seconds),
            "bytes" => Some(Self::Bytes),
            _ => None,
        }
    }
}

/// One value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricSample<'a> {
    /// What distinguishes the value from others of the metric: pairs of name and value. No text of
    /// a client is in them.
    pub labels: &'a [(&'static str, &'a str)],
    /// The value.
    pub value: MetricValue<'a>,
}

/// A value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricValue<'a> {
    /// A whole number, of a counter or a gauge.
    Integer(u64),
    /// A gauge that is no whole number.
    Real(f64),
    /// The ranges of a histogram with their counts.
    Histogram(&'a HistogramSnapshot),
}

impl From<u64> for MetricValue<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for MetricValue<'_> {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Takes the metrics of a service; see [`crate::Service::report_metrics`].
pub trait MetricsSink {
    /// Takes a metric with its samples: one without labels, or one for each combination of labels,
    /// which may be no sample at all.
    fn take(&mut self, metric: &Metric<'_>, samples: &[MetricSample<'_>]);
}

/// The labels of one sample, as pairs of name and value.
type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Describes the metrics of one service to a sink.
pub(super) struct Reporter<'s> {
    instance: &'s str,
    sink: &'s mut dyn MetricsSink,
}

impl<'s> Reporter<'s> {
    pub fn new(instance: &'s str, sink: &'s mut dyn MetricsSink) -> Self {
        Self { instance, sink }
    }

    /// A number that only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.counters(name, help, [([], value)]);
    }

    /// Counters that differ in their labels.
    pub fn counters<'a, const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
    ) {
        self.report(MetricKind::Counter, name, help, values);
    }

    /// A number that grows and shrinks.
    pub fn gauge<'a>(&mut self, name: &'static str, help: &'static str, value: impl Into<MetricValue<'a>>) {
        self.gauges(name, help, [([], value)]);
    }

    /// Gauges that differ in their labels.
    pub fn gauges<'a, const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels<'a, N>, impl Into<MetricValue<'a>>)>,
    ) {
        self.report(MetricKind::Gauge, name, help, values);
    }

    /// Counts by ranges.
    pub fn histogram(&mut self, name: &'static str, help: &'static str, histogram: &HistogramSnapshot) {
        self.report(MetricKind::Histogram, name, help, [([], MetricValue::Histogram(histogram))]);
    }

    fn report<'a, const N: usize>(
        &mut self,
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels<'a, N>, impl Into<MetricValue<'a>>)>,
    ) {
        let metric = Metric { instance: self.instance, name, help, unit: MetricUnit::of(name), kind };
        let values: Vec<_> = values.into_iter().map(|(labels, value)| (labels, value.into())).collect();
        let samples: Vec<_> = values.iter().map(|(labels, value)| MetricSample { labels, value: *value }).collect();
        self.sink.take(&metric, &samples);
    }
}
