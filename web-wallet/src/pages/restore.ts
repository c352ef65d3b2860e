/** Another device, a browser that has forgotten, and the device that is lost. */
import { actions, busy, button, complain, h, idle, link as pageLink, point, show } from "../dom.ts";
import { go, insideApp, operator, takeLater, vault } from "../context.ts";
import { PasskeyError, findPasskey, makePasskey, passkeysExist, usePasskey } from "../passkeys.ts";
import type { Sealing, Status } from "../vault.ts";
import { t } from "../words.ts";
import { codeField, showCode } from "./code.ts";
import { asLink, choosePassphrase, freshCode } from "./join.ts";
import { copy, heroSign, membershipCard } from "./parts.ts";
import { attempt, codeOf, sentence, showProblem } from "./problem.ts";
import { opener } from "./unlock.ts";

/** Memberships of a person whom this browser does not know. */
export async function restorePage(): Promise<void> {
  const { exists } = await vault().status();
  const passkeys = passkeysExist() && !insideApp();
  if (!passkeys) return showCodeEntry();
  show(
    "restore",
    t("restore-title"),
    heroSign("devices", "quiet"),
    h("p", {}, t("restore-purpose")),
    actions(
      button(t("restore-passkey"), () => byPasskey(), { icon: "key", id: "by-passkey" }),
      button(t("restore-code"), () => showCodeEntry(), { plain: true, icon: "paper", id: "by-code" }),
    ),
    exists ? h("p", { class: "ways" }, pageLink(t("to-home"), "/")) : null,
  );
}

async function byPasskey(): Promise<void> {
  try {
    busy(t("passkey-asked"));
    const { userHandle, ...passkey } = await findPasskey();
    busy(t("restoring"));
    const status = await vault().restore({ kind: "passkey", ...passkey }, userHandle);
    await showRestored(status, false);
  } catch (error) {
    idle();
    // Here the other way is on the page, so it stays.
    if (error instanceof PasskeyError || ["no_copy", "wrong_key"].includes(codeOf(error))) {
      complain(codeOf(error) === "wrong_key" ? t("passkey-wrong") : sentence(error));
    } else showProblem(error, () => attempt(restorePage));
  }
}

function showCodeEntry(): void {
  const field = codeField();
  show(
    "restore-code",
    t("restore-code-title"),
    h("p", {}, t("restore-code-purpose")),
    field.element,
    actions(
      button(
        t("restore-code-button"),
        async () => {
          const code = field.take();
          if (code === null) return;
          try {
            busy(t("restoring"));
            await showRestored(await vault().restore({ kind: "code", code }), true);
          } catch (error) {
            if (!["no_copy", "wrong_key", "not_a_code"].includes(codeOf(error))) return showProblem(error, () => attempt(showCodeEntry));
            idle();
            field.refuse(sentence(error));
          }
        },
        { id: "restore" },
      ),
    ),
  );
}

/** `byCode`: this browser opens with the code alone so far. */
async function showRestored(status: Status, byCode: boolean): Promise<void> {
  show(
    "restored",
    t("restored-title"),
    heroSign("check"),
    h("p", {}, t("restored", { count: status.groups.length })),
    h("div", { class: "memberships" }, ...status.groups.map(({ name, group, joined }) => membershipCard(name, group, t(joined ? "member" : "member-not-yet"), joined))),
    h("h2", {}, t("restored-question")),
    actions(
      button(t("restored-both"), () => (byCode ? showWaysHere() : goOn()), { id: "keep-both" }),
      button(t("restored-lost"), () => lostPage(), { plain: true, icon: "lost", id: "lost" }),
    ),
  );
}

/** How this browser is to open what was brought by the code. */
function showWaysHere(): void {
  const add = (sealing: () => Promise<Sealing>) => async (): Promise<void> => {
    try {
      const by = await sealing();
      busy(t("sealing"));
      await vault().addSealing(by);
      goOn();
    } catch (error) {
      idle();
      if (error instanceof PasskeyError && error.code === "again" && error.credential) {
        const credential = error.credential;
        show(
          "passkey-again",
          t("passkey-again-title"),
          heroSign("key", "quiet"),
          h("p", {}, t("passkey-again")),
          actions(button(t("passkey-again-button"), add(async () => ({ kind: "passkey", ...(await usePasskey([credential])) })), { icon: "key" })),
        );
      } else if (error instanceof PasskeyError) {
        complain(error.code === "declined" ? t("passkey-declined") : `${t("passkey-no-prf")}${error.stays ? ` ${t("passkey-no-prf-stays")}` : ""}`);
      } else showProblem(error, () => attempt(showWaysHere));
    }
  };
  const passkeys = passkeysExist() && !insideApp();
  // Asked for now, because some browsers want the passkey's dialog right after the press.
  const handle = vault().userHandle();
  handle.catch(() => undefined);
  show(
    "add-way",
    t("add-passkey-title"),
    heroSign("key", "quiet"),
    passkeys ? h("p", {}, t("add-passkey")) : null,
    actions(
      passkeys
        ? button(
            t("add-passkey-button"),
            add(async () => {
              busy(t("passkey-asked"));
              const { groups } = await vault().status();
              return { kind: "passkey", ...(await makePasskey(await handle, groups[0]?.name ?? t("app-name"), operator())) };
            }),
            { icon: "key", id: "add-passkey" },
          )
        : null,
      button(t("add-passphrase-button"), add(async () => ({ kind: "passphrase", passphrase: await choosePassphrase() })), { plain: passkeys }),
      button(t("add-code-button"), () => goOn(), { plain: true }),
    ),
  );
}

/** To what was begun before the memberships were brought here, else home. */
function goOn(): void {
  const then = takeLater();
  if (then) void then();
  else location.assign("/");
}

