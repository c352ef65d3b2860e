//! `/openapi.json` says what is served: no route is missing, none is made up, and each has words,
//! schemas and examples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use alloy_primitives::Address;
use reqwest::Method;
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_wallet::operations::create_account;
use serde_json::{Map, Value, json};

use crate::http_contract::{GATEWAY_GETS, GATEWAY_POSTS, INDEXER_GETS, INDEXER_POSTS, MISSING_OPERATIONS};
use crate::registry_client::RegistryClient;
use crate::test_accounts::key;

/// A document and where it describes the service.
struct Document {
    base: String,
    json: Value,
}

impl Document {
    async fn fetch(client: &RegistryClient, address: SocketAddr) -> Self {
        let base = format!("http://{address}");
        let answer = client.get(format!("{base}/openapi.json")).await;
        assert_eq!(answer.status, 200);
        Self { base, json: answer.body }
    }

    /// Every operation by path and method.
    fn operations(&self) -> BTreeMap<(String, String), &Map<String, Value>> {
        let paths = self.json["paths"].as_object().expect("paths");
        let items = paths.iter().flat_map(|(path, item)| {
            let item = item.as_object().expect("a path item");
            item.iter().map(move |(method, operation)| {
                ((path.clone(), method.clone()), operation.as_object().expect("an operation"))
            })
        });
        items.collect()
    }

    /// A schema, or the one that it refers to.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let pointer = reference.strip_prefix('#').expect("a reference into this document");
                let found = self.json.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"));
                self.resolve(found)
            }
            None => schema,
        }
    }

    /// Whether a schema shows an example anywhere.
    fn has_example(&self, schema: &Value) -> bool {
        let schema = self.resolve(schema);
        let of = |name: &str| schema[name].as_array().into_iter().flatten();
        schema.get("example").or(schema.get("examples")).or(schema.get("enum")).is_some()
            || schema["type"] == "boolean"
            || schema["properties"].as_object().into_iter().flatten().any(|(_, property)| self.has_example(property))
            || of("allOf").chain(of("oneOf")).chain(of("anyOf")).any(|part| self.has_example(part))
    }

    /// The body that a request's schema shows as its example.
    fn example_body(&self, operation: &Map<String, Value>) -> Value {
        let schema = self.resolve(&operation["requestBody"]["content"]["application/json"]["schema"]);
        let properties = schema["properties"].as_object().expect("properties");
        let example = |(name, property): (&String, &Value)| {
            assert!(self.is_described(property), "{name}: {property}");
            let example = self.example(property);
            (name.clone(), example.unwrap_or_else(|| panic!("{name} has no example: {property}")))
        };
        Value::Object(properties.iter().map(example).collect())
    }

    /// The example of a schema; that of a list may be a list of its items' example.
    fn example(&self, schema: &Value) -> Option<Value> {
        let schema = self.resolve(schema);
        let own = schema.get("example").or(schema["examples"].get(0)).cloned();
        let items = || schema.get("items").and_then(|items| self.example(items));
        let choices = || schema["oneOf"].as_array()?.iter().find_map(|choice| self.example(choice));
        own.or_else(|| items().map(|item| json!([item]))).or_else(choices)
    }

    /// Whether a property says what it is. An optional one says it in the choice that is not null.
    fn is_described(&self, property: &Value) -> bool {
        let choices = property["oneOf"].as_array().into_iter().flatten();
        self.resolve(property)["description"].is_string()
            || choices.into_iter().any(|choice| choice["description"].is_string())
    }

    /// Every reference leads somewhere, every operation has a name of its own.
    fn is_sound(&self) {
        assert!(
            self.json["openapi"].as_str().is_some_and(|version| version.starts_with("3.")),
            "{}",
            self.json["openapi"]
        );
        for field in ["title", "version", "description"] {
            assert!(self.json["info"][field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
        }
        let mut names = BTreeSet::new();
        for (place, operation) in self.operations() {
            let name = operation["operationId"].as_str().expect("an id");
            assert!(names.insert(name), "{place:?}: {name} is taken");
        }
        let mut left = vec![&self.json];
        while let Some(value) = left.pop() {
            if value["$ref"].is_string() {
                self.resolve(value);
            }
            left.extend(value.as_object().into_iter().flatten().map(|(_, value)| value));
            left.extend(value.as_array().into_iter().flatten());
        }
    }

    /// Every operation says what it does, takes and answers.
    fn is_complete(&self) {
        for ((path, method), operation) in self.operations() {
            let place = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{place} has no summary");
            if method == "post" && !MISSING_OPERATIONS.contains(&path.as_str()) {
                self.example_body(operation);
            }
            let parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
            for parameter in parameters {
                assert!(
                    parameter["description"].is_string() && parameter["schema"].is_object(),
                    "{place}: {parameter}"
                );
            }
            let responses = operation["responses"].as_object().expect("responses");
            if method == "post" && !MISSING_OPERATIONS.contains(&path.as_str()) {
                for status in ["413", "415"] {
                    assert!(responses.contains_key(status), "{place} does not list {status}");
                }
            }
            for status in ["400", "405", "500", "503", "504"] {
                assert!(responses.contains_key(status), "{place} does not list {status}");
            }
            for (status, response) in responses {
                assert!(response["description"].is_string(), "{place} {status}");
                let content = &response["content"]["application/json"];
                assert!(content["schema"].is_object(), "{place} {status} has no schema");
                let shown = content.get("example").or(content.get("examples")).is_some();
                assert!(shown || self.has_example(&content["schema"]), "{place} {status} has no example");
            }
        }
    }

    /// Every operation answers with a status that it is described with.
    async fn is_true(&self, client: &RegistryClient, request_id: &str, root: &str) {
        for ((path, method), operation) in self.operations() {
            let mut url = format!("{}{path}", self.base).replace("{request_id}", request_id).replace("{id}", "1");
            if path == "/is-valid-root" {
                url += &format!("?root={root}");
            }
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            let mut request = client.http.request(method.clone(), &url);
            if operation.contains_key("requestBody") {
                request = request.json(&self.example_body(operation));
            }
            let answer = client.send(request).await;
            assert!(![404, 405].contains(&answer.status), "{method} {path}: {answer:?}");
            assert!(operation["responses"].get(answer.status.to_string()).is_some(), "{method} {path}: {answer:?}");
        }
    }
}

/// The methods and patterns of an interface's routes.
fn routes<'a>(
    gets: impl IntoIterator<Item = &'a str>,
    posts: impl IntoIterator<Item = &'a str>,
) -> BTreeSet<(String, String)> {
    let pattern = |path: &str| match path.split('/').nth(1) {
        Some("status") => "/status/{request_id}".to_owned(),
        Some("receipt") => "/receipt/{request_id}".to_owned(),
        Some("block") => "/block/{id}".to_owned(),
        _ => path.to_owned(),
    };
    let gets = gets.into_iter().map(|path| (pattern(path), "get".to_owned()));
    gets.chain(posts.into_iter().map(|path| (pattern(path), "post".to_owned()))).collect()
}

