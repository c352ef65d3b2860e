//! Integrity bundles: the keys of the attestation issuers, and the judgement of a request's bundle.
//!
//! The keys of an issuer are read again when they are old, and at most once a minute for a token
//! with a key that is not among them: the sender of a request chooses the key's id. Requests that
//! need a read wait for the one that is under way. When a read fails, the keys stay as they are,
//! and the status shows their age. A source may keep what was read, so that a start during an
//! outage of the issuer has keys.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::directory::Admitted;
use selfsame_protocol::verification::identity::RequestedEnvironment;
use selfsame_protocol::verification::integrity::keys::KeySet;
use selfsame_protocol::verification::integrity::{
    BundleUse, IntegrityError, IntegrityFinding, IntegrityRules, JudgedBundle, check_presence, is_required,
};
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_storage::{Counter, Samples};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::handle::VerificationHandle;
use super::refusals::VerificationError;
use crate::clock::Clock;

/// Time between two reads of an issuer's keys, at least.
const PAUSE: Duration = Duration::from_secs(60);

/// How long a read of an issuer's keys may take.
const READ_LIMIT: Duration = Duration::from_secs(4);

/// The greatest age at which keys count that a source has kept for a start. An issuer that is away
/// for longer may have withdrawn a key meanwhile.
const OLDEST_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where the key set of an attestation issuer is read.
pub trait KeySetSource: Send + Sync + 'static {
    /// Its name in the status and the log, such as a URL or a path.
    fn name(&self) -> &str;

    /// Reads the text of the key set. The future is dropped when it takes longer than a few
    /// seconds. A source bounds the length of what it reads; a text of more than
    /// [`LONGEST_KEY_SET`](selfsame_protocol::verification::integrity::keys::LONGEST_KEY_SET) bytes
    /// is refused. The error is a sentence for the operator.
    fn read(&self) -> BoxFuture<'static, Result<Vec<u8>, String>>;

    /// Keeps the text of a good key set for the next start, which names it as [`FirstKeys`]. Called
    /// within a runtime, and must not wait. A source that can be read at every start keeps nothing.
    fn keep(&self, text: Vec<u8>, read_at: UnixSeconds) {
        let _ = (text, read_at);
    }
}

/// Keys that were read from a source before the service started.
#[derive(Clone)]
pub struct FirstKeys {
    /// The keys.
    pub keys: KeySet,
    /// When they were read; `None` for keys that were read just now. Keys of more than seven days
    /// are not used.
    pub read_at: Option<UnixSeconds>,
}

/// The keys of an attestation issuer.
#[derive(Clone)]
pub enum IssuerKeys {
    /// Always the same.
    Fixed(KeySet),
    /// Read from a source, now and then.
    Read {
        /// The source.
        source: Arc<dyn KeySetSource>,
        /// Keys that were read from it already. A reload prefers those that the service has read.
        first: Option<FirstKeys>,
        /// From which age on they are read again.
        refresh: Duration,
    },
}

impl IssuerKeys {
    fn source_name(&self) -> &str {
        match self {
            Self::Fixed(_) => "",
            Self::Read { source, .. } => source.name(),
        }
    }
}

/// An issuer of the tokens of integrity bundles.
#[derive(Clone)]
pub struct AttestationIssuer {
    /// Its name: the claim `iss` of its tokens.
    pub issuer: String,
    /// The environments whose bundles are judged by its keys. Another issuer has none of them.
    pub environments: Vec<RequestedEnvironment>,
    /// Its keys.
    pub keys: IssuerKeys,
    /// How far the clocks of devices may be ahead, and how late a token may come.
    pub clock_tolerance: Duration,
}

impl fmt::Debug for AttestationIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let environments: Vec<_> = self.environments.iter().map(|environment| environment.name()).collect();
        f.debug_struct("AttestationIssuer")
            .field("issuer", &self.issuer)
            .field("environments", &environments)
            .field("source", &self.keys.source_name())
            .finish_non_exhaustive()
    }
}

/// How the keys of an attestation issuer stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttestationIssuerStatus {
    /// The issuer's name.
    pub issuer: String,
    /// The environments whose bundles are judged by its keys.
    pub environments: Vec<&'static str>,
    /// Where its keys are read; empty for keys that are always the same.
    pub source: String,
    /// The number of keys; `None` before the first good read.
    pub keys: Option<usize>,
    /// Seconds since the keys were read; `None` before the first good read, and for keys that are
    /// always the same.
    pub age_seconds: Option<u64>,
    /// Why the last read failed; `None` when it did not.
    pub failure: Option<String>,
    /// Since when reads fail, in Unix seconds.
    pub failing_since: Option<UnixSeconds>,
}

