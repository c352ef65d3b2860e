// What people meet of the wallet, in Chromium, with a vault that plays each state.
//
// `npm ci` here and in ../tests first. CHROMIUM names another browser than /usr/bin/chromium. With LONG=1 axe's
// rules are tested on each state in both colour schemes, and pages in all languages; otherwise on each third state in
// one of them, and pages in two other languages.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import encodeQR from "qr";
import { addServiceWorker, files } from "../build.mjs";
import { axePath, launch } from "./pages/browser.mjs";
import { serve, serveFiles } from "./pages/serve.mjs";
import { STATES, open } from "./pages/states.mjs";

const words = (language) => JSON.parse(fs.readFileSync(new URL(`../src/words/${language}.json`, import.meta.url), "utf8"));
const LANGUAGES = ["de", "en", "es", "fr", "ja", "pt"];
const isLong = process.env.LONG === "1";
const CODE = "K7Q2M9XTB4RW8ZCN3VHD6PFJ5GAN";

let site;
let browser;
before(async () => {
  site = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  site?.close();
});

const stateCalled = (name) => STATES.find((state) => state.name === name);
const with_ = async (name, use, options) => {
  const opened = await open(browser, site.origin, typeof name === "string" ? stateCalled(name) : name, options);
  try {
    return await use(opened.page, opened);
  } finally {
    await opened.close();
  }
};
const heading = (page) => page.locator("h1").innerText();
const overflow = (page) =>
  page.evaluate(() => {
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    const cut = [...document.querySelectorAll("main *, header *, footer *")].filter((element) => {
      if (element.closest(".unseen, .camera, .print-only, svg") || element.matches(".unseen, .dash")) return false;
      const box = element.getBoundingClientRect();
      return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
    });
    return wide > 0 || cut.length > 0 ? { wide, cut: cut.map((element) => element.outerHTML.slice(0, 120)) } : null;
  });
/** A state that goes away by itself, or whose browser forbids what axe needs. */
const isQuiet = (state, text) =>
  state.name === "home-offline" || state.name === "problem-service" || (state.name === "problem-no_such_code" && text.includes("VaultError"));

describe("each state", () => {
  for (const [index, state] of STATES.entries()) {
    const schemes = isLong ? ["light", "dark"] : [["light"], [], [], ["dark"], [], []][index % 6];
    test(state.name, async () => {
      await with_(state, async (page, { errors }) => {
        assert.notEqual(await heading(page), "", "a heading");
        assert.equal(await page.locator("h1").count(), 1, "one heading");
        assert.equal(await page.title(), await heading(page));
        const text = await page.locator("body").innerText();
        assert.doesNotMatch(text, /\{\w+\}|undefined|null|NaN/, "all placeholders are filled");
        assert.doesNotMatch(text, /nullifier|commitment|\bleaf\b|zero.knowledge|Merkle|\bPRF\b/i, "no words of the field");
        for (const colorScheme of schemes) {
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          // In a world of its own, which the page's policy does not reach.
          const found = await axe(page);
          assert.deepEqual(found, [], colorScheme);
        }
        await page.setViewportSize({ width: 360, height: 640 });
        assert.equal(await overflow(page), null, "no scrolling to the side at 360 px");
        await page.evaluate(() => document.documentElement.style.setProperty("font-size", "200%"));
        assert.equal(await overflow(page), null, "nor with text of twice the size");
        assert.deepEqual(errors.filter((error) => !isQuiet(state, error)), []);
      });
    });
  }
});

