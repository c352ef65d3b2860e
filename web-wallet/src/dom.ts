/**
 * Elements, and the one way in which a page comes onto the screen.
 *
 * Text is set as text: there is no markup in a message and no `innerHTML`.
 */

type Child = Node | string | null | false | undefined;
type Value = string | number | boolean | null | undefined | ((event: never) => unknown);

/** An element: attributes, listeners (functions, by the event's name), children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

/** Strokes of 24 by 24. */
const ICONS = {
  check: "M4.5 12.5l5 5 10-11",
  cross: "M6 6l12 12M18 6L6 18",
  arrow: "M4 12h15M13 6l6 6-6 6",
  chevron: "M9 5l7 7-7 7",
  hidden: "M3 3l18 18M10 5.2A9 9 0 0 1 21 12a13 13 0 0 1-2.6 3.2M6.3 6.8A13 13 0 0 0 3 12a9.5 9.5 0 0 0 13 5.2M10 10a3 3 0 0 0 4 4",
  people: "M9 11.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M2.5 19.5a6.5 6.5 0 0 1 13 0M16 4.8a3.5 3.5 0 0 1 0 6.4M18 13.6a6.5 6.5 0 0 1 3.5 5.9",
  scan: "M4 9V6a2 2 0 0 1 2-2h3M15 4h3a2 2 0 0 1 2 2v3M20 15v3a2 2 0 0 1-2 2h-3M9 20H6a2 2 0 0 1-2-2v-3M8 12h8",
  paper: "M7 3h7l4 4v14H7a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1M14 3v4h4M9 12h6M9 16h6",
  devices: "M15 18.5H4.5v-12h15V9M2.5 18.5H15M16.5 11.5h4a1 1 0 0 1 1 1V20a1 1 0 0 1-1 1h-4a1 1 0 0 1-1-1v-7.5a1 1 0 0 1 1-1",
  lost: "M12 9v4.5M12 17v.1M10.3 4.4L2.6 17.6A2 2 0 0 0 4.3 20.5h15.4a2 2 0 0 0 1.7-2.9L13.7 4.4a2 2 0 0 0-3.4 0",
  leave: "M14 4H6a1 1 0 0 0-1 1v14a1 1 0 0 0 1 1h8M10 12h10M16.5 8l4 4-4 4",
  forget: "M4 7h16M9.5 7V4.5h5V7M6.5 7l1 13h9l1-13M10.5 11v5M13.5 11v5",
  info: "M12 11v6M12 7.5v.1M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18",
  key: "M12.5 16a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0M11.2 12.8L20 4M16.2 7.8l3 3M18.8 5.2l1.7 1.7",
  offline: "M3 3l18 18M8.5 15.5a5 5 0 0 1 6.8-.2M5 12a10 10 0 0 1 5-2.7M14.5 9.4A10 10 0 0 1 19 12M2.5 8.5A14 14 0 0 1 7 5.8M11 5a14 14 0 0 1 10.5 3.5M12 19v.1",
  // Dots: lines without length, with round ends.
  ring: "M12.0 3.4v.01M20.5 10.5v.01M19.4 16.3v.01M14.9 20.1v.01M9.1 20.1v.01M4.6 16.3v.01M3.5 10.5v.01M6.5 5.4v.01",
  one: "M17.5 5.4v.01",
} as const;
export type Icon = keyof typeof ICONS;

export function icon(name: Icon): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** The element with an id of `index.html`. */
export const byId = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;

/** Names of organizations have words that are as long as the screen of a small phone is wide. */
export const longWord = (text: string): string | null => (/[^\s-]{20}/.test(text) && !/[\u3040-\u9fff]/.test(text) ? "long-word" : null);

let shown = 0;
let cleanup: AbortController | null = null;

/**
 * Shows a page: heading and content. The heading gets the focus, so that a screen reader reads it and the next
 * press of Tab reaches what follows. What the former page began ends: its signal aborts.
 */