/** How the same memberships come onto another device. */
export function devicePage(): void {
  const address = `${location.origin}/restore`;
  const text = h("p", { class: "address" }, address);
  const line = h("p", { class: "field-hint" });
  show(
    "device",
    t("device-title"),
    h("p", {}, t("device-purpose")),
    h("ol", { class: "steps" }, h("li", {}, t("device-1"), text, asLink(t("copy-address"), () => copy(address, line, text)), line), h("li", {}, t("device-2"))),
    h("p", { class: "quiet" }, t("device-code")),
    actions(pageLink(t("to-home"), "/", "button"), pageLink(t("make-code"), "/#code", "button plain")),
  );
}

/** "My old device is lost or stolen." */
export async function lostPage(): Promise<void> {
  const way = opener(await vault().status());
  const begin = (next: () => Promise<void>) => async (): Promise<void> => {
    try {
      if (await way.open()) await next();
    } catch (error) {
      showProblem(error, () => attempt(lostPage));
    }
  };
  show(
    "lost",
    t("lost-title"),
    h("p", {}, t("lost-purpose")),
    h("p", { class: "warning" }, t("lost-first")),
    h("ul", { class: "points" }, point("check", t("lost-votes"))),
    way.element,
    passkeysExist()
      ? actions(button(t("lost-removed"), begin(newPasskey), { id: "removed" }), button(t("lost-cannot"), begin(codeAlone), { plain: true, id: "code-alone" }))
      : actions(button(t("continue"), begin(codeAlone), { id: "code-alone" })),
    passkeysExist() ? h("p", { class: "quiet center" }, t("lost-cannot-hint")) : null,
  );
}

/** The new passkey has a user handle of its own, so that it does not take the place of the old one. */
async function newPasskey(): Promise<void> {
  const made = vault().beginReplacement();
  made.catch(() => undefined);
  const { groups } = await vault().status();
  const name = groups[0]?.name ?? t("app-name");
  const press = (use?: Uint8Array) => async (): Promise<void> => {
    try {
      const { userHandle, code } = await made;
      busy(t("passkey-asked"));
      const passkey = use ? await usePasskey([use]) : await makePasskey(userHandle, name, operator());
      await showCode(code, { replaces: true });
      await replaceAll([{ kind: "passkey", ...passkey }, { kind: "code", code }]);
    } catch (error) {
      idle();
      if (error instanceof PasskeyError && error.code === "no_prf") await codeAlone();
      else if (error instanceof PasskeyError && error.code === "again" && error.credential) ask("passkey-again", error.credential);
      else if (error instanceof PasskeyError) complain(sentence(error));
      else showProblem(error, () => attempt(lostPage));
    }
  };
  const ask = (words: "passkey-again" | "lost-passkey", use?: Uint8Array): void => {
    show(
      "lost-passkey",
      t(`${words}-title`),
      heroSign("key", "quiet"),
      h("p", {}, t(words)),
      actions(
        button(t(words === "passkey-again" ? "passkey-again-button" : "add-passkey-button"), press(use), { icon: "key", id: "new-passkey" }),
        button(t("go-on-with-code"), () => attempt(codeAlone), { plain: true }),
      ),
    );
  };
  ask("lost-passkey");
}

async function codeAlone(): Promise<void> {
  const { code } = await vault().beginReplacement();
  await showCode(code, { first: true, replaces: true });
  await replaceAll([{ kind: "code", code }, { kind: "passphrase", passphrase: await choosePassphrase() }]);
}

async function replaceAll(by: Sealing[]): Promise<void> {
  try {
    busy(t("lost-working"));
    const { pending } = await vault().status();
    await (pending === "replace" ? vault().resume() : vault().replace(by));
    await vault().codeKept();
    showShutOut();
  } catch (error) {
    showProblem(error, () => {
      show("loading", t("lost-working"), h("div", { class: "hero waits" }));
      return replaceAll(by);
    });
  }
}

function showShutOut(): void {
  show(
    "lost-done",
    t("lost-done-title"),
    heroSign("check"),
    h("p", {}, t("lost-done")),
    h("p", {}, t("lost-stolen")),
    h("p", { class: "quiet" }, t("lost-delete")),
    actions(button(t("to-home"), () => goOn())),
  );
}

/** Goes on with what was interrupted: a joining or a replacement. */
export async function goOnPage(): Promise<void> {
  const status = await vault().status();
  const { pending } = status;
  const way = opener(status);
  if (pending === null) return go("/", true);
  show(
    "go-on",
    t("go-on-title"),
    heroSign("arrow", "quiet"),
    h("p", {}, t(pending === "join" ? "home-pending-join" : "home-pending-replace")),
    way.element,
    actions(
      button(t("home-go-on"), async () => {
        try {
          if (!(await way.open())) return;
          busy(t("going-on"));
          await vault().resume();
          if (pending === "replace") showShutOut();
          else show("gone-on", t("gone-on"), heroSign("check"), actions(pageLink(t("to-home"), "/", "button")));
        } catch (error) {
          showProblem(error, () => attempt(goOnPage));
        }
      }),
    ),
  );
}

/** A new recovery code, from the front page. */
export async function codePage(): Promise<void> {
  const status = await vault().status();
  const way = opener(status);
  show(
    "new-code",
    t("recovery-code"),
    heroSign("paper", "quiet"),
    h("p", {}, t("code-purpose")),
    status.codeKept ? h("p", {}, t("code-replaces")) : null,
    way.element,
    actions(
      button(
        t("make-code"),
        async () => {
          try {
            if (await way.open()) await freshCode();
          } catch (error) {
            showProblem(error, () => attempt(codePage));
          }
        },
        { id: "make-code" },
      ),
    ),
  );
}

