//! Restores and their refusals; what a restored store has forgotten on purpose.

use std::path::Path;
use std::sync::mpsc::channel;

use selfsame::daemon::store_folder;
use selfsame_protocol::U256;
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::{EnrolmentRequest, Step};
use selfsame_protocol::groups::identity::{Act, Token};
use selfsame_protocol::groups::names::{Day, FieldNumber, GroupId, GroupKey, MemberNumber, SecretHash};
use selfsame_protocol::groups::records::{GroupRecord, MemberRecord};
use selfsame_protocol::groups::wire::{InvitedMembers, SentCommitment};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_storage::{Decision, GroupCommit, GroupRecords, OnDecided, Store};
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use super::{BackupWorkplace, contents, expect_final, height, submit};
use crate::account_client::ask_for_accounts;
use crate::harness::{DaemonProcess, TestDaemon, development_config, folder, operator_token, refused_start};
use crate::sign_in_client::{SignInTestClient, accept_current_proofs, browser, pair, wait_for_signing_keys};

/// The hash of the block at a height.
async fn block_hash(http: &reqwest::Client, gateway: &str, height: u64) -> String {
    let answer = http.get(format!("{gateway}/block/{height}")).send().await.expect("an answer");
    let body: Value = answer.json().await.expect("JSON");
    body["block"]["hash"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// Creates accounts, each in a block of its own.
async fn create(http: &reqwest::Client, daemon: &DaemonProcess, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let request_id = submit(http, &daemon.gateway, number).await.expect("accepted");
        expect_final(http, &daemon.gateway, &request_id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_is_started_only_when_the_seen_block_is_known() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    create(&http, &daemon, 0..2).await;
    workplace.back_up("data", "backup");
    let first = block_hash(&http, &daemon.gateway, 1).await;
    create(&http, &daemon, 2..3).await;
    let lost = block_hash(&http, &daemon.gateway, 3).await;
    workplace.back_up("data", "later");
    daemon.kill();
    let made = contents(&workplace.path("backup"));

    // A target with anything in it is left alone.
    workplace.expect_refused(&["restore", "@backup", "--data", "@data"], "it is not empty; name a folder that is");
    let seen = |block: &'static str| ["restore", "@backup", "--data", "@data", "--clients-have-seen", block];
    let not_restored = "its store was not restored from a backup; restore into a folder that is missing or empty";
    workplace.expect_refused(&seen("2"), not_restored);
    workplace.expect_refused(&["restore", "@backup", "--data", "@none/data"], "make that one first");

    let text = workplace.run_ok(&["restore", "@backup", "--data", "@restored"]);
    assert!(text.contains("its last block is 2, 0x") && text.contains("- nullifiers: a person whose"), "{text}");
    assert!(text.contains("the daemon does not start on it before you say which block clients have seen"), "{text}");
    let message = refused_start(&workplace.path("restored"), &[]).await;
    for part in ["was restored on 20", "which ends at block 2 (0x", "--clients-have-seen HEIGHT"] {
        assert!(message.contains(part), "{message:?} should contain {part:?}");
    }
    // A service manager that started it again would do so for ever.
    let (status, _) = workplace.run(&["serve", "--dev", "--data", "@restored"]);
    assert_eq!(status, 78);
    // The check of a store that is not confirmed works, and another restore does not go over it.
    assert!(workplace.run_ok(&["registry", "fsck", "--data", "@restored"]).contains(", 0 findings"));
    workplace.expect_refused(&["restore", "@backup", "--data", "@restored"], "it is not empty");

    let confirm = |backup: &'static str, block: &str, more: &[&'static str]| {
        let arguments = ["restore", backup, "--data", "@restored", "--clients-have-seen", block];
        workplace.run(&[&arguments[..], more].concat())
    };
    for (backup, block, expected) in [
        ("@backup", "3", "clients have seen block 3, and the backup ends at block 2 (0x"),
        ("@backup", &*lost, "which it does not have, and the backup ends at block 2 (0x"),
        ("@later", "2", "its store was restored from another backup"),
    ] {
        let (status, text) = confirm(backup, block, &[]);
        assert!(status == 1 && text.contains(expected), "{status} {text:?} should contain {expected:?}");
        assert!(refused_start(&workplace.path("restored"), &[]).await.contains("it is not confirmed"), "{block}");
    }
    let (_, text) = confirm("@backup", "3", &[]);
    for part in ["which the registry gives to other accounts", "Nullifiers used since the backup are accepted a second"]
    {
        assert!(text.contains(part), "{text:?} should contain {part:?}");
    }
    for block in ["-1", "two", "0x12"] {
        assert_eq!(confirm("@backup", block, &[]).0, 2, "{block}");
    }
    let (status, text) = confirm("@backup", &first, &[]);
    let confirmed = "confirmed: the backup has every block that clients have seen; start the daemon\n";
    assert_eq!((status, text.as_str()), (0, confirmed));
    let (status, text) = confirm("@backup", &first, &[]);
    assert!(status == 1 && text.contains("it is confirmed already; start the daemon"), "{status} {text}");

    let daemon = workplace.start("restored");
    assert_eq!(height(&http, &daemon.indexer).await, 2);
    create(&http, &daemon, 3..4).await;
    // A backup of a restored registry is as good as any other.
    workplace.back_up("restored", "next");
    assert!(workplace.run_ok(&["backup", "verify", "@next", "--deep"]).ends_with("\n0 problems\n"));
    assert!(daemon.terminate().success());
    assert_eq!(contents(&workplace.path("backup")), made, "restores do not change the backup");
    // The secrets are the old ones, except the token, which the backup does not have.
    for (file, same) in [("audit.key", true), ("simulator.seed", true), ("operator.token", false)] {
        let read = |data: &str| std::fs::read(workplace.path(data).join(file)).expect("read");
        assert_eq!(read("data") == read("restored"), same, "{file}");
    }
}

/// Puts a group with three members into a store; their link proofs would hold.
fn add_group(store: &Path) {
    let store = Store::open_existing(store, 1 << 20).expect("the store opens");
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let records = GroupRecords::new(store, group_commit);
    let written = |write: &dyn Fn(OnDecided)| {
        let (sender, decision) = channel();
        write(Box::new(move |decided| sender.send(decided).expect("the test waits")));
        assert_eq!(decision.recv().expect("decided").expect("written"), Decision::Written);
    };
    let (group, today) = (group(), Day(20_000));
    written(&|decided| records.create(&group, &GroupRecord::new(GroupKey([7; 32])), decided));
    let loaded = records.load(&group).expect("the read succeeds").expect("the group is there");
    let changes = {
        let reader = records.reader(&group);
        let mut step = Step::new(&group, &loaded, &reader, today);
        for number in 1..=3_u8 {
            let (member, code) = (number.to_string().parse().expect("a member"), Code::from_random_bytes([number; 17]));
            let invited = step.invite(&member, InvitedMembers::New, today, || code.clone());
            invited.expect("the read succeeds").expect("invited");
            let request = EnrolmentRequest {
                act: Act::Join,
                token: Token::Code(code),
                commitment: SentCommitment(U256::from(number)),
                nullifier: FieldNumber(U256::from(number)),
                proof: [U256::ZERO; 8],
                replacement_hash: SecretHash::of(&[number; 32]),
                copy: None,
            };
            step.enrol(&request).expect("the read succeeds").expect("joined");
        }
        step.finish(UnixSeconds(20_000 * 86_400)).expect("the members have joined")
    };
    written(&|decided| records.write(&group, &changes, &[], decided));
    drop(records);
    committing.join().expect("the committing thread ends");
}

fn group() -> GroupId {
    "members".parse().expect("an id")
}

/// The root of the group in a store, and its members.
fn read_group(store: &Path) -> (Root, Vec<(MemberNumber, MemberRecord)>) {
    let store = Store::open_existing(store, 1 << 20).expect("the store opens");
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let records = GroupRecords::new(store, group_commit);
    let loaded = records.load(&group()).expect("the read succeeds").expect("the group is there");
    let members = records.members(&group()).expect("the read succeeds");
    drop(records);
    committing.join().expect("the committing thread ends");
    (loaded.tree.root(), members)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_has_the_groups() {
    let workplace = BackupWorkplace::new();
    assert!(workplace.start("data").terminate().success());
    let store = store_folder(&workplace.path("data"));
    add_group(&store);
    let before = read_group(&store);
    assert_eq!(before.1.len(), 3);

    let daemon = workplace.start("data");
    workplace.back_up("data", "backup");
    daemon.kill();
    assert!(workplace.run_ok(&["backup", "verify", "@backup", "--deep"]).ends_with("\n0 problems\n"));
    workplace.run_ok(&["restore", "@backup", "--data", "@restored"]);
    let text = workplace.run_ok(&["registry", "fsck", "--data", "@restored"]);
    assert!(text.contains("1 groups with 3 members, 0 findings"), "{text}");
    assert_eq!(read_group(&store_folder(&workplace.path("restored"))), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_clients_have_seen_are_lost_only_in_words() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    create(&http, &daemon, 0..1).await;
    workplace.back_up("data", "backup");
    create(&http, &daemon, 1..2).await;
    let lost = block_hash(&http, &daemon.gateway, 2).await;
    daemon.kill();
    let restore = ["restore", "@backup", "--data", "@restored"];
    let (status, text) = workplace.run(&[&restore[..], &["--accept-loss"]].concat());
    assert!(status == 2 && text.contains("--clients-have-seen <HEIGHT>"), "{status} {text}");
    for seen in ["2", &*lost] {
        let refused = [&restore[..], &["--clients-have-seen", seen]].concat();
        workplace.expect_refused(&refused, "To lose all this: --accept-loss");
        assert!(!workplace.path("restored").exists(), "nothing is restored when the statement does not fit");
        let text = workplace.run_ok(&[&refused[..], &["--accept-loss"]].concat());
        assert!(
            text.contains("confirmed: you accept that blocks after 1 are lost, although clients have seen"),
            "{text}"
        );
        let daemon = workplace.start("restored");
        create(&http, &daemon, 7..8).await;
        assert_ne!(block_hash(&http, &daemon.gateway, 2).await, lost, "another block 2");
        let status = http.get(format!("{}/status", daemon.operator));
        let status = status.bearer_auth(operator_token(&workplace.path("restored"))).send().await.expect("an answer");
        let status: Value = status.json().await.expect("JSON");
        let restored = &status["restored"];
        assert_eq!((&restored["height"], &restored["is_loss_accepted"]), (&json!(1), &json!(true)), "{status}");
        assert!(daemon.terminate().success());
        std::fs::remove_dir_all(workplace.path("restored")).expect("removed");
    }
    // With nothing lost the words change nothing.
    let text = workplace.run_ok(&[&restore[..], &["--clients-have-seen", "1", "--accept-loss"]].concat());
    assert!(text.contains("confirmed: the backup has every block that clients have seen"), "{text}");
}

/// What was used or ended after the backup must not be usable again; the backup does not know it,
/// so everything of this kind has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_ends_every_sign_in_of_the_backup() {
    let workplace = BackupWorkplace::new();
    let client = SignInTestClient::start().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    let (used, unused) = (client.code("bob", &[]).await, client.code("carol", &[]).await);
    let token = client.exchange(&client.code("dora", &[]).await).await.text("access_token").to_owned();
    let open = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    let kids = |keys: &Value| {
        let keys = keys["keys"].as_array().expect("keys");
        keys.iter().map(|key| key["kid"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    let keys_before = kids(&client.published_keys().await);
    let data = client.folder.path().to_str().expect("text").to_owned();
    workplace.run_ok(&["backup", "@backup", "--data", &data]);
    // All of it can be used in the original.
    assert_eq!(client.exchange(&used).await.status, 200);
    let introspect = async |client: &SignInTestClient| client.post("/introspect", &[("token", &token)]).await.status;
    assert_eq!(introspect(&client).await, 200);
    let silent = [("prompt", "none")];
    assert!(client.browse_silently(&silent, &session).await.contains_key("code"));
    let SignInTestClient { daemon, folder: original, .. } = client;
    let addresses = daemon.addresses;
    daemon.stop().await;
    drop(original);

    workplace.run_ok(&["restore", "@backup", "--data", "@restored", "--clients-have-seen", "0"]);
    let restored = folder();
    std::fs::remove_dir(restored.path()).expect("removed");
    std::fs::rename(workplace.path("restored"), restored.path()).expect("renamed");
    // The transaction names the address of its service.
    let daemon = TestDaemon::start_with(restored.path(), |config| {
        accept_current_proofs(config);
        config.listen = addresses;
    })
    .await;
    let client = SignInTestClient { daemon, http: browser(), folder: restored };
    // Not which subjects the application has.
    let otherwise = development_config(client.folder.path(), ask_for_accounts);
    let refused = client.daemon.reloading.check(&otherwise).expect_err("refused").to_string();
    assert!(refused.contains("its subjects in staging are of the kind \"nullifier\""), "{refused}");
    for (what, code) in [("used", &used), ("unused", &unused)] {
        let answer = client.exchange(code).await;
        assert_eq!((answer.status, &answer.body["error"]), (400, &json!("invalid_grant")), "{what}: {answer:?}");
    }
    assert_ne!(introspect(&client).await, 200, "the access token is revoked");
    assert_eq!(client.browse_silently(&silent, &session).await["error"], "login_required");
    assert!(client.answer(&open, "emma").await.is_err(), "the open sign-in has ended");
    wait_for_signing_keys(&client.issuer()).await;
    let keys_after = kids(&client.published_keys().await);
    assert!(keys_after.len() >= 2 && keys_after.iter().all(|kid| !keys_before.contains(kid)), "{keys_after:?}");
    let code = client.code("bob", &[]).await;
    assert_eq!(client.exchange(&code).await.status, 200, "new sign-ins work");
    client.stop().await;
}

/// Requests that were accepted and not sealed are in the backup too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_daemon_seals_the_requests_that_waited() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = DaemonProcess::start(
        &workplace.path("data"),
        &[],
        &[("SELFSAME_BATCHER__MIN_WAIT", "10s"), ("SELFSAME_BATCHER__MAX_WAIT", "10s")],
    );
    let request_id = submit(&http, &daemon.gateway, 0).await.expect("accepted");
    workplace.back_up("data", "backup");
    daemon.kill();
    workplace.run_ok(&["restore", "@backup", "--data", "@restored", "--clients-have-seen", "0"]);
    let daemon = workplace.start("restored");
    expect_final(&http, &daemon.gateway, &request_id).await;
    daemon.kill();
}

/// A backup that is used as a data folder would be changed, and would not be confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_not_used_as_a_data_folder() {
    let workplace = BackupWorkplace::new();
    let daemon = workplace.start("data");
    workplace.back_up("data", "backup");
    daemon.kill();
    std::fs::create_dir(workplace.path("other.unfinished")).expect("a folder");
    let made = contents(&workplace.path("backup"));
    let expected = "it is a backup; check it with `selfsame backup verify`, restore it with `selfsame restore`";
    assert!(refused_start(&workplace.path("backup"), &[]).await.contains(expected));
    for command in [&["registry", "fsck"][..], &["registry", "rebuild"], &["keys", "revoke", "--all"]] {
        workplace.expect_refused(&[command, &["--data", "@backup"]].concat(), expected);
        let expected = "it is what is left of a backup or a restore that was not completed";
        workplace.expect_refused(&[command, &["--data", "@other.unfinished"]].concat(), expected);
        assert!(refused_start(&workplace.path("other.unfinished"), &[]).await.contains(expected));
    }
    assert_eq!(contents(&workplace.path("backup")), made);
    assert_eq!(std::fs::read_dir(workplace.path("other.unfinished")).expect("a folder").count(), 0);
}

/// A restore that is killed leaves no data folder, and the next one begins again.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_was_killed_leaves_no_data_folder() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    create(&http, &daemon, 0..1).await;
    workplace.back_up("data", "backup");
    daemon.kill();
    let (backup, restored) = (workplace.text("backup"), workplace.text("restored"));
    for point in ["restore.copied", "restore.marked"] {
        let arguments = ["restore", &backup, "--data", &restored, "--clients-have-seen", "1"];
        let plan = format!("{point}=return(crash)");
        let (success, text) = crate::harness::run_with(&arguments, &[("FAILPOINTS", &plan)]);
        assert!(!success, "{point}: {text}");
        assert_eq!(workplace.names(), ["backup", "data", "restored.unfinished"], "{point}");
        let message = refused_start(&workplace.path("restored.unfinished"), &[]).await;
        assert!(message.contains("a restore that was not completed"), "{point}: {message}");
        let (success, text) = crate::harness::run_with(&arguments, &[]);
        assert!(success, "{point}: {text}");
        let daemon = workplace.start("restored");
        assert_eq!(height(&http, &daemon.indexer).await, 1);
        daemon.kill();
        std::fs::remove_dir_all(&restored).expect("removed");
    }
}

/// A restore that was cut off leaves nothing under the data folder's name; the next one removes
/// what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_was_cut_off_is_removed_by_the_next_one() {
    let workplace = BackupWorkplace::new();
    let daemon = workplace.start("data");
    workplace.back_up("data", "backup");
    daemon.kill();
    let restore = ["restore", "@backup", "--data", "@restored", "--clients-have-seen", "0"];
    std::fs::create_dir_all(workplace.path("restored.unfinished/store")).expect("a folder");
    std::fs::write(workplace.path("restored.unfinished/store/000004.log"), "half").expect("written");
    // While its process lives, it holds a lock.
    let running = std::fs::File::open(workplace.path("restored.unfinished")).expect("a folder");
    running.lock().expect("locked");
    workplace.expect_refused(&restore, "restored.unfinished cannot be used: another process is filling it");
    drop(running);
    workplace.run_ok(&restore);
    assert_eq!(workplace.names(), ["backup", "data", "restored"]);
    workplace.start("restored").kill();
}

/// Copying the store out of a backup goes around the restore, so it is refused until the operator
/// says what a restore asks for; then the same is forgotten as after a restore.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_copied_out_of_a_backup_asks_for_the_same_confirmation() {
    let workplace = BackupWorkplace::new();
    let http = reqwest::Client::new();
    let daemon = workplace.start("data");
    let request_id = submit(&http, &daemon.gateway, 0).await.expect("accepted");
    expect_final(&http, &daemon.gateway, &request_id).await;
    workplace.back_up("data", "backup");
    let request_id = submit(&http, &daemon.gateway, 1).await.expect("accepted");
    expect_final(&http, &daemon.gateway, &request_id).await;
    workplace.back_up("data", "later");
    // The daemon that was backed up has no mark.
    daemon.kill();
    drop(workplace.start("data"));

    crate::harness::copy_folder(&workplace.path("backup/store"), &workplace.path("copied/store"));
    let message = crate::harness::refused_start(&workplace.path("copied"), &[]).await;
    assert!(message.contains("is that of the backup of ") && message.contains("and was not restored"), "{message}");
    assert!(workplace.run_ok(&["store", "info", "--data", "@copied"]).contains("\nthe copy in a backup of "));
    let confirm = |backup: &str, height: &str| {
        workplace.run(&["restore", &format!("@{backup}"), "--data", "@copied", "--clients-have-seen", height])
    };
    let (status, text) = confirm("later", "1");
    assert!(status == 1 && text.contains("its store was taken out of another backup"), "{text}");
    let (status, text) = confirm("backup", "2");
    assert!(status == 1 && text.contains("To lose all this: --accept-loss"), "{text}");
    let message = crate::harness::refused_start(&workplace.path("copied"), &[]).await;
    assert!(message.contains("and was not restored"), "{message}");
    let (status, text) = confirm("backup", "1");
    assert_eq!(
        (status, text.as_str()),
        (0, "confirmed: the backup has every block that clients have seen; start the daemon\n")
    );
    let info = workplace.run_ok(&["store", "info", "--data", "@copied"]);
    assert!(info.contains("\nrestored on ") && info.contains(" from block 1\n"), "{info}");
    drop(workplace.start("copied"));
}
