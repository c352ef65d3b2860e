//! What an ID token and user-info say about a person.

use serde_json::{Map, Value, json};

use crate::encoding::{DecodeError, Encoding};
use crate::{U256, encode_enum, encode_fields};

/// The scopes of a request that mean something here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scopes {
    pub email: bool,
    pub profile: bool,
}

impl Scopes {
    /// All, as they are listed in discovery.
    pub const SUPPORTED: [&'static str; 3] = ["openid", "email", "profile"];

    /// Reads words in any order, others are ignored; `None` without `openid`.
    pub fn parse(text: &str) -> Option<Self> {
        let has = |word| text.split(' ').any(|other| other == word);
        has("openid").then(|| Self { email: has("email"), profile: has("profile") })
    }

    /// The granted scopes as text.
    pub fn text(self) -> String {
        let words = [(true, "openid"), (self.email, "email"), (self.profile, "profile")];
        let words: Vec<&str> = words.iter().filter(|(granted, _)| *granted).map(|(_, word)| *word).collect();
        words.join(" ")
    }

    /// Whether these are no more than others.
    pub fn are_within(self, approved: Self) -> bool {
        (!self.email || approved.email) && (!self.profile || approved.profile)
    }
}

impl Encoding for Scopes {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.email) | u8::from(self.profile) << 1);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            bits @ 0..=3 => Ok(Self { email: bits & 1 != 0, profile: bits & 2 != 0 }),
            tag => Err(DecodeError::UnknownTag { kind: "scopes", tag }),
        }
    }
}

/// How strongly a person was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VerificationLevel {
    Orb,
    Device,
}

impl VerificationLevel {
    /// The level of a proof by its identifier.
    pub fn of_identifier(identifier: &str) -> Self {
        if matches!(identifier, "orb" | "proof_of_human") { Self::Orb } else { Self::Device }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orb => "orb",
            Self::Device => "device",
        }
    }

    /// The deprecated claim's word for it.
    pub fn likely_human(self) -> &'static str {
        match self {
            Self::Orb => "strong",
            Self::Device => "weak",
        }
    }
}

encode_enum!(VerificationLevel { Device = 0, Orb = 1 } of "a verification level");

/// Somebody who signed in to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    /// The verified nullifier: pairwise, because the application is part of it.
    pub nullifier: U256,
    pub level: VerificationLevel,
    /// When the proof was accepted, Unix seconds.
    pub auth_time: u64,
}

encode_fields!(Person { nullifier, level, auth_time });

impl Person {
    /// The subject: `0x` and 64 lower-case hex digits.
    pub fn subject(&self) -> String {
        format!("{:#066x}", self.nullifier)
    }
}

/// The provider's part of the claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// `{id_url}`, which is also the prefix of its own claims.
    pub issuer: String,
    pub name: String,
    pub given_name: String,
    pub family_name: String,
}

impl Provider {
    /// The host of the issuer, which mail addresses end in.
    pub fn host(&self) -> &str {
        let rest = self.issuer.split_once("://").map_or(self.issuer.as_str(), |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // A port may follow the host; an IPv6 address in brackets has colons of its own.
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    /// What both ID token and user-info say.
    pub fn person_claims(&self, person: &Person, scopes: Scopes) -> Map<String, Value> {
        let subject = person.subject();
        let level = person.level;
        let mut claims = Map::new();
        claims.insert("sub".to_owned(), subject.clone().into());
        let beta = json!({"likely_human": level.likely_human(), "credential_type": level.name()});
        claims.insert(format!("{}/beta", self.issuer), beta);
        claims.insert(format!("{}/v1", self.issuer), json!({"verification_level": level.name()}));
        if scopes.email {
            claims.insert("email".to_owned(), format!("{subject}@{}", self.host()).into());
        }
        if scopes.profile {
            for (name, value) in
                [("name", &self.name), ("given_name", &self.given_name), ("family_name", &self.family_name)]
            {
                claims.insert(name.to_owned(), value.as_str().into());
            }
        }
        claims
    }

    /// An ID token's claims.
    pub fn id_token_claims(&self, person: &Person, scopes: Scopes, token: &IdToken<'_>) -> Map<String, Value> {
        let mut claims = self.person_claims(person, scopes);
        claims.insert("iss".to_owned(), self.issuer.as_str().into());
        claims.insert("aud".to_owned(), token.client_id.into());
        claims.insert("iat".to_owned(), token.issued_at.into());
        claims.insert("exp".to_owned(), token.expires_at.into());
        claims.insert("jti".to_owned(), token.id.into());
        claims.insert("auth_time".to_owned(), person.auth_time.into());
        for (name, value) in [
            ("nonce", token.nonce.map(str::to_owned)),
            ("at_hash", token.access_token.map(super::pkce::half_hash)),
            ("c_hash", token.code.map(super::pkce::half_hash)),
        ] {
            claims.extend(value.map(|value| (name.to_owned(), value.into())));
        }
        claims
    }
}

/// What is particular to one ID token.
#[derive(Clone, Copy, Debug)]
pub struct IdToken<'a> {
    pub client_id: &'a str,
    pub nonce: Option<&'a str>,
    /// Unix seconds.
    pub issued_at: u64,
    /// Unix seconds.
    pub expires_at: u64,
    /// Unlike that of any other token.
    pub id: &'a str,
    /// The access token that is given with it, for `at_hash`.
    pub access_token: Option<&'a str>,
    /// The code that is given with it, for `c_hash`.
    pub code: Option<&'a str>,
}
