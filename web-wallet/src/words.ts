/**
 * The words of the pages, in the person's language: one file, which is fetched before the first page is shown.
 *
 * A message is a text with `{name}` in it, or one text for each plural category of the language.
 */
import type english from "./words/en.json";

export type Message = keyof typeof english;
type Words = Record<Message, string | Record<string, string>>;
export type Values = Record<string, string | number>;

/** Each language in its own name. */
export const LANGUAGES: Record<string, string> = {
  de: "Deutsch",
  en: "English",
  es: "Español",
  fr: "Français",
  ja: "日本語",
  pt: "Português",
};
const REMEMBERED = "language";

let words = {} as Words;
let language = "en";

/** The language that was chosen here, or the first of the browser's that there is. */
function preferred(): string {
  const asked = new URLSearchParams(location.search).get("lang");
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(REMEMBERED);
  } catch {
    // Without storage the browser's language is used each time.
  }
  const wished = [asked, kept, ...navigator.languages].filter((tag): tag is string => !!tag);
  return wished.map((tag) => tag.toLowerCase().split("-")[0] as string).find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? "en";
}

export const currentLanguage = (): string => language;

/** Fetches the words of a language, or those of English. */
export async function speak(tag: string = preferred()): Promise<void> {
  for (const one of [tag, "en"]) {
    const answer = await fetch(`/words-${one}.json`).catch(() => null);
    if (!answer?.ok) continue;
    [words, language] = [(await answer.json()) as Words, one];
    document.documentElement.lang = one;
    document.documentElement.dir = t("direction");
    return;
  }
  throw new Error("no words");
}

export function remember(tag: string): void {
  try {
    localStorage.setItem(REMEMBERED, tag);
  } catch {
    // It holds for this page.
  }
}

/** Whether there is a message of this name. */
export const isMessage = (name: string): name is Message => Object.hasOwn(words, name);

/** The text of a message, in which `count` of the values chooses the plural form, before the values are in it. */
function textOf(name: Message, count: unknown): string {
  const message = words[name];
  if (typeof message === "string") return message;
  return message[new Intl.PluralRules(locale()).select(Number(count))] ?? (message["other"] as string);
}

const written = (value: string | number | undefined): string =>
  typeof value === "number" ? new Intl.NumberFormat(locale()).format(value) : (value ?? "");

/** The text of a message. */
export const t = (name: Message, values: Values = {}): string =>
  textOf(name, values["count"]).replace(/\{(\w+)\}/g, (_, key: string) => written(values[key]));

/** The same with the values marked: what a person has to look at. */
export const marked = (name: Message, values: Values): (string | HTMLElement)[] =>
  textOf(name, values["count"]).split(/\{(\w+)\}/).map((part, index) => {
    if (index % 2 === 0) return part;
    const mark = document.createElement("b");
    mark.textContent = written(values[part]);
    return mark;
  });

/** An hour, and the day when it is another one, as the language writes them. `time` is in seconds. */
export function moment(time: number): string {
  const when = new Date(time * 1000);
  const today = when.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(locale(), { timeStyle: "short", ...(today ? {} : { dateStyle: "medium" }) }).format(when);
}

export const longDate = (when: Date): string => new Intl.DateTimeFormat(locale(), { dateStyle: "long" }).format(when);

/** The language's rules; those of English for words that belong to no language. */
const locale = (): string => (Intl.DateTimeFormat.supportedLocalesOf(language).length > 0 ? language : "en");