/// An attestation issuer with the keys that were read.
pub(super) struct IssuerState {
    settings: AttestationIssuer,
    progress: Mutex<Progress>,
    read: Counter,
    failed: Counter,
}

#[derive(Default)]
struct Progress {
    keys: Option<Arc<KeySet>>,
    /// When the keys were read.
    read_at: Option<Duration>,
    /// When the last read began.
    attempted_at: Option<Duration>,
    failure: Option<(UnixSeconds, String)>,
    /// Ends when the read that is under way does.
    under_way: Option<watch::Receiver<()>>,
}

impl IssuerState {
    /// The issuers of `settings`. One that was there before, with the same source, keeps its keys.
    pub fn of(settings: Vec<AttestationIssuer>, before: &[Arc<Self>], now: Duration) -> Vec<Arc<Self>> {
        settings.into_iter().map(|settings| Arc::new(Self::new(settings, before, now))).collect()
    }

    fn new(settings: AttestationIssuer, before: &[Arc<Self>], now: Duration) -> Self {
        let is_same = |other: &&Arc<Self>| {
            let AttestationIssuer { issuer, keys, .. } = &other.settings;
            *issuer == settings.issuer && keys.source_name() == settings.keys.source_name()
        };
        let kept = before.iter().find(is_same).map(|other| other.lock().clone_keys()).unwrap_or_default();
        let progress = match &settings.keys {
            IssuerKeys::Fixed(keys) => Progress { keys: Some(Arc::new(keys.clone())), ..Progress::default() },
            IssuerKeys::Read { first: Some(FirstKeys { keys, read_at: None }), .. } => Progress {
                keys: Some(Arc::new(keys.clone())),
                read_at: Some(now),
                attempted_at: Some(now),
                ..Progress::default()
            },
            IssuerKeys::Read { first: Some(FirstKeys { keys, read_at: Some(read_at) }), .. }
                if kept.keys.is_none() && is_fresh(*read_at, now) =>
            {
                let read_at = Some(Duration::from_secs(read_at.0));
                Progress { keys: Some(Arc::new(keys.clone())), read_at, ..kept }
            }
            IssuerKeys::Read { .. } => kept,
        };
        Self { settings, progress: Mutex::new(progress), read: Counter::default(), failed: Counter::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys that judge a bundle now. Old keys are read again meanwhile; without keys, the
    /// caller waits for the first.
    async fn keys(self: &Arc<Self>, clock: &Arc<dyn Clock>, deadline: Instant) -> Option<Arc<KeySet>> {
        let now = clock.now();
        let (keys, is_old) = {
            let progress = self.lock();
            (progress.keys.clone(), progress.is_old(&self.settings.keys, now))
        };
        if is_old {
            let reading = self.read_again(clock);
            if keys.is_none()
                && let Some(mut reading) = reading
            {
                // An end of the read is an end of the channel.
                drop(timeout_at(deadline, reading.changed()).await);
                return self.lock().keys.clone();
            }
        }
        keys
    }

    /// Other keys than those that did not judge a bundle: those of another read, if the last one
    /// was a while ago.
    async fn newer_keys(
        self: &Arc<Self>,
        than: &Arc<KeySet>,
        clock: &Arc<dyn Clock>,
        deadline: Instant,
    ) -> Option<Arc<KeySet>> {
        if let Some(mut reading) = self.read_again(clock) {
            drop(timeout_at(deadline, reading.changed()).await);
        }
        self.lock().keys.clone().filter(|keys| keys != than)
    }

    /// Whether the last read failed, so that the issuer may have other keys by now.
    fn is_failing(&self) -> bool {
        let progress = self.lock();
        progress.failure.is_some() || progress.under_way.is_some()
    }

    /// Begins a read of the keys, unless the last one began within [`PAUSE`]; returns what ends
    /// with the read that is under way, if one is.
    pub fn read_again(self: &Arc<Self>, clock: &Arc<dyn Clock>) -> Option<watch::Receiver<()>> {
        let IssuerKeys::Read { source, .. } = &self.settings.keys else { return None };
        let now = clock.now();
        let mut progress = self.lock();
        // The sender of a read that panicked is gone.
        drop(progress.under_way.take_if(|reading| reading.has_changed().is_err()));
        if let Some(under_way) = &progress.under_way {
            return Some(under_way.clone());
        }
        // A clock that was set back ends no pause that a clock began which was ahead.
        let is_paused = |attempted: Duration| attempted <= now && now - attempted < PAUSE;
        if progress.attempted_at.is_some_and(is_paused) {
            return None;
        }
        let (ended, reading) = watch::channel(());
        progress.attempted_at = Some(now);
        progress.under_way = Some(reading.clone());
        let (state, clock, text) = (Arc::clone(self), Arc::clone(clock), source.read());
        let reads = async move {
            let text = timeout(READ_LIMIT, text).await;
            let text = text.unwrap_or_else(|_| Err(format!("no answer within {} s", READ_LIMIT.as_secs())));
            let keys = text.and_then(|text| match KeySet::read(&text) {
                Ok(keys) => Ok((keys, text)),
                Err(error) => Err(error.to_string()),
            });
            state.take_over(keys, clock.as_ref());
            drop(ended);
        };
        // A task of its own: the others wait for it also when the first caller goes away.
        drop(tokio::spawn(reads.in_current_span()));
        Some(reading)
    }

    /// Takes over the keys of a read, with their text.
    fn take_over(&self, keys: Result<(KeySet, Vec<u8>), String>, clock: &dyn Clock) {
        let (issuer, source) = (&self.settings.issuer, self.settings.keys.source_name());
        let mut progress = self.lock();
        progress.under_way = None;
        match keys {
            Ok((keys, text)) => {
                if let IssuerKeys::Read { source, .. } = &self.settings.keys {
                    source.keep(text, clock.unix_seconds());
                }
                self.read.inc();
                if progress.failure.take().is_some() || progress.keys.is_none() {
                    tracing::info!(issuer, source, "the keys of the attestation issuer were read");
                }
                progress.keys = Some(Arc::new(keys));
                progress.read_at = Some(clock.now());
            }
            Err(error) => {
                self.failed.inc();
                tracing::warn!(issuer, source, error, "the keys of the attestation issuer cannot be read");
                let since = progress.failure.as_ref().map_or(clock.unix_seconds(), |(since, _)| *since);
                progress.failure = Some((since, error));
            }
        }
    }

    fn status(&self, now: Duration) -> AttestationIssuerStatus {
        let progress = self.lock();
        let AttestationIssuer { issuer, environments, keys, .. } = &self.settings;
        AttestationIssuerStatus {
            issuer: issuer.clone(),
            environments: environments.iter().map(|environment| environment.name()).collect(),
            source: keys.source_name().to_owned(),
            keys: progress.keys.as_ref().map(|keys| keys.ids().count()),
            age_seconds: progress.read_at.map(|read_at| now.saturating_sub(read_at).as_secs()),
            failure: progress.failure.as_ref().map(|(_, failure)| failure.clone()),
            failing_since: progress.failure.as_ref().map(|(since, _)| *since),
        }
    }
}

/// Whether keys that were read then are used by a start now. A clock that was set back is no reason
/// to have none.
fn is_fresh(read_at: UnixSeconds, now: Duration) -> bool {
    now.saturating_sub(Duration::from_secs(read_at.0)) <= OLDEST_KEPT
}

impl Progress {
    fn clone_keys(&self) -> Self {
        let Self { keys, read_at, attempted_at, failure, under_way: _ } = self;
        let (keys, failure) = (keys.clone(), failure.clone());
        Self { keys, read_at: *read_at, attempted_at: *attempted_at, failure, under_way: None }
    }

    /// Whether the keys are to be read again, for their age. A clock that was set back is no reason
    /// to leave them as they are.
    fn is_old(&self, keys: &IssuerKeys, now: Duration) -> bool {
        let IssuerKeys::Read { refresh, .. } = keys else { return false };
        self.read_at.is_none_or(|read_at| read_at > now || now - read_at >= *refresh)
    }
}

// The judgement of a request's bundle.

/// A bundle's finding, and its use when it holds.
pub(super) type Judgement = (IntegrityFinding, Option<BundleUse>);

impl VerificationHandle {
    /// Judges the integrity bundle of an admitted request.
    pub(super) async fn judge_bundle(
        &self,
        request: &Arc<VerificationRequest>,
        admitted: &Admitted,
        deadline: Instant,
    ) -> Result<Judgement, VerificationError> {
        let app_id = || admitted.relying_party.app_id.clone();
        let refused = |error| VerificationError::Integrity { app_id: app_id(), error };
        check_presence(request, admitted).map_err(refused)?;
        if request.integrity_bundle.is_none() {
            return Ok((IntegrityFinding::NoBundle, None));
        }
        let issuers = self.inner.integrity.load();
        let is_for = |issuer: &&Arc<IssuerState>| issuer.settings.environments.contains(&request.environment);
        let Some(issuer) = issuers.iter().find(is_for) else {
            // The sender can leave the bundle out, so it is refused only where it is needed.
            return match is_required(request, admitted) {
                false => Ok((IntegrityFinding::NotChecked, None)),
                true => {
                    let environment = request.environment.name();
                    let reason = format!("the service has no keys to judge the integrity bundles of {environment}");
                    Err(VerificationError::unavailable(reason))
                }
            };
        };
        let used = self.judge_by(issuer, request, admitted, deadline).await?.used_for(&request.proofs);
        if !self.inner.recorder.may_use(&used)? {
            return Err(refused(IntegrityError::OtherNullifiers));
        }
        Ok((IntegrityFinding::Verified, Some(used)))
    }

    async fn judge_by(
        &self,
        issuer: &Arc<IssuerState>,
        request: &Arc<VerificationRequest>,
        admitted: &Admitted,
        deadline: Instant,
    ) -> Result<JudgedBundle, VerificationError> {
        let app_id = || admitted.relying_party.app_id.clone();
        let clock = &self.inner.clock;
        let unreadable = || {
            let reason = format!("the keys of the attestation issuer {} cannot be read", issuer.settings.issuer);
            VerificationError::unavailable(reason)
        };
        let keys = issuer.keys(clock, deadline).await.ok_or_else(unreadable)?;
        let judged = match self.judge(issuer, &keys, request, admitted).await? {
            // The issuer may have other keys by now.
            Err(error) if error.is_about_keys() => match issuer.newer_keys(&keys, clock, deadline).await {
                Some(newer) => self.judge(issuer, &newer, request, admitted).await?,
                None => Err(error),
            },
            judged => judged,
        };
        match judged {
            Err(error) if error.is_about_keys() && issuer.is_failing() => Err(unreadable()),
            judged => judged.map_err(|error| VerificationError::Integrity { app_id: app_id(), error }),
        }
    }

    /// Judges a bundle by these keys, on a blocking thread: that takes two checks of signatures.
    async fn judge(
        &self,
        issuer: &Arc<IssuerState>,
        keys: &Arc<KeySet>,
        request: &Arc<VerificationRequest>,
        admitted: &Admitted,
    ) -> Result<Result<JudgedBundle, IntegrityError>, VerificationError> {
        let (issuer, keys, request, admitted) =
            (Arc::clone(issuer), Arc::clone(keys), Arc::clone(request), admitted.clone());
        let now = self.inner.clock.unix_seconds();
        let work = move || {
            let AttestationIssuer { issuer, clock_tolerance, .. } = &issuer.settings;
            let rules = IntegrityRules::new(issuer, &admitted, &request.proofs, now, clock_tolerance.as_secs());
            request.integrity_bundle.as_ref().map(|bundle| bundle.judge(&keys, &rules))
        };
        let failed = || VerificationError::unavailable("checking the integrity bundle failed");
        self.inner.blocking.run(work).await.ok().flatten().ok_or_else(failed)
    }

    /// Changes the attestation issuers, from the next request on. One with the same source keeps
    /// the keys that were read.
    pub fn set_attestation_issuers(&self, issuers: Vec<AttestationIssuer>) {
        let before = self.inner.integrity.load();
        let issuers = IssuerState::of(issuers, &before, self.inner.clock.now());
        self.inner.integrity.store(Arc::new(issuers));
    }

    /// How the keys of the attestation issuers stand.
    pub fn attestation_issuers(&self) -> Vec<AttestationIssuerStatus> {
        let now = self.inner.clock.now();
        self.inner.integrity.load().iter().map(|issuer| issuer.status(now)).collect()
    }

    /// Begins to read keys that were not read yet, or are old, so that the status shows early what
    /// cannot be read. Called within a runtime.
    pub fn begin_to_read_keys(&self) {
        let now = self.inner.clock.now();
        for issuer in self.inner.integrity.load().iter() {
            let is_needed = {
                let progress = issuer.lock();
                progress.keys.is_none() || progress.is_old(&issuer.settings.keys, now)
            };
            if is_needed {
                drop(issuer.read_again(&self.inner.clock));
            }
        }
    }

    pub(super) fn write_integrity_metrics(&self, samples: &mut Samples<'_>) -> fmt::Result {
        let (issuers, now) = (self.inner.integrity.load(), self.inner.clock.now());
        let reads = issuers.iter().flat_map(|state| {
            let labels = |result| [("issuer", &*state.settings.issuer), ("result", result)];
            [(labels("good"), state.read.get()), (labels("failed"), state.failed.get())]
        });
        let help = "Reads of the keys of attestation issuers";
        samples.counters("selfsame_integrity_key_reads", help, reads)?;
        let ages = issuers.iter().filter_map(|state| {
            let age = usize::try_from(state.status(now).age_seconds?).ok()?;
            Some(([("issuer", &*state.settings.issuer)], age))
        });
        let help = "Seconds since the keys of an attestation issuer were read";
        samples.gauges("selfsame_integrity_keys_age_seconds", help, ages)
    }
}
