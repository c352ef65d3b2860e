//! Clients of all four interfaces at work while a cluster is disturbed. Then everything that was
//! acknowledged has to be true, and every replica has to show the same.
//!
//! The clients reach the replicas through one address, each connection another one; so a sign-in's
//! page, its wallet and its code go to different replicas. The seed decides what is done and when,
//! as in the crash test. `TEST_CLUSTER_DISTURBANCES` sets how many disturbances there are.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::disturbances::Disturbance;
use super::proxy::Proxy;
use super::replicas::TestCluster;
use crate::harness::{PATIENCE, folder, in_time, seeds, until, variable};
use crate::test_accounts::creation;
use crate::torture::context::{CrashTestContext, DaemonGone, IS_DISTURBED, lock};
use crate::torture::{check, configuration_text, message_of, registry, sign_in, verification};

/// The number of disturbances when the variable does not set it.
const USUAL_DISTURBANCES: usize = 4;

/// Answers before a disturbance, and after it.
const ANSWERS: usize = 150;

/// The longest time for a check.
const CHECK_PATIENCE: Duration = Duration::from_secs(300);

/// Time before a client that was put off goes on, as an ordinary client waits.
const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn acknowledged_answers_survive_disturbances_of_a_cluster_on_etcd() {
    let disturbances = variable("TEST_CLUSTER_DISTURBANCES").unwrap_or(USUAL_DISTURBANCES);
    for seed in seeds("torture", "acknowledged_answers_survive_disturbances_of_a_cluster_on_etcd") {
        torture(seed, disturbances).await;
    }
}

async fn torture(seed: u64, disturbances: usize) {
    eprintln!("torture of a cluster: seed {seed}, {disturbances} disturbances to come");
    let folder = folder();
    if let Err(panic) = AssertUnwindSafe(play(seed, disturbances, folder.path())).catch_unwind().await {
        let kept = folder.keep();
        let message = message_of(panic);
        panic!("torture of a cluster with seed {seed}: {message}\nstores and logs are kept in {}", kept.display());
    }
}

async fn play(seed: u64, disturbances: usize, folder: &std::path::Path) {
    let began = Instant::now();
    // The operator's calls go to the first replica.
    let context = Arc::new(CrashTestContext::new(seed, &folder.join("one")));
    let url = |key: &str| {
        let all = context.addresses.all();
        all.into_iter().find(|(known, _)| *known == key).map(|(_, address)| format!("http://{address}")).expect("one")
    };
    let settings = format!(
        "{}\n[urls]\nid_url = \"{}\"\nportal_url = \"{}\"\ngateway_url = \"{}\"\nindexer_url = \"{}\"\n",
        configuration_text(),
        url("sign_in"),
        url("verify"),
        url("gateway"),
        url("indexer"),
    );
    let mut cluster = TestCluster::prepare(folder, 3, &settings, "").await;
    cluster.start_all().await;
    let mut fronts = Vec::new();
    for (key, address) in context.addresses.all() {
        let mut targets = cluster.addresses(key);
        if key == "operator" {
            targets.truncate(1);
        }
        fronts.push(Proxy::start_at(address, targets).await);
    }
    let mut choices = context.choices("disturbances");
    let mut counts = BTreeMap::<Disturbance, usize>::new();
    for (number, disturbance) in Disturbance::plan(disturbances, &mut choices).into_iter().enumerate() {
        format!("disturbance {number}, {disturbance:?}").clone_into(&mut lock(&context.now));
        eprintln!("{:6.1} s: {}", began.elapsed().as_secs_f64(), lock(&context.now));
        let mut clients = start_clients(&context, number);
        wait_for_answers(&context, &mut clients).await;
        disturbance.play(&mut cluster, &mut choices).await;
        *counts.entry(disturbance).or_default() += 1;
        for index in 0..3 {
            cluster.wait_until_ready(index).await;
        }
        wait_for_answers(&context, &mut clients).await;
        clients.shutdown().await;
        cluster.wait_until_equal().await;
        checked(&context, &format!("check {number}"), number + 1 == disturbances).await;
    }
    cluster.stop_and_check();
    let requests = lock(&context.registry.requests).len();
    let count = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Relaxed);
    eprintln!(
        "torture of a cluster: seed {seed}, {counts:?}, {} answers, {requests} requests, {} receipts checked, {} codes, \
         {} tokens, {} nullifiers, put off {} times, {:.0} s",
        *context.answers.borrow(),
        count(&context.counts.receipts),
        count(&context.counts.codes),
        count(&context.counts.tokens),
        context.verification.recorded(),
        count(&context.counts.put_off),
        began.elapsed().as_secs_f64(),
    );
}

