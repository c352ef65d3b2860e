//! The journal and the election on members of etcd that the tests start.
//!
//! They need the program `etcd`, so they are ignored unless they are asked for.

mod members;
mod services;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{Client, Permission, PermissionType};
use futures_util::StreamExt;
use selfsame_actors::{Election, Leadership};
use selfsame_storage::{AppendError, Journal, JournalEntry, JournalError, Position, Term};
use tokio::time::{Instant, sleep, timeout};

use super::election::LEASE_SECONDS;
use super::{Etcd, EtcdAccess, EtcdElection, EtcdJournal, EtcdTls, EtcdUser, LeaderRecord};
use members::{Members, Signal};

/// Longer than a member of etcd takes to be elected, and a lease of the program to end, also on a
/// machine that is busy with other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lease of a test in which none ends by time, in seconds: longer than [`PATIENCE`].
const ENDLESS: i64 = 600;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A replica that others need not reach.
fn leader_record(name: &str) -> LeaderRecord {
    LeaderRecord { name: name.to_owned(), address: "http://127.0.0.1:1".to_owned() }
}

/// Works while the leadership is kept.
async fn keeping<T>(leadership: &dyn Leadership, work: impl Future<Output = T>) -> T {
    tokio::select! {
        lost = leadership.keep() => panic!("{lost}"),
        done = work => done,
    }
}

struct Replica {
    journal: EtcdJournal,
    election: EtcdElection,
}

impl Replica {
    /// A replica whose lease does not end by time.
    fn new(members: &Members, prefix: &str, name: &str) -> Self {
        Self::with(&members.access(prefix), name, ENDLESS)
    }

    fn with(access: &EtcdAccess, name: &str, lease_seconds: i64) -> Self {
        let etcd = Arc::new(Etcd::new(access));
        let election = EtcdElection::new(Arc::clone(&etcd), leader_record(name)).with_lease(lease_seconds);
        Self { journal: EtcdJournal::new(etcd), election }
    }

