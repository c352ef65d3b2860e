// The states of the pages: where each is, what the vault plays, and the presses that lead there.
const CODE = "K7Q2-M9XT-B4RW-8ZCN-3VHD-6PFJ-5GAN";
const withPasskey = { passkeys: true };
const press = (name) => (page) => page.locator(name).click();
const fill = (name, text) => (page) => page.locator(name).fill(text);
const steps = (...all) => async (page, context) => {
  for (const step of all) await step(page, context);
};
/** Reads the shown code, goes on, and types the group that is asked for. */
const keepCode = async (page) => {
  const text = (await page.locator("#code").innerText()).replace(/[^0-9A-Z]/g, "");
  await page.locator("#kept").click();
  await page.locator("[data-state=code-check]").waitFor();
  const position = Number((await page.locator("label[for=group]").innerText()).match(/\d+/)[0]);
  await page.locator("#group").fill(text.slice(4 * position - 4, 4 * position).toLowerCase());
  await page.locator(".actions button").first().click();
  await page.locator("[data-state=passphrase]").waitFor();
};
const INSIDE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 390.0";
const member = { exists: true };
const two = { exists: true, groups: [
  { group: "members", name: "Members of the cooperative", joined: true },
  { group: "chess", name: "Chess Club Lindenhof", joined: true },
  { group: "parents", name: "Parents of the School on the Hill", joined: false },
] };
const HERE = "/sign-in?request=https%3A%2F%2Fid.example.org%2Fwallet%2Frequest%2Fx#here";
const THERE = HERE.replace("#here", "#there");
const PROVE = "/prove#t=wld&i=1&k=2&b=3";
const LINK = "/join#members.K7Q2M9XTB4RW8ZCN3VHD6PFJ5GAN";