fn gateway_routes() -> BTreeSet<(String, String)> {
    routes(GATEWAY_GETS, GATEWAY_POSTS)
}

fn indexer_routes() -> BTreeSet<(String, String)> {
    let plain = routes(INDEXER_GETS, INDEXER_POSTS);
    let compat = plain.iter().map(|(path, method)| (format!("/compat{path}"), method.clone()));
    compat.chain(plain.clone()).collect()
}

/// Makes the account that the examples are about; the id of its request, and the root.
async fn account(client: &RegistryClient) -> (String, String) {
    let step = create_account(&[key("alice").authenticator()], Address::ZERO);
    let mut operation = serde_json::to_value(step.operation).expect("JSON");
    operation["authenticator_addresses"] = json!(["0x71a4fb49dcddadfed612b153b000fbab994ed6af"]);
    let answer = client.post(client.daemon.gateway("/create-account"), operation.to_string()).await;
    client.final_state(answer.request_id()).await;
    let standing = client.standing().await;
    (answer.request_id().to_owned(), standing["root"].as_str().expect("a root").to_owned())
}

#[tokio::test]
async fn each_interface_describes_itself() {
    let client = RegistryClient::start().await;
    let (request_id, root) = account(&client).await;
    let addresses = client.daemon.addresses;
    for (address, expected) in
        [(addresses[Interface::Gateway], gateway_routes()), (addresses[Interface::Indexer], indexer_routes())]
    {
        let document = Document::fetch(&client, address).await;
        let described: BTreeSet<_> = document.operations().into_keys().collect();
        assert_eq!(described, expected);
        document.is_sound();
        document.is_complete();
        document.is_true(&client, &request_id, &root).await;
    }
}

