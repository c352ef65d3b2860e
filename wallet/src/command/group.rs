//! `selfsame wallet group …`: becoming a member of a group, replacing the leaf, leaving.
//!
//! The wallet file has what a request needs before it is sent, so that a command that was killed
//! goes on when it is given again.

use std::io::Write;

use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::groups::wire::EnrolledResponse;
use selfsame_protocol::json::to_printable;

use super::{CommandError, Options};
use crate::Random;
use crate::client::ClientError;
use crate::file::WalletFile;
use crate::groups::{GroupClient, GroupLink, MemberProofError};
use crate::member::{Member, MemberError, NextSecret};

/// How many leaves are made in a row when the group has them already: a wallet whose file was
/// restored from an older one does not know the newest n.
const LEAVES: u32 = 8;

#[derive(Clone, Debug, clap::Subcommand)]
pub enum GroupAction {
    /// Join a group with a link of its organization.
    Join {
        /// The link. Put it in quotes: a shell would end it at `#`.
        #[arg(value_name = "LINK")]
        link: String,
    },
    /// Replace the leaf, so that a device that was lost or stolen proves nothing any more. To
    /// applications and votes the member stays the same.
    Replace {
        /// The group's id.
        #[arg(value_name = "GROUP")]
        group: GroupId,
        /// The organization's link for this [default: the wallet's own replacement secret, once a
        /// day].
        #[arg(value_name = "LINK")]
        link: Option<String>,
        /// Take a new secret as well: applications and votes see somebody else from then on, and
        /// who has stolen the old secret recognizes nothing.
        #[arg(long, requires = "link")]
        new_secret: bool,
    },
    /// Leave a group.
    Leave {
        /// The group's id.
        #[arg(value_name = "GROUP")]
        group: GroupId,
    },
    /// List the memberships of this wallet.
    List,
}

/// Carries an action out.
pub async fn group(
    options: &Options,
    action: GroupAction,
    random: &mut Random<'_>,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let mut wallet = WalletFile::open(&options.wallet)?;
    match action {
        GroupAction::Join { link } => join(&mut wallet, &GroupLink::read(&link)?, random, out).await,
        GroupAction::Replace { group, link, new_secret } => {
            let link = link.as_deref().map(GroupLink::read).transpose()?;
            let secret = if new_secret { NextSecret::New } else { NextSecret::Same };
            replace(&mut wallet, group, link.as_ref(), secret, random, out).await
        }
        GroupAction::Leave { group } => leave(&mut wallet, group, out).await,
        GroupAction::List => list(&wallet, out),
    }
}

