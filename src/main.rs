//! `selfsame`: see `selfsame --help`.

fn main() -> std::process::ExitCode {
    selfsame::commands::main(std::env::args_os())
}
