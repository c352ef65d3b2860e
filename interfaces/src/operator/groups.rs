//! Groups: `POST /groups/{id}/invitations` for programs that invite, and what the operator does
//! beside: members, removal, rolls.
//!
//! The lists of a large group are sent piece by piece, so that an answer takes no room among the
//! answers that wait for their clients.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::iter;
use http_body_util::StreamBody;
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use selfsame_actors::{GroupStatus, Invited};
use selfsame_protocol::groups::listed::{
    ListedGroup, ListedMember, ListedRoll, MemberList, NamedMember, NamedRoll, RollList,
};
use selfsame_protocol::groups::names::{FormError, GroupId, MemberNumber, SecretHash};
use selfsame_protocol::groups::wire::{Invitation, InvitationRequest, InvitationResponse, MOST_INVITATIONS};
use selfsame_protocol::json::{from_large_object, from_object};
use serde::Serialize;

use super::OperatorError;
use super::setup::Operator;
use super::trust::BODY_LIMIT;
use crate::http::{Rejection, Request, Response, json, stream};

/// The longest body with member numbers, in bytes: enough for [`MOST_INVITATIONS`] of the longest.
const INVITATIONS_LIMIT: usize = 24 << 20;

/// The most values of such a body: the numbers, and what is around them.
const INVITATIONS_VALUES: usize = MOST_INVITATIONS + 64;

/// How long invitations may take, in place of the request timeout: their body is long, and so is
/// what they write.
pub(super) const INVITATIONS_TIME_LIMIT: Duration = Duration::from_secs(120);

/// The bytes after which a piece of a list is sent.
const PIECE: usize = 64 << 10;

/// How each group is doing, for `/status`.
pub(super) fn listed_groups(operator: &Operator) -> Vec<ListedGroup> {
    let listed = |group: GroupStatus| {
        let GroupStatus { id, name, size, members, invited, open_codes, live_roots, rolls, failure } = group;
        let rolls = rolls.into_iter().map(|(name, record)| ListedRoll::new(name, &record)).collect();
        ListedGroup { id, name, size, members, invited, open_links: open_codes, live_roots, rolls, failure }
    };
    operator.service.groups().status().into_iter().map(listed).collect()
}

/// The group that the path names.
fn group_id(request: &Request) -> Result<GroupId, OperatorError> {
    request.param("id")?.parse().map_err(|_: FormError| OperatorError::NoSuchGroup)
}

/// The person that an event of the audit trail is about, which has a keyed hash of this.
fn person(group: &GroupId, member: &MemberNumber) -> [u8; 32] {
    SecretHash::of(format!("{group}\0{member}").as_bytes()).0
}

/// Invite members
///
/// Makes a link for each member number that is to have one. By default only numbers that were never
/// invited get one, so the same list again changes nothing.
#[utoipa::path(
    post, path = "/groups/{id}/invitations", tag = "operator", operation_id = "invite_members",
    security(("operatorToken" = []), ("invitationToken" = [])),
    params(("id" = String, Path, description = "The id of the group")),
    request_body = InvitationRequest,
    responses(
        (status = 200, description = "The new links", body = InvitationResponse),
        (status = 400, description = "The body is malformed, or names a number twice; the message has the index: `bad_request`"),
        (status = 404, description = "No group has the id: `unknown_group`"),
        (status = 503, description = "The group cannot be changed at the moment, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn invite(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(INVITATIONS_LIMIT).await?;
    let read = move || from_large_object(&body, INVITATIONS_VALUES);
    let InvitationRequest { members, of } =
        tokio::task::spawn_blocking(read).await.map_err(|_| Rejection::Internal)??;
    let group = group_id(&request)?;
    let audit = request.audit();
    audit.concerns(format!("{group}: {} member numbers", members.len()));
    if let [member] = &members[..] {
        audit.person(person(&group, member));
    }
    let Invited { invitations, unchanged } = operator.service.groups().invite(&group, members, of).await?;
    let new = invitations.iter().filter(|(_, invitation, _)| invitation.is_new).count();
    let again = invitations.len() - new;
    audit.concerns(format!("{group}: {new} invited, {again} again, {unchanged} unchanged"));
    let wallet_url = operator.wallet_url.clone();
    let invitations = invitations.into_iter().map(move |(member, invitation, expires_on)| {
        let link = invitation.code.link(&wallet_url, &group, invitation.replaces);
        Invitation { member, link, expires_on }
    });
    let tail = format!("],\"new\":{new},\"again\":{again},\"unchanged\":{unchanged}}}");
    Ok(list("{\"invitations\":[", invitations, tail))
}

/// The members of a group
///
/// Every member number that was ever invited, in the order of its bytes, and how it stands.
#[utoipa::path(
    get, path = "/groups/{id}/members", tag = "operator", operation_id = "list_members", security(("operatorToken" = [])),
    params(("id" = String, Path, description = "The id of the group")),
    responses(
        (status = 200, description = "The members", body = MemberList),
        (status = 404, description = "No group has the id: `unknown_group`"),
    ),
)]
pub async fn list_members(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let group = group_id(&request)?;
    request.audit().concerns(group.as_str());
    let members = operator.service.groups().members(&group).await?;
    let members = members.into_iter().map(|(member, record)| ListedMember::new(member, &record));
    Ok(list("{\"members\":[", members, "]}".to_owned()))
}

