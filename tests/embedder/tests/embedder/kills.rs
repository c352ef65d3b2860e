//! Actors in front of a service, and actors of the embedder, that are killed while they work.

use std::collections::HashSet;

use selfsame_actors::protocol::Address;
use selfsame_actors::protocol::gateway::GatewayRequestState;
use selfsame_actors::protocol::ids::LeafIndex;
use selfsame_actors::protocol::registry::RegistryView;
use selfsame_actors::ractor::rpc::CallResult;
use selfsame_actors::ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent, call_t};
use selfsame_actors::{
    RegistryActor, RegistryMessage, Submission, Verification, VerificationActor, VerificationCallError,
    VerificationMessage,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::application::{APP, ONCE, settings, verification_request};
use super::{PATIENCE, create, new_instance, start_service, wait_until};

type Verified = Result<Verification, VerificationCallError>;

fn verify(person: u64) -> impl FnOnce(RpcReplyPort<Verified>) -> VerificationMessage {
    let (relying_party, body) = (APP.to_owned(), Box::new(verification_request(person, ONCE, 5)));
    move |reply| VerificationMessage::Verify { relying_party, body, source: None, patience: PATIENCE, reply }
}

fn is_used_up(answer: &Verified) -> bool {
    matches!(answer, Err(VerificationCallError::Refused(body)) if body.code == "max_verifications_reached")
}

/// What the actor has taken is recorded once; what it has not taken, its callers learn of by an
/// error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_actor_of_verification_records_each_nullifier_once() {
    const PEOPLE: u64 = 20;
    let (_folder, service) = start_service(settings(&new_instance())).await;
    let spawn = async || Actor::spawn(None, VerificationActor, service.verification()).await.expect("it starts").0;
    let actor = spawn().await;
    let calls = (0..PEOPLE).map(|person| {
        let (actor, message) = (actor.clone(), verify(person));
        tokio::spawn(async move { (person, actor.call(message, Some(PATIENCE)).await) })
    });
    let calls: Vec<_> = calls.collect();
    tokio::task::yield_now().await;
    actor.kill_and_wait(Some(PATIENCE)).await.expect("the actor dies");
    let successor = spawn().await;
    for call in calls {
        let (person, answer) = call.await.expect("every call ends");
        match answer {
            Ok(CallResult::Success(verified)) => assert!(verified.is_ok(), "{person}: {verified:?}"),
            Ok(CallResult::Timeout) => panic!("{person} was left waiting"),
            // It was taken and its answer is lost, or it was not taken.
            Ok(CallResult::SenderError) | Err(_) => {
                let again = call_t!(successor, verify(person), 60_000).expect("the successor answers");
                assert!(again.is_ok() || is_used_up(&again), "{person}: {again:?}");
            }
        }
    }
    for person in 0..PEOPLE {
        let again = call_t!(successor, verify(person), 60_000).expect("the successor answers");
        assert!(is_used_up(&again), "{person} is recorded: {again:?}");
    }
    service.stop_actors().await;
}

/// An actor of the embedder: creates accounts one after the other, from the number that it is
/// started with.
struct Importer;

struct Import {
    registry: ActorRef<RegistryMessage>,
    next: u64,
    progress: UnboundedSender<u64>,
}

enum ImporterMessage {
    Next,
}

impl Actor for Importer {
    type Msg = ImporterMessage;
    type State = Import;
    type Arguments = Import;

    async fn pre_start(&self, myself: ActorRef<ImporterMessage>, import: Import) -> Result<Import, ActorProcessingErr> {
        myself.cast(ImporterMessage::Next)?;
        Ok(import)
    }