/** `state`: the value of `data-state` when it is reached. */
export const STATES = [
  { name: "empty", path: "/", state: "empty" },
  { name: "empty-development", path: "/", scenario: { simulator: true }, state: "empty" },
  { name: "simulated", path: "/", scenario: { simulator: true }, ...withPasskey, state: "simulated", go: press("#simulated") },
  { name: "loading", path: LINK, scenario: { hang: ["readInvitation"] }, state: "loading" },
  { name: "join", path: LINK, ...withPasskey, state: "join" },
  { name: "join-long-name", path: LINK, scenario: { groupName: "Wohnungsbaugenossenschaft Friedrichshain-Kreuzberg eingetragene Genossenschaft" }, ...withPasskey, state: "join" },
  { name: "join-busy", path: LINK, scenario: { hang: ["seal"] }, ...withPasskey, state: "join", go: steps(press("#join"), (page) => page.locator("#progress").waitFor()) },
  { name: "join-declined", path: LINK, passkeys: "declined", state: "join", go: steps(press("#join"), (page) => page.locator("#complaint").waitFor()) },
  { name: "in-app", path: LINK, userAgent: INSIDE, ...withPasskey, state: "in-app" },
  { name: "no-passkeys", path: LINK, passkeys: "none", state: "no-passkeys" },
  { name: "no-prf", path: LINK, passkeys: "no-prf", state: "no-prf", go: press("#join") },
  { name: "passkey-unusable", path: LINK, passkeys: "unusable", state: "passkey-unusable", go: press("#join") },
  { name: "passkey-again", path: LINK, passkeys: "again", state: "passkey-again", go: press("#join") },
  { name: "code-first", path: LINK, passkeys: "none", state: "code", go: steps(press("#go-on-here"), press("#join")) },
  { name: "code-check", path: LINK, passkeys: "none", state: "code-check", go: steps(press("#go-on-here"), press("#join"), press("#kept")) },
  { name: "code-check-wrong", path: LINK, passkeys: "none", state: "code-check", go: steps(press("#go-on-here"), press("#join"), press("#kept"), fill("#group", "AAAA"), press(".actions button >> nth=0")) },
  { name: "passphrase", path: LINK, passkeys: "none", state: "passphrase", go: steps(press("#go-on-here"), press("#join"), keepCode) },
  { name: "passphrase-short", path: LINK, passkeys: "none", state: "passphrase", go: steps(press("#go-on-here"), press("#join"), keepCode, fill("#passphrase", "too short"), press(".actions button")) },
  { name: "joined-code-way", path: LINK, passkeys: "none", state: "joined", go: steps(press("#go-on-here"), press("#join"), keepCode, fill("#passphrase", "a meadow behind the mill"), press(".actions button")) },
  { name: "joined", path: LINK, ...withPasskey, state: "joined", go: press("#join") },
  { name: "code", path: LINK, ...withPasskey, state: "code", go: steps(press("#join"), press("#make-code")) },
  { name: "code-kept", path: LINK, ...withPasskey, state: "code-kept", go: steps(press("#join"), press("#make-code"), press("#kept")) },
  { name: "member-already", path: LINK, scenario: member, state: "member-already" },
  { name: "adding", path: LINK, scenario: { exists: true, groups: [two.groups[1]] }, ...withPasskey, state: "adding" },
  { name: "replace-link", path: LINK.replace("join", "replace"), ...withPasskey, state: "join" },
  { name: "replace-link-member", path: LINK.replace("join", "replace"), scenario: member, ...withPasskey, state: "adding" },
  { name: "link-used", path: LINK, scenario: { fail: { seal: "code_used" } }, ...withPasskey, state: "problem", go: press("#join") },
  { name: "link-incomplete", path: "/join", state: "problem" },

  { name: "sign-in-here", path: HERE, scenario: member, ...withPasskey, state: "sign-in" },
  { name: "sign-in-there", path: THERE, scenario: member, ...withPasskey, state: "sign-in" },
  { name: "sign-in-stand-ins", path: HERE, scenario: { ...member, signIn: { scopes: ["openid", "email", "profile"] } }, ...withPasskey, state: "sign-in" },
  { name: "sign-in-passphrase", path: THERE, scenario: { ...member, slots: ["passphrase"] }, state: "sign-in" },
  { name: "sign-in-passphrase-wrong", path: HERE, scenario: { ...member, slots: ["passphrase"] }, state: "sign-in", go: steps(fill("#passphrase", "something else"), press("#approve"), (page) => page.locator(".wrong").waitFor()) },
  { name: "sign-in-code", path: HERE, scenario: { ...member, slots: ["code"] }, state: "sign-in", go: fill("#recovery-code", CODE) },
  { name: "proving", path: HERE, scenario: { ...member, open: true, hang: ["answerSignIn"] }, state: "sign-in", go: steps(press("#approve"), (page) => page.locator("#progress").waitFor()) },
  { name: "digits", path: THERE, scenario: { ...member, open: true }, state: "digits", go: press("#approve") },
  { name: "done", path: THERE, scenario: { ...member, open: true, answered: { next: "nothing" } }, state: "done", go: press("#approve") },
  { name: "returning", path: HERE, scenario: { ...member, open: true, answered: { next: "return", url: "RETURN" } }, state: "returning", go: (page) => page.locator("#approve").evaluate((button) => button.click()) },
  { name: "refused", path: THERE, scenario: { ...member, open: true }, state: "refused", go: press("#refuse") },
  { name: "refused-here", path: HERE, scenario: { ...member, open: true }, state: "refused", go: press("#refuse") },
  { name: "proof", path: PROVE, scenario: member, ...withPasskey, state: "proof" },
  { name: "proof-roll", path: PROVE, scenario: { ...member, proof: { roll: "2026-12-01" } }, ...withPasskey, state: "proof" },
  { name: "proof-unknown", path: PROVE, scenario: { ...member, proof: { application: null, action: null, returnTo: null } }, ...withPasskey, state: "proof" },
  { name: "proof-done", path: PROVE, scenario: { ...member, open: true }, state: "proof-done", go: press("#approve") },
  ...["expired", "answered", "other_service", "not_signed", "no_credential", "sign_in_over_bridge", "link_proof_asked", "not_from_application", "offline", "unavailable", "not_a_link", "unreadable_request"].map((code) => (
    { name: `problem-${code}`, path: THERE, scenario: { ...member, fail: { read: code } }, state: "problem" })),
  ...["removed", "not_on_roll", "another_account", "proof_refused", "changed_elsewhere", "cross_device_denied", "storage", "replaced_elsewhere", "other_group", "act_under_way", "no_such_code"].map((code) => (
    { name: `problem-${code}`, path: THERE, scenario: { ...member, open: true, fail: { answerSignIn: code } }, state: "problem", go: press("#approve") })),
  { name: "problem-no_wallet", path: THERE, state: "problem" },
  { name: "problem-service", path: "/", scenario: { fail: { service: "offline" } }, state: "problem" },
  { name: "not-found", path: "/nowhere", state: "problem" },

  { name: "restore", path: "/restore", ...withPasskey, state: "restore" },
  { name: "restore-nothing", path: "/restore", scenario: { fail: { restore: "no_copy" } }, passkeys: "other", state: "restore", go: steps(press("#by-passkey"), (page) => page.locator("#complaint").waitFor()) },
  { name: "restore-code", path: "/restore", passkeys: "none", state: "restore-code", go: fill("#recovery-code", "k7q2 m9xt b4") },
  { name: "restore-code-letter", path: "/restore", passkeys: "none", state: "restore-code", go: fill("#recovery-code", "k7q2m9ut") },
  { name: "restore-code-wrong", path: "/restore", passkeys: "none", state: "restore-code", go: fill("#recovery-code", "K7Q2M9XTB4RW8ZCN3VHD6PFJ5GAA") },
  { name: "restored", path: "/restore", scenario: { groups: two.groups.slice(0, 2) }, passkeys: "none", state: "restored", code: true },
  { name: "add-way", path: "/restore", ...withPasskey, state: "add-way", go: press("#by-code"), code: true, then: press("#keep-both") },

  { name: "home", path: "/", scenario: member, state: "home" },
  { name: "home-three", path: "/", scenario: two, state: "home" },
  { name: "home-no-code", path: "/", scenario: { ...member, codeKept: false }, state: "home" },
  { name: "home-pending-join", path: "/", scenario: { ...member, groups: [two.groups[2]], pending: "join" }, state: "home" },
  { name: "home-pending-replace", path: "/", scenario: { ...member, pending: "replace" }, state: "home" },
  { name: "home-update", path: "/?update", scenario: member, state: "home" },
  { name: "home-offline", path: "/", scenario: member, state: "home", offline: true },
  { name: "home-not-copied", path: "/", scenario: { ...member, copied: false }, state: "home" },
  { name: "go-on", path: "/#go-on", scenario: { ...member, pending: "replace" }, ...withPasskey, state: "go-on" },
  { name: "gone-on", path: "/#go-on", scenario: { ...member, open: true, pending: "join" }, state: "gone-on", go: press(".actions button") },
  { name: "device", path: "/#device", scenario: member, state: "device" },
  { name: "new-code", path: "/#code", scenario: member, ...withPasskey, state: "new-code" },
  { name: "lost", path: "/#lost", scenario: member, ...withPasskey, state: "lost" },
  { name: "lost-passkey", path: "/#lost", scenario: { ...member, open: true }, ...withPasskey, state: "lost-passkey", go: press("#removed") },
  { name: "lost-done", path: "/#lost", scenario: { ...member, open: true }, ...withPasskey, state: "lost-done", go: steps(press("#removed"), press("#new-passkey"), press("#kept")) },
  { name: "lost-code-alone", path: "/#lost", scenario: { ...member, open: true }, ...withPasskey, state: "code", go: press("#code-alone") },
  { name: "replaced_today", path: "/#lost", scenario: { ...member, open: true, fail: { replace: "replaced_today" } }, ...withPasskey, state: "problem", go: steps(press("#removed"), press("#new-passkey"), press("#kept")) },
  { name: "leave", path: "/#leave.members", scenario: member, ...withPasskey, state: "leave" },
  { name: "left", path: "/#leave.members", scenario: { ...member, open: true }, state: "left", go: press("#leave") },
  { name: "forget", path: "/#forget", scenario: member, state: "forget" },
  { name: "forget-no-code", path: "/#forget", scenario: { ...member, codeKept: false }, state: "forget" },
  { name: "forgotten", path: "/#forget", scenario: member, state: "forgotten", go: press("#forget") },
  { name: "scan", path: "/#scan", scenario: member, camera: true, state: "scan", go: (page) => page.waitForFunction(() => document.querySelector("video").videoWidth > 0) },
  { name: "scan-refused", path: "/#scan", scenario: member, camera: "refused", state: "scan-refused" },
  { name: "scan-none", path: "/#scan", scenario: member, camera: "none", state: "scan-none" },
  { name: "about", path: "/about", scenario: member, state: "about" },
];

