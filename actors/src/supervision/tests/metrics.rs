//! The numbers of a service as its embedder gets them.

use std::collections::BTreeMap;

use super::*;

/// The page that describes the metrics of the daemon, which are these and those of the program.
const PAGE: &str = include_str!("../../../../docs/operations/metrics.md");

/// What was reported: the type of each metric by name, and the value of each sample.
#[derive(Default)]
struct Reported {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Reported {
    fn of(service: &Service) -> Self {
        let (mut text, mut reported) = (String::new(), Self::default());
        service.report_metrics(&mut text).expect("text");
        for line in text.lines() {
            let words: Vec<_> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, kind] => {
                    let before = reported.types.insert(name.to_owned(), kind.to_owned());
                    assert!(before.is_none(), "{name} is reported twice");
                }
                ["#", "HELP", name, help] => assert!(!help.is_empty(), "{name}"),
                ["#", "UNIT", name, unit] => assert!(name.ends_with(unit), "{name}"),
                _ => {
                    let (sample, value) = line.rsplit_once(' ').expect("a sample");
                    let before = reported.samples.insert(sample.to_owned(), value.parse().expect("a number"));
                    assert!(before.is_none(), "there are two samples {sample}");
                }
            }
        }
        reported
    }

    fn value(&self, sample: &str) -> f64 {
        self.samples.get(sample).copied().unwrap_or_else(|| panic!("there is no sample {sample}"))
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
    let (of_one, of_two) = (Reported::of(&one.service), Reported::of(&two.service));
    for (reported, accounts) in [(&of_one, 4.0), (&of_two, 0.0)] {
        assert_eq!(reported.value("selfsame_registry_accounts"), accounts);
        assert_eq!(reported.value("selfsame_registry_requests_total{state=\"finalized\"}"), accounts);
        assert_eq!(reported.value("selfsame_registry_request_duration_seconds_count"), accounts);
    }
    let restarts = |reported: &Reported| reported.value("selfsame_actor_restarts_total{actor=\"registry/batcher\"}");
    assert_eq!((restarts(&of_one), restarts(&of_two)), (1.0, 0.0));
    assert_eq!(of_one.types["selfsame_store_commit_duration_seconds"], "histogram");
    let refusals = "selfsame_source_limit_refusals_total{limit=\"per_source\",endpoints=\"gateway\"}";
    assert_eq!(of_one.value(refusals), 0.0);
    one.stop().await;
    two.stop().await;
}

/// Dashboards and alerts for the daemon can be used for an embedded service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_have_the_names_of_the_daemons() {
    let running = start("metrics-names").await;
    running.service.sign_in().published_keys().await.expect("keys");
    let types = Reported::of(&running.service).types;
    assert!(types.len() > 40, "{}", types.len());
    for (name, kind) in &types {
        let total = if kind == "counter" { "_total" } else { "" };
        assert!(PAGE.contains(&format!("| `{name}{total}` |")), "{name} is not described");
    }
    running.stop().await;
}
