//! The recorded trace of the public contract, and the differences that are reported for a changed
//! trace.

use serde_json::{Value, json};

use super::{Trace, TraceError, replay};
use crate::registry::OperationKind;

const TRACE: &[u8] = include_bytes!("../../vectors/registry_trace_1.json");

/// The first `rows` rows of the trace after `edit`.
fn edit_trace(rows: usize, edit: impl FnOnce(&mut Value)) -> Result<Trace, TraceError> {
    let mut file: Value = serde_json::from_slice(TRACE).expect("the trace is JSON");
    file["rows"].as_array_mut().expect("rows").truncate(rows);
    edit(&mut file);
    Trace::parse(&serde_json::to_vec(&file).expect("JSON"))
}

#[test]
fn the_rules_agree_with_the_contract_on_every_row() {
    let trace = Trace::parse(TRACE).expect("a trace");
    assert_eq!(trace.rows.len(), 600);
    let differences: Vec<String> = replay(&trace).iter().map(ToString::to_string).collect();
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn a_changed_row_is_the_only_difference() {
    let one = "0x0000000000000000000000000000000000000000000000000000000000000001";
    let address = "0x00000000000000000000000000000000000000ff";
    // Row 4 initiates a recovery agent update and is applied; row 5 fails.
    let table: [(usize, &str, Value, &str); 13] = [
        (4, "/after/root", json!(one), "after.root"),
        (4, "/after/leaf_index", json!("0x4"), "after.leaf_index"),
        (4, "/after/leaf", json!("0x1"), "after.leaf"),
        (4, "/after/signature_nonce", json!("0x2"), "after.signature_nonce"),
        (4, "/after/recovery_counter", json!("0x1"), "after.recovery_counter"),
        (4, "/after/recovery_agent", json!(address), "after.recovery_agent"),
        (4, "/after/pending_recovery_agent", json!(address), "after.pending_recovery_agent"),
        (4, "/after/execute_after", json!(0), "after.execute_after"),
        (4, "/after/authenticators/1/address", json!(address), "after.authenticators[1].address"),
        (4, "/after/authenticators/1/pubkey", json!("0"), "after.authenticators[1].pubkey"),
        (4, "/after/authenticators/1/packed_account_data", json!("3"), "after.authenticators[1].packed_account_data"),
        (5, "/error", json!("AccountDoesNotExist"), "outcome"),
        (5, "/error", json!("applied"), "outcome"),
    ];
    for (row, pointer, value, field) in table {
        let trace = edit_trace(8, |file| *file["rows"][row - 1].pointer_mut(pointer).expect(pointer) = value.clone());
        let differences = replay(&trace.expect("a trace"));
        let [difference] = differences.as_slice() else { panic!("{pointer}: {differences:?}") };
        assert_eq!((difference.row, difference.field.as_str()), (row, field));
        assert_ne!(difference.expected, difference.found);
    }
}

#[test]
fn missing_outcomes_and_authenticators_are_differences() {
    let failed_instead = edit_trace(8, |file| {
        file["rows"][3] = json!({
            "time": file["rows"][3]["time"], "kind": "update_recovery_agent", "request": file["rows"][3]["request"],
            "error": "MismatchedSignatureNonce",
        });
    });
    let differences = replay(&failed_instead.expect("a trace"));
    assert_eq!(
        differences.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["row 4 (update_recovery_agent): outcome is applied, the trace has MismatchedSignatureNonce"],
    );
    assert_eq!(differences[0].kind, OperationKind::UpdateRecoveryAgent);

    let one_slot_less = edit_trace(8, |file| {
        file["rows"][3]["after"]["authenticators"].as_array_mut().expect("list").pop();
    });
    let differences = replay(&one_slot_less.expect("a trace"));
    let fields: Vec<&str> = differences.iter().map(|difference| difference.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "after.authenticators[1].address",
            "after.authenticators[1].packed_account_data",
            "after.authenticators[1].pubkey"
        ],
    );
    assert!(differences.iter().all(|difference| difference.row == 4 && difference.expected == "absent"));
}

#[test]
fn a_changed_request_changes_its_outcome() {
    // Another nonce gives another digest and therefore an unknown signer. Row 4 fails, but the
    // trace has it as applied.
    let trace = edit_trace(4, |file| file["rows"][3]["request"]["nonce"] = json!("0x1")).expect("a trace");
    let differences = replay(&trace);
    assert_eq!(differences.len(), 1);
    assert_eq!((differences[0].row, differences[0].found.as_str()), (4, "AuthenticatorDoesNotExist"));
}

#[test]
fn unknown_fields_are_ignored() {
    let trace = edit_trace(2, |file| {
        file["more"] = json!([1]);
        file["rows"][1]["more"] = json!({});
        file["rows"][1]["request"]["more"] = json!("x");
        file["rows"][1]["after"]["more"] = json!(null);
    });
    assert_eq!(replay(&trace.expect("a trace")), []);
}

#[test]
fn errors_in_a_trace_name_the_row_and_the_field() {
    type Edit = fn(&mut Value);
    let table: [(Edit, &str); 18] = [
        (|file| *file = json!([]), "not a trace: invalid length 0"),
        (|file| *file = json!("x"), "not a trace: invalid type: string \"x\""),
        (|file| *file = json!({}), "not a trace: missing field `chain_id`"),
        (|file| file["chain_id"] = json!("1"), "not a trace: chain_id: invalid type"),
        (|file| file["verifying_contract"] = json!("0x12"), "not a trace: verifying_contract: not an address"),
        (|file| file["tree_depth"] = json!(20), "not a trace: tree_depth is 20; it must be 30"),
        (|file| file["max_authenticators"] = json!(0), "not a trace: max_authenticators is 0; it must be 1 to 7"),
        (|file| file["max_authenticators"] = json!(8), "not a trace: max_authenticators is 8; it must be 1 to 7"),
        (|file| file["rows"] = json!({}), "not a trace: rows: invalid type: map"),
        (|file| file["rows"][1] = json!(7), "row 2: invalid type: integer `7`"),
        (|file| file["rows"][1]["kind"] = json!("burn"), "row 2: kind: unknown variant `burn`"),
        (|file| file["rows"][1]["time"] = json!(-1), "row 2: time: invalid value"),
        (|file| file["rows"][1]["error"] = json!("ZeroAddress"), "row 2: a row has either `error` or `after`"),
        (|file| file["rows"][1]["after"] = json!(null), "row 2: a row has either `error` or `after`"),
        (|file| file["rows"][1]["request"] = json!({}), "row 2: request: missing field `authenticator_addresses`"),
        (
            |file| file["rows"][1]["request"]["authenticator_pubkeys"] = json!(["x"]),
            "row 2: request: authenticator_pubkeys",
        ),
        (|file| file["rows"][1]["after"]["root"] = json!("0x12"), "row 2: after.root: invalid value"),
        (
            |file| file["rows"][1]["after"]["authenticators"][0]["pubkey_id"] = json!("0"),
            "row 2: after.authenticators[0].pubkey_id: invalid type",
        ),
    ];
    for (edit, expected) in table {
        let message = edit_trace(2, edit).expect_err(expected).to_string();
        assert!(message.starts_with(expected), "{message:?} should begin with {expected:?}");
    }
    for damaged in [b"".as_slice(), b"{", b"\xff", &TRACE[..TRACE.len() / 2]] {
        assert!(matches!(Trace::parse(damaged), Err(TraceError::File(_))));
    }
}
