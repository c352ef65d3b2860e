//! Traces: one request from the proxy's step to its block, as a collector gets them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, hex};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_wallet::operations::create_account;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{DaemonProcess, folder};
use crate::test_accounts::key;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT_ID: &str = "0102030405060708";

/// A collector of traces that takes OTLP over HTTP.
struct TraceCollector {
    url: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl TraceCollector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        tokio::spawn({
            let spans = Arc::clone(&spans);
            async move {
                loop {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    let exported = take_export(stream).await;
                    let resources = exported.resource_spans.into_iter().flat_map(|resource| {
                        let service = resource.resource.expect("a resource").attributes;
                        assert!(service.iter().any(|attribute| attribute.key == "service.name"), "{service:?}");
                        resource.scope_spans
                    });
                    spans.lock().expect("not poisoned").extend(resources.flat_map(|scope| scope.spans));
                }
            }
        });
        Self { url, spans }
    }

    /// The spans that were sent until now.
    fn spans(&self) -> Vec<Span> {
        self.spans.lock().expect("not poisoned").clone()
    }
}

/// Reads one export and answers it.
async fn take_export(mut stream: TcpStream) -> ExportTraceServiceRequest {
    let mut received = Vec::new();
    let head_end = loop {
        assert!(stream.read_buf(&mut received).await.expect("bytes") > 0, "the head ends early");
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8(received[..head_end].to_vec()).expect("text").to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let length: usize = length.parse().expect("a number");
    while received.len() < head_end + length {
        assert!(stream.read_buf(&mut received).await.expect("bytes") > 0, "the body ends early");
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("written");
    ExportTraceServiceRequest::decode(&received[head_end..]).expect("an export")
}

/// A span's attributes as text.
fn attributes(span: &Span) -> HashMap<&str, String> {
    let text = |value: &Attribute| match value {
        Attribute::StringValue(text) => text.clone(),
        Attribute::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let of = |attribute: &'_ opentelemetry_proto::tonic::common::v1::KeyValue| {
        text(attribute.value.as_ref().and_then(|value| value.value.as_ref()).expect("a value"))
    };
    span.attributes.iter().map(|attribute| (attribute.key.as_str(), of(attribute))).collect()
}

/// Creates an account under a `traceparent`, waits until it is final, and stops the daemon.
async fn create_traced(variables: &[(&str, &str)], flags: &str) -> Vec<Span> {
    let collector = TraceCollector::start().await;
    let folder = folder();
    let variables = [variables, &[("SELFSAME_TRACES__COLLECTOR", collector.url.as_str())]].concat();
    let process = DaemonProcess::start(folder.path(), &[], &variables);
    let operation = create_account(&[key("alice").authenticator()], Address::ZERO).operation;
    let request = reqwest::Client::new().post(format!("{}/create-account", process.gateway));
    let request = request.header("traceparent", format!("00-{TRACE_ID}-{PARENT_ID}-{flags}"));
    let request = request.header("x-request-id", "traced").header("content-type", "application/json");
    let answer = request.body(serde_json::to_string(&operation).expect("JSON")).send().await.expect("an answer");
    let answer: serde_json::Value = answer.json().await.expect("JSON");
    let id = answer["request_id"].as_str().expect("an id").parse().expect("an id");
    let state = process.client().status(id, 60).await.expect("a state").status;
    assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{state:?}");
    assert!(tokio::task::spawn_blocking(move || process.terminate()).await.expect("no panic").success());
    collector.spans()
}

#[tokio::test]
async fn a_request_is_one_trace_from_the_proxy_to_its_block() {
    let spans = create_traced(&[("SELFSAME_LIMITS__TRUSTED_PROXIES", r#"["127.0.0.1/32"]"#)], "01").await;
    let of_trace: Vec<_> = spans.iter().filter(|span| hex::encode(&span.trace_id) == TRACE_ID).collect();
    let named = |name: &str| {
        let found = of_trace.iter().find(|span| span.name == name);
        *found.unwrap_or_else(|| panic!("no {name} in {of_trace:#?}"))
    };
    let (request, operation) = (named("request"), named("operation"));
    assert_eq!(hex::encode(&request.parent_span_id), PARENT_ID);
    assert_eq!(operation.parent_span_id, request.span_id);
    let of_request = attributes(request);
    assert_eq!((of_request["request_id"].as_str(), of_request["route"].as_str()), ("traced", "/create-account"));
    let of_operation = attributes(operation);
    assert_eq!((of_operation["height"].as_str(), of_operation["outcome"].as_str()), ("1", "finalized"));
    assert!(of_operation["id"].starts_with("gw_"), "{of_operation:?}");
    let events: Vec<_> = operation.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(events, ["admitted a request", "sealed a request into a block", "finalized a request"]);
    // The operation goes on after the client's answer.
    assert!(request.start_time_unix_nano <= operation.start_time_unix_nano);
    assert!(request.end_time_unix_nano <= operation.end_time_unix_nano);
    // The requests of other clients are in traces of their own.
    let others: Vec<_> = spans.iter().filter(|span| hex::encode(&span.trace_id) != TRACE_ID).collect();
    assert!(others.iter().any(|span| attributes(span).get("route").is_some_and(|route| route.contains("status"))));
}

#[tokio::test]
async fn a_proxy_decides_whether_its_trace_is_recorded() {
    let spans = create_traced(&[("SELFSAME_LIMITS__TRUSTED_PROXIES", r#"["127.0.0.1/32"]"#)], "00").await;
    assert!(spans.iter().all(|span| hex::encode(&span.trace_id) != TRACE_ID), "{spans:#?}");
}

#[tokio::test]
async fn the_traceparent_of_a_stranger_is_ignored() {
    let spans = create_traced(&[], "01").await;
    assert!(spans.iter().any(|span| span.name == "operation"), "{spans:#?}");
    assert!(spans.iter().all(|span| hex::encode(&span.trace_id) != TRACE_ID), "{spans:#?}");
}
