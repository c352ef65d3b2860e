#!/usr/bin/env bash
# Installs the package of `make dist` on clean Debian systems without a compiler, starts the unit
# under a systemd of their own, and signs in by the steps of docs/operations/install.md. Then it
# tries reload, watchdog, socket, upgrade, removal and purge. Prints what each part took.
# Usage: scripts/package-test.sh BUILD [SUITE...], as root; BUILD is the output folder of cargo, and
# the suites are bookworm and trixie by default. The systems have no network while they run.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:?the output folder of cargo is missing}")
shift
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(bookworm trixie)
if ! package=$(ls "$build"/dist/selfsame_*.deb 2>/dev/null); then
    echo "There is no package in $build/dist; make it by: make dist" >&2
    exit 1
fi
client_id=app_staging_5e1f5a3e000000000000000000000003
redirect_uri=http://localhost:3000/callback
# RFC 7636, appendix B.
code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk
code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM

if [ "$(id -u)" -ne 0 ]; then
    echo "scripts/package-test.sh makes and starts systems, so it needs root." >&2
    exit 1
fi

say() { printf '%s, after %s s: %s\n' "$suite" "$SECONDS" "$*"; }
fail() { say "FAILED: $*" >&2; journal >&2; exit 1; }
journal() { inside journalctl --unit selfsame --no-pager --lines 30 --output cat 2>/dev/null || true; }
# Runs a command in the started system.
inside() { nsenter --target "$leader" --all -- /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
# The same as an ordinary user, in that user's folder.
as_user() { inside runuser --login tester --command "$*"; }
property() { inside systemctl show --property "$1" --value selfsame; }
# Waits until a command succeeds, for at most a number of seconds.
within() {
    local seconds=$1 began=$SECONDS
    shift
    until "$@" >/dev/null 2>&1; do
        [ $((SECONDS - began)) -lt "$seconds" ] || return 1
        sleep 0.2
    done
}
is() { [ "$(property "$1")" = "$2" ]; }

stop_system() {
    # systemd's signal for the end of the system.
    if [ -n "${leader:-}" ]; then kill -s RTMIN+4 "$leader" 2>/dev/null || true; fi
    if [ -n "${machine:-}" ]; then wait "$machine" 2>/dev/null || true; fi
    leader='' machine=''
}
cleanup() {
    stop_system
    rm -rf "${root:-}"
}
trap cleanup EXIT

# A Debian as its installer makes it, less what a test does not need: systemd, apt, and curl.
make_base() {
    base=$build/package-test/$suite
    [ -f "$base/made" ] && return
    rm -rf "$base"
    mkdir -p "$build/package-test"
    say "making a clean system"
    debootstrap --variant=minbase --include=systemd-sysv,dbus,curl "$suite" "$base" >"$base.log" || fail "see $base.log"
    chroot "$base" useradd --create-home --shell /bin/bash tester
    touch "$base/made"
}

start_system() {
    root=$(mktemp -d "$build/package-test/run.XXXXXX")
    cp -a "$base/." "$root/"
    cp "$package" "$root/root/selfsame.deb"
    # The packages that this one needs, without the network later.
    chroot "$root" sh -c 'apt-get update -qq && apt-get install -qq --download-only --yes /root/selfsame.deb' >/dev/null
    systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --private-network --boot --console=pipe \
        </dev/null >"$root.console" 2>&1 &
    machine=$!
    within 20 pgrep --parent "$machine" || fail "the system does not start"
    leader=$(pgrep --parent "$machine")
    within 60 is_booted || fail "the system does not come up"
}
is_booted() { grep -qE '^(running|degraded)$' <<<"$(inside systemctl is-system-running)"; }

install_and_sign_in() {
    for compiler in cc gcc c++ clang rustc cargo; do
        if inside sh -c "command -v $compiler" >/dev/null; then fail "the system has a compiler: $compiler"; fi
    done
    local began=$EPOCHREALTIME
    inside apt-get install --yes -qq /root/selfsame.deb >"$root.apt" 2>&1 || fail "apt: $(cat "$root.apt")"
    local installed=$EPOCHREALTIME
    if ! is ActiveState inactive || ! is UnitFileState disabled; then fail "the installation starts or enables the unit"; fi
    [ "$(inside stat --format '%U:%G %a' /etc/selfsame/selfsame.toml)" = 'root:selfsame 640' ] || fail "mode of the configuration"
    inside runuser -u selfsame -- selfsame config check --config /etc/selfsame/selfsame.toml || fail "config check"
    inside sh -c 'cat /usr/share/doc/selfsame/examples/first-sign-in.toml >>/etc/selfsame/selfsame.toml'
    inside systemctl enable --quiet --now selfsame || fail "the unit does not start"
    local started=$EPOCHREALTIME
    # Type=notify: a started unit serves.
    inside curl --silent --fail http://127.0.0.1:8084/ready >/dev/null || fail "a started unit is not ready"
    as_user selfsame wallet new >/dev/null || fail "no wallet"
    grep -q '^leaf index' <<<"$(as_user selfsame wallet create-account)" || fail "no account"
    local url="http://127.0.0.1:8080/authorize?client_id=$client_id&redirect_uri=$redirect_uri&response_type=code"
    url+="&scope=openid&state=s&code_challenge=$code_challenge&code_challenge_method=S256"
    local answer code token
    answer=$(as_user "selfsame wallet sign-in --yes '$url'" | tail -1) || fail "no sign-in"
    code=$(sed -n 's/.*[?&]code=\([^&]*\).*/\1/p' <<<"$answer")
    [ -n "$code" ] || fail "no code: $answer"
    token=$(inside curl --silent --fail http://127.0.0.1:8080/token --data grant_type=authorization_code \
        --data "code=$code" --data "client_id=$client_id" --data "redirect_uri=$redirect_uri" \
        --data "code_verifier=$code_verifier") || fail "no token"
    grep -q '"id_token"' <<<"$token" || fail "no ID token: $token"
    local ended=$EPOCHREALTIME
    say "$(inside selfsame --version)"
    say "installed in $(seconds "$began" "$installed") s, started after $(seconds "$began" "$started") s, signed in after $(seconds "$began" "$ended") s"
}
seconds() { awk -v from="$1" -v to="$2" 'BEGIN { printf "%.1f", to - from }'; }

# What the unit promises.
operate() {
    local pid
    local problems
    problems=$(inside sh -c 'systemd-analyze verify --man=no selfsame.service selfsame.socket 2>&1') || fail "systemd-analyze verify: $problems"
    [ -z "$problems" ] || say "systemd-analyze verify: $problems"
    say "$(inside systemd-analyze security --no-pager selfsame.service | tail -1)"
    [ "$(inside stat --format '%U %a' /var/lib/selfsame)" = 'selfsame 700' ] || fail "mode of the data folder"

    inside sed -i 's/^requests = 60$/requests = 61/' /etc/selfsame/selfsame.toml
    inside systemctl reload selfsame || fail "a good configuration is refused"
    inside sed -i 's/^requests = 61$/requests = 0/' /etc/selfsame/selfsame.toml
    if inside systemctl reload selfsame 2>/dev/null; then fail "a wrong configuration is reloaded"; fi
    is ActiveState active || fail "a refused reload ends the daemon"
    if inside systemctl restart selfsame 2>/dev/null; then fail "a wrong configuration starts"; fi
    if ! is ExecMainStatus 78 || ! is ActiveState failed; then fail "a wrong configuration is started again"; fi
    inside sed -i 's/^requests = 0$/requests = 60/' /etc/selfsame/selfsame.toml
    inside systemctl reset-failed selfsame
    inside systemctl start selfsame
    say "reload: a good configuration is taken over, a wrong one refused; a start with it ends with status 78"

    # A backup by the schedule's folder: the sandbox lets the daemon write it.
    inside runuser -u selfsame -- selfsame backup /var/backups/selfsame/by-hand --data /var/lib/selfsame >/dev/null || fail "backup"
    inside runuser -u selfsame -- selfsame backup verify /var/backups/selfsame/by-hand >/dev/null || fail "backup verify"
    say "a backup is made and verified"

    # The watchdog, with a shorter time.
    inside mkdir -p /run/systemd/system/selfsame.service.d
    inside sh -c 'printf "[Service]\nWatchdogSec=2\n" >/run/systemd/system/selfsame.service.d/watchdog.conf'
    inside systemctl daemon-reload
    inside systemctl restart selfsame
    pid=$(property MainPID)
    sleep 5
    is MainPID "$pid" || fail "the watchdog kills a daemon that works"
    inside sh -c "kill -s STOP $pid"
    within 30 restarted_from "$pid" || fail "the watchdog does not replace a stuck daemon"
    inside rm -r /run/systemd/system/selfsame.service.d
    inside systemctl daemon-reload
    say "watchdog: a stopped process is killed and replaced"

    inside systemctl stop selfsame
    is Result success || fail "the stop fails"
    inside systemctl start selfsame.socket
    [ "$(inside curl --silent --max-time 60 --output /dev/null --write-out '%{http_code}' http://127.0.0.1:8082/health)" = 200 ] \
        || fail "a connection does not start the daemon"
    is ActiveState active || fail "the socket does not start the daemon"
    # Connections that are made during a restart wait.
    inside systemctl restart --no-block selfsame
    for _ in 1 2 3 4 5 6 7 8; do
        inside curl --silent --fail --max-time 60 --output /dev/null http://127.0.0.1:8082/health || fail "a connection fails during a restart"
    done
    say "socket: a connection starts the daemon, and waits during a restart"
}
restarted_from() { [ "$(property MainPID)" != "$1" ] && is ActiveState active; }

since_when_the_socket_listens() { inside systemctl show --property ActiveEnterTimestampMonotonic --value selfsame.socket; }

upgrade_and_remove() {
    local pid socket_since
    dpkg-deb --raw-extract "$package" "$root.next"
    sed -i 's/^\(Version: .*\)$/\1+next/' "$root.next/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$root.next" "$root/root/next.deb" >/dev/null
    rm -rf "$root.next"
    pid=$(property MainPID)
    socket_since=$(since_when_the_socket_listens)
    inside apt-get install --yes -qq /root/next.deb >"$root.apt" 2>&1 || fail "apt: $(cat "$root.apt")"
    restarted_from "$pid" || fail "an upgrade does not restart the daemon: $(cat "$root.apt")"
    [ "$(since_when_the_socket_listens)" = "$socket_since" ] || fail "an upgrade restarts the socket: $(cat "$root.apt")"
    inside grep -q "$client_id" /etc/selfsame/selfsame.toml || fail "an upgrade changes the configuration"
    [ "$(inside stat --format '%U:%G %a' /etc/selfsame/selfsame.toml)" = 'root:selfsame 640' ] || fail "mode of the configuration after an upgrade"
    inside curl --silent --fail --max-time 60 http://127.0.0.1:8084/ready >/dev/null || fail "not ready after an upgrade"
    say "upgrade: the running daemon is restarted, socket and configuration stay"

    inside apt-get remove --yes -qq selfsame >"$root.apt" 2>&1 || fail "apt: $(cat "$root.apt")"
    pgrep --ns "$leader" --nslist pid --exact selfsame >/dev/null && fail "a removed daemon runs"
    inside test -f /etc/selfsame/selfsame.toml || fail "a removal takes the configuration"
    inside apt-get purge --yes -qq selfsame >"$root.apt" 2>&1 || fail "apt: $(cat "$root.apt")"
    grep -q '/var/lib/selfsame and the user selfsame remain' "$root.apt" || fail "a purge does not say what remains"
    inside test -e /etc/selfsame && fail "a purge leaves the configuration"
    inside test -d /var/lib/selfsame/store || fail "a purge takes the data"
    say "removal: the daemon is stopped; a purge takes the configuration and leaves the data"
}

if ! lintian --fail-on error,warning "$package"; then
    echo "lintian finds faults in $package" >&2
    exit 1
fi
for suite in "${suites[@]}"; do
    make_base
    start_system
    install_and_sign_in
    operate
    upgrade_and_remove
    cleanup
    rm -f "$build"/package-test/run.*
    say "passed"
done
