/** What the page is, what the service records, and what it cannot protect from. */
import { actions, h, link as pageLink, point, show } from "../dom.ts";
import { issuerOrigin, operator } from "../context.ts";
import { t } from "../words.ts";

export function aboutPage(): void {
  const part = (title: string, ...content: Node[]): HTMLElement => h("section", {}, h("h2", {}, title), ...content);
  show(
    "about",
    t("about-title"),
    part(t("about-what-title"), h("p", {}, t("about-what")), h("p", {}, t("about-new"))),
    part(t("about-run-title"), h("p", {}, t("about-run", { host: location.host, name: operator(), issuer: issuerOrigin() }))),
    part(t("about-records-title"), h("ul", { class: "points" }, point("paper", t("about-records-1")), point("key", t("about-records-2")), point("hidden", t("about-records-3")))),
    part(
      t("about-limits-title"),
      h("ul", { class: "points" }, point("info", t("about-limits-1")), point("people", t("about-limits-2")), point("paper", t("about-limits-3")),
        point("devices", t("about-limits-4")), point("scan", t("about-limits-5"))),
    ),
    part(t("about-check-title"), h("p", {}, t("about-check")), h("p", { class: "address" }, h("code", {}, `selfsame wallet-page check ${location.origin}`))),
    actions(pageLink(t("to-home"), "/", "button plain")),
  );
}
