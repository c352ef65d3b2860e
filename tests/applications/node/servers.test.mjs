// The applications with a server of their own: sign-in, refusal, a stranger's answer, sign-out. They
// differ in their library alone. PYTHON names a Python with tests/requirements.txt, and
// APPLICATION_RS the program that is built of openidconnect-rs/main.rs; without it that one is left
// out.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { register, reservedPort, start } from "../../relying_parties/node/daemon.mjs";
import { copyOf, run } from "./applications.mjs";

const APPLICATIONS = {
  "openid-client": [process.execPath, "server.mjs"],
  authlib: [process.env.PYTHON ?? "python3", "app.py"],
  "openidconnect-rs": process.env.APPLICATION_RS && [process.env.APPLICATION_RS],
};

// A browser as far as the applications need one: it keeps cookies and follows no redirect by itself.
class Browser {
  #cookies = new Map();

  async open(url, method = "GET") {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { method, redirect: "manual", headers: { cookie } });
    for (const line of response.headers.getSetCookie()) {
      assert.match(line, /; HttpOnly/);
      assert.match(line, /; SameSite=Lax/);
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      this.#cookies.set(name, value);
    }
    const location = response.headers.get("location");
    return { status: response.status, location: location && new URL(location, url), text: await response.text() };
  }
}

for (const [name, command] of Object.entries(APPLICATIONS)) {
  describe(name, { skip: !command }, () => {
    let daemon;
    let end;
    let url;

    before(async () => {
      const PORT = await reservedPort();
      url = `http://localhost:${PORT}`;
      const app = register([`${url}/callback`], [`${url}/`]);
      daemon = await start({ config: app.config });
      const ISSUER = daemon.issuer.origin;
      end = await run(copyOf(name), command, { ISSUER, CLIENT_ID: app.id, CLIENT_SECRET: app.secret, PORT: String(PORT) });
    });

    after(async () => {
      await end?.();
      await daemon?.stop();
    });

    // Begins a sign-in; returns the authorization URL.
    async function begin(browser) {
      assert.match((await browser.open(`${url}/`)).text, /href="\/sign-in"/);
      const { location } = await browser.open(`${url}/sign-in`);
      assert.equal(location.origin + location.pathname, `${daemon.issuer.origin}/authorize`);
      for (const name of ["state", "nonce", "code_challenge"]) assert.ok(location.searchParams.has(name), name);
      return location;
    }

    async function signIn(browser) {
      const back = await browser.open(daemon.answer(await begin(browser)));
      assert.equal(back.location?.href, `${url}/`, back.text);
      return /<code>(0x[0-9a-f]{64})<\/code>/.exec((await browser.open(`${url}/`)).text)[1];
    }

    test("a person signs in, and is the same person the next time", async () => {
      assert.equal(await signIn(new Browser()), await signIn(new Browser()));
    });

    test("a refusal is shown", async () => {
      const browser = new Browser();
      const back = await browser.open(daemon.refuse(await begin(browser)));
      assert.equal(back.status, 400);
      assert.match(back.text, /access_denied/);
      await begin(browser);
    });

    test("an answer counts in the browser that began", async () => {
      const answer = daemon.answer(await begin(new Browser()));
      const stranger = new Browser();
      for (const visit of ["without a sign-in", "during another sign-in"]) {
        assert.equal((await stranger.open(answer)).status, 400, visit);
        await begin(stranger);
      }
    });

    test("an answer counts once", async () => {
      const browser = new Browser();
      const answer = daemon.answer(await begin(browser));
      await browser.open(answer);
      assert.equal((await browser.open(answer)).status, 400);
    });

    test("a person signs out, here and at the sign-in page", async () => {
      const browser = new Browser();
      await signIn(browser);
      const { location } = await browser.open(`${url}/sign-out`, "POST");
      assert.equal(location.origin + location.pathname, `${daemon.issuer.origin}/logout`);
      const back = await new Browser().open(location);
      assert.equal(back.location.origin + back.location.pathname, `${url}/`);
      assert.match((await browser.open(back.location)).text, /href="\/sign-in"/);
    });
  });
}
