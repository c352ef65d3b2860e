//! The thread that writes the lines of the log, and the queues in front of it.
//!
//! Standard error may be a pipe whose reader has stalled, or a disk that does not answer: a write
//! to it can take for ever. So only this thread writes. It takes lines from two queues that are
//! bounded in bytes: one for the audit trail and for errors, which is written first, and one for
//! all other lines. Inside a queue, lines keep their order. A line for which its queue has no room
//! is lost and counted, and so is a line that cannot be written; when writing succeeds again, the
//! log says how many lines it lacks.
//!
//! The descriptor stays in blocking mode, because other processes share it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use selfsame_actors::Clock;
use selfsame_interfaces::http::AUDIT_TARGET;
use selfsame_protocol::time::UnixSeconds;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The most bytes that wait in each of the queues: some three thousand lines.
const QUEUE_BYTES: usize = 1024 * 1024;

/// About how many bytes the thread takes from a queue at once. Until they are written, no line of
/// the other queue is.
const CHUNK_BYTES: usize = 16 * 1024;

/// While lines go on being lost, the log says it after as many bytes again.
const LOSS_INTERVAL_BYTES: usize = 256 * 1024;

/// How long a loss of lines of the audit trail, or of errors, counts as present.
const LOSS_LASTS: Duration = Duration::from_hours(24);

thread_local! {
    /// Whether this is the thread that writes the log. What it says itself is never refused.
    static IS_WRITER: Cell<bool> = const { Cell::new(false) };
}

/// Which queue a line waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// An event of the audit trail, or an error.
    AuditOrError,
    /// Any other line.
    Ordinary,
}

impl LineKind {
    fn of(metadata: &Metadata<'_>) -> Self {
        match metadata.target() == AUDIT_TARGET || *metadata.level() == Level::ERROR {
            true => Self::AuditOrError,
            false => Self::Ordinary,
        }
    }
}

/// The lines that the log lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLosses {
    /// Ordinary lines that were lost since the start.
    pub ordinary: u64,
    /// Lines of the audit trail, and errors, that were lost since the start.
    pub audit_or_error: u64,
    /// Since when these are lost; `None` when there was none, or the last one was lost a day ago. A
    /// service whose audit trail has such a gap is degraded.
    pub degraded_since: Option<UnixSeconds>,
    pub(crate) last: UnixSeconds,
}

impl LogLosses {
    /// The same at a later time.
    fn at(&self, now: UnixSeconds) -> Self {
        let lasts = Duration::from_secs(now.since(self.last)) < LOSS_LASTS;
        Self { degraded_since: self.degraded_since.filter(|_| lasts), ..*self }
    }

    fn add(&mut self, kind: LineKind, lines: u64, clock: &dyn Clock) {
        match kind {
            LineKind::Ordinary => self.ordinary += lines,
            LineKind::AuditOrError => {
                let now = clock.unix_seconds();
                self.audit_or_error += lines;
                self.degraded_since = self.at(now).degraded_since.or(Some(now));
                self.last = now;
            }
        }
    }

    fn is_more_than(&self, said: &Self) -> bool {
        (self.ordinary, self.audit_or_error) != (said.ordinary, said.audit_or_error)
    }
}

/// Lines that wait, one behind the other, without an allocation for each.
#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    lengths: VecDeque<usize>,
}

impl Queue {
    fn has_room(&self, line: &[u8]) -> bool {
        self.bytes.len() + line.len() <= QUEUE_BYTES
    }

    fn push(&mut self, line: &[u8]) {
        self.bytes.extend(line);
        self.lengths.push_back(line.len());
    }

    /// Moves the first lines into `chunk`; whether there are any.
    fn take(&mut self, chunk: &mut Chunk) -> bool {
        chunk.bytes.clear();
        chunk.ends.clear();
        let mut end = 0;
        while end < CHUNK_BYTES
            && let Some(length) = self.lengths.pop_front()
        {
            end += length;
            chunk.ends.push(end);
        }
        let (first, second) = self.bytes.as_slices();
        let (first, second) = match end.checked_sub(first.len()) {
            Some(rest) => (first, &second[..rest]),
            None => (&first[..end], &second[..0]),
        };
        chunk.bytes.extend_from_slice(first);
        chunk.bytes.extend_from_slice(second);
        self.bytes.drain(..end);
        end > 0
    }
}

