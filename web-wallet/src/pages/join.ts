/** Joining by a link, beginning anew by an enroller's link, and the ways there with and without a passkey. */
import { actions, busy, button, complain, h, idle, link as pageLink, point, show } from "../dom.ts";
import { forgetAddress, go, insideApp, issuerOrigin, laterOn, operator, service, vault } from "../context.ts";
import { PasskeyError, makePasskey, passkeysExist, usePasskey, type Passkey } from "../passkeys.ts";
import type { Invitation, Sealing } from "../vault.ts";
import { t } from "../words.ts";
import { showCode } from "./code.ts";
import { copy, heroCard, heroSign, loading } from "./parts.ts";
import { attempt, showProblem } from "./problem.ts";
import { opener, passphraseField } from "./unlock.ts";

/** What follows once a person is sealed here; `link` is null for the made-up person of a development service. */
interface Purpose {
  /** What the passkey is called in the lists of the device. */
  name: string;
  seal: (by: Sealing[]) => Promise<void>;
  /** After sealing; `codeKept` says whether the person has a code already. */
  finish: (codeKept: boolean) => Promise<void>;
}

/** The page of a link that the organization sent. */
export async function invitationPage(link: string): Promise<void> {
  loading();
  void vault().prepare();
  const invitation = await vault().readInvitation(link);
  const status = await vault().status();
  if (invitation.act === "join" && invitation.member) return showMemberAlready(invitation);
  if (status.exists) return showAdding(link, invitation);
  if (insideApp() || !passkeysExist()) return showElsewhere(() => showJoining(link, invitation, true));
  return showJoining(link, invitation, false);
}

function showMemberAlready({ name, group }: Invitation): void {
  forgetAddress();
  show(
    "member-already",
    t("join-member-already"),
    heroCard(name, group, t("member"), true),
    h("p", {}, t("join-member-already-text", { group: name })),
    actions(pageLink(t("to-home"), "/", "button")),
  );
}

/** What the organization learns, and who runs the page. */
const explained = (invitation: Invitation): (Node | null)[] =>
  invitation.act === "join"
    ? [
        h("p", {}, t("join-purpose")),
        h("ul", { class: "points" }, point("people", t("join-learns")), point("hidden", t("join-learns-not")), point("info", t("join-run-by", { name: operator() }))),
      ]
    : [
        h("p", {}, t("replace-link-purpose")),
        h("ul", { class: "points" }, point("devices", t("replace-link-effect")), point("people", t("replace-link-new")), point("info", t("join-run-by", { name: operator() }))),
      ];

const titleOf = ({ act, name }: Invitation): string => t(act === "join" ? "join-title" : "replace-link-title", { group: name });

/** For a browser that has a wallet: it is opened, and the membership is added. */
async function showAdding(link: string, invitation: Invitation): Promise<void> {
  const way = opener(await vault().status());
  const fresh = h("input", { type: "checkbox", id: "fresh", "aria-describedby": "fresh-hint" });
  show(
    "adding",
    titleOf(invitation),
    heroCard(invitation.name, invitation.group, t("member-not-yet")),
    ...explained(invitation),
    invitation.act === "replace"
      ? h(
          "div",
          { class: "field" },
          h("div", { class: "check-box" }, fresh, h("label", { for: "fresh" }, t("replace-link-fresh"))),
          h("p", { class: "field-hint", id: "fresh-hint" }, t("replace-link-fresh-hint")),
        )
      : null,
    way.element,
    actions(
      button(t(invitation.act === "join" ? "join-add" : "replace-here"), async () => {
        try {
          if (!(await way.open())) return;
          await enrol(link, fresh.checked);
        } catch (error) {
          showProblem(error, () => attempt(() => showAdding(link, invitation)));
        }
      }),
    ),
    h("p", { class: "quiet center" }, t("join-unlock-hint")),
  );
}

async function enrol(link: string, fresh: boolean): Promise<void> {
  busy(t("joining"));
  const membership = await vault().enrol(link, fresh);
  const { codeKept } = await vault().status();
  forgetAddress();
  showJoined(membership.name, membership.group, codeKept);
}

