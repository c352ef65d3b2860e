#!/usr/bin/env python3
"""Which source files a request goes through: the daemon runs under callgrind, each walk is sent once
(after the same walk once before, so that nothing is counted that only a first request does), and the
files of this repository are printed whose lines were executed, without those that an idle daemon
executes.

Usage: scripts/walks.py [PROGRAM [SOURCES]]   needs valgrind (Debian has it), and a PROGRAM with line tables: `cargo build --release`
"""
import base64, ctypes, errno, http.server, json, os, re, struct, subprocess, sys, tempfile, threading, time
import urllib.error, urllib.parse, urllib.request

PROGRAM = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/selfsame")
ROOT = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.getcwd())
APP = "app_staging_5e1f5a3e000000000000000000000001"
CALLBACK = "http://localhost:3000/callback"
PORTS = dict(zip(["sign_in", "verify", "gateway", "indexer", "operator", "bridge", "wallet"], range(18080, 18087)))


def refuse_auxv():
    """Lets the system call prctl(PR_GET_AUXV) fail: it would tell the program of a vDSO that valgrind hides."""
    instructions = [  # (code, jump if true, jump if false, operand) of a seccomp filter
        (0x20, 0, 0, 0), (0x15, 0, 3, 157), (0x20, 0, 0, 16), (0x15, 0, 1, 0x41555856),
        (0x06, 0, 0, 0x00050000 | errno.EINVAL), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, os.strerror(ctypes.get_errno())


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def call(interface, path, body=None, headers=None, method=None):
    url = path if path.startswith("http") else f"http://127.0.0.1:{PORTS[interface]}{path}"
    data = None
    headers = dict(headers or {})
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers.setdefault("content-type", "application/json")
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with OPENER.open(request, timeout=240) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


class Daemon:
    def __init__(self, folder):
        self.folder = folder
        listen = "\n".join(f'{name} = "127.0.0.1:{port}"' for name, port in PORTS.items())
        os.mkdir(f"{folder}/backups")
        with open(f"{folder}/selfsame.toml", "w") as file:
            file.write(f'data_dir = "{folder}/data"\n[listen]\n{listen}\n')
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--dump-instr=no",
             f"--callgrind-out-file={folder}/out", PROGRAM, "serve", "--dev", "--config", f"{folder}/selfsame.toml"],
            cwd=folder, stdout=open(f"{folder}/log", "w"), stderr=subprocess.STDOUT, preexec_fn=refuse_auxv)
        while True:
            time.sleep(1)
            if self.process.poll() is not None:
                sys.exit(open(f"{folder}/log").read())
            try:
                if call("operator", "/ready")[0] == 200:
                    break
            except OSError:
                pass
        self.idle = set()
        self.zero()
        time.sleep(70)
        self.idle = self.lines()

    def control(self, *options):
        subprocess.run(["callgrind_control", *options, str(self.process.pid)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def zero(self):
        self.control("-z")

    def lines(self):
        """The executed (file, line) since the last zero, in this repository's product sources."""
        before = set(os.listdir(self.folder))
        self.control("-d")
        deadline = time.time() + 60
        while not (new := [name for name in os.listdir(self.folder) if name not in before and name.startswith("out.")]):
            assert time.time() < deadline, "no dump"
            time.sleep(0.3)
        time.sleep(1.5)
        found, file, called = set(), None, False
        for name in new:
            with open(f"{self.folder}/{name}", errors="replace") as dump:
                for line in dump:
                    head = line[:3]
                    if head in ("fl=", "fi=", "fe="):
                        file = product_file(line[3:].strip())
                    elif line.startswith("calls="):
                        called = True
                    elif file and line[:1].isdigit():
                        if not called:
                            found.add((file, int(line.split()[0])))
                        called = False
                    elif line[:1].isdigit():
                        called = False
            os.remove(f"{self.folder}/{name}")
        return {entry for entry in found if entry[1] > 0} - self.idle


def product_file(path):
    if not path.startswith(ROOT + "/"):
        # Workspace crates are compiled with paths relative to the workspace.
        if path.startswith("/") or not os.path.exists(f"{ROOT}/{path}"):
            return None
        return path
    path = path[len(ROOT) + 1:]
    return path if re.match(r"(protocol|storage|actors|wallet|interfaces|cluster|src)/", path) else None


def wallet(folder, *arguments, check=True, gateway=None):
    environment = dict(os.environ, WALLET_GATEWAY=gateway or f"http://127.0.0.1:{PORTS['gateway']}",
                       WALLET_INDEXER=f"http://127.0.0.1:{PORTS['indexer']}")
    result = subprocess.run([PROGRAM, "wallet", *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if check and result.returncode:
        sys.exit(f"wallet {arguments}: {result.stderr}")
    return result.stdout


def creation(folder, name):
    """The body of the request with which a wallet creates its account: taken from the wallet, not sent on."""
    bodies = []

    class Gateway(http.server.BaseHTTPRequestHandler):
        def answer(self, status, body):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer(*call("gateway", self.path))

        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.answer(400, b'{"code":"bad_request","message":"kept"}')

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wallet(folder, "create-account", "--wallet", f"{folder}/{name}.json", check=False,
           gateway=f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    return bodies[0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(folder)
        operator = ["--operator", f"http://127.0.0.1:{PORTS['operator']}"]
        data = ["--data-dir", f"{folder}/data"]
        help_text = wallet(folder, "prove", "--help")
        extra = (operator if "--operator" in help_text else []) + (["--data", f"{folder}/data"] if "--data" in help_text else [])
        token = ""
        for name in os.listdir(f"{folder}/data"):
            if "token" in name:
                token = open(f"{folder}/data/{name}").read().strip()
        authorization = {"authorization": f"Bearer {token}"}

        for name in ("first", "second", "third"):
            wallet(folder, "new", "--wallet", f"{folder}/{name}.json")
        wallet(folder, "create-account", "--wallet", f"{folder}/first.json", "--timeout", "5m")

        def prove(kind, action):
            return wallet(folder, "prove", "--wallet", f"{folder}/first.json", *extra, "--app", APP, "--action", action,
                          *(["--kind", kind] if kind else [])).encode()

        def authorize_url():
            query = urllib.parse.urlencode(dict(client_id=APP, redirect_uri=CALLBACK, response_type="code",
                                                scope="openid", state="s", nonce="n"))
            return f"http://127.0.0.1:{PORTS['sign_in']}/authorize?{query}"

        def code():
            out = wallet(folder, "sign-in", "--wallet", f"{folder}/first.json", *extra, "--yes", authorize_url())
            return re.search(r"code=([^&\s]+)", out).group(1)

        def token_request(value):
            basic = base64.b64encode(f"{APP}:sk_dev_only".encode()).decode()
            body = urllib.parse.urlencode(dict(grant_type="authorization_code", code=value, redirect_uri=CALLBACK)).encode()
            return call("sign_in", "/token", body, {"authorization": f"Basic {basic}",
                                                     "content-type": "application/x-www-form-urlencoded"})

        def bridge_request():
            return call("bridge", "/request", {"iv": "AAAAAAAAAAAAAAAA", "payload": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"})

        legacy = [prove(None, f"walk{n}") for n in range(2)]
        uniqueness = [prove("uniqueness", f"step{n}") for n in range(2)]
        codes = [code(), code()]
        walks = [
            ("POST /inclusion-proof", lambda n: call("indexer", "/inclusion-proof", {"leaf_index": "1"})),
            ("POST /create-account to final", lambda n: create(n)),
            ("POST verify legacy", lambda n: call("verify", f"/api/v4/verify/{APP}", legacy[n])),
            ("POST verify uniqueness", lambda n: call("verify", f"/api/v4/verify/{APP}", uniqueness[n])),
            ("GET /authorize (page)", lambda n: call("sign_in", authorize_url(), headers={"accept": "text/html"})),
            ("POST /token", lambda n: token_request(codes[n])),
            ("POST /request (bridge)", lambda n: bridge_request()),
            ("POST /reload", lambda n: call("operator", "/reload", b"", authorization, "POST")),
            ("POST /backups", lambda n: call("operator", "/backups", {"folder": f"{folder}/backups/{n}"}, authorization)),
        ]

        creations = [creation(folder, name) for name in ("second", "third")]

        def create(n):
            status, answer = call("gateway", "/create-account", creations[n])
            request = json.loads(answer)["request_id"]
            while (state := json.loads(call("gateway", f"/status/{request}")[1])["status"]["state"]) != "finalized":
                assert state != "failed", state
                time.sleep(0.2)
            return status, answer

        for name, walk in walks:
            status, answer = walk(0)
            time.sleep(2)
            daemon.zero()
            status, answer = walk(1)
            time.sleep(2)
            lines = daemon.lines()
            files = sorted({file for file, _ in lines})
            by_crate = {}
            for file in files:
                by_crate[file.split("/")[0]] = by_crate.get(file.split("/")[0], 0) + 1
            total = sum(sum(1 for _ in open(f"{ROOT}/{file}", errors="replace")) for file in files if os.path.exists(f"{ROOT}/{file}"))
            http = sum(1 for file in files if "/http/" in file)
            print(f"{name:32} status {status}  files {len(files):3} (http {http})  lines executed {len(lines):5}"
                  f"  lines of those files {total}  {by_crate}", flush=True)
            print("    " + " ".join(files), flush=True)
            if status >= 400:
                print("    " + answer[:300].decode(errors="replace"))
        daemon.process.terminate()
        daemon.process.wait()


main()
