//! The package: that its files exist, and that they agree with each other and with the sample
//! configuration. `scripts/package-test.sh` installs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use selfsame::config::Config;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `[package.metadata.deb]` of `Cargo.toml`.
fn metadata() -> toml::Table {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    manifest["package"]["metadata"]["deb"].as_table().expect("a section").clone()
}

/// The files of the package: where each comes from, and its place on the machine.
fn assets() -> Vec<(String, String)> {
    let metadata = metadata();
    let mut assets = Vec::new();
    for asset in metadata["assets"].as_array().expect("a list") {
        let source = asset[0].as_str().expect("a path").to_owned();
        let place = asset[1].as_str().expect("a path");
        let name = source.rsplit('/').next().expect("a name");
        let place = if place.ends_with('/') { format!("/{place}{name}") } else { format!("/{place}") };
        assets.push((source, place));
    }
    assets
}

/// The files of the repository that a path with `*` in its last part names.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let (folder, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
    let Some((before, after)) = name.split_once('*') else {
        return Vec::from_iter(Some(root().join(pattern)).filter(|path| path.is_file()));
    };
    let entries = fs::read_dir(root().join(folder)).expect(folder);
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_named = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with(before) && name.ends_with(after)
    };
    paths.filter(is_named).collect()
}

#[test]
fn every_file_of_the_package_exists_or_is_made_for_it() {
    let script = read("scripts/dist.sh");
    let mut sources: Vec<String> = assets().into_iter().map(|(source, _)| source).collect();
    let metadata = metadata();
    let scripts = metadata["maintainer-scripts"].as_str().expect("a path");
    for name in ["postinst", "postrm"] {
        let path = format!("{scripts}/{name}");
        assert!(read(&path).contains("\n#DEBHELPER#\n"), "{path} has no place for the steps of systemd");
        sources.push(path);
    }
    // cargo-deb finds these by their names.
    let units = metadata["systemd-units"]["unit-scripts"].as_str().expect("a path");
    sources.extend(["service", "socket", "sysusers", "tmpfile"].map(|kind| format!("{units}/selfsame.{kind}")));
    sources.push(metadata["license-file"][0].as_str().expect("a path").to_owned());
    assert!(sources.len() > 15, "{sources:?}");
    for source in sources {
        match source.strip_prefix("target/release/packaging/") {
            Some(made) => {
                let place = made.split_once("/*").map_or(made, |(folder, _)| folder).trim_end_matches(".gz");
                assert!(script.contains(&format!("\"$stage/{place}\"")), "scripts/dist.sh does not make {source}");
            }
            None => assert!(!matching(&source).is_empty(), "{source} does not exist"),
        }
    }
}

/// The packages of npm whose code is in the pages have their licences in the release.
#[test]
fn the_licences_of_the_pages_name_every_package_in_its_version() {
    let licences = read("packaging/third-party-pages.txt");
    let manifest: serde_json::Value = serde_json::from_str(&read("web-wallet/package.json")).expect("JSON");
    let packages = manifest["dependencies"].as_object().expect("dependencies");
    assert!(!packages.is_empty());
    for (name, version) in packages {
        let line = format!("  {name} {} ", version.as_str().expect("a version"));
        assert!(licences.contains(&line), "packaging/third-party-pages.txt does not name {line}");
    }
    assert!(read("scripts/dist.sh").contains("cat packaging/third-party-pages.txt"));
}

/// The daemon is started by its operator. An upgrade restarts it without its socket: connections
/// wait there, and a socket fails when it is started after the daemon.
#[test]
fn the_package_starts_nothing_and_restarts_the_service_alone() {
    let metadata = metadata();
    for step in ["enable", "start", "stop-on-upgrade", "restart-after-upgrade"] {
        assert_eq!(metadata["systemd-units"][step].as_bool(), Some(false), "{step}");
    }
    assert!(read("packaging/debian/postinst").contains(" try-restart selfsame.service "));
}

