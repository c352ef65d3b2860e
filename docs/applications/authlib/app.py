"""An application that signs people in with Authlib and Flask."""

import os
import secrets

from authlib.integrations.base_client import OAuthError
from authlib.integrations.flask_client import OAuth
from flask import Flask, redirect, render_template_string, session

ISSUER = os.environ.get("ISSUER", "http://127.0.0.1:8080")
PORT = int(os.environ.get("PORT", "3000"))
APP_URL = os.environ.get("APP_URL", f"http://localhost:{PORT}")

app = Flask(__name__)
# The key signs the cookie of Flask's session. With a key of the environment, sessions outlive a restart.
app.secret_key = os.environ.get("SECRET_KEY") or secrets.token_hex(32)
app.config.update(SESSION_COOKIE_SAMESITE="Lax", SESSION_COOKIE_SECURE=APP_URL.startswith("https:"))

provider = OAuth(app).register(
    "selfsame",
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
    server_metadata_url=f"{ISSUER}/.well-known/openid-configuration",
    client_kwargs={"scope": "openid", "code_challenge_method": "S256"},
)

PAGE = """<!doctype html>
<html lang="en"><title>Application</title><h1>Application</h1>
{% if error %}
<p>You are not signed in.</p><p>{{ error }}</p><a href="/sign-in">Try again</a>
{% elif person %}
<p>You are <code>{{ person }}</code>.</p><form method="post" action="/sign-out"><button>Sign out</button></form>
{% else %}
<a href="/sign-in">Sign in</a>
{% endif %}
</html>"""


@app.get("/")
def home():
    return render_template_string(PAGE, person=session.get("person"))


@app.get("/sign-in")
def sign_in():
    """Sends the browser to the sign-in page. Authlib keeps state, nonce and verifier in the session."""
    return provider.authorize_redirect(f"{APP_URL}/callback")


@app.get("/callback")
def callback():
    """Exchanges the code. Authlib checks `state`, and the signature and claims of the ID token."""
    token = provider.authorize_access_token()
    session.clear()
    session["person"] = token["userinfo"]["sub"]
    session["id_token"] = token["id_token"]
    return redirect("/")


@app.post("/sign-out")
def sign_out():
    """Ends the session here, and then the one of the sign-in page."""
    id_token = session.get("id_token")
    session.clear()
    if id_token is None:
        return redirect("/")
    return provider.logout_redirect(post_logout_redirect_uri=f"{APP_URL}/", id_token_hint=id_token)


@app.errorhandler(OAuthError)
def not_signed_in(error):
    """`error.error` is the code of the standard, for example access_denied after a refusal."""
    return render_template_string(PAGE, error=f"{error.error}: {error.description}"), 400


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=PORT)
