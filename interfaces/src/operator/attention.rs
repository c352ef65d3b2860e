//! What needs the operator's attention: a pure rule from the states of the parts to a list of
//! reasons, and the time since when each of them holds.
//!
//! `/ready` is for load balancers: a daemon whose backups fail serves its clients. This list is for
//! people.
//!
//! Another source takes three lines and a rule: what it looks at as a field of [`Parts`], the
//! reading of that in `status.rs`, and the rule's name in [`SOURCES`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use selfsame_actors::{AttestationIssuerStatus, ChainStatus, ReceiverStatus};
use selfsame_protocol::operator::{Attention, AttentionSubject, ClusterStatus, ReloadOutcome, ReloadReport, Replica};
use selfsame_protocol::time::{LONGEST_CLOCK_STEP, UnixSeconds};

use super::daemon_parts::{BackupHealth, LostLines, time_text};
use super::metrics::Room;

/// Seconds for which something that heals by itself may last before it needs attention.
const PATIENCE: u64 = 30;

const DAY: u64 = 24 * 3600;
const YEAR: u64 = 365 * DAY;

/// How late a rotation of the signing keys may be, in seconds: the next key may have to be
/// published for an hour first.
const LATE_ROTATION: u64 = 2 * 3600;

/// Records of the log of events that a webhook may be behind.
const FAR_BEHIND: u64 = 1000;

/// Bytes on the disk of the data folder that are always enough.
const ENOUGH_ROOM: u64 = 5 << 30;

/// The states of the parts, at one time.
#[derive(Default)]
pub(super) struct Parts {
    pub now: UnixSeconds,
    /// Why the service cannot write, a sentence each.
    pub failures: Vec<String>,
    /// The room on the disk of the data folder.
    pub disk: Option<Room>,
    /// The time of the last block; `None` before the first one.
    pub last_block: Option<UnixSeconds>,
    pub backups: BackupHealth,
    pub webhooks: Vec<ReceiverStatus>,
    /// Why the webhooks cannot be read.
    pub webhooks_error: Option<String>,
    pub chains: Vec<ChainStatus>,
    pub attestation_issuers: Vec<AttestationIssuerStatus>,
    /// When the current signing key is due to be replaced.
    pub rotation_due: Option<UnixSeconds>,
    /// Up to which time the operator has ended all sign-ins.
    pub sign_ins_ended_until: Option<UnixSeconds>,
    /// When the certificate of the listeners expires, in Unix time.
    pub certificate_expiry: Option<i64>,
    pub reload: Option<Arc<ReloadReport>>,
    /// The lines that the log lacks.
    pub log: LostLines,
    pub cluster: Option<ClusterStatus>,
}

/// A reason, before it is known since when it holds.
struct Reason {
    subject: AttentionSubject,
    /// What of the subject it is about. With the subject it identifies the reason.
    about: String,
    text: String,
    remedy: String,
    /// Since when, if the part knows it.
    since: Option<UnixSeconds>,
    /// Seconds that it has to last before it is told.
    patience: u64,
}

/// The rule of each source, in the order of the list.
const SOURCES: [fn(&Parts) -> Vec<Reason>; 13] = [
    store,
    disk,
    clock,
    backups,
    chains,
    attestation_issuers,
    webhooks,
    keys,
    ended_sign_ins,
    certificate,
    configuration,
    log,
    cluster,
];

/// The reasons that hold, with the time since when.
#[derive(Default)]
pub struct AttentionList(Mutex<BTreeMap<(AttentionSubject, String), KnownReason>>);

/// A reason that held at the last look.
struct KnownReason {
    since: UnixSeconds,
    /// Whether it has lasted long enough to be told.
    is_listed: bool,
}

