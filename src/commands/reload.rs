//! `selfsame reload`: a running daemon reads its configuration again.

use std::process::ExitCode;

use selfsame_protocol::operator::{ReloadOutcome, ReloadReport};
use serde_json::json;

use super::error::CommandError;
use super::exit;
use super::output::Output;
use crate::operator_client::OperatorOptions;

/// Runs the command; exit status 78 when the new configuration was refused.
pub async fn run(json: bool, options: OperatorOptions, out: &mut Output) -> Result<ExitCode, CommandError> {
    let report: ReloadReport = options.post("/reload", &json!({})).await?;
    match json {
        true => out.print_json(&report)?,
        false => out.print(&text(&report))?,
    }
    Ok(match report.outcome {
        ReloadOutcome::Success => ExitCode::SUCCESS,
        ReloadOutcome::Refused => ExitCode::from(exit::CONFIGURATION),
    })
}

/// The printed text: what came of it, then a line for each setting or problem.
fn text(report: &ReloadReport) -> String {
    let ReloadReport { outcome, changed, needs_restart, problems, .. } = report;
    let mut text = String::from(match outcome {
        ReloadOutcome::Refused => "refused; the old configuration stays in force\n",
        ReloadOutcome::Success if changed.is_empty() => "read again; no setting in force has changed\n",
        ReloadOutcome::Success => "read again; in force from now on\n",
    });
    let mut add = |lines: &[String]| lines.iter().for_each(|line| text.extend(["  ", line, "\n"]));
    add(changed);
    add(problems);
    if !needs_restart.is_empty() {
        text.push_str("changed, and waiting for a restart\n");
        needs_restart.iter().for_each(|key| text.extend(["  ", key, "\n"]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_rendered_as_text() {
        let report = |outcome, changed: &[&str], needs_restart: &[&str], problems: &[&str]| {
            let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
            let time = String::new();
            let (changed, needs_restart, problems) = (list(changed), list(needs_restart), list(problems));
            text(&ReloadReport { outcome, time, changed, needs_restart, problems })
        };
        let success = report(ReloadOutcome::Success, &["apps", "tls"], &["data_dir"], &[]);
        let expected =
            "read again; in force from now on\n  apps\n  tls\nchanged, and waiting for a restart\n  data_dir\n";
        assert_eq!(success, expected);
        let unchanged = report(ReloadOutcome::Success, &[], &[], &[]);
        assert_eq!(unchanged, "read again; no setting in force has changed\n");
        let refused = report(ReloadOutcome::Refused, &[], &[], &["a: wrong", "b: wrong"]);
        assert_eq!(refused, "refused; the old configuration stays in force\n  a: wrong\n  b: wrong\n");
    }
}
