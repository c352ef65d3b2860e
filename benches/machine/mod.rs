//! What the figures of a run depend on.

/// The instructions that make hashing, curve arithmetic and checksums faster, as Linux names them.
const FLAGS: [&str; 5] = ["avx2", "avx512ifma", "adx", "bmi2", "sha_ni"];

/// Prints the processor's name, the number of its cores, and which of the instructions it has.
pub fn print() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let name = field("model name").unwrap_or("unknown");
    let flags: Vec<_> = field("flags").or(field("Features")).unwrap_or_default().split_whitespace().collect();
    let (with, without): (Vec<_>, Vec<_>) = FLAGS.iter().copied().partition(|flag| flags.contains(flag));
    let list = |flags: Vec<&str>| if flags.is_empty() { "none".to_owned() } else { flags.join(" ") };
    println!("processor: {name}, {cores} cores; has {}; lacks {}", list(with), list(without));
}