    async fn lead(&self) -> Box<dyn Leadership> {
        timeout(PATIENCE, async {
            loop {
                match self.election.campaign().await {
                    Ok(leadership) => return leadership,
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        })
        .await
        .expect("the replica is elected")
    }

    /// Appends as a group commit does: until it is known whether the journal has the entry.
    async fn append(&self, at: u64, term: Term, text: &str) {
        let (at, entry) = (Position(at), bytes(text));
        let appending = async {
            loop {
                match self.journal.append(at, term, entry.clone()).await {
                    Ok(()) => return,
                    Err(AppendError::Taken) => {
                        let before = Position(at.0 - 1);
                        let Some(Ok(found)) = self.journal.follow(before).next().await else { continue };
                        assert_eq!((found.term, found.bytes), (term, entry));
                        return;
                    }
                    Err(AppendError::Unknown(_) | AppendError::Unavailable(_)) => {}
                    Err(error) => panic!("{at}: {error}"),
                }
            }
        };
        timeout(PATIENCE, appending).await.expect("the entry is appended");
    }

    async fn entries(&self, after: u64, count: usize) -> Vec<(u64, String)> {
        let read = async {
            let mut read = Vec::new();
            while read.len() < count {
                let after = Position(read.last().map_or(after, |(position, _)| *position));
                let mut entries = self.journal.follow(after);
                while read.len() < count {
                    match entries.next().await {
                        Some(Ok(JournalEntry { position, bytes, .. })) => {
                            read.push((position.0, String::from_utf8(bytes.to_vec()).expect("text")));
                        }
                        Some(Err(JournalError::Unavailable(_))) | None => break,
                        Some(Err(error)) => panic!("{error}"),
                    }
                }
            }
            read
        };
        timeout(PATIENCE, read).await.expect("the entries come")
    }

    async fn head(&self) -> (u64, Term) {
        let (position, term) = self.journal.head().await.expect("etcd answers");
        (position.0, term)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn appends_are_in_order_and_of_the_present_leader_on_etcd() {
    let members = Members::start(1).await;
    let (first, second) = (Replica::new(&members, "/a", "first"), Replica::new(&members, "/a", "second"));
    assert_eq!(first.head().await, (0, Term(0)));
    assert_eq!(first.election.leader().await, Ok(None));
    let append =
        async |replica: &Replica, at, term, text| replica.journal.append(Position(at), term, bytes(text)).await;
    for term in [Term(0), Term(7)] {
        assert_eq!(append(&first, 1, term, "a").await, Err(AppendError::Fenced), "no replica leads");
    }

    let leadership = first.lead().await;
    let term = leadership.term();
    assert_eq!(second.election.leader().await, Ok(Some("first".to_owned())));
    assert_eq!(append(&first, 2, term, "b").await, Err(AppendError::Taken), "the first place is empty");
    assert_eq!(append(&first, 1, term, "a").await, Ok(()));
    assert_eq!(append(&first, 1, term, "a").await, Err(AppendError::Taken));
    assert_eq!(append(&first, 3, term, "c").await, Err(AppendError::Taken), "the second place is empty");
    assert_eq!(append(&first, 2, term, "b").await, Ok(()));
    assert_eq!(append(&second, 3, Term(term.0 + 1), "x").await, Err(AppendError::Fenced));
    let large = Bytes::from(vec![0; 2 << 20]);
    let too_large = first.journal.append(Position(3), term, large.clone()).await;
    assert_eq!(too_large, Err(AppendError::TooLarge { length: large.len() }));
    let largest = Bytes::from(vec![1; 1 << 20]);
    for at in 3..=40 {
        assert_eq!(first.journal.append(Position(at), term, largest.clone()).await, Ok(()));
    }

    // The second one leads long before the lease of the first one would end.
    let (next, ()) = tokio::join!(second.lead(), leadership.resign());
    assert!(next.term() > term);
    assert_eq!(append(&first, 41, term, "x").await, Err(AppendError::Fenced));
    assert_eq!(append(&second, 41, next.term(), "c").await, Ok(()));
    assert_eq!(second.head().await, (41, next.term()));

    // Those of another prefix are another cluster.
    let other = Replica::new(&members, "/ab", "first");
    let led = other.lead().await;
    assert_eq!(append(&other, 1, led.term(), "z").await, Ok(()));
    assert_eq!(other.entries(0, 1).await, [(1, "z".to_owned())]);

    // More entries than are read at a time, of the greatest length; then one as it comes.
    let mut entries = first.journal.follow(Position(0));
    for position in 1..=41 {
        let entry = entries.next().await.expect("no end").expect("etcd answers");
        let expected = [term, next.term()][usize::from(position == 41)];
        assert_eq!((entry.position, entry.term), (Position(position), expected));
        assert!((3..=40).contains(&position) == (entry.bytes == largest));
    }
    let (appended, entry) = tokio::join!(append(&second, 42, next.term(), "d"), entries.next());
    assert_eq!(appended, Ok(()));
    assert_eq!(entry.expect("no end").expect("etcd answers").bytes, "d");

    first.journal.truncate(Position(41)).await.expect("the entries are removed");
    first.journal.truncate(Position(41)).await.expect("they are removed already");
    let refused = first.journal.follow(Position(39)).next().await;
    assert_eq!(refused, Some(Err(JournalError::Truncated(Position(41)))));
    assert_eq!(first.entries(40, 2).await, [(41, "c".to_owned()), (42, "d".to_owned())]);
    first.journal.truncate(Position(43)).await.expect("the entries are removed");
    assert_eq!(first.head().await, (42, next.term()));
    assert_eq!(first.journal.follow(Position(41)).next().await, Some(Err(JournalError::Truncated(Position(43)))));
    // The one that read before has a gap in none of this.
    let (appended, entry) = tokio::join!(append(&second, 43, next.term(), "e"), entries.next());
    assert_eq!(appended, Ok(()));
    assert_eq!(entry.expect("no end").expect("etcd answers").bytes, "e");
}

/// Appends and reads while each member in turn is killed, or is paused for longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn a_minority_of_members_can_fail_on_etcd() {
    let mut members = Members::start(3).await;
    let [writer, reader] = ["writer", "reader"].map(|name| Replica::with(&members.access("/a"), name, LEASE_SECONDS));
    let mut leadership = writer.lead().await;
    let mut expected = Vec::new();
    let mut followed = 0;
    let mut following = reader.journal.follow(Position(0));
    let mut leaderships = 1;
    for (member, signal) in [(0, Signal::Kill), (1, Signal::Stop), (2, Signal::Kill), (0, Signal::Stop)] {
        members.send(member, signal);
        for _ in 0..20 {
            let at = expected.len() as u64 + 1;
            loop {
                let appending = async {
                    let term = leadership.term();
                    while let Err(error) = writer.journal.append(Position(at), term, bytes(&at.to_string())).await {
                        match error {
                            AppendError::Fenced => return false,
                            // By the append before, whose answer was lost.
                            AppendError::Taken => break,
                            _ => {}
                        }
                    }
                    true
                };
                let appended = tokio::select! {
                    appended = appending => appended,
                    _ = leadership.keep() => false,
                };
                if appended {
                    break;
                }
                leadership = writer.lead().await;
                leaderships += 1;
            }
            expected.push((at, at.to_string()));
        }
        assert_eq!(reader.entries(0, expected.len()).await, expected);
        // One that has been reading all the time does not stay with a member that says nothing.
        while followed < expected.len() {
            match timeout(PATIENCE, following.next()).await.expect("the entries come") {
                Some(Ok(entry)) => {
                    followed += 1;
                    assert_eq!(entry.position, Position(followed as u64));
                }
                Some(Err(JournalError::Unavailable(_))) => following = reader.journal.follow(Position(followed as u64)),
                end => panic!("{end:?}"),
            }
        }
        members.restore(member).await;
    }
    println!("{leaderships} leaderships");
}

/// Without a majority nothing is appended, and the leadership ends; with it, both go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn nothing_is_appended_without_a_majority_on_etcd() {
    let mut members = Members::start(3).await;
    let replica = Replica::with(&members.access("/a"), "replica", LEASE_SECONDS);
    let leadership = replica.lead().await;
    keeping(&*leadership, replica.append(1, leadership.term(), "a")).await;
    members.send(0, Signal::Stop);
    members.send(1, Signal::Stop);
    let unknown = replica.journal.append(Position(2), leadership.term(), bytes("b")).await;
    assert!(matches!(unknown, Err(AppendError::Unknown(_))), "{unknown:?}");
    let lost = timeout(PATIENCE, leadership.keep()).await.expect("the lease ends").to_string();
    // By its own end, or because the first renewal has failed before.
    let reasons = ["the lease could not be renewed", "the lease was not renewed in time"];
    assert!(reasons.iter().any(|reason| lost.contains(reason)), "{lost}");
    assert!(replica.journal.head().await.is_err());
    assert!(replica.election.leader().await.is_err());
    members.restore(0).await;
    members.restore(1).await;
    let next = replica.lead().await;
    assert!(next.term() > leadership.term());
    // The append of the term before is in the journal, or will never be.
    let (end, _) = keeping(&*next, replica.head()).await;
    let late = keeping(&*next, replica.journal.append(Position(end + 1), leadership.term(), bytes("c"))).await;
    assert_eq!(late, Err(AppendError::Fenced));
    keeping(&*next, replica.append(end + 1, next.term(), "d")).await;
    let texts: Vec<_> = replica.entries(0, end as usize + 1).await.into_iter().map(|(_, text)| text).collect();
    assert!(texts == ["a", "d"] || texts == ["a", "b", "d"], "{texts:?}");
}

/// A leader that is paused past its lease cannot append when it wakes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn a_leadership_that_is_not_kept_ends_on_etcd() {
    let members = Members::start(1).await;
    let [paused, next] = ["paused", "next"].map(|name| Replica::with(&members.access("/a"), name, LEASE_SECONDS));
    let began = Instant::now();
    let before = paused.lead().await;
    keeping(&*before, paused.append(1, before.term(), "a")).await;
    let after = next.lead().await;
    assert!(began.elapsed() >= Duration::from_secs(LEASE_SECONDS.unsigned_abs()), "{:?}", began.elapsed());
    let late = keeping(&*after, paused.journal.append(Position(2), before.term(), bytes("x"))).await;
    assert_eq!(late, Err(AppendError::Fenced));
    keeping(&*after, next.append(2, after.term(), "b")).await;
    timeout(PATIENCE, before.keep()).await.expect("it is lost");
}

/// The member takes no client without a certificate of its authority, and the client no member
/// without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn certificates_are_checked_both_ways_on_etcd() {
    let members = Members::start_with_tls().await;
    let right = members.access("/a");
    let tls = right.tls.clone().expect("the member has TLS");
    let replica = Replica::with(&right, "a", ENDLESS);
    replica.append(1, replica.lead().await.term(), "a").await;
    let anonymous = EtcdTls { identity: None, ..tls.clone() };
    let of_the_system = EtcdTls { authorities: None, ..tls.clone() };
    for tls in [anonymous, of_the_system] {
        let access = EtcdAccess { tls: Some(tls), ..right.clone() };
        let refused = Replica::with(&access, "b", ENDLESS).journal.head().await;
        assert!(matches!(refused, Err(JournalError::Unavailable(_))), "{refused:?}");
    }
    let (_, private_key) = tls.identity.clone().expect("the client has a certificate");
    let secret = private_key.lines().nth(1).expect("a line of the key");
    let debug_form = format!("{right:?}");
    assert!(!debug_form.contains(secret), "{debug_form}");
}

