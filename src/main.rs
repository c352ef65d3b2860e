//! `selfsame`: see `selfsame --help`.

use mimalloc::MiMalloc;
use selfsame_interfaces::operator::Build;

/// An account costs less processor time than with the C library's allocator, which took 13 % of it
/// (docs/benchmarks.md, "What limits the daemon").
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    // The Makefile sets both variables. They are read here and not in the library, so that a new
    // commit recompiles this file only. The daemon refuses variables that begin with `SELFSAME_`
    // and name no setting, so theirs begin otherwise.
    let build = Build::of_commit(option_env!("BUILD_COMMIT"), option_env!("BUILD_COMMIT_DATE"));
    selfsame::commands::main(std::env::args_os(), build)
}
