/** The recovery code: shown, printed, checked, and typed again. */
import { actions, announce, button, h, show } from "../dom.ts";
import { readCode } from "../codes.ts";
import { vault } from "../context.ts";
import { longDate, t } from "../words.ts";
import { confirmOnEnter, copy, field, textInput } from "./parts.ts";

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const GROUPS = 7;

/** Groups of four of a code, with or without dashes. */
const groupsOf = (code: string): string[] => code.replace(/[\s-]/g, "").match(/.{1,4}/g) ?? [];

/**
 * Shows a code and resolves when the person says that it is kept. `first`: there is no passkey, so the person shows
 * that it is kept by typing a part of it.
 */
export async function showCode(code: string, options: { first?: boolean; replaces?: boolean } = {}): Promise<void> {
  const groups = groupsOf(code);
  const status = await vault().status();
  const names = status.groups.map((group) => group.name).join(", ");
  for (;;) {
    await new Promise<void>((kept) => {
      const text = groups.join("-");
      const paper = h(
        "p",
        { class: "paper-code", id: "code", role: "group", "aria-label": t("code-label") },
        ...groups.flatMap((group, index) => [h("span", {}, group), index + 1 < groups.length ? h("span", { class: "dash" }, "-") : null]),
      );
      const line = h("p", { class: "field-hint" });
      show(
        "code",
        t("code-title"),
        h("p", {}, t(options.first ? "code-first" : "code-purpose")),
        paper,
        h("div", { class: "side-by-side" }, button(t("code-print"), () => window.print(), { plain: true, icon: "paper" }),
          button(t("copy-code"), () => copy(text, line, paper), { plain: true })),
        line,
        h("p", { class: "quiet" }, t("code-care"), options.replaces ? ` ${t("code-replaces")}` : ""),
        h(
          "section",
          { class: "print-only" },
          h("h2", {}, t("print-title")),
          names ? h("p", {}, t("print-for", { groups: names })) : null,
          h("p", { class: "print-code" }, text),
          h("p", {}, t("print-how", { address: `${location.origin}/restore` })),
          h("p", {}, t("print-date", { date: longDate(new Date()) })),
        ),
        actions(button(t("code-kept"), () => kept(), { id: "kept" })),
      );
    });
    if (!options.first || (await checkKept(groups))) return;
  }
}

/** Asks for one group of the code. False when the person wants to see the code again. */
function checkKept(groups: string[]): Promise<boolean> {
  const position = 1 + (crypto.getRandomValues(new Uint8Array(1))[0] as number) % GROUPS;
  return new Promise((done) => {
    const input = textInput("group", { autocomplete: "off", autocapitalize: "characters", spellcheck: "false", class: "typed-code" });
    const line = field(input, t("code-check-label", { position }));
    show(
      "code-check",
      t("code-check-title"),
      h("p", {}, t("code-check", { position })),
      line.element,
      actions(
        button(t("continue"), () => {
          if (normalize(input.value) === groups[position - 1]) return done(true);
          line.say(t("code-check-wrong"), true);
          announce(t("code-check-wrong"));
          input.focus();
        }),
        button(t("code-show-again"), () => done(false), { plain: true }),
      ),
    );
  });
}

/** As codes are read: letters that look like others stand for them. */
const normalize = (typed: string): string => typed.toUpperCase().replace(/[\s-]/g, "").replace(/O/g, "0").replace(/[IL]/g, "1");

/** What is wrong with a code as far as it is typed; null when nothing is. */
function fault(code: string): string | null {
  for (const [index, letter] of [...code].entries()) {
    if (!LETTERS.includes(letter)) return t("code-entry-letter", { letter, position: Math.floor(index / 4) + 1 });
  }
  if (code.length > 28) return t("code-entry-long", { count: code.length - 28 });
  return code.length === 28 && readCode(code) === null ? t("code-entry-wrong") : null;
}

/** A field for a recovery code, which writes it in groups of four and finds wrong letters while they are typed. */
export function codeField(): { element: HTMLElement; take: () => string | null; refuse: (text: string) => void } {
  // Two lines: seven groups are wider than a small phone.
  const input = confirmOnEnter(
    h("textarea", { id: "recovery-code", rows: 2, autocomplete: "off", autocapitalize: "characters", spellcheck: "false", class: "typed-code", maxlength: 80 }),
  );
  const line = field(input, t("code-entry-label"), t("code-entry-hint"));
  let said = "";
  input.addEventListener("input", (event) => {
    if ((event as InputEvent).isComposing) return;
    const before = normalize(input.value.slice(0, input.selectionStart ?? 0)).length;
    const code = normalize(input.value);
    const text = (code.match(/.{1,4}/g) ?? []).join("-");
    if (text !== input.value) {
      input.value = text;
      // A dash that has just come is passed, unless the person takes letters away.
      const at = before === 0 ? 0 : before + Math.floor((before - 1) / 4);
      input.setSelectionRange(at, at);
    }
    const wrong = fault(code);
    if (wrong) line.say(wrong, true);
    else if (code.length === 28) line.say(t("code-entry-right"));
    else line.say(code === "" ? t("code-entry-hint") : t("code-entry-count", { count: code.length }));
    const say = wrong ?? (code.length === 28 ? t("code-entry-right") : "");
    if (say !== said) announce(say);
    said = say;
  });
  const refuse = (text: string): void => {
    line.say(text, true);
    announce(text);
    input.focus();
  };
  return {
    element: line.element,
    refuse,
    take() {
      const code = normalize(input.value);
      const wrong = fault(code) ?? (code.length < 28 ? t("code-entry-short") : null);
      if (wrong === null) return code;
      refuse(wrong);
      return null;
    },
  };
}