/// The methods and paths that an interface routes, read from its file, or its folder's `mod.rs`.
fn routed(folder: &str) -> BTreeSet<(String, String)> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("interfaces/src");
    let file = sources.join(format!("{folder}.rs"));
    let source = fs::read_to_string(file).or_else(|_| fs::read_to_string(sources.join(folder).join("mod.rs")));
    let source = source.expect("a source");
    let source = source.split("#[cfg(test)]").next().unwrap_or_default().split_whitespace().collect::<String>();
    let calls = source.split(".route").skip(1);
    let route = |call: &str| {
        let (before, after) = call.split_once("\"/")?;
        let method = before.trim_end_matches(',').trim_end_matches(".clone()");
        let method = method.rsplit(['(', ':', ',']).next()?.to_ascii_lowercase();
        Some((format!("/{}", after.split('"').next()?), method))
    };
    calls.map(|call| route(call).unwrap_or_else(|| panic!("{folder}: {call:?}"))).collect()
}

#[tokio::test]
async fn every_interface_describes_all_of_its_routes() {
    let client = RegistryClient::start().await;
    for (interface, folder, count) in [
        (Interface::SignIn, "sign_in", 24),
        (Interface::Verification, "verification", 3),
        (Interface::Gateway, "gateway", 18),
        (Interface::Indexer, "indexer", 20),
        (Interface::Bridge, "bridge", 7),
        (Interface::Wallet, "wallet", 11),
        (Interface::Operator, "operator", 32),
    ] {
        let document = Document::fetch(&client, client.daemon.addresses[interface]).await;
        document.is_sound();
        let described = document.operations().into_keys().filter(|(_, method)| method != "head");
        let (described, routed) = (described.collect::<BTreeSet<_>>(), routed(folder));
        assert_eq!(described, routed, "{folder}");
        assert!(routed.len() >= count, "{folder}: only {} routes were found", routed.len());
        for ((path, method), operation) in document.operations() {
            let place = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{place} has no summary");
            let responses = operation["responses"].as_object().expect("responses");
            for (status, header) in
                [("401", "WWW-Authenticate"), ("405", "Allow"), ("429", "Retry-After"), ("503", "Retry-After")]
            {
                let response = responses.get(status);
                let has_header = response.is_none_or(|response| response["headers"][header]["schema"].is_object());
                assert!(has_header, "{place} {status} has no {header}");
            }
            for status in ["405", "500", "503"] {
                assert!(responses.contains_key(status), "{place} does not list {status}");
            }
            let errors = responses.iter().filter(|(status, _)| method != "head" && status.starts_with(['4', '5']));
            for (status, error) in errors {
                let mut bodies = error["content"].as_object().into_iter().flatten().peekable();
                assert!(bodies.peek().is_some(), "{place} {status} has no body");
                assert!(
                    bodies.all(|(_, body)| body["schema"].is_object()),
                    "{place} {status} has a body without schema"
                );
            }
        }
        // The texts are for readers of the interface, who know nothing of the program.
        for text in document.json.to_string().split('"') {
            for leak in ["[`", "](", "seed section", "interface description", "crate::"] {
                assert!(!text.contains(leak), "{folder}: {text}");
            }
        }
    }
    client.daemon.stop().await;
}

/// Browsers get the errors of the routes that lead them as pages, which the description says.
#[tokio::test]
async fn the_routes_that_lead_browsers_describe_their_errors_as_pages_too() {
    let client = RegistryClient::start().await;
    let document = Document::fetch(&client, client.daemon.addresses[Interface::SignIn]).await;
    let mut leading = BTreeSet::new();
    for ((path, _), operation) in document.operations() {
        let errors = operation["responses"].as_object().expect("responses").iter();
        let errors = errors.filter(|(status, _)| status.starts_with(['4', '5']));
        // What is refused there is a program.
        let errors = errors.filter(|(status, _)| (path.as_str(), status.as_str()) != ("/", "404"));
        let as_pages = |(_, error): &(_, &Value)| error["content"]["text/html"].is_object();
        let (as_pages, others): (Vec<_>, Vec<_>) = errors.partition(as_pages);
        assert!(as_pages.is_empty() || others.is_empty(), "{path}: {others:?}");
        if !as_pages.is_empty() {
            leading.insert(path);
        }
    }
    for path in ["/authorize", "/authorize/{transaction}", "/logout", "/session", "/session/code", "/s/{short_id}"] {
        assert!(leading.contains(path), "{path}: {leading:?}");
    }
    for path in ["/token", "/userinfo", "/jwks", "/authorize/{transaction}/progress", "/openapi.json"] {
        assert!(!leading.contains(path), "{path}: {leading:?}");
    }
    for path in leading {
        let url = client.daemon.sign_in(&path.replace(['{', '}'], ""));
        for (accepted, expected) in [("text/html,*/*;q=0.8", "text/html"), ("application/json", "application/json")] {
            let request = client.http.delete(&url).header("accept", accepted);
            let refused = request.send().await.expect("an answer");
            let kind = refused.headers()["content-type"].to_str().expect("text");
            assert!(refused.status() == 405 && kind.starts_with(expected), "{path}: {refused:?}");
        }
    }
    client.daemon.stop().await;
}

