//! The tables of `docs/interfaces/` are made from the descriptions that the interfaces serve at
//! `/openapi.json`. A page has a table between the marks `<!-- made from the description: gateway
//! routes -->` and `<!-- end -->`; with the variable `UPDATE_DOCUMENTS=1` the test writes it there.
//! After the name of a table of routes, parameters or answers, `within` or `outside` and beginnings
//! of paths divide it between two pages.
//! `verification_tables.rs` makes others in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use selfsame_interfaces::interface::Interface;
use serde_json::{Map, Value};

use crate::registry_client::RegistryClient;

const END: &str = "<!-- end -->";

/// No cell of a table is longer, in characters: a page is also read in a terminal.
const LONGEST_CELL: usize = 200;

/// The folder of the pages.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/interfaces")
}

#[tokio::test]
async fn tables_of_the_interfaces_are_those_of_the_descriptions() {
    let client = RegistryClient::start().await;
    let mut descriptions = Descriptions(BTreeMap::new());
    for interface in Interface::ALL {
        let url = format!("http://{}/openapi.json", client.daemon.addresses[interface]);
        descriptions.0.insert(interface.name().to_owned(), Description(client.get(url).await.body));
    }
    client.daemon.stop().await;

    let (mut stale, mut named) = (Vec::new(), BTreeSet::new());
    for entry in fs::read_dir(folder()).expect("the folder") {
        let path = entry.expect("an entry").path();
        let is_current = make_tables(&path, "description", |name| {
            assert!(named.insert(name.to_owned()), "two tables are {name:?}");
            descriptions.table(name)
        });
        if !is_current {
            stale.push(path.display().to_string());
        }
    }
    assert!(stale.is_empty(), "UPDATE_DOCUMENTS=1 makes the tables of {stale:#?} anew");
    assert!(named.contains("common answers"), "no page has the answers that all interfaces have");
    for (interface, description) in &descriptions.0 {
        for table in ["routes", "answers"] {
            let whole = format!("{interface} {table}");
            let paths = named.iter().find_map(|name| name.strip_prefix(&whole)?.strip_prefix(" within "));
            let is_shown = match paths {
                Some(paths) => named.contains(&format!("{whole} outside {paths}")),
                None => named.contains(&whole),
            };
            assert!(is_shown, "no page has the {table} of {interface}, or only a part of them");
        }
        let codes = description.components().keys().filter(|name| name.ends_with("ErrorCode"));
        for code in codes.filter(|code| !code.starts_with("ServiceApiError_")) {
            let is_shown = named.iter().any(|name| name.ends_with(&format!(" codes {code}")));
            assert!(is_shown, "no page has the codes {code}");
        }
    }
}

/// A table that is written by hand has no longer cells either.
#[test]
fn cells_of_the_pages_are_short() {
    let (mut long, mut rows) = (Vec::new(), 0);
    for entry in fs::read_dir(folder()).expect("the folder") {
        let path = entry.expect("an entry").path();
        let page = fs::read_to_string(&path).expect("a page");
        for row in page.lines().filter(|line| line.starts_with("| ")) {
            rows += 1;
            let cells = row.trim_matches(['|', ' ']).split(" | ");
            long.extend(
                cells.filter(|cell| cell.chars().count() > LONGEST_CELL).map(|cell| format!("{path:?}: {cell}")),
            );
        }
    }
    assert!(long.is_empty(), "cells of more than {LONGEST_CELL} characters: {long:#?}");
    assert!(rows > 300, "only {rows} rows were found");
}

/// Makes the tables of a page that are made from this source again. Returns whether the page has
/// them now: it is written with the variable `UPDATE_DOCUMENTS` alone.
pub fn make_tables(path: &Path, source: &str, table: impl FnMut(&str) -> String) -> bool {
    let page = fs::read_to_string(path).expect("a page");
    let made = remade(&page, source, table);
    if made != page && std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::write(path, &made).expect("written");
        return true;
    }
    made == page
}

/// A page with the text of each block of a source made again.
pub fn remade(page: &str, source: &str, mut table: impl FnMut(&str) -> String) -> String {
    let begin = format!("<!-- made from the {source}: ");
    let mut parts = page.split(&begin);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").expect("the end of a mark");
        let (_, rest) = rest.split_once(END).unwrap_or_else(|| panic!("{name:?} has no {END}"));
        write!(made, "{begin}{name} -->\n\n{}\n{END}{rest}", table(name)).expect("a text");
    }
    made
}