impl AttentionList {
    /// What needs attention now. Logs what is new, and what has ended.
    pub(super) fn list(&self, parts: &Parts) -> Vec<Attention> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *seen);
        let mut list = Vec::new();
        for reason in SOURCES.iter().flat_map(|source| source(parts)) {
            let Reason { subject, about, text, remedy, since, patience } = reason;
            let known = before.remove(&(subject, about.clone()));
            // The part may forget when it began, and the clock may have been set back.
            let since = known.as_ref().map(|known| known.since).into_iter().chain(since).min();
            let since = since.unwrap_or(parts.now).min(parts.now);
            let was_listed = known.is_some_and(|known| known.is_listed);
            let is_listed = was_listed || parts.now.since(since) >= patience;
            if is_listed {
                if !was_listed {
                    tracing::warn!(subject = subject.name(), remedy, "needs attention: {text}");
                }
                list.push(Attention { subject, since: time_text(since), text, remedy });
            }
            seen.insert((subject, about), KnownReason { since, is_listed });
        }
        for ((subject, about), _) in before.into_iter().filter(|(_, ended)| ended.is_listed) {
            tracing::info!(subject = subject.name(), about, "needs no attention any more");
        }
        list
    }
}

fn store(parts: &Parts) -> Vec<Reason> {
    let reason = |failure: &String| Reason {
        subject: AttentionSubject::Store,
        // The step that fails. Its reason may change from one attempt to the next, and numbers
        // grow.
        about: failure.chars().take_while(|c| *c != ':').filter(|c| !c.is_ascii_digit()).collect(),
        text: failure.clone(),
        remedy: "until it succeeds nothing is accepted or answered that has to be written; see the log, and \
                 docs/operations/incidents.md"
            .to_owned(),
        since: None,
        patience: 0,
    };
    parts.failures.iter().map(reason).collect()
}

fn disk(parts: &Parts) -> Vec<Reason> {
    let full = parts.disk.filter(|Room { free, size }| *free < ENOUGH_ROOM.min(size / 10));
    let reason = |Room { free, size }: Room| Reason {
        subject: AttentionSubject::Disk,
        about: String::new(),
        text: format!("{} MiB of {} MiB are free on the disk of the data folder", free >> 20, size >> 20),
        remedy:
            "remove or move what is not the daemon's, or enlarge the disk; `selfsame store info` says what takes the \
                 room"
                .to_owned(),
        since: None,
        patience: 0,
    };
    full.map(reason).into_iter().collect()
}

/// A clock that is far from the time of the last block is wrong, or was wrong then.
fn clock(parts: &Parts) -> Vec<Reason> {
    let Some(last) = parts.last_block else { return Vec::new() };
    let (now, tolerance) = (parts.now, LONGEST_CLOCK_STEP.as_secs());
    let times = format!("the clock shows {}, and the last block has the time {}", time_text(now), time_text(last));
    let (text, remedy) = if last.since(now) > tolerance {
        (
            format!(
                "{times}, which is {} ahead; new blocks have that time too until the clock has passed it, and waiting \
                 periods that begin in them end later",
                span(last.since(now))
            ),
            "if the clock is wrong, correct it; if it is right, that block was sealed with a wrong one: restore a backup \
             from before it, or wait (docs/operations/incidents.md, \"A start with a wrong clock\")",
        )
    } else if now.since(last) > YEAR {
        (
            format!("{times}, {} before", span(now.since(last))),
            "if the clock is wrong, stop the daemon and correct it before the next operation: the time of a block cannot \
             be taken back; if it is right, nothing is to be done, and the next block ends this",
        )
    } else {
        return Vec::new();
    };
    let (subject, about) = (AttentionSubject::Clock, String::new());
    vec![Reason { subject, about, text, remedy: remedy.to_owned(), since: None, patience: 0 }]
}

