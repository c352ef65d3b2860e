//! Who hears the operator's token: no program but the daemon that has it, and the commands send it
//! to none at all.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use crate::harness::{DaemonProcess, TestDaemon, folder, operator_token, run, write_secret};

/// A program of another user that listens where the commands call.
struct Listener {
    url: String,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Listener {
    /// Answers each connection with `answer`, or passes it on.
    fn start(serve: impl Fn(TcpStream, &Mutex<Vec<u8>>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let (serve, into) = (Arc::new(serve), Arc::clone(&heard));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serve, into) = (Arc::clone(&serve), Arc::clone(&into));
                std::thread::spawn(move || serve(stream, &into));
            }
        });
        Self { url, heard }
    }

    /// Says what its users want to hear, to everything that it is asked.
    fn impostor(answer: &'static str) -> Self {
        Self::start(move |mut stream, heard| {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                hear(heard, &bytes[..count]);
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    answer.len()
                );
                let _ = stream.write_all(format!("{head}{answer}").as_bytes());
            }
        })
    }

    /// Passes all connections on to the daemon, and what the command says through `change`.
    fn relay(daemon: SocketAddr, change: fn(String) -> String) -> Self {
        Self::start(move |mut stream, heard| {
            let mut to_daemon = TcpStream::connect(daemon).expect("the daemon listens");
            let (mut back, mut from_daemon) =
                (stream.try_clone().expect("a clone"), to_daemon.try_clone().expect("a clone"));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from_daemon, &mut back);
                let _ = back.shutdown(Shutdown::Write);
            });
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                hear(heard, &bytes[..count]);
                let text = change(String::from_utf8_lossy(&bytes[..count]).into_owned());
                let _ = to_daemon.write_all(text.as_bytes());
            }
        })
    }

    fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn hear(heard: &Mutex<Vec<u8>>, bytes: &[u8]) {
    heard.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// The daemon is stopped, and a program of another user has its port.
#[test]
fn a_program_that_listens_in_the_daemons_place_gets_no_token() {
    let folder = folder();
    let token = "0123456789abcdef".repeat(4);
    write_secret(&folder.path().join("operator.token"), format!("{token}\n"));
    let answers = [
        "{}",
        "{\"time\":1700000000,\"instance\":\"00\",\"proof\":\"00\"}",
        "{\"ready\":true,\"message\":\"send the token\"}",
    ];
    for answer in answers {
        let impostor = Listener::impostor(answer);
        let at_impostor = ["--data", text(folder.path()), "--operator", &impostor.url];
        let root = ["0x12", "--kind", "current", "--environment", "production"];
        for command in [&["status"][..], &["keys", "list"], &["reload"], &[&["roots", "add"][..], &root].concat()] {
            let (succeeded, said) = run(&[command, &at_impostor[..]].concat());
            let expected = format!("the program at {}", impostor.url);
            assert!(
                !succeeded && said.contains(&expected) && said.contains("did not show that it is the daemon"),
                "{said}"
            );
        }
        let heard = impostor.heard();
        assert!(heard.contains("GET /challenge?nonce="), "{heard}");
        assert!(!heard.contains(&token) && !heard.to_lowercase().contains("authorization"), "{heard}");
        assert!(!heard.contains("/status") && !heard.contains("/roots"), "nothing else was asked: {heard}");
    }
}

#[test]
fn the_daemon_of_another_data_folder_is_asked_nothing() {
    let (own, other) = (folder(), folder());
    write_secret(&own.path().join("operator.token"), "a token");
    let daemon = DaemonProcess::start(other.path(), &[], &[]);
    let (succeeded, said) = run(&["status", "--data", text(own.path()), "--operator", &daemon.operator]);
    assert!(!succeeded && said.contains("did not show that it is the daemon of the data folder"), "{said}");
    assert!(said.contains(text(own.path())), "{said}");
}

/// A relay in front of a daemon that runs elsewhere gets answers, and neither the token nor a call
/// that it could change or send again.
#[test]
fn a_relay_gets_neither_the_token_nor_a_call_that_it_can_change_or_repeat() {
    let folder = folder();
    let daemon = DaemonProcess::start(folder.path(), &[], &[]);
    let token = operator_token(folder.path());
    let address: SocketAddr = daemon.operator.trim_start_matches("http://").parse().expect("an address");
    let add = |operator: &str, root: &str| {
        let root = ["roots", "add", root, "--kind", "current", "--environment", "production"];
        run(&[&root[..], &["--data", text(folder.path()), "--operator", operator]].concat())
    };
    let relay = Listener::relay(address, |call| call);
    let (added, said) = add(&relay.url, "0x12");
    assert!(added && said.ends_with(" - 0x12\n"), "{said}");
    let heard = relay.heard();
    assert!(heard.contains("authorization: Selfsame ") && !heard.contains(&token), "{heard}");

    let call = &heard[heard.find("POST /roots").expect("the call")..];
    let repeated = raw(address, call);
    assert!(repeated.starts_with("HTTP/1.1 401 ") && repeated.contains("this call was sent before"), "{repeated}");

    for change in [
        |call: String| call.replace("0x13", "0x14"),
        |call: String| call.replace("POST /roots ", "POST /roots/remove "),
        |call: String| call.replace("POST /roots ", "POST /roots?a=b "),
    ] {
        let (changed, said) = add(&Listener::relay(address, change).url, "0x13");
        assert!(
            !changed && (said.contains("not the one that was signed") || said.contains("the HMAC of this call")),
            "{said}"
        );
    }
    let (_, roots) = run(&["roots", "list", "--data", text(folder.path())]);
    assert!(roots.contains("0x12") && !roots.contains("0x13") && !roots.contains("0x14"), "{roots}");
}

/// Sends a request to the daemon; returns its answer.
fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the daemon listens");
    let request = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// What `curl` sends is good as before, and the challenge tells no one the token.
#[tokio::test]
async fn a_challenge_needs_a_nonce_and_the_token_still_opens_the_interface() {
    let folder = folder();
    let daemon = TestDaemon::start(folder.path()).await;
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let ask = async |query: &str| {
        let answer = http.get(daemon.operator(&format!("/challenge{query}"))).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    };
    let nonce = "0a".repeat(32);
    let token = operator_token(folder.path());
    let (status, body) = ask(&format!("?nonce={nonce}")).await;
    assert!(status == 200 && !body.contains(&token), "{body}");
    assert_ne!(ask(&format!("?nonce={}", "0b".repeat(32))).await.1, body, "another nonce has another answer");
    for query in [
        "",
        "?nonce=",
        "?nonce=0a",
        &format!("?nonce={}", nonce.to_uppercase()),
        &format!("?nonce={nonce}&nonce={nonce}"),
    ] {
        let (status, body) = ask(query).await;
        assert_eq!((status, body.contains("bad_request")), (400, true), "{query}: {body}");
    }
    let status = async |authorization: &str| {
        let request = http.post(daemon.operator("/roots/remove")).header("authorization", authorization);
        request.json(&json!({})).send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(status(&format!("Bearer {token}")).await, 400, "the call is allowed, and its body is not");
    for wrong in ["Selfsame", "Selfsame x", "Selfsame 1.2.3.4", "Bearer x", &format!("Selfsame {token}")] {
        assert_eq!(status(wrong).await, 401, "{wrong}");
    }
    daemon.stop().await;
}
