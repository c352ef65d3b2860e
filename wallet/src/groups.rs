//! Calls of the wallet interface: the group, its pages, and the requests of members.
//!
//! Codes and replacement secrets go over these calls, so no proxy that a variable names is used.

use reqwest::{RequestBuilder, Url};
use selfsame_protocol::U256;
use selfsame_protocol::groups::codes::{Code, CodeError};
use selfsame_protocol::groups::names::{FieldNumber, FormError, GroupId};
use selfsame_protocol::groups::wire::{
    EnrolledResponse, GroupResponse, JoinRequest, LeaveRequest, LeftResponse, ReplaceRequest,
};
use selfsame_protocol::json::{from_answer, to_printable};
use selfsame_protocol::verification::Environment;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{ANSWER_TIMEOUT, ClientError, base, http_without_proxy, pause_before_retry, read_bytes};
use crate::member::{AskedTree, FoundLeaf, Member, MemberError};
use crate::prove::LegacyProof;

/// How often a proof is made again because the root has ended meanwhile.
const PROOFS: u32 = 2;

/// Why a text is not a link of a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The text has no `#`, or no page `join` or `replace` before it.
    #[error(
        "this is not a group's link: it begins with the wallet's address and /join# or /replace#; in a shell, put it in \
         quotes"
    )]
    Form,
    /// The group's id is not one.
    #[error("the link's group id {0}")]
    Group(FormError),
    /// The code is mistyped.
    #[error("the link's code: {0}; compare it with the letter of the organization")]
    Code(CodeError),
}

/// A link that an organization gives out: `{wallet origin}/join#{group id}.{28 letters}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLink {
    /// Base address of the wallet interface.
    pub wallet_url: String,
    /// The group.
    pub group: GroupId,
    /// The code.
    pub code: Code,
    /// Whether the member number had a live leaf when the link was made.
    pub replaces: bool,
}

impl GroupLink {
    /// Reads a link. The code may be written as people write it.
    ///
    /// # Errors
    /// A [`LinkError`].
    pub fn read(text: &str) -> Result<Self, LinkError> {
        let (page, fragment) = text.trim().split_once('#').ok_or(LinkError::Form)?;
        let (wallet_url, replaces) = match (page.strip_suffix("/join"), page.strip_suffix("/replace")) {
            (Some(url), _) => (url, false),
            (_, Some(url)) => (url, true),
            _ => return Err(LinkError::Form),
        };
        let is_address = Url::parse(wallet_url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        let (group, code) = fragment.split_once('.').filter(|_| is_address).ok_or(LinkError::Form)?;
        Ok(Self {
            wallet_url: wallet_url.trim_end_matches('/').to_owned(),
            group: group.parse().map_err(LinkError::Group)?,
            code: Code::read(code).map_err(LinkError::Code)?,
            replaces,
        })
    }
}

/// The memberships that may answer a request.
#[derive(Clone, Copy, Debug)]
pub struct Memberships<'a> {
    members: &'a [Member],
    /// The only group that answers.
    only: Option<GroupId>,
    /// The names of the credentials that answer; all when empty.
    credentials: &'a [String],
}

/// Why no membership answers, although one is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// Several groups have the name.
    #[error(
        "this wallet is a member of {first} and of {second}, which are both called {name}; choose one with --group"
    )]
    Several {
        /// The name.
        name: String,
        /// A group.
        first: GroupId,
        /// Another one.
        second: GroupId,
    },
    /// The request does not ask for the chosen group.
    #[error("the request does not ask for a proof of a member of {group} in {}", .environment.name())]
    NotAsked {
        /// The chosen group.
        group: GroupId,
        /// The environment of the request.
        environment: Environment,
    },
}

impl<'a> Memberships<'a> {
    /// All memberships, or that of one group; with names of credentials only those that are called
    /// so.
    pub fn new(members: &'a [Member], only: Option<GroupId>, credentials: &'a [String]) -> Self {
        Self { members, only, credentials }
    }

