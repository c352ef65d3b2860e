//! `[sign_in.page]`: whose pages end users see at sign-in, and the link that opens their
//! authenticator.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use selfsame_interfaces::sign_in::wallet_links::LinkTemplate;
use selfsame_interfaces::sign_in::{appearance, wallet_links};
use serde::{Deserialize, Serialize};

use super::addresses::{ApplicationPage, check_page, web_url};
use super::values::{as_text, is_text};
use selfsame_protocol::json::to_printable;

/// `[sign_in.page]`: whose pages end users see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignInPage {
    /// The name of the service, or of the organization that runs it.
    pub service_name: Option<ServiceName>,
    /// Where people get help: a `mailto:` address or an `https` URL.
    pub contact: Option<ContactUrl>,
    /// The `https` URL of the statement on privacy.
    pub privacy_url: Option<PageUrl>,
    /// The `https` URL of the terms of use.
    pub terms_url: Option<PageUrl>,
    /// The file of the logo: PNG, WebP or SVG.
    pub logo_file: Option<PathBuf>,
    /// The colour of buttons and links, `#rrggbb`.
    pub accent_colour: Option<Colour>,
    /// The authenticator that the pages name and offer.
    pub authenticator: Option<AuthenticatorApp>,
}

/// `[sign_in.page.authenticator]`: the app that people sign in with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthenticatorApp {
    /// The name of the app.
    pub name: AuthenticatorName,
    /// The file of the app's logo: PNG, WebP or SVG.
    pub logo_file: Option<PathBuf>,
    /// The page where people get the app.
    pub get_url: Option<ApplicationPage>,
    /// The page that helps people with the app.
    pub help_url: Option<ApplicationPage>,
}

/// A name of one line, 1 to 100 characters.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("minLength" = 1, "maxLength" = 100))]
pub struct ServiceName(String);

impl ServiceName {
    /// The most characters of a name.
    const LONGEST: usize = 100;
}

impl FromStr for ServiceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = text.chars().count();
        if text.trim() != text || text.is_empty() || length > Self::LONGEST || text.contains(char::is_control) {
            let most = Self::LONGEST;
            return Err(format!(
                "{text:?} is not a name: 1 to {most} characters in one line, without spaces at its ends"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The name of an app, 1 to 64 characters that are seen.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("minLength" = 1, "maxLength" = 64))]
pub struct AuthenticatorName(String);

impl AuthenticatorName {
    /// The most characters of a name: it stands on a button.
    const LONGEST: usize = 64;
}

impl FromStr for AuthenticatorName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = !text.is_empty() && text.trim() == text && to_printable(text) == text;
        if !is_plain || text.chars().count() > Self::LONGEST {
            let most = Self::LONGEST;
            return Err(format!(
                "{text:?} is not the name of an app: 1 to {most} printable characters, without spaces at its ends"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// An `https` URL, or `http` to `localhost` or a loopback address, without a query and without a
/// fragment.
// The base of connector URIs, to which a query is appended.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^?#]+$", "examples" = ["https://world.org/verify"]))]
pub struct ConnectorBase(String);

impl FromStr for ConnectorBase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((base, _)) = text.split_once('?') {
            return Err(format!("{text:?} has a query, which the service appends itself; write {base:?}"));
        }
        check_page(text).map(|()| Self(text.to_owned()))
    }
}

/// A domain in lower case, such as `example.org`; other letters than those of ASCII in their `xn--`
/// form.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^[a-z0-9-]+(\\.[a-z0-9-]+)*$", "examples" = ["example.org"]))]
pub struct DomainName(String);

impl FromStr for DomainName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_of_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_of_label);
        match text.split('.').all(is_label) {
            true => Ok(Self(text.to_owned())),
            false => {
                Err(format!("{text:?} is not a domain in lower case, without scheme and port, like \"example.org\""))
            }
        }
    }
}

/// An `https` URL.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^https://."))]
pub struct PageUrl(String);

impl FromStr for PageUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A fragment leads to a part of a page.
        let uri = web_url(text.split('#').next().unwrap_or_default())?;
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        match uri.scheme_str() {
            Some("https") if is_plain => Ok(Self(text.to_owned())),
            _ => Err(format!("{text:?} is not an https URL, like https://example.org/privacy")),
        }
    }
}

/// `mailto:` and an address, or an `https` URL.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^(https://.|mailto:.+@.)", "examples" = ["mailto:help@example.org"]))]
pub struct ContactUrl(String);

impl FromStr for ContactUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither mailto: and an address nor an https URL");
        match text.strip_prefix("mailto:") {
            Some(address) => {
                let (local, host) = address.split_once('@').ok_or_else(wrong)?;
                let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"@<>\"\\,;".contains(&byte);
                let is_address =
                    !local.is_empty() && !host.is_empty() && local.bytes().chain(host.bytes()).all(is_plain);
                if is_address { Ok(Self(text.to_owned())) } else { Err(wrong()) }
            }
            None => text.parse::<PageUrl>().map(|url| Self(url.0)).map_err(|_| wrong()),
        }
    }
}

