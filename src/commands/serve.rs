//! `selfsame serve`: runs the daemon.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use selfsame_actors::{Clock, ShiftedClock, SystemClock, SystemRandom};
use selfsame_interfaces::http::{AUDIT_TARGET, raise_descriptor_limit};
use selfsame_interfaces::operator::{Build, ReloadRequest};
use selfsame_protocol::operator::{ReloadOutcome, ReloadReport};
use selfsame_protocol::time::UnixSeconds;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;

use super::outcome::{CommandError, Output};
use crate::cli::Serve;
use crate::config::{App, Config, Reloaded};
use crate::daemon::Daemon;
use crate::logging;
use crate::prepared::{ConfigSource, Warning};
use crate::process::{
    inherited_listeners, notify_alive, notify_ready, notify_reloading, notify_stopping, watchdog_interval,
};
use crate::reloading::Reloading;

/// How long the process waits at its end for threads that still work.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two looks at the files of the certificate.
const CERTIFICATE_WATCH: Duration = Duration::from_secs(60);

/// Ignores SIGHUP until [`serve`] handles it. Nothing is lost: the configuration is not read
/// before.
pub fn ignore_hangup() {
    #[expect(unsafe_code, reason = "the standard library has no function for it")]
    // SAFETY: a signal that is ignored runs no code, and there is no other thread yet.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}

/// Runs the daemon until SIGTERM or SIGINT.
pub fn serve(options: &Serve, build: Build, out: &mut Output) -> Result<ExitCode, CommandError> {
    // They are in variables, which are removed before there are other threads.
    let inherited = inherited_listeners()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Before anything is read: a signal that comes during the start is taken when the daemon runs.
    let hangup = {
        let _entered = runtime.enter();
        signal(SignalKind::hangup())?
    };
    let clock: Arc<dyn Clock> = match options.clock {
        Some(time) => Arc::new(ShiftedClock::starting_at(time)),
        None => Arc::new(SystemClock),
    };
    let (config, prepared) = options.source.prepare(clock.unix_seconds())?;
    raise_descriptor_limit();
    #[cfg(feature = "fault-injection")]
    let _faults = selfsame_actors::faults::run_plan_of_environment().map_err(|error| format!("FAILPOINTS: {error}"))?;
    let traces = start_log(&config, &runtime, Arc::clone(&clock))?;
    let ended = runtime.block_on(async {
        // Dropped at the end: the last traces are sent while the runtime still works.
        let _traces = traces;
        // A signal that comes during the start is taken when the daemon runs.
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let random = Arc::new(SystemRandom);
        let starting = Daemon::start_prepared(&config, prepared, inherited, build, Arc::clone(&clock), random);
        let mut daemon = starting.await?;
        announce(&config, build, &daemon, out);
        notify_ready();
        let verification = daemon.verification();
        tokio::task::spawn_blocking(move || verification.warm_up());
        // A replica may have no leader yet that could write them; it creates them at first use.
        if config.cluster.is_none() {
            prepare_keys(&daemon);
        }
        let requests = daemon.take_reload_requests();
        let source = options.source.clone();
        let reloader = Reloader { source, config, clock, reloading: daemon.reloading() };
        let ended = daemon.run(wait_for_stop_signal([terminate, interrupt], hangup, requests, reloader)).await;
        tracing::info!("stopped");
        let outcome = if ended.is_ok() { "success" } else { "failed" };
        tracing::info!(target: AUDIT_TARGET, event = "stopped", outcome);
        ended?;
        Ok(ExitCode::SUCCESS)
    });
    // An actor that is stuck may hold a thread of the runtime, so the wait is bounded.
    runtime.shutdown_timeout(STOP_TIMEOUT);
    ended
}

/// Creates the keys at the first start, which takes one or two seconds.
fn prepare_keys(daemon: &Daemon) {
    let (sign_in, registry) = (daemon.sign_in(), daemon.registry());
    tokio::spawn(async move {
        if let Err(error) = sign_in.published_keys().await {
            tracing::error!(%error, "the signing keys cannot be prepared");
        }
    });
    tokio::spawn(async move {
        if let Err(error) = registry.signed_head().await {
            tracing::error!(%error, "the registry's key cannot be prepared");
        }
    });
}

/// Starts the log, and what sends traces. When the result is dropped, the last traces are sent.
#[cfg(feature = "otlp")]
fn start_log(config: &Config, runtime: &Runtime, clock: Arc<dyn Clock>) -> Result<impl Drop + use<>, CommandError> {
    let _entered = runtime.enter();
    let (layer, traces) = crate::traces::start(&config.traces)?;
    logging::start(config.log.format, layer, clock)?;
    Ok(traces)
}

/// Starts the log.
#[cfg(not(feature = "otlp"))]
fn start_log(config: &Config, _: &Runtime, clock: Arc<dyn Clock>) -> Result<NoTraces, CommandError> {
    logging::start(config.log.format, None, clock)?;
    Ok(NoTraces)
}

/// In the place of traces that are sent.
#[cfg(not(feature = "otlp"))]
struct NoTraces;

/// Logs where each interface is served; with `--dev` prints the table.
fn announce(config: &Config, build: Build, daemon: &Daemon, out: &mut Output) {
    let urls = config.public_urls(&daemon.addresses());
    for (interface, url) in urls.iter().filter(|(interface, _)| daemon.serves(*interface)) {
        tracing::info!(interface = interface.name(), url, "serving");
    }
    let (version, commit) = (build.version, build.commit);
    tracing::info!(target: AUDIT_TARGET, event = "started", outcome = "success", version, commit);
    if config.dev
        && let Err(error) = writeln!(out, "{}", config.dev_summary(&urls, |interface| daemon.serves(interface)))
    {
        tracing::warn!(%error, "the table of --dev cannot be printed");
    }
    let reloading = daemon.reloading();
    Warning::all(config, |app| reloading.knows_legacy_history(app)).iter().for_each(Warning::log);
}

/// Waits for SIGTERM or SIGINT. Each SIGHUP and each request of the operator before reads the
/// configuration again.
async fn wait_for_stop_signal(
    [mut terminate, mut interrupt]: [Signal; 2],
    mut hangup: Signal,
    mut requests: Option<Receiver<ReloadRequest>>,
    mut reloader: Reloader,
) {
    let mut watch = tokio::time::interval(CERTIFICATE_WATCH);
    let watchdog = watchdog_interval();
    let mut alive = tokio::time::interval(watchdog.unwrap_or(CERTIFICATE_WATCH));
    loop {
        let requested = async {
            match &mut requests {
                Some(requests) => requests.recv().await,
                None => None,
            }
        };
        tokio::select! {
            _ = watch.tick() => reloader.reloading.reload_changed_certificate(),
            _ = alive.tick(), if watchdog.is_some() => notify_alive(),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                // A request to the operator interface has this event from there.
                let outcome = reloader.reload().outcome.name();
                tracing::info!(target: AUDIT_TARGET, event = "configuration_reloaded", outcome);
            }
            Some(answer) = requested => {
                // The caller may have gone; what was read is in force all the same.
                let _ = answer.send(reloader.reload());
            }
        }
    }
    notify_stopping();
    tracing::info!("stopping");
}

