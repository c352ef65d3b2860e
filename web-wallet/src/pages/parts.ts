/** Parts that several pages have. */
import { announce, h, icon, longWord, show } from "../dom.ts";
import { t } from "../words.ts";

/** A membership as a card. `state` is the line below the name. */
export function membershipCard(name: string, group: string, state: string, done = false): HTMLElement {
  let tone = 0;
  for (const letter of group) tone = (tone * 31 + letter.charCodeAt(0)) % 5;
  return h(
    "div",
    { class: "membership", "data-tone": tone },
    h("span", { class: "membership-ring" }, icon("ring"), icon("one")),
    h("span", { class: `membership-name ${longWord(name) ?? ""}`.trim() }, name),
    h("span", { class: "membership-state" }, done ? icon("check") : null, state),
  );
}

/** The same above a heading. It repeats what the heading says, so screen readers skip it. */
export function heroCard(name: string, group: string, state: string, done = false): HTMLElement {
  const card = membershipCard(name, group, state, done);
  card.classList.add("hero");
  card.setAttribute("aria-hidden", "true");
  return card;
}

export const heroSign = (name: Parameters<typeof icon>[0], tone: "good" | "bad" | "quiet" = "good"): HTMLElement =>
  h("div", { class: `hero sign sign-${tone}` }, icon(name));

/** A page that says that something is read. It is shown only when that takes a moment. */
export function loading(text: string = t("loading")): void {
  const heading = document.querySelector("main[data-state=loading] h1");
  if (heading?.textContent === text) announce(text);
  else show("loading", text, h("div", { class: "hero waits" }));
}

/** Copies a text, and says in `status` what came of it. Where the browser refuses, the text in `source` is marked. */
export async function copy(text: string, status: HTMLElement, source: HTMLElement | null = null): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = t("copied");
  } catch {
    if (source) getSelection()?.selectAllChildren(source);
    status.textContent = t("copy-failed");
  }
  announce(status.textContent ?? "");
}

/** A form field with label, hint and, when something is wrong, a line about it. */
export function field(input: HTMLInputElement | HTMLTextAreaElement, label: string, hint = ""): { element: HTMLElement; say: (text: string, wrong?: boolean) => void } {
  const line = h("p", { class: "field-hint", id: `${input.id}-hint` }, hint);
  input.setAttribute("aria-describedby", line.id);
  return {
    element: h("div", { class: "field" }, h("label", { for: input.id }, label), input, line),
    say(text, wrong = false) {
      if (line.textContent !== text) line.textContent = text;
      line.classList.toggle("wrong", wrong);
      if (wrong) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/** Makes Enter in a field the page's first button. */
export function confirmOnEnter<T extends HTMLElement>(input: T): T {
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    document.querySelector<HTMLButtonElement>("#main .actions button")?.click();
  });
  return input;
}

export const textInput = (id: string, attributes: Record<string, string> = {}): HTMLInputElement =>
  confirmOnEnter(h("input", { id, type: "text", ...attributes }));

const BROWSERS: [RegExp, string][] = [
  [/Edg(e|A|iOS)?\//, "Edge"], [/OPR\/|OPiOS\//, "Opera"], [/SamsungBrowser\//, "Samsung Internet"], [/Firefox\/|FxiOS\//, "Firefox"],
  [/Chrome\/|CriOS\//, "Chrome"], [/Safari\//, "Safari"],
];
const SYSTEMS: [RegExp, string][] = [
  [/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Windows/, "Windows"], [/Mac OS X|Macintosh/, "macOS"], [/CrOS/, "ChromeOS"],
  [/Linux/, "Linux"],
];

/** "Firefox on Windows", of a user agent. */
export function browserOf(agent: string): string {
  const find = (names: [RegExp, string][]) => names.find(([pattern]) => pattern.test(agent))?.[1];
  const [browser, system] = [find(BROWSERS), find(SYSTEMS)];
  if (browser && system) return t("browser-on-system", { browser, system });
  return browser ?? system ?? t("browser-unknown");
}
