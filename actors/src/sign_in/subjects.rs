//! Which subjects new accounts get; what an operator sees of an account, and chooses for one.
//!
//! An application's first account writes the kind of its subjects into the store, in the same step,
//! so that two replicas never decide it differently. From then on the store decides, and a
//! configuration that says otherwise is refused: with another kind, a person who comes back would
//! be another one. Only an operator changes the kind.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::channel;

use selfsame_protocol::B256;
use selfsame_protocol::encoding::decode;
use selfsame_protocol::sign_in::accounts::{CurrentProofs, DecidedSubjects, Realm, SignInAccount, SubjectKind};
use selfsame_protocol::sign_in::attaching::{Chosen, KeptProofs, NotChosen};
use selfsame_protocol::sign_in::proof_request::SignInProof;
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_protocol::verification::Environment;
use selfsame_storage::{
    Decision, EmbeddedRecords, GroupCommit, RecordKey, RecordKind, RecordWrite, Records, Store, StoreError,
    StoredRecord,
};

use super::accounts::{account_key, realm};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::proofs::{nullifier_key, session_key};
use super::records::{ReadRecord, SignInState, write};

// The store decides from the first account on.

/// A client says otherwise than the store which subjects its new accounts get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectConflict {
    /// The client's id.
    pub client_id: String,
    /// The environment of its proofs.
    pub environment: Environment,
    /// What its sign-ins ask for.
    pub proof: SignInProof,
    /// The kind of subjects that the client says.
    pub kind: SubjectKind,
    /// What the store says.
    pub decided: DecidedSubjects,
}

impl fmt::Display for SubjectConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client_id, environment, proof, kind, decided } = self;
        let (environment, kind, stored) = (environment.name(), kind.name(), decided.kind.name());
        let since = day_text(decided.decided_on);
        write!(
            f,
            "{client_id}: the store says since {since} that its subjects in {environment} are of the kind {stored:?}"
        )?;
        match proof {
            SignInProof::Account => write!(f, ", and the configuration says {kind:?}; set subject = {stored:?}")?,
            SignInProof::Legacy | SignInProof::Current => {
                let proof = proof.name();
                write!(f, ", and those of proof = {proof:?} are of the kind {kind:?}; set proof = \"account\"")?;
            }
        }
        write!(
            f,
            ", or give new people the other kind: selfsame account subjects {client_id} --environment {environment} \
             --to {kind} (with --stopped when no daemon uses the store)"
        )
    }
}

/// Clients that say otherwise than the store which subjects their new accounts get, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectConflicts(pub Vec<SubjectConflict>);

impl std::error::Error for SubjectConflicts {}

impl fmt::Display for SubjectConflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, conflict) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            write!(f, "{separator}{conflict}")?;
        }
        Ok(())
    }
}

/// A change of the kind of subjects that does nothing: an application without people takes the
/// kind of the configuration with its first one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the kind of subjects of {app_id} in {} is not decided yet, because no person has signed in; the first sign-in takes \
     it from the setting subject",
    environment.name()
)]
pub struct UndecidedSubjects {
    /// The application.
    pub app_id: String,
    /// The environment that was asked about.
    pub environment: Environment,
}

/// The clients that contradict the store. Each reads one record.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn find_conflicts<'a>(
    state: &SignInState,
    clients: impl IntoIterator<Item = &'a SignInClient>,
) -> Result<Result<(), SubjectConflicts>, StoreError> {
    let mut conflicts = Vec::new();
    for client in clients {
        let Some(decided) = decided(state, &realm(client))? else { continue };
        let kind = configured(client);
        if kind != decided.kind {
            let (client_id, environment, proof) = (client.client.id.clone(), client.environment, client.proof);
            conflicts.push(SubjectConflict { client_id, environment, proof, kind, decided });
        }
    }
    conflicts.sort_by(|one, other| one.client_id.cmp(&other.client_id));
    Ok(if conflicts.is_empty() { Ok(()) } else { Err(SubjectConflicts(conflicts)) })
}

