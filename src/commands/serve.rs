//! `selfsame serve`: runs the daemon.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use selfsame_actors::{Clock, ShiftedClock, SystemClock, SystemRandom};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CommandError;
use super::output::Output;
use crate::cli::Serve;
use crate::config::{Config, ConfigError, Loaded};
use crate::daemon::{Daemon, Reloading};
use crate::http::AUDIT_TARGET;
use crate::interface::PerInterface;
use crate::logging;
use crate::prepared::Warning;

/// How long the process waits at its end for threads that still work.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two looks at the files of the certificate.
const CERTIFICATE_WATCH: Duration = Duration::from_secs(60);

/// Runs the daemon until SIGTERM or SIGINT.
pub fn serve(options: &Serve, out: &mut Output) -> Result<ExitCode, CommandError> {
    let clock: Arc<dyn Clock> = match options.clock {
        Some(time) => Arc::new(ShiftedClock::starting_at(time)),
        None => Arc::new(SystemClock),
    };
    let (config, prepared) = options.source.prepare(clock.unix_seconds())?;
    logging::start(config.log.format)?;
    #[cfg(feature = "fault-injection")]
    let _faults = selfsame_actors::faults::run_plan_of_environment().map_err(|error| format!("FAILPOINTS: {error}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let hangup = signal(SignalKind::hangup())?;
        let daemon = Daemon::start_prepared(&config, prepared, clock, Arc::new(SystemRandom)).await?;
        announce(&config, &daemon.addresses(), out);
        let verification = daemon.verification();
        tokio::task::spawn_blocking(move || verification.warm_up());
        let sign_in = daemon.sign_in();
        tokio::spawn(async move {
            // The first start creates the keys, which takes one or two seconds.
            if let Err(error) = sign_in.published_keys().await {
                tracing::error!(%error, "the signing keys cannot be prepared");
            }
        });
        let registry = daemon.registry();
        tokio::spawn(async move {
            // The first start creates the key.
            if let Err(error) = registry.signed_head().await {
                tracing::error!(%error, "the registry's key cannot be prepared");
            }
        });
        let reloading = daemon.reloading();
        let ended = daemon.run(wait_for_stop_signal(terminate, interrupt, hangup, options, config, reloading)).await;
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

fn load(options: &Serve) -> Result<Config, ConfigError> {
    let Loaded { config, errors, .. } = options.source.load()?;
    if errors.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(errors)) }
}

/// Logs where each interface is served; with `--dev` prints the table.
fn announce(config: &Config, addresses: &PerInterface<SocketAddr>, out: &mut Output) {
    let urls = config.public_urls(addresses);
    for (interface, url) in urls.iter() {
        tracing::info!(interface = interface.name(), url, "serving");
    }
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(target: AUDIT_TARGET, event = "started", outcome = "success", version);
    if config.dev
        && let Err(error) = writeln!(out, "{}", config.dev_summary(&urls))
    {
        tracing::warn!(%error, "the table of --dev cannot be printed");
    }
    Warning::all(config).iter().for_each(Warning::log);
}

/// Waits for SIGTERM or SIGINT. Each SIGHUP before reads the configuration again.
async fn wait_for_stop_signal(
    mut terminate: Signal,
    mut interrupt: Signal,
    mut hangup: Signal,
    options: &Serve,
    mut config: Config,
    reloading: Reloading,
) {
    let mut watch = tokio::time::interval(CERTIFICATE_WATCH);
    loop {
        tokio::select! {
            _ = watch.tick() => reloading.reload_changed_certificate(),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                reload(options, &mut config);
                reloading.apply(&config);
            }
        }
    }
    tracing::info!("stopping");
}

/// Reads the configuration again. An invalid one changes nothing and is logged.
fn reload(options: &Serve, config: &mut Config) {
    match load(options).and_then(|new| config.with_reloaded(new)) {
        Ok((reloaded, waiting)) => {
            *config = reloaded;
            tracing::info!("the configuration was read again");
            tracing::info!(target: AUDIT_TARGET, event = "configuration_reloaded", outcome = "success");
            Warning::all(config).iter().for_each(Warning::log);
            for key in waiting {
                tracing::warn!(key, "this setting has changed and needs a restart");
            }
        }
        Err(error) => {
            tracing::error!(%error, "the new configuration is not valid; the old one stays in force");
            tracing::info!(target: AUDIT_TARGET, event = "configuration_reloaded", outcome = "refused");
        }
    }
}