/// Lines that are written at once.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

struct State {
    audit_or_error: Queue,
    ordinary: Queue,
    /// Whether everything is written, and the thread waits for the next line.
    is_idle: bool,
    losses: LogLosses,
    /// The losses that the log has said.
    said: LogLosses,
    /// Bytes that were written since then.
    written_since: usize,
}

impl State {
    fn queue(&mut self, kind: LineKind) -> &mut Queue {
        match kind {
            LineKind::AuditOrError => &mut self.audit_or_error,
            LineKind::Ordinary => &mut self.ordinary,
        }
    }
}

/// Where the log's lines go: to a thread that writes them.
pub struct LogWriter {
    state: Mutex<State>,
    /// Wakes the thread.
    pushed: Condvar,
    /// Wakes those who wait until everything is written.
    idle: Condvar,
    clock: Arc<dyn Clock>,
}

impl LogWriter {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State {
            audit_or_error: Queue::default(),
            ordinary: Queue::default(),
            is_idle: false,
            losses: LogLosses::default(),
            said: LogLosses::default(),
            written_since: LOSS_INTERVAL_BYTES,
        };
        Self { state: Mutex::new(state), pushed: Condvar::new(), idle: Condvar::new(), clock }
    }

    /// Starts the thread, which ends with the process. `clock` says when lines were lost.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn start(clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let writer = Arc::new(Self::new(clock));
        let running = Arc::clone(&writer);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            IS_WRITER.set(true);
            running.run(&mut StandardError, say);
        })?;
        Ok(writer)
    }

    /// Puts a line, with the line feed at its end, into its queue. It is lost and counted when it
    /// has no room there.
    pub fn push(&self, kind: LineKind, line: &[u8]) {
        let mut state = self.lock();
        if !state.queue(kind).has_room(line) && !IS_WRITER.get() {
            state.losses.add(kind, 1, &*self.clock);
            return;
        }
        state.queue(kind).push(line);
        let was_idle = std::mem::take(&mut state.is_idle);
        drop(state);
        if was_idle {
            self.pushed.notify_one();
        }
    }

    /// Waits until everything is written, at most until `deadline`.
    pub fn flush(&self, deadline: Instant) {
        let limit = deadline.saturating_duration_since(Instant::now());
        drop(self.idle.wait_timeout_while(self.lock(), limit, |state| !state.is_idle));
    }

    /// The lines that the log lacks.
    pub fn losses(&self) -> LogLosses {
        let now = self.clock.unix_seconds();
        self.lock().losses.at(now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines to `output` for ever; `say` logs what was lost since it was called last.
    fn run(&self, output: &mut impl Write, say: impl Fn(LogLosses, LogLosses)) -> ! {
        let (mut chunk, mut is_torn) = (Chunk::default(), false);
        loop {
            let kind = self.take(&mut chunk);
            if let Some((losses, said)) = self.write(output, kind, &chunk, &mut is_torn) {
                say(losses, said);
            }
        }
    }

    /// Waits for lines, those of the audit trail and errors first.
    fn take(&self, chunk: &mut Chunk) -> LineKind {
        let mut state = self.lock();
        loop {
            for kind in [LineKind::AuditOrError, LineKind::Ordinary] {
                if state.queue(kind).take(chunk) {
                    return kind;
                }
            }
            state.is_idle = true;
            self.idle.notify_all();
            state = self.pushed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes lines. Those that cannot be written are lost. The result is what the log has to say
    /// about losses now: all of them, and those that it has said before.
    fn write(
        &self,
        output: &mut impl Write,
        kind: LineKind,
        chunk: &Chunk,
        is_torn: &mut bool,
    ) -> Option<(LogLosses, LogLosses)> {
        let mut written = 0;
        let mut write_all = || -> io::Result<()> {
            // The next line does not go on where another one was cut off.
            if *is_torn {
                output.write_all(b"\n")?;
                *is_torn = false;
            }
            while written < chunk.bytes.len() {
                match output.write(&chunk.bytes[written..])? {
                    0 => return Err(ErrorKind::WriteZero.into()),
                    more => written += more,
                }
            }
            Ok(())
        };
        let outcome = write_all();
        let mut state = self.lock();
        if outcome.is_err() {
            let complete = chunk.ends.partition_point(|end| *end <= written);
            *is_torn |= written > complete.checked_sub(1).map_or(0, |last| chunk.ends[last]);
            let lost = chunk.ends.len() - complete;
            state.losses.add(kind, u64::try_from(lost).unwrap_or(u64::MAX), &*self.clock);
            return None;
        }
        state.written_since = state.written_since.saturating_add(written);
        let has_caught_up = state.audit_or_error.bytes.is_empty() && state.ordinary.bytes.is_empty();
        let is_due = has_caught_up || state.written_since >= LOSS_INTERVAL_BYTES;
        if !is_due || !state.losses.is_more_than(&state.said) {
            return None;
        }
        state.written_since = 0;
        let losses = state.losses;
        Some((losses, std::mem::replace(&mut state.said, losses)))
    }
}

/// Says in the log how many lines it lacks.
fn say(losses: LogLosses, said: LogLosses) {
    let (ordinary, audit_or_error) = (losses.ordinary - said.ordinary, losses.audit_or_error - said.audit_or_error);
    tracing::error!(ordinary, audit_or_error, "the log lacks lines");
}

/// Standard error without the lock of the standard library, which a panic on another thread would
/// wait for.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stderr = io::stderr();
        loop {
            match rustix::io::write(&stderr, bytes) {
                Err(Errno::INTR) => {}
                // A process that shares the descriptor has made it non-blocking.
                Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                },
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives each line of the subscriber, which writes it at once, to the writer.
pub struct Lines(pub Arc<LogWriter>);

/// Writes one line.
pub struct Line<'a> {
    writer: &'a LogWriter,
    kind: LineKind,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { writer: &self.0, kind: LineKind::Ordinary }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line { writer: &self.0, kind: LineKind::of(metadata) }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.writer.push(self.kind, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use selfsame_actors::ManualClock;

    use super::LineKind::{AuditOrError, Ordinary};
    use super::*;

    const NOW: u64 = 1_000_000;

    fn writer() -> (LogWriter, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(NOW)));
        (LogWriter::new(Arc::<ManualClock>::clone(&clock)), clock)
    }

    /// Takes and writes everything that waits; the losses that the log has to say.
    fn write_all(writer: &LogWriter, output: &mut impl Write) -> Vec<(u64, u64)> {
        let (mut chunk, mut is_torn, mut to_say) = (Chunk::default(), false, Vec::new());
        let has_lines = || {
            let state = writer.lock();
            !state.audit_or_error.lengths.is_empty() || !state.ordinary.lengths.is_empty()
        };
        while has_lines() {
            let kind = writer.take(&mut chunk);
            let losses = writer.write(output, kind, &chunk, &mut is_torn);
            to_say.extend(
                losses.map(|(all, said)| (all.ordinary - said.ordinary, all.audit_or_error - said.audit_or_error)),
            );
        }
        to_say
    }

    #[test]
    fn lines_keep_their_order_and_the_audit_trail_comes_first() {
        let (writer, _) = writer();
        let mut expected = [Vec::new(), Vec::new()];
        // More than a chunk of both, twice, so that the queues wrap around.
        for round in 0..2 {
            for number in 0..2 * CHUNK_BYTES / 10 {
                let kind = if number % 3 == 0 { AuditOrError } else { Ordinary };
                let line = format!("{round} {number:05} {kind:?}\n");
                writer.push(kind, line.as_bytes());
                expected[kind as usize].extend_from_slice(line.as_bytes());
            }
            let mut output = Vec::new();
            assert!(write_all(&writer, &mut output).is_empty());
            assert_eq!(output, std::mem::take(&mut expected).concat());
        }
    }

    #[test]
    fn each_queue_is_bounded_in_bytes_and_counts_what_it_loses() {
        let (writer, clock) = writer();
        let line = [b'x'; 1024];
        for _ in 0..QUEUE_BYTES / line.len() + 5 {
            writer.push(Ordinary, &line);
        }
        assert_eq!((writer.losses().ordinary, writer.losses().audit_or_error), (5, 0));
        let now = || clock.unix_seconds();
        assert_eq!(writer.losses().degraded_since, None, "ordinary lines are no reason");
        for _ in 0..QUEUE_BYTES / line.len() + 2 {
            writer.push(AuditOrError, &line);
        }
        assert_eq!((writer.losses().ordinary, writer.losses().audit_or_error), (5, 2));
        assert!(writer.lock().ordinary.bytes.len() <= QUEUE_BYTES);
        let began = now();
        assert_eq!(writer.losses().degraded_since, Some(began));
        clock.advance(LOSS_LASTS - Duration::from_secs(1));
        writer.push(AuditOrError, &line);
        clock.advance(LOSS_LASTS - Duration::from_secs(1));
        assert_eq!(writer.losses().degraded_since, Some(began));
        clock.advance(Duration::from_secs(1));
        assert_eq!(writer.losses().degraded_since, None);
        writer.push(AuditOrError, &line);
        assert_eq!(writer.losses().degraded_since, Some(now()));
        // Said at the first success, and when there is nothing more to write.
        assert_eq!(write_all(&writer, &mut io::sink()), [(5, 4)]);
        writer.push(Ordinary, &line);
        assert!(write_all(&writer, &mut io::sink()).is_empty());
    }

    /// Takes some bytes, and then fails.
    struct Failing {
        room: usize,
        written: Vec<u8>,
    }

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room).min(3);
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= taken;
            self.written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_is_lost_and_the_next_line_begins_anew() {
        let (writer, _) = writer();
        let mut output = Failing { room: 9, written: Vec::new() };
        let (mut chunk, mut is_torn) = (Chunk::default(), false);
        for text in ["first\n", "second\n", "third\n"] {
            writer.push(Ordinary, text.as_bytes());
        }
        let mut write = |output: &mut Failing, chunk: &mut Chunk| {
            let kind = writer.take(chunk);
            writer.write(output, kind, chunk, &mut is_torn).map(|(losses, _)| losses.ordinary)
        };
        assert_eq!(write(&mut output, &mut chunk), None);
        assert_eq!(writer.losses().ordinary, 2);
        writer.push(Ordinary, b"fourth\n");
        assert_eq!(write(&mut output, &mut chunk), None);
        output.room = 100;
        writer.push(Ordinary, b"fifth\n");
        assert_eq!(write(&mut output, &mut chunk), Some(3));
        assert_eq!(String::from_utf8(output.written).unwrap(), "first\nsec\nfifth\n");
    }

    #[test]
    fn a_flush_waits_until_everything_is_written_and_no_longer_than_its_time() {
        let (writer, _) = writer();
        writer.push(Ordinary, b"line\n");
        // No thread writes.
        writer.flush(Instant::now());
        let writer = LogWriter::start(Arc::new(ManualClock::at(Duration::ZERO))).expect("a thread");
        writer.flush(Instant::now() + Duration::from_secs(600));
        assert!(writer.lock().is_idle);
    }

    #[test]
    fn lines_are_told_apart_by_their_target_and_level() {
        use tracing_subscriber::layer::SubscriberExt;

        let writer = Arc::new(writer().0);
        let layer = tracing_subscriber::fmt::layer().json().with_writer(Lines(Arc::clone(&writer)));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(target: AUDIT_TARGET, "audit");
            tracing::error!("error");
            tracing::warn!("warning");
        });
        let state = writer.lock();
        assert_eq!((state.audit_or_error.lengths.len(), state.ordinary.lengths.len()), (2, 1));
    }
}