fn backups(parts: &Parts) -> Vec<Reason> {
    let BackupHealth { failing, schedule } = &parts.backups;
    let failing = failing.as_ref().map(|failing| Reason {
        subject: AttentionSubject::Backups,
        about: "failing".to_owned(),
        text: format!("the last backup, in {}, failed: {}", failing.folder, failing.message),
        remedy: "mend the cause, then make one at once: `selfsame backup FOLDER`; the next good one ends this"
            .to_owned(),
        since: Some(failing.since),
        patience: 0,
    });
    let overdue = schedule.filter(|schedule| parts.now >= schedule.overdue_at()).map(|schedule| {
        let newest = schedule.newest.map_or("there is no good one".to_owned(), |newest| {
            format!("the newest good one is of {}", time_text(newest))
        });
        Reason {
            subject: AttentionSubject::Backups,
            about: "overdue".to_owned(),
            text: format!("backups are due every {}, and {newest}", span(schedule.every.as_secs())),
            remedy: "`selfsame status` shows the last backup; make one at once: `selfsame backup FOLDER`".to_owned(),
            since: Some(schedule.due()),
            patience: 0,
        }
    });
    failing.into_iter().chain(overdue).collect()
}

fn chains(parts: &Parts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |about: String, text: String, remedy: &str, since: Option<u64>, patience: u64| {
        let since = since.map(|seconds| parts.now.minus(seconds));
        let (subject, remedy) = (AttentionSubject::Chains, remedy.to_owned());
        reasons.push(Reason { subject, about, text, remedy, since, patience });
    };
    let check = "`selfsame chain check --config FILE` asks each node; replace one that does not answer \
                 (docs/operations/incidents.md, \"A node of a chain lies or is gone\")";
    for chain in &parts.chains {
        for source in &chain.sources {
            let name = &source.name;
            if let Some(alarm) = &source.alarm {
                let remedy = "find out from its publisher whether the upgrade is genuine, before you add it to the \
                              accepted code (docs/chain.md)";
                add(format!("{name} alarm"), format!("{name}: the contract {alarm}"), remedy, None, 0);
            }
            if let Some(address) = source.elsewhere {
                let text =
                    format!("{name}: the verifier contract names {address:#x}, and the configured address counts");
                let remedy = "set the address in the configuration to the one that is right, or leave it out";
                add(format!("{name} elsewhere"), text, remedy, None, 0);
            }
            if let Some(warning) = &source.warning {
                let remedy = "a proof against an older root is refused until then; name nodes that keep the history, and \
                              `start_block` (docs/chain.md)";
                add(format!("{name} history"), format!("{name}: {warning}"), remedy, None, 0);
            }
            let failure = source.failure.as_deref().map(|failure| format!(": {failure}")).unwrap_or_default();
            if source.failure.is_some() || !source.is_usable() {
                let text = format!("{name} is {}{failure}", source.state);
                add(name.clone(), text, check, source.answered_seconds_ago, PATIENCE);
            }
        }
        for node in &chain.nodes {
            if let Some(failure) = &node.failure {
                let text = format!("the node {} of {} gives no good answer: {failure}", node.name, chain.name);
                add(format!("{} node {}", chain.name, node.name), text, check, node.answered_seconds_ago, PATIENCE);
            }
        }
    }
    reasons
}

fn attestation_issuers(parts: &Parts) -> Vec<Reason> {
    let of = |issuer: &AttestationIssuerStatus| {
        let failure = issuer.failure.as_deref()?;
        let AttestationIssuerStatus { issuer: name, source, age_seconds, failing_since, .. } = issuer;
        let age = match age_seconds {
            Some(age) => format!("bundles are judged by keys that were read {} ago", span(*age)),
            None => "no integrity bundle can be judged".to_owned(),
        };
        Some(Reason {
            subject: AttentionSubject::AttestationIssuers,
            about: name.clone(),
            text: format!("the keys of the attestation issuer {name} cannot be read from {source}: {failure}; {age}"),
            remedy:
                "see whether the issuer has moved its keys, or is away; they are read again within a minute of the \
                     next request that needs them (docs/verifying-proofs.md)"
                    .to_owned(),
            since: *failing_since,
            patience: 0,
        })
    };
    parts.attestation_issuers.iter().filter_map(of).collect()
}

