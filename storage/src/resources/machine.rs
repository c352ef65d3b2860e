//! How much memory the process may use.

use std::fs::read_to_string;
use std::path::Path;

/// The memory that the process may use, in bytes: that of the machine, or the least limit of the
/// process's control group and of the groups above it. `None` where the kernel does not say it.
pub(super) fn memory() -> Option<u64> {
    let of_machine = read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = limit_of_groups(&groups, Path::new("/sys/fs/cgroup"));
    of_machine.into_iter().chain(of_groups).min()
}

/// The total in the text of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the control groups in the text of `/proc/self/cgroup`, whose folders are
/// below `root`.
fn limit_of_groups(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        // The first version has a tree for each controller, the second has one for all.
        let (tree, files): (_, &[&str]) = match controllers {
            "" => (root.to_owned(), &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), &["memory.limit_in_bytes"])
            }
            _ => return None,
        };
        // In a container the path may be that of the host, which is not there; the container's own
        // group is then the root.
        let folder = tree.join(path.trim_start_matches('/'));
        let folders = folder.ancestors().take_while(|folder| folder.starts_with(&tree));
        let read = |folder: &Path| {
            // A group without a limit has the text "max".
            files.iter().filter_map(|file| read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
        };
        folders.filter_map(read).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("MemTotal:       24649336 kB\nMemFree:  1 kB\n"), Some(24_649_336 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20), "this machine has memory");
    }

    #[test]
    fn the_least_limit_of_the_groups_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("system.slice/memory.max", "2147483648\n");
        write("system.slice/selfsame.service/memory.max", "max\n");
        let own = "0::/system.slice/selfsame.service\n";
        assert_eq!(limit_of_groups(own, root), Some(2 << 30), "the group above has a limit");
        write("system.slice/selfsame.service/memory.high", "1073741824\n");
        assert_eq!(limit_of_groups(own, root), Some(1 << 30));
        assert_eq!(limit_of_groups("0::/\n", root), None);
        write("memory.max", "536870912\n");
        assert_eq!(limit_of_groups("0::/docker/not-here\n", root), Some(512 << 20), "in a container");
        write("memory/app/memory.limit_in_bytes", "268435456\n");
        assert_eq!(limit_of_groups("3:cpu,memory:/app\n2:cpuset:/\n", root), Some(256 << 20), "the first version");
        assert_eq!(limit_of_groups("2:cpuset:/\n", root), None);
        assert_eq!(limit_of_groups("nonsense", root), None);
    }
}
