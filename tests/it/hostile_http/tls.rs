//! Plain bytes where TLS is expected, and TLS where plain HTTP is expected.

use std::net::SocketAddr;

use futures_util::future::join_all;

use super::raw::{connect, exchange, replies};
use super::{HostileTestDaemon, http2, wait_until_served};
use crate::harness::{folder, until};
use crate::tls::certificate;

/// The beginning of a ClientHello as browsers send it.
const HELLO: &[u8] =
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e";

/// A TLS record.
fn record(kind: u8, length: u16, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3], length.to_be_bytes().as_slice(), content].concat()
}

/// Bytes that are not a valid beginning of TLS.
fn garbage() -> Vec<Vec<u8>> {
    const HANDSHAKE: u8 = 22;
    const ALERT: u8 = 21;
    const DATA: u8 = 23;
    vec![
        Vec::new(),
        b"\x16".to_vec(),
        b"GET /health HTTP/1.1\r\nhost: h\r\n\r\n".to_vec(),
        [http2::PREFACE, &http2::settings(&[])].concat(),
        HELLO.to_vec(),
        // The hello of SSL 2.
        b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10\x01\x00\x80\x03\x00\x80\x07\x00\xc0\x06\x00\x40\x02\x00\x80\x04\x00\x80".to_vec(),
        record(HANDSHAKE, 0, b""),
        record(HANDSHAKE, 0, b"").repeat(10_000),
        record(HANDSHAKE, u16::MAX, &[0; 70_000]),
        record(HANDSHAKE, 4, b"\x01\xff\xff\xff"),
        // A ClientHello of 16 MB, one byte of it in each record.
        [record(HANDSHAKE, 4, b"\x01\xff\xff\xff"), record(HANDSHAKE, 1, b"\0").repeat(200_000)].concat(),
        record(HANDSHAKE, 4, b"\x02\0\0\0"),
        record(ALERT, 2, b"\x02\x28"),
        record(ALERT, 2, b"\x01\x5a").repeat(10_000),
        record(DATA, 5, b"hello"),
        record(0x7f, 5, b"hello"),
        vec![0; 100_000],
        vec![0xff; 100_000],
        (0..=255).cycle().take(100_000).collect(),
    ]
}

async fn served_over_tls(http: &reqwest::Client, address: SocketAddr) {
    until("an answer over TLS", async || match http.get(format!("https://{address}/health")).send().await {
        Ok(answer) if answer.status() == 200 => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn garbage_on_a_tls_listener_is_disconnected() {
    let files = folder();
    let (tls, trusted) = certificate(&files);
    let target = HostileTestDaemon::start_with(|config| config.tls = Some(tls)).await;
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).pool_max_idle_per_host(0).build();
    let http = http.expect("a client");
    let public = target.interfaces().filter(|(interface, _)| *interface != "operator");
    let garbage = garbage();
    join_all(public.map(|(_, address)| {
        let (http, garbage) = (&http, &garbage);
        async move {
            join_all(garbage.iter().map(|bytes| async move {
                let answered = exchange(connect(address).await, bytes).await;
                // The daemon answers with an alert or with nothing.
                assert!(matches!(answered.first(), None | Some(21)), "{answered:?}");
            }))
            .await;
            served_over_tls(http, address).await;
        }
    }))
    .await;
    target.wait_until_connections_gone().await;
}

#[tokio::test]
async fn tls_on_a_plain_listener_is_disconnected() {
    let target = HostileTestDaemon::start().await;
    join_all(target.interfaces().map(|(interface, address)| async move {
        join_all([HELLO.to_vec(), [HELLO, &[0; 500]].concat(), record(21, 2, b"\x02\x28")].map(|bytes| async move {
            let answered = replies(&exchange(connect(address).await, &bytes).await);
            let statuses: Vec<u16> = answered.iter().map(|reply| reply.status).collect();
            assert!(matches!(statuses.as_slice(), [] | [400]), "{interface}: {statuses:?}");
        }))
        .await;
        wait_until_served(address).await;
    }))
    .await;
}
