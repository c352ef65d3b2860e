//! The formats of values as JSON Schema: one type for each, which no value has.
//!
//! The functions of `values` and `urls` decide what is accepted. A pattern here leaves out what it
//! cannot say simply, so it refuses nothing that they accept.
#![expect(dead_code, reason = "the fields are read by the derived schemas alone")]

use schemars::JsonSchema;

/// A duration: a number and a unit, such as `5ms`, `10s`, `1m`, `1h` or `14d`, or several of them,
/// such as `1h 30m`.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^0$|[0-9][^0-9]*[A-Za-zµ]", "examples" = ["10s", "1h 30m"]))]
pub(super) struct Duration(String);

/// A time in UTC, such as `2026-01-31T12:00:00Z`.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]+[Zz]$"))]
pub(super) struct Time(String);

/// An IP address and a port, such as `127.0.0.1:8080` or `[::1]:8080`. With port 0 the operating
/// system chooses the port.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^[0-9A-Fa-f:.%\\[\\]]+:[0-9]+$"))]
pub(super) struct SocketAddress(String);

/// The address of a contract or an account: `0x` and 40 hex digits.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^(0x)?[0-9A-Fa-f]{40}$"))]
pub(super) struct ContractAddress(String);

/// The address of a key: `0x` and 40 hex digits.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^(0x)?[0-9A-Fa-f]{40}$"))]
pub(super) struct AccountAddress(String);

/// A number below the modulus of the BN254 scalar field, as text: decimal digits, or `0x` and hex
/// digits.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^([0-9]+|0[xX][0-9A-Fa-f]+)$"))]
pub(super) struct Number(String);

/// `app_` and 1 to 128 letters, digits, `-` or `_`.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^app_[A-Za-z0-9_-]{1,128}$"))]
pub(super) struct AppId(String);

/// `rp_` and 16 hex digits.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^rp_[0-9A-Fa-f]{16}$"))]
pub(super) struct RelyingPartyId(String);

/// A response type of OpenID Connect.
#[derive(JsonSchema)]
#[schemars(extend(
    "pattern" = "^(code|id_token|token)( (code|id_token|token)){0,2}$",
    "examples" = ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"],
))]
pub(super) struct ResponseType(String);

/// 401, or 200 as in RFC 7662.
#[derive(JsonSchema)]
#[schemars(extend("enum" = [401, 200]))]
pub(super) struct InactiveStatus(u16);

/// An IP address, or a network in CIDR notation, such as `10.0.0.0/8` or `fd00::/8`.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^[0-9A-Fa-f:.]+(/[0-9]+)?$"))]
pub(super) struct Network(String);

/// The salted hash of a secret, `sha256:<salt>:<digest>`, both in hex. `selfsame app new` and
/// `selfsame app secret` print one. Never put the secret itself here.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^(sha256:[0-9A-Fa-f]{32}:[0-9A-Fa-f]{64}|<hidden by config dump>)$"))]
pub(super) struct SecretHash(String);

/// The path of a unix socket, or `off`.
#[derive(JsonSchema)]
#[schemars(extend("minLength" = 1, "examples" = ["off"]))]
pub(super) struct OperatorSocket(String);

/// `builtin` for the public service's key, or the path of a `.json` file.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^builtin$|\\.json$", "examples" = ["builtin"]))]
pub(super) struct ProductionKey(String);

/// `builtin` for the public service's key, `simulator` for the simulator's key, whose secrets are
/// public, or the path of a `.json` file.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^(builtin|simulator)$|\\.json$", "examples" = ["builtin", "simulator"]))]
pub(super) struct StagingKey(String);

/// An absolute `http` or `https` URL without query and without a slash at the end.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^?#]*[^/?#]$"))]
pub(super) struct BaseUrl(String);

/// An absolute URL without a fragment and without `*`: `https`, or `http` to `localhost` or a
/// loopback address.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^#*]+$"))]
pub(super) struct RedirectUri(String);

/// An absolute URL without a fragment: `https`, or `http` to `localhost` or a loopback address.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^#]+$"))]
pub(super) struct ApplicationPage(String);

/// An origin as browsers send it, such as `https://wallet.example`.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^/?#]+$"))]
pub(super) struct Origin(String);

/// A name of one line, 1 to 100 characters.
#[derive(JsonSchema)]
#[schemars(extend("minLength" = 1, "maxLength" = 100))]
pub(super) struct ServiceName(String);

/// An `https` URL.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^https://."))]
pub(super) struct PageUrl(String);

/// `mailto:` and an address, or an `https` URL.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^(https://.|mailto:.+@.)", "examples" = ["mailto:help@example.org"]))]
pub(super) struct ContactUrl(String);

/// A colour: `#` and six hex digits.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^#[0-9A-Fa-f]{6}$", "examples" = ["#14507d"]))]
pub(super) struct Colour(String);

/// A URL that contains `{request}` once, such as `wallet://open?request={request}`; or `bridge`.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "\\{request\\}|^bridge$", "examples" = ["wallet://open?request={request}", "bridge"]))]
pub(super) struct WalletLink(String);

/// 1 to 63 lower-case letters, digits and hyphens.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^[a-z0-9-]{1,63}$"))]
pub(super) struct ReplicaName(String);

/// A slash and a name, without a slash at the end.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^/([!-~]*[!-.0-~])?$", "examples" = ["/selfsame"]))]
pub(super) struct KeyPrefix(String);

/// The URL of a collector that takes traces by OTLP over HTTP, without `/v1/traces`.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^?#]+$"))]
pub(super) struct CollectorUrl(String);

/// The URL that events are posted to.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^#]+$"))]
pub(super) struct WebhookUrl(String);

/// The URL of a JSON-RPC node. It is a secret.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^([Hh][Tt][Tt][Pp][Ss]?://.|<hidden by config dump>)"))]
pub(super) struct NodeUrl(String);
