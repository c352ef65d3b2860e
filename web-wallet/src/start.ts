/** Starts the pages: words, frame, addresses, notes about the connection and about new versions. */
import { announce, byId, h, link as pageLink, show, shownPages } from "./dom.ts";
import { go, operator, setContext, vault } from "./context.ts";
import { VaultError, type Vault } from "./vault.ts";
import { LANGUAGES, currentLanguage, remember, speak, t } from "./words.ts";
import { aboutPage } from "./pages/about.ts";
import { requestPage } from "./pages/ask.ts";
import { forgetPage, homePage, leavePage } from "./pages/home.ts";
import { invitationPage } from "./pages/join.ts";
import { loading } from "./pages/parts.ts";
import { attempt, showNotFound, showProblem } from "./pages/problem.ts";
import { codePage, devicePage, goOnPage, lostPage, restorePage } from "./pages/restore.ts";
import { scanPage } from "./pages/scanning.ts";

/** Wait for a page after which it is said that it comes, in milliseconds. */
const LONG = 200;

/** The page of the present address. */
function route(): Promise<void> {
  const part = location.hash.slice(1);
  const before = shownPages();
  // The worker answers nothing while it loads the prover's key.
  setTimeout(() => shownPages() === before && loading(), LONG);
  return attempt(() => {
    switch (location.pathname) {
      case "/":
        return frontPage(part);
      case "/join":
      case "/replace":
        if (part === "") throw new VaultError("not_a_link");
        return invitationPage(location.href);
      case "/sign-in":
      case "/prove":
        return requestPage(location.href);
      case "/restore":
        return restorePage();
      case "/about":
        return aboutPage();
      default:
        return showNotFound();
    }
  });
}

function frontPage(part: string): Promise<void> | void {
  if (part.startsWith("leave.")) return leavePage(part.slice("leave.".length));
  switch (part) {
    case "scan":
      return scanPage();
    case "code":
      return codePage();
    case "device":
      return devicePage();
    case "lost":
      return lostPage();
    case "go-on":
      return goOnPage();
    case "forget":
      return forgetPage();
    default:
      return homePage();
  }
}

/** Everything around the page, in the present language. */
function frame(known: boolean): void {
  // As on the page of a sign-in: who runs it, and where it is.
  byId("app-name").textContent = known && operator() !== location.host ? operator() : t("app-name");
  byId("host").textContent = location.host;
  const choice = h("select", { id: "language", "aria-label": t("language") });
  for (const [tag, name] of Object.entries(LANGUAGES)) {
    choice.append(h("option", { value: tag, lang: tag, selected: tag === currentLanguage() }, name));
  }
  choice.addEventListener("change", async () => {
    remember(choice.value);
    await speak(choice.value);
    frame(known);
    await route();
    byId("language").focus();
  });
  byId("footer").replaceChildren(pageLink(t("about"), "/about"), choice);
  connection();
}

function note(id: string, ...content: (Node | string)[]): void {
  document.getElementById(id)?.remove();
  if (content.length === 0) return;
  byId("notes").append(h("div", { id, class: "note" }, ...content));
}

function connection(): void {
  if (navigator.onLine) return note("offline");
  note("offline", t("offline-note"));
  announce(t("offline-note"));
}

/** Offers the version that waits. It takes over at the press, or when this page is closed. */
export function offerUpdate(use: () => void): void {
  const press = h("button", { type: "button", class: "plain" }, t("update-now"));
  press.addEventListener("click", use);
  note("update", h("span", {}, t("update-note")), press);
  announce(t("update-note"));
}

/** Follows links between pages of the wallet without loading anything. */
function followLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const target = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[data-page]") : null;
    if (!target) return;
    event.preventDefault();
    if (byId("main").getAttribute("aria-busy") === "true") return;
    go(target.pathname + target.hash);
  });
  addEventListener("popstate", () => void route());
}

/** The front page shows what another tab has changed meanwhile. */
function followOtherTabs(): void {
  let seen = "";
  document.addEventListener("visibilitychange", async () => {
    if (byId("main").dataset["state"] !== "home") return;
    const { groups, codeKept, exists } = await vault().status();
    const now = JSON.stringify([groups, codeKept, exists]);
    if (!document.hidden && seen !== "" && now !== seen) void route();
    seen = now;
  });
}

export async function start(theVault: Vault): Promise<void> {
  const asked = theVault.service();
  asked.catch(() => undefined);
  try {
    await speak();
  } catch {
    // The one text that is not in a file of words.
    show("problem", "No connection", h("p", {}, "Connect, and load this page again."));
    return;
  }
  frame(false);
  followLinks();
  followOtherTabs();
  addEventListener("online", connection);
  addEventListener("offline", connection);
  const begin = async (): Promise<void> => {
    try {
      setContext(theVault, await asked, route);
    } catch (error) {
      show("loading", t("loading"), h("div", { class: "hero waits" }));
      return showProblem(error, () => location.reload());
    }
    frame(true);
    await route();
  };
  await begin();
}

