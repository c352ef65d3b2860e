//! How the messages of the registry's actor cross from one node to another: each is taken apart and
//! put together again, and its answer too.

use std::time::Duration;

use selfsame_actors::protocol::gateway::GatewayRequestState;
use selfsame_actors::protocol::ids::{Commitment, LeafIndex};
use selfsame_actors::protocol::ledger::RequestId;
use selfsame_actors::protocol::{B256, U256};
use selfsame_actors::ractor::message::SerializedMessage;
use selfsame_actors::ractor::{Actor, ActorRef, Message, RpcReplyPort, concurrency};
use selfsame_actors::{ReadError, RegistryActor, RegistryMessage, Service, Settings, SubmitError};
use tokio::time::timeout;

use super::{PATIENCE, create, new_instance, start_service};

async fn start() -> (tempfile::TempDir, Service, ActorRef<RegistryMessage>) {
    let (folder, service) = start_service(Settings::for_instance(new_instance())).await;
    let (actor, _) = Actor::spawn(None, RegistryActor, service.registry()).await.expect("the actor starts");
    (folder, service, actor)
}

/// Sends a message as from another node, and returns the answer; `None` when there is none.
pub async fn call_from_another_node<M: Message, R: Send + 'static>(
    actor: &ActorRef<M>,
    message: impl FnOnce(RpcReplyPort<R>) -> M,
) -> Option<R> {
    let (sender, answer) = concurrency::oneshot();
    let crossing = message(sender.into()).serialize().expect("it crosses");
    let arrived = M::deserialize(crossing).expect("every message is read");
    actor.cast(arrived).expect("the actor runs");
    timeout(PATIENCE, answer).await.expect("the port is used or dropped").ok()
}

/// Sends calls of these names whose contents cannot be read, and checks that they get no answer.
pub async fn unreadable_calls<M: Message>(actor: &ActorRef<M>, names: &[&str], is_unreadable: impl Fn(&M) -> bool) {
    let hash = B256::repeat_byte(7).to_vec();
    let contents = [Vec::new(), hash, b"{}".to_vec(), vec![0xff; 100_000]];
    for (name, content) in names.iter().flat_map(|name| contents.iter().map(move |content| (name, content))) {
        let (sender, answer) = concurrency::oneshot();
        let call = SerializedMessage::Call {
            variant: (*name).to_owned(),
            args: content.clone(),
            reply: sender.into(),
            metadata: None,
        };
        let arrived = M::deserialize(call).expect("every message is read");
        assert!(is_unreadable(&arrived), "{name} of {} bytes", content.len());
        actor.cast(arrived).expect("the actor runs");
        assert!(timeout(PATIENCE, answer).await.expect("the port is dropped").is_err(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_and_its_answer_arrive_as_they_were_given() {
    let (_folder, service, registry) = start().await;
    let submit = |number| {
        let submission = Box::new(create(number).into());
        move |reply| RegistryMessage::Submit { submission, reply }
    };
    let accepted = call_from_another_node(&registry, submit(1)).await.expect("an answer").expect("accepted");
    let request_id = accepted.request_id;
    // The longest time that a node can state.
    let wait = |reply| RegistryMessage::WaitUntilFinal { request_id, patience: Duration::MAX, reply };
    let waited = call_from_another_node(&registry, wait).await.expect("an answer").expect("it is read");
    let status = waited.expect("it is known");
    assert!(matches!(status.status, GatewayRequestState::Finalized { .. }), "{status:?}");
    let read = |request_id| move |reply| RegistryMessage::Status { request_id, reply };
    assert_eq!(call_from_another_node(&registry, read(request_id)).await, Some(Ok(Some(status))));
    let unknown = RequestId::from_random([9; 16]);
    assert_eq!(call_from_another_node(&registry, read(unknown)).await, Some(Ok(None)));
    let tip = call_from_another_node(&registry, |reply| RegistryMessage::Tip { reply }).await;
    assert_eq!(tip, Some(*service.registry().snapshot().tip()));
    let account = |leaf| move |reply| RegistryMessage::Account { leaf_index: LeafIndex(leaf), reply };
    let created = call_from_another_node(&registry, account(1)).await.expect("an answer").expect("it is read");
    assert_eq!(created.expect("it exists").commitment, Commitment(U256::from(2)));
    assert_eq!(call_from_another_node(&registry, account(2)).await, Some(Ok::<_, ReadError>(None)));
    let refused = call_from_another_node(&registry, submit(1)).await.expect("an answer");
    assert!(matches!(refused, Err(SubmitError::Rule(_))), "{refused:?}");
    service.stop_actors().await;
}

/// What another node sends ends neither the actor nor its other calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_gets_no_answer_and_the_actor_goes_on() {
    let (_folder, service, registry) = start().await;
    let is_unreadable = |message: &RegistryMessage| matches!(message, RegistryMessage::Unreadable { .. });
    unreadable_calls(&registry, &["Submit", "Status", "WaitUntilFinal", "Account", "Another"], is_unreadable).await;
    let (sender, _answer) = concurrency::oneshot();
    let (variant, args, reply) = ("Tip".to_owned(), vec![1], sender.into());
    let tip = SerializedMessage::Call { variant, args, reply, metadata: None };
    assert!(is_unreadable(&RegistryMessage::deserialize(tip).expect("every message is read")), "a tip with content");
    let cast = SerializedMessage::Cast { variant: "Tip".to_owned(), args: Vec::new(), metadata: None };
    let others = [cast, SerializedMessage::CallReply(1, Vec::new())];
    for other in others {
        let arrived = RegistryMessage::deserialize(other).expect("every message is read");
        assert!(matches!(arrived, RegistryMessage::Unreadable { .. }));
        registry.cast(arrived).expect("the actor runs");
    }
    let tip = call_from_another_node(&registry, |reply| RegistryMessage::Tip { reply }).await;
    assert!(tip.is_some(), "the actor goes on");
    service.stop_actors().await;
}
