/** Requests: what is asked is shown, the person says yes or no, and where it goes on is said. */
import { actions, announce, busy, button, h, link as pageLink, point, show } from "../dom.ts";
import { go, issuerOrigin, laterOn, service, vault } from "../context.ts";
import { VaultError, type ProofAsked, type SignInAsked } from "../vault.ts";
import { marked, moment, t } from "../words.ts";
import { simulatedPage } from "./join.ts";
import { browserOf, heroSign, loading } from "./parts.ts";
import { attempt, codeOf, showProblem } from "./problem.ts";
import { opener } from "./unlock.ts";

/** Reads what a link, a scanner or a paste brought, and shows the page for it. */
export async function requestPage(text: string): Promise<void> {
  loading(t("reading"));
  void vault().prepare();
  const again = (): Promise<void> => attempt(() => requestPage(text));
  try {
    const read = await vault().read(text);
    if (read.is === "invitation") {
      // The address has the link, so that loading the page again shows the same.
      const at = read.link.indexOf("#");
      return go(`/${read.invitation.act}#${at < 0 ? read.link : read.link.slice(at + 1)}`, true);
    }
    const { exists } = await vault().status();
    const asked = read.asked;
    if (asked.group === null && service().simulator !== null) {
      if (!exists) return simulatedPage(() => requestPage(text));
    } else if (!exists) throw new VaultError("no_wallet");
    if (read.is === "sign-in") await signInPage(read.id, read.asked, again);
    else await proofPage(read.id, read.asked, again);
  } catch (error) {
    if (codeOf(error) === "no_wallet" && service().simulator !== null) return simulatedPage(() => requestPage(text));
    if (["no_wallet", "no_credential"].includes(codeOf(error))) laterOn(again);
    showProblem(error, again);
  }
}

async function signInPage(id: number, asked: SignInAsked, again: () => Promise<void>): Promise<void> {
  if (asked.answered) throw new VaultError("answered");
  // Whether it has expired, the service says: the clock of a device may be wrong by days.
  const { application, host, initiator } = asked;
  const way = opener(await vault().status());
  const standIns = asked.scopes.some((scope) => scope === "profile" || scope === "email");
  const there = asked.place === "there";
  show(
    "sign-in",
    t("sign-in-title", { application }),
    there ? h("p", { class: "warning" }, t("sign-in-there-warning")) : null,
    h(
      "ul",
      { class: "points" },
      point("arrow", ...marked("sign-in-to", { host })),
      point("check", ...(asked.group ? marked("sign-in-gets", { group: asked.group.name }) : [t("sign-in-gets-person")]), standIns ? ` ${t("sign-in-stand-ins")}` : ""),
      point("hidden", t("sign-in-gets-not")),
    ),
    there
      ? h(
          "dl",
          { class: "facts" },
          h("dt", {}, t("there-browser")), h("dd", {}, browserOf(initiator.userAgent)),
          h("dt", {}, t("there-network")), h("dd", {}, initiator.network),
          h("dt", {}, t("there-time")), h("dd", {}, moment(initiator.time)),
        )
      : null,
    way.element,
    actions(
      button(t("sign-in"), () => act(), { id: "approve" }),
      button(t("not-now"), () => refuse(id, application, !there), { plain: true, id: "refuse" }),
    ),
  );
  const act = async (): Promise<void> => {
    try {
      if (!(await way.open())) return;
      busy(t("proving"));
      const answered = await vault().answerSignIn(id);
      if (answered.next === "digits") showDigits(answered.digits, application);
      else if (answered.next === "nothing") {
        show("done", t("sign-in-done-title"), heroSign("check"), h("p", {}, t("sign-in-done", { application })), h("p", { class: "quiet" }, t("close-page")));
      } else goBack(answered.url, application);
    } catch (error) {
      showProblem(error, again);
    }
  };
}

/** Goes back to the application by way of the issuer, and nowhere else. */
function goBack(url: string, application: string): void {
  if (new URL(url).origin !== issuerOrigin()) throw new VaultError("other_service");
  show(
    "returning",
    t("returning-title"),
    heroSign("check"),
    h("p", {}, t("returning", { application })),
    // When the browser goes there by itself, this is seen for a moment only.
    actions(h("a", { class: "button", href: url }, t("to-application", { application }))),
  );
  location.assign(url);
}

function showDigits(digits: string, application: string): void {
  show(
    "digits",
    t("digits-title"),
    h("p", { class: "digits", role: "img", "aria-label": t("digits-label", { digits: [...digits].join(" ") }) }, ...[...digits].map((digit) => h("span", {}, digit))),
    h("p", {}, t("digits", { application })),
    h("p", { class: "quiet" }, `${t("digits-warning")} ${t("close-page")}`),
  );
  announce(t("digits-label", { digits: [...digits].join(" ") }));
}

/** `here`: the page that asked is behind this one. */
async function refuse(id: number, application: string | null, here = false): Promise<void> {
  let told = true;
  try {
    await vault().refuse(id);
  } catch {
    told = false;
  }
  show(
    "refused",
    t("refused-title"),
    heroSign("cross", "quiet"),
    h("p", {}, told ? (application === null ? t("refused-unknown") : t("refused", { application })) : t("refused-silent")),
    here ? null : h("p", { class: "quiet" }, t("close-page")),
    actions(here && history.length > 1 ? button(t("back"), () => history.back()) : null, pageLink(t("to-home"), "/", "button plain")),
  );
}

async function proofPage(id: number, asked: ProofAsked, again: () => Promise<void>): Promise<void> {
  const { application } = asked;
  const way = opener(await vault().status());
  const back = backAddress(asked.returnTo);
  show(
    "proof",
    application === null ? t("proof-title-unknown") : t("proof-title", { application }),
    application === null ? h("p", { class: "warning" }, t("proof-unknown-warning")) : null,
    h(
      "ul",
      { class: "points" },
      point("arrow", ...(asked.action === null ? [t("proof-purpose-none")] : marked("proof-purpose", { purpose: asked.action })), ...(back ? [" ", ...marked("proof-to", { host: back.host })] : [])),
      point("check", ...(asked.group ? marked("proof-gets", { group: asked.group.name }) : [t("proof-gets-person")]), asked.roll ? ` ${t("proof-roll", { roll: asked.roll })}` : ""),
      point("hidden", t("proof-gets-not")),
    ),
    way.element,
    actions(
      button(
        t("proof-yes"),
        async () => {
          try {
            if (!(await way.open())) return;
            busy(t("proving"));
            await vault().answerProof(id);
            show(
              "proof-done",
              t("proof-done-title"),
              heroSign("check"),
              h("p", {}, t("proof-done")),
              back ? actions(h("a", { class: "button", href: back.href }, t("to-host", { host: back.host }))) : h("p", { class: "quiet" }, t("close-page")),
            );
          } catch (error) {
            // The bridge hands a request out once, so the one that was read is asked about again.
            const isKept = codeOf(error) === "offline" || codeOf(error) === "unavailable";
            showProblem(error, isKept ? () => attempt(() => proofPage(id, asked, again)) : again);
          }
        },
        { id: "approve" },
      ),
      button(t("not-now"), () => refuse(id, application), { plain: true, id: "refuse" }),
    ),
    application === null ? h("details", { class: "small" }, h("summary", {}, t("details")), h("p", {}, h("code", {}, asked.applicationId))) : null,
  );
}

/** The asking page's address, when it is one of the web. */
function backAddress(text: string | null): URL | null {
  if (text === null || !URL.canParse(text)) return null;
  const url = new URL(text);
  return url.protocol === "https:" || url.protocol === "http:" ? url : null;
}

