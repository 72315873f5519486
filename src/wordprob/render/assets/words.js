// Words in colour, and the panel with the numbers of one word. Text is always set as text, never as HTML.

// Make an element: its tag, its attributes (on…: a listener; null or false: left out) and its children.
wordprob.h = (tag, attributes, ...children) => {
  const svg = ["svg", "g", "rect", "line", "text", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  // One by one: a call takes no more than some ten thousand arguments.
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child);
  return element;
};

wordprob.bdi = (text, className) => wordprob.h("bdi", { class: className }, text);

// Where the mouse is, and whether it moved there by itself rather than the page under it.
const mouse = { x: -1, y: -1, moved: false };
document.addEventListener(
  "mousemove",
  ({ clientX: x, clientY: y }) => {
    Object.assign(mouse, { x, y, moved: x !== mouse.x || y !== mouse.y });
  },
  true,
);

// The coloured words of one text; a long one has pages, of which one is drawn. Arrow keys go from word to word. The words
// are plain text and not buttons, so that a screen reader reads them as a text.
wordprob.Words = class {
  constructor(data, text, panel, onTurn) {
    const h = wordprob.h;
    const pages = data.pages(text);
    Object.assign(this, { data, text, panel, onTurn, pages, page: 0, current: -1, spans: [] });
    this.box = h(
      "div",
      {
        class: "words",
        tabindex: "0",
        role: "group",
        "aria-label": `${data.title(text)}, ${text.rows.length} words. Arrow keys go from word to word.`,
        onkeydown: (event) => this.key(event),
        onmousemove: (event) => this.hover(event),
        onmouseleave: () => panel.leave(),
        onclick: (event) => this.click(event),
        onblur: (event) => event.relatedTarget?.name === "find" || this.deselect(),
      },
      this.paragraphs(),
    );
    this.pager = pages.length > 1 ? this.makePager() : null;
  }

  // The words of the page that is drawn: from the first up to, and without, the last.
  get start() {
    return this.pages[this.page];
  }

  get end() {
    return this.pages[this.page + 1] ?? this.text.rows.length;
  }

  // The rows of the page that is drawn.
  get rows() {
    return this.text.rows.slice(this.start, this.end);
  }

  // The words of the page as paragraphs; `spans` has them by their number in the text.
  paragraphs() {
    const paragraphs = [];
    let paragraph = null;
    this.spans = [];
    for (let n = this.start; n < this.end; n++) {
      const gap = n > this.start ? this.data.gap(this.text, n) : "¶";
      if (gap === "¶") paragraphs.push((paragraph = wordprob.h("p", { dir: "auto" })));
      else paragraph.append(gap);
      const span = wordprob.h("span", {}, this.data.columns.word[this.text.rows[n]]);
      span.wordIndex = n;
      this.spans[n] = span;
      paragraph.append(span);
    }
    return paragraphs;
  }

  makePager() {
    const { h } = wordprob;
    const step = (by, name, sign) =>
      h("button", { type: "button", "aria-label": `${name} page`, onclick: () => this.turn(this.page + by) }, sign);
    this.steps = [step(-1, "Previous", "‹"), step(1, "Next", "›")];
    this.pageChoice = h(
      "select",
      { name: "page", "aria-label": "Page", onchange: (event) => this.turn(Number(event.target.value)) },
      this.pages.map((_, n) => h("option", { value: n }, `Page ${n + 1} of ${this.pages.length}`)),
    );
    this.markPage();
    return h("nav", { class: "texts pager", "aria-label": "Pages" }, this.steps[0], this.pageChoice, this.steps[1]);
  }

  markPage() {
    this.pageChoice.value = this.page;
    this.steps[0].disabled = this.page === 0;
    this.steps[1].disabled = this.page === this.pages.length - 1;
  }

  // Draw another page.
  turn(page) {
    this.deselect();
    this.page = page;
    this.box.replaceChildren(...this.paragraphs());
    this.markPage();
    this.paint(this.view);
    this.onTurn();
    this.pager.scrollIntoView({ block: "nearest" });
  }

  // Draw the page that has word n.
  turnTo(n) {
    const page = this.pages.findLastIndex((start) => start <= n);
    if (page !== this.page) this.turn(page);
  }

  paint(view) {
    this.view = view;
    this.spans.forEach((span, n) => {
      const value = this.data.value(view, this.text.rows[n]);
      const noted = value !== null && this.data.get("note", this.text.rows[n]);
      const outlined = this.data.get("outlined", this.text.rows[n]);
      const marks = [noted && "noted", outlined && "outlined", n === this.current && "at"].filter(Boolean);
      span.className = ["w", this.data.colour(view, value), ...marks].join(" ");
      span.dataset.value = wordprob.number(value, view);
    });
  }

  // The mouse moves over a word. A page that scrolls under a resting mouse does not count.
  hover(event) {
    const n = event.target.wordIndex;
    if (n !== undefined && mouse.moved && !this.panel.shows(this, n)) this.panel.show(this, n, false);
  }

  click(event) {
    const n = event.target.wordIndex;
    if (n === undefined) this.panel.close();
    else this.select(n);
  }

  key(event) {
    const last = this.text.rows.length - 1;
    const here = this.current < 0 ? this.start : this.current;
    const forward = getComputedStyle(this.spans[here].parentNode).direction === "rtl" ? -1 : 1;
    const next = (step) => (this.current < 0 ? this.start : this.current + step);
    const goal = {
      ArrowRight: next(forward),
      ArrowLeft: next(-forward),
      ArrowDown: this.onLine(1),
      ArrowUp: this.onLine(-1),
      Home: 0,
      End: last,
      Enter: here,
    }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.deselect();
    if (goal === undefined) return;
    event.preventDefault();
    this.select(Math.min(Math.max(goal, 0), last));
  }

  // The nearest word on the next line (step 1) or on the previous one (step -1); beyond the page if this line is its last.
  onLine(step) {
    if (this.current < 0) return this.start;
    const from = this.spans[this.current].getBoundingClientRect();
    let nearest = this.current;
    let nearestDistance = Infinity;
    let lineTop = null;
    for (let n = this.current + step; n >= this.start && n < this.end; n += step) {
      const box = this.spans[n].getBoundingClientRect();
      if (Math.abs(box.top - from.top) < from.height / 2) continue; // still on the same line
      if (lineTop !== null && Math.abs(box.top - lineTop) > from.height / 2) break; // one line too far
      lineTop = box.top;
      const distance = Math.abs(box.left - from.left);
      if (distance < nearestDistance) {
        nearest = n;
        nearestDistance = distance;
      }
    }
    if (nearest !== this.current) return nearest;
    const beyond = step > 0 ? this.end : this.start - 1;
    return beyond >= 0 && beyond < this.text.rows.length ? beyond : nearest;
  }

  select(n) {
    this.turnTo(n);
    if (this.current >= 0) this.spans[this.current].classList.remove("at");
    this.current = n;
    this.spans[n].classList.add("at");
    this.spans[n].scrollIntoView({ block: "nearest" });
    this.panel.show(this, n, true);
  }

  deselect() {
    if (this.current >= 0) this.spans[this.current].classList.remove("at");
    this.current = -1;
    this.panel.close();
  }
};

