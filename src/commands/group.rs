//! `selfsame group …`: the groups of a running daemon, and the files of their enrolment.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use selfsame_protocol::groups::csv::{MEMBER_COLUMN, read_members, to_field};
use selfsame_protocol::groups::listed::{
    ListedGroup, ListedMember, ListedRoll, MemberList, NamedMember, NamedRoll, RollList,
};
use selfsame_protocol::groups::names::{FieldNumber, GroupId};
use selfsame_protocol::groups::wire::{Invitation, InvitationRequest, InvitationResponse, InvitedMembers};
use serde::Deserialize;

use super::outcome::{CommandError, Output};
use crate::cli::Group;

/// The part of `/status` that is shown.
#[derive(Deserialize)]
struct GroupsPart {
    groups: Vec<ListedGroup>,
}

/// Runs the command.
pub async fn run(command: Group, out: &mut Output) -> Result<ExitCode, CommandError> {
    match command {
        Group::List { json, options } => {
            let GroupsPart { groups } = options.get("/status").await?;
            match json {
                true => out.print_json(&groups)?,
                false => out.print(&text_of_groups(&groups))?,
            }
        }
        Group::Invite { group, member: Some(member), options, .. } => {
            let request = InvitationRequest { members: vec![member], of: InvitedMembers::All };
            let InvitationResponse { invitations, .. } =
                options.post_list(&format!("/groups/{group}/invitations"), &request).await?;
            for Invitation { link, expires_on, .. } in invitations {
                writeln!(out, "{link}\ngood until the end of {expires_on}")?;
            }
        }
        Group::Invite { group, from: Some(from), links: Some(links), again, options, .. } => {
            let members = read_members(&std::fs::read(&from).map_err(|error| of_file(&from, error))?)
                .map_err(|error| format!("{}: {error}", from.display()))?;
            let of = if again { InvitedMembers::NotJoined } else { InvitedMembers::New };
            // The file is there before any link is made: a link that is not written is lost.
            let file = NewFile::make(&links)?;
            let path = format!("/groups/{group}/invitations");
            let answer: InvitationResponse = options.post_list(&path, &InvitationRequest { members, of }).await?;
            let rows = answer.invitations.iter().map(|row| [row.member.as_str(), &row.link]);
            file.write_table([MEMBER_COLUMN, "link"], rows).map_err(|error| {
                format!(
                    "the links were made, and cannot be written: {}; give --again to make new ones for those who \
                     have not joined",
                    of_file(&links, error)
                )
            })?;
            let InvitationResponse { new, again, unchanged, .. } = answer;
            writeln!(out, "{}: {new} new, {again} again; {unchanged} unchanged", links.display())?;
        }
        // The command line has one of them.
        Group::Invite { .. } => return Err("give --member, or --from and --out".into()),
        Group::Members { group, json, options } => {
            let list: MemberList = options.get_list(&format!("/groups/{group}/members")).await?;
            if json {
                out.print_json(&list)?;
                return Ok(ExitCode::SUCCESS);
            }
            for ListedMember { member, standing, invited_on, changed_on, has_link } in list.members {
                let link = if has_link { "link" } else { "-" };
                writeln!(out, "{:<8} {changed_on} {invited_on} {link:<4} {member}", standing.name())?;
            }
        }
        Group::Remove { group, member, options } => {
            let path = format!("/groups/{group}/members/remove");
            let NamedMember { member } = options.post(&path, &NamedMember { member }).await?;
            writeln!(out, "{member} is removed from {group}; rolls that have the leaf keep it")?;
        }
        Group::Roll { group, name, remove: false, options } => {
            let roll: ListedRoll = options.post(&format!("/groups/{group}/rolls"), &NamedRoll { name }).await?;
            print_roll(&roll, out)?;
        }
        Group::Roll { group, name, remove: true, options } => {
            let path = format!("/groups/{group}/rolls/remove");
            let NamedRoll { name } = options.post(&path, &NamedRoll { name }).await?;
            writeln!(out, "the roll {name} of {group} is removed")?;
        }
        Group::Rolls { group, json, options } => {
            let list: RollList = options.get(&format!("/groups/{group}/rolls")).await?;
            if json {
                out.print_json(&list)?;
                return Ok(ExitCode::SUCCESS);
            }
            for roll in &list.rolls {
                print_roll(roll, out)?;
            }
        }
        Group::Export { group, file, options } => export(&group, &file, &options, out).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn export(
    group: &GroupId,
    path: &Path,
    options: &crate::operator_client::OperatorOptions,
    out: &mut Output,
) -> Result<(), CommandError> {
    let file = NewFile::make(path)?;
    let MemberList { members } = options.get_list(&format!("/groups/{group}/members")).await?;
    let rows = members.iter().map(|member| {
        let ListedMember { member, standing, invited_on, changed_on, .. } = member;
        [member.to_string(), standing.name().to_owned(), invited_on.to_string(), changed_on.to_string()]
    });
    let header = [MEMBER_COLUMN, "standing", "invited_on", "changed_on"].map(str::to_owned);
    file.write_table(header, rows).map_err(|error| of_file(path, error))?;
    writeln!(out, "{}: {} member numbers", path.display(), members.len())?;
    Ok(())
}

fn of_file(path: &Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The printed text: what there is of each group, in two lines.
fn text_of_groups(groups: &[ListedGroup]) -> String {
    let mut text = String::new();
    for group in groups {
        let ListedGroup { id, name, size, members, invited, open_links, live_roots, rolls, failure } = group;
        let names: Vec<&str> = rolls.iter().map(|roll| roll.name.as_str()).collect();
        let rolls = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        text += &format!(
            "{id} {name}\n  {members} members at {size} positions, {invited} invited, {open_links} open links, \
             {live_roots} live roots, rolls: {rolls}\n"
        );
        if let Some(failure) = failure {
            text += &format!("  {failure}\n");
        }
    }
    text
}

fn print_roll(roll: &ListedRoll, out: &mut Output) -> Result<(), CommandError> {
    let ListedRoll { name, taken_on, size, members, root } = roll;
    // As wallets and GET /groups/{id} show it, so that members can compare.
    let root = FieldNumber(root.to_number());
    Ok(writeln!(out, "{name} of {taken_on}: {members} members at {size} positions, root {root}")?)
}

/// A file that was not there, and that only its owner can read. It is removed again unless a table
/// was written into it.
struct NewFile {
    file: File,
    path: PathBuf,
    is_written: bool,
}

impl NewFile {
    fn make(path: &Path) -> Result<Self, String> {
        // `create_new` follows no link, and never opens a file that is there.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => Ok(Self { file, path: path.to_owned(), is_written: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(format!("{}: the file exists already; give another name. Nothing was asked", path.display()))
            }
            Err(error) => Err(of_file(path, error)),
        }
    }

    /// Writes a header and rows, durably.
    fn write_table<const COLUMNS: usize, T: AsRef<str>>(
        mut self,
        header: [T; COLUMNS],
        rows: impl Iterator<Item = [T; COLUMNS]>,
    ) -> io::Result<()> {
        let mut text = String::new();
        for row in std::iter::once(header).chain(rows) {
            let fields = row.each_ref().map(|field| to_field(field.as_ref()));
            text += &fields.join(",");
            text.push('\n');
        }
        self.file.write_all(text.as_bytes())?;
        self.file.sync_all()?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_written {
            // What is left of it would keep the next attempt from the name.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_table_is_for_its_owner_and_takes_no_name_that_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("links.csv");
        drop(NewFile::make(&path).expect("a file"));
        assert!(!path.exists(), "nothing was written");
        let file = NewFile::make(&path).expect("a file");
        let rows = [["417", "https://wallet.example/join#members.A"], ["a,\"b\"", "x"]].into_iter();
        file.write_table([MEMBER_COLUMN, "link"], rows).expect("written");
        let text = std::fs::read_to_string(&path).expect("a text");
        assert_eq!(text, "member,link\n417,https://wallet.example/join#members.A\n\"a,\"\"b\"\"\",x\n");
        let mode = std::fs::metadata(&path).expect("its mode").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = NewFile::make(&path).err().expect("a refusal");
        assert!(error.contains("the file exists already"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("a text"), text);
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink(folder.path().join("elsewhere.csv"), &link).expect("a link");
        assert!(NewFile::make(&link).is_err(), "a link is not followed");
    }

    #[test]
    fn the_groups_are_rendered_as_text() {
        let roll = ListedRoll {
            name: "2026-assembly".parse().expect("a name"),
            taken_on: "2026-12-01".parse().expect("a day"),
            size: 417,
            members: 411,
            root: selfsame_protocol::tree::Root::default(),
        };
        let group = ListedGroup {
            id: "members".parse().expect("an id"),
            name: "Members of the cooperative".to_owned(),
            size: 417,
            members: 411,
            invited: 420,
            open_links: 9,
            live_roots: 2,
            rolls: vec![roll],
            failure: Some("the disk is full".to_owned()),
        };
        let expected = "members Members of the cooperative\n  411 members at 417 positions, 420 invited, 9 open links, 2 live \
                        roots, rolls: 2026-assembly\n  the disk is full\n";
        assert_eq!(text_of_groups(&[group]), expected);
        assert_eq!(text_of_groups(&[]), "");
    }
}