/** For a browser without passkeys, and for views inside other apps: the way out comes first. */
function showElsewhere(goOn: () => void): void {
  const inside = insideApp();
  const line = h("p", { class: "field-hint" });
  const address = h("p", { class: "address", id: "address" }, location.href);
  const share = typeof navigator.share === "function";
  show(
    inside ? "in-app" : "no-passkeys",
    t(inside ? "in-app-title" : "no-passkeys-title"),
    heroSign("arrow", "quiet"),
    h("p", {}, t(inside ? "in-app" : "no-passkeys")),
    inside ? h("p", {}, t("in-app-how")) : null,
    address,
    line,
    actions(
      button(t("copy-address"), () => copy(location.href, line, address)),
      share ? button(t("share"), () => navigator.share({ url: location.href }).catch(() => undefined), { plain: true }) : null,
      button(t("go-on-here"), goOn, { plain: true, id: "go-on-here" }),
    ),
  );
}

/** The one screen before a person joins. */
function showJoining(link: string, invitation: Invitation, withoutPasskey: boolean): void {
  // Drawn now, because some browsers want the passkey's dialog right after the press.
  const made = vault().create();
  made.catch(() => undefined);
  let sealed = false;
  const purpose: Purpose = {
    name: invitation.name,
    seal: async (by) => {
      if (!sealed) await vault().seal(by, link);
      sealed = true;
    },
    finish: async (codeKept) => {
      busy(t("joining"));
      const membership = await vault().enrol(link);
      if (codeKept) await vault().codeKept();
      forgetAddress();
      showJoined(membership.name, membership.group, codeKept);
    },
  };
  const again = (): void => showJoining(link, invitation, withoutPasskey);
  show(
    "join",
    titleOf(invitation),
    heroCard(invitation.name, invitation.group, t("member-not-yet")),
    ...explained(invitation),
    withoutPasskey
      ? actions(button(t("continue"), () => codeWay(made, purpose), { id: "join" }))
      : actions(
          button(t(invitation.act === "join" ? "join-with-passkey" : "replace-with-passkey"), () => passkeyWay(made, purpose, again), { icon: "key", id: "join" }),
        ),
    withoutPasskey ? null : h("p", { class: "quiet center" }, t("join-passkey-hint")),
    h(
      "p",
      { class: "ways" },
      invitation.act === "join" ? elsewhereLink(() => invitationPage(link)) : null,
      withoutPasskey ? null : asLink(t("without-passkey"), () => codeWay(made, purpose)),
    ),
  );
}

function elsewhereLink(then: () => unknown): HTMLElement {
  return asLink(t("elsewhere"), () => {
    laterOn(then);
    go("/restore");
  });
}

export function asLink(text: string, press: () => unknown): HTMLButtonElement {
  const element = button(text, press, { plain: true });
  element.classList.add("as-link");
  return element;
}

type Made = Promise<{ userHandle: Uint8Array; code: string }>;

/** With a passkey: its dialog, then sealing and what follows. */
async function passkeyWay(made: Made, purpose: Purpose, again: () => void, use?: Uint8Array): Promise<void> {
  let passkey: Passkey;
  try {
    busy(t("passkey-asked"));
    passkey = use ? await usePasskey([use]) : await makePasskey((await made).userHandle, purpose.name, operator());
  } catch (error) {
    if (error instanceof PasskeyError) return showPasskeyProblem(error, made, purpose, again);
    return showProblem(error, again);
  }
  await sealAndGoOn([{ kind: "passkey", ...passkey }], purpose, false);
}

async function sealAndGoOn(by: Sealing[], purpose: Purpose, codeKept: boolean): Promise<void> {
  try {
    busy(t("sealing"));
    // Firefox asks the person and waits for the answer: nothing waits for it here.
    void navigator.storage?.persist?.().catch(() => undefined);
    await purpose.seal(by);
    await purpose.finish(codeKept);
  } catch (error) {
    showProblem(error, () => {
      loading(t("sealing"));
      return sealAndGoOn(by, purpose, codeKept);
    });
  }
}

