//! `/openapi.json` says what is served: no route is missing, none is made up, and each has words,
//! schemas and examples.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use alloy_primitives::Address;
use reqwest::Method;
use selfsame::interface::Interface;
use selfsame_wallet::operations::create_account;
use serde_json::{Map, Value, json};

use crate::http_contract::{GATEWAY_GETS, GATEWAY_POSTS, INDEXER_GETS, INDEXER_POSTS};
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
            if method == "post" && path != "/revert-recovery-agent-update" {
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
            if method == "post" && path != "/revert-recovery-agent-update" {
                for status in ["400", "413", "415", "500", "503", "504"] {
                    assert!(responses.contains_key(status), "{place} does not list {status}");
                }
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

#[tokio::test]
async fn sign_in_and_operator_have_no_openapi_document() {
    let client = RegistryClient::start().await;
    for (interface, status) in [(Interface::SignIn, 404), (Interface::Operator, 404), (Interface::Verification, 200)] {
        let url = format!("http://{}/openapi.json", client.daemon.addresses[interface]);
        let answer = client.http.get(url).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{interface:?}");
        let body: Value = answer.json().await.expect("JSON");
        let expected = if status == 404 { json!("not_found") } else { Value::Null };
        assert_eq!(body["code"], expected, "{interface:?}: {body}");
    }
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