fn webhooks(parts: &Parts) -> Vec<Reason> {
    let subject = AttentionSubject::Webhooks;
    let unreadable = parts.webhooks_error.as_ref().map(|error| Reason {
        subject,
        about: String::new(),
        text: format!("the webhooks cannot be read: {error}"),
        remedy: "see the log, and docs/operations/incidents.md".to_owned(),
        since: None,
        patience: PATIENCE,
    });
    let of = |webhook: &ReceiverStatus| {
        let ReceiverStatus { settings, behind, waiting, dead, last_failure, .. } = webhook;
        let (id, about) = (&settings.id, settings.id.clone());
        let failure =
            last_failure.as_deref().map(|failure| format!("; the last attempt: {failure}")).unwrap_or_default();
        if *dead > 0 {
            let text = format!("{dead} events for {id} were not accepted in all attempts{failure}");
            let remedy = format!(
                "`selfsame webhooks dead-letters {id}` shows them; when the receiver is mended, `selfsame webhooks retry \
                 {id}` sends them again, and `selfsame webhooks discard {id}` removes them"
            );
            let since = webhook.oldest_dead.map(|time| UnixSeconds(time.0 / 1000));
            Some(Reason { subject, about, text, remedy, since, patience: 0 })
        } else if *waiting > 0 || *behind >= FAR_BEHIND {
            let text =
                format!("{id} is {behind} records behind, and {waiting} events wait for another attempt{failure}");
            let remedy = "tell the receiver's operator what it answers; the events are sent again meanwhile \
                          (docs/webhooks.md)"
                .to_owned();
            Some(Reason { subject, about, text, remedy, since: None, patience: PATIENCE })
        } else {
            None
        }
    };
    unreadable.into_iter().chain(parts.webhooks.iter().filter_map(of)).collect()
}

fn keys(parts: &Parts) -> Vec<Reason> {
    let late = parts.rotation_due.filter(|due| parts.now.since(*due) > LATE_ROTATION);
    let reason = |due: UnixSeconds| Reason {
        subject: AttentionSubject::Keys,
        about: String::new(),
        text: format!("the signing keys were due to be rotated at {}, and were not", time_text(due)),
        remedy: "the log says why, with the words \"signing keys\"; when the cause is gone they are rotated within \
                 seconds, or at once with `selfsame keys rotate`"
            .to_owned(),
        since: Some(due),
        patience: 0,
    };
    late.map(reason).into_iter().collect()
}

/// They were ended under a clock that was ahead.
fn ended_sign_ins(parts: &Parts) -> Vec<Reason> {
    let tolerance = LONGEST_CLOCK_STEP.as_secs();
    let ahead = parts.sign_ins_ended_until.filter(|until| until.since(parts.now) > tolerance);
    let reason = |until: UnixSeconds| Reason {
        subject: AttentionSubject::Clock,
        about: "sign-ins".to_owned(),
        text: format!("all sign-ins were ended up to {}, so each ends at once until then", time_text(until)),
        remedy: "when the clock is right, end them again with it: stop the daemon, then `selfsame keys revoke --all \
                 --end-sessions` (docs/operations/incidents.md, \"A start with a wrong clock\")"
            .to_owned(),
        since: None,
        patience: 0,
    };
    ahead.map(reason).into_iter().collect()
}

fn certificate(parts: &Parts) -> Vec<Reason> {
    let expiry = parts.certificate_expiry.map(|expiry| UnixSeconds(u64::try_from(expiry).unwrap_or_default()));
    let near = expiry.filter(|expiry| *expiry <= parts.now.plus(7 * DAY));
    let reason = |expiry: UnixSeconds| Reason {
        subject: AttentionSubject::Certificate,
        about: String::new(),
        text: match expiry <= parts.now {
            true => format!("the certificate of the listeners has expired at {}", time_text(expiry)),
            false => format!("the certificate of the listeners expires at {}", time_text(expiry)),
        },
        remedy: "renew it in the same files; they are read within a minute, or at once with `selfsame reload`"
            .to_owned(),
        since: Some(expiry.minus(7 * DAY)),
        patience: 0,
    };
    near.map(reason).into_iter().collect()
}