async fn join(
    wallet: &mut WalletFile,
    link: &GroupLink,
    random: &mut Random<'_>,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let client = GroupClient::new(&link.wallet_url)?;
    let group = client.group(&link.group).await.map_err(|error| refused(link.group, error))?;
    let member = match wallet.member(&link.group).cloned() {
        None => match wallet.member_secret() {
            Some(secret) => Member::with_secret(&group, &link.wallet_url, secret, random),
            None => Member::new(&group, &link.wallet_url, random),
        },
        Some(mut member) => {
            member.check_group(&group)?;
            member.update(&group, &link.wallet_url);
            if member.position.is_some() && !member.has_left {
                match client.find_live(&member).await {
                    Ok(leaf) => {
                        member.found(&leaf);
                        wallet.put_member(member)?;
                        return Ok(writeln!(
                            out,
                            "this wallet is a member of {} already, at position {}; the link was not needed",
                            link.group, leaf.position
                        )?);
                    }
                    Err(MemberProofError::Member(MemberError::NoLeaf { .. })) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // A member who comes back has the next leaf of the same secret.
            if member.position.is_some() {
                member.begin_replacement(NextSecret::Same, random)?;
            }
            member
        }
    };
    let is_replacement = link.replaces;
    let position = enrol(wallet, &client, member, Some(&link.code), is_replacement, random).await?;
    Ok(writeln!(out, "member of {:?} ({}), at position {position}", to_printable(&group.name), link.group)?)
}

async fn replace(
    wallet: &mut WalletFile,
    group: GroupId,
    link: Option<&GroupLink>,
    secret: NextSecret,
    random: &mut Random<'_>,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let mut member = wallet.member(&group).cloned().ok_or(CommandError::NotInGroup { group })?;
    if let Some(link) = link.filter(|link| link.group != group) {
        return Err(CommandError::OtherGroupsLink { group, link: link.group });
    }
    if secret == NextSecret::New && member.next.as_ref().is_some_and(|next| next.secret == member.leaf.secret) {
        return Err(CommandError::ReplacementUnderWay { group });
    }
    let wallet_url = link.map_or(&member.wallet_url, |link| &link.wallet_url).clone();
    let client = GroupClient::new(&wallet_url)?;
    let response = client.group(&group).await.map_err(|error| refused(group, error))?;
    member.check_group(&response)?;
    member.update(&response, &wallet_url);
    member.begin_replacement(secret, random)?;
    let position = enrol(wallet, &client, member, link.map(|link| &link.code), true, random).await?;
    Ok(writeln!(out, "leaf of {group} replaced, at position {position}")?)
}

/// Asks the service for the member's coming leaf, by `/replace` or `/join`, or by the other of the
/// two with the same code. The wallet file has the leaf first.
async fn enrol(
    wallet: &mut WalletFile,
    client: &GroupClient,
    mut member: Member,
    code: Option<&Code>,
    mut replaces: bool,
    random: &mut Random<'_>,
) -> Result<u32, CommandError> {
    let group = member.group;
    let is_new = wallet.member(&group).is_none();
    let (mut changed_act, mut leaves) = (false, 1);
    let answer: EnrolledResponse = loop {
        wallet.put_member(member.clone())?;
        let answer = match code {
            Some(code) if !replaces => client.join(&group, &member.join(code)?).await,
            code => client.replace(&group, &member.replace(code)?).await,
        };
        let error = match answer {
            Ok(answer) => break answer,
            Err(error) => error,
        };
        match error.code() {
            Some("use_replace" | "use_join") if code.is_some() && !changed_act => {
                (changed_act, replaces) = (true, !replaces);
            }
            Some("commitment_in_tree") if leaves < LEAVES => {
                leaves += 1;
                member.skip_leaf(random)?;
            }
            _ => {
                if is_final(&error) {
                    member.abandon_replacement();
                    match is_new {
                        true => wallet.remove_member(&group)?,
                        false => wallet.put_member(member)?,
                    }
                }
                return Err(refused(group, error));
            }
        }
    };
    member.enrolled(answer.position);
    wallet.put_member(member)?;
    Ok(answer.position)
}

async fn leave(wallet: &mut WalletFile, group: GroupId, out: &mut (dyn Write + Send)) -> Result<(), CommandError> {
    let mut member = wallet.member(&group).cloned().ok_or(CommandError::NotInGroup { group })?;
    if member.next.is_some() {
        return Err(CommandError::ReplacementUnderWay { group });
    }
    let client = GroupClient::new(&member.wallet_url)?;
    let response = client.group(&group).await.map_err(|error| refused(group, error))?;
    member.check_group(&response)?;
    client.leave(&group, &member.leave()?).await.map_err(|error| refused(group, error))?;
    // The secret stays: whoever comes back is the same person to applications and votes.
    member.has_left = true;
    wallet.put_member(member)?;
    Ok(writeln!(out, "left {group}; the list of members follows within the hour")?)
}

fn list(wallet: &WalletFile, out: &mut dyn Write) -> Result<(), CommandError> {
    if wallet.members().is_empty() {
        writeln!(out, "this wallet is a member of no group")?;
    }
    for member in wallet.members() {
        let Member { group, wallet_url, environment, position, next, has_left, .. } = member;
        write!(out, "{group} at {wallet_url}, {}", environment.name())?;
        if let Some(identifier) = member.legacy_identifier {
            write!(out, ", also as {}", identifier.name())?;
        }
        match (has_left, position) {
            (true, _) => write!(out, ": left")?,
            (false, None) => write!(out, ": joining is under way; give `group join` the same link again")?,
            (false, Some(position)) => write!(out, ": position {position}, leaf {}", member.commitment())?,
        }
        if next.is_some() {
            write!(out, "; a replacement is under way: `group replace {group}` goes on with it")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Whether the service has refused a request for good: the same one would be refused again.
fn is_final(error: &ClientError) -> bool {
    matches!(error, ClientError::Service { status: 400..=499, .. }) && words(error.code().unwrap_or_default()).is_some()
}

/// A refusal of a group, in plain words.
fn refused(group: GroupId, error: ClientError) -> CommandError {
    match error.code().and_then(words) {
        Some(words) => CommandError::GroupRefusal { group, words, error: error.to_string() },
        None => error.into(),
    }
}

/// What a refusal of the wallet interface means to a person, and what helps.
fn words(code: &str) -> Option<&'static str> {
    Some(match code {
        "unknown_group" => "no group has this id at this address; compare the link with the letter",
        "unknown_code" => "this link was never made, or a newer link has ended it; use the newest one",
        "code_expired" => "the link is too old; ask the organization for a new one",
        "code_used" => {
            "the link was used; ask the organization for a new one, and say so when it was not you who used it"
        }
        "use_replace" => "the member number has a leaf already; use the link as `group replace`",
        "use_join" => "the member number has no leaf; use the link as `group join`",
        "bad_request" | "commitment_invalid" | "link_proof_invalid" => {
            "the service does not understand this wallet; their versions may not fit"
        }
        "enrolled_under_another_number" => {
            "this wallet's secret is in the group under another member number, and a person has one; tell the organization"
        }
        "not_a_member" => {
            "the group has no member with this wallet's secret: the member was removed, has left, or has a new secret; ask \
             the organization for a new link"
        }
        "replacement_secret_wrong" => {
            "the leaf was replaced with another device; when it was not you, ask the organization for a new link at once"
        }
        "commitment_in_tree" => {
            "the group has this wallet's next leaves already; replace with --new-secret and a new link"
        }
        "replaced_today" => "a leaf is replaced once a day; try again tomorrow, or use a link of the organization",
        "group_full" => "the group has no room for another member; tell the organization",
        "copy_missing" => "the sealed copy is not there; make it again",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::groups::wire::GroupErrorCode;
    use strum::IntoEnumIterator;

    use super::*;

    /// Every refusal of `/join`, `/replace` and `/leave` has words; what a person can only wait for
    /// is shown as the service says it.
    #[test]
    fn every_refusal_of_enrolment_is_said_in_plain_words() {
        let without: Vec<&str> =
            GroupErrorCode::iter().map(<&str>::from).filter(|code| words(code).is_none()).collect();
        assert_eq!(
            without,
            [
                "not_found",
                "unknown_page",
                "unauthorized",
                "write_key_wrong",
                "permit_invalid",
                "handle_taken",
                "version_mismatch",
                "precondition_required",
                "sealed_too_large",
                "rate_limit_exceeded",
                "bridge_unavailable",
                "request_timeout",
                "internal_server_error",
            ]
        );
    }
}
