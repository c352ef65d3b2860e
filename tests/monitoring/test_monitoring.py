"""The metrics, the alerts and the dashboard, with Prometheus itself.

The program that the variable DAEMON names runs with a folder of its own; wallets and clients give it
work while Prometheus reads its metrics. Needs `prometheus` and `promtool`.
"""

import base64
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

MONITORING = Path(__file__).parents[2] / "packaging" / "monitoring"

# Panels of what this run does not have: followed chains, failures, refusals, backups.
WITHOUT_DATA = {
    "Followed chains",
    "Refusals and failures by status",
    "Since the last backup",
    "Actors",
}

# Longer than anything here takes, also on a machine that is busy with other work, in seconds.
PATIENCE = 60


def reserve_port():
    """A TCP port for a program of this test, and its lock.

    All tests hold the UDP port of the same number as the lock. The system gives none of this range
    to connections.
    """
    for port in range(20_000, 32_000):
        lock = socket.socket(type=socket.SOCK_DGRAM)
        try:
            lock.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                return port, lock
        except OSError:
            lock.close()
    raise AssertionError("no port is free")


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read().decode()


def promtool(*words, text=None):
    """Runs promtool; its output, when it finds nothing to say against the input."""
    run = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True)
    output = run.stdout + run.stderr
    assert run.returncode == 0, output
    return output


class Receiver(http.server.BaseHTTPRequestHandler):
    """Accepts every webhook."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Monitored:
    """A daemon with work to do, and a Prometheus that reads its metrics each second."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="selfsame-")
        folder = Path(self.folder.name)
        self.data = folder / "data"
        variables = dict(os.environ)
        for host, name in enumerate(["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"], start=1):
            variables[f"SELFSAME_LISTEN__{name}"] = f"127.0.0.{host}:0"
        self.receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()
        secret = folder / "webhook.secret"
        secret.touch(mode=0o600)
        secret.write_text(f"whsec_{base64.b64encode(bytes(32)).decode()}")
        settings = folder / "selfsame.toml"
        settings.write_text(
            '[[webhooks]]\nid = "one"\nevents = ["root.added"]\n'
            f'url = "http://127.0.0.1:{self.receiver.server_port}/"\nsecret_file = "{secret}"\n'
        )
        command = [os.environ["DAEMON"], "serve", "--dev", "--config", str(settings), "--data", str(self.data)]
        self.daemon = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        # The table that --dev prints contains the addresses; an empty line ends it.
        self.urls = {}
        for line in self.daemon.stdout:
            words = line.split()
            if not words:
                break
            if len(words) == 2 and words[1].startswith("http"):
                self.urls.setdefault(words[0], words[1])
        target = self.urls["operator"].removeprefix("http://")
        configuration = folder / "prometheus.yml"
        configuration.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(MONITORING / "alerts.yml")],
                    "scrape_configs": [{"job_name": "selfsame", "static_configs": [{"targets": [target]}]}],
                }
            )
        )
        port, self.port_lock = reserve_port()
        self.prometheus_url = f"http://127.0.0.1:{port}"
        self.prometheus = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'prometheus'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wallet(self, name, *words):
        wallet = Path(self.folder.name) / f"{name}.json"
        command = [os.environ["DAEMON"], "wallet", *words, "--wallet", str(wallet)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def query(self, expression):
        address = f"{self.prometheus_url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            return json.loads(get(address))["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    def wait_for(self, expression):
        """Waits until the expression has a result."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if found := self.query(expression):
                    return found
            except (urllib.error.URLError, ConnectionError):
                pass
            time.sleep(0.1)
        raise AssertionError(f"{expression} has no result")

    def work(self):
        """Gives every interface something to do, several times while Prometheus looks on."""
        application = "app_staging_5e1f5a3e000000000000000000000001"
        for number in range(4):
            name = f"wallet-{number}"
            self.wallet(name, "new", "--gateway", self.urls["gateway"], "--indexer", self.urls["indexer"])
            self.wallet(name, "create-account")
            proof = self.wallet(
                name, "prove", "--app", application, "--action", "vote", "--signal", "hello",
                "--operator", self.urls["operator"], "--data", str(self.data),
            )  # fmt: skip
            request = urllib.request.Request(
                f"{self.urls['verification']}/api/v4/verify/{application}",
                data=proof.encode(),
                headers={"content-type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=PATIENCE).read()
            callback = "http://127.0.0.1:3000/callback"
            self.wallet(
                name, "sign-in", "--yes",
                f"{self.urls['sign-in']}/authorize?client_id={application}&redirect_uri={callback}"
                "&response_type=id_token&scope=openid&state=s&nonce=n",
                "--operator", self.urls["operator"], "--data", str(self.data),
            )  # fmt: skip
            self.wait_for(f"selfsame_registry_accounts >= {number + 1}")

    def stop(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.prometheus.terminate()
        assert self.daemon.wait(PATIENCE) == 0
        self.prometheus.wait(PATIENCE)
        self.port_lock.close()
        self.receiver.shutdown()
        self.receiver.server_close()
        self.folder.cleanup()


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.monitored = Monitored()
        cls.addClassCleanup(cls.monitored.stop)
        cls.monitored.work()

    def test_promtool_accepts_the_metrics(self):
        text = get(self.monitored.urls["operator"] + "/metrics")
        self.assertEqual(promtool("check", "metrics", text=text), "")

    def test_promtool_accepts_the_rules_and_their_tests(self):
        promtool("check", "rules", str(MONITORING / "alerts.yml"))
        promtool("test", "rules", str(MONITORING / "alerts.test.yml"))

    def test_every_alert_has_a_paragraph(self):
        rules = (MONITORING / "alerts.yml").read_text()
        page = (MONITORING.parents[1] / "docs" / "operations" / "observing.md").read_text()
        alerts = re.findall(r"- alert: (\w+)", rules)
        self.assertEqual(re.findall(r"^### (Selfsame\w+)$", page, re.MULTILINE), alerts)

    def test_prometheus_reads_the_metrics_and_the_rules(self):
        self.monitored.wait_for('up{job="selfsame"} == 1')
        rules = json.loads(get(self.monitored.prometheus_url + "/api/v1/rules"))
        states = {rule["name"]: rule["state"] for group in rules["data"]["groups"] for rule in group["rules"]}
        firing = [name for name, state in states.items() if state == "firing"]
        self.assertEqual(firing, [])
        # Prometheus asks for the OpenMetrics format.
        self.assertEqual(len(self.monitored.query("selfsame_registry_requests_total")), 3)

    def test_the_panels_of_the_dashboard_show_what_happened(self):
        dashboard = json.loads((MONITORING / "dashboard.json").read_text())
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 20)
        for panel in panels:
            for target in panel["targets"]:
                expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
                self.assertNotIn("$", expression)
                with self.subTest(panel["title"], expression=expression):
                    # A rate needs two samples.
                    wanted = self.monitored.query if panel["title"] in WITHOUT_DATA else self.monitored.wait_for
                    wanted(expression)


if __name__ == "__main__":
    unittest.main()
