"""Contract tests: what each interface does, against what its description says.

Starts the program that the variable DAEMON names, and lets schemathesis make requests from
`/openapi.json` of each interface: from its examples, at the bounds of its schemas, at random with a
fixed seed, and along its links. `schemathesis.toml` says what is by design.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DAEMON = os.environ["DAEMON"]
CONFIG = Path(__file__).resolve().with_name("schemathesis.toml")
SCHEMATHESIS = Path(sys.executable).absolute().with_name("schemathesis")

# The interfaces by the name that --dev prints, with the variable of their address.
INTERFACES = {
    "sign-in": "SIGN_IN",
    "verification": "VERIFY",
    "gateway": "GATEWAY",
    "indexer": "INDEXER",
    "bridge": "BRIDGE",
    "wallet": "WALLET",
    "operator": "OPERATOR",
}

SEED = 20261123


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="selfsame-")
        data = Path(cls.folder.name) / "data"
        # Each interface has an address of its own, so each has a document of its own.
        names = enumerate(INTERFACES.values(), start=1)
        addresses = {f"SELFSAME_LISTEN__{name}": f"127.0.0.{host}:0" for host, name in names}
        cls.daemon = subprocess.Popen(
            [DAEMON, "serve", "--dev", "--data", data],
            env={**os.environ, **addresses},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        cls.urls = {}
        # The table that --dev prints contains the addresses; an empty line ends it.
        for line in cls.daemon.stdout:
            words = line.split()
            if not words:
                break
            if len(words) == 2 and words[0] in INTERFACES:
                cls.urls[words[0]] = words[1]
        cls.token = (data / "operator.token").read_text().strip()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.kill()
        cls.daemon.wait()
        cls.daemon.stdout.close()
        cls.folder.cleanup()

    def check(self, interface, *words):
        command = [SCHEMATHESIS, "--config-file", CONFIG, "run", f"{self.urls[interface]}/openapi.json"]
        # The filters of the configuration are for all interfaces, so each run has some that match nothing.
        options = ["--seed", str(SEED), "--workers", "1", "--no-color", "--warnings", "off"]
        # It keeps what it found in its folder and tries that first, so each run has a new folder.
        run = subprocess.run(
            [*command, *options, *words], cwd=self.folder.name, capture_output=True, text=True, timeout=1200
        )
        self.assertEqual(run.returncode, 0, run.stdout[-20000:] + run.stderr[-2000:])
        # The daemon still answers.
        self.assertIsNone(self.daemon.poll())

    def test_sign_in(self):
        self.check("sign-in")

    def test_verification(self):
        self.check("verification")

    def test_gateway(self):
        self.check("gateway")

    def test_indexer(self):
        self.check("indexer")

    def test_bridge(self):
        self.check("bridge")

    def test_wallet(self):
        self.check("wallet")

    def test_operator(self):
        # Backups would be made in folders of this machine.
        token = ["--header", f"Authorization: Bearer {self.token}"]
        self.check("operator", *token, "--exclude-operation-id", "begin_backup")


if __name__ == "__main__":
    unittest.main()
