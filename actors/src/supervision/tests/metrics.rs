//! The numbers of a service as its embedder gets them.

use std::collections::BTreeMap;

use super::*;
use crate::{Metric, MetricKind, MetricSample, MetricUnit, MetricValue, MetricsSink};

/// The page that describes the metrics of the daemon, which are these and those of the program.
const PAGE: &str = include_str!("../../../../docs/operations/metrics.md");

/// Names and values.
type Labels = Vec<(String, String)>;

/// What was taken, by name, and for each sample by its labels.
#[derive(Default)]
struct Taken {
    metrics: BTreeMap<&'static str, (MetricKind, Option<MetricUnit>)>,
    samples: BTreeMap<(&'static str, Labels), f64>,
    instance: String,
}

impl MetricsSink for Taken {
    fn take(&mut self, metric: &Metric<'_>, samples: &[MetricSample<'_>]) {
        let Metric { instance, name, help, unit, kind } = *metric;
        assert!(!help.is_empty(), "{name}");
        assert!(self.metrics.insert(name, (kind, unit)).is_none(), "{name} is reported twice");
        self.instance = instance.to_owned();
        for MetricSample { labels, value } in samples {
            assert_eq!(matches!(value, MetricValue::Histogram(_)), kind == MetricKind::Histogram, "{name}");
            let value = match *value {
                MetricValue::Integer(value) => value as f64,
                MetricValue::Real(value) => value,
                MetricValue::Histogram(histogram) => histogram.count as f64,
            };
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert!(
                self.samples.insert((name, labels), value).is_none(),
                "{name} has two samples with the same labels"
            );
        }
    }
}

impl Taken {
    fn of(service: &Service) -> Self {
        let mut taken = Self::default();
        service.report_metrics(&mut taken);
        taken
    }

    fn value(&self, name: &'static str, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.samples.get(&(name, labels)).copied().unwrap_or_else(|| panic!("{name} has no such sample"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedder_gets_the_numbers_of_each_of_its_services() {
    let (one, two) = (start("metrics-one").await, start("metrics-two").await);
    let registry = one.service.registry();
    for number in 0..3 {
        let request_id = submit(&registry, number).await;
        expect_finalized(&registry, &request_id).await;
    }
    one.kill("batcher").await;
    let next = submit(&registry, 3).await;
    expect_finalized(&registry, &next).await;
    drop(registry);
    let (of_one, of_two) = (Taken::of(&one.service), Taken::of(&two.service));
    assert_eq!((of_one.instance.as_str(), of_two.instance.as_str()), ("metrics-one", "metrics-two"));
    for (taken, accounts) in [(&of_one, 4.0), (&of_two, 0.0)] {
        assert_eq!(taken.value("selfsame_registry_accounts", &[]), accounts);
        assert_eq!(taken.value("selfsame_registry_requests", &[("state", "finalized")]), accounts);
        assert_eq!(taken.value("selfsame_registry_request_duration_seconds", &[]), accounts, "the count");
    }
    let restarts = |taken: &Taken| taken.value("selfsame_actor_restarts", &[("actor", "registry/batcher")]);
    assert_eq!((restarts(&of_one), restarts(&of_two)), (1.0, 0.0));
    let commits = of_one.metrics["selfsame_store_commit_duration_seconds"];
    assert_eq!(commits, (MetricKind::Histogram, Some(MetricUnit::Seconds)));
    let labels = [("limit", "per_source"), ("endpoints", "gateway")];
    assert_eq!(of_one.value("selfsame_source_limit_refusals", &labels), 0.0);
    one.stop().await;
    two.stop().await;
}

/// Dashboards and alerts for the daemon can be used for an embedded service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_have_the_names_of_the_daemons() {
    let running = start("metrics-names").await;
    running.service.sign_in().published_keys().await.expect("keys");
    let taken = Taken::of(&running.service);
    assert!(taken.metrics.len() > 40, "{}", taken.metrics.len());
    for (name, (kind, _)) in &taken.metrics {
        let total = if *kind == MetricKind::Counter { "_total" } else { "" };
        assert!(PAGE.contains(&format!("| `{name}{total}` |")), "{name} is not described");
    }
    running.stop().await;
}