/// A user that may not write below the prefix is refused with certainty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn users_have_passwords_and_rights_on_etcd() {
    let members = Members::start(1).await;
    let access = members.access("/a");
    let mut etcd = Client::connect(&access.endpoints, None).await.expect("etcd answers");
    let prefix = |prefix: &str| Permission::new(PermissionType::Readwrite, prefix).with_prefix();
    for (user, permission) in [("root", None), ("selfsame", Some("/a/")), ("other", Some("/b/"))] {
        etcd.user_add(user, "pass word", None).await.expect("the user is added");
        let role = if user == "root" { "root" } else { user };
        etcd.role_add(role).await.expect("the role is added");
        if let Some(permission) = permission {
            etcd.role_grant_permission(role, prefix(permission)).await.expect("the right is given");
        }
        etcd.user_grant_role(user, role).await.expect("the role is given");
    }
    etcd.auth_enable().await.expect("users are checked from now on");

    let with = |name: &str, password: &str| {
        let user = Some(EtcdUser { name: name.to_owned(), password: password.to_owned() });
        assert!(!format!("{user:?}").contains("word"));
        Replica::with(&EtcdAccess { user, ..access.clone() }, name, ENDLESS)
    };
    let replica = with("selfsame", "pass word");
    let leadership = replica.lead().await;
    replica.append(1, leadership.term(), "a").await;
    assert_eq!(replica.entries(0, 1).await, [(1, "a".to_owned())]);
    replica.append(2, leadership.term(), "b").await;
    replica.journal.truncate(Position(2)).await.expect("the entry is removed");
    assert_eq!(replica.entries(1, 1).await, [(2, "b".to_owned())]);

    let refused = with("other", "pass word").journal.append(Position(3), leadership.term(), bytes("x")).await;
    assert!(
        matches!(&refused, Err(AppendError::Unavailable(reason)) if reason.contains("permission denied")),
        "{refused:?}"
    );
    for replica in [with("selfsame", "another"), Replica::with(&access, "nobody", ENDLESS)] {
        let refused = replica.journal.head().await;
        assert!(matches!(refused, Err(JournalError::Unavailable(_))), "{refused:?}");
    }
}