/// The settings of a unit; a setting that is there twice has both values.
fn unit(path: &str) -> BTreeMap<String, Vec<String>> {
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in read(path).lines().filter(|line| !line.starts_with('#')) {
        if let Some((key, value)) = line.split_once('=') {
            settings.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    settings
}

fn sample(added: &str) -> Config {
    let folder = crate::harness::folder();
    let file = folder.path().join("selfsame.toml");
    fs::write(&file, read("config/production.toml") + added).expect("written");
    Config::load(Some(&file), std::iter::empty(), false, None).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_unit_names_what_the_package_installs() {
    let installed: Vec<String> = assets().into_iter().map(|(_, place)| place).collect();
    let service = unit("packaging/selfsame.service");
    for key in ["ExecStart", "ExecReload"] {
        let command: Vec<&str> = service[key][0].split(' ').collect();
        assert!(installed.iter().any(|place| place == command[0]), "{key}: {command:?} is not in the package");
        for file in command.iter().filter(|word| word.starts_with("/etc/")) {
            assert!(installed.iter().any(|place| place == file), "{key}: {file} is not in the package");
        }
    }
    let sample = sample("");
    let data = sample.data_dir.to_str().expect("text");
    assert_eq!(format!("/var/lib/{}", service["StateDirectory"][0]), data);
    assert_eq!(service["Environment"], [format!("SELFSAME_DATA_DIR={data}")]);
    assert!(service["ExecReload"][0].ends_with(&format!(" --data {data}")));
    let backups = sample.backup.folder.as_deref().and_then(Path::to_str).expect("a folder");
    assert_eq!(service["ReadWritePaths"], [format!("-{backups}")]);
    // Exit status 75 heals the store: systemd must not stop restarting after some of them.
    assert_eq!(service["Restart"], ["on-failure"]);
    assert_eq!(service["StartLimitIntervalSec"], ["0"]);
    assert_eq!(service["RestartPreventExitStatus"], ["2 78"]);
    let user = &service["User"][0];
    assert_eq!(&service["Group"][0], user);
    assert!(read("packaging/selfsame.sysusers").contains(&format!("\nu {user} - ")), "no user {user}");
    assert!(read("packaging/selfsame.sysusers").contains(data));
    assert!(read("packaging/selfsame.tmpfile").contains(&format!("\nd {backups} 0700 {user} {user} ")));
    assert!(read("packaging/debian/postinst").contains(&format!("chgrp {user} ")));
}

#[test]
fn the_socket_unit_has_the_addresses_of_the_sample() {
    let socket = unit("packaging/selfsame.socket");
    let addresses: Vec<String> = sample("").listen.iter().map(|(_, address)| address.to_string()).collect();
    assert_eq!(socket["ListenStream"], addresses);
}

/// An operator who starts the daemon before changing the file shows nothing to other machines.
#[test]
fn the_sample_serves_its_own_machine_only() {
    let sample = sample("");
    assert!(sample.listen.iter().all(|(_, address)| address.ip().is_loopback()));
    assert!(sample.urls.iter().all(|(_, url)| url.is_none()));
    assert!(sample.apps.is_empty() && sample.cors.allowed_origins.is_empty());
}

#[test]
fn the_settings_of_the_first_sign_in_go_behind_the_sample() {
    let config = sample(&read("config/first-sign-in.toml"));
    assert!(config.apps.iter().all(|app| app.id.starts_with("app_staging_")), "only staging has public keys");
    let page = read("docs/operations/install.md");
    assert!(page.contains(&config.apps[0].id) && page.contains(config.apps[0].redirect_uris[0].as_str()));
}

/// What the last stage of the Containerfile starts is what it copies.
#[test]
fn the_container_starts_the_program_that_it_holds() {
    let text = read("Containerfile");
    let (_, last) = text.rsplit_once("\nFROM ").expect("a stage");
    assert!(last.contains("\nENTRYPOINT [\"/usr/bin/selfsame\"]"), "{last}");
    assert!(text.contains("/out/usr/bin/selfsame") && last.contains("COPY --from=build"), "{text}");
    let data = format!("SELFSAME_DATA_DIR={}", sample("").data_dir.display());
    assert!(last.contains(&data), "{last}");
}