/** Runs before the page's program: the scenario, and how the browser's passkeys and camera behave. */
export const prepare = ({ scenario, passkeys, camera }) => {
  globalThis.scenario = scenario;
  if (passkeys === "none") delete globalThis.PublicKeyCredential;
  else {
    const refuse = (name) => () => Promise.reject(new DOMException("as the scenario says", name));
    const credential = (results) => {
      const made = Object.create(PublicKeyCredential.prototype);
      const userHandle = new Uint8Array(32).buffer;
      Object.defineProperties(made, {
        rawId: { value: new Uint8Array(16).buffer }, response: { value: { userHandle } }, getClientExtensionResults: { value: () => results },
      });
      return async () => made;
    };
    const first = new Uint8Array(32).fill(7).buffer;
    const container = navigator.credentials;
    const good = credential({ prf: { enabled: true, results: { first } } });
    const ways = {
      declined: [refuse("NotAllowedError"), refuse("NotAllowedError")],
      unusable: [refuse("NotSupportedError"), refuse("NotSupportedError")],
      "no-prf": [credential({ prf: { enabled: false } }), refuse("NotAllowedError")],
      again: [credential({ prf: { enabled: true } }), refuse("NotAllowedError")],
    };
    if (passkeys !== "real") [container.create, container.get] = ways[passkeys] ?? [good, good];
    if (passkeys === "no-prf") delete PublicKeyCredential.signalUnknownCredential;
  }
  if (camera === "refused") navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", "NotAllowedError"));
  if (camera === "none") navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", "NotFoundError"));
};

