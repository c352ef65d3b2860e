//! What the included files name beside their primitives, reduced to what matters to the threads.

/// A published state: its block's height stands for all of it.
pub(crate) struct Snapshot {
    tip: ledger::Tip,
}

impl Snapshot {
    /// The state after the block of this height.
    pub fn at(height: u64) -> Self {
        Self { tip: ledger::Tip { seal: ledger::Seal { height } } }
    }

    pub fn tip(&self) -> &ledger::Tip {
        &self.tip
    }
}

/// As in `protocol`.
pub(crate) mod ledger {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Seal {
        pub height: u64,
    }

    impl Seal {
        pub fn of(header: &Header) -> Self {
            Self { height: header.height }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Tip {
        pub seal: Seal,
    }

    pub(crate) struct Header {
        pub height: u64,
    }

    pub(crate) struct Block {
        pub header: Header,
    }
}

/// As in `storage`.
pub(crate) mod error {
    #[derive(Debug)]
    pub(crate) enum StoreError {}
}

/// As in `storage`.
pub(crate) mod schema {
    pub(crate) mod family {
        pub(crate) struct Blocks;
        pub(crate) const BLOCKS: Blocks = Blocks;
    }
}

/// As in `storage`.
pub(crate) mod database {
    use loom::sync::Mutex;

    use super::error::StoreError;
    use super::ledger::{Block, Header};
    use super::schema::family::Blocks;

    /// The height of the last stored block. RocksDB promises that a read that begins after a write
    /// ended sees it; the lock promises the same.
    #[derive(Default)]
    pub(crate) struct Database(Mutex<u64>);

    impl Database {
        pub fn write(&self, height: u64) {
            *self.0.lock().expect("no thread panics") = height;
        }

        pub fn last(&self, _: &Blocks) -> Result<Option<(u64, Block)>, StoreError> {
            let height = *self.0.lock().expect("no thread panics");
            Ok((height > 0).then_some((height, Block { header: Header { height } })))
        }
    }
}

/// As in `actors/src/registry`.
pub(crate) mod actors {
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum BatcherMessage {
        Wake,
        Settled,
    }
}

/// As in `actors/src/registry`; no model waits for the state of a request.
pub(crate) mod waiters {
    pub(crate) struct Waiters;

    impl Waiters {
        pub fn new(_: usize) -> Self {
            Self
        }
    }
}

/// As in `actors/src/support`.
pub(crate) mod slot {
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::task::{Poll, Waker};

    use loom::sync::{Mutex, MutexGuard};

    /// An actor's mailbox. Who receives a message sees what its sender did before.
    pub(crate) struct Slot<M>(Mutex<Mailbox<M>>);

    struct Mailbox<M> {
        messages: VecDeque<M>,
        receiver: Option<Waker>,
    }

    impl<M> Slot<M> {
        pub fn new() -> Self {
            Self(Mutex::new(Mailbox { messages: VecDeque::new(), receiver: None }))
        }

        pub fn cast(&self, message: M) {
            let receiver = {
                let mut mailbox = self.mailbox();
                mailbox.messages.push_back(message);
                mailbox.receiver.take()
            };
            receiver.into_iter().for_each(Waker::wake);
        }

        /// The next message.
        pub async fn receive(&self) -> M {
            poll_fn(|context| {
                let mut mailbox = self.mailbox();
                match mailbox.messages.pop_front() {
                    Some(message) => Poll::Ready(message),
                    None => {
                        mailbox.receiver = Some(context.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await
        }

        /// Another actor occupies the slot: the messages to the one before are lost.
        pub fn occupy(&self) {
            self.mailbox().messages.clear();
        }

        fn mailbox(&self) -> MutexGuard<'_, Mailbox<M>> {
            self.0.lock().expect("no thread panics")
        }
    }
}
