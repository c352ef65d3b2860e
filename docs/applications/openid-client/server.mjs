// An application that signs people in with openid-client.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import * as client from "openid-client";

const { ISSUER = "http://127.0.0.1:8080", CLIENT_ID, CLIENT_SECRET, PORT = "3000" } = process.env;
const APP_URL = process.env.APP_URL ?? `http://localhost:${PORT}`;
const REDIRECT_URI = `${APP_URL}/callback`;

// The library refuses plain http unless it is allowed. Only an issuer on this machine may need it.
const execute = ISSUER.startsWith("http://127.0.0.") ? [client.allowInsecureRequests] : [];
const config = await client.discovery(new URL(ISSUER), CLIENT_ID, CLIENT_SECRET, undefined, { execute });

// What the application knows about each browser, by the value of its cookie. Use the sessions of
// your framework here.
const sessions = new Map();

function sessionOf(request) {
  const id = /(?:^|; )session=([0-9a-f-]{36})/.exec(request.headers.cookie ?? "")?.[1];
  return sessions.get(id);
}

// Gives the browser a new session in place of its old one.
function setSession(request, response, session) {
  const old = sessionOf(request);
  for (const [id, value] of sessions) if (value === old) sessions.delete(id);
  const id = randomUUID();
  sessions.set(id, session);
  const secure = APP_URL.startsWith("https:") ? "; Secure" : "";
  response.setHeader("set-cookie", `session=${id}; Path=/; HttpOnly; SameSite=Lax${secure}`);
}

function redirect(response, url) {
  response.writeHead(303, { location: String(url) }).end();
}

function page(response, status, content) {
  response.writeHead(status, { "content-type": "text/html; charset=utf-8" });
  response.end(`<!doctype html><html lang="en"><title>Application</title><h1>Application</h1>${content}</html>`);
}

const escape = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

function home(request, response) {
  const person = sessionOf(request)?.person;
  if (!person) return page(response, 200, '<a href="/sign-in">Sign in</a>');
  const button = '<form method="post" action="/sign-out"><button>Sign out</button></form>';
  page(response, 200, `<p>You are <code>${escape(person.sub)}</code>.</p>${button}`);
}

// Sends the browser to the sign-in page. The session keeps what the answer is checked with.
async function signIn(request, response) {
  const expected = {
    pkceCodeVerifier: client.randomPKCECodeVerifier(),
    expectedState: client.randomState(),
    expectedNonce: client.randomNonce(),
  };
  setSession(request, response, { expected });
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT_URI,
    scope: "openid",
    state: expected.expectedState,
    nonce: expected.expectedNonce,
    code_challenge: await client.calculatePKCECodeChallenge(expected.pkceCodeVerifier),
    code_challenge_method: "S256",
  });
  redirect(response, url);
}

// Exchanges the code. The library checks `state`, `iss`, and the signature and claims of the ID token.
async function callback(request, response) {
  const expected = sessionOf(request)?.expected;
  if (!expected) return page(response, 400, "<p>This browser has begun no sign-in.</p>");
  const tokens = await client.authorizationCodeGrant(config, new URL(request.url, APP_URL), expected);
  setSession(request, response, { person: tokens.claims(), idToken: tokens.id_token });
  redirect(response, "/");
}

// Ends the session here, and then the one of the sign-in page.
function signOut(request, response) {
  const id_token_hint = sessionOf(request)?.idToken;
  setSession(request, response, {});
  if (!id_token_hint) return redirect(response, "/");
  redirect(response, client.buildEndSessionUrl(config, { id_token_hint, post_logout_redirect_uri: `${APP_URL}/` }));
}

const routes = { "GET /": home, "GET /sign-in": signIn, "GET /callback": callback, "POST /sign-out": signOut };

createServer(async (request, response) => {
  try {
    const route = routes[`${request.method} ${new URL(request.url, APP_URL).pathname}`];
    if (!route) return page(response, 404, "<p>There is no such page.</p>");
    await route(request, response);
  } catch (error) {
    // `error.error` is the code of the standard, for example access_denied after a refusal.
    const reason = error.error ? `${error.error}: ${error.error_description}` : "The answer cannot be trusted.";
    console.error(error);
    page(response, 400, `<p>You are not signed in.</p><p>${escape(reason)}</p><a href="/sign-in">Try again</a>`);
  }
}).listen(Number(PORT), "127.0.0.1", () => console.log(`listening at ${APP_URL}`));
