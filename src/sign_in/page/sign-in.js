"use strict";

const main = document.querySelector("main");
const base = main.dataset.transaction;
const progress = document.getElementById("progress");
const countdown = document.getElementById("countdown");
const expires = Number(main.dataset.expires) * 1000;
// What the page says is in its language, so its texts come with it.
const texts = main.dataset;

// In browsers that run no scripts the person follows this link.
document.getElementById("continue").hidden = true;

function end(text) {
  progress.textContent = text;
  progress.classList.add("over");
  clearInterval(ticking);
}

function tick() {
  const left = Math.max(0, Math.round((expires - Date.now()) / 1000));
  const time = Math.floor(left / 60) + ":" + String(left % 60).padStart(2, "0");
  countdown.textContent = texts.timeLeft.replace("{time}", time);
}

const ticking = setInterval(tick, 1000);
tick();

function show({ state, opened, same_device }) {
  if (state === "answered" && same_device) {
    // The response is given out only at the address that the authenticator opens.
    end(texts.answeredSameDevice);
  } else if (state === "answered") {
    end(texts.answered);
    // Replaces this page in the history, so that the button "back" leads to the application.
    location.replace(texts.complete);
  } else if (state === "over") {
    end(texts.over);
  } else if (opened) {
    progress.textContent = texts.opened;
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
