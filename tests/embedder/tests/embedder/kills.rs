//! A service that is killed while other actors call it, and actors of the embedder that are.

use std::collections::HashSet;

use selfsame_actors::protocol::Address;
use selfsame_actors::protocol::gateway::GatewayRequestState;
use selfsame_actors::protocol::ids::LeafIndex;
use selfsame_actors::protocol::registry::RegistryView;
use selfsame_actors::protocol::verification::request::VerificationRequest;
use selfsame_actors::ractor::rpc::CallResult;
use selfsame_actors::ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent, call_t};
use selfsame_actors::{
    RegistryMessage, ServiceMessage, Submission, Verification, VerificationError, VerificationMessage,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::application::{APP, ONCE, verification_request};
use super::{Embedded, PATIENCE, create, wait_until};

type Verified = Result<Verification, VerificationError>;

fn verify(person: u64) -> impl FnOnce(RpcReplyPort<Verified>) -> ServiceMessage {
    let request = VerificationRequest::read(&verification_request(person, ONCE, 5));
    let (relying_party, request) = (APP.to_owned(), Box::new(request.expect("the request is well formed")));
    move |reply| VerificationMessage::Verify { relying_party, request, source: None, patience: PATIENCE, reply }.into()
}

fn is_used_up(answer: &Verified) -> bool {
    matches!(answer, Err(VerificationError::MaxVerifications { .. }))
}

/// What a killed service has answered is recorded once; of the rest its callers learn by an error,
/// and ask the next service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_service_records_each_nullifier_once() {
    const PEOPLE: u64 = 20;
    let mut embedded = Embedded::start().await;
    let calls = (0..PEOPLE).map(|person| {
        let (service, message) = (embedded.service.clone(), verify(person));
        tokio::spawn(async move { (person, service.call(message, Some(PATIENCE)).await) })
    });
    let calls: Vec<_> = calls.collect();
    tokio::task::yield_now().await;
    embedded.kill().await;
    for call in calls {
        let (person, answer) = call.await.expect("every call ends");
        match answer {
            Ok(CallResult::Success(Ok(_))) => {}
            Ok(CallResult::Timeout) => panic!("{person} was left waiting"),
            // It was recorded and its answer is lost, or it was not recorded.
            Ok(CallResult::Success(Err(_)) | CallResult::SenderError) | Err(_) => {
                let again = embedded.ask(verify(person)).await;
                assert!(again.is_ok() || is_used_up(&again), "{person}: {again:?}");
            }
        }
    }
    for person in 0..PEOPLE {
        let again = embedded.ask(verify(person)).await;
        assert!(is_used_up(&again), "{person} is recorded: {again:?}");
    }
    embedded.stop().await;
}

/// An actor of the embedder: creates accounts one after the other, from the number that it is
/// started with.
struct Importer;

struct Import {
    service: ActorRef<ServiceMessage>,
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
        let submit = |reply| RegistryMessage::Submit { submission: Box::new(submission), reply }.into();
        let accepted = call_t!(import.service, submit, 60_000)??;
        let request_id = accepted.request_id;
        let wait = |reply| RegistryMessage::WaitUntilFinal { request_id, patience: PATIENCE, reply }.into();
        let status = call_t!(import.service, wait, 60_000)??.ok_or("the request is unknown")?;
        assert!(matches!(status.status, GatewayRequestState::Finalized { .. }), "{status:?}");
        import.progress.send(import.next)?;
        import.next += 1;
        Ok(myself.cast(ImporterMessage::Next)?)
    }
}

/// Starts the importer again where its last note of progress is.
struct ImportSupervisor;

struct Supervised {
    service: ActorRef<ServiceMessage>,
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
        let import = Import { service: self.service.clone(), next: self.noted, progress: self.progress.clone() };
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
    let embedded = Embedded::start().await;
    let registry = embedded.child.running().await.registry();
    let (progress, notes) = unbounded_channel();
    let (importer, mut importers) = unbounded_channel();
    let state = Supervised { service: embedded.service.clone(), noted: 0, notes, progress, importer };
    let (supervisor, _) = Actor::spawn(None, ImportSupervisor, state).await.expect("the supervisor starts");
    for _ in 0..KILLS {
        let importer = timeout(PATIENCE, importers.recv()).await.expect("it is started again").expect("no end");
        // Each one gets somewhere before it dies, in the middle of the next account.
        let before = registry.statistics().accounts;
        wait_until("an account is created", || registry.statistics().accounts > before).await;
        importer.kill_and_wait(Some(PATIENCE)).await.expect("it dies");
    }
    supervisor.stop_and_wait(None, Some(PATIENCE)).await.expect("the supervisor stops");
    wait_until("nothing is open", || registry.statistics().open_requests == 0).await;
    let snapshot = registry.snapshot();
    let accounts = registry.statistics().accounts;
    let address = |leaf| {
        let account = snapshot.account(LeafIndex(leaf)).expect("it is read");
        account.expect("it exists").slots[0].as_ref().expect("it has an authenticator").address
    };
    let created: HashSet<_> = (1..=accounts).map(address).collect();
    let expected: HashSet<_> =
        (0..accounts).map(|number| Address::left_padding_from(&(number + 1).to_be_bytes())).collect();
    assert!(accounts >= KILLS as u64);
    assert_eq!(created, expected, "the accounts are the first ones, each once");
    drop(registry);
    embedded.stop().await;
}
