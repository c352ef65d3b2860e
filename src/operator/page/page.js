"use strict";

// Milliseconds between two looks at the status.
const INTERVAL = 1000;

const element = (id) => document.getElementById(id);

function make(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

const count = (value) => value.toLocaleString("en");

// Requests finalized a second between the last two looks.
let before = null;

function rate(finalized) {
  const now = { time: performance.now(), finalized };
  const passed = before && now.time - before.time;
  const perSecond = passed && now.finalized >= before.finalized
    ? Math.round((now.finalized - before.finalized) * 1000 / passed) : 0;
  before = now;
  return perSecond;
}

function list(id, rows) {
  element(id).replaceChildren(...rows.map(([name, value]) => {
    const row = document.createElement("div");
    row.append(make("dt", name), make("dd", value));
    return row;
  }));
}

function show(status) {
  element("version").textContent = status.version;
  const readiness = element("readiness");
  readiness.textContent = status.ready ? "Ready" : "Not ready: " + status.reasons.join("; ");
  readiness.className = status.ready ? "good" : "bad";

  const registry = status.registry;
  const rows = [
    ["Accounts", count(registry.accounts)],
    ["Open requests", count(registry.open_requests) + " of " + count(registry.queue_length)],
    ["Accepted", count(registry.accepted)],
    ["Finalized", count(registry.finalized) + " (" + count(rate(registry.finalized)) + " a second)"],
    ["Failed", count(registry.failed)],
    ["Height", count(registry.applied_height) + " applied, " + count(registry.ledger_height) + " sealed"],
    ["Waiting for final states", count(registry.status_waiters)],
  ];
  list("registry", rows);
  const verifier = status.verifier;
  list("verifier", [
    ["Proofs inside", count(verifier.proofs_inside) + " of " + count(verifier.queue)],
    ["Proofs of sign-ins inside", count(verifier.sign_in_proofs_inside) + " of " + count(verifier.sign_in_queue)],
    ["Good proofs", count(verifier.good)],
    ["Bad proofs", count(verifier.bad)],
  ]);

  const age = (seconds) => seconds === null || seconds === undefined ? "never" : count(seconds) + " s ago";
  const problem = (source) => [source.alarm && "the contract " + source.alarm, source.failure].filter(Boolean).join("; ");
  const sources = status.chains.flatMap((chain) => chain.sources).map((source) => {
    const row = document.createElement("tr");
    const name = make("th", source.name);
    name.scope = "row";
    row.append(
      name,
      make("td", source.state, source.state === "following" ? "good" : "bad"),
      make("td", count(source.read) + " of " + count(source.head)),
      make("td", age(source.confirmed_seconds_ago)),
      make("td", source.kind === "roots" ? age(source.newest_root_seconds_ago) : ""),
      make("td", problem(source), problem(source) ? "bad" : undefined),
    );
    return row;
  });
  element("chains-section").hidden = sources.length === 0;
  element("chains").replaceChildren(...sources);

  const actors = status.actors.map((actor) => {
    const row = document.createElement("tr");
    const name = make("th", actor.name);
    name.scope = "row";
    row.append(
      name,
      make("td", actor.state, actor.state === "running" ? "good" : "bad"),
      make("td", count(actor.restarts)),
      make("td", count(actor.waiting_calls)),
      make("td", (actor.silent_ms / 1000).toFixed(1) + " s ago"),
    );
    return row;
  });
  element("actors").replaceChildren(...actors);
}

// The token stays in this tab.
const TOKEN = "operator-token";

function askForToken() {
  sessionStorage.removeItem(TOKEN);
  element("readiness").textContent = "The status needs the operator token.";
  element("sign-in").hidden = false;
  element("token").focus();
}

element("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, element("token").value.trim());
  element("token").value = "";
  element("sign-in").hidden = true;
  look();
});

async function look() {
  const token = sessionStorage.getItem(TOKEN);
  if (!token) return askForToken();
  try {
    const headers = { authorization: "Bearer " + token };
    const answer = await fetch("status", { headers, cache: "no-store", signal: AbortSignal.timeout(5 * INTERVAL) });
    if (answer.status === 401) return askForToken();
    if (!answer.ok) throw new Error("HTTP " + answer.status);
    show(await answer.json());
  } catch (error) {
    const readiness = element("readiness");
    readiness.textContent = "No answer from the daemon: " + error.message;
    readiness.className = "bad";
    before = null;
  }
  setTimeout(look, INTERVAL);
}

look();