/// A colour: `#` and six hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^#[0-9A-Fa-f]{6}$", "examples" = ["#14507d"]))]
pub struct Colour(pub appearance::Colour);

impl FromStr for Colour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a colour: # and six hex digits, such as \"#14507d\"");
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6).ok_or_else(wrong)?;
        let channels = alloy_primitives::hex::decode_to_array(digits).map_err(|_| wrong())?;
        Ok(Self(appearance::Colour { channels }))
    }
}

impl Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A URL that contains `{request}` once, such as `wallet://open?request={request}`; or `bridge`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
#[schemars(extend("pattern" = "\\{request\\}|^bridge$", "examples" = ["wallet://open?request={request}", "bridge"]))]
pub enum WalletLink {
    /// By a link.
    Template(LinkTemplate),
    /// By the connector URI of a request on this service's message bridge.
    Bridge,
}

/// What the URL of the proof request stands for.
const PLACEHOLDER: &str = "{request}";

/// The value that stands for the message bridge.
const BRIDGE: &str = "bridge";

/// The schemes whose links would run a script, or show a file, on the page's behalf.
const REFUSED_SCHEMES: [&str; 5] = ["javascript", "data", "vbscript", "file", "blob"];

impl WalletLink {
    /// The link as sign-in opens it.
    pub fn to_link(&self) -> wallet_links::WalletLink {
        match self {
            Self::Template(template) => wallet_links::WalletLink::Template(template.clone()),
            Self::Bridge => wallet_links::WalletLink::Bridge,
        }
    }
}

impl FromStr for WalletLink {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == BRIDGE { Ok(Self::Bridge) } else { template(text).map(Self::Template) }
    }
}

/// Reads the template of a link.
fn template(text: &str) -> Result<LinkTemplate, String> {
    const EXAMPLE: &str = "write it like \"wallet://open?request={request}\"";
    let wrong = |reason: &str| format!("{text:?} {reason}; {EXAMPLE}");
    let (before, after) = text.split_once(PLACEHOLDER).ok_or_else(|| wrong("does not contain {request}"))?;
    if after.contains(PLACEHOLDER) {
        return Err(wrong("contains {request} more than once"));
    }
    let is_of_url = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
    if !before.bytes().chain(after.bytes()).all(is_of_url) {
        return Err(wrong("has characters that a URL does not have"));
    }
    let (scheme, rest) = before
        .split_once(':')
        .filter(|(scheme, _)| is_scheme(scheme))
        .ok_or_else(|| wrong("does not begin with a scheme"))?;
    if REFUSED_SCHEMES.iter().any(|refused| scheme.eq_ignore_ascii_case(refused)) {
        return Err(wrong("has a scheme that opens no authenticator"));
    }
    if ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
        // The request is no part of the host.
        let host = rest.strip_prefix("//").and_then(|rest| rest.split_once(['/', '?', '#'])).map(|(host, _)| host);
        if host.is_none_or(|host| web_url(&format!("https://{host}")).is_err()) {
            return Err(wrong("has no proper host before {request}"));
        }
    }
    Ok(LinkTemplate { before: before.to_owned(), after: after.to_owned() })
}

/// Whether a text is a scheme of a URL (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    let is_scheme_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_scheme_byte)
}

impl Display for WalletLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(LinkTemplate { before, after }) => write!(f, "{before}{PLACEHOLDER}{after}"),
            Self::Bridge => f.write_str(BRIDGE),
        }
    }
}