    /// Chooses the membership for a request by the names of the credentials that it accepts, the
    /// preferred one first. `None` when no group is asked for.
    ///
    /// # Errors
    /// A [`ChoiceError`].
    pub fn choose(&self, environment: Environment, names: &[&str]) -> Result<Option<&'a Member>, ChoiceError> {
        for name in names {
            let mut called = self.of(environment).filter(|member| member.is_called(name));
            let Some(first) = called.next() else { continue };
            return match called.next() {
                Some(second) => {
                    let (first, second) = (first.group, second.group);
                    Err(ChoiceError::Several { name: (*name).to_owned(), first, second })
                }
                None => Ok(Some(first)),
            };
        }
        self.only.map_or(Ok(None), |group| Err(ChoiceError::NotAsked { group, environment }))
    }

    /// The membership for a request that accepts any credential of its application: the chosen
    /// group, or when `is_alone` (there is no account to prove) the only one of the environment.
    ///
    /// # Errors
    /// [`ChoiceError::NotAsked`] when the chosen group is of the other environment.
    pub fn choose_any(&self, environment: Environment, is_alone: bool) -> Result<Option<&'a Member>, ChoiceError> {
        let mut members = self.of(environment);
        match (self.only, members.next(), members.next()) {
            (Some(group), None, _) => Err(ChoiceError::NotAsked { group, environment }),
            (Some(_), member, _) => Ok(member),
            (None, member, None) if is_alone => Ok(member),
            _ => Ok(None),
        }
    }

    fn of(&self, environment: Environment) -> impl Iterator<Item = &'a Member> {
        let Self { members, only, credentials } = *self;
        members.iter().filter(move |member| {
            let is_wanted = credentials.is_empty() || credentials.iter().any(|name| member.is_called(name));
            is_wanted && member.environment == environment && only.is_none_or(|only| only == member.group)
        })
    }
}

/// Why a member's proof was not made with a service's pages.
#[derive(Debug, thiserror::Error)]
pub enum MemberProofError {
    /// The service cannot be asked, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The wallet makes no such proof.
    #[error(transparent)]
    Member(#[from] MemberError),
}

/// A client of a wallet interface.
#[derive(Clone, Debug)]
pub struct GroupClient {
    http: reqwest::Client,
    url: String,
}

impl GroupClient {
    /// A client of the wallet interface at a base address.
    ///
    /// # Errors
    /// [`ClientError::NotAnAddress`].
    pub fn new(wallet_url: &str) -> Result<Self, ClientError> {
        Ok(Self { http: http_without_proxy(wallet_url)?, url: base(wallet_url)? })
    }

    /// A group, at one moment.
    pub async fn group(&self, id: &GroupId) -> Result<GroupResponse, ClientError> {
        let url = format!("{}/groups/{id}", self.url);
        self.call(&url, || self.http.get(&url)).await
    }

    /// The leaves of the page with a root, as bytes.
    pub async fn page(&self, id: &GroupId, root: FieldNumber) -> Result<Vec<u8>, ClientError> {
        let url = format!("{}/groups/{id}/pages/{root}", self.url);
        self.bytes(&url, || self.http.get(&url)).await
    }

    /// Adds a leaf.
    pub async fn join(&self, id: &GroupId, request: &JoinRequest) -> Result<EnrolledResponse, ClientError> {
        self.post(id, "join", request).await
    }

    /// Puts a leaf in the place of the live one.
    pub async fn replace(&self, id: &GroupId, request: &ReplaceRequest) -> Result<EnrolledResponse, ClientError> {
        self.post(id, "replace", request).await
    }

    /// Removes the live leaf.
    pub async fn leave(&self, id: &GroupId, request: &LeaveRequest) -> Result<LeftResponse, ClientError> {
        self.post(id, "leave", request).await
    }

    /// Finds a member's leaf in the tree that counts for an external nullifier. A page that ended
    /// between the two calls is looked for again once.
    ///
    /// # Errors
    /// [`MemberError::NoLeaf`] and [`MemberError::NotOnRoll`] when the tree has none; otherwise see
    /// [`MemberProofError`].
    pub async fn find(&self, member: &Member, external_nullifier: U256) -> Result<FoundLeaf, MemberProofError> {
        self.find_in(member, Some(external_nullifier)).await
    }

    /// Finds a member's leaf in the live tree.
    ///
    /// # Errors
    /// As [`GroupClient::find`].
    pub async fn find_live(&self, member: &Member) -> Result<FoundLeaf, MemberProofError> {
        self.find_in(member, None).await
    }

    async fn find_in(&self, member: &Member, asked: Option<U256>) -> Result<FoundLeaf, MemberProofError> {
        match self.find_once(member, asked).await {
            Err(MemberProofError::Client(error)) if error.code() == Some("unknown_page") => {
                self.find_once(member, asked).await
            }
            found => found,
        }
    }

