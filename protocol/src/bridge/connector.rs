//! The connector URI: what an application's page shows as a link or a QR code. It names a request
//! on a bridge, and contains the key that the request is encrypted with.
//!
//! `{base}?t=wld&i=<id>&k=<key>[&return_to=<URL>]&b=<bridge>`; other parameters are ignored.

use form_urlencoded::Serializer;

use super::EntryId;
use super::cipher::RequestKey;

/// The value of `t`: the kind of link.
pub const KIND: &str = "wld";

/// The longest connector URI that is read, in bytes.
pub const LONGEST: usize = 8192;

/// A request on a bridge.
#[derive(Debug)]
pub struct Connector {
    /// The id of the request.
    pub id: EntryId,
    /// The key that the request and its answer are encrypted with.
    pub key: RequestKey,
    /// The origin of the bridge, without a slash at its end.
    pub bridge: String,
    /// The URL of the page that the person comes from; it is not checked.
    pub return_to: Option<String>,
}

impl Connector {
    /// The connector URI. `base` is the page that people see who open the URI in a browser.
    pub fn to_uri(&self, base: &str) -> String {
        let Self { id, key, bridge, return_to } = self;
        let mut parameters = Serializer::new(String::new());
        parameters.append_pair("t", KIND).append_pair("i", id.as_str()).append_pair("k", &key.to_base64());
        if let Some(return_to) = return_to {
            parameters.append_pair("return_to", return_to);
        }
        format!("{base}?{}", parameters.append_pair("b", bridge).finish())
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_connector_uri_has_its_parameters_in_percent_encoding() {
        let key = RequestKey::new(Zeroizing::new([0xfb; 32]));
        let id = EntryId::from_random_bytes([7; 16]);
        let mut connector = Connector { id, key, bridge: "http://127.0.0.1:8085".to_owned(), return_to: None };
        let base = "https://id.example/connect";
        let uri = connector.to_uri(base);
        let expected = "https://id.example/connect?t=wld&i=07070707-0707-4707-8707-070707070707\
                        &k=%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fs%3D\
                        &b=http%3A%2F%2F127.0.0.1%3A8085";
        assert_eq!(uri, expected);
        connector.return_to = Some("https://app.example/?x=1".to_owned());
        let with_return = expected.replace("&b=", "&return_to=https%3A%2F%2Fapp.example%2F%3Fx%3D1&b=");
        assert_eq!(connector.to_uri(base), with_return);
    }
}
