//! The cases of `verification_cases.json` are played, and what documents say of the answers is made
//! from them: the rows of `docs/interfaces/differences.md` about verification, the table of
//! successes of `docs/verifying-proofs.md`, and the tables of `docs/verification-errors.md`.
//! `UPDATE_DOCUMENTS=1` writes the tables.
//!
//! A case has `differences`: the places of the first page that it belongs to. One case of each
//! place also has what the row says, and its last answer is the one of the row. `cause` is what
//! makes the last answer of a case, in the words of the other pages. One case of each code has what
//! to do in `remedies`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use selfsame_protocol::verification::items::ItemCode;
use serde_json::Value;

use crate::reference::{make_tables, table};
use crate::verification_cases::{CasePlayer, Outcome, cases};

const DIFFERENCES: &str = "docs/interfaces/differences.md";
const GUIDE: &str = "docs/verifying-proofs.md";
const ERRORS: &str = "docs/verification-errors.md";

/// The place of all cases whose answer names a field of an entry, where the public one names the
/// entry.
const DEEPER: &str = "`attribute` of an entry";

/// Codes of `POST /api/v4/verify/{rp_id}` that no case is answered with: they do not depend on what
/// is sent, or other tests have them.
const WITHOUT_A_CASE: [&str; 5] =
    ["internal_error", "method_not_allowed", "rate_limit_exceeded", "request_too_large", "root_too_old"];

/// A case that was played.
struct Played {
    case: Value,
    outcomes: Vec<Outcome>,
}

impl Played {
    fn id(&self) -> &str {
        self.case["id"].as_str().expect("an id")
    }

    /// The last answer, which the documents speak of.
    fn last(&self) -> &Outcome {
        self.outcomes.last().expect("a step")
    }

    /// What the public endpoint answers to the last step.
    fn public(&self) -> &Value {
        &self.case["steps"].as_array().and_then(|steps| steps.last()).expect("a step")["portal"]
    }

    /// Whether a step is answered otherwise than at the public endpoint.
    fn is_other(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.of_public.is_some())
    }

    /// Whether a step is answered otherwise than at the public endpoint, and not in the way that is
    /// allowed.
    fn is_wrong(&self) -> bool {
        let is_to_follow = self.case["advice"].as_str().is_some_and(|advice| advice.starts_with("follow"));
        self.outcomes.iter().zip(self.case["steps"].as_array().expect("steps")).any(|(outcome, step)| {
            let is_public = outcome.of_public.is_none() && !step["portal"].is_null();
            !is_public && (is_to_follow || outcome.of_allowed.is_some())
        })
    }

    fn is_deeper(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.of_public.is_none() && outcome.is_deeper)
    }

    fn differences(&self) -> impl Iterator<Item = &Value> {
        self.case["differences"].as_array().into_iter().flatten()
    }

    /// The places of the page of differences that the case belongs to.
    fn places(&self) -> BTreeSet<&str> {
        let named = self.differences().map(|difference| difference["place"].as_str().expect("a place"));
        named.chain(self.is_deeper().then_some(DEEPER)).collect()
    }
}

async fn play_all() -> Vec<Played> {
    let mut played = Vec::new();
    // Most cases are for one daemon, the others for one that has no keys of attestation issuers.
    let (without_keys, others): (Vec<_>, Vec<_>) =
        cases().into_iter().partition(|case| case["settings"] == "no attestation issuers");
    for (has_keys, cases) in [(true, others), (false, without_keys)] {
        let mut player = CasePlayer::start_with(|config| {
            if !has_keys {
                config.integrity.clear();
            }
        })
        .await;
        for case in cases {
            let outcomes = player.play(&case).await;
            played.push(Played { case, outcomes });
        }
        player.daemon.stop().await;
    }
    played
}

/// Every case is answered as the public endpoint answers it, or in the other way that is allowed
/// for a reason.
#[tokio::test]
async fn what_client_kits_produce_is_answered_as_at_the_public_endpoint() {
    let played = play_all().await;
    let wrong: Vec<_> = played.iter().filter(|played| played.is_wrong()).collect();
    let shown: Vec<_> = wrong.iter().map(|wrong| (wrong.id(), &wrong.case["title"], &wrong.outcomes)).collect();
    assert!(wrong.is_empty(), "{} cases differ: {shown:#?}", wrong.len());
    let ids: BTreeSet<_> = played.iter().map(Played::id).collect();
    assert_eq!(ids.len(), played.len(), "two cases have one id");
    let other = played.iter().filter(|played| played.is_other()).count();
    eprintln!("{} cases, {other} of them answered otherwise than at the public endpoint", played.len());
}

