"""Authlib with its default checks: the code flow with PKCE, and the ID tokens of the other flows.

The program that the variable DAEMON names runs with a folder of its own.
"""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import requests
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken, HybridIDToken, ImplicitIDToken
from authlib.oidc.discovery import OpenIDProviderMetadata
from joserfc import jwt
from joserfc.jwk import KeySet

CLIENT_ID = "app_staging_5e1f5a3e000000000000000000000001"
CLIENT_SECRET = "sk_dev_only"
CALLBACK = "http://127.0.0.1:3000/callback"

# Longer than a busy machine needs for an answer, in seconds.
PATIENCE = 60


class Daemon:
    """A daemon and a wallet."""

    def __init__(self):
        self.program = os.environ["DAEMON"]
        self.folder = tempfile.TemporaryDirectory(prefix="selfsame-")
        self.data = Path(self.folder.name) / "data"
        self.wallet = Path(self.folder.name) / "wallet.json"
        variables = dict(os.environ)
        for host, name in enumerate(["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"], start=1):
            variables[f"SELFSAME_LISTEN__{name}"] = f"127.0.0.{host}:0"
        command = [self.program, "serve", "--dev", "--data", str(self.data)]
        self.process = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        # The table that --dev prints contains the addresses; an empty line ends it.
        self.urls = {}
        for line in self.process.stdout:
            words = line.split()
            if not words:
                break
            if len(words) == 2 and words[1].startswith("http"):
                self.urls.setdefault(words[0], words[1])
        self.run("new", "--gateway", self.urls["gateway"], "--indexer", self.urls["indexer"])
        self.run("create-account")

    def run(self, *words):
        command = [self.program, "wallet", *words, "--wallet", str(self.wallet)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def answer(self, url):
        """Returns where the browser is sent after the wallet has answered."""
        output = self.run("sign-in", "--yes", url, "--operator", self.urls["operator"], "--data", str(self.data))
        return output.strip().splitlines()[-1]

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()


class RelyingParty(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.issuer = cls.daemon.urls["sign-in"]
        # The daemon is also stopped when the rest of the setup fails.
        cls.addClassCleanup(cls.daemon.stop)
        document = requests.get(f"{cls.issuer}/.well-known/openid-configuration", timeout=PATIENCE).json()
        cls.metadata = OpenIDProviderMetadata(document)
        cls.keys = KeySet.import_key_set(requests.get(cls.metadata["jwks_uri"], timeout=PATIENCE).json())

    def session(self, **more):
        return OAuth2Session(CLIENT_ID, CLIENT_SECRET, redirect_uri=CALLBACK, scope="openid email profile", **more)

    def claims(self, kind, token, nonce, **parameters):
        """Returns the claims of an ID token after all checks of Authlib for its kind."""
        decoded = jwt.decode(token, self.keys, algorithms=["RS256"])
        options = {"iss": {"essential": True, "values": [self.issuer]}, "aud": {"essential": True, "value": CLIENT_ID}}
        params = {"nonce": nonce, "client_id": CLIENT_ID, **parameters}
        claims = kind(decoded.claims, decoded.header, options, params)
        claims.validate()
        self.assertRegex(claims["sub"], re.compile(r"^0x[0-9a-f]{64}$"))
        return claims

    def test_metadata(self):
        # The list also has the name that the interface description uses for the algorithm.
        self.assertIn("RS256", self.metadata["id_token_signing_alg_values_supported"])
        self.metadata.validate_response_types_supported()
        self.metadata.validate_subject_types_supported()
        self.metadata.validate_id_token_signing_alg_values_supported()

    def test_code_with_pkce(self):
        session = self.session(code_challenge_method="S256")
        verifier, nonce = generate_token(48), generate_token()
        url, state = session.create_authorization_url(
            self.metadata["authorization_endpoint"], code_verifier=verifier, nonce=nonce
        )
        callback = self.daemon.answer(url)
        token = session.fetch_token(
            self.metadata["token_endpoint"], authorization_response=callback, state=state, code_verifier=verifier
        )
        claims = self.claims(CodeIDToken, token["id_token"], nonce, access_token=token["access_token"])
        info = session.get(self.metadata["userinfo_endpoint"]).json()
        self.assertEqual((info["sub"], info["email"]), (claims["sub"], claims["email"]))
        introspected = session.introspect_token(self.metadata["introspection_endpoint"], token=token["access_token"])
        self.assertTrue(introspected.json()["active"])

    def front_channel(self, response_type):
        nonce, state = generate_token(), generate_token()
        url, _ = self.session().create_authorization_url(
            self.metadata["authorization_endpoint"], state=state, nonce=nonce, response_type=response_type
        )
        response = {name: values[0] for name, values in parse_qs(urlsplit(self.daemon.answer(url)).fragment).items()}
        self.assertEqual((response["state"], response["iss"]), (state, self.issuer))
        return response, nonce

    def test_implicit(self):
        response, nonce = self.front_channel("id_token token")
        self.claims(ImplicitIDToken, response["id_token"], nonce, access_token=response["access_token"])

    def test_hybrid(self):
        response, nonce = self.front_channel("code id_token token")
        parameters = {"code": response["code"], "access_token": response["access_token"]}
        self.claims(HybridIDToken, response["id_token"], nonce, **parameters)

    def test_form_post(self):
        url, state = self.session().create_authorization_url(
            self.metadata["authorization_endpoint"], nonce=generate_token(), response_mode="form_post"
        )
        posted = json.loads(self.daemon.answer(url))
        self.assertEqual((posted["action"], posted["fields"]["state"]), (CALLBACK, state))
        token = self.session().fetch_token(self.metadata["token_endpoint"], code=posted["fields"]["code"])
        self.assertIn("id_token", token)


if __name__ == "__main__":
    unittest.main()