/// The descriptions of the interfaces, by their names.
struct Descriptions(BTreeMap<String, Description>);

/// The answers that most interfaces have, by status and meaning, with the code of each interface.
type CommonAnswers = BTreeMap<(String, String), BTreeMap<String, String>>;

impl Descriptions {
    fn table(&self, name: &str) -> String {
        let (interface, table) = name.split_once(' ').expect("an interface and a table");
        if name == "common answers" {
            return self.common_answers_table();
        }
        let description = self.0.get(interface).unwrap_or_else(|| panic!("no interface {interface:?}"));
        description.table(table, &self.common_answers())
    }

    fn common_answers(&self) -> CommonAnswers {
        let mut answers = CommonAnswers::new();
        for (interface, description) in &self.0 {
            for operation in description.all_operations() {
                for (status, answer) in operation.answers().filter(|(status, _)| status.as_str() >= "4") {
                    let meaning = one_line(answer["description"].as_str().unwrap_or_default());
                    if let Some(code) = answer["content"]["application/json"]["example"]["code"].as_str() {
                        let codes = answers.entry((status.clone(), meaning)).or_default();
                        codes.insert(interface.clone(), format!("`{code}`"));
                    }
                }
            }
        }
        answers.retain(|_, codes| codes.len() > self.0.len() / 2);
        answers
    }

    fn common_answers_table(&self) -> String {
        let heads: Vec<_> = ["status", "meaning"].into_iter().chain(self.0.keys().map(String::as_str)).collect();
        let rows = self.common_answers().into_iter().map(|((status, meaning), codes)| {
            let codes = self.0.keys().map(|interface| codes.get(interface).cloned().unwrap_or_default());
            [status, meaning].into_iter().chain(codes).collect()
        });
        table(&heads, rows)
    }
}

/// An OpenAPI document.
struct Description(Value);

/// A method and path with what the description says of them.
struct Operation<'a> {
    method: String,
    path: &'a str,
    says: &'a Map<String, Value>,
}

impl Operation<'_> {
    fn text(&self, name: &str) -> String {
        one_line(self.says.get(name).and_then(Value::as_str).unwrap_or_default())
    }

    fn parameters(&self) -> impl Iterator<Item = &Value> {
        self.says.get("parameters").and_then(Value::as_array).into_iter().flatten()
    }

    fn answers(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.says.get("responses").and_then(Value::as_object).into_iter().flatten()
    }

    /// The schema of the body, with its content type.
    fn body(&self) -> Option<(&String, &Value)> {
        let content = self.says.get("requestBody")?.get("content")?.as_object()?;
        content.iter().next().map(|(kind, content)| (kind, &content["schema"]))
    }

    fn place(&self) -> String {
        format!("`{} {}`", self.method, self.path)
    }
}

impl Description {
    fn table(&self, name: &str, common: &CommonAnswers) -> String {
        match name.split_once(' ').unwrap_or((name, "")) {
            ("routes", part) => self.routes(&self.operations_of(part)),
            ("parameters", part) => self.parameters(&self.operations_of(part)),
            ("answers", part) => self.answers(self.operations_of(part), common),
            ("credentials", "") => self.credentials(),
            ("fields", component) => self.fields(component),
            ("codes", component) => self.codes(component),
            _ => panic!("there is no table {name:?}"),
        }
    }

