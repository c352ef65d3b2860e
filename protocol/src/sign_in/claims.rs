//! The claims of ID tokens and of user-info.

use serde_json::{Map, Value, json};

use crate::encoding::{DecodeError, Encoding};
use crate::groups::names::GroupId;
use crate::net::authority;
use crate::time::UnixSeconds;
use crate::{B256, encode_enum};

/// The supported scopes of a request besides `openid`, which every valid request has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scopes {
    /// The scope `email`: the claim of the same name.
    pub email: bool,
    /// The scope `profile`: the claims `name`, `given_name` and `family_name`.
    pub profile: bool,
}

impl Scopes {
    /// All supported scopes, in the order of the discovery document.
    pub const SUPPORTED: [&'static str; 3] = ["openid", "email", "profile"];

    /// Reads scopes in any order and ignores unknown ones; `None` without `openid`.
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

    /// Whether every one of these scopes is in `approved`.
    pub fn is_subset_of(self, approved: Self) -> bool {
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

/// The verification level of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VerificationLevel {
    /// The proof's credential is `orb` or `proof_of_human`.
    Orb,
    /// The proof's credential is another one.
    Device,
}

impl VerificationLevel {
    /// The level of a verified proof by its identifier. The trusted root of a legacy proof, or the
    /// issuer of a current one, confirmed the identifier; otherwise the proof did not verify.
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

    /// The value of the deprecated claim `likely_human`.
    pub fn likely_human(self) -> &'static str {
        match self {
            Self::Orb => "strong",
            Self::Device => "weak",
        }
    }
}

encode_enum!(VerificationLevel { Device = 0, Orb = 1 } of "a verification level");

/// A person who signed in to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    /// The subject, which is another one at each application: that of the person's account, and
    /// where sign-in makes no accounts the nullifier of the accepted proof.
    pub subject: B256,
    /// The level of the accepted proof, by its identifier.
    pub level: VerificationLevel,
    /// The group that the accepted proof is a membership of; its level is
    /// [`VerificationLevel::Device`]. `None` for a proof of a public credential.
    pub group: Option<GroupId>,
    /// When the proof was accepted.
    pub auth_time: UnixSeconds,
}

/// What stands in the place of a level for a member of a group, whose id follows. Records from
/// before groups have none.
const OF_GROUP: u8 = 2;

impl Encoding for Person {
    fn encode(&self, out: &mut Vec<u8>) {
        self.subject.encode(out);
        match &self.group {
            None => self.level.encode(out),
            Some(group) => {
                out.push(OF_GROUP);
                group.encode(out);
            }
        }
        self.auth_time.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let subject = Encoding::decode(input)?;
        let (level, group) = match input.split_first() {
            Some((&OF_GROUP, rest)) => {
                *input = rest;
                (VerificationLevel::Device, Some(GroupId::decode(input)?))
            }
            _ => (VerificationLevel::decode(input)?, None),
        };
        Ok(Self { subject, level, group, auth_time: Encoding::decode(input)? })
    }
}

impl Person {
    /// Whether the sign-in of this person has ended, when the operator has ended all sign-ins whose
    /// proof was accepted at `sessions_ended_at` or before.
    pub fn has_ended(&self, sessions_ended_at: Option<UnixSeconds>) -> bool {
        sessions_ended_at.is_some_and(|ended_at| self.auth_time <= ended_at)
    }

    /// The subject: `0x` and 64 lower-case hex digits.
    pub fn subject(&self) -> String {
        format!("{:#x}", self.subject)
    }
}

/// The values of the claims that come from the provider's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// `{id_url}`, which is also the prefix of the provider's own claims.
    pub issuer: String,
    /// The claim `name`, the same for every person: the setting `sign_in.name`.
    pub name: String,
    /// The claim `given_name`, the same for every person: the setting `sign_in.given_name`.
    pub given_name: String,
    /// The claim `family_name`, the same for every person: the setting `sign_in.family_name`.
    pub family_name: String,
}

impl Provider {
    /// The host of the issuer: the domain of the claim `email`.
    pub fn host(&self) -> &str {
        let authority = authority(&self.issuer);
        // A port may follow the host; an IPv6 address in brackets has colons of its own.
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    /// The claims that ID tokens and user-info have in common.
    pub fn person_claims(&self, person: &Person, scopes: Scopes) -> Map<String, Value> {
        let subject = person.subject();
        let level = person.level;
        let mut claims = Map::new();
        claims.insert("sub".to_owned(), subject.clone().into());
        let beta = json!({"likely_human": level.likely_human(), "credential_type": level.name()});
        claims.insert(format!("{}/beta", self.issuer), beta);
        claims.insert(format!("{}/v1", self.issuer), json!({"verification_level": level.name()}));
        if let Some(group) = person.group {
            claims.insert(format!("{}/groups", self.issuer), json!([group]));
        }
        if scopes.email {
            claims.insert("email".to_owned(), format!("{subject}@{}", self.host()).into());
            // No mail reaches the address, so it was never verified.
            claims.insert("email_verified".to_owned(), false.into());
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
        claims.insert("iat".to_owned(), token.issued_at.0.into());
        claims.insert("exp".to_owned(), token.expires_at.0.into());
        claims.insert("jti".to_owned(), token.id.into());
        claims.insert("auth_time".to_owned(), person.auth_time.0.into());
        for (name, value) in [
            ("nonce", token.nonce.map(str::to_owned)),
            ("at_hash", token.access_token.map(super::authorize::half_hash)),
            ("c_hash", token.code.map(super::authorize::half_hash)),
        ] {
            claims.extend(value.map(|value| (name.to_owned(), value.into())));
        }
        claims
    }
}

/// The values of one ID token.
#[derive(Clone, Copy, Debug)]
pub struct IdToken<'a> {
    /// The claim `aud`: the client that the token is issued to.
    pub client_id: &'a str,
    /// The claim `nonce`: that of the authorization request; `None` when it had no nonce.
    pub nonce: Option<&'a str>,
    /// The claim `iat`.
    pub issued_at: UnixSeconds,
    /// The claim `exp`, the end of the validity, exclusive (RFC 7519, section 4.1.4).
    pub expires_at: UnixSeconds,
    /// The claim `jti`, unique for each token.
    pub id: &'a str,
    /// The access token that is issued with the ID token, for `at_hash`.
    pub access_token: Option<&'a str>,
    /// The code that is issued with the ID token, for `c_hash`.
    pub code: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{decode, encode};

    /// Records of persons without a group have the bytes that they had before there were groups.
    #[test]
    fn a_person_is_stored_with_the_group_in_the_place_of_the_level() {
        let person = Person {
            subject: B256::repeat_byte(7),
            level: VerificationLevel::Orb,
            group: None,
            auth_time: UnixSeconds(9),
        };
        let before: Vec<u8> = [&[7; 32][..], &[1], &encode(&UnixSeconds(9))].concat();
        assert_eq!(encode(&person), before);
        assert_eq!(decode::<Person>(&before).ok(), Some(person));
        let group = Some("members".parse().expect("an id"));
        let member = Person { level: VerificationLevel::Device, group, ..person };
        let stored = encode(&member);
        assert_eq!(stored[32], 2);
        assert_eq!(decode::<Person>(&stored).ok(), Some(member));
        let mut unknown = stored.clone();
        unknown[32] = 3;
        assert!(decode::<Person>(&unknown).is_err() && decode::<Person>(&stored[..33]).is_err());
    }
}