/// The kind of a new person's subject: what the store says, and before the first one what the
/// client says, which is then added to `writes`; with the first legacy proof also that the client
/// has a legacy history.
pub(super) fn decide(
    state: &SignInState,
    client: &SignInClient,
    is_legacy: bool,
    writes: &mut Vec<RecordWrite>,
) -> Result<SubjectKind, StoreError> {
    let key = key(&realm(client));
    let (known, before) = match state.get::<DecidedSubjects>(&key)? {
        Some(ReadRecord { value, stored }) => (Some(stored), value),
        None => (None, DecidedSubjects::new(configured(client), state.clock.unix_seconds())),
    };
    let after = DecidedSubjects { has_legacy: before.has_legacy || is_legacy, ..before };
    if known.is_none() || after != before {
        writes.push(write(key, known.as_ref(), &after, UnixSeconds::NEVER));
    }
    Ok(after.kind)
}

/// Whether an application has accepted a legacy proof.
pub(super) fn has_legacy(state: &SignInState, realm: &Realm<'_>) -> Result<bool, StoreError> {
    Ok(decided(state, realm)?.is_some_and(|decided| decided.has_legacy))
}

impl SignInHandle {
    /// Checks that clients say the same as the store about the subjects of new accounts. A caller
    /// of [`SignInHandle::set_clients`] checks the new clients first.
    ///
    /// # Errors
    /// The store cannot be read; the inner error names the clients that contradict it.
    pub fn check_subjects(&self, clients: &[SignInClient]) -> Result<Result<(), SubjectConflicts>, SignInError> {
        Ok(find_conflicts(&self.state, clients)?)
    }

    /// Whether an application has accepted a legacy proof of a public credential.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn has_legacy_history(&self, app_id: &str, environment: Environment) -> Result<bool, SignInError> {
        Ok(has_legacy(&self.state, &Realm { client_id: app_id, environment })?)
    }

    /// Checks the clients of a replica that has just started. Its store may lack that an operator
    /// has changed the kind at another replica, so a contradiction counts when the store has what
    /// the journal has, and when the journal gives no answer.
    ///
    /// # Errors
    /// The store cannot be read; the inner error names the clients that contradict it.
    pub async fn check_subjects_of_replica(&self) -> Result<Result<(), SubjectConflicts>, StoreError> {
        let clients = self.clients();
        let check = || find_conflicts(&self.state, clients.iter().map(Arc::as_ref));
        let found = check()?;
        if found.is_ok() || self.state.catching_up.find().await.is_err() {
            return Ok(found);
        }
        check()
    }

    /// Gives new accounts of an application subjects of another kind, from the next first sign-in
    /// on. Existing accounts keep their subjects. Returns what was decided before.
    ///
    /// # Errors
    /// The store cannot be read or written; the inner error says that nothing is decided yet.
    pub async fn change_subjects(
        &self,
        app_id: &str,
        environment: Environment,
        kind: SubjectKind,
    ) -> Result<Result<DecidedSubjects, UndecidedSubjects>, SignInError> {
        let realm = Realm { client_id: app_id, environment };
        // Another replica may have made the first account.
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        loop {
            let change = change(self.state.records.get(&key(&realm))?, &realm, kind, self.state.clock.unix_seconds())?;
            let (before, write) = match change {
                Ok(change) => change,
                Err(undecided) => return Ok(Err(undecided)),
            };
            let Some(write) = write else { return Ok(Ok(before)) };
            if self.state.write(vec![write]).await? == Decision::Written {
                return Ok(Ok(before));
            }
        }
    }
}