    /// The operations that a table is about: all, or those whose paths begin so, or the others.
    fn operations_of(&self, part: &str) -> Vec<Operation<'_>> {
        let mut operations = self.operations();
        if let Some((word, paths)) = part.split_once(' ') {
            assert!(["within", "outside"].contains(&word), "there is no part {part:?}");
            let begins = |path: &str| paths.split(' ').any(|beginning| path.starts_with(beginning));
            operations.retain(|operation| begins(operation.path) == (word == "within"));
        }
        assert!(!operations.is_empty(), "no operation is in the part {part:?}");
        operations
    }

    /// The operations of the interface itself, without those that every interface has, and without
    /// those under `/compat` that are the same without it.
    fn operations(&self) -> Vec<Operation<'_>> {
        let paths = self.paths();
        let is_again = |operation: &Operation| {
            let plain = operation.path.strip_prefix("/compat").and_then(|plain| paths.get(plain));
            let answer = |says: &Value| says["responses"]["200"].clone();
            plain.is_some_and(|item| {
                answer(&item[operation.method.to_lowercase()]) == operation.says["responses"]["200"]
            })
        };
        let is_own = |operation: &Operation| operation.says["tags"][0] != "service" && !is_again(operation);
        self.all_operations().filter(is_own).collect()
    }

    fn all_operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.paths().iter().flat_map(|(path, item)| {
            item.as_object().expect("an item").iter().map(move |(method, says)| {
                let says = says.as_object().expect("an operation");
                Operation { method: method.to_uppercase(), path, says }
            })
        })
    }

    fn paths(&self) -> &Map<String, Value> {
        self.0["paths"].as_object().expect("paths")
    }

    fn components(&self) -> &Map<String, Value> {
        self.0["components"]["schemas"].as_object().expect("components")
    }

    fn component(&self, name: &str) -> &Value {
        self.components().get(name).unwrap_or_else(|| panic!("no component {name:?}"))
    }

    /// Every operation: what it does, takes, needs and answers; and what else is said of it.
    fn routes(&self, operations: &[Operation]) -> String {
        let rows = operations.iter().map(|operation| {
            let body = operation.body().map(|(kind, schema)| match self.named(schema).as_str() {
                "object" if kind.contains("form") => "form".to_owned(),
                name if kind.contains("form") => format!("form {name}"),
                name => name.to_owned(),
            });
            vec![
                operation.method.clone(),
                format!("`{}`", operation.path),
                operation.text("summary"),
                body.unwrap_or_default(),
                needs(operation.says.get("security")),
                self.successes(operation),
            ]
        });
        let mut text = table(&["method", "path", "what it does", "body", "needs", "answer"], rows);
        // Notes that several operations share are said once.
        let mut notes: Vec<(String, Vec<String>)> = Vec::new();
        for operation in operations {
            let note = operation.text("description");
            if note.trim_end_matches('.').len() <= operation.text("summary").len() {
                continue;
            }
            match notes.iter_mut().find(|(other, _)| *other == note) {
                Some((_, places)) => places.push(operation.place()),
                None => notes.push((note, vec![operation.place()])),
            }
        }
        for (number, (note, places)) in notes.iter().enumerate() {
            let gap = if number == 0 { "\n" } else { "" };
            writeln!(text, "{gap}{}", wrapped(&format!("- {}: {note}", places.join(", ")))).expect("a text");
        }
        text
    }

    /// The answers of an operation that are no errors.
    fn successes(&self, operation: &Operation) -> String {
        let answers = operation.answers().filter(|(status, _)| status.as_str() < "4");
        let answers = answers.map(|(status, answer)| {
            let content = answer["content"].as_object().into_iter().flatten();
            let bodies: Vec<_> = content
                .map(|(kind, content)| match (kind.as_str(), self.named(&content["schema"])) {
                    ("text/html", _) => "page".to_owned(),
                    ("application/json", name) if name.contains('`') => name,
                    ("text/event-stream", name) => format!("stream of {name}"),
                    (kind, _) => format!("`{kind}`"),
                })
                .collect();
            format!("{status} {}", bodies.join(" or ")).trim_end().to_owned()
        });
        answers.collect::<Vec<_>>().join("; ")
    }

    /// Parameters of paths, queries and headers, and the fields of forms that no component has.
    fn parameters(&self, operations: &[Operation]) -> String {
        let all_operations = self.operations();
        let is_shared = |parameter: &Value| {
            all_operations.iter().all(|other| other.parameters().any(|of_other| of_other["name"] == parameter["name"]))
        };
        let mut rows: Vec<([String; 4], Vec<usize>)> = Vec::new();
        let mut add = |index: usize, cells: [String; 4]| match rows.iter_mut().find(|(other, _)| *other == cells) {
            Some((_, at)) => at.push(index),
            None => rows.push((cells, vec![index])),
        };
        for (index, operation) in operations.iter().enumerate() {
            for parameter in operation.parameters().filter(|parameter| !is_shared(parameter)) {
                let kind = self.kind(&parameter["schema"], parameter["required"] == true);
                let text = |name: &str| one_line(parameter[name].as_str().unwrap_or_default());
                let cells = [format!("`{}`", text("name")), text("in"), kind, text("description")];
                add(index, cells.clone());
                // A form with the same fields.
                for (other, with_form) in
                    operations.iter().enumerate().filter(|(_, other)| other.path == operation.path)
                {
                    let form = with_form.body().map(|(_, schema)| &schema["properties"][text("name")]);
                    if form.is_some_and(Value::is_object) {
                        add(other, cells.clone());
                    }
                }
            }
            let Some((_, schema)) = operation.body() else { continue };
            let (Some(fields), None) = (schema["properties"].as_object(), schema.get("$ref")) else { continue };
            let queries =
                operations.iter().filter(|other| other.path == operation.path).flat_map(Operation::parameters);
            let queries: Vec<_> = queries.filter_map(|parameter| parameter["name"].as_str()).collect();
            for (name, field) in fields.iter().filter(|(name, _)| !queries.contains(&name.as_str())) {
                add(index, [format!("`{name}`"), "form".to_owned(), self.kind(field, false), self.meaning(field)]);
            }
        }
        let rows = rows.into_iter().map(|(cells, at)| [vec![self.places(operations, &at)], cells.to_vec()].concat());
        table(&["where", "parameter", "in", "type", "meaning"], rows)
    }

    /// Every status with the paths that answer with it, but those that most interfaces have.
    fn answers(&self, mut operations: Vec<Operation>, common: &CommonAnswers) -> String {
        // HEAD has the statuses of GET.
        operations.retain(|operation| operation.method != "HEAD");
        let (mut rows, mut lists) = (BTreeMap::<(String, String), Vec<usize>>::new(), String::new());
        for (index, operation) in operations.iter().enumerate() {
            for (status, answer) in operation.answers().filter(|(status, _)| status.as_str() >= "3") {
                let mut meaning = one_line(answer["description"].as_str().unwrap_or_default());
                let about = meaning.split_once(": `").map_or(meaning.as_str(), |(about, _)| about).to_owned();
                if common.contains_key(&(status.clone(), about)) {
                    continue;
                }
                let example = &answer["content"]["application/json"]["example"]["code"];
                if let Some(code) = example.as_str().filter(|_| !meaning.contains('`')) {
                    write!(meaning, ": `{code}`").expect("a text");
                }
                if meaning.chars().count() > LONGEST_CELL {
                    let (about, codes) = meaning.split_once(": `").expect("codes behind a long text");
                    let place = operation.place();
                    let list = wrapped(&format!("- Codes of {status} at {place}: `{codes}"));
                    writeln!(lists, "{}{list}", if lists.is_empty() { "\n" } else { "" }).expect("a text");
                    meaning = format!("{about}: codes below");
                }
                rows.entry((status.clone(), meaning)).or_default().push(index);
            }
        }
        let made = rows.into_iter().map(|((status, meaning), at)| vec![status, self.places(&operations, &at), meaning]);
        table(&["status", "where", "meaning"], made) + &lists
    }

    /// The shortest way to say at which operations something is.
    fn places(&self, operations: &[Operation], at: &[usize]) -> String {
        let all = |group: &str, is_in: &dyn Fn(&Operation) -> bool| {
            let members: Vec<usize> = (0..operations.len()).filter(|index| is_in(&operations[*index])).collect();
            let others: Vec<usize> = members.iter().copied().filter(|index| !at.contains(index)).collect();
            let is_within = at.iter().all(|index| members.contains(index)) && at.len() > 2;
            let but = if others.is_empty() { String::new() } else { format!(" but {}", named(operations, &others)) };
            is_within.then(|| format!("{group}{but}"))
        };
        let first = operations[at[0]].path;
        let folder = first[1..].split_inclusive('/').take(2).collect::<String>();
        let folder = format!("/{}", folder.trim_end_matches('/'));
        let groups = [
            all("all", &|_| true),
            all(&format!("all under `{folder}`"), &|operation| operation.path.starts_with(&format!("{folder}/"))),
            all(&format!("`{folder}` and all under it"), &|operation| {
                operation.path == folder || operation.path.starts_with(&format!("{folder}/"))
            }),
            all("every POST", &|operation| operation.method == "POST"),
            all("every GET", &|operation| operation.method == "GET"),
            all("every path with a body", &|operation| operation.body().is_some()),
        ];
        let listed = named(operations, at);
        let shortest = groups.into_iter().flatten().chain([listed]).min_by_key(|text| text.chars().count());
        shortest.unwrap_or_default()
    }

    /// The credentials that routes need.
    fn credentials(&self) -> String {
        let schemes = self.0["components"]["securitySchemes"].as_object().expect("credentials");
        let rows = schemes.iter().map(|(name, scheme)| {
            let way = match (scheme["scheme"].as_str(), scheme["name"].as_str()) {
                (Some("basic"), _) => "`Authorization: Basic`".to_owned(),
                (Some("bearer"), _) => "`Authorization: Bearer`".to_owned(),
                (_, Some(cookie)) => format!("cookie `{cookie}`"),
                _ => panic!("{name}: {scheme}"),
            };
            vec![format!("`{name}`"), way, one_line(scheme["description"].as_str().unwrap_or_default())]
        });
        table(&["credential", "how", "what"], rows)
    }

    /// The codes of an enumeration, with what the description says of each.
    fn codes(&self, component: &str) -> String {
        let component = self.component(component);
        let list = |name: &str| component[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        let rows = list("enum").zip(list("x-enum-descriptions"));
        table(
            &["`code`", "status and meaning"],
            rows.map(|(code, meaning)| vec![format!("`{code}`"), one_line(meaning)]),
        )
    }

    /// The fields of an object, or the variants of one of several objects.
    fn fields(&self, component: &str) -> String {
        let schema = self.component(component);
        if let Some(variants) = schema["oneOf"].as_array() {
            return self.variants(variants);
        }
        let mut rows = Vec::new();
        let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
        for part in parts.iter().map(|part| self.resolved(part)) {
            let required: Vec<_> = part["required"].as_array().into_iter().flatten().collect();
            for (name, field) in part["properties"].as_object().into_iter().flatten() {
                let kind = self.kind(field, required.iter().any(|required| *required == name));
                rows.push(vec![format!("`{name}`"), kind, self.meaning(field)]);
            }
        }
        table(&[&format!("field of `{component}`"), "type", "meaning"], rows)
    }

    /// Objects that one field tells apart.
    fn variants(&self, variants: &[Value]) -> String {
        let tag_of = |variant: &Value| {
            let fields = variant["properties"].as_object()?;
            let (name, field) =
                fields.iter().find(|(_, field)| field["enum"].as_array().is_some_and(|of| of.len() == 1))?;
            Some((name.clone(), field["enum"][0].as_str()?.to_owned()))
        };
        let rows = variants.iter().map(|variant| {
            let (tag, value) = tag_of(variant).expect("a field that names the variant");
            let others = variant["properties"].as_object().into_iter().flatten().filter(|(name, _)| **name != tag);
            let others: Vec<_> = others.map(|(name, field)| format!("`{name}`: {}", self.meaning(field))).collect();
            let others = others.join(" ");
            vec![format!("`{value}`"), others, one_line(variant["description"].as_str().unwrap_or_default())]
        });
        let tag = tag_of(&variants[0]).map(|(tag, _)| format!("`{tag}`")).unwrap_or_default();
        table(&[&tag, "further fields", "meaning"], rows)
    }

    /// A schema, or the component that it refers to.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.component(name_of(reference)),
            None => schema,
        }
    }

    /// The name of a schema: that of its component, when it is more than a text or a number.
    fn named(&self, schema: &Value) -> String {
        if let Some(items) = schema.get("items") {
            return format!("array of {}", self.named(items));
        }
        let resolved = self.resolved(schema);
        let is_object = resolved["type"] == "object" || resolved.get("oneOf").or(resolved.get("allOf")).is_some();
        match schema["$ref"].as_str() {
            Some(reference) if is_object => format!("`{}`", name_of(reference)),
            _ => self.plain(resolved),
        }
    }

    /// A text, number or list with its bounds.
    fn plain(&self, schema: &Value) -> String {
        if let Some(values) = schema["enum"].as_array().filter(|values| values.len() <= 8) {
            let values: Vec<_> = values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`")).collect();
            return values.join(", ");
        }
        let types = match &schema["type"] {
            Value::String(name) => name.clone(),
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
            _ => "any".to_owned(),
        };
        let bound = |name: &str| schema[name].as_u64();
        let range = match (bound("minimum"), bound("maximum"), bound("maxLength")) {
            (_, _, Some(length)) => format!(", at most {length} characters"),
            (Some(least), Some(most), _) if most != u64::MAX => format!(", {least} to {most}"),
            (Some(least), None, _) if least > 0 => format!(", from {least}"),
            _ => String::new(),
        };
        types + &range
    }

    /// The type of a field: what it is, whether it can be null or absent.
    fn kind(&self, schema: &Value, is_required: bool) -> String {
        let choices = schema["oneOf"].as_array();
        let kind = match (choices, schema.get("items")) {
            (Some(choices), _) => choices.iter().map(|choice| self.named(choice)).collect::<Vec<_>>().join(" or "),
            (_, Some(items)) => {
                let item = items["oneOf"].as_array().map(|choices| choices.iter().map(|choice| self.named(choice)));
                let item = item.map_or_else(|| self.named(items), |choices| choices.collect::<Vec<_>>().join(" or "));
                let count = match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
                    (Some(least), Some(most)) if least == most => format!("{most} of "),
                    (Some(least), Some(most)) => format!("{least} to {most} of "),
                    (None, Some(most)) => format!("at most {most} of "),
                    _ => "array of ".to_owned(),
                };
                format!("{count}{item}")
            }
            _ => self.named(schema),
        };
        // An optional field can be null as well.
        if is_required { kind } else { format!("{}, optional", kind.replace(" or null", "")) }
    }

    /// What the description says of a field: its own words, or those of its type.
    fn meaning(&self, field: &Value) -> String {
        let own = field["description"].as_str();
        let choices = field["oneOf"].as_array().into_iter().flatten();
        let of_choice = || choices.clone().find_map(|choice| choice["description"].as_str());
        let of_type = || self.resolved(field)["description"].as_str();
        one_line(own.or_else(of_choice).or_else(of_type).unwrap_or_default())
    }
}

/// The operations of a list: their paths, with the methods where these differ.
fn named(operations: &[Operation], at: &[usize]) -> String {
    let mut paths: Vec<(&str, Vec<&str>)> = Vec::new();
    for operation in at.iter().map(|index| &operations[*index]) {
        match paths.iter_mut().find(|(path, _)| *path == operation.path) {
            Some((_, methods)) => methods.push(&operation.method),
            None => paths.push((operation.path, vec![&operation.method])),
        }
    }
    let texts = paths.into_iter().map(|(path, methods)| {
        let of_path = operations.iter().filter(|operation| operation.path == path).count();
        if of_path == methods.len() { format!("`{path}`") } else { format!("`{} {path}`", methods.join("`, `")) }
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// The credentials that an operation takes.
fn needs(security: Option<&Value>) -> String {
    let alternatives: Vec<_> = security.and_then(Value::as_array).into_iter().flatten().collect();
    let names = alternatives.iter().flat_map(|alternative| alternative.as_object().into_iter().flatten());
    let names: Vec<_> = names.map(|(name, _)| format!("`{name}`")).collect();
    let is_optional = alternatives.iter().any(|alternative| alternative.as_object().is_some_and(Map::is_empty));
    let optional = if is_optional && !names.is_empty() { ", optional" } else { "" };
    format!("{}{optional}", names.join(" or "))
}

fn name_of(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A list entry with lines of at most 100 characters.
fn wrapped(entry: &str) -> String {
    let mut lines = vec![String::new()];
    for word in entry.split(' ') {
        let line = lines.last_mut().expect("a line");
        if line.chars().count() + word.chars().count() > 100 {
            lines.push(format!("  {word}"));
        } else {
            write!(line, "{}{word}", if line.is_empty() { "" } else { " " }).expect("a text");
        }
    }
    lines.join("\n")
}

/// A table in Markdown. Columns that are empty in every row are left out.
pub fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    assert!(!rows.is_empty(), "a table of {heads:?} has no rows");
    let kept: Vec<usize> = (0..heads.len()).filter(|column| rows.iter().any(|row| !row[*column].is_empty())).collect();
    let mut text = format!("| {} |\n", kept.iter().map(|column| heads[*column]).collect::<Vec<_>>().join(" | "));
    writeln!(text, "|{}", "---|".repeat(kept.len())).expect("a text");
    for row in &rows {
        let cells: Vec<_> = kept.iter().map(|column| row[*column].replace('|', "\\|")).collect();
        for (cell, column) in cells.iter().zip(&kept) {
            let length = cell.chars().count();
            assert!(length <= LONGEST_CELL, "{length} characters in a cell, at most {LONGEST_CELL}: {cell}");
            let is_said = !cell.is_empty() || !heads[*column].contains("meaning");
            assert!(is_said, "the description does not say what this is: {row:?}");
        }
        for cell in cells {
            write!(text, "| {cell}{}", if cell.is_empty() { "" } else { " " }).expect("a text");
        }
        text.push_str("|\n");
    }
    text
}
