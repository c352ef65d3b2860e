"use strict";

// Milliseconds between two looks at the status, and between two looks at what changes less often.
const INTERVAL = 1000;
const SELDOM = 5000;

// How many blocks and how many roots are shown.
const SHOWN = 10;

const element = (id) => document.getElementById(id);

function make(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

const count = (value) => value.toLocaleString("en");

// A time that has passed, in words.
function passed(seconds) {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60]];
  for (const [name, length] of units) {
    const whole = Math.floor(seconds / length);
    if (whole >= 1) return count(whole) + " " + name + (whole > 1 ? "s" : "");
  }
  return Math.max(0, Math.floor(seconds)) + " s";
}

const ago = (seconds) => seconds === null || seconds === undefined ? "never" : passed(seconds) + " ago";
const since = (time) => ago((Date.now() - new Date(time).getTime()) / 1000);

// Shortens hexadecimal text for a table; the whole text is in the title.
function code(text) {
  const made = make("code", text.length > 20 ? text.slice(0, 10) + "…" + text.slice(-6) : text);
  made.title = text;
  return made;
}

// Text in which commands stand between backticks.
function withCommands(tag, text, className) {
  const made = make(tag, "", className);
  made.append(...text.split("`").map((part, index) => index % 2 ? make("code", part) : part));
  return made;
}

function row(head, ...cells) {
  const made = document.createElement("tr");
  const first = document.createElement("th");
  first.scope = "row";
  first.append(head);
  made.append(first);
  for (const cell of cells) {
    const [content, className] = Array.isArray(cell) ? cell : [cell];
    const data = document.createElement("td");
    data.append(content);
    if (className) data.className = className;
    made.append(data);
  }
  return made;
}

function fill(id, rows, columns, none) {
  if (rows.length > 0) return element(id).replaceChildren(...rows);
  const empty = document.createElement("tr");
  const cell = make("td", none, "quiet");
  cell.colSpan = columns;
  empty.append(cell);
  element(id).replaceChildren(empty);
}

function list(id, rows) {
  element(id).replaceChildren(...rows.map(([name, value, detail, className]) => {
    const made = document.createElement("div");
    const data = make("dd", value, className);
    for (const line of [detail].flat().filter(Boolean)) data.append(make("small", line));
    made.append(make("dt", name), data);
    return made;
  }));
}

// The tree of the supervisors, from the actors' names: each part of a name is a level.
function drawTree(actors) {
  const root = { children: new Map() };
  for (const actor of actors) {
    // The first part names the instance, and a worker's number of starts is no part of its name.
    const parts = actor.name.split("/").slice(1).map((part) => part.replace(/\.\d+$/, ""));
    let node = root;
    for (const part of parts) {
      if (!node.children.has(part)) node.children.set(part, { children: new Map() });
      node = node.children.get(part);
    }
    node.actor = actor;
  }
  const draw = (name, node) => {
    const item = document.createElement("li");
    const box = make("span", "", "actor");
    box.append(make("span", name));
    if (node.actor) {
      const { state, restarts, waiting_calls, silent_ms, mailbox_micros } = node.actor;
      if (state !== "running") {
        box.classList.add("bad");
        box.append(make("small", state + " for " + passed(silent_ms / 1000), "state"));
      } else {
        box.append(make("small", "running", "state"));
      }
      if (restarts > 0) box.append(make("small", count(restarts) + (restarts > 1 ? " restarts" : " restart"), "bad"));
      if (waiting_calls > 0) box.append(make("small", count(waiting_calls) + " waiting"));
      if (mailbox_micros >= 1000) box.append(make("small", "mailbox " + (mailbox_micros / 1000).toFixed(1) + " ms"));
    } else {
      box.classList.add("supervisor");
    }
    item.append(box);
    if (node.children.size > 0) {
      const below = document.createElement("ul");
      below.append(...[...node.children].map(([part, child]) => draw(part, child)));
      item.append(below);
    }
    return item;
  };
  const top = draw("service", root);
  element("tree").replaceChildren(top);
}

function showChains(chains) {
  const problem = (source) =>
    [source.alarm && "the contract " + source.alarm, source.failure, source.warning].filter(Boolean).join("; ");
  const sources = chains.flatMap((chain) => chain.sources).map((source) => row(
    source.name,
    [source.state, source.state === "following" ? "good" : "bad"],
    count(source.read) + " of " + count(source.head),
    ago(source.confirmed_seconds_ago),
    source.kind === "roots" ? ago(source.newest_root_seconds_ago) : "",
    [problem(source), problem(source) ? "bad" : undefined],
  ));
  element("chains-section").hidden = sources.length === 0;
  element("chains").replaceChildren(...sources);
}

