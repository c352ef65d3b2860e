//! Hostile clients on raw sockets against the whole daemon and every interface. Whatever a client
//! sends or holds back, it is answered or disconnected within a bounded time, no part of the daemon
//! fails, and the next ordinary client is served.
//!
//! | file | contents |
//! |---|---|
//! | `raw.rs` | the client that writes raw bytes and parses the answers |
//! | `framing.rs` | requests with an ambiguous end, and heads that are too large |
//! | `slow_clients.rs` | slow, silent and many clients |
//! | `http2.rs` | frames that break the rules of HTTP/2 |
//! | `tls.rs` | plain bytes where TLS is expected, TLS where plain HTTP is expected |
//! | `fuzz.rs` | random requests to every endpoint |

mod framing;
mod fuzz;
pub mod http2;
pub mod raw;
mod slow_clients;
mod tls;

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use selfsame::config::Config;
use selfsame_interfaces::interface::Interface;

use crate::harness::{Folder, TestDaemon, folder, until};

/// The timeouts of these daemons for a client. The clients of a test use the same threads as its
/// daemon, so what they send may take a part of this to arrive.
const SHORT: Duration = Duration::from_secs(2);

/// A daemon with short timeouts, each interface at an address of its own.
struct HostileTestDaemon {
    daemon: TestDaemon,
    _folder: Folder,
}

impl HostileTestDaemon {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = folder();
        let impatient = |config: &mut Config| {
            config.limits.header_timeout = SHORT.into();
            config.limits.idle_timeout = SHORT.into();
            config.limits.request_timeout = SHORT.into();
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

    /// The number of requests that an interface has handled, with any outcome.
    async fn handled(&self, interface: &str) -> u64 {
        let name = format!("selfsame_http_requests_total{{interface=\"{interface}\",");
        self.metrics().await.iter().filter(|(line, _)| line.starts_with(&name)).map(|(_, value)| value).sum()
    }

    /// The number of requests that were answered with a status from 500 up.
    async fn server_errors(&self) -> u64 {
        let is_error = |line: &str| line.starts_with("selfsame_http_requests_total{") && line.contains("status=\"5");
        self.metrics().await.iter().filter(|(line, _)| is_error(line)).map(|(_, value)| value).sum()
    }

    /// The number of accepted requests for accounts.
    async fn accepted(&self) -> u64 {
        let metrics = self.metrics().await;
        metrics
            .iter()
            .find(|(line, _)| line == "selfsame_registry_requests_total{state=\"accepted\"}")
            .expect("counted")
            .1
    }

    /// Waits until the asking connection is the only open one.
    async fn wait_until_connections_gone(&self) {
        until("the end of all connections", async || {
            let metrics = self.metrics().await;
            let open = metrics.iter().filter(|(line, _)| line.starts_with("selfsame_http_open_connections{"));
            let open: u64 = open.map(|(_, open)| open).sum();
            if open <= 1 { Ok(()) } else { Err(open - 1) }
        })
        .await;
    }

    /// Asserts that every interface serves the next client.
    async fn assert_serves(&self) {
        join_all(self.interfaces().map(|(_, address)| wait_until_served(address))).await;
    }
}

/// Waits until an ordinary client is served; returns how many of its requests were answered. The
/// first one is, except while the listener still notices that hostile clients have gone, and on a
/// machine so busy that the request takes longer than [`SHORT`] to arrive.
async fn wait_until_served(address: SocketAddr) -> u64 {
    let mut answered = 0;
    until("an answer to an ordinary request", async || match raw::try_get(address, "/health").await {
        Some(reply) => {
            answered += 1;
            if reply.status == 200 { Ok(answered) } else { Err(Some(reply)) }
        }
        None => Err(None),
    })
    .await
}