fn configuration(parts: &Parts) -> Vec<Reason> {
    let refused = parts.reload.as_ref().filter(|report| report.outcome == ReloadOutcome::Refused);
    let reason = |report: &Arc<ReloadReport>| Reason {
        subject: AttentionSubject::Configuration,
        about: String::new(),
        text: format!("the last reload was refused, and a start would be: {}", report.problems.join("; ")),
        remedy: "`selfsame config check --config FILE` lists the problems; mend them, then `selfsame reload`"
            .to_owned(),
        since: time_of(&report.time),
        patience: 0,
    };
    refused.map(reason).into_iter().collect()
}

fn log(parts: &Parts) -> Vec<Reason> {
    let lost = parts.log.degraded_since.map(|since| Reason {
        subject: AttentionSubject::Log,
        about: String::new(),
        text: format!("the log lacks {} lines of the audit trail or errors", parts.log.audit_or_error),
        remedy:
            "find out why the reader of standard error stalls, or its disk is full (docs/operations/running.md); the \
                 lines cannot be had again, and this ends a day after the last loss"
                .to_owned(),
        since: Some(since),
        patience: 0,
    });
    lost.into_iter().collect()
}

fn cluster(parts: &Parts) -> Vec<Reason> {
    let silent = parts.cluster.iter().flat_map(|cluster| &cluster.replicas).filter(|replica| !replica.running);
    let reason = |replica: &Replica| Reason {
        subject: AttentionSubject::Cluster,
        about: replica.name.clone(),
        text: format!("the replica {} is silent", replica.name),
        remedy: format!(
            "look at its machine and its log; one that does not come back: `selfsame cluster remove {}`",
            replica.name
        ),
        since: Some(parts.now.minus(replica.silent_seconds)),
        patience: PATIENCE,
    };
    silent.map(reason).collect()
}

fn time_of(text: &str) -> Option<UnixSeconds> {
    let since_epoch = humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(UnixSeconds(since_epoch.as_secs()))
}

