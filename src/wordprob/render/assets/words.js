// Words in colour, and the panel that says what lies behind one. Text is only ever set as text, never as HTML.

wordprob.h = (tag, attributes, ...children) => {
  const svg = ["svg", "g", "rect", "line", "text", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
};

wordprob.bdi = (text, kind) => wordprob.h("bdi", { class: kind }, text);

const mouse = { x: -1, y: -1, moved: false };
document.addEventListener(
  "mousemove",
  ({ clientX: x, clientY: y }) => {
    Object.assign(mouse, { x, y, moved: x !== mouse.x || y !== mouse.y });
  },
  true,
);

// The coloured words of one text. Arrow keys go from word to word; the words themselves stay plain text, so that a
// screen reader reads them as a text.
wordprob.Words = class {
  constructor(data, text, panel) {
    const h = wordprob.h;
    Object.assign(this, { data, text, panel, at: -1, spans: [] });
    this.box = h(
      "div",
      {
        class: "words",
        tabindex: "0",
        role: "group",
        "aria-label": `${data.title(text)}, ${text.rows.length} words. Arrow keys go from word to word.`,
        onkeydown: (event) => this.key(event),
        onmousemove: (event) => this.over(event),
        onmouseleave: () => panel.leave(),
        onclick: (event) => this.tap(event),
        onblur: () => this.unmark(),
      },
      this.paragraphs(),
    );
  }

  paragraphs() {
    const found = [];
    let open = null;
    this.text.rows.forEach((i, n) => {
      const gap = n ? this.data.gap(this.text, n) : "¶";
      if (gap === "¶") found.push((open = wordprob.h("p", { dir: "auto" })));
      else open.append(gap);
      const span = wordprob.h("span", {}, this.data.columns.word[i]);
      span.wordprob = n;
      this.spans.push(span);
      open.append(span);
    });
    return found;
  }

  paint(view) {
    this.spans.forEach((span, n) => {
      const value = this.data.value(view, this.text.rows[n]);
      const noted = value !== null && this.data.get("note", this.text.rows[n]);
      span.className = `w ${this.data.colour(view, value)}${noted ? " noted" : ""}${n === this.at ? " at" : ""}`;
      span.dataset.value = wordprob.number(value, view);
    });
  }

  // The mouse moves over a word; a page that scrolls under a mouse at rest does not count.
  over(event) {
    const n = event.target.wordprob;
    if (n !== undefined && mouse.moved && !this.panel.shows(this, n)) this.panel.show(this, n, false);
  }

  tap(event) {
    const n = event.target.wordprob;
    if (n === undefined) this.panel.close();
    else this.go(n);
  }

  key(event) {
    const last = this.spans.length - 1;
    const forward = getComputedStyle(this.spans[Math.max(this.at, 0)].parentNode).direction === "rtl" ? -1 : 1;
    const goal = {
      ArrowRight: this.at + forward,
      ArrowLeft: this.at - forward,
      ArrowDown: this.line(1),
      ArrowUp: this.line(-1),
      Home: 0,
      End: last,
      Enter: Math.max(this.at, 0),
    }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.unmark();
    if (goal === undefined) return;
    event.preventDefault();
    this.go(Math.min(Math.max(goal, 0), last));
  }

  // The word of the next or previous line that lies nearest.
  line(step) {
    if (this.at < 0) return 0;
    const here = this.spans[this.at].getBoundingClientRect();
    let best = this.at;
    let miss = Infinity;
    let row = null;
    for (let n = this.at + step; n >= 0 && n < this.spans.length; n += step) {
      const there = this.spans[n].getBoundingClientRect();
      if (Math.abs(there.top - here.top) < here.height / 2) continue;
      if (row !== null && Math.abs(there.top - row) > here.height / 2) break;
      row = there.top;
      if (Math.abs(there.left - here.left) < miss) [best, miss] = [n, Math.abs(there.left - here.left)];
    }
    return best;
  }

  go(n) {
    if (this.at >= 0) this.spans[this.at].classList.remove("at");
    this.at = n;
    this.spans[n].classList.add("at");
    this.spans[n].scrollIntoView({ block: "nearest" });
    this.panel.show(this, n, true);
  }

  unmark() {
    if (this.at >= 0) this.spans[this.at].classList.remove("at");
    this.at = -1;
    this.panel.close();
  }
};

// What lies behind a word: beside it on a wide screen, at the foot of a narrow one. A word that was tapped or reached
// by keys stays until another is chosen, and is spoken.
wordprob.Panel = class {
  constructor(data) {
    this.data = data;
    this.kept = null;
    this.box = wordprob.h("aside", { class: "panel", hidden: true, "aria-hidden": "true" });
    this.spoken = wordprob.h("div", { class: "unseen", role: "status" });
  }

  show(words, n, keep) {
    const i = words.text.rows[n];
    if (keep) {
      this.kept = [words, n];
      this.spoken.textContent = this.sentence(i);
    }
    this.shown = [words, n];
    this.box.replaceChildren(...this.terms(i));
    this.box.hidden = false;
    this.place(words.spans[n].getBoundingClientRect());
  }

  shows(words, n) {
    return !this.box.hidden && this.shown[0] === words && this.shown[1] === n;
  }

  leave() {
    if (this.kept) this.show(...this.kept, false);
    else this.close();
  }

  close() {
    this.kept = null;
    this.box.hidden = true;
    this.spoken.textContent = "";
  }

  place(word) {
    const box = this.box.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const left = Math.min(Math.max(word.left + word.width / 2 - box.width / 2, 8), room - box.width - 8);
    const below = word.bottom + 8 + box.height < window.innerHeight;
    this.box.style.left = `${left + window.scrollX}px`;
    this.box.style.top = `${(below ? word.bottom + 8 : word.top - box.height - 8) + window.scrollY}px`;
  }

  sentence(i) {
    const { data } = this;
    const parts = Object.keys(wordprob.VIEWS)
      .filter((view) => view === "corrected" || data.hasNaive)
      .map((view) => `${wordprob.VIEWS[view].toLowerCase()} ${wordprob.number(data.value(view, i), view)}`);
    const note = data.get("note", i);
    return `${data.columns.word[i]}: ${parts.join(", ")} ${data.unit}${note ? `. Note: ${note}` : ""}`;
  }

  terms(i) {
    const { h, number } = wordprob;
    const { data } = this;
    const rows = [
      ["Surprisal", data.get("surprisal", i), data.unit, "main"],
      ["= naive", data.get("surprisal_naive", i), data.unit],
      ["+ after", data.get("after", i), data.unit],
      ["− before", data.get("before", i), data.unit],
      ["Difference", data.value("difference", i), data.unit, "gap"],
    ].filter(([name, value]) => value !== null || name === "Surprisal");
    const counts = [
      ["Tokens", data.get("n_tokens", i)],
      ["Tokens of context", data.get("context_tokens", i)],
    ];
    const line = (name, text, unit, kind) =>
      h("div", { class: kind || "" }, h("dt", {}, name), h("dd", {}, text, h("small", {}, unit ? ` ${unit}` : "")));
    const note = data.get("note", i);
    return [
      h("h4", { dir: "auto" }, data.columns.word[i]),
      h(
        "dl",
        {},
        rows.map(([name, value, unit, kind]) =>
          line(name, number(value, name === "Difference" ? "difference" : ""), unit, kind),
        ),
        counts.filter(([, value]) => value !== null).map(([name, value]) => line(name, String(value), "", "count")),
      ),
      note ? h("p", { class: "note" }, note) : null,
    ].filter((child) => child !== null);
  }
};
