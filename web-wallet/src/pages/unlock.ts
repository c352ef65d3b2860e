/** How a page opens what this browser keeps: by a passkey, a passphrase, or the recovery code. */
import { busy, button, complain, h, idle } from "../dom.ts";
import { vault } from "../context.ts";
import { PasskeyError, findPasskey, passkeysExist, usePasskey } from "../passkeys.ts";
import type { Sealing, Status } from "../vault.ts";
import { t } from "../words.ts";
import { codeField } from "./code.ts";
import { field, textInput } from "./parts.ts";
import { codeOf, sentence } from "./problem.ts";

export const LEAST = 12;

/** A field for a passphrase, with a box that shows what is typed. `fresh`: one that is chosen now. */
export function passphraseField(fresh: boolean): { element: HTMLElement; take: () => string | null; refuse: (text: string) => void } {
  const input = textInput("passphrase", { autocomplete: fresh ? "new-password" : "current-password", spellcheck: "false", autocapitalize: "none" });
  input.type = "password";
  const hint = fresh ? t("passphrase-hint", { least: LEAST }) : "";
  const line = field(input, t("passphrase-label"), hint);
  const box = h("input", { type: "checkbox", id: "passphrase-show" });
  box.addEventListener("change", () => (input.type = box.checked ? "text" : "password"));
  line.element.append(h("div", { class: "check-box" }, box, h("label", { for: box.id }, t("passphrase-show"))));
  const missing = (): number => LEAST - [...input.value].length;
  input.addEventListener("input", () => {
    if (!fresh) return line.say("");
    if (input.value === "") line.say(hint);
    else line.say(missing() > 0 ? t("passphrase-more", { count: missing() }) : t("passphrase-enough"));
  });
  const refuse = (text: string): void => {
    line.say(text, true);
    input.focus();
  };
  return {
    element: line.element,
    refuse,
    take() {
      if (fresh && missing() > 0) refuse(t("passphrase-more", { count: missing() }));
      else if (input.value === "") refuse(t("passphrase-wrong"));
      else return input.value;
      return null;
    },
  };
}

export interface Opener {
  /** What the page shows above its button: fields, and the way to another way. Empty for a passkey. */
  element: HTMLElement;
  /** Opens, when the page's button is pressed. False: the page has said why not, and stays. */
  open: () => Promise<boolean>;
}

/** Prepares the opening of what this browser keeps. Nothing is asked before `open`. */
export function opener(status: Status): Opener {
  const element = h("div", { class: "opener" });
  if (status.open) return { element, open: async () => true };
  const has = (kind: Sealing["kind"]): boolean => status.slots.some((slot) => slot.kind === kind);
  const known = status.slots.flatMap((slot) => (slot.kind === "passkey" && slot.credential ? [slot.credential] : []));
  // A passkey that was used in this browser, what was chosen for it, a passkey of another device. The copy may have
  // slots of which this browser does not know: the code is always worth a try.
  const kinds: Sealing["kind"][] = [];
  if (known.length > 0 && passkeysExist()) kinds.push("passkey");
  if (has("passphrase")) kinds.push("passphrase");
  if (known.length === 0 && has("passkey") && passkeysExist()) kinds.push("passkey");
  kinds.push("code");
  let kind: Sealing["kind"] = kinds[0] ?? "code";
  let fields: ReturnType<typeof codeField> | null = null;

  // A passkey needs no field. Other ways are offered once it has failed.
  const choose = (next: Sealing["kind"], focus: boolean): void => {
    kind = next;
    fields = kind === "passphrase" ? passphraseField(false) : kind === "code" ? codeField() : null;
    const other = kinds[(kinds.indexOf(kind) + 1) % kinds.length] as Sealing["kind"];
    element.replaceChildren(
      ...(fields ? [fields.element] : []),
      ...(other === kind || (kind === "passkey" && !focus) ? [] : [button(t("unlock-other"), () => choose(other, true), { plain: true })]),
    );
    element.querySelector(":scope > button")?.classList.add("as-link");
    if (focus) (element.querySelector<HTMLElement>("input") ?? element.querySelector<HTMLElement>("button"))?.focus();
  };
  choose(kind, false);

  const sealing = async (): Promise<Sealing | null> => {
    if (kind === "passkey") {
      busy(t("passkey-asked"));
      const { credential, output } = known.length > 0 ? await usePasskey(known) : await findPasskey();
      return { kind, credential, output };
    }
    const typed = fields?.take() ?? null;
    if (typed === null) return null;
    return kind === "code" ? { kind, code: typed } : { kind: "passphrase", passphrase: typed };
  };

  return {
    element,
    async open() {
      try {
        const by = await sealing();
        if (by === null) return false;
        busy(t("opening"));
        await vault().unlock(by);
        return true;
      } catch (error) {
        idle();
        if (error instanceof PasskeyError) {
          complain(sentence(error));
          if (error.code === "declined") choose("passkey", true);
          else choose(kinds[1] ?? "code", true);
          return false;
        }
        if (!["wrong_key", "not_a_code"].includes(codeOf(error))) throw error;
        if (kind === "passkey") {
          complain(t("passkey-wrong"));
          choose(kinds[1] ?? "code", true);
        } else fields?.refuse(kind === "passphrase" ? t("passphrase-wrong") : sentence(error));
        return false;
      }
    },
  };
}
