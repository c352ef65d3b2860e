//! Clients that mean harm, on raw sockets, against the whole daemon and every interface: whatever they send or do not send, they
//! are answered or sent away within a bounded time, nothing of ours fails over it, and the next ordinary client is served.
//!
//! | file | what the clients do |
//! |---|---|
//! | `raw.rs` | the client that writes bytes and reads what comes |
//! | `framing.rs` | requests whose end is in doubt, heads that are too large |
//! | `patience.rs` | slow, silent and many clients |
//! | `http2.rs` | frames that no good client sends |
//! | `tls.rs` | no TLS where there should be, TLS where there should not |
//! | `fuzz.rs` | random requests to every endpoint |

mod framing;
mod fuzz;
pub mod http2;
mod patience;
pub mod raw;
mod tls;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use selfsame::config::Config;
use selfsame::interface::Interface;
use tempfile::TempDir;

use crate::harness::{TestDaemon, folder};
use raw::Reply;

/// How long the daemons of these tests wait for a client.
const SHORT: Duration = Duration::from_secs(1);
/// When a client that harms has to be gone: a few times [`SHORT`], and as much again on a machine that has other things to do.
const GONE_WITHIN: Duration = Duration::from_secs(15);
/// How soon an ordinary request is answered.
const PROMPTLY: Duration = Duration::from_secs(5);
/// How often a condition is looked at that comes without a signal.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A daemon with little patience, each interface on an address of its own.
struct Besieged {
    daemon: TestDaemon,
    _folder: TempDir,
}

impl Besieged {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = folder();
        let impatient = |config: &mut Config| {
            config.limits.header_timeout = SHORT;
            config.limits.idle_timeout = SHORT;
            config.limits.request_timeout = SHORT;
            change(config);
        };
        Self { daemon: TestDaemon::start_with(folder.path(), impatient).await, _folder: folder }
    }

    /// The interfaces with their names in the metrics.
    fn interfaces(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.daemon.addresses.iter().map(|(interface, address)| (interface.name(), *address))
    }

    /// The lines of the metrics, names and values.
    async fn metrics(&self) -> Vec<(String, u64)> {
        let reply = raw::get(self.daemon.addresses[Interface::Operator], "/metrics").await;
        assert_eq!(reply.status, 200);
        let text = String::from_utf8(reply.body).expect("text");
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        text.lines().filter_map(value).collect()
    }

    /// Requests that an interface has handled, whatever became of them.
    async fn handled(&self, interface: &str) -> u64 {
        let name = format!("selfsame_http_requests_total{{interface=\"{interface}\",");
        self.metrics().await.iter().filter(|(line, _)| line.starts_with(&name)).map(|(_, value)| value).sum()
    }

    /// Requests that were answered with a status from 500.
    async fn server_errors(&self) -> u64 {
        let is_error =
            |line: &str| line.starts_with("selfsame_http_requests_total{") && line.ends_with("status=\"5xx\"}");
        self.metrics().await.iter().filter(|(line, _)| is_error(line)).map(|(_, value)| value).sum()
    }

    /// Accounts that were asked for and accepted.
    async fn accepted(&self) -> u64 {
        let metrics = self.metrics().await;
        metrics.iter().find(|(line, _)| line == "selfsame_registry_accepted_total").expect("counted").1
    }

    /// Waits until only the connection that asks is open.
    async fn all_connections_gone(&self, within: Duration) {
        let started = Instant::now();
        loop {
            let metrics = self.metrics().await;
            let open = metrics.iter().find(|(line, _)| line == "selfsame_http_open_connections").expect("counted").1;
            if open <= 1 {
                return;
            }
            assert!(started.elapsed() < within, "{} connections are still open", open - 1);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Asserts that every interface serves the next client.
    async fn still_serves(&self) {
        join_all(self.interfaces().map(|(_, address)| answers_promptly(address))).await;
    }
}

/// Returns once an ordinary request is answered again: that clients have gone is noticed a moment later.
async fn is_served_again(address: SocketAddr, within: Duration) {
    let started = Instant::now();
    while raw::get(address, "/health").await.status != 200 {
        assert!(started.elapsed() < within, "it is not served again after {within:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Asserts that an ordinary request is answered soon; the answer.
async fn answers_promptly(address: SocketAddr) -> Reply {
    let started = Instant::now();
    let reply = raw::get(address, "/health").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(started.elapsed() < PROMPTLY, "it took {:?}", started.elapsed());
    reply
}