function showPasskeyProblem(error: PasskeyError, made: Made, purpose: Purpose, again: () => void): void {
  const { code, credential } = error;
  if (code === "again" && credential) {
    show(
      "passkey-again",
      t("passkey-again-title"),
      heroSign("key", "quiet"),
      h("p", {}, t("passkey-again")),
      actions(button(t("passkey-again-button"), () => passkeyWay(made, purpose, again, credential), { icon: "key" })),
    );
    return;
  }
  if (code === "declined") {
    idle();
    // The page stays, with a sentence; below its button is the way without a passkey already.
    complain(t("passkey-declined"));
    return;
  }
  show(
    code === "no_prf" ? "no-prf" : "passkey-unusable",
    t(code === "no_prf" ? "passkey-no-prf-title" : "passkey-unusable-title"),
    heroSign("paper", "quiet"),
    h("p", {}, t(code === "no_prf" ? "passkey-no-prf" : "passkey-unusable")),
    error.stays ? h("p", { class: "quiet" }, t("passkey-no-prf-stays")) : null,
    actions(button(t("go-on-with-code"), () => codeWay(made, purpose)), button(t("back"), again, { plain: true })),
  );
}

/** Without a passkey: the code is kept before anything else, then a passphrase for this browser. */
async function codeWay(made: Made, purpose: Purpose): Promise<void> {
  await attempt(async () => {
    const { code } = await made;
    await showCode(code, { first: true });
    const passphrase = await choosePassphrase();
    await sealAndGoOn([{ kind: "code", code }, { kind: "passphrase", passphrase }], purpose, true);
  });
}

export function choosePassphrase(): Promise<string> {
  return new Promise((chosen) => {
    const field = passphraseField(true);
    show(
      "passphrase",
      t("passphrase-title"),
      h("p", {}, t("passphrase-purpose")),
      field.element,
      actions(
        button(t("continue"), () => {
          const passphrase = field.take();
          if (passphrase !== null) chosen(passphrase);
        }),
      ),
    );
  });
}

function showJoined(name: string, group: string, codeKept: boolean): void {
  show(
    "joined",
    t("joined-title"),
    heroCard(name, group, t("member"), true),
    h("p", {}, t("joined", { group: name })),
    h("p", {}, t(codeKept ? "joined-done" : "joined-next")),
    codeKept
      ? actions(pageLink(t("to-home"), "/", "button"))
      : actions(button(t("make-code"), () => attempt(freshCode), { icon: "paper", id: "make-code" }), pageLink(t("later"), "/", "button plain")),
  );
}

/** A new code in place of an old one, of an open wallet. */
export async function freshCode(): Promise<void> {
  const { codeKept } = await vault().status();
  busy(t("code-making"));
  const code = await vault().newCode();
  await showCode(code, { replaces: codeKept });
  await vault().codeKept();
  show("code-kept", t("code-kept-title"), heroSign("check"), h("p", {}, t("code-kept-text")), actions(pageLink(t("to-home"), "/", "button")));
}

/** Makes the person of a service in development, who needs no group. `then` goes on with what asked for one. */
export function simulatedPage(then: () => unknown): void {
  const made = vault().create();
  made.catch(() => undefined);
  const purpose: Purpose = {
    name: new URL(service().issuer).host,
    seal: (by) => vault().seal(by, null),
    finish: async (codeKept) => {
      if (codeKept) await vault().codeKept();
      await then();
    },
  };
  const again = (): void => simulatedPage(then);
  show(
    "simulated",
    t("simulated-begin"),
    heroSign("people", "quiet"),
    h("p", {}, t("simulated")),
    h("p", { class: "quiet" }, issuerOrigin()),
    actions(
      passkeysExist() ? button(t("join-with-passkey-person"), () => passkeyWay(made, purpose, again), { icon: "key" }) : null,
      button(t("without-passkey"), () => codeWay(made, purpose), { plain: passkeysExist() }),
    ),
  );
}