/// Reads the configuration again, for SIGHUP and for the operator.
struct Reloader {
    source: ConfigSource,
    /// The configuration in force.
    config: Config,
    clock: Arc<dyn Clock>,
    reloading: Reloading,
}

impl Reloader {
    /// Reads the configuration again. One that a start would refuse changes nothing, except that
    /// a changed certificate in the old files is taken over, as it is each minute.
    fn reload(&mut self) -> ReloadReport {
        notify_reloading();
        let now = self.clock.unix_seconds();
        let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + now.since_epoch()).to_string();
        let report = match self.try_reload(now) {
            Ok((changed, needs_restart)) => {
                tracing::info!(changed = changed.join(", "), "the configuration was read again");
                let is_known = |app: &App| self.reloading.knows_legacy_history(app);
                Warning::all(&self.config, is_known).iter().for_each(Warning::log);
                for key in &needs_restart {
                    tracing::warn!(key, "this setting has changed and needs a restart");
                }
                ReloadReport { outcome: ReloadOutcome::Success, time, changed, needs_restart, problems: Vec::new() }
            }
            Err(problems) => {
                let error = problems.join("\n");
                tracing::error!(%error, "the new configuration is not valid; the old one stays in force");
                self.reloading.reload_changed_certificate();
                let (changed, needs_restart) = (Vec::new(), Vec::new());
                ReloadReport { outcome: ReloadOutcome::Refused, time, changed, needs_restart, problems }
            }
        };
        self.reloading.status().record(report.clone(), now);
        notify_ready();
        report
    }

    /// The keys of the settings that changed, and of those that wait for a restart.
    fn try_reload(&mut self, now: UnixSeconds) -> Result<(Vec<String>, Vec<String>), Vec<String>> {
        let lines = |error: String| error.lines().map(str::to_owned).collect::<Vec<_>>();
        let (new, prepared) = self.source.prepare(now).map_err(|problems| problems.lines())?;
        let reloaded = self.config.with_reloaded(new).map_err(|error| lines(error.to_string()))?;
        let Reloaded { config, mut changed, needs_restart } = reloaded;
        self.reloading.check(&config).map_err(|error| lines(error.to_string()))?;
        self.reloading.apply(&config).map_err(|error| lines(error.to_string()))?;
        self.reloading.replace_logos_and_links(&prepared.appearance, &prepared.wallet_links);
        self.reloading.replace_webhooks(prepared.webhooks, &config);
        self.reloading.replace_attestation_issuers(prepared.attestation_issuers);
        let certificate = prepared.tls.as_ref().map(|(certificate, _)| &**certificate);
        if self.reloading.replace_certificate(certificate) && !changed.iter().any(|key| key == "tls") {
            changed.push("tls".to_owned());
        }
        self.config = config;
        Ok((changed, needs_restart))
    }
}