async fn checked(context: &Arc<CrashTestContext>, name: &str, is_everything: bool) {
    let checking = check::check(Arc::clone(context), name.to_owned(), is_everything);
    let checked = timeout(CHECK_PATIENCE, IS_DISTURBED.scope(true, checking)).await;
    checked.expect("the check ends").expect("the cluster answers during the check");
}

/// Starts clients that go on when they are put off.
fn start_clients(context: &Arc<CrashTestContext>, number: usize) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for client in 0..2 {
        let name = format!("disturbance {number}, client {client}");
        clients.spawn(again(Arc::clone(context), name.clone(), registry::make_accounts));
        let verify = move |context, name| verification::verify_people(context, name, number);
        clients.spawn(again(Arc::clone(context), name.clone(), verify));
        clients.spawn(again(Arc::clone(context), name.clone(), sign_in::sign_people_in));
        // What became of its last operation is known after the check.
        let changing = registry::change_account(Arc::clone(context), name, format!("owner {client}"));
        clients.spawn(IS_DISTURBED.scope(true, async move { drop(changing.await) }));
    }
    clients
}

async fn again<F>(
    context: Arc<CrashTestContext>,
    name: String,
    client: impl Fn(Arc<CrashTestContext>, String) -> F + Send + 'static,
) where
    F: Future<Output = Result<(), DaemonGone>> + Send,
{
    for turn in 0.. {
        let _ = IS_DISTURBED.scope(true, client(Arc::clone(&context), format!("{name}, turn {turn}"))).await;
        sleep(PAUSE).await;
    }
}

/// Waits until the clients have got some answers more.
async fn wait_for_answers(context: &CrashTestContext, clients: &mut JoinSet<()>) {
    let mut answers = context.answers.subscribe();
    let wanted = *answers.borrow() + ANSWERS;
    let waiting = async {
        loop {
            tokio::select! {
                _ = answers.wait_for(|answers| *answers >= wanted) => return,
                Some(ended) = clients.join_next() => {
                    if let Err(error) = ended {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
            }
        }
    };
    in_time("answers to the clients", waiting).await;
}

/// The time without an accepted write when the leader is killed. Prints the median and the worst.
/// `TEST_CLUSTER_FAILOVERS` sets how often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn another_replica_leads_after_a_kill_on_etcd() {
    let times = variable("TEST_CLUSTER_FAILOVERS").unwrap_or(2);
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 3, "", "").await;
    cluster.start_all().await;
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
    let mut took = Vec::new();
    let mut number = 0;
    for _ in 0..times {
        let leader = cluster.wait_for_leader().await;
        let url = format!("http://{}/create-account", cluster.replicas[(leader + 1) % 3].address("gateway"));
        cluster.replicas[leader].kill();
        let killed = Instant::now();
        let accepted = async || {
            number += 1;
            let answer = http.post(&url).json(&creation(number)).send().await.map_err(|error| error.to_string())?;
            if answer.status() == 200 { Ok(()) } else { Err(answer.status().to_string()) }
        };
        until("another leader", accepted).await;
        took.push(killed.elapsed());
        cluster.start_replica(leader);
        cluster.wait_until_ready(leader).await;
    }
    cluster.wait_until_equal().await;
    cluster.stop_and_check();
    took.sort();
    eprintln!("failover of a killed leader: {times} times, median {:?}, worst {:?}", took[times / 2], took[times - 1]);
}
