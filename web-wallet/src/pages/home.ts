/** The front page, leaving a group, and forgetting this browser. */
import { actions, busy, button, h, link as pageLink, row, show } from "../dom.ts";
import { go, service, vault } from "../context.ts";
import { t } from "../words.ts";
import { simulatedPage } from "./join.ts";
import { heroSign, membershipCard } from "./parts.ts";
import { attempt, showNotFound, showProblem } from "./problem.ts";
import { opener } from "./unlock.ts";

export async function homePage(): Promise<void> {
  const status = await vault().status();
  void vault().prepare();
  if (!status.exists) return showEmpty();
  const { groups, slots, pending, codeKept, copied } = status;
  show(
    "home",
    t("home-title"),
    groups.length === 0 && service().simulator ? h("p", {}, t("person-made")) : h("p", { class: "quiet" }, t("home-purpose")),
    pending
      ? h("div", { class: "warning" }, h("p", {}, t(pending === "join" ? "home-pending-join" : "home-pending-replace")), pageLink(t("home-go-on"), "/#go-on"))
      : null,
    h(
      "ul",
      { class: "memberships" },
      ...groups.map(({ name, group, joined }) => {
        const card = membershipCard(name, group, t(joined ? "member" : "member-not-yet"), joined);
        if (!joined) card.classList.add("membership-waiting");
        return h("li", {}, card);
      }),
    ),
    !copied && !pending && slots.some(({ kind }) => kind !== "passphrase") ? h("p", { class: "quiet" }, t("home-not-copied")) : null,
    codeKept ? null : h("div", { class: "warning" }, h("p", {}, t("home-no-code")), pageLink(t("make-code"), "/#code")),
    actions(h("a", { class: "button", href: "/#scan", "data-page": true }, t("scan"))),
    h(
      "ul",
      { class: "rows" },
      row("paper", t("recovery-code"), t("recovery-code-hint"), "/#code"),
      row("devices", t("other-device"), t("other-device-hint"), "/#device"),
      row("lost", t("lost-device"), t("lost-device-hint"), "/#lost"),
      ...groups.filter(({ joined }) => joined).map(({ name, group }) => row("leave", t("leave", { group: name }), t("leave-hint"), `/#leave.${group}`)),
      row("forget", t("forget"), t("forget-hint"), "/#forget"),
    ),
  );
}

function showEmpty(): void {
  show(
    "empty",
    t("home-empty-title"),
    heroSign("people", "quiet"),
    h("p", {}, t("home-empty")),
    actions(
      h("a", { class: "button", href: "/#scan", "data-page": true }, t("scan")),
      pageLink(t("elsewhere"), "/restore", "button plain"),
      service().simulator ? button(t("simulated-begin"), () => simulatedPage(() => go("/", true)), { plain: true, id: "simulated" }) : null,
    ),
    service().simulator ? h("p", { class: "quiet" }, t("simulated")) : null,
  );
}

export async function leavePage(group: string): Promise<void> {
  const status = await vault().status();
  const membership = status.groups.find((one) => one.group === group);
  if (!membership) return showNotFound();
  const way = opener(status);
  const { name } = membership;
  show(
    "leave",
    t("leave-title", { group: name }),
    h("p", {}, t("leave-effect")),
    way.element,
    actions(
      pageLink(t("leave-no"), "/", "button"),
      button(
        t("leave", { group: name }),
        async () => {
          try {
            if (!(await way.open())) return;
            busy(t("leaving"));
            await vault().leave(group);
            show("left", t("left-title", { group: name }), heroSign("check", "quiet"), h("p", {}, t("left")), actions(pageLink(t("to-home"), "/", "button")));
          } catch (error) {
            showProblem(error, () => attempt(() => leavePage(group)));
          }
        },
        { plain: true, danger: true, id: "leave" },
      ),
    ),
  );
}

export async function forgetPage(): Promise<void> {
  const { exists, codeKept } = await vault().status();
  if (!exists) return homePage();
  show(
    "forget",
    t("forget-title"),
    h("p", {}, t("forget-effect")),
    codeKept ? null : h("p", { class: "warning" }, t("forget-no-code")),
    actions(
      pageLink(t("forget-no"), "/", "button"),
      button(
        t("forget-yes"),
        async () => {
          try {
            await vault().forget();
            show("forgotten", t("forgotten-title"), heroSign("check", "quiet"), h("p", {}, t("forgotten")), actions(pageLink(t("continue"), "/", "button")));
          } catch (error) {
            showProblem(error, () => attempt(forgetPage));
          }
        },
        { plain: true, danger: true, id: "forget" },
      ),
    ),
  );
}