const axe = async (page) => {
  const client = await page.context().newCDPSession(page);
  const { frameTree } = await client.send("Page.getFrameTree");
  const { executionContextId } = await client.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  const run = async (expression) => {
    const { result, exceptionDetails } = await client.send("Runtime.evaluate", { expression, contextId: executionContextId, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  await run(fs.readFileSync(axePath, "utf8") + "; 0");
  const found = await run(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ": " + nodes.map((node) => node.html.slice(0, 160) + " " + (node.any[0]?.message ?? "")).join(" | ")))`);
  await client.detach();
  return found;
};

describe("a person with a keyboard", () => {
  /** Presses Tab until the element has the focus; at most once around the page. */
  const tabTo = async (page, name) => {
    const wanted = page.locator(name);
    for (let presses = 0; presses < 30; presses += 1) {
      if (await wanted.evaluate((element) => element === document.activeElement)) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`${name} is not reached`);
  };
  const reached = (page, state) => page.locator(`main[data-state="${state}"]`).waitFor();

  test("joins, keeps the code, and comes to the front page", () =>
    with_("join", async (page) => {
      assert.equal(await page.evaluate(() => document.activeElement.localName), "h1");
      await tabTo(page, "#join");
      const outline = await page.locator("#join").evaluate((element) => getComputedStyle(element).outlineStyle);
      assert.equal(outline, "solid", "the focus is seen");
      await page.keyboard.press("Enter");
      await reached(page, "joined");
      assert.equal(await page.evaluate(() => document.activeElement.localName), "h1", "the heading of the next page has the focus");
      await tabTo(page, "#make-code");
      await page.keyboard.press("Space");
      await reached(page, "code");
      await tabTo(page, "#kept");
      await page.keyboard.press("Enter");
      await reached(page, "code-kept");
      await tabTo(page, ".actions a");
      await page.keyboard.press("Enter");
      await reached(page, "home");
      assert.equal(new URL(page.url()).hash, "", "the link's code has left the address");
    }));

  test("signs in with a passphrase, which Enter confirms", () =>
    with_("sign-in-passphrase", async (page) => {
      await tabTo(page, "#passphrase");
      await page.keyboard.type("correct horse battery");
      await page.keyboard.press("Enter");
      await reached(page, "digits");
      assert.equal(await page.locator(".digits").getAttribute("aria-label"), "The digits 4 0 7");
    }));

  test("goes from page to page and back", () =>
    with_("home", async (page) => {
      await tabTo(page, '.row[href="/#device"]');
      await page.keyboard.press("Enter");
      await reached(page, "device");
      await page.goBack();
      await reached(page, "home");
      await page.goForward();
      await reached(page, "device");
    }));
});

describe("a recovery code", () => {
  const field = "#recovery-code";
  const hint = "#recovery-code-hint";

  test("is written in groups of four while it is typed, and read as people write it", () =>
    with_("restore-code", async (page) => {
      await page.locator(field).fill("");
      await page.locator(field).pressSequentially("k7q2m9xtb4rw8zcn3vhd6pfj5gan");
      assert.equal(await page.locator(field).inputValue(), CODE.match(/.{4}/g).join("-"));
      assert.equal(await page.locator(hint).innerText(), words("en")["code-entry-right"]);
      await page.locator(field).fill("oil0");
      assert.equal(await page.locator(field).inputValue(), "0110");
    }));

  test("can be corrected in its middle", () =>
    with_("restore-code", async (page) => {
      await page.locator(field).fill(CODE.replace("B4RW", "B4RQ"));
      assert.equal(await page.locator(hint).innerText(), words("en")["code-entry-wrong"]);
      await page.locator(field).evaluate((input) => input.setSelectionRange(14, 14));
      await page.keyboard.press("Backspace");
      await page.keyboard.press("w");
      assert.equal(await page.locator(field).inputValue(), CODE.match(/.{4}/g).join("-"));
      assert.equal(await page.locator(field).evaluate((input) => input.selectionStart), 14);
    }));

  test("with each other letter in any place is found wrong", () =>
    with_("restore-code", async (page) => {
      for (let place = 0; place < CODE.length; place += 1) {
        const wrong = CODE[place] === "Z" ? "Y" : "Z";
        await page.locator(field).fill(CODE.slice(0, place) + wrong + CODE.slice(place + 1));
        assert.equal(await page.locator(hint).innerText(), words("en")["code-entry-wrong"], `place ${place}`);
      }
    }));

  test("says which group has a letter that no code has", () =>
    with_("restore-code", async (page) => {
      await page.locator(field).fill("K7Q2-M9XT-B4U");
      assert.match(await page.locator(hint).innerText(), /“U”.*group 3/);
      assert.equal(await page.locator(field).getAttribute("aria-invalid"), "true");
      await page.locator("#restore").click();
      assert.equal(await page.evaluate(() => document.activeElement.id), "recovery-code", "the field gets the focus");
    }));

  test("is printed alone, with where it is typed", () =>
    with_("code", async (page) => {
      await page.emulateMedia({ media: "print" });
      const seen = await page.evaluate(() => document.body.innerText);
      assert.match(seen, new RegExp(CODE.match(/.{4}/g).join("-")));
      assert.match(seen, /\/restore/);
      assert.match(seen, /Members of the cooperative/);
      assert.equal(await page.locator("#kept").isVisible(), false);
      assert.equal(await page.locator("header").isVisible(), false);
    }));

  test("without a passkey is checked before anything is sealed", () =>
    with_("code-check-wrong", async (page) => {
      assert.equal(await page.locator(".field-hint").innerText(), words("en")["code-check-wrong"]);
      assert.equal(await page.evaluate(() => globalThis.played.calls.includes("seal")), false);
      await page.locator(".actions button").nth(1).click();
      await page.locator("main[data-state=code]").waitFor();
    }));
});

describe("a passkey of a virtual authenticator", () => {
  const state = { name: "real", path: "/join#members." + CODE, state: "join", passkeys: "real" };
  const authenticator = async (context, page, options) => {
    const client = await context.newCDPSession(page);
    await client.send("WebAuthn.enable");
    const { authenticatorId } = await client.send("WebAuthn.addVirtualAuthenticator", {
      options: { protocol: "ctap2", ctap2Version: "ctap2_1", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true, ...options },
    });
    return async () => (await client.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
  };

  test("that can seal joins", () =>
    with_(state, async (page, { context }) => {
      const credentials = await authenticator(context, page, { hasPrf: true });
      await page.locator("#join").click();
      await page.locator("main[data-state=joined]").waitFor();
      const [made] = await credentials();
      assert.equal(Buffer.from(made.userHandle, "base64").length, 32);
      assert.equal(made.isResidentCredential, true);
    }));

  test("that cannot seal is taken back, and the code goes on", () =>
    with_(state, async (page, { context }) => {
      const credentials = await authenticator(context, page, { hasPrf: false });
      await page.locator("#join").click();
      await page.locator("main[data-state=no-prf]").waitFor();
      assert.deepEqual(await credentials(), [], "no orphan stays");
      assert.doesNotMatch(await page.locator("main").innerText(), new RegExp(words("en")["passkey-no-prf-stays"]));
      await page.locator(".actions button").first().click();
      await page.locator("main[data-state=code]").waitFor();
    }));

  test("that verifies nobody leads to a page about it, and nothing is sealed", () =>
    with_(state, async (page, { context }) => {
      await authenticator(context, page, { protocol: "u2f", ctap2Version: undefined, transport: "usb", hasResidentKey: false, hasUserVerification: false, isUserVerified: false });
      await page.locator("#join").click();
      await page.locator("main:is([data-state=passkey-unusable], :has(#complaint))").waitFor();
      assert.equal(await page.evaluate(() => globalThis.played.calls.includes("seal")), false);
    }));
});

describe("the pages", () => {
  test("go back to the issuer alone", () =>
    with_({ ...stateCalled("returning"), scenario: { exists: true, open: true, answered: { next: "return", url: "https://elsewhere.example/x" } }, state: "problem", name: "elsewhere" }, async (page) => {
      assert.equal(await heading(page), words("en")["problem-other_service-title"]);
    }));

  test("ask the service whether a request has expired, and not the clock of the device", () =>
    with_({ ...stateCalled("sign-in-here"), state: "sign-in", scenario: { exists: true, signIn: { expiresAt: 1 } } }, async (page) => {
      await page.locator("#approve").waitFor();
    }));

  test("open with what was chosen in this browser before a passkey of another device", () =>
    with_({ ...stateCalled("sign-in-here"), scenario: { exists: true, slots: ["passkey", "passphrase"] } }, async (page) => {
      await page.locator("#passphrase").waitFor();
    }));

  test("go on after a failure that was one of a moment", () =>
    with_({ ...stateCalled("join"), scenario: { fail: { enrol: "offline 1" } }, state: "problem", go: (page) => page.locator("#join").click() }, async (page) => {
      await page.locator(".actions button").first().click();
      await page.locator("main[data-state=joined]").waitFor();
      const calls = await page.evaluate(() => globalThis.played.calls.filter((call) => ["seal", "enrol"].includes(call)));
      assert.deepEqual(calls, ["seal", "enrol", "enrol"], "what was sealed is not sealed again");
    }));

  test("take one press while something goes on", () =>
    with_("join-busy", async (page) => {
      for (const press of [1, 2]) await page.locator("#join").evaluate((button) => button.click(), press);
      assert.equal(await page.evaluate(() => globalThis.played.calls.filter((call) => call === "seal").length), 1);
      assert.equal(await page.locator("#announce").innerText(), words("en").sealing, "and say what");
    }));

  test("say that a page comes, when it takes a moment", () =>
    with_({ ...stateCalled("home"), state: "loading", scenario: { exists: true, hang: ["status"] } }, async (page) => {
      await page.getByRole("heading", { name: words("en").loading }).waitFor();
    }));

  test("make a person without a group for a service in development, and answer with it", () =>
    with_({ ...stateCalled("sign-in-there"), scenario: { simulator: true }, state: "simulated" }, async (page) => {
      await page.locator(".actions button").first().click();
      await page.locator("main[data-state=sign-in]").waitFor();
      await page.locator("#approve").click();
      await page.locator("main[data-state=digits]").waitFor();
    }));

  test("bring memberships here and then go on with the link that was opened", () =>
    with_("join", async (page) => {
      await page.locator(".ways button").first().click();
      await page.locator("main[data-state=restore]").waitFor();
      await page.locator("#by-passkey").click();
      await page.locator("main[data-state=restored]").waitFor();
      await page.locator("#keep-both").click();
      await page.locator("main:is([data-state=member-already])").waitFor();
    }));

  test("copy the address out of another app's view", () =>
    with_("in-app", async (page, { context }) => {
      await context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await page.locator(".actions button").first().click();
      await page.locator("main .field-hint").getByText(words("en").copied).waitFor();
      assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
    }));

  test("know an app's view from a browser and from the home screen", () =>
    with_("home", async (page) => {
      const inside = async (userAgent, standalone = false) => {
        const context = await browser.newContext({ userAgent, locale: "en" });
        const other = await context.newPage();
        if (standalone) await other.addInitScript(() => Object.defineProperty(navigator, "standalone", { value: true }));
        await other.goto(`${new URL(page.url()).origin}/join#members.${CODE}`);
        await other.locator("h1").waitFor();
        await other.locator("main:not([data-state=loading])").waitFor();
        const state = await other.locator("main").getAttribute("data-state");
        await context.close();
        return state === "in-app";
      };
      const iphone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)";
      const android = "Mozilla/5.0 (Linux; Android 16; Pixel 9";
      assert.equal(await inside(`${iphone} Version/18.5 Mobile/15E148 Safari/604.1`), false, "Safari");
      assert.equal(await inside(`${iphone} CriOS/137.0 Mobile/15E148 Safari/604.1`), false, "Chrome on an iPhone");
      assert.equal(await inside(`${iphone} Mobile/15E148`), true, "a mail program on an iPhone");
      assert.equal(await inside(`${iphone} Mobile/15E148`, true), false, "the home screen of an iPhone");
      assert.equal(await inside(`${android}) AppleWebKit/537.36 Chrome/137.0 Mobile Safari/537.36`), false, "Chrome on Android");
      assert.equal(await inside(`${android}; wv) AppleWebKit/537.36 Version/4.0 Chrome/137.0 Mobile Safari/537.36`), true, "a view on Android");
      assert.equal(await inside(`${android}) AppleWebKit/537.36 Chrome/137.0 Mobile Safari/537.36 Instagram 390.0 Android`), true, "Instagram");
    }));

  test("take what is pasted in place of a code before the camera", () =>
    with_("scan-none", async (page) => {
      await page.locator("#paste").fill("not an address");
      await page.keyboard.press("Enter");
      assert.equal(await page.locator("#paste-hint").innerText(), words("en")["problem-not_a_link-title"]);
      await page.locator("#paste").fill("https://id.example.org/s/abcdefghijklmnop");
      await page.keyboard.press("Enter");
      await page.locator("main[data-state=sign-in]").waitFor();
    }));

  test("keep nothing that was typed in an address", () =>
    with_("code", async (page) => {
      assert.doesNotMatch(page.url(), new RegExp(CODE));
    }));
});

