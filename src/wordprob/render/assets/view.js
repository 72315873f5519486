// The whole view of a payload: choices, legend, words, sections.
// Options: compare (texts side by side), and the view and numbers to begin with.

wordprob.SHORT = 400; // up to so many words, all texts are shown at once
wordprob.MANY = 2000; // beyond so many, texts that are out of sight are not laid out

wordprob.View = class {
  constructor(root, payload, options) {
    this.root = root;
    this.options = options || {};
    this.data = new wordprob.Data(payload);
    this.panel = new wordprob.Panel(this.data);
    const many = this.data.size / this.data.models.length > wordprob.SHORT;
    const { view = "corrected", numbers = false } = this.options;
    this.state = { model: this.data.models[0], view, at: 0, all: !many, numbers };
    this.layout();
    this.draw();
    wordprob.panel = this.panel;
  }

  get texts() {
    return this.data.texts.get(this.state.model);
  }

  layout() {
    const { h } = wordprob;
    this.words = h("div", {
      id: "words",
      class: this.options.compare ? "compare" : this.data.size > wordprob.MANY ? "many" : "",
    });
    this.spread = h("div", {});
    this.below = h("div", {});
    this.legend = h("div", { class: "legend" });
    this.asTable = h(
      "details",
      { class: "astable", ontoggle: () => this.tabulate() },
      h("summary", {}, "These words as a table"),
    );
    this.root.replaceChildren(
      h("p", { class: "about" }, this.about()),
      h("div", { class: "controls" }, this.choices(), this.legend),
      this.words,
      this.asTable,
      this.spread,
      this.below,
      this.panel.box,
      this.panel.spoken,
    );
  }

  about() {
    const { data } = this;
    const { count } = wordprob;
    const model = data.models.length > 1 ? `${data.models.length} models` : data.models[0] || data.metadata.model;
    return [
      count(this.data.rows(this.state.model).length, "word"),
      count(this.texts.length, "text"),
      model,
      data.metadata.words && `words: ${data.metadata.words}`,
      data.unit || "unit not recorded",
    ]
      .filter(Boolean)
      .join(" · ");
  }

  // --- choices ---

  choices() {
    const { h } = wordprob;
    return h(
      "form",
      { class: "choices", onsubmit: (event) => event.preventDefault() },
      this.data.hasNaive ? this.viewChoice() : null,
      this.data.models.length > 1 ? this.modelChoice() : null,
      this.options.compare ? null : this.textChoice(),
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          name: "numbers",
          checked: this.state.numbers,
          onchange: (event) => this.set({ numbers: event.target.checked }),
        }),
        "Numbers",
      ),
    );
  }

  viewChoice() {
    const { h } = wordprob;
    return h(
      "fieldset",
      { class: "segments" },
      h("legend", { class: "unseen" }, "Which value"),
      Object.entries(wordprob.VIEWS).map(([view, name]) =>
        h(
          "label",
          {},
          h("input", {
            type: "radio",
            name: "view",
            value: view,
            checked: view === this.state.view,
            onchange: () => this.set({ view }),
          }),
          h("span", {}, name),
        ),
      ),
    );
  }

  modelChoice() {
    const { h } = wordprob;
    const change = (event) => this.set({ model: event.target.value, at: this.sameText(event.target.value) });
    return h(
      "select",
      { name: "model", "aria-label": "Model", onchange: change },
      this.data.models.map((model) => h("option", { value: model }, model || "(no name)")),
    );
  }

  sameText(model) {
    const found = this.data.texts.get(model).findIndex((text) => text.id === this.texts[this.state.at].id);
    return Math.max(found, 0);
  }

  textChoice() {
    const { h } = wordprob;
    if (this.data.models.every((model) => this.data.texts.get(model).length === 1)) return null;
    const step = (by, name, sign) =>
      h(
        "button",
        { type: "button", name, "aria-label": `${name} text`, onclick: () => this.set({ at: this.state.at + by }) },
        sign,
      );
    this.chooser = h("select", {
      name: "text",
      "aria-label": "Text",
      onchange: (event) => this.set({ at: Number(event.target.value) }),
    });
    this.steps = [step(-1, "Previous", "‹"), step(1, "Next", "›")];
    return h(
      "span",
      { class: "texts" },
      this.steps[0],
      this.chooser,
      this.steps[1],
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          name: "all",
          checked: this.state.all,
          onchange: (event) => this.set({ all: event.target.checked }),
        }),
        "All texts",
      ),
    );
  }

  set(change) {
    const before = this.state;
    this.state = { ...before, ...change };
    this.panel.close();
    if ("at" in change && this.state.all && this.state.model === before.model) this.reach();
    else if (["model", "at", "all"].some((name) => name in change)) this.draw();
    else this.paint();
  }

  // --- drawing ---

  draw() {
    const { h } = wordprob;
    if (this.drawn !== this.state.model) this.turn();
    if (this.chooser) this.mark();
    const shown = this.state.all || this.options.compare ? this.texts : [this.texts[this.state.at]];
    this.shown = shown.map((text) => new wordprob.Words(this.data, text, this.panel));
    this.words.replaceChildren(
      ...this.shown.map((words) => h("article", {}, h("h2", { dir: "auto" }, this.data.title(words.text)), words.box)),
    );
    this.paint();
    this.tabulate();
  }

  // What depends on the model alone.
  turn() {
    const { sections } = wordprob;
    const { model } = this.state;
    const jump = (text, n) => this.jump(text, n);
    this.drawn = model;
    this.below.replaceChildren(
      ...(this.data.hasNaive ? [sections.moved(this.data, model, jump)] : []),
      sections.missing(this.data, model, jump),
      sections.texts(this.data, model, jump),
      sections.provenance(this.data, model),
    );
    this.chooser?.replaceChildren(
      ...this.texts.map((text, n) =>
        wordprob.h("option", { value: n }, `${this.data.title(text)} (${n + 1} of ${this.texts.length})`),
      ),
    );
  }

  // Go to the chosen text among all that are shown.
  reach() {
    this.mark();
    this.shown[this.state.at].box.parentNode.scrollIntoView({ block: "start" });
  }

  mark() {
    this.chooser.value = this.state.at;
    this.steps[0].disabled = this.state.at === 0;
    this.steps[1].disabled = this.state.at === this.texts.length - 1;
  }

  paint() {
    const { view, model, numbers } = this.state;
    this.words.classList.toggle("numbers", numbers);
    this.shown.forEach((words) => words.paint(view));
    this.legend.replaceChildren(...this.key());
    this.spread.replaceChildren(wordprob.sections.distribution(this.data, model, view));
  }

  key() {
    const { h, short } = wordprob;
    const { view } = this.state;
    const [low, high] = this.data.range(view);
    const letter = view === "difference" ? "d" : "s";
    const swatches = Array.from({ length: wordprob.STEPS }, (_, n) => h("i", { class: letter + n }));
    const ends =
      view === "difference"
        ? [`≤ ${short(low)}`, "0", `≥ ${short(high, view)}`]
        : [short(low), short((low + high) / 2), `≥ ${short(high)}`];
    const what = view === "difference" ? "corrected − naive" : `surprisal, ${view}`;
    const meaning =
      view === "difference" ? "blue is less surprising, orange more" : "the stronger, the more surprising";
    const unit = this.data.unit || "unit not recorded";
    return [
      h("span", { class: "what" }, `${what} (${unit})`),
      h(
        "span",
        {
          class: "scale",
          role: "img",
          "aria-label": `Colour scale from ${ends[0]} to ${ends[2]} ${unit}: ${meaning}`,
        },
        h("span", { class: "ramp" }, swatches),
        h(
          "span",
          { class: "ends" },
          ends.map((end) => h("span", {}, end)),
        ),
      ),
      h("span", { class: "w none" }, "no value"),
    ];
  }

  tabulate() {
    const [summary] = this.asTable.children;
    this.asTable.replaceChildren(
      summary,
      ...(this.asTable.open ? this.shown.map((words) => wordprob.sections.words(this.data, words.text)) : []),
    );
  }

  // Show a word, wherever it is.
  jump(text, n) {
    const at = this.texts.indexOf(text);
    if (!this.shown.some((words) => words.text === text)) this.set({ at });
    const words = this.shown.find((found) => found.text === text);
    words.box.focus({ preventScroll: true });
    words.spans[n].scrollIntoView({ block: "center" });
    words.go(n);
  }
};

wordprob.show = (root, payload, options) => new wordprob.View(root, payload, options);

// Light, dark, or as the system has it; the choice is kept where the browser lets a page keep something.
wordprob.theme = (button) => {
  const names = { auto: "as the system", light: "light", dark: "dark" };
  const store = (value) => {
    try {
      if (value) localStorage.setItem("wordprob-theme", value);
      return localStorage.getItem("wordprob-theme");
    } catch {
      return value;
    }
  };
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = `Colours: ${names[name]}`;
  };
  const order = Object.keys(names);
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length];
    store(next);
    apply(next);
  });
  const kept = store();
  apply(order.includes(kept) ? kept : "auto");
};

document.addEventListener("keydown", (event) => event.key === "Escape" && wordprob.panel?.close());
document.addEventListener("click", (event) => event.target.closest(".words, .panel, .link") || wordprob.panel?.close());
if (document.getElementById("theme")) wordprob.theme(document.getElementById("theme"));
if (document.getElementById("data"))
  wordprob.show(document.getElementById("view"), JSON.parse(document.getElementById("data").textContent));