/// What an operator sees of an account, who answers a question of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountState {
    /// The credential of the last proof of uniqueness.
    pub identifier: String,
    /// Which pointers are good: those that have this number.
    pub generation: u32,
    /// The day on which the account was made.
    pub created_on: UnixSeconds,
    /// The hour in which the person last gave a proof.
    pub human_at: UnixSeconds,
    /// Whether it is an account of legacy proofs.
    pub has_legacy: bool,
    /// Whether it has current proofs.
    pub has_current: bool,
    /// The hour in which its current proofs were attached; `None` when they made the account, when
    /// an operator has chosen them, and when there are none.
    pub attached_at: Option<UnixSeconds>,
    /// Whether they were attached so lately that legacy proofs sign in as well.
    pub is_provisional: bool,
    /// The hour in which another person's were given for it: neither of them signs in until an
    /// operator has chosen.
    pub disputed_at: Option<UnixSeconds>,
}

impl AccountState {
    fn of(account: SignInAccount, now: UnixSeconds) -> Self {
        let attached_at = |proofs: &CurrentProofs| proofs.attached_at;
        Self {
            has_legacy: account.legacy.is_some(),
            has_current: account.current.is_some(),
            attached_at: account.current.as_ref().and_then(attached_at),
            is_provisional: account.is_provisional(now),
            disputed_at: account.disputed_by.as_ref().and_then(attached_at),
            identifier: account.identifier,
            generation: account.generation,
            created_on: account.created_on,
            human_at: account.human_at,
        }
    }
}

impl SignInHandle {
    /// The account of an application with a subject, without its nullifier and its session; `None`
    /// when the application has no account with that subject.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn find_account(
        &self,
        app_id: &str,
        environment: Environment,
        subject: B256,
    ) -> Result<Option<AccountState>, SignInError> {
        // Another replica may have made it, or seen the person since.
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        let account = self.account(&Realm { client_id: app_id, environment }, subject)?.map(|read| read.value);
        Ok(account.map(|account| AccountState::of(account, self.state.clock.unix_seconds())))
    }

    /// Chooses which current proofs belong to an account of legacy proofs, for good. Those that are
    /// not kept no longer sign in, and their nullifier is free for another account. `knows_of_two`
    /// says that the operator knows of the proofs of two persons. Returns the account as it is
    /// then; `None` when the application has no account with that subject. The inner error says why
    /// nothing is chosen.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn choose_proofs(
        &self,
        app_id: &str,
        environment: Environment,
        subject: B256,
        keep: KeptProofs,
        knows_of_two: bool,
    ) -> Result<Option<Result<AccountState, NotChosen>>, SignInError> {
        let realm = Realm { client_id: app_id, environment };
        // Another replica may have attached them.
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        loop {
            let Some(ReadRecord { value, stored }) = self.account(&realm, subject)? else { return Ok(None) };
            let Chosen { account, dropped } = match value.with_chosen(keep, knows_of_two) {
                Ok(chosen) => chosen,
                Err(reason) => return Ok(Some(Err(reason))),
            };
            let mut writes = vec![write(account_key(&realm, subject), Some(&stored), &account, UnixSeconds::NEVER)];
            for CurrentProofs { nullifier, session, .. } in &dropped {
                for key in [nullifier_key(&realm, *nullifier), session_key(&realm, session)] {
                    let known = self.state.get::<B256>(&key)?.filter(|known| known.value == subject);
                    writes.extend(known.map(|known| RecordWrite { key, before: Some(known.stored), after: None }));
                }
            }
            if self.state.write(writes).await? == Decision::Written {
                return Ok(Some(Ok(AccountState::of(account, self.state.clock.unix_seconds()))));
            }
            // The person signed in meanwhile.
        }
    }
}

/// [`SignInHandle::change_subjects`] in a store that no service uses. Blocks the thread.
///
/// # Errors
/// The store cannot be read or written; the inner error says that nothing is decided yet.
pub fn change_stored_subjects(
    store: &Store,
    app_id: &str,
    environment: Environment,
    kind: SubjectKind,
    now: UnixSeconds,
) -> Result<Result<DecidedSubjects, UndecidedSubjects>, StoreError> {
    let (group_commit, committing) = GroupCommit::start(store.clone())?;
    let records = EmbeddedRecords::new(store.clone(), group_commit);
    let changed = change_in(&records, &Realm { client_id: app_id, environment }, kind, now);
    // The last handle of the group commit is dropped, so its thread ends.
    drop(records);
    committing.join().map_err(|_| StoreError::Panicked)?;
    changed
}