/// Twice as long as the lease lives without a renewal, and while a member fails. It is one that
/// follows: without their leader, the members may take as long to elect another one as a lease of
/// the program lives. The lease of this test is longer, so that a busy machine renews it in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn a_leadership_that_is_kept_stays_on_etcd() {
    let mut members = Members::start(3).await;
    const LEASE: i64 = 8;
    let replica = Replica::with(&members.access("/a"), "kept", LEASE);
    let leadership = replica.lead().await;
    let member = members.follower().await;
    members.send(member, Signal::Stop);
    let kept = timeout(Duration::from_secs(2 * LEASE.unsigned_abs()), leadership.keep()).await;
    assert!(kept.is_err(), "{kept:?}");
    // It does not matter that the first call was given up.
    keeping(&*leadership, replica.append(1, leadership.term(), "a")).await;
    keeping(&*leadership, members.restore(member)).await;
    let kept = timeout(Duration::from_secs(2), leadership.keep()).await;
    assert!(kept.is_err(), "{kept:?}");
}

/// Where the limit of etcd's file is reached, it is not enough that etcd answers with an error: the
/// entry may be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn an_append_to_a_full_etcd_has_a_certain_outcome_on_etcd() {
    let members = Members::start_with_quota(16 << 20).await;
    let replica = Replica::new(&members, "/a", "replica");
    let leadership = replica.lead().await;
    let entry = Bytes::from(vec![1; 1 << 20]);
    let mut at = 1;
    let refused = loop {
        match replica.journal.append(Position(at), leadership.term(), entry.clone()).await {
            Ok(()) => at += 1,
            Err(refused) => break refused,
        }
        // On a busy machine etcd notices late that its file has grown.
        assert!(at < 400, "etcd is never full");
    };
    let (end, _) = replica.head().await;
    match refused {
        AppendError::Unavailable(reason) => {
            assert!(reason.contains("database space exceeded"), "{reason}");
            assert_eq!(end, at - 1);
        }
        AppendError::Taken => assert_eq!(end, at),
        other => panic!("{other:?}"),
    }
}