/// A span of time as `3650 days`, or a short one as `1h 30m`.
fn span(seconds: u64) -> String {
    match seconds >= 2 * DAY {
        true => format!("{} days", seconds / DAY),
        false => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use selfsame_actors::{DeliveryCounts, ReceiverSettings, SourceData, SourceStatus};
    use selfsame_protocol::events::Audience;
    use selfsame_protocol::time::UnixMillis;
    use selfsame_protocol::verification::Environment;

    use super::*;
    use crate::operator::daemon_parts::{FailedBackup, ScheduleProgress};

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    fn at_now() -> Parts {
        Parts { now: NOW, ..Parts::default() }
    }

    /// The only reason of a source, as subject, text and since.
    fn only(parts: &Parts) -> (AttentionSubject, String, String) {
        let list = AttentionList::default().list(parts);
        let [Attention { subject, text, since, remedy }] = &list[..] else { panic!("not one reason: {list:?}") };
        assert!(remedy.len() > 20, "{remedy}");
        (*subject, text.clone(), since.clone())
    }

    fn is_well(parts: &Parts) -> bool {
        AttentionList::default().list(parts).is_empty()
    }

    fn source(state: &'static str, failure: Option<&str>) -> Vec<ChainStatus> {
        let source = SourceStatus {
            name: "ethereum/orb".to_owned(),
            address: None,
            elsewhere: None,
            environment: Environment::Staging,
            state,
            head: 8,
            read: 7,
            confirmed_seconds_ago: None,
            stale_after: 60,
            answered_seconds_ago: Some(90),
            failure: failure.map(str::to_owned),
            implementation: None,
            alarm: None,
            warning: None,
            reorganizations: 0,
            data: SourceData::Keys { keys: Vec::new() },
        };
        let (name, nodes, sources) = ("ethereum".to_owned(), Vec::new(), vec![source]);
        vec![ChainStatus { name, chain_id: 1, agree: 1, nodes, outvoted: 0, sources }]
    }

    fn webhook(waiting: usize, dead: usize, behind: u64) -> ReceiverStatus {
        let settings = ReceiverSettings {
            id: "orders".to_owned(),
            url: String::new(),
            secrets: Vec::new(),
            kinds: Vec::new(),
            audience: Audience::Operator,
        };
        ReceiverStatus {
            settings: Arc::new(settings),
            behind,
            waiting,
            dead,
            oldest_dead: (dead > 0).then_some(UnixMillis((NOW.0 - 600) * 1000)),
            lost: 0,
            counts: DeliveryCounts::default(),
            last_failure: (waiting > 0).then(|| "it answered 500".to_owned()),
        }
    }

    #[test]
    fn each_source_has_its_rule() {
        assert!(is_well(&at_now()));
        let since = |seconds: u64| time_text(NOW.minus(seconds));

        let parts = Parts { failures: vec!["committing fails: no space".to_owned()], ..at_now() };
        assert_eq!(only(&parts), (AttentionSubject::Store, "committing fails: no space".to_owned(), since(0)));

        let gib = |count: u64| count << 30;
        for (free, size, is_enough) in
            [(gib(2), gib(10), true), (gib(6), gib(1000), true), (gib(4), gib(1000), false), (gib(1), gib(11), false)]
        {
            assert_eq!(is_well(&Parts { disk: Some(Room { free, size }), ..at_now() }), is_enough, "{free} of {size}");
        }

        for (last, is_right) in [
            (NOW, true),
            (NOW.plus(300), true),
            (NOW.plus(301), false),
            (NOW.plus(10 * YEAR), false),
            (NOW.minus(YEAR), true),
            (NOW.minus(YEAR + 1), false),
        ] {
            let parts = Parts { last_block: Some(last), ..at_now() };
            assert_eq!(is_well(&parts), is_right, "{last:?}");
            if !is_right {
                let (subject, text, _) = only(&parts);
                assert_eq!(subject, AttentionSubject::Clock);
                assert!(text.contains(&time_text(NOW)) && text.contains(&time_text(last)), "{text}");
            }
        }

        let failing = FailedBackup { since: NOW.minus(60), folder: "/b/1".to_owned(), message: "full".to_owned() };
        let parts = Parts { backups: BackupHealth { failing: Some(failing), schedule: None }, ..at_now() };
        let text = "the last backup, in /b/1, failed: full".to_owned();
        assert_eq!(only(&parts), (AttentionSubject::Backups, text, since(60)));
        for (newest, began, due) in [
            (Some(NOW.minus(7199)), 0, None),
            (Some(NOW.minus(7200)), 0, Some(3600)),
            (None, 3599, None),
            (None, 3600, Some(3600)),
        ] {
            let schedule = ScheduleProgress { every: Duration::from_secs(3600), began: NOW.minus(began), newest };
            let parts = Parts { backups: BackupHealth { failing: None, schedule: Some(schedule) }, ..at_now() };
            assert_eq!(is_well(&parts), due.is_none(), "{schedule:?}");
            if let Some(due) = due {
                assert_eq!(only(&parts).2, since(due), "{schedule:?}");
            }
        }

        assert!(is_well(&Parts { chains: source("following", None), ..at_now() }));
        let mut short = source("following", None);
        short[0].sources[0].warning = Some("roots are known only from block 1000 on".to_owned());
        let (subject, text, _) = only(&Parts { chains: short, ..at_now() });
        assert_eq!(subject, AttentionSubject::Chains);
        assert_eq!(text, "ethereum/orb: roots are known only from block 1000 on");
        for (state, failure) in [("stale", None), ("reading", Some("no answer")), ("following", Some("no answer"))] {
            let (subject, text, began) = only(&Parts { chains: source(state, failure), ..at_now() });
            assert_eq!((subject, began), (AttentionSubject::Chains, since(90)));
            assert!(text.starts_with("ethereum/orb is ") && text.contains(failure.unwrap_or(state)), "{text}");
        }

        assert!(is_well(&Parts { webhooks: vec![webhook(0, 0, 999)], ..at_now() }));
        let (subject, text, began) = only(&Parts { webhooks: vec![webhook(0, 2, 0)], ..at_now() });
        assert_eq!((subject, began), (AttentionSubject::Webhooks, since(600)));
        assert_eq!(text, "2 events for orders were not accepted in all attempts");

        assert!(is_well(&Parts { sign_ins_ended_until: Some(NOW.plus(300)), ..at_now() }));
        let ahead = Parts { sign_ins_ended_until: Some(NOW.plus(301)), ..at_now() };
        let (subject, text, began) = only(&ahead);
        assert_eq!((subject, began), (AttentionSubject::Clock, since(0)));
        assert!(
            text.starts_with("all sign-ins were ended up to ") && text.ends_with(", so each ends at once until then")
        );

        assert!(is_well(&Parts { rotation_due: Some(NOW.minus(7200)), ..at_now() }));
        let late = Parts { rotation_due: Some(NOW.minus(7201)), ..at_now() };
        assert_eq!((only(&late).0, only(&late).2), (AttentionSubject::Keys, since(7201)));

        for (left, is_long) in [(7 * DAY + 1, true), (7 * DAY, false)] {
            let expiry = i64::try_from(NOW.plus(left).0).expect("a time");
            assert_eq!(is_well(&Parts { certificate_expiry: Some(expiry), ..at_now() }), is_long, "{left}");
        }

        let report = |outcome| {
            let (changed, needs_restart, problems) = (Vec::new(), Vec::new(), vec!["a: bad".to_owned()]);
            Some(Arc::new(ReloadReport { outcome, time: time_text(NOW.minus(5)), changed, needs_restart, problems }))
        };
        assert!(is_well(&Parts { reload: report(ReloadOutcome::Success), ..at_now() }));
        let refused = Parts { reload: report(ReloadOutcome::Refused), ..at_now() };
        assert_eq!((only(&refused).0, only(&refused).2), (AttentionSubject::Configuration, since(5)));

        // Ordinary lines are lost without harm to the trail.
        let log = LostLines { ordinary: 9, ..LostLines::default() };
        assert!(is_well(&Parts { log, ..at_now() }));
        let log = LostLines { audit_or_error: 3, degraded_since: Some(NOW.minus(7)), ..log };
        let (subject, text, began) = only(&Parts { log, ..at_now() });
        assert_eq!((subject, began), (AttentionSubject::Log, since(7)));
        assert_eq!(text, "the log lacks 3 lines of the audit trail or errors");
    }

    /// A receiver that restarts is not worth a word; the time is that of the beginning.
    #[test]
    fn what_heals_by_itself_is_listed_when_it_lasts() {
        let list = AttentionList::default();
        let look = |after: u64, waiting: usize| {
            let parts = Parts { now: NOW.plus(after), webhooks: vec![webhook(waiting, 0, 0)], ..Parts::default() };
            list.list(&parts).into_iter().map(|reason| reason.since).collect::<Vec<_>>()
        };
        assert!(look(0, 1).is_empty() && look(29, 1).is_empty());
        assert_eq!(look(30, 1), [time_text(NOW)]);
        assert_eq!(look(4000, 1), [time_text(NOW)]);
        assert!(look(4001, 0).is_empty());
        assert!(look(4002, 1).is_empty(), "it begins anew");
        // The clock is set back.
        assert!(look(10, 1).is_empty());
        assert_eq!(look(40, 1), [time_text(NOW.plus(10))]);
    }
}
