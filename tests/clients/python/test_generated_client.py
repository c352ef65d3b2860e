"""A client that openapi-python-client generates from the description of a daemon with all interfaces at
one address.

The variable DAEMON names the daemon's program.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

import httpx

DAEMON = os.environ["DAEMON"]
GENERATOR = Path(sys.executable).with_name("openapi-python-client")
INTERFACES = ["SIGN_IN", "VERIFY", "GATEWAY", "INDEXER", "BRIDGE", "WALLET", "OPERATOR"]
APP = "app_staging_5e1f5a3e000000000000000000000001"


class GeneratedClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="selfsame-")
        cls.path = Path(cls.folder.name)
        cls.daemon = subprocess.Popen(
            [DAEMON, "serve", "--dev", "--data", cls.path / "data"],
            # The same address for all of them.
            env={**os.environ, **{f"SELFSAME_LISTEN__{name}": "127.0.0.1:0" for name in INTERFACES}},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        # The table that --dev prints begins with the addresses.
        cls.daemon.stdout.readline()
        cls.url = cls.daemon.stdout.readline().split()[1]
        while cls.daemon.stdout.readline().strip():
            pass
        (cls.path / "openapi.json").write_bytes(urllib.request.urlopen(f"{cls.url}/openapi.json").read())
        command = [GENERATOR, "generate", "--path", "openapi.json", "--meta", "none"]
        generated = subprocess.run(
            [*command, "--output-path", "selfsame_client"], cwd=cls.path, capture_output=True, text=True
        )
        assert generated.returncode == 0, generated.stdout + generated.stderr
        sys.path.insert(0, str(cls.path))

    @classmethod
    def tearDownClass(cls):
        cls.daemon.kill()
        cls.daemon.wait()
        cls.daemon.stdout.close()
        cls.folder.cleanup()

    def wallet(self, *words):
        wallet = [DAEMON, "wallet", *words, "--wallet", self.path / "wallet.json"]
        return subprocess.run(wallet, check=True, capture_output=True, text=True).stdout

    def test_accounts_and_errors(self):
        from selfsame_client import Client, models
        from selfsame_client.api.gateway import status
        from selfsame_client.api.indexer import inclusion_proof
        from selfsame_client.api.verification import verify

        self.wallet("new", "--gateway", self.url, "--indexer", self.url)
        request_id = re.search("gw_[0-9a-f-]+", self.wallet("create-account"))[0]
        # Longer than the wait below; the library's own bound is five seconds.
        client = Client(base_url=self.url, timeout=httpx.Timeout(90))
        accepted = status.sync(request_id, client=client, wait=30)
        self.assertEqual(accepted.status.state, "finalized")

        proof = inclusion_proof.sync(client=client, body=models.LeafIndexQuery(leaf_index="1"))
        self.assertEqual(len(proof.siblings), 30)
        unknown = inclusion_proof.sync(client=client, body=models.LeafIndexQuery(leaf_index="99"))
        self.assertEqual(unknown.code, "not_found")

        entry = models.UniquenessEntry(
            identifier="proof_of_human",
            issuer_schema_id=1,
            nullifier="0x2a",
            expires_at_min=4102444800,
            proof=["0x1", "0x2", "0x3", "0x4", "0x5"],
        )
        body = models.UniquenessRequest(
            protocol_version=models.CurrentVersion("4.0"),
            nonce="0x1",
            action="vote",
            environment=models.RequestedEnvironment("staging"),
            responses=[entry],
        )
        refused = verify.sync(APP, client=client, body=body)
        self.assertEqual((refused.code, refused.results[0].code), ("all_verifications_failed", "invalid_root"))


if __name__ == "__main__":
    unittest.main()
