/** The page with the camera, and the field beside it. */
import { actions, announce, button, h, show } from "../dom.ts";
import { CameraError, scan } from "../scan.ts";
import { t } from "../words.ts";
import { field, heroSign, textInput } from "./parts.ts";
import { requestPage } from "./ask.ts";

/** Whether a text may be a link, a request or a connector's address: only such a one leaves the camera. */
const mayBeOurs = (text: string): boolean => /^[a-z][a-z0-9+.-]*:/i.test(text.trim()) || /^#?[a-z0-9_-]{1,32}\.[0-9A-Za-z-]{28,40}$/.test(text.trim());

function pasteField(): { element: HTMLElement; press: () => void } {
  const input = textInput("paste", { inputmode: "url", autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const line = field(input, t("scan-paste"));
  return {
    element: line.element,
    press() {
      const text = input.value.trim();
      if (mayBeOurs(text)) void requestPage(text);
      else {
        line.say(t("problem-not_a_link-title"), true);
        announce(t("problem-not_a_link-title"));
        input.focus();
      }
    },
  };
}

export async function scanPage(): Promise<void> {
  const video = h("video", { playsinline: true, muted: true, "aria-label": t("scan-picture") });
  video.muted = true;
  const line = h("p", { id: "progress" }, t("scan-starting"));
  const paste = pasteField();
  const signal = show(
    "scan",
    t("scan-title"),
    h("p", {}, t("scan-purpose")),
    h("div", { class: "camera" }, video, h("span", { class: "finder", "aria-hidden": "true" })),
    line,
    h("details", {}, h("summary", {}, t("scan-paste-instead")), paste.element, button(t("scan-paste-button"), () => paste.press(), { plain: true })),
  );
  try {
    await scan(
      video,
      (text) => {
        if (!mayBeOurs(text)) {
          line.textContent = t("scan-not-ours");
          announce(t("scan-not-ours"));
          return false;
        }
        void requestPage(text.trim());
        return true;
      },
      () => {
        line.textContent = t("scan-looking");
        announce(t("scan-looking"));
      },
      signal,
    );
  } catch (error) {
    if (signal.aborted) return;
    showWithoutCamera(error instanceof CameraError && error.code === "refused");
  }
}

function showWithoutCamera(refused: boolean): void {
  const paste = pasteField();
  show(
    refused ? "scan-refused" : "scan-none",
    t(refused ? "scan-refused-title" : "scan-none-title"),
    heroSign("scan", "quiet"),
    h("p", {}, t(refused ? "scan-refused" : "scan-none")),
    paste.element,
    actions(button(t("scan-paste-button"), () => paste.press()), refused ? button(t("try-again"), () => scanPage(), { plain: true }) : null),
  );
}
