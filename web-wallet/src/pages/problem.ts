/** Pages about what was not done, and why. */
import { actions, button, h, icon, link, show } from "../dom.ts";
import { PasskeyError } from "../passkeys.ts";
import { VaultError } from "../vault.ts";
import { isMessage, t, type Message } from "../words.ts";

/** After these, the same act may succeed. */
const WORTH_REPEATING = new Set([
  "offline", "unavailable", "changed_elsewhere", "version_mismatch", "rate_limit_exceeded", "wrong_key", "no_copy", "not_a_code",
  "proof_refused", "gone", "request_timeout", "bridge_unavailable", "internal_server_error", "storage",
]);
/** In these another person may be at work. */
const SUSPICIOUS = new Set(["not_signed", "sign_in_over_bridge", "link_proof_asked", "not_from_application", "code_used", "replacement_secret_wrong", "replaced_elsewhere", "proof_refused"]);
/** After these, a copy on another device may help. */
const ELSEWHERE = new Set(["replaced_elsewhere", "no_wallet", "no_credential", "code_used", "another_account"]);
/** Codes of the service that mean the same to a person. */
const SAME: Record<string, string> = {
  version_mismatch: "changed_elsewhere",
  request_timeout: "unavailable",
  bridge_unavailable: "unavailable",
  internal_server_error: "unavailable",
  permit_invalid: "unknown_code",
  copy_missing: "changed_elsewhere",
  write_key_wrong: "changed_elsewhere",
  handle_taken: "changed_elsewhere",
};

export const codeOf = (error: unknown): string => (error instanceof VaultError || error instanceof PasskeyError ? error.code : "");

const passkeyMessage: Record<PasskeyError["code"], Message> = {
  declined: "passkey-declined",
  no_prf: "passkey-wrong",
  again: "passkey-again",
  unusable: "passkey-unusable",
};

/** One sentence about an error, for a place in a page. */
export function sentence(error: unknown): string {
  if (error instanceof PasskeyError) return t(passkeyMessage[error.code]);
  const code = codeOf(error);
  const name = `problem-${SAME[code] ?? code}`;
  return t(isMessage(name) ? name : "problem");
}

/** A page about an error. `again` does the act once more. */
export function showProblem(error: unknown, again?: () => unknown): void {
  const code = codeOf(error);
  const detail = error instanceof VaultError ? error.detail : error instanceof Error && !(error instanceof PasskeyError) ? error.message : "";
  if (code === "") console.error(error);
  const title = error instanceof PasskeyError ? (`${passkeyMessage[error.code]}-title` as Message) : `problem-${SAME[code] ?? code}-title`;
  const repeat = again !== undefined && (WORTH_REPEATING.has(code) || code === "" || error instanceof PasskeyError);
  show(
    "problem",
    t(isMessage(title) ? title : "problem-title"),
    h("div", { class: `hero sign ${SUSPICIOUS.has(code) ? "sign-bad" : "sign-quiet"}` }, icon(code === "offline" ? "offline" : SUSPICIOUS.has(code) ? "lost" : "info")),
    h("p", {}, sentence(error)),
    actions(
      repeat && again ? button(t("try-again"), again) : null,
      ELSEWHERE.has(code) ? link(t("elsewhere"), "/restore", repeat ? "button plain" : "button") : null,
      code === "act_under_way" ? link(t("home-go-on"), "/#go-on", "button") : null,
      code === "other_wallet" ? link(t("forget"), "/#forget", "button plain") : null,
      link(t("to-home"), "/", code === "act_under_way" || repeat || ELSEWHERE.has(code) ? "button plain" : "button"),
    ),
    code || detail
      ? h("details", { class: "small" }, h("summary", {}, t("details")), h("p", {}, h("code", {}, [code, detail].filter(Boolean).join(": "))))
      : null,
  );
}

export function showNotFound(): void {
  showProblem(new VaultError("not-found"));
}

/** Runs a page's act; an error becomes a page. */
export async function attempt(act: () => Promise<void> | void): Promise<void> {
  try {
    await act();
  } catch (error) {
    showProblem(error, () => attempt(act));
  }
}