function showCluster(cluster) {
  element("cluster-section").hidden = !cluster;
  if (!cluster) return;
  const leader = cluster.leader ? cluster.leader + " leads" : cluster.leader_error ?? "no replica leads";
  const age = cluster.staleness_ms === null ? "it has not read the journal to its end yet"
    : "it had everything " + (cluster.staleness_ms / 1000).toFixed(1) + " s ago";
  element("cluster-leader").textContent = leader + "; this is " + cluster.name + ", and " + age;
  element("cluster-leader").className = cluster.leader ? "" : "bad";
  element("replicas").replaceChildren(...cluster.replicas.map((replica) => row(
    replica.name,
    replica.running ? [replica.name === cluster.leader ? "leads" : "follows", "good"]
      : ["silent for " + passed(replica.silent_seconds), "bad"],
    replica.lag === null ? "" : count(replica.lag) + (replica.lag === 1 ? " entry" : " entries"),
    count(replica.height),
    replica.version,
    replica.address,
  )));
}

function showGroups(groups) {
  element("groups-section").hidden = groups.length === 0;
  element("groups").replaceChildren(...groups.map((group) => {
    const name = make("span", group.name);
    name.title = group.id;
    const rolls = make("span", "");
    group.rolls.forEach((roll, index) => {
      const shown = make("span", (index > 0 ? ", " : "") + roll.name + " (" + count(roll.members) + ")");
      shown.title = "taken on " + roll.taken_on + ", root " + roll.root;
      rolls.append(shown);
    });
    return row(
      name,
      count(group.members),
      count(group.size),
      count(group.invited),
      count(group.open_links),
      count(group.live_roots),
      rolls,
      [group.failure ?? "", group.failure ? "bad" : undefined],
    );
  }));
}

function showWebhooks(webhooks) {
  element("webhooks-section").hidden = webhooks.length === 0;
  element("webhooks").replaceChildren(...webhooks.map((webhook) => {
    const name = make("span", webhook.id);
    name.title = webhook.url;
    const number = (value, isBad) => [count(value), isBad ? "bad" : undefined];
    return row(
      name,
      webhook.last_delivered ? since(webhook.last_delivered) : "not since the start",
      count(webhook.delivered),
      number(webhook.waiting, webhook.waiting > 0),
      number(webhook.dead_letters, webhook.dead_letters > 0),
      count(webhook.behind),
      [webhook.last_failure ?? "", webhook.last_failure ? "bad" : undefined],
    );
  }));
}

// What of the list is shown, so that a status that does not change is not read out again.
let shownAttention = "";

function showAttention(list) {
  element("attention-section").hidden = list.length === 0;
  const minute = Math.floor(Date.now() / 60000);
  const now = JSON.stringify([list, minute]);
  if (now === shownAttention) return;
  shownAttention = now;
  element("attention").replaceChildren(...list.map((reason) => {
    const item = document.createElement("li");
    const head = make("p", "", "subject");
    const began = make("time", "for " + passed((Date.now() - new Date(reason.since).getTime()) / 1000));
    began.dateTime = began.title = reason.since;
    head.append(make("strong", reason.subject[0].toUpperCase() + reason.subject.slice(1)), " ", began);
    item.append(head, withCommands("p", reason.text, "text"), withCommands("p", "What to do: " + reason.remedy, "remedy"));
    return item;
  }));
}

function show(status) {
  element("status").hidden = false;
  element("version").textContent = status.version;
  element("uptime").textContent = "running for " + passed(status.uptime_seconds);
  const [words, className] = !status.ready ? ["Not ready", "bad"]
    : status.degraded ? ["Ready, needs attention", "warn"] : ["Ready", "good"];
  document.title = (status.ready && !status.degraded ? "" : words + " – ") + "Selfsame";
  const readiness = element("readiness");
  // A status that does not change is not read out again.
  if (readiness.textContent !== words) readiness.textContent = words;
  readiness.className = className;
  // What also needs attention stands there, with what to do.
  const reasons = status.reasons.filter((reason) => status.attention.every(({ text }) => text !== reason));
  element("reasons").hidden = reasons.length === 0;
  element("reasons").replaceChildren(...reasons.map((reason) => make("li", reason)));
  showAttention(status.attention);

  const { registry, verifier } = status;
  const proofs = verifier.proofs_inside + verifier.sign_in_proofs_inside;
  const behind = registry.ledger_height - registry.applied_height;
  list("now", [
    ["Accounts", count(registry.accounts)],
    ["Height", count(registry.applied_height), behind > 0 ? count(behind) + " blocks wait" : "all sealed blocks applied"],
    ["Open requests", count(registry.open_requests), "of " + count(registry.queue_length)],
    ["Finalized", count(registry.finalized), count(registry.failed) + " failed by a rule"],
    ["Proofs inside", count(proofs), "of " + count(verifier.queue + verifier.sign_in_queue)],
    ["Good proofs", count(verifier.good), count(verifier.bad) + " bad"],
  ]);
  drawTree(status.actors);
  showChains(status.chains);
  showCluster(status.cluster);
  showGroups(status.groups);
  showWebhooks(status.webhooks);

  const reload = status.reload;
  const backup = status.backups[status.backups.length - 1];
  list("upkeep", [
    ["Last reload", reload ? reload.outcome : "none since the start",
      reload && [...(reload.problems ?? []), ...(reload.needs_restart ?? []).map((key) => key + " waits for a restart")].join("; "),
      reload && reload.outcome !== "success" ? "bad" : undefined],
    ["Last backup", backup ? backup.state : "none since the start", backup && [backup.message, backup.folder],
      backup && backup.state === "failed" ? "bad" : undefined],
    ...(status.restored ? [["Restored from a backup", status.restored.restored_at, "at height " + count(status.restored.height)]] : []),
  ]);
}

