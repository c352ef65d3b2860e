//! The actor of a service: what its callers see, also when it is killed.

use ractor::rpc::CallResult;
use ractor::{RpcReplyPort, pg};
use selfsame_protocol::gateway::GatewayErrorCode;
use selfsame_protocol::ledger::Tip;

use super::*;
use crate::{RegistryMessage, ServiceChild, ServiceMessage};

type Submitted = Result<GatewayStatusResponse, SubmitError>;

/// A service under a supervisor that does not start it again.
struct Child {
    child: ServiceChild,
    supervisor: ActorRef<()>,
    ledger: Arc<EmbeddedLedger>,
    _ends: mpsc::UnboundedReceiver<String>,
    _folder: TempDir,
}

impl Child {
    async fn new(instance: &'static str) -> Self {
        let (folder, settings, store, ledger) = service_parts(instance);
        let child = ServiceChild::new(with_ledger(settings, store, ledger.clone()));
        let (sender, ends) = mpsc::unbounded_channel();
        let (supervisor, _) = Actor::spawn(None, ReportingSupervisor, sender).await.expect("the supervisor starts");
        Self { child, supervisor, ledger, _ends: ends, _folder: folder }
    }

    async fn spawn(&self) -> ActorRef<ServiceMessage> {
        self.child.spawn(self.supervisor.get_cell()).await.expect("the service starts")
    }

    fn registry(&self) -> RegistryHandle {
        self.child.service().expect("the service runs").registry()
    }
}

fn submit_message(number: u64) -> impl FnOnce(RpcReplyPort<Submitted>) -> ServiceMessage {
    move |reply| RegistryMessage::Submit { submission: Box::new(create(number).into()), reply }.into()
}

async fn call<R: Send + 'static>(
    service: &ActorRef<ServiceMessage>,
    message: impl FnOnce(RpcReplyPort<R>) -> ServiceMessage,
) -> R {
    match service.call(message, Some(PATIENCE)).await.expect("the actor runs") {
        CallResult::Success(answer) => answer,
        CallResult::Timeout => panic!("no answer came in time"),
        CallResult::SenderError => panic!("the answer was dropped"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_answered_as_the_handle_answers() {
    let running = Child::new("asked").await;
    let actor = running.spawn().await;
    pg::join("asked-services".to_owned(), vec![actor.get_cell()]);
    let member = pg::get_members(&"asked-services".to_owned()).pop().expect("it is a member");
    let service: ActorRef<ServiceMessage> = member.into();

    let accepted = call(&service, submit_message(1)).await.expect("the request is accepted");
    let request_id = accepted.request_id;
    let wait = |reply| RegistryMessage::WaitUntilFinal { request_id, patience: PATIENCE, reply }.into();
    let status = call(&service, wait).await.expect("the state is read").expect("the request is known");
    assert!(matches!(status.status, GatewayRequestState::Finalized { .. }), "{status:?}");
    let read = call(&service, |reply| RegistryMessage::Status { request_id, reply }.into()).await;
    assert_eq!(read.expect("the state is read"), Some(status));

    let tip: Tip = call(&service, |reply| RegistryMessage::Tip { reply }.into()).await;
    assert_eq!(tip, *running.registry().snapshot().tip());
    let account = |leaf| move |reply| RegistryMessage::Account { leaf_index: LeafIndex(leaf), reply }.into();
    let created = call(&service, account(1)).await.expect("the account is read").expect("the account exists");
    assert_eq!(created.commitment, Commitment(U256::from(2)));
    assert_eq!(call(&service, account(2)).await.expect("the account is read"), None);

    let refused = call(&service, submit_message(1)).await;
    match refused {
        Err(SubmitError::Rule(violation)) => {
            assert_eq!(violation.code(), GatewayErrorCode::AuthenticatorAlreadyExists, "{violation:?}");
        }
        refused => panic!("{refused:?}"),
    }
    service.stop_and_wait(None, Some(PATIENCE)).await.expect("the actor stops");
}

/// What was answered with success is carried out; what was not, its callers learn of by an error,
/// and can send to the next service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_service_loses_nothing_that_it_answered() {
    const REQUESTS: u64 = 200;
    let running = Child::new("killed-by-message").await;
    let mut actor = running.spawn().await;
    let mut answered = HashSet::new();
    let mut unanswered = Vec::new();
    for round in 0..4 {
        let calls: Vec<_> = (round * REQUESTS..(round + 1) * REQUESTS)
            .map(|number| {
                let actor = actor.clone();
                tokio::spawn(async move { (number, actor.call(submit_message(number), Some(PATIENCE)).await) })
            })
            .collect();
        tokio::task::yield_now().await;
        actor.kill_and_wait(Some(PATIENCE)).await.expect("the actor dies");
        for call in calls {
            match call.await.expect("every call ends") {
                (_, Ok(CallResult::Success(Ok(accepted)))) => {
                    assert!(answered.insert(accepted.request_id), "no two requests share an id");
                }
                (_, Ok(CallResult::Timeout)) => panic!("a call was left waiting"),
                (number, _) => unanswered.push(number),
            }
        }
        actor = running.spawn().await;
    }
    for number in unanswered {
        match call(&actor, submit_message(number)).await {
            Ok(accepted) => drop(answered.insert(accepted.request_id)),
            // It was taken, and its answer was lost.
            Err(SubmitError::Rule(_) | SubmitError::Duplicate { .. }) => {}
            Err(error) => panic!("{number}: {error}"),
        }
    }
    let registry = running.registry();
    for request_id in &answered {
        expect_finalized(&registry, request_id).await;
    }
    wait_until("every account exists", || registry.statistics().accounts == 4 * REQUESTS).await;
    assert_eq!(in_blocks(&running.ledger).len() as u64, 4 * REQUESTS, "each request is in one block");
    actor.stop_and_wait(None, Some(PATIENCE)).await.expect("the actor stops");
}
