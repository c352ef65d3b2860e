//! `selfsame registry rebuild`: damage of what follows from the blocks is mended, and nothing else
//! is touched; a rebuild that is killed begins again.

use std::path::Path;

use selfsame::daemon::store_folder;
use selfsame_storage::Store;

use super::{DiskTestDaemon, assert_sound, copy, flip, fsck, store_files};
use crate::harness::{Folder, folder, run};

const ACCOUNTS: u64 = 12;

/// The data folder of a daemon that was killed, and the ids of its requests; the store's records
/// are in its files.
async fn data_with_accounts() -> (Folder, Vec<String>) {
    let data = folder();
    let daemon = DiskTestDaemon::start(data.path());
    let mut request_ids = Vec::new();
    for number in 0..ACCOUNTS {
        let request_id = daemon.submit(number).await.expect("accepted");
        daemon.wait_until_final(&request_id).await;
        request_ids.push(request_id);
    }
    daemon.kill();
    DiskTestDaemon::start(data.path()).stop();
    assert_sound(data.path());
    (data, request_ids)
}

fn rebuild(data: &Path) -> (bool, String) {
    run(&["registry", "rebuild", "--data", &data.display().to_string()])
}

/// A flipped bit in any file of records: either it is found in what follows from the blocks, and a
/// rebuild mends it, or the rebuild is refused and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_mends_the_store_or_says_that_it_needs_a_backup() {
    let (lived, request_ids) = data_with_accounts().await;
    let (mut mended, mut refused) = (0, 0);
    for file in store_files(lived.path(), ".sst") {
        let copied = copy(lived.path());
        let file = copied.path().join("store").join(file.file_name().expect("a name"));
        // The first bytes of a file are its first record.
        flip(&file, 20, 3);
        let damaged = std::fs::read(&file).expect("read");
        let (is_sound, text) = fsck(copied.path());
        assert!(!is_sound, "{}: {text}", file.display());
        let (success, text) = rebuild(copied.path());
        if success {
            let summary = format!(
                "{ACCOUNTS} blocks with {ACCOUNTS} operations, {ACCOUNTS} accounts, 0 requests queued; \
                                   the store is rebuilt\n"
            );
            assert!(text.ends_with(&summary), "{text}");
            assert_sound(copied.path());
            let daemon = DiskTestDaemon::start(copied.path());
            daemon.assert_each_final_once(&request_ids).await;
            daemon.stop();
            mended += 1;
        } else {
            assert!(text.contains("the store cannot be rebuilt from its blocks: "), "{text}");
            assert!(text.contains("restore it from a backup with `selfsame restore`"), "{text}");
            assert_eq!(std::fs::read(&file).expect("read"), damaged, "the damaged file is still there");
            assert!(!fsck(copied.path()).0);
            refused += 1;
        }
        let beside = std::fs::read_dir(copied.path())
            .expect("a folder")
            .filter(|entry| entry.as_ref().expect("an entry").file_name().to_string_lossy().starts_with("store."));
        assert_eq!(beside.count(), 0, "nothing is left beside the store");
    }
    assert!(mended >= 3 && refused >= 1, "{mended} mended, {refused} refused");
}

/// A rebuild that is killed leaves a store that is refused by name, and the next one mends it.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_was_killed_begins_again() {
    use crate::harness::{refused_start, run_with};

    let (lived, request_ids) = data_with_accounts().await;
    for plan in ["rebuild.block=3*off->return(crash)", "rebuild.swap=return(crash)"] {
        let copied = copy(lived.path());
        let data = copied.path().display().to_string();
        let (success, text) = run_with(&["registry", "rebuild", "--data", &data], &[("FAILPOINTS", plan)]);
        assert!(!success, "{plan}: {text}");
        // Twice, because a start creates the folder of the store.
        for _ in 0..2 {
            let message = refused_start(copied.path(), &[]).await;
            assert!(message.contains("was interrupted; run `selfsame registry rebuild` again"), "{plan}: {message}");
        }
        let (is_sound, text) = fsck(copied.path());
        assert!(!is_sound && text.contains("was interrupted"), "{plan}: {text}");
        let (success, text) = rebuild(copied.path());
        assert!(success, "{plan}: {text}");
        assert_sound(copied.path());
        let daemon = DiskTestDaemon::start(copied.path());
        daemon.assert_each_final_once(&request_ids).await;
        daemon.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_use_is_not_rebuilt() {
    let (data, request_ids) = data_with_accounts().await;
    let daemon = DiskTestDaemon::start(data.path());
    let (success, text) = rebuild(data.path());
    assert!(!success && text.contains("is in use by another process; stop the daemon first"), "{text}");
    daemon.assert_each_final_once(&request_ids).await;
    daemon.stop();
    let store = Store::open_existing(&store_folder(data.path()), 1 << 20).expect("the store opens");
    assert_eq!(store.summary().expect("it is read").head.height, ACCOUNTS);
}