/// What other programs, or later versions of this one, put below the prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn values_of_other_programs_are_refused_on_etcd() {
    let members = Members::start(1).await;
    let mut etcd = Client::connect(&members.access("/").endpoints, None).await.expect("etcd answers");
    let expect = |key: &str, reason: String| {
        assert!(
            reason.contains(&format!("the key {key} of etcd has a value that this program cannot read")),
            "{reason}"
        );
    };
    let replica = Replica::new(&members, "/a", "a");
    etcd.put("/a/head", "12", None).await.expect("the value is put");
    expect("/a/head", replica.journal.head().await.expect_err("it is no end").to_string());
    let term = replica.lead().await.term();
    let refused = replica.journal.append(Position(1), term, bytes("a")).await;
    assert_eq!(refused, Err(AppendError::Taken), "what is there is not replaced");

    for (prefix, key) in [("/b", "/b/journal/x"), ("/c", "/c/journal/00000000000000000001")] {
        etcd.put(key, "short", None).await.expect("the value is put");
        let read = Replica::new(&members, prefix, "a").journal.follow(Position(0)).next().await;
        expect(key, read.expect("no end").expect_err("it is no entry").to_string());
    }
    etcd.put("/d/leader", "me", None).await.expect("the value is put");
    let leader = Replica::new(&members, "/d", "a").election.leader().await;
    expect("/d/leader", leader.expect_err("it is no leader").to_string());
}
