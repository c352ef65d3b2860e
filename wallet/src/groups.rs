//! Calls of the wallet interface: the group, its pages, and the requests of members.
//!
//! Codes and replacement secrets go over these calls, so no proxy that a variable names is used.

use reqwest::{RequestBuilder, Url};
use selfsame_protocol::groups::codes::{Code, CodeError};
use selfsame_protocol::groups::names::{FieldNumber, FormError, GroupId};
use selfsame_protocol::groups::wire::{
    EnrolledResponse, GroupResponse, JoinRequest, LeaveRequest, LeftResponse, ReplaceRequest,
};
use selfsame_protocol::json::{from_answer, to_printable};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{ANSWER_TIMEOUT, ClientError, base, http_without_proxy, pause_before_retry, read_bytes};
use crate::member::{AskedTree, FoundLeaf, Member, MemberError};
use crate::prove::LegacyProof;
use selfsame_protocol::U256;

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
        match self.find_once(member, external_nullifier).await {
            Err(MemberProofError::Client(error)) if error.code() == Some("unknown_page") => {
                self.find_once(member, external_nullifier).await
            }
            found => found,
        }
    }

    async fn find_once(&self, member: &Member, external_nullifier: U256) -> Result<FoundLeaf, MemberProofError> {
        let group = self.group(&member.group).await?;
        member.check_group(&group)?;
        let tree = AskedTree::for_proof(&group, external_nullifier);
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