/// Who calls the operator interface without the token, or by another name.
#[tokio::test]
async fn the_operator_interface_refuses_whom_it_says_that_it_refuses() {
    let client = RegistryClient::start().await;
    let address = client.daemon.addresses[Interface::Operator];
    let document = Document::fetch(&client, address).await;
    let mut refusing = 0;
    for ((path, method), operation) in document.operations() {
        let url = format!("{}{path}", document.base).replace(['{', '}'], "");
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
        let call = async |host: String| {
            let request = client.http.request(method.clone(), &url).header("host", host);
            request.send().await.expect("an answer").status().as_u16()
        };
        let is_listed = |status: &str| operation["responses"].get(status).is_some();
        let needs_token = call(address.to_string()).await == 401;
        assert_eq!(
            (needs_token, needs_token),
            (is_listed("401"), operation.contains_key("security")),
            "{method} {path}"
        );
        assert_eq!(call("other.example".to_owned()).await == 403, is_listed("403"), "{method} {path}");
        refusing += usize::from(is_listed("403"));
    }
    assert!(refusing > 30, "{refusing}");
    client.daemon.stop().await;
}

/// The operator's page and clients of a daemon behind one address.
#[tokio::test]
async fn all_interfaces_at_one_address_have_one_document() {
    let client = RegistryClient::start_with(|config| {
        for interface in Interface::ALL {
            config.listen[interface] = config.listen[Interface::SignIn];
        }
    })
    .await;
    let document = Document::fetch(&client, client.daemon.addresses[Interface::SignIn]).await;
    document.is_sound();
    let described = document.operations();
    for path in ["/jwks", "/create-account", "/root", "/request", "/roots"] {
        assert!(described.keys().any(|(other, _)| other == path), "{path}");
    }
    assert!(described.keys().any(|(path, _)| path == "/api/v4/verify/{rp_id}"));
    client.daemon.stop().await;
}

/// A client finds how it submits a request a second time, and from the answer how it asks for the
/// request's state.
#[tokio::test]
async fn operations_take_an_idempotency_key_and_link_to_their_state_and_receipt() {
    let client = RegistryClient::start().await;
    let document = Document::fetch(&client, client.daemon.addresses[Interface::Gateway]).await;
    let mut linked = 0;
    for ((path, method), operation) in document.operations() {
        if method == "post" && !MISSING_OPERATIONS.contains(&path.as_str()) {
            let mut parameters = operation["parameters"].as_array().into_iter().flatten();
            assert!(parameters.any(|parameter| parameter["name"] == "Idempotency-Key"), "{path}");
            let links = &operation["responses"]["200"]["links"];
            for (link, to) in [("state", "status"), ("receipt", "receipt")] {
                assert_eq!(links[link]["operationId"], to, "{path}");
                assert_eq!(links[link]["parameters"]["request_id"], "$response.body#/request_id", "{path}");
            }
            linked += 1;
        }
    }
    assert_eq!(linked, 8);
    client.daemon.stop().await;
}

impl Document {
    /// What a component of the document accepts.
    fn validator(&self, component: &str) -> jsonschema::Validator {
        let schema = json!({
            "$ref": format!("#/components/schemas/{component}"),
            "components": self.json["components"],
        });
        jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&schema).expect("a schema")
    }
}