fn change_in(
    records: &dyn Records,
    realm: &Realm<'_>,
    kind: SubjectKind,
    now: UnixSeconds,
) -> Result<Result<DecidedSubjects, UndecidedSubjects>, StoreError> {
    let (before, write) = match change(records.get(&key(realm))?, realm, kind, now)? {
        Ok(change) => change,
        Err(undecided) => return Ok(Err(undecided)),
    };
    let Some(write) = write else { return Ok(Ok(before)) };
    let (decided, decision) = channel();
    records.compare_and_write(vec![write], Box::new(move |outcome| drop(decided.send(outcome))));
    match decision.recv().unwrap_or(Err(StoreError::Panicked))? {
        Decision::Written => Ok(Ok(before)),
        // Another writer uses the store, against this function's condition.
        Decision::Changed => Err(StoreError::Closing),
    }
}

/// What was decided, and the write that decides `kind` in its place, if it is another one.
type Change = (DecidedSubjects, Option<RecordWrite>);

fn change(
    stored: Option<StoredRecord>,
    realm: &Realm<'_>,
    kind: SubjectKind,
    now: UnixSeconds,
) -> Result<Result<Change, UndecidedSubjects>, StoreError> {
    let Some(stored) = stored else {
        let (app_id, environment) = (realm.client_id.to_owned(), realm.environment);
        return Ok(Err(UndecidedSubjects { app_id, environment }));
    };
    let before: DecidedSubjects =
        decode(&stored.value).map_err(|reason| StoreError::Damaged { family: "records", reason })?;
    let after = DecidedSubjects { has_legacy: before.has_legacy, ..DecidedSubjects::new(kind, now) };
    let is_other = before.kind != kind;
    Ok(Ok((before, is_other.then(|| write(key(realm), Some(&stored), &after, UnixSeconds::NEVER)))))
}

fn decided(state: &SignInState, realm: &Realm<'_>) -> Result<Option<DecidedSubjects>, StoreError> {
    Ok(state.get::<DecidedSubjects>(&key(realm))?.map(|read| read.value))
}

/// What a client says about its people's subjects.
fn configured(client: &SignInClient) -> SubjectKind {
    match client.proof {
        SignInProof::Account => client.subject,
        SignInProof::Legacy | SignInProof::Current => SubjectKind::Nullifier,
    }
}

fn key(realm: &Realm<'_>) -> RecordKey {
    RecordKey { kind: RecordKind::DecidedSubjects, id: realm.subjects() }
}

