//! The registry as an actor: what its callers see, also when it is killed.

use ractor::rpc::CallResult;
use ractor::{RpcReplyPort, pg};
use selfsame_protocol::gateway::GatewayErrorCode;
use selfsame_protocol::ledger::Tip;

use super::*;
use crate::{ReadError, RegistryActor, RegistryMessage};

type Submitted = Result<GatewayStatusResponse, SubmitError>;

async fn start_actor(running: &SupervisedService) -> ActorRef<RegistryMessage> {
    let name = format!("{}-registry", running.instance);
    Actor::spawn(Some(name), RegistryActor, running.service.registry()).await.expect("the actor starts").0
}

fn submit_message(number: u64) -> impl FnOnce(RpcReplyPort<Submitted>) -> RegistryMessage {
    move |reply| RegistryMessage::Submit { submission: Box::new(create(number).into()), reply }
}

async fn call<R: Send + 'static>(
    registry: &ActorRef<RegistryMessage>,
    message: impl FnOnce(RpcReplyPort<R>) -> RegistryMessage,
) -> R {
    match registry.call(message, Some(PATIENCE)).await.expect("the actor runs") {
        CallResult::Success(answer) => answer,
        CallResult::Timeout => panic!("no answer came in time"),
        CallResult::SenderError => panic!("the answer was dropped"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_answered_as_the_handle_answers() {
    let running = start("asked").await;
    let actor = start_actor(&running).await;
    pg::join("asked-registries".to_owned(), vec![actor.get_cell()]);
    let member = pg::get_members(&"asked-registries".to_owned()).pop().expect("it is a member");
    let registry: ActorRef<RegistryMessage> = member.into();

    let accepted = call(&registry, submit_message(1)).await.expect("the request is accepted");
    let request_id = accepted.request_id;
    let wait = |reply| RegistryMessage::WaitUntilFinal { request_id, patience: PATIENCE, reply };
    let status = call(&registry, wait).await.expect("the state is read").expect("the request is known");
    assert!(matches!(status.status, GatewayRequestState::Finalized { .. }), "{status:?}");
    let read = call(&registry, |reply| RegistryMessage::Status { request_id, reply }).await;
    assert_eq!(read.expect("the state is read"), Some(status));

    let tip: Tip = call(&registry, |reply| RegistryMessage::Tip { reply }).await;
    assert_eq!(tip, *running.service.registry().snapshot().tip());
    let account = |leaf| move |reply| RegistryMessage::Account { leaf_index: LeafIndex(leaf), reply };
    let created = call(&registry, account(1)).await.expect("the account is read").expect("the account exists");
    assert_eq!(created.commitment, Commitment(U256::from(2)));
    assert_eq!(call(&registry, account(2)).await, Ok::<_, ReadError>(None));

    let refused = call(&registry, submit_message(1)).await;
    match refused {
        Err(SubmitError::Rule(violation)) => {
            assert_eq!(violation.code(), GatewayErrorCode::AuthenticatorAlreadyExists, "{violation:?}");
        }
        refused => panic!("{refused:?}"),
    }
    registry.stop_and_wait(None, Some(PATIENCE)).await.expect("the actor stops");
}

/// What the actor has taken is carried out and answered; what it has not taken, its callers learn
/// of by an error, and can send to its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_actor_loses_nothing_that_it_took() {
    const REQUESTS: u64 = 200;
    let running = start("killed-facade").await;
    let mut actor = start_actor(&running).await;
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
        actor = start_actor(&running).await;
    }
    let registry = running.service.registry();
    for number in unanswered {
        match call(&actor, submit_message(number)).await {
            Ok(accepted) => drop(answered.insert(accepted.request_id)),
            // It was taken, and its answer was lost.
            Err(SubmitError::Rule(_) | SubmitError::Duplicate { .. }) => {}
            Err(error) => panic!("{number}: {error}"),
        }
    }
    for request_id in &answered {
        expect_finalized(&registry, request_id).await;
    }
    wait_until("every account exists", || registry.statistics().accounts == 4 * REQUESTS).await;
    assert_eq!(running.in_blocks().len() as u64, 4 * REQUESTS, "each request is in one block");
    actor.stop_and_wait(None, Some(PATIENCE)).await.expect("the actor stops");
}
