"use strict";

// Curves of the last ten minutes, as inline SVG. `Curves` is what page.js uses.
const Curves = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 300, HEIGHT = 90, MINUTES = 10;

  function shape(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  const rate = (value) => value === 0 ? "0" : value < 10 ? String(value.toPrecision(2) * 1) : Math.round(value).toLocaleString("en");
  const time = (seconds) => seconds < 0.001 ? Math.round(seconds * 1e6) + " µs"
    : seconds < 1 ? (seconds * 1000).toPrecision(2) * 1 + " ms" : seconds.toPrecision(2) * 1 + " s";
  const number = (value) => Math.round(value).toLocaleString("en");

  // What is drawn: the name, the lines with their fields, how a value is written.
  const CURVES = [
    { name: "Requests a second", lines: [["", "requests"]], text: rate },
    { name: "Answered within", lines: [["99 of 100", "request_p99"], ["half", "request_p50"]], text: time },
    { name: "Operations final a second", lines: [["", "operations"]], text: rate },
    { name: "Steps of the registry, 99 of 100 within", lines: [["final", "operation_p99"], ["synced", "commit_p99"]], text: time },
    { name: "Proofs checked a second", lines: [["", "proofs"]], text: rate },
    { name: "Proofs waited at most, 99 of 100", lines: [["", "proof_wait_p99"]], text: time },
    { name: "Sign-ins completed a second", lines: [["", "sign_ins"]], text: rate },
    { name: "Queues", lines: [["open requests", "open_requests"], ["proofs", "proofs_inside"]], text: number },
  ];

  // The least round number that is not below `value`.
  function ceiling(value) {
    if (value <= 0) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((step) => step * power).find((most) => most >= value);
  }

  class Curve {
    constructor({ name, lines, text }) {
      Object.assign(this, { name, lines, text, samples: [], chosen: null });
      this.figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      caption.append(Object.assign(document.createElement("span"), { textContent: name }));
      this.value = document.createElement("output");
      caption.append(this.value);
      this.svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: "0", role: "img", preserveAspectRatio: "none" });
      this.most = document.createElement("span");
      this.most.className = "most";
      const axis = document.createElement("p");
      axis.className = "axis";
      for (const text of [`${MINUTES} min ago`, "now"]) axis.append(Object.assign(document.createElement("span"), { textContent: text }));
      this.figure.append(caption, this.most, this.svg, axis);
      this.svg.addEventListener("pointermove", (event) => {
        const box = this.svg.getBoundingClientRect();
        this.choose(this.nearest((event.clientX - box.left) / box.width * WIDTH));
      });
      for (const left of ["pointerleave", "blur"]) this.svg.addEventListener(left, () => this.choose(null));
      this.svg.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
        if (step === undefined || this.samples.length === 0) return;
        event.preventDefault();
        const last = this.samples.length - 1;
        this.choose(Math.min(last, Math.max(0, (this.chosen ?? last) + step)));
      });
    }

    // Where a sample is drawn; the newest is at the right end.
    x(index) {
      const newest = this.samples[this.samples.length - 1].at;
      return WIDTH - (newest - this.samples[index].at) / (MINUTES * 60) * WIDTH;
    }

    nearest(x) {
      let best = null;
      this.samples.forEach((_, index) => {
        if (best === null || Math.abs(this.x(index) - x) < Math.abs(this.x(best) - x)) best = index;
      });
      return best;
    }

    choose(index) {
      this.chosen = index;
      this.draw();
    }

    show(samples) {
      // The sample that was chosen has moved by those that were dropped.
      if (this.chosen !== null) {
        const at = this.samples[this.chosen]?.at;
        const found = samples.findIndex((sample) => sample.at === at);
        this.chosen = found < 0 ? null : found;
      }
      this.samples = samples;
      this.draw();
    }

    // The values of a sample as text.
    words(sample) {
      const words = this.lines.map(([name, field]) => {
        const value = sample[field];
        return (name && name + " ") + (value === null ? "–" : this.text(value));
      });
      return words.join(" · ");
    }

    draw() {
      const values = this.samples.flatMap((sample) => this.lines.map(([, field]) => sample[field] ?? 0));
      const most = ceiling(Math.max(0, ...values));
      const y = (value) => HEIGHT - 2 - value / most * (HEIGHT - 6);
      this.most.textContent = this.text(most);
      const drawn = [1, 2, 3].map((third) => shape("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(most * third / 3), y2: y(most * third / 3) }));
      this.lines.forEach(([, field], number) => {
        // A sample without a value ends a piece of the line.
        const pieces = [[]];
        this.samples.forEach((sample, index) => {
          if (sample[field] === null) pieces.push([]);
          else pieces[pieces.length - 1].push([this.x(index), y(sample[field])]);
        });
        for (const piece of pieces.filter((piece) => piece.length > 0)) {
          const points = piece.map((point) => point.map((at) => at.toFixed(1)).join(",")).join(" ");
          const [first, last] = [piece[0][0].toFixed(1), piece[piece.length - 1][0].toFixed(1)];
          if (number === 0) drawn.push(shape("polygon", { class: "area", points: `${first},${HEIGHT} ${points} ${last},${HEIGHT}` }));
          if (piece.length === 1) drawn.push(shape("circle", { class: `dot line-${number}`, cx: piece[0][0], cy: piece[0][1], r: 1.5 }));
          drawn.push(shape("polyline", { class: `line line-${number}`, points }));
        }
      });
      const shown = this.chosen ?? this.samples.length - 1;
      if (this.chosen !== null) drawn.push(shape("line", { class: "cursor", x1: this.x(shown), x2: this.x(shown), y1: 0, y2: HEIGHT }));
      this.svg.replaceChildren(...drawn);
      const sample = this.samples[shown];
      const when = this.chosen === null || !sample ? "" : new Date(sample.at * 1000).toLocaleTimeString() + ": ";
      this.value.textContent = sample ? when + this.words(sample) : "no sample yet";
      this.svg.setAttribute("aria-label", `${this.name}: ${this.value.textContent}`);
    }
  }

  return {
    // Adds the curves to an element; returns a function that shows samples.
    into(element) {
      const curves = CURVES.map((curve) => new Curve(curve));
      element.replaceChildren(...curves.map((curve) => curve.figure));
      return (samples) => curves.forEach((curve) => curve.show(samples));
    },
  };
})();
