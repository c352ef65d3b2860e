//! Commands that work long: what they leave behind when they are stopped or killed, and what they
//! print.

use std::path::Path;
use std::process::Stdio;

use crate::harness::{DaemonProcess, folder, program};
#[cfg(feature = "fault-injection")]
use crate::harness::{run, until_true};

/// The folders of checks in a data folder.
#[cfg(feature = "fault-injection")]
fn scratch_folders(data: &Path) -> usize {
    let entries = std::fs::read_dir(data).expect("a folder");
    let is_scratch = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().starts_with("fsck-")
    };
    entries.filter_map(|entry| is_scratch(entry).then_some(())).count()
}

/// Each read takes a while.
#[cfg(feature = "fault-injection")]
const SLOW_READS: &str = "store.read=return(delay:250)";

/// A check with these faults, once it has its folder.
#[cfg(feature = "fault-injection")]
async fn check_with(faults: &str, data: &Path) -> std::process::Child {
    let mut command = program();
    command.args(["registry", "fsck", "--data"]).arg(data).env("FAILPOINTS", faults);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    until_true("the folder of a check", async || scratch_folders(data) > 0).await;
    child
}

#[cfg(feature = "fault-injection")]
#[tokio::test]
async fn a_check_that_is_stopped_or_killed_leaves_nothing_for_long() {
    let data = folder();
    assert!(DaemonProcess::start(data.path(), &[], &[]).terminate().success());
    for signal in ["-INT", "-TERM"] {
        let child = check_with(SLOW_READS, data.path()).await;
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
        let output = child.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), errors.as_str()),
            (Some(130), "selfsame: stopped before the end\n"),
            "{signal}"
        );
        assert_eq!((output.stdout, scratch_folders(data.path())), (Vec::new(), 0), "{signal}");
    }
    let mut child = check_with(SLOW_READS, data.path()).await;
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert_eq!(scratch_folders(data.path()), 1, "a killed process removes nothing");
    let (success, text) = run(&["registry", "fsck", "--data", &data.path().display().to_string()]);
    assert!(success && text.ends_with(", 0 findings\n"), "{text}");
    assert_eq!(scratch_folders(data.path()), 0);
    // A read after those of the start hangs. A second signal does not wait for it, and is no crash.
    let child = check_with("store.read=10*off->return(delay:600000)", data.path()).await;
    let id = child.id().to_string();
    let mut kill = std::process::Command::new("sh");
    assert!(kill.args(["-c", &format!("kill -INT {id}; kill -TERM {id}")]).status().expect("sh runs").success());
    assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(130));
}

/// Without a terminal there are no bars: the output of short work is its result alone.
#[test]
fn short_work_without_a_terminal_prints_its_result_alone() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (data, backup, restored) = (path("data"), path("backup"), path("restored"));
    let daemon = DaemonProcess::start(Path::new(&data), &[], &[]);
    let commands: [&[&str]; 6] = [
        &["backup", &backup, "--data", &data],
        &["backup", "verify", &backup, "--deep"],
        &["restore", &backup, "--data", &restored, "--clients-have-seen", "0"],
        &["registry", "fsck", "--data", &restored],
        &["registry", "fsck", "--data", &restored, "--json"],
        &["registry", "rebuild", "--data", &restored],
    ];
    for arguments in commands {
        let output = program().args(arguments).stdin(Stdio::null()).output().expect("the program runs");
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {text} {errors}");
        assert_eq!(errors, "", "{arguments:?}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{arguments:?}: {text:?}");
    }
    daemon.kill();
}
