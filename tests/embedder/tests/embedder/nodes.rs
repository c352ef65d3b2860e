//! Two nodes of a cluster: one has a service, the other one uses it by messages.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const NODE: &str = env!("CARGO_BIN_EXE_cluster_node");

struct ServiceNode {
    process: Child,
    port: u16,
}

impl ServiceNode {
    /// Starts a node with its store in a folder, and waits until it serves.
    fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("[::]:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut command = Command::new(NODE);
        command.args(["serve", &port.to_string()]).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the node starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("the node prints");
        assert_eq!(line, "serving\n");
        Self { process, port }
    }

    /// Runs a command on another node, and returns what that one printed.
    fn run(&self, command: &str, number: u64) -> Vec<String> {
        let output = Command::new(NODE).args([command, &self.port.to_string(), &number.to_string()]).output();
        let output = output.expect("the node runs");
        let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{printed}{errors}");
        printed.lines().map(str::to_owned).collect()
    }
}

impl Drop for ServiceNode {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn messages_to_a_service_cross_from_one_node_to_another() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut visits = Vec::new();
    for _ in 0..2 {
        let node = ServiceNode::start(folder.path());
        let printed = node.run("create", 3);
        assert_eq!(printed.len(), 3, "{printed:?}");
        assert!(printed.iter().all(|line| line.ends_with(" is final")), "{printed:?}");
        visits.push(node.run("visit", 7));
        // The node is killed; the next one has its store.
        drop(node);
    }
    assert_eq!(visits[0][0], "the proof has nullifier 0x8");
    assert!(visits[0][1].ends_with(" signed in"), "{visits:?}");
    assert_eq!(visits[0], visits[1], "a person has one nullifier and one subject");
}
