"use strict";

const main = document.querySelector("main");
const base = main.dataset.transaction;
const progress = document.getElementById("progress");
const countdown = document.getElementById("countdown");
const expires = Number(main.dataset.expires) * 1000;

// In browsers that run no scripts the person follows this link.
document.getElementById("continue").hidden = true;

function end(text) {
  progress.textContent = text;
  clearInterval(ticking);
}

function tick() {
  const left = Math.max(0, Math.round((expires - Date.now()) / 1000));
  countdown.textContent = Math.floor(left / 60) + ":" + String(left % 60).padStart(2, "0") + " minutes";
}

const ticking = setInterval(tick, 1000);
tick();

function show({ state, opened, same_device }) {
  if (state === "answered" && same_device) {
    // The response is given out only at the address that the authenticator opens.
    end("Thank you. Your authenticator opens the way back to the application.");
  } else if (state === "answered") {
    end("Thank you. Going back to the application.");
    // Replaces this page in the history, so that the button "back" leads to the application.
    location.replace(base + "/complete");
  } else if (state === "over") {
    end("This sign-in is over. Go back to the application to begin again.");
  } else if (opened) {
    progress.textContent = "An authenticator has opened this request. Waiting for your answer there.";
  }
  return state !== "waiting";
}

// Polls where server-sent events are blocked. Waits a second before each poll, so that an answer that returns at once does not
// cause a busy loop.
const again = (seconds = 1) => setTimeout(poll, seconds * 1000);

async function poll() {
  let answer;
  try {
    answer = await fetch(base + "/progress", { cache: "no-store" });
  } catch {
    // The transaction continues when a connection breaks.
    return again();
  }
  // Errors other than 404 are temporary.
  if (!answer.ok && answer.status !== 404) return again(Number(answer.headers.get("retry-after")) || 1);
  const event = answer.ok ? await answer.json() : { state: "over" };
  if (!show(event)) again();
}

function follow() {
  if (!window.EventSource) return poll();
  const events = new EventSource(base + "/events");
  events.onmessage = (event) => {
    if (show(JSON.parse(event.data))) events.close();
  };
  events.onerror = () => {
    // The browser connects again by itself. After an error status it does not, and the page polls.
    if (events.readyState === EventSource.CLOSED) poll();
  };
}

follow();