// The numbers of a word: beside it on a wide screen, at the bottom of a narrow one. For a word that was clicked or
// reached by keys the panel stays until another is chosen, and a screen reader speaks it.
wordprob.Panel = class {
  constructor(data) {
    this.data = data;
    this.pinned = null;
    this.box = wordprob.h("aside", { class: "panel", hidden: true, "aria-hidden": "true" });
    this.spoken = wordprob.h("div", { class: "unseen", role: "status" });
  }

  show(words, n, pin) {
    const i = words.text.rows[n];
    if (pin) {
      this.pinned = [words, n];
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
    if (this.pinned) this.show(...this.pinned, false);
    else this.close();
  }

  close() {
    this.pinned = null;
    this.box.hidden = true;
    this.spoken.textContent = "";
  }

  // Put the panel below the word's box, or above it if there is no room below.
  place(word) {
    const box = this.box.getBoundingClientRect();
    const pageWidth = document.documentElement.clientWidth;
    const left = Math.min(Math.max(word.left + word.width / 2 - box.width / 2, 8), pageWidth - box.width - 8);
    const fitsBelow = word.bottom + 8 + box.height < window.innerHeight;
    this.box.style.left = `${left + window.scrollX}px`;
    this.box.style.top = `${(fitsBelow ? word.bottom + 8 : word.top - box.height - 8) + window.scrollY}px`;
  }

  // What a screen reader speaks.
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
    const line = (name, text, unit, className) =>
      h(
        "div",
        { class: className || "" },
        h("dt", {}, name),
        h("dd", {}, text, h("small", {}, unit ? ` ${unit}` : "")),
      );
    const note = data.get("note", i);
    return [
      h("h4", { dir: "auto" }, data.columns.word[i]),
      h(
        "dl",
        {},
        rows.map(([name, value, unit, className]) =>
          line(name, number(value, name === "Difference" ? "difference" : ""), unit, className),
        ),
        data.interval(i) === null ? [] : [line("All spellings", data.interval(i), data.unit, "gap")],
        counts.filter(([, value]) => value !== null).map(([name, value]) => line(name, String(value), "", "count")),
      ),
      note ? h("p", { class: "note" }, note) : null,
    ].filter((child) => child !== null);
  }
};
