//! The event sender while it dies, and while the store cannot be written: every event is delivered,
//! each with one id.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{EventSettings, ReceiverSettings, SendFailure, WebhookMessage, WebhookTransport};
use selfsame_protocol::events::record::EventPosition;
use selfsame_protocol::events::{Audience, EventId, EventKind};
use selfsame_storage::{JournalFault, MemoryJournal};
use tokio::sync::watch;
use tokio::time::timeout;

use super::replicas::{RunningReplica, start_changed};
use super::{FaultTestService, PATIENCE, expect_struck, lock_exclusive, start_with, submit};

const ACCOUNTS: u64 = 6;

/// A receiver that accepts everything.
#[derive(Default)]
struct Accepting {
    got: Mutex<Vec<EventId>>,
    count: watch::Sender<usize>,
}

impl WebhookTransport for Accepting {
    fn post(&self, _: &ReceiverSettings, message: WebhookMessage) -> BoxFuture<'static, Result<(), SendFailure>> {
        self.got.lock().expect("no panic").push(message.id);
        self.count.send_modify(|count| *count += 1);
        async { Ok(()) }.boxed()
    }
}

impl Accepting {
    fn ids(&self) -> BTreeSet<EventId> {
        self.got.lock().expect("no panic").iter().copied().collect()
    }

    async fn until(&self, events: usize) {
        let mut counts = self.count.subscribe();
        let waiting = async {
            while self.ids().len() < events {
                counts.changed().await.expect("it counts on");
            }
        };
        timeout(PATIENCE, waiting).await.expect("every event is delivered");
    }
}

async fn start() -> (FaultTestService, Arc<Accepting>) {
    let accepting = Arc::<Accepting>::default();
    let events = settings(&accepting);
    (start_with(|settings| settings.events = events).await, accepting)
}

fn settings(accepting: &Arc<Accepting>) -> EventSettings {
    let receiver = ReceiverSettings {
        id: "a".to_owned(),
        url: "https://a.example".to_owned(),
        secrets: Vec::new(),
        kinds: vec![EventKind::RequestFinalized],
        audience: Audience::Operator,
    };
    EventSettings {
        receivers: vec![Arc::new(receiver)],
        transport: Some(Arc::clone(accepting) as Arc<dyn WebhookTransport>),
        ..EventSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_webhook_is_lost_when_the_event_sender_dies() {
    let _guard = lock_exclusive().await;
    for (point, skip) in [
        (FaultPoint::EventSenderStart, 0),
        (FaultPoint::EventSenderHandle, 0),
        (FaultPoint::EventSenderHandle, 3),
        (FaultPoint::EventSenderHandle, 9),
    ] {
        let (running, accepting) = start().await;
        let strikes = if point == FaultPoint::EventSenderStart {
            // The start after a death fails, too.
            Plan::new().strike_times(FaultPoint::EventSenderHandle, Fault::Panic, 0, 1).strike_times(
                point,
                Fault::Error,
                0,
                1,
            )
        } else {
            Plan::new().strike_times(point, Fault::Panic, skip, 1)
        };
        let plan = strikes.run();
        for number in 0..ACCOUNTS {
            submit(&running.service.registry(), number).await;
        }
        expect_struck(&plan, point, 1).await;
        accepting.until(usize::try_from(ACCOUNTS).expect("a small number")).await;
        drop(plan);
        assert_eq!(accepting.ids().len() as u64, ACCOUNTS, "an event has one id");
        running.stop().await;
    }
}

/// All events of a replica's log, by position.
async fn followed(replica: &RunningReplica) -> Vec<(EventPosition, EventId, EventKind)> {
    let (events, mut next, mut all) = (replica.service.events(), EventPosition::default(), Vec::new());
    loop {
        let page = events.read(&Audience::Operator, next, 100).await.expect("it is read");
        next = page.next;
        all.extend(page.events.into_iter().map(|(position, event)| (position, event.id, event.kind)));
        if page.is_end {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_goes_on_with_what_every_replica_has() {
    let _guard = lock_exclusive().await;
    let journal = MemoryJournal::default();
    let accepting = Arc::<Accepting>::default();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let events = EventSettings { streams: true, ..settings(&accepting) };
        let client = journal.client(|_| JournalFault::None);
        replicas.push(start_changed(client, None, |settings| settings.events = events).await);
    }
    let mut accounts = 0;
    for leader in [0, 1, 0, 1] {
        let leader = &replicas[leader];
        leader.service.lead(journal.begin_term()).await.expect("it leads");
        for _ in 0..3 {
            submit(&leader.registry(), accounts).await;
            accounts += 1;
        }
        accepting.until(usize::try_from(accounts).expect("a small number")).await;
    }
    assert_eq!(accepting.ids().len() as u64, accounts, "an event has one id, also from another replica");
    let finalized = |events: &[(EventPosition, EventId, EventKind)]| {
        events.iter().filter(|(_, _, kind)| *kind == EventKind::RequestFinalized).count() as u64
    };
    let mut of_both = Vec::new();
    for replica in &replicas {
        let mut changes = replica.service.events().changes();
        let all = loop {
            changes.mark_unchanged();
            let all = followed(replica).await;
            if finalized(&all) == accounts {
                break all;
            }
            timeout(PATIENCE, changes.changed()).await.expect("the log comes").expect("it runs");
        };
        of_both.push(all);
    }
    assert_eq!(of_both[0], of_both[1], "a position means the same at every replica");
    for replica in replicas {
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_webhook_is_lost_while_commits_fail() {
    let _guard = lock_exclusive().await;
    for point in [FaultPoint::GroupCommitBefore, FaultPoint::GroupCommitAfter] {
        let (running, accepting) = start().await;
        let plan = Plan::new().strike_times(point, Fault::Error, 2, 12).run();
        for number in 0..ACCOUNTS {
            submit(&running.service.registry(), number).await;
        }
        expect_struck(&plan, point, 12).await;
        drop(plan);
        accepting.until(usize::try_from(ACCOUNTS).expect("a small number")).await;
        assert_eq!(accepting.ids().len() as u64, ACCOUNTS);
        running.stop().await;
    }
}