const showHistory = Curves.into(element("curves"));
let newestBlock = null;

function showBlocks(blocks) {
  const now = Date.now() / 1000;
  const rows = blocks.slice(0, SHOWN).map((block) => {
    const made = row(count(block.height), ago(now - block.time), count(block.operations), code(block.hash), code(block.root));
    if (newestBlock !== null && block.height > newestBlock) made.className = "new";
    return made;
  });
  newestBlock = blocks.length > 0 ? blocks[0].height : 0;
  fill("blocks", rows, 5, "No block yet.");
}

function showKeys(keys) {
  const rows = keys.map((key) => row(code(key.kid), [key.state, key.state === "current" ? "good" : undefined], since(key.published_at)));
  fill("keys", rows, 3, "No key was needed yet.");
}

function showApps(apps) {
  const rows = apps.map((app) => row(app.name, code(app.id), app.environment + ", " + app.proof + (app.public ? ", public" : "")));
  fill("apps", rows, 3, "No application is configured.");
}

function showRoots(roots) {
  const newest = [...roots].sort((one, other) => other.time < one.time ? -1 : 1).slice(0, SHOWN);
  const rows = newest.map((root) => row(code(root.root), root.environment + ", " + root.kind + (root.identifiers.length ? ": " + root.identifiers.join(", ") : ""), since(root.time)));
  if (roots.length > newest.length) rows.push(row(count(roots.length - newest.length) + " older", "", ""));
  fill("roots", rows, 3, "No root of the operator; the registry's own roots are always trusted.");
}

// The token stays in this tab.
const TOKEN = "operator-token";

function askForToken(problem) {
  sessionStorage.removeItem(TOKEN);
  element("status").hidden = true;
  const readiness = element("readiness");
  readiness.textContent = "The status needs the operator token.";
  readiness.className = "";
  document.title = "Selfsame";
  element("token-problem").hidden = !problem;
  element("token-problem").textContent = problem ?? "";
  element("sign-in").hidden = false;
  element("token").focus();
}

element("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, element("token").value.trim());
  element("token").value = "";
  element("sign-in").hidden = true;
  looked.clear();
  look();
});

class Unauthorized extends Error {}

async function get(path) {
  const headers = { authorization: "Bearer " + sessionStorage.getItem(TOKEN) };
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(5 * INTERVAL) });
  if (answer.status === 401) throw new Unauthorized();
  if (!answer.ok) throw new Error("HTTP " + answer.status);
  return answer.json();
}

// What the page shows, and how often it looks.
const PARTS = [
  ["status", INTERVAL, show],
  ["blocks", INTERVAL, showBlocks],
  ["history", SELDOM, ({ samples }) => showHistory(samples)],
  ["keys", SELDOM, showKeys],
  ["apps", SELDOM, showApps],
  ["roots", SELDOM, showRoots],
];
const looked = new Map();

async function look() {
  if (!sessionStorage.getItem(TOKEN)) return askForToken();
  const now = performance.now();
  try {
    for (const [path, interval, show] of PARTS) {
      if (looked.has(path) && now - looked.get(path) < interval - INTERVAL / 2) continue;
      show(await get(path));
      looked.set(path, now);
    }
  } catch (error) {
    if (error instanceof Unauthorized) {
      return askForToken("That is not the token of this daemon: it is wrong, or was replaced since.");
    }
    const readiness = element("readiness");
    readiness.textContent = "No answer from the daemon: " + error.message;
    readiness.className = "bad";
    document.title = "No answer – Selfsame";
    looked.clear();
  }
  // A page that is not seen does not ask.
  if (document.hidden) return document.addEventListener("visibilitychange", look, { once: true });
  setTimeout(look, INTERVAL);
}

look();