/// A day as operators read it.
fn day_text(day: UnixSeconds) -> String {
    let text = UnixMillis(day.0.saturating_mul(1000)).to_iso_8601();
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::sign_in::asks::LegacyRules;
    use selfsame_protocol::sign_in::{Client, ResponseType};

    use super::super::handle::SignInSettings;
    use super::*;
    use crate::sign_in::memory_records::MemoryRecords;
    use crate::support::replica::CatchingUp;
    use crate::support::surroundings::Surroundings;

    fn client(id: &str, environment: Environment, proof: SignInProof, subject: SubjectKind) -> SignInClient {
        let client = Client {
            id: id.to_owned(),
            redirect_uris: Vec::new(),
            post_logout_redirect_uris: Vec::new(),
            response_types: vec![ResponseType::CODE],
            is_public: true,
            require_pkce: false,
        };
        let (name, secrets, allows_cross_device) = (id.to_owned(), Vec::new(), true);
        SignInClient {
            client,
            name,
            secrets,
            environment,
            proof,
            subject,
            has_legacy_history: false,
            legacy: LegacyRules::default(),
            first_credential: None,
            only_group: None,
            allows_cross_device,
        }
    }

    fn replica(records: &Arc<MemoryRecords>) -> SignInState {
        let records = Arc::clone(records) as Arc<dyn Records>;
        let surroundings = Surroundings::for_test("subjects");
        SignInState::new(&surroundings, SignInSettings::default(), (records, None), None, CatchingUp::new(None))
    }

    /// Their configurations differ, and both have seen a store without accounts.
    #[tokio::test]
    async fn two_replicas_do_not_decide_differently() {
        use SubjectKind::{Derived, Nullifier};
        let records = Arc::default();
        let (one, other) = (replica(&records), replica(&records));
        let of = |kind| client("app_a", Environment::Staging, SignInProof::Account, kind);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert_eq!(decide(&one, &of(Nullifier), false, &mut first).expect("read"), Nullifier);
        assert_eq!(decide(&other, &of(Derived), false, &mut second).expect("read"), Derived);
        assert_eq!(one.write(first).await.expect("written"), Decision::Written);
        assert_eq!(other.write(second).await.expect("no failure"), Decision::Changed, "the account is not made");
        let mut again = Vec::new();
        assert_eq!(decide(&other, &of(Derived), false, &mut again).expect("read"), Nullifier);
        assert!(again.is_empty(), "it is written once");
    }

    #[tokio::test]
    async fn each_application_and_environment_decides_for_itself() {
        use SubjectKind::{Derived, Nullifier};
        let records = Arc::default();
        let state = replica(&records);
        let (here, there) = (Environment::Staging, Environment::Production);
        let (account, legacy) = (SignInProof::Account, SignInProof::Legacy);
        let mut writes = Vec::new();
        // What an embedder says of a client without accounts does not count.
        for client in [client("app_b", here, legacy, Derived), client("app_a", here, account, Derived)] {
            decide(&state, &client, client.proof == legacy, &mut writes).expect("read");
        }
        state.write(writes).await.expect("written");
        let conflicts = |client: SignInClient| match find_conflicts(&state, [&client]).expect("read") {
            Ok(()) => Vec::new(),
            Err(SubjectConflicts(conflicts)) => conflicts,
        };
        for (client, decided) in [
            (client("app_a", here, account, Derived), None),
            (client("app_a", here, account, Nullifier), Some(Derived)),
            (client("app_a", there, account, Nullifier), None),
            (client("app_b", here, account, Derived), Some(Nullifier)),
            (client("app_b", here, account, Nullifier), None),
            (client("app_b", here, legacy, Derived), None),
            (client("app_c", here, account, Nullifier), None),
        ] {
            let found: Vec<_> = conflicts(client.clone()).iter().map(|conflict| conflict.decided.kind).collect();
            assert_eq!(found, decided.into_iter().collect::<Vec<_>>(), "{client:?}");
        }
    }

    #[test]
    fn only_what_is_decided_can_be_changed() {
        use SubjectKind::{Derived, Nullifier};
        let records = Arc::default();
        let state = replica(&records);
        let (realm, now) = (Realm { client_id: "app_a", environment: Environment::Staging }, UnixSeconds(200_000));
        let undecided = change_in(&*state.records, &realm, Nullifier, now).expect("no failure");
        assert!(undecided.is_err_and(|error| {
            error.to_string().starts_with("the kind of subjects of app_a in staging is not decided")
        }));
        let stored = write(key(&realm), None, &DecidedSubjects::new(Derived, now), UnixSeconds::NEVER);
        state.records.compare_and_write(vec![stored], Box::new(|_| {}));
        let later = UnixSeconds(300_000);
        for (kind, before, since) in
            [(Derived, Derived, 172_800), (Nullifier, Derived, 172_800), (Derived, Nullifier, 259_200)]
        {
            let changed = change_in(&*state.records, &realm, kind, later).expect("no failure").expect("decided");
            assert_eq!((changed.kind, changed.decided_on), (before, UnixSeconds(since)), "{kind:?}");
            assert_eq!(decided(&state, &realm).expect("read").map(|decided| decided.kind), Some(kind));
        }
    }
}
