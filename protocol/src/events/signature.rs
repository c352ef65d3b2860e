//! The secrets of webhooks and their signatures, by the Standard Webhooks specification 1.0.0: the
//! symmetric scheme `v1`, HMAC-SHA256 over the message's id, its time and its body.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::EventId;
use crate::time::UnixSeconds;

/// What the text of a secret begins with.
const PREFIX: &str = "whsec_";

/// The fewest and the most bytes of a secret (Standard Webhooks, "Signature scheme").
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that the sender and the receiver of webhooks share. Its text is `whsec_` and base64.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookSecret")
    }
}

/// A text that is not a secret of a webhook. It is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSecretError {
    /// It is of another form.
    #[error("a webhook's secret is whsec_ and base64, as in: printf 'whsec_%s\\n' \"$(openssl rand -base64 32)\"")]
    Form,
    /// It has too few or too many bytes.
    #[error("a webhook's secret has 24 to 64 bytes, and this one has {0}")]
    Length(usize),
}

impl FromStr for WebhookSecret {
    type Err = WebhookSecretError;

    fn from_str(text: &str) -> Result<Self, WebhookSecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(WebhookSecretError::Form)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| WebhookSecretError::Form)?;
        if LENGTHS.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(WebhookSecretError::Length(bytes.len())) }
    }
}

/// The value of the header `webhook-signature`: a signature with each secret, with spaces between
/// them. A receiver accepts a message when one of them is right, so that a secret can be replaced
/// without a gap.
pub fn signatures(secrets: &[WebhookSecret], id: EventId, sent_at: UnixSeconds, body: &[u8]) -> String {
    let head = format!("{id}.{}.", sent_at.0);
    let sign = |secret: &WebhookSecret| {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &secret.0));
        context.update(head.as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_message_is_signed_with_each_secret() {
        let id = EventId(*b"0123456789abcdef");
        let other = format!("whsec_{}", STANDARD.encode([7; 32]));
        let secrets = [SECRET.parse().expect("a secret"), other.parse().expect("a secret")];
        let signed = signatures(&secrets, id, UnixSeconds(1_614_265_330), br#"{"test": 2432232314}"#);
        // Computed with Python's `hmac`, over the body behind
        // `evt_30313233343536373839616263646566.1614265330.`.
        let expected = ["v1,sPVJXddEFucFOwkTcHuGBIolRb4AR5V/ArS6omyG23o=", "v1,"];
        let parts: Vec<&str> = signed.split(' ').collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0], expected[0]);
        assert!(parts[1].starts_with(expected[1]) && parts[1] != parts[0]);
    }

    #[test]
    fn a_secret_has_its_form_and_length() {
        let of = |length| format!("whsec_{}", STANDARD.encode(vec![1; length]));
        assert_eq!(of(23).parse::<WebhookSecret>(), Err(WebhookSecretError::Length(23)));
        assert!(of(24).parse::<WebhookSecret>().is_ok() && of(64).parse::<WebhookSecret>().is_ok());
        assert_eq!(of(65).parse::<WebhookSecret>(), Err(WebhookSecretError::Length(65)));
        for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS*"] {
            assert!(text.parse::<WebhookSecret>().is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", SECRET.parse::<WebhookSecret>()), "Ok(WebhookSecret)");
    }
}