export function show(state: string, title: string, ...content: Child[]): AbortSignal {
  cleanup?.abort();
  cleanup = new AbortController();
  shown += 1;
  const main = byId("main");
  const heading = h("h1", { tabindex: -1, class: longWord(title) }, title);
  main.dataset["state"] = state;
  main.replaceChildren(heading, ...content.filter((child): child is Node | string => !!child));
  // A picture that belongs above the heading is read after it.
  const hero = main.querySelector(":scope > .hero");
  if (hero) main.prepend(hero);
  main.removeAttribute("aria-busy");
  document.title = title;
  window.scrollTo(0, 0);
  heading.focus({ preventScroll: true });
  return cleanup.signal;
}

/** Counts the pages shown. */
export const shownPages = (): number => shown;

/** Says a sentence to screen readers. */
export function announce(text: string): void {
  byId("announce").textContent = text;
}

/** A button. While its work goes on, further presses of any button of the page do nothing. */
export function button(
  text: string,
  press: (element: HTMLButtonElement) => unknown,
  options: { plain?: boolean; danger?: boolean; icon?: Icon; id?: string } = {},
): HTMLButtonElement {
  const element = h("button", { type: "button", id: options.id }, options.icon ? icon(options.icon) : null, h("span", {}, text));
  if (options.plain) element.classList.add("plain");
  if (options.danger) element.classList.add("danger");
  element.addEventListener("click", () => {
    if (byId("main").getAttribute("aria-busy") !== "true") void press(element);
  });
  return element;
}

/** A link to another page of the wallet, which is shown without loading anything. */
export const link = (text: string, path: string, className = ""): HTMLAnchorElement =>
  h("a", { href: path, class: className || null, "data-page": true }, text);

/** A line of a list of choices: icon, name, what it does. */
export function row(image: Icon, text: string, hint: string, press: string | (() => unknown)): HTMLElement {
  const inside = [icon(image), h("span", { class: "row-text" }, h("span", {}, text), hint ? h("small", {}, hint) : null), icon("chevron")];
  if (typeof press === "string") return h("li", {}, h("a", { class: "row", href: press, "data-page": true }, ...inside));
  const element = h("button", { type: "button", class: "row" }, ...inside);
  element.addEventListener("click", () => {
    if (byId("main").getAttribute("aria-busy") !== "true") void press();
  });
  return h("li", {}, element);
}

/** A sentence with a sign before it. */
export const point = (image: Icon, ...text: Child[]): HTMLLIElement => h("li", {}, icon(image), h("div", {}, ...text));

export const actions = (...buttons: Child[]): HTMLDivElement => h("div", { class: "actions" }, ...buttons);

/**
 * Shows below the content that work goes on, and says it. The page takes no press until `idle` or the next page.
 */
export function busy(text: string): void {
  const main = byId("main");
  main.setAttribute("aria-busy", "true");
  for (const control of main.querySelectorAll("button, a.button, input, textarea")) control.setAttribute("aria-disabled", "true");
  let line = main.querySelector<HTMLElement>("#progress");
  if (!line) {
    line = h("p", { id: "progress" });
    const place = main.querySelector(".actions");
    if (place) place.before(line);
    else main.append(line);
  }
  line.textContent = text;
  announce(text);
}

export function idle(): void {
  const main = byId("main");
  main.removeAttribute("aria-busy");
  for (const control of main.querySelectorAll("[aria-disabled]")) control.removeAttribute("aria-disabled");
  main.querySelector("#progress")?.remove();
}

/** Puts a sentence about a failure before the buttons of the page, in place of an earlier one. */
export function complain(text: string): void {
  idle();
  const main = byId("main");
  const line = h("p", { class: "warning", id: "complaint" }, text);
  main.querySelector("#complaint")?.remove();
  const place = main.querySelector(".actions");
  if (place) place.before(line);
  else main.append(line);
  announce(text);
}
