//! Why a command fails.

/// Any error, printed with its own text.
pub type CommandError = Box<dyn std::error::Error + Send + Sync>;