test("a code before the camera is read where the browser cannot read it", async () => {
  // Frames of 640 by 480 with the code in their middle: brightness, then grey.
  const [width, height] = [640, 480];
  const modules = encodeQR("https://id.example.org/s/abcdefghijklmnop", "raw", { border: 4 });
  const scale = Math.floor(400 / modules.length);
  const bright = Buffer.alloc(width * height, 200);
  const [left, top] = [(width - scale * modules.length) >> 1, (height - scale * modules.length) >> 1];
  modules.forEach((line, y) => line.forEach((dark, x) => {
    for (let row = 0; row < scale; row += 1) bright.fill(dark ? 20 : 235, (top + y * scale + row) * width + left + x * scale, (top + y * scale + row) * width + left + (x + 1) * scale);
  }));
  const frame = Buffer.concat([Buffer.from("FRAME\n"), bright, Buffer.alloc(width * height / 2, 128)]);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "camera-"));
  const video = path.join(folder, "code.y4m");
  fs.writeFileSync(video, Buffer.concat([Buffer.from(`YUV4MPEG2 W${width} H${height} F10:1 Ip A1:1 C420\n`), frame, frame]));
  const seeing = await launch([`--use-file-for-fake-video-capture=${video}`]);
  try {
    const { page, errors } = await open(seeing, site.origin, { ...stateCalled("scan"), state: "sign-in", go: undefined });
    assert.deepEqual(errors, []);
    assert.equal(await page.locator(".facts").count(), 1, "what was scanned waits on another screen");
  } finally {
    await seeing.close();
    fs.rmSync(folder, { recursive: true });
  }
});

