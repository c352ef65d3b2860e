//! How long a connection may wait for its client, in simulated time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::{Instant, advance};

use crate::http::exchange::{Client, Conditions, Exchange, Source};
use crate::http::load::Load;
use crate::http::server::until_idle;
use crate::http::{Limits, shutdown};

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> Limits {
    Limits { connections: 16, header_timeout: 10 * SECOND, idle_timeout: 75 * SECOND, ..Limits::default() }
}

/// A connection of a peer with this last byte.
fn accept(load: &Arc<Load>, last: u8) -> Arc<Client> {
    let (_, shutdown) = shutdown();
    let limits = limits();
    let peer = IpAddr::from([192, 0, 2, last]);
    let permit = Load::enter(load, peer, &limits, false).expect("the listener has room");
    let limits = Arc::new(ArcSwap::from_pointee(limits));
    let trusted_proxy = Arc::new(|_: IpAddr| false);
    let conditions = Conditions { limits, trusted_proxy, shutdown, open_connections: Gauge::default() };
    Arc::new(Client::new(conditions, Source::Address(peer), permit, None))
}

/// Begins a request, which is open until the result is dropped.
fn ask(client: &Arc<Client>) -> Exchange {
    let (head, ()) = hyper::Request::new(()).into_parts();
    Exchange::begin(Arc::clone(client), &head)
}

/// Whole seconds until the connection is closed.
async fn seconds_until_closed(client: &Client) -> u64 {
    let began = Instant::now();
    until_idle(client).await;
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn the_first_head_has_the_time_that_the_handshake_left() {
    let client = accept(&Arc::default(), 1);
    advance(8 * SECOND).await;
    assert_eq!(seconds_until_closed(&client).await, 2);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_make_place_when_the_listener_is_half_full() {
    let load = Arc::default();
    let client = accept(&load, 1);
    drop(ask(&client));
    assert_eq!(seconds_until_closed(&client).await, 10 + 75);
    let others: Vec<_> = (2..=9).map(|last| accept(&load, last)).collect();
    let client = accept(&load, 10);
    drop(ask(&client));
    assert_eq!(seconds_until_closed(&client).await, 10 + 5);
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn unread_answers_make_place_when_the_listener_is_half_full() {
    let load = Arc::default();
    let client = accept(&load, 1);
    let unread = ask(&client);
    unread.await_client();
    assert_eq!(seconds_until_closed(&client).await, 75);
    let others: Vec<_> = (2..=9).map(|last| accept(&load, last)).collect();
    assert_eq!(seconds_until_closed(&client).await, 5);
    drop((others, unread));
}

#[tokio::test(start_paused = true)]
async fn a_connection_in_the_reserve_has_two_seconds_for_its_request() {
    let load = Arc::default();
    let ordinary: Vec<_> = (1..=14).map(|last| accept(&load, last)).collect();
    let client = accept(&load, 15);
    assert!(client.is_reserved());
    assert_eq!(seconds_until_closed(&client).await, 2);
    drop(ordinary);
}