/** Opens a state in a new context of the browser. The page's errors are in `errors`. */
export const open = async (browser, origin, state, options = {}) => {
  const scenario = JSON.parse(JSON.stringify(state.scenario ?? {}).replace("RETURN", `${origin}/nowhere`));
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, locale: "en", ...options, ...(state.userAgent ? { userAgent: state.userAgent } : {}) });
  if (state.camera === true) await context.grantPermissions(["camera"], { origin });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  await page.addInitScript(prepare, { scenario, passkeys: state.passkeys === "none" ? "none" : state.passkeys, camera: state.camera });
  if (state.name === "returning") await page.route("**/nowhere", (route) => route.fulfill({ status: 204 }));
  const path = options.language ? state.path.replace(/^([^?#]*)(\?)?/, (_, at, query) => `${at}?lang=${options.language}${query ? "&" : ""}`) : state.path;
  await page.goto(origin + path, { waitUntil: "domcontentloaded" });
  if (state.offline) {
    await page.locator(`main[data-state="${state.state}"]`).waitFor();
    await context.setOffline(true);
    await page.locator("#offline").waitFor();
  }
  if (state.go) await state.go(page, context);
  if (state.code) {
    await page.locator("#recovery-code").fill(CODE);
    await page.locator("#restore").click();
  }
  if (state.then) await state.then(page);
  await page.locator(`main[data-state="${state.state}"]`).waitFor({ timeout: 10000 });
  return { page, context, errors, close: () => context.close() };
};
