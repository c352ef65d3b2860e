//! Processes that die at a point. Each is this test program, which is started again for the test of
//! a life; the service of this process continues on the store that is left.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use selfsame_actors::faults::{FaultPoint, run_plan_of_environment};

use super::registry::STEPS;
use super::{FaultTestService, Folder, expect_finalized, lock_exclusive, start_in, submit};

/// Variable with the path of the folder in which a life has its store.
const FOLDER: &str = "SUPERVISION_CRASH_FOLDER";

/// The instance of every life, which the plans name.
const INSTANCE: &str = "crashing";

/// What a life prints before the id of an accepted request.
const ACCEPTED: &str = "accepted: ";

/// SIGABRT.
const ABORTED: Option<i32> = Some(6);

/// Points that a life reaches besides the steps of a request: at its start, and when the heartbeat
/// sends the actors their first messages.
const OTHERS: [FaultPoint; 16] = [
    FaultPoint::StoreRead,
    FaultPoint::SnapshotRead,
    FaultPoint::RequestTrackerStart,
    FaultPoint::BatcherStart,
    FaultPoint::TreeMaintainerStart,
    FaultPoint::VerifierPoolStart,
    FaultPoint::VerifierWorkerStart,
    FaultPoint::SessionRegistryStart,
    FaultPoint::MessageBridgeStart,
    FaultPoint::EventSenderStart,
    FaultPoint::GroupKeeperStart,
    FaultPoint::VerifierPoolHandle,
    FaultPoint::SessionRegistryHandle,
    FaultPoint::MessageBridgeHandle,
    FaultPoint::EventSenderHandle,
    FaultPoint::GroupKeeperHandle,
];

async fn start(folder: Folder) -> FaultTestService {
    start_in(folder, |settings| settings.instance = INSTANCE.to_owned()).await
}

/// Creates accounts until a fault ends the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the next test starts it, in processes of their own"]
async fn a_life_that_a_fault_ends() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let _faults = run_plan_of_environment().expect("the plan is well formed");
    let running = start(Folder::Other(PathBuf::from(folder))).await;
    let registry = running.service.registry();
    // The heartbeat reaches every actor long before the last of them.
    for number in 0..10_000 {
        let request_id = submit(&registry, number).await;
        println!("{ACCEPTED}{request_id}");
        // The others may share a block.
        if number % 4 > 1 {
            expect_finalized(&registry, &request_id).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_accepted_request_is_lost_when_the_process_dies_at_any_point() {
    let _guard = lock_exclusive().await;
    let coverage = tempfile::tempdir().expect("a folder for temporary files");
    // Marks for the coverage of this run, if it is asked for.
    let coverage = std::env::var_os("FAULT_COVERAGE").map_or_else(|| coverage.path().to_owned(), PathBuf::from);
    let with_skips = STEPS.into_iter().enumerate().map(|(number, point)| (point, 1 + number % 3));
    for (point, skip) in with_skips.chain(OTHERS.map(|point| (point, 0))) {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let skipping = if skip == 0 { String::new() } else { format!("{skip}*off->") };
        let life = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--ignored", "--nocapture", "crashes::a_life_that_a_fault_ends"])
            .env("FAILPOINTS", format!("{INSTANCE}/{}={skipping}return(crash)", point.name()))
            .env("FAULT_COVERAGE", &coverage)
            .env(FOLDER, folder.path())
            .stderr(Stdio::inherit())
            .output()
            .expect("the life begins");
        assert_eq!(life.status.signal(), ABORTED, "{}: {:?}", point.name(), life.status);
        assert!(coverage.join(format!("{}=crash", point.name())).exists(), "{} has left a mark", point.name());

        let output = String::from_utf8(life.stdout).expect("text");
        let accepted: HashSet<_> = output.lines().filter_map(|line| Some(line.split_once(ACCEPTED)?.1)).collect();
        let running = start(Folder::Own(folder)).await;
        let registry = running.service.registry();
        // The one more may have been accepted without an answer.
        let requests = accepted.len() as u64 + 1;
        for number in 0..requests {
            expect_finalized(&registry, &submit(&registry, number).await).await;
        }
        let in_blocks: Vec<_> = running.in_blocks().iter().map(ToString::to_string).collect();
        let each: HashSet<_> = in_blocks.iter().map(String::as_str).collect();
        assert_eq!(in_blocks.len(), each.len(), "{}: a request is in one block", point.name());
        assert!(accepted.is_subset(&each), "{}: every accepted request is in a block", point.name());
        assert_eq!((each.len() as u64, registry.statistics().accounts), (requests, requests), "{}", point.name());
        drop(registry);
        running.stop().await;
    }
}