    /// Looks for the leaf once: in the tree that counts for an external nullifier, or without one
    /// in the live tree.
    async fn find_once(&self, member: &Member, asked: Option<U256>) -> Result<FoundLeaf, MemberProofError> {
        let group = self.group(&member.group).await?;
        member.check_group(&group)?;
        let tree = asked.map_or_else(|| AskedTree::live(&group), |asked| AskedTree::for_proof(&group, asked));
        if member.has_left && tree.roll.is_none() {
            return Err(member.no_leaf(&tree).into());
        }
        let pages = match member.position {
            // The position is not in a tree of before the joining.
            Some(_) => member.page(&tree).into_iter().collect(),
            None => tree.page_roots.to_vec(),
        };
        for page in pages {
            let leaves = self.page(&member.group, page).await?;
            if let Some(leaf) = member.find(&tree, &leaves)? {
                return Ok(leaf);
            }
        }
        Err(member.no_leaf(&tree).into())
    }

    /// Proves to an application as a member. When the root that was proved is not that of the tree
    /// any more, the proof is made again once.
    ///
    /// # Errors
    /// As [`GroupClient::find`], and [`MemberError::LinkProof`].
    pub async fn prove(
        &self,
        member: &Member,
        external_nullifier: U256,
        signal_hash: U256,
    ) -> Result<LegacyProof, MemberProofError> {
        if member.is_link_proof(external_nullifier) {
            return Err(MemberError::LinkProof { group: member.group }.into());
        }
        let mut proofs = 1;
        loop {
            let leaf = self.find(member, external_nullifier).await?;
            let proof = member.prove_with(&leaf, external_nullifier, signal_hash)?;
            let group = self.group(&member.group).await?;
            if proofs == PROOFS || AskedTree::for_proof(&group, external_nullifier).root() == proof.root {
                return Ok(proof);
            }
            proofs += 1;
        }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        id: &GroupId,
        act: &str,
        request: &impl Serialize,
    ) -> Result<T, ClientError> {
        let url = format!("{}/groups/{id}/{act}", self.url);
        self.call(&url, || self.http.post(&url).json(request)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        url: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<T, ClientError> {
        let body = self.bytes(url, request).await?;
        from_answer(&body).map_err(|error| {
            let reason = to_printable(&error.to_string());
            ClientError::Unreadable { url: url.to_owned(), reason }
        })
    }

    /// Sends a request until the service is not busy. A request of a member that was carried out
    /// is answered as before.
    async fn bytes(&self, url: &str, request: impl Fn() -> RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let unreachable = |source| ClientError::Unreachable { url: url.to_owned(), source };
        let mut attempt = 1;
        loop {
            let answer = match request().timeout(ANSWER_TIMEOUT).send().await.map_err(unreachable) {
                Ok(response) => read_bytes(url, response).await,
                Err(error) => Err(error),
            };
            let Some(pause) = pause_before_retry(&answer, attempt) else { return answer };
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_the_organization_writes_them() {
        let code = Code::from_random_bytes([0x5a; 17]);
        let group: GroupId = "members".parse().expect("an id");
        for (url, replaces) in [("https://wallet.example", false), ("http://127.0.0.1:8086/base", true)] {
            let link = GroupLink { wallet_url: url.to_owned(), group, code: code.clone(), replaces };
            assert_eq!(GroupLink::read(&code.link(url, &group, replaces)), Ok(link.clone()));
            let typed = format!(" {url}/{}#members.{}\n", if replaces { "replace" } else { "join" }, code.to_printed());
            assert_eq!(GroupLink::read(&typed.to_lowercase()), Ok(link));
        }
        let good = code.link("https://wallet.example", &group, false);
        let wrong_letter = format!("{}0", &good[..good.len() - 1]);
        #[rustfmt::skip]
        let table = [
            ("", "begins with the wallet's address"),
            ("https://wallet.example/join", "begins with the wallet's address"),
            ("https://wallet.example/leave#members.x", "begins with the wallet's address"),
            ("wallet.example/join#members.x", "begins with the wallet's address"),
            ("https://wallet.example/join#members", "begins with the wallet's address"),
            ("https://wallet.example/join#Members.x", "1 to 32 characters"),
            ("https://wallet.example/join#members.x", "28 letters"),
            ("https://wallet.example/join#members.U", "without I, L, O and U"),
            (&wrong_letter, "a letter of the code is wrong"),
        ];
        for (text, expected) in table {
            let message = GroupLink::read(text).expect_err(text).to_string();
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }
}
