//! Deterministic runs: services, and the actors of an embedder beside them, whose time, chance and
//! faults follow from a seed. Only with the cargo feature `simulation`, which no production build
//! has.
//!
//! A [`Simulation`] is the history of one seed. Its stores are on simulated disks
//! ([`Simulation::new_store`]), and it consists of runs ([`Simulation::run`]), each of which is one
//! life of the process: a runtime with one thread and simulated time, in which services are started
//! ([`Run::service`]) and an embedder spawns actors and tasks of its own. At the end of a run
//! everything in it is dropped, and with it what was not committed. During a run, faults strike as
//! often as [`FaultRates`] says: commits are late, fail, or are done and reported as failed;
//! ledgers fail; blocking work is slow; actors die; time jumps forward.
//!
//! All of them draw from one stream of random numbers ([`SeededRandom`]) and read one clock
//! ([`SimulatedClock`]), and they note what happens in one log ([`EventLog`]). Two plays of a seed
//! have the same log if every part of the program takes time and chance from the simulation: a test
//! compares them. [`play_seeds`] plays many seeds on all cores; when a play panics, its message has
//! the seed that repeats it and the last events.
//!
//! The simulated disk loses nothing of what was written, also what was not synced: a simulation
//! ends processes, not machines. Work that a program gives to threads of its own, and input and
//! output, are outside of a simulation.

mod faults;
mod play;
mod run;
mod service;
#[cfg(test)]
mod tests;

pub use faults::{FaultRates, FaultyLedger, MemoryLedger};
pub use play::{Failure, PlaySummary, Simulation, find_failure, play_seeds};
pub use run::{EventLog, Run, SeededRandom, SimulatedClock};
pub use service::{NewService, SimulatedService};
