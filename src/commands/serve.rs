//! `selfsame serve`: runs the daemon.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use selfsame_actors::{Clock, ShiftedClock, SystemClock, SystemRandom};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::CommandError;
use crate::cli::Serve;
use crate::config::{Config, ConfigError, settings_of_this_process};
use crate::daemon::{Addresses, Daemon, Reloading};

/// How long the end of the process waits for threads that are still at work.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// What is logged unless `RUST_LOG` says otherwise. The supervisors log restarts as errors and each start as information.
const DEFAULT_LOGS: &str = "info,ractor_supervisor=warn";

/// Runs the daemon until it is told to stop.
pub fn serve(options: Serve) -> Result<ExitCode, CommandError> {
    let config = load(&options)?;
    start_logging();
    #[cfg(feature = "fault-injection")]
    let _faults = selfsame_actors::faults::run_plan_of_environment().map_err(|error| format!("FAILPOINTS: {error}"))?;
    let clock: Arc<dyn Clock> = match options.clock {
        Some(time) => Arc::new(ShiftedClock::starting_at(time)),
        None => Arc::new(SystemClock),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let hangup = signal(SignalKind::hangup())?;
        let daemon = Daemon::start(&config, clock, Arc::new(SystemRandom)).await?;
        announce(&config, &daemon.addresses());
        let verification = daemon.verification();
        tokio::task::spawn_blocking(move || verification.warm_up());
        let sign_in = daemon.sign_in();
        tokio::spawn(async move {
            // Made at its first start, which takes a second or two.
            if let Err(error) = sign_in.published_keys().await {
                tracing::error!(%error, "the signing keys cannot be prepared");
            }
        });
        let reloading = daemon.reloading();
        daemon.run(until_told(terminate, interrupt, hangup, &options, config, reloading)).await?;
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    });
    // An actor that is stuck may hold a thread of the runtime: do not wait for that forever.
    runtime.shutdown_timeout(STOP_PATIENCE);
    ended
}

fn load(options: &Serve) -> Result<Config, ConfigError> {
    Config::load(options.config.as_deref(), settings_of_this_process(), options.dev, options.data.clone())
}

/// People get lines, machines get JSON; `RUST_LOG` sets the level.
fn start_logging() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOGS));
    // By default a line that cannot be written is told of on the same stream, by a macro that panics if that fails too: a log on a
    // full disk would take the daemon down.
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    if std::io::stderr().is_terminal() {
        logs.init();
    } else {
        logs.json().init();
    }
}

fn announce(config: &Config, addresses: &Addresses) {
    let urls = config.public_urls(&addresses.listen());
    let operator = format!("http://{}", addresses.operator);
    tracing::info!(
        verify = urls.portal_url,
        gateway = urls.gateway_url,
        indexer = urls.indexer_url,
        operator,
        "serving"
    );
    if config.dev {
        let interfaces = [
            ("sign-in", urls.id_url.as_str()),
            ("verification", urls.portal_url.as_str()),
            ("gateway", urls.gateway_url.as_str()),
            ("indexer", urls.indexer_url.as_str()),
            ("operator", &operator),
        ];
        println!("{}", config.dev_summary(&interfaces));
    }
}

/// Waits for SIGTERM or SIGINT. SIGHUP reads the configuration again meanwhile.
async fn until_told(
    mut terminate: Signal,
    mut interrupt: Signal,
    mut hangup: Signal,
    options: &Serve,
    mut config: Config,
    reloading: Reloading,
) {
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                reload(options, &mut config);
                reloading.take_over(&config);
            }
        }
    }
    tracing::info!("stopping");
}

/// Reads the configuration again. A bad one changes nothing and says so.
fn reload(options: &Serve, config: &mut Config) {
    match load(options) {
        Ok(new) => {
            let (reloaded, waiting) = config.with_reloaded(new);
            *config = reloaded;
            tracing::info!("the configuration was read again");
            for key in waiting {
                tracing::warn!(key, "this setting has changed and needs a restart");
            }
        }
        Err(error) => tracing::error!(%error, "the configuration was read again and is refused; the old one stays"),
    }
}