is_text!(ServiceName, AuthenticatorName, PageUrl, ContactUrl, ConnectorBase, DomainName);
as_text!(Colour, WalletLink);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_the_encoded_url_of_the_request() {
        let url = "https://id.example/authorize/ab/request";
        let encoded = "https%3A%2F%2Fid.example%2Fauthorize%2Fab%2Frequest";
        for (text, expected) in [
            ("wallet://open?request={request}", format!("wallet://open?request={encoded}")),
            ("openid4vp:{request}", format!("openid4vp:{encoded}")),
            ("https://wallet.example/open?u={request}&v=1#x", format!("https://wallet.example/open?u={encoded}&v=1#x")),
            ("HTTPS://wallet.example:8443#{request}", format!("HTTPS://wallet.example:8443#{encoded}")),
            ("http://127.0.0.1:3000/?{request}", format!("http://127.0.0.1:3000/?{encoded}")),
        ] {
            let link = template(text).unwrap();
            assert_eq!(link.to_request(url), expected);
            assert_eq!(WalletLink::Template(link).to_string(), text);
        }
        assert_eq!("bridge".parse(), Ok(WalletLink::Bridge));
        assert_eq!(WalletLink::Bridge.to_string(), "bridge");
        let link = template("a:{request}").unwrap();
        assert_eq!(link.to_request("é \"<>&?#%'+~._-"), "a:%C3%A9%20%22%3C%3E%26%3F%23%25%27%2B~._-");
    }

    #[test]
    fn templates_that_are_no_link_are_refused() {
        for (template, reason) in [
            ("Bridge", "does not contain {request}"),
            ("", "does not contain {request}"),
            ("wallet://open", "does not contain {request}"),
            ("wallet://open?a={request}&b={request}", "more than once"),
            ("{request}", "begin with a scheme"),
            ("/open?{request}", "begin with a scheme"),
            ("wallet?{request}:", "begin with a scheme"),
            ("1a:{request}", "begin with a scheme"),
            (":{request}", "begin with a scheme"),
            ("javascript:alert('{request}')", "opens no authenticator"),
            ("JavaScript://x/%0aalert({request})", "opens no authenticator"),
            ("data:text/html,{request}", "opens no authenticator"),
            ("vbscript:{request}", "opens no authenticator"),
            ("file:///{request}", "opens no authenticator"),
            ("blob:https://a.example/{request}", "opens no authenticator"),
            (" javascript:{request}", "characters that a URL"),
            ("java\tscript:{request}", "characters that a URL"),
            ("wallet:{ request}{request}", "characters that a URL"),
            ("wallet:\"{request}", "characters that a URL"),
            ("walleté:{request}", "characters that a URL"),
            ("https://{request}", "no proper host"),
            ("https://{request}.example/", "no proper host"),
            ("https:///{request}", "no proper host"),
            ("https:{request}", "no proper host"),
            ("https://user@wallet.example/{request}", "no proper host"),
        ] {
            let error = template.parse::<WalletLink>().expect_err(template);
            assert!(error.contains(reason), "{template:?}: {error}");
        }
    }

    #[test]
    fn links_of_the_footer_open_mail_or_https() {
        for text in ["https://a.example", "https://a.example/privacy?x=1#part", "https://a.example:8443/"] {
            assert_eq!(text.parse::<PageUrl>().unwrap().as_str(), text);
            assert_eq!(text.parse::<ContactUrl>().unwrap().as_str(), text);
        }
        assert_eq!("mailto:help@a.example".parse::<ContactUrl>().unwrap().as_str(), "mailto:help@a.example");
        for text in
            ["http://a.example", "javascript:alert(1)", "https://", "https://a.example/#\u{e9}", "//a.example", ""]
        {
            assert!(text.parse::<PageUrl>().is_err(), "{text:?}");
            assert!(text.parse::<ContactUrl>().is_err(), "{text:?}");
        }
        for text in
            ["mailto:", "mailto:help", "mailto:@a", "mailto:a@", "mailto:a@b@c", "mailto:a b@c", "help@a.example"]
        {
            assert!(text.parse::<ContactUrl>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_base_of_connector_uris_is_a_page_without_query() {
        for text in ["https://world.org/verify", "https://a.example", "https://a.example/x/", "http://127.0.0.1:3000/v"]
        {
            assert_eq!(text.parse::<ConnectorBase>().unwrap().as_str(), text);
        }
        for (text, reason) in [
            (
                "https://world.org/verify?a=1",
                "has a query, which the service appends itself; write \"https://world.org/verify\"",
            ),
            ("https://world.org/verify?", "write \"https://world.org/verify\""),
            ("https://world.org/verify#a", "has a fragment"),
            ("http://world.org/verify", "is http; write https, or http only to localhost or a loopback address"),
            ("worldapp://verify", "does not begin with https:// or http://"),
            ("", "does not begin with https:// or http://"),
        ] {
            let error = text.parse::<ConnectorBase>().expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn colours_and_names_are_read_strictly() {
        assert_eq!("#14507D".parse::<Colour>().unwrap().to_string(), "#14507d");
        for text in ["14507d", "#14507", "#14507d0", "#14507g", "red", "#", "# 14507d", "#1234é"] {
            assert!(text.parse::<Colour>().is_err(), "{text:?}");
        }
        assert_eq!("Bürgeramt 24".parse::<ServiceName>().unwrap().as_str(), "Bürgeramt 24");
        for text in [String::new(), " a".to_owned(), "a\nb".to_owned(), "a".repeat(101)] {
            assert!(text.parse::<ServiceName>().is_err(), "{text:?}");
        }
        for text in ["World App".to_owned(), "ワールド".to_owned(), "é".repeat(64)] {
            assert_eq!(text.parse::<AuthenticatorName>().unwrap().as_str(), text);
        }
        for text in [String::new(), "a ".to_owned(), "a\tb".to_owned(), "a\u{202e}b".to_owned(), "é".repeat(65)] {
            let error = text.parse::<AuthenticatorName>().expect_err(&text);
            assert!(error.contains("1 to 64 printable characters"), "{error}");
        }
    }
}
