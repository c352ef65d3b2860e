//! What the daemon tells systemd, and the sockets that it takes over from it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use crate::harness::{DaemonProcess, PATIENCE, folder};

/// The next message to the service manager, without those of the watchdog.
fn next_message(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 512];
    loop {
        let length = socket.recv(&mut buffer).expect("a message in time");
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if message.trim() != "WATCHDOG=1" {
            return message;
        }
    }
}

#[test]
fn systemd_hears_of_the_start_each_reload_and_the_stop() {
    let folder = folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let path = path.to_str().expect("UTF-8");
    let variables = [("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", "400000")];
    let daemon = DaemonProcess::start(&folder.path().join("data"), &[], &variables);
    assert_eq!(next_message(&socket).trim(), "READY=1");
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).expect("the watchdog hears of the daemon");
    assert_eq!(buffer[..length].trim_ascii(), b"WATCHDOG=1");
    daemon.hang_up();
    let reloading = next_message(&socket);
    let lines: Vec<&str> = reloading.trim().lines().collect();
    assert!(lines[0] == "RELOADING=1" && lines[1].starts_with("MONOTONIC_USEC="), "{reloading}");
    assert_eq!(next_message(&socket).trim(), "READY=1");
    assert!(daemon.terminate().success());
    assert_eq!(next_message(&socket).trim(), "STOPPING=1");
}

/// Starts the daemon as systemd does: with a socket in the place of descriptor 3. Returns its
/// standard output and error up to their end, or up to the first empty line of the output.
fn start_with_socket(data: &std::path::Path, gateway: &str, socket: TcpListener) -> (std::process::Child, String) {
    let start = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", start, env!("CARGO_BIN_EXE_selfsame"), "serve", "--dev", "--data"])
        .arg(data)
        .env("SELFSAME_LISTEN__GATEWAY", gateway)
        .envs([("SELFSAME_LISTEN__INDEXER", "127.0.0.2:0"), ("SELFSAME_LISTEN__OPERATOR", "127.0.0.3:0")])
        .envs([("SELFSAME_LISTEN__VERIFY", "127.0.0.4:0"), ("SELFSAME_LISTEN__SIGN_IN", "127.0.0.5:0")])
        .envs([("SELFSAME_LISTEN__BRIDGE", "127.0.0.6:0"), ("SELFSAME_LISTEN__WALLET", "127.0.0.7:0")])
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut text: Vec<String> = stdout.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    if text.is_empty() {
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        text.extend(stderr.lines().map_while(Result::ok));
    }
    (child, text.join("\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_of_systemd_is_served_and_a_stray_one_refused() {
    let folder = folder();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    // A client connects before there is a daemon, and waits.
    let waiting = tokio::spawn(reqwest::get(format!("http://{address}/health")));
    let data = folder.path().join("data");
    let (mut child, table) = {
        let (data, address) = (data.clone(), address.clone());
        let started = tokio::task::spawn_blocking(move || start_with_socket(&data, &address, socket));
        started.await.expect("no panic")
    };
    assert!(table.contains(&address), "{table}");
    assert_eq!(waiting.await.expect("no panic").expect("an answer").status(), 200);
    child.kill().expect("killed");
    child.wait().expect("ended");

    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stray = socket.local_addr().expect("an address").to_string();
    let (mut child, text) = start_with_socket(&data, "127.0.0.1:0", socket);
    assert_eq!(child.wait().expect("ended").code(), Some(78), "{text}");
    let expected = format!("the service manager passes a socket at {stray}, where no interface listens");
    assert!(text.contains(&expected), "{text}");
}