    async fn handle(
        &self,
        myself: ActorRef<ImporterMessage>,
        ImporterMessage::Next: ImporterMessage,
        import: &mut Import,
    ) -> Result<(), ActorProcessingErr> {
        // The key names the request, so a successor that sends it again gets the same one.
        let idempotency_key = Some(format!("import {}", import.next));
        let operation = create(import.next);
        let submission = Submission { operation, source: None, idempotency_key };
        let submit = |reply| RegistryMessage::Submit { submission: Box::new(submission), reply };
        let accepted = call_t!(import.registry, submit, 60_000)??;
        let request_id = accepted.request_id;
        let wait = |reply| RegistryMessage::WaitUntilFinal { request_id, patience: PATIENCE, reply };
        let status = call_t!(import.registry, wait, 60_000)??.ok_or("the request is unknown")?;
        assert!(matches!(status.status, GatewayRequestState::Finalized { .. }), "{status:?}");
        import.progress.send(import.next)?;
        import.next += 1;
        Ok(myself.cast(ImporterMessage::Next)?)
    }
}

/// Starts the importer again where its last note of progress is.
struct ImportSupervisor;

struct Supervised {
    registry: ActorRef<RegistryMessage>,
    noted: u64,
    notes: tokio::sync::mpsc::UnboundedReceiver<u64>,
    progress: UnboundedSender<u64>,
    importer: UnboundedSender<ActorRef<ImporterMessage>>,
}

impl Supervised {
    async fn start(&mut self, myself: &ActorRef<ImporterMessage>) -> Result<(), ActorProcessingErr> {
        while let Ok(done) = self.notes.try_recv() {
            self.noted = done + 1;
        }
        let import = Import { registry: self.registry.clone(), next: self.noted, progress: self.progress.clone() };
        let (importer, _) = Actor::spawn_linked(None, Importer, import, myself.get_cell()).await?;
        Ok(self.importer.send(importer)?)
    }
}

impl Actor for ImportSupervisor {
    type Msg = ImporterMessage;
    type State = Supervised;
    type Arguments = Supervised;

    async fn pre_start(
        &self,
        _: ActorRef<ImporterMessage>,
        state: Supervised,
    ) -> Result<Supervised, ActorProcessingErr> {
        Ok(state)
    }

    async fn post_start(
        &self,
        myself: ActorRef<ImporterMessage>,
        state: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        state.start(&myself).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ImporterMessage>,
        event: SupervisionEvent,
        state: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(..) | SupervisionEvent::ActorTerminated(..) => state.start(&myself).await,
            _ => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_caller_leaves_no_account_out_and_creates_none_twice() {
    const KILLS: usize = 10;
    let (_folder, service) = start_service(settings(&new_instance())).await;
    let (registry, _) = Actor::spawn(None, RegistryActor, service.registry()).await.expect("the actor starts");
    let (progress, notes) = unbounded_channel();
    let (importer, mut importers) = unbounded_channel();
    let state = Supervised { registry, noted: 0, notes, progress, importer };
    let (supervisor, _) = Actor::spawn(None, ImportSupervisor, state).await.expect("the supervisor starts");
    for _ in 0..KILLS {
        let importer = timeout(PATIENCE, importers.recv()).await.expect("it is started again").expect("no end");
        // Each one gets somewhere before it dies, in the middle of the next account.
        let before = service.registry().statistics().accounts;
        wait_until("an account is created", || service.registry().statistics().accounts > before).await;
        importer.kill_and_wait(Some(PATIENCE)).await.expect("it dies");
    }
    supervisor.stop_and_wait(None, Some(PATIENCE)).await.expect("the supervisor stops");
    wait_until("nothing is open", || service.registry().statistics().open_requests == 0).await;
    let snapshot = service.registry().snapshot();
    let accounts = service.registry().statistics().accounts;
    let address = |leaf| {
        let account = snapshot.account(LeafIndex(leaf)).expect("it is read");
        account.expect("it exists").slots[0].as_ref().expect("it has an authenticator").address
    };
    let created: HashSet<_> = (1..=accounts).map(address).collect();
    let expected: HashSet<_> =
        (0..accounts).map(|number| Address::left_padding_from(&(number + 1).to_be_bytes())).collect();
    assert!(accounts >= KILLS as u64);
    assert_eq!(created, expected, "the accounts are the first ones, each once");
    service.stop_actors().await;
}