/// What the pages say of verification is what the cases are answered. A case that is answered
/// otherwise than at the public endpoint has a row, and a row has such a case.
#[tokio::test]
async fn the_pages_say_what_the_cases_are_answered() {
    let played = play_all().await;
    let rows: Vec<(&Played, &Value)> = played
        .iter()
        .flat_map(|played| played.differences().map(move |difference| (played, difference)))
        .filter(|(_, difference)| difference.get("request").is_some())
        .collect();
    let mut places = BTreeSet::new();
    for (played, row) in &rows {
        let place = row["place"].as_str().expect("a place");
        assert!(places.insert(place), "two cases have the row of {place}");
        assert!(["endpoint", "description"].contains(&row["from"].as_str().expect("a table")), "{}", played.id());
    }
    for played in &played {
        let named = played.places();
        assert!(named.is_subset(&places), "{}: {named:?} have no row", played.id());
        assert!(!(played.is_other() && named.is_empty()), "{} is answered otherwise: no row says so", played.id());
        let of_endpoint =
            |place: &&str| rows.iter().any(|(_, row)| row["place"] == **place && row["from"] == "endpoint");
        let is_said_to_differ = named.iter().any(of_endpoint);
        assert!(
            !is_said_to_differ || played.is_other() || played.is_deeper(),
            "{} is answered as at the public endpoint, and {named:?} says otherwise",
            played.id()
        );
    }

    let codes = described_codes().await;
    let mut made = BTreeSet::new();
    let mut make = |name: &str| {
        assert!(made.insert(name.to_owned()), "two tables are {name:?}");
        match name {
            "differences from the description" => difference_table(&rows, "description"),
            "differences from the endpoint" => difference_table(&rows, "endpoint"),
            "successes" => success_table(&played),
            "errors of a request" => error_table(&played, &codes, request_code),
            "errors of an entry" => {
                let codes: Vec<_> = ItemCode::ALL.iter().map(|code| code.name().to_owned()).collect();
                error_table(&played, &codes, entry_code)
            }
            _ => panic!("there is no table {name:?}"),
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = [DIFFERENCES, GUIDE, ERRORS];
    let stale: Vec<_> = pages.into_iter().filter(|page| !make_tables(&root.join(page), "cases", &mut make)).collect();
    assert!(stale.is_empty(), "UPDATE_DOCUMENTS=1 makes the tables of {stale:?} anew");
    assert_eq!(made.len(), 5, "pages have {made:?} alone");
}

/// The codes that the description of the interface lists, in its order.
async fn described_codes() -> Vec<String> {
    let player = CasePlayer::start().await;
    let (_, description) = player.send("GET", "/openapi.json", None).await;
    player.daemon.stop().await;
    let answers = description["paths"]["/api/v4/verify/{rp_id}"]["post"]["responses"].as_object().expect("answers");
    let mut codes: Vec<String> = Vec::new();
    for answer in answers.iter().filter(|(status, _)| status.as_str() >= "4").map(|(_, answer)| answer) {
        let named = answer["description"].as_str().into_iter().flat_map(|text| text.split('`').skip(1).step_by(2));
        let example = answer["content"]["application/json"]["example"]["code"].as_str();
        for code in named.chain(example) {
            if !codes.iter().any(|known| known == code) {
                codes.push(code.to_owned());
            }
        }
    }
    codes
}

/// Status, code and attribute of an answer, as the page of differences writes them.
pub fn coded(status: impl Display, body: &Value) -> String {
    // A public answer can be one of several.
    let one = |value: &Value| value.get(0).unwrap_or(value).as_str().map(str::to_owned);
    let code = one(&body["code"]).map(|code| format!(" `{code}`")).unwrap_or_default();
    let attribute = one(&body["attribute"]).map(|attribute| format!(", `{attribute}`")).unwrap_or_default();
    let entry = one(&body["results"][0]["code"]).map(|code| format!(", entry `{code}`")).unwrap_or_default();
    format!("{status}{code}{attribute}{entry}")
}

fn difference_table(rows: &[(&Played, &Value)], from: &str) -> String {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_else(|| panic!("{row} has no {name}")).to_owned();
    let rows = rows.iter().filter(|(_, row)| row["from"] == from).map(|(played, row)| {
        let public = match from {
            "endpoint" => coded(&played.public()["status"], played.public()),
            _ => text(row, "public"),
        };
        let Outcome { status, answer, .. } = played.last();
        vec![text(row, "place"), public, text(row, "request"), coded(status, answer), text(row, "see")]
    });
    let public = if from == "endpoint" { "public endpoint" } else { "public description" };
    table(&["place", public, "request", "answer here", "see"], rows)
}

/// The messages of good answers, with what makes them.
fn success_table(played: &[Played]) -> String {
    let mut rows: Vec<(String, String, Vec<&str>)> = Vec::new();
    for (played, cause) in causes(played).filter(|(played, _)| played.last().status == 200) {
        let answer = &played.last().answer;
        let Some(message) = answer["message"].as_str() else { continue };
        let integrity = answer["integrity"].as_str().map(|word| format!("`{word}`")).unwrap_or_default();
        match rows.iter_mut().find(|(known, of, _)| known == message && *of == integrity) {
            Some((.., causes)) => causes.push(cause),
            None => rows.push((message.to_owned(), integrity, vec![cause])),
        }
    }
    rows.sort_by(|(message, integrity, _), (other, of, _)| (integrity, message).cmp(&(of, other)));
    let rows =
        rows.into_iter().map(|(message, integrity, causes)| vec![format!("`{message}`"), integrity, list(&causes)]);
    table(&["`message`", "`integrity`", "for example"], rows)
}

/// The cases with a cause.
fn causes(played: &[Played]) -> impl Iterator<Item = (&Played, &str)> {
    played.iter().filter_map(|played| Some((played, played.case["cause"].as_str()?)))
}

/// Each cause once.
fn list(causes: &[&str]) -> String {
    let mut seen = BTreeSet::new();
    causes.iter().copied().filter(|cause| seen.insert(*cause)).collect::<Vec<_>>().join("; ")
}

/// Status and code of a refused request.
fn request_code(outcome: &Outcome) -> Option<(String, String)> {
    let code = outcome.answer["code"].as_str()?;
    Some((outcome.status.to_string(), code.to_owned()))
}

/// The code of the first entry of a refused request.
fn entry_code(outcome: &Outcome) -> Option<(String, String)> {
    if outcome.status == 200 {
        return None;
    }
    let code = outcome.answer["results"][0]["code"].as_str()?;
    Some((String::new(), code.to_owned()))
}

/// Codes in the order of a list, with what makes them and what to do.
fn error_table(played: &[Played], codes: &[String], code_of: impl Fn(&Outcome) -> Option<(String, String)>) -> String {
    let mut rows = Vec::new();
    for code in codes {
        let of_code: Vec<_> = causes(played)
            .filter_map(|(played, cause)| {
                let (status, found) = code_of(played.last())?;
                // The cause of an entry's code is not that of the request's, but in one example.
                let is_of_entry = status.is_empty() || entry_code(played.last()).is_none();
                let is_example = is_of_entry || played.case["remedies"].get(code).is_some();
                (found == *code && is_example).then_some((status, played, cause))
            })
            .collect();
        let is_without = WITHOUT_A_CASE.contains(&code.as_str());
        assert_eq!(of_code.is_empty(), is_without, "cases with a cause that are answered with {code}");
        let Some((status, ..)) = of_code.first() else { continue };
        let remedies: BTreeSet<_> =
            of_code.iter().filter_map(|(_, played, _)| played.case["remedies"][code].as_str()).collect();
        assert_eq!(remedies.len(), 1, "remedies of {code}: {remedies:?}");
        let causes: Vec<_> = of_code.iter().map(|(.., cause)| *cause).collect();
        let remedy = remedies.first().copied().unwrap_or_default();
        assert!(of_code.iter().all(|(other, ..)| other == status), "{code} has two statuses");
        rows.push(vec![status.clone(), format!("`{code}`"), list(&causes), remedy.to_owned()]);
    }
    let found = played.iter().filter_map(|played| code_of(played.last())).map(|(_, code)| code);
    let unknown: BTreeSet<_> = found.filter(|code| !codes.contains(code)).collect();
    assert!(unknown.is_empty(), "the description does not list {unknown:?}");
    table(&["status", "`code`", "for example", "what to do"], rows)
}