/// Remove a member
///
/// Takes the leaf out of the tree, and ends the number's link. From the answer on no proof with the
/// leaf passes, except for actions that count a roll which has it.
#[utoipa::path(
    post, path = "/groups/{id}/members/remove", tag = "operator", operation_id = "remove_member", security(("operatorToken" = [])),
    params(("id" = String, Path, description = "The id of the group")),
    request_body = NamedMember,
    responses(
        (status = 200, description = "The member number", body = NamedMember),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 404, description = "No group has the id (`unknown_group`), or the number was never invited, or removed before and has no new link (`not_found`)"),
        (status = 503, description = "The group cannot be changed at the moment, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn remove_member(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let NamedMember { member } = from_object(&request.read_json(BODY_LIMIT).await?)?;
    let group = group_id(&request)?;
    request.audit().concerns(group.as_str());
    request.audit().person(person(&group, &member));
    match operator.service.groups().remove(&group, member.clone()).await? {
        true => Ok(json(StatusCode::OK, &NamedMember { member })),
        false => Err(OperatorError::UnknownMember { member }),
    }
}

/// The rolls of a group
#[utoipa::path(
    get, path = "/groups/{id}/rolls", tag = "operator", operation_id = "list_rolls", security(("operatorToken" = [])),
    params(("id" = String, Path, description = "The id of the group")),
    responses(
        (status = 200, description = "The rolls", body = RollList),
        (status = 404, description = "No group has the id: `unknown_group`"),
    ),
)]
pub async fn list_rolls(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let rolls = operator.service.groups().rolls(&group_id(&request)?)?;
    let rolls = rolls.into_iter().map(|(name, record)| ListedRoll::new(name, &record)).collect();
    Ok(json(StatusCode::OK, &RollList { rolls }))
}

/// Take a roll
///
/// Keeps the list of members of this moment under a name, for the actions that count it.
#[utoipa::path(
    post, path = "/groups/{id}/rolls", tag = "operator", operation_id = "take_roll", security(("operatorToken" = [])),
    params(("id" = String, Path, description = "The id of the group")),
    request_body = NamedRoll,
    responses(
        (status = 200, description = "The roll", body = ListedRoll),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 404, description = "No group has the id: `unknown_group`"),
        (status = 409, description = "The group has a roll of this name: `conflict`"),
        (status = 503, description = "The group cannot be changed at the moment, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn take_roll(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let NamedRoll { name } = from_object(&request.read_json(BODY_LIMIT).await?)?;
    let group = group_id(&request)?;
    request.audit().concerns(format!("{group}: {name}"));
    let roll = operator.service.groups().take_roll(&group, name.clone()).await?;
    request.audit().concerns(format!("{group}: {name}, {} members", roll.members));
    Ok(json(StatusCode::OK, &ListedRoll::new(name, &roll)))
}

/// Remove a roll
///
/// A roll that an action of the configuration counts cannot be removed.
#[utoipa::path(
    post, path = "/groups/{id}/rolls/remove", tag = "operator", operation_id = "remove_roll", security(("operatorToken" = [])),
    params(("id" = String, Path, description = "The id of the group")),
    request_body = NamedRoll,
    responses(
        (status = 200, description = "The name of the roll", body = NamedRoll),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 404, description = "No group has the id (`unknown_group`), or the group has no such roll (`not_found`)"),
        (status = 409, description = "An action counts the roll: `conflict`"),
        (status = 503, description = "The group cannot be changed at the moment, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn remove_roll(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let NamedRoll { name } = from_object(&request.read_json(BODY_LIMIT).await?)?;
    let group = group_id(&request)?;
    request.audit().concerns(format!("{group}: {name}"));
    operator.service.groups().remove_roll(&group, name.clone()).await?;
    Ok(json(StatusCode::OK, &NamedRoll { name }))
}

// Answers that are lists.

/// A JSON object with a list, which is written while it is sent. `head` is the text before the
/// first item, and `tail` that behind the last one.
fn list<T: Serialize>(head: &'static str, items: impl Iterator<Item = T> + Send + 'static, tail: String) -> Response {
    let pieces = Pieces { text: head.as_bytes().to_vec(), items, is_first: true, tail: Some(tail) };
    let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    let mut response = stream(StatusCode::OK, "application/json", StreamBody::new(iter(frames)));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The text of a list in pieces.
struct Pieces<I> {
    /// What is written and not sent.
    text: Vec<u8>,
    items: I,
    is_first: bool,
    /// `None` once everything is written.
    tail: Option<String>,
}

impl<T: Serialize, I: Iterator<Item = T>> Iterator for Pieces<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.text.len() < PIECE && self.tail.is_some() {
            let Some(item) = self.items.next() else {
                self.text.extend(self.tail.take().unwrap_or_default().into_bytes());
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                self.text.push(b',');
            }
            if let Err(error) = serde_json::to_writer(&mut self.text, &item) {
                // The client sees that the text has no end.
                tracing::error!(%error, "an item of a list could not be written as JSON");
                self.tail = None;
            }
        }
        let piece = std::mem::take(&mut self.text);
        (!piece.is_empty()).then(|| piece.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_in_pieces_is_the_same_text() {
        for count in [0, 1, 2, 50_000] {
            let items = (0..count).map(|number| number.to_string());
            let tail = Some("],\"count\":7}".to_owned());
            let pieces = Pieces { text: b"{\"items\":[".to_vec(), items: items.clone(), is_first: true, tail };
            let pieces: Vec<Bytes> = pieces.collect();
            assert!(pieces.iter().all(|piece| piece.len() < PIECE + 100), "{count}");
            assert_eq!(pieces.len() > 1, count == 50_000, "{count}");
            let items: Vec<String> = items.collect();
            let expected = format!("{{\"items\":{},\"count\":7}}", serde_json::to_string(&items).expect("JSON"));
            assert_eq!(pieces.concat(), expected.into_bytes(), "{count}");
        }
    }
}