describe("the languages", () => {
  const english = words("en");
  const forms = (message) => (typeof message === "string" ? [message] : Object.values(message));
  const holes = (text) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();

  for (const language of LANGUAGES) {
    test(`${language}: the same messages with the same values, and a text for each plural`, () => {
      const own = words(language);
      assert.deepEqual(Object.keys(own).sort(), Object.keys(english).sort());
      for (const [name, message] of Object.entries(own)) {
        assert.equal(typeof message, typeof english[name], name);
        for (const text of forms(message)) {
          assert.deepEqual(holes(text), holes(forms(english[name])[0]), name);
          assert.equal(text.trim(), text, name);
          assert.notEqual(text, "", name);
          assert.doesNotMatch(text, /<|>|&\w+;/, name);
        }
        if (typeof message === "object") {
          const needed = new Intl.PluralRules(language).resolvedOptions().pluralCategories.filter((form) => form !== "many");
          assert.deepEqual(Object.keys(message).sort(), needed.sort(), name);
        }
      }
      // Words that the pages have in common with the page of a sign-in.
      const page = fs.readFileSync(new URL(`../../interfaces/src/sign_in/page/languages/${language}.ftl`, import.meta.url), "utf8");
      const there = Object.fromEntries([...page.matchAll(/^([\w-]+) = (.*)$/gm)].map(([, name, text]) => [name, text.replace(/\{ \$(\w+) \}/g, "{$1}")]));
      for (const name of ["try-again", "close-page", "to-application", "browser-on-system"]) assert.equal(own[name], there[name], name);
      assert.equal(own["sign-in-stand-ins"], there["receives-stand-ins"]);
    });
  }

  test("no message is left over, and none is missing", () => {
    const sources = ["start.ts", "words.ts", ...fs.readdirSync(new URL("../src/pages", import.meta.url)).map((name) => `pages/${name}`)];
    const text = sources.map((name) => fs.readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8")).join("");
    const codes = fs.readFileSync(new URL("../src/vault.ts", import.meta.url), "utf8") + fs.readFileSync(new URL("../../docs/interfaces/wallet.md", import.meta.url), "utf8") + '`not-found`';
    const unused = Object.keys(english).filter((name) => {
      if (text.includes(`"${name}"`)) return false;
      const [, problem] = name.match(/^problem-(.*?)(-title)?$/) ?? [];
      if (problem !== undefined) return !codes.includes(`\`${problem}\``);
      return !(name.endsWith("-title") && text.includes(`"${name.slice(0, -6)}"`));
    });
    assert.deepEqual(unused, []);
    for (const name of Object.keys(english)) if (name.startsWith("problem-") && !name.endsWith("-title")) assert.ok(`${name}-title` in english, name);
  });

  for (const language of LANGUAGES.filter((one) => (isLong ? one !== "en" : ["de", "ja"].includes(one)))) {
    test(`${language}: pages fit a small phone, also with large text, and nothing of them is English`, async () => {
      for (const name of ["join", "code", "sign-in-there", "digits", "lost", "home-three", "restored", "about", "in-app"]) {
        await with_(name, async (page, { errors }) => {
          assert.equal(await page.evaluate(() => document.documentElement.lang), language);
          await page.setViewportSize({ width: 360, height: 640 });
          assert.equal(await overflow(page), null, name);
          await page.evaluate(() => document.documentElement.style.setProperty("font-size", "200%"));
          assert.equal(await overflow(page), null, `${name} with text of twice the size`);
          const text = await page.locator("main").innerText();
          for (const message of Object.values(english)) {
            if (typeof message === "string" && message.length > 12 && !message.includes("{")) assert.ok(!text.includes(message), message);
          }
          assert.deepEqual(errors, []);
        }, { language });
      }
    });
  }

  test("the chosen one is remembered, and the page stays", () =>
    with_("home", async (page) => {
      await page.locator("#language").selectOption("ja");
      await page.getByText(words("ja")["home-purpose"]).waitFor();
      assert.equal(await page.evaluate(() => document.activeElement.id), "language");
      await page.reload();
      await page.getByText(words("ja")["home-purpose"]).waitFor();
    }));

  test("the browser's is taken at first", () =>
    with_("empty", async (page) => {
      await page.getByText(words("pt")["home-empty-title"]).waitFor();
    }, { locale: "pt-BR" }));

  test("one that is written from right to left turns the pages round", async () => {
    for (const name of ["join", "home-three", "sign-in-there", "code", "digits", "restore-code"]) {
      await with_(name, async (page) => {
        assert.equal(await page.evaluate(() => document.documentElement.dir), "rtl");
        await page.setViewportSize({ width: 360, height: 640 });
        assert.equal(await overflow(page), null, name);
        const head = await page.locator("h1").boundingBox();
        const signs = page.locator(".points .icon, .rows .icon");
        const sign = (await signs.count()) > 0 ? await signs.first().boundingBox() : null;
        if (sign) assert.ok(sign.x > 180, `${name}: signs stand at the right`);
        assert.ok(head.x >= 0, name);
      }, { language: "rtl" });
    }
  });
});

test("built files have nothing of the vault that plays, and the pages' program is small", async () => {
  const made = await files();
  for (const [name, bytes] of made) {
    if (name.endsWith(".js") || name.endsWith(".json")) assert.ok(!/as the scenario says|fake-vault|Right to left/.test(bytes.toString()), name);
  }
  assert.ok(made.get("app.js").length <= 60_000, `${made.get("app.js").length} bytes`);
  const page = made.get("index.html").toString();
  assert.doesNotMatch(page, /style=|<style|\son\w+=|https?:\/\//, "no inline style or script, no foreign origin");
  assert.doesNotMatch(made.get("app.js").toString(), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/);
});

describe("the service worker", { timeout: 120_000 }, () => {
  const settings = (operator) => Buffer.from(JSON.stringify({ issuer: "https://id.example.org", bridge: "https://bridge.example.org", verify: "https://verify.example.org", operator, simulator: null }));
  let made;
  before(async () => {
    made = await files();
  });
  /** Another version: a longer style sheet, with what knows it. */
  const nextVersion = async (text) => addServiceWorker(new Map([...made].map(([name, bytes]) => [name, name === "style.css" ? Buffer.concat([bytes, Buffer.from(text)]) : bytes])));
  const controlled = async (page) => {
    await page.evaluate(() => navigator.serviceWorker.ready);
    await page.waitForFunction(() => navigator.serviceWorker.controller?.state === "activated");
  };
  const style = (page) => page.evaluate(async () => (await (await fetch("/style.css")).text()).slice(-20));
  const visit = async (use) => {
    const host = await serveFiles({ ...Object.fromEntries(await addServiceWorker(new Map(made))), "wallet.json": settings("Green Valley Cooperative") });
    const context = await browser.newContext({ locale: "en" });
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    try {
      await page.goto(host.origin);
      await page.locator("main[data-state=empty]").waitFor();
      await controlled(page);
      await use({ host, context, page });
      assert.deepEqual(errors, []);
    } finally {
      await context.close();
      host.close();
    }
  };

  test("starts the pages without a network, at each address", () =>
    visit(async ({ host, page }) => {
      await page.locator("#language").selectOption("de");
      await page.getByText(words("de")["home-empty"]).waitFor();
      host.close();
      await page.reload();
      await page.locator("main[data-state=empty]").waitFor();
      assert.equal(await page.locator("#app-name").innerText(), "Green Valley Cooperative");
      await page.goto(`${host.origin}/about`);
      await page.getByText(words("de")["about-what"]).waitFor();
      await page.locator("#language").selectOption("fr");
      await page.getByText(words("en")["about-what"]).waitFor();
    }));

  test("fetches nothing again but the service's addresses, and keeps no answer of the service", () =>
    visit(async ({ host, page }) => {
      host.requests.length = 0;
      await page.reload();
      await page.locator("main[data-state=empty]").waitFor();
      await page.evaluate(() => fetch("/groups").then((answer) => answer.text()));
      await page.evaluate(() => fetch("/sealed/00").then((answer) => answer.text()));
      assert.deepEqual([...new Set(host.requests)].filter((name) => !["/wallet.json", "/sw.js"].includes(name)), ["/groups", "/sealed/00"]);
      const kept = await page.evaluate(async () => (await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => new URL(url).pathname)))).flat());
      assert.deepEqual(kept.filter((name) => name.startsWith("/groups") || name.startsWith("/sealed")), []);
      assert.ok(kept.includes("/key.bin") && kept.includes("/") && kept.includes("/wallet.json"));
    }));

  test("takes the newest addresses of the service, and says that the page has an older policy", () =>
    visit(async ({ host, page }) => {
      host.set("wallet.json", settings("Another Name"));
      await page.reload();
      await page.locator("#update").waitFor();
      assert.equal(await page.locator("#app-name").innerText(), "Another Name");
      host.close();
      await page.reload();
      await page.locator("main[data-state=empty]").waitFor();
      assert.equal(await page.locator("#app-name").innerText(), "Another Name");
    }));

  test("takes a new version when the person says so, whole", () =>
    visit(async ({ host, page }) => {
      for (const [name, bytes] of await nextVersion("/* the second */")) host.set(name, bytes);
      await page.reload();
      await page.locator("#update").waitFor();
      assert.doesNotMatch(await style(page), /the second/, "the old version stays whole until then");
      await Promise.all([page.waitForEvent("load"), page.locator("#update button").click()]);
      await page.locator("main[data-state=empty]").waitFor();
      await controlled(page);
      assert.match(await style(page), /the second/);
      assert.equal(await page.locator("#update").count(), 0);
    }));

  test("takes a version that waits when the page was left", () =>
    visit(async ({ host, page }) => {
      for (const [name, bytes] of await nextVersion("/* the third */")) host.set(name, bytes);
      await page.reload();
      await page.locator("#update").waitFor();
      await page.goto("about:blank");
      await page.goto(host.origin);
      await page.waitForFunction(async () => (await (await fetch("/style.css")).text()).includes("the third"));
      await page.locator("main[data-state=empty]").waitFor();
      assert.equal(await page.locator("#update").count(), 0);
    }));

  test("takes nothing of a version of which a file is another one's", () =>
    visit(async ({ host, page }) => {
      for (const [name, bytes] of await nextVersion("/* torn */")) if (name !== "style.css") host.set(name, bytes);
      await page.reload();
      await page.locator("main[data-state=empty]").waitFor();
      const outcome = await page.evaluate(async () => {
        const registration = await navigator.serviceWorker.getRegistration();
        const update = await registration.update();
        const coming = update.installing;
        if (!coming) return update.waiting ? "waits" : "none";
        return new Promise((done) => coming.addEventListener("statechange", () => done(coming.state)));
      });
      assert.ok(["redundant", "none"].includes(outcome), outcome);
      assert.equal(await page.evaluate(async () => (await caches.keys()).filter((name) => name !== "wallet-service").length), 1);
      host.close();
      await page.reload();
      await page.locator("main[data-state=empty]").waitFor();
    }));
});