/// The texts that the document allows are those that the reader takes. (The reader also takes white
/// space around numbers, and some decimal numbers with as many digits as the greatest one.)
#[tokio::test]
async fn patterns_of_texts_are_as_narrow_as_the_rules() {
    let client = RegistryClient::start().await;
    let document = Document::fetch(&client, client.daemon.addresses[Interface::Gateway]).await;
    let (zeros, nines) = ("0".repeat(64), "9".repeat(80));
    let most = "f".repeat(64);
    let modulus = "30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000000";
    for (component, accepted, refused) in [
        (
            "LeafIndex",
            vec!["1", "0x1", "0xffffffffffffffff", "0042"],
            vec!["0", "0x0", "00", "0x1ffffffffffffffff", "-1", "1.0", ""],
        ),
        ("PubkeyId", vec!["0", "6", "0x6", "0x06"], vec!["7", "0x7", "10", "x"]),
        ("Nonce", vec!["0", "0x0", &most], vec!["0x", &nines, "0xg"]),
        (
            "CompressedKey",
            vec!["0x0"],
            vec!["0x1ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "0b1"],
        ),
        ("Commitment", vec!["1", modulus], vec!["0", "0x0", &zeros]),
        (
            "Signature",
            vec![
                "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c",
            ],
            vec![
                "0x",
                "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1d",
            ],
        ),
        (
            "Address",
            vec!["71a4fb49dcddadfed612b153b000fbab994ed6af", "0x71A4fb49dcddadfed612b153b000fbab994ed6af"],
            vec!["0x71a4", "0X71a4fb49dcddadfed612b153b000fbab994ed6af"],
        ),
    ] {
        let validator = document.validator(component);
        for text in accepted {
            // Long numbers are hex digits.
            let text = if text.len() == 64 { format!("0x{text}") } else { text.to_owned() };
            assert!(validator.is_valid(&json!(text)), "{component}: {text}");
        }
        for text in refused {
            assert!(!validator.is_valid(&json!(text)), "{component}: {text}");
        }
    }
    client.daemon.stop().await;
}

/// The schema of verification requests and their reader decide alike.
#[tokio::test]
async fn the_schema_of_verification_requests_is_that_of_the_reader() {
    let client = RegistryClient::start().await;
    let document = Document::fetch(&client, client.daemon.addresses[Interface::Verification]).await;
    let validator = document.validator("VerificationRequest");
    let examples = document.operations()[&("/api/v4/verify/{rp_id}".to_owned(), "post".to_owned())]["requestBody"]
        ["content"]["application/json"]["examples"]
        .clone();
    let example = |name: &str| examples[name]["value"].clone();
    let [legacy, uniqueness, session] = ["Legacy", "Uniqueness", "Session"].map(example);
    let changed = |body: &Value, pointer: &str, value: Value| {
        let mut body = body.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = body.pointer_mut(parent).expect("a parent");
        match value {
            Value::Null => drop(parent.as_object_mut().expect("an object").remove(name)),
            value => parent[name] = value,
        }
        body
    };
    let entry = &uniqueness["responses"][0];
    let selfie = changed(&uniqueness, "/responses/0/issuer_schema_id", json!(11));
    let selfie = changed(&selfie, "/responses/0/sybil_score", json!(12));
    let bundle = json!({
        "version": 1, "signature_format": "apple_app_attest", "timestamp": 1, "signature": "0a", "jwt": "a.b.c",
    });
    let bodies = [
        legacy.clone(),
        uniqueness.clone(),
        session.clone(),
        changed(&legacy, "/action", Value::Null),
        changed(&legacy, "/action", json!("")),
        changed(&legacy, "/nonce", json!("any text")),
        changed(&legacy, "/nonce", json!(1)),
        changed(&legacy, "/protocol_version", json!("2.0")),
        changed(&legacy, "/protocol_version", json!("4.0")),
        changed(&legacy, "/environment", json!("sandbox")),
        changed(&legacy, "/environment", json!("test")),
        changed(&legacy, "/min_protocol_version", json!("4.0")),
        changed(&legacy, "/session_id", session["session_id"].clone()),
        changed(&legacy, "/responses", json!([])),
        changed(&legacy, "/responses/0/identifier", json!("Iris")),
        changed(&legacy, "/responses/0/merkle_root", json!("0xg")),
        changed(&legacy, "/responses/0/nullifier", json!("")),
        changed(&legacy, "/responses/0/signal_hash", json!("0xAB")),
        changed(&legacy, "/responses/0/max_age", json!(60)),
        changed(&legacy, "/responses/0/max_age", json!(3600)),
        changed(&legacy, "/responses/0/proof", json!(format!("0x{}", "a".repeat(512)))),
        changed(&legacy, "/responses/0/proof", json!("0xab")),
        changed(&uniqueness, "/nonce", json!("12")),
        changed(&uniqueness, "/nonce", json!("12 ")),
        changed(&uniqueness, "/min_protocol_version", json!("3.0")),
        changed(&uniqueness, "/responses", json!(vec![entry; 17])),
        changed(&uniqueness, "/responses", json!(vec![entry; 16])),
        changed(&uniqueness, "/responses/0/issuer_schema_id", json!("12")),
        // That issuer 11 needs the score, and others have none, is in its description alone.
        selfie.clone(),
        changed(&selfie, "/responses/0/sybil_score", json!(-1)),
        changed(&selfie, "/responses/0/sybil_score", json!("12")),
        changed(&selfie, "/responses/0/sybil_score", json!(1u64 << 53)),
        changed(&uniqueness, "/integrity_bundle", bundle.clone()),
        changed(&session, "/integrity_bundle", bundle.clone()),
        changed(&legacy, "/integrity_bundle", bundle.clone()),
        changed(&legacy, "/integrity_bundle", json!("v=1")),
        changed(&legacy, "/integrity_bundle", changed(&bundle, "/jwt", Value::Null)),
        changed(&legacy, "/integrity_bundle", changed(&bundle, "/extra", json!(1))),
        changed(&legacy, "/integrity_bundle", changed(&bundle, "/version", json!(3))),
        changed(&legacy, "/integrity_bundle", changed(&bundle, "/signature", json!("0x00"))),
        changed(&legacy, "/integrity_bundle", changed(&bundle, "/signature_format", json!("x509"))),
        changed(&uniqueness, "/responses/0/issuer_schema_id", json!(-1)),
        changed(&uniqueness, "/responses/0/issuer_schema_id", Value::Null),
        changed(&uniqueness, "/responses/0/expires_at_min", json!("1")),
        changed(&uniqueness, "/responses/0/expires_at_min", json!("0x1")),
        changed(&uniqueness, "/responses/0/credential_genesis_issued_at_min", json!("0")),
        changed(&uniqueness, "/responses/0/nullifier", json!(format!("0x{}", "0".repeat(64)))),
        changed(&uniqueness, "/responses/0/nullifier", json!(format!("0x{}", "0".repeat(65)))),
        changed(&uniqueness, "/responses/0/proof", json!(["0x1", "0x2", "0x3", "0x4"])),
        changed(&uniqueness, "/responses/0/proof", json!(["0x1", "2", "0x3", "0x4", 5])),
        changed(&session, "/action", json!("vote")),
        changed(&session, "/protocol_version", json!("3.0")),
        changed(&session, "/session_id", json!(format!("session_{}", "2".repeat(128)))),
        changed(&session, "/session_id", json!("session_01")),
        changed(&session, "/responses/0/session_nullifier", json!(["0x2a"])),
        json!([]),
        json!({}),
    ];
    let mut accepted = 0;
    for body in bodies {
        let read = VerificationRequest::read(&body);
        assert_eq!(validator.is_valid(&body), read.is_ok(), "{body}: {read:?}");
        accepted += usize::from(read.is_ok());
    }
    assert!(accepted >= 10, "{accepted}");
    client.daemon.stop().await;
}

#[tokio::test]
async fn interfaces_at_one_address_are_described_together() {
    let client =
        RegistryClient::start_with(|config| config.listen[Interface::Indexer] = config.listen[Interface::Gateway])
            .await;
    let addresses = client.daemon.addresses;
    assert_eq!(addresses[Interface::Gateway], addresses[Interface::Indexer]);
    let (request_id, root) = account(&client).await;
    let document = Document::fetch(&client, addresses[Interface::Gateway]).await;
    let described: BTreeSet<_> = document.operations().into_keys().collect();
    assert_eq!(described, gateway_routes().union(&indexer_routes()).cloned().collect());
    document.is_sound();
    document.is_complete();
    document.is_true(&client, &request_id, &root).await;
    let health = client.get(client.daemon.gateway("/health")).await;
    assert_eq!((health.status, health.body), (200, json!({"success": true})));
    // Both answer in their own way.
    client.query("/signature-nonce", json!({"leaf_index": "9"})).await.expect_error(400, "account_does_not_exist");
    client
        .post(client.daemon.gateway("/execute-recovery-agent-update"), r#"{"leaf_index":"9"}"#)
        .await
        .expect_error(400, "bad_request");
}
