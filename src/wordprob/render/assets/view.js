// Everything that is shown of a payload: controls, legend, words, sections.
// Options: compare (texts side by side), and which view to start with and whether with numbers.

wordprob.MAX_WORDS_AT_ONCE = 400; // with more words, one text is shown at a time
wordprob.MAX_WORDS_LAID_OUT = 2000; // with more words, texts that are out of sight are not laid out

wordprob.View = class {
  constructor(root, payload, options) {
    this.root = root;
    this.options = options || {};
    this.data = new wordprob.Data(payload);
    this.panel = new wordprob.Panel(this.data);
    const many = this.data.size / this.data.models.length > wordprob.MAX_WORDS_AT_ONCE;
    const { view = "corrected", numbers = false } = this.options;
    this.state = { model: this.data.models[0], view, itemIndex: 0, all: !many, numbers };
    this.layout();
    this.draw();
    wordprob.panel = this.panel;
  }

  get texts() {
    return this.data.texts.get(this.state.model);
  }

  // What is shown at a time: a text, or the conditions of an item side by side.
  get items() {
    return this.data.items(this.state.model);
  }

  layout() {
    const { h } = wordprob;
    this.words = h("div", {
      id: "words",
      class: this.options.compare ? "compare" : this.data.size > wordprob.MAX_WORDS_LAID_OUT ? "many" : "",
    });
    this.comparison = h("div", {});
    this.distribution = h("div", {});
    this.sections = h("div", {});
    this.legend = h("div", { class: "legend" });
    this.asTable = h(
      "details",
      { class: "astable", ontoggle: () => this.fillTable() },
      h("summary", {}, "These words as a table"),
    );
    this.root.replaceChildren(
      h("p", { class: "about" }, this.about()),
      h("div", { class: "controls" }, this.choices(), this.legend),
      this.words,
      this.comparison,
      this.asTable,
      this.distribution,
      this.sections,
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
      this.options.compare ? null : this.search(),
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
    const change = (event) => this.set({ model: event.target.value, itemIndex: this.sameItem(event.target.value) });
    return h(
      "select",
      { name: "model", "aria-label": "Model", onchange: change },
      this.data.models.map((model) => h("option", { value: model }, model || "(no name)")),
    );
  }

  // Which item (or text) of another model has the name of the one that is shown; the first if none has.
  sameItem(model) {
    const { title } = this.items[this.state.itemIndex];
    const index = this.data.items(model).findIndex((item) => item.title === title);
    return Math.max(index, 0);
  }

  textChoice() {
    const { h } = wordprob;
    if (this.data.models.every((model) => this.data.items(model).length === 1)) return null;
    const what = this.items.some((item) => item.texts.length > 1) ? "item" : "text";
    const step = (by, name, sign) =>
      h(
        "button",
        {
          type: "button",
          name,
          "aria-label": `${name} ${what}`,
          onclick: () => this.set({ itemIndex: this.state.itemIndex + by }),
        },
        sign,
      );
    this.chooser = h("select", {
      name: "text",
      "aria-label": what === "item" ? "Item" : "Text",
      onchange: (event) => this.set({ itemIndex: Number(event.target.value) }),
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
        `All ${what}s`,
      ),
    );
  }

  // A field that finds words in all texts; Enter goes from one to the next.
  search() {
    const { h } = wordprob;
    this.found = h("span", { class: "found", "aria-live": "polite" });
    const field = h("input", {
      type: "search",
      name: "find",
      "aria-label": "Find a word",
      placeholder: "Find a word",
      onkeydown: (event) => event.key === "Enter" && this.find(event.target),
    });
    return h("span", { class: "find" }, field, this.found);
  }

  // Select the next word that contains what the field holds, after the word that is selected.
  find(field) {
    const wanted = field.value.trim().toLowerCase();
    if (!wanted) return;
    const places = this.texts.flatMap((text) => text.rows.map((i, n) => ({ text, n, i })));
    const holds = ({ i }) => this.data.columns.word[i].toLowerCase().includes(wanted);
    const matches = places.filter(holds);
    this.found.textContent = matches.length ? "" : "not found";
    if (!matches.length) return;
    const last = this.lastFound;
    const after = last === undefined ? -1 : matches.findIndex(({ i }) => i > last);
    const place = Math.max(after, 0);
    this.jump(matches[place].text, matches[place].n);
    this.lastFound = matches[place].i;
    this.found.textContent = `${place + 1} of ${matches.length.toLocaleString("en")}`;
    field.focus();
  }

  // Change the state, and redraw what depends on it.
  set(change) {
    const before = this.state;
    this.state = { ...before, ...change };
    this.panel.close();
    if ("itemIndex" in change && this.state.all && this.state.model === before.model) this.scrollToItem();
    else if (["model", "itemIndex", "all"].some((name) => name in change)) this.draw();
    else this.paint();
  }

  // --- drawing ---

  draw() {
    const { h } = wordprob;
    if (this.drawnModel !== this.state.model) this.drawModel();
    if (this.chooser) this.markChosenItem();
    const { items } = this;
    const drawn = this.options.compare
      ? this.texts.map((text) => ({ title: this.data.title(text), texts: [text] }))
      : this.state.all
        ? items
        : [items[this.state.itemIndex]];
    this.shown = [];
    const article = (text, heading, title) => {
      const words = new wordprob.Words(this.data, text, this.panel, () => this.fillTable());
      this.shown.push(words);
      return h("article", {}, h(heading, { dir: "auto" }, title), words.pager, words.box);
    };
    this.itemBoxes = drawn.map(({ title, texts }) =>
      texts.length === 1 && title === this.data.title(texts[0])
        ? article(texts[0], "h2", title)
        : h(
            "section",
            { class: "item" },
            h("h2", { dir: "auto" }, title),
            h(
              "div",
              { class: "compare" },
              texts.map((text) => article(text, "h3", this.data.conditionTitle(text))),
            ),
          ),
    );
    this.words.replaceChildren();
    for (const box of this.itemBoxes) this.words.append(box);
    this.paint();
    this.fillTable();
  }

  // Draw what depends on the model alone.
  drawModel() {
    const { sections } = wordprob;
    const { model } = this.state;
    const jump = (text, n) => this.jump(text, n);
    this.drawnModel = model;
    const [first, second] = this.texts;
    if (this.options.compare && second) this.comparison.replaceChildren(sections.comparison(this.data, first, second));
    this.sections.replaceChildren(
      ...(this.data.hasNaive ? [sections.moved(this.data, model, jump)] : []),
      sections.missing(this.data, model, jump),
      sections.texts(this.data, model, jump),
      sections.provenance(this.data, model),
    );
    this.chooser?.replaceChildren(
      ...this.items.map(({ title }, n) =>
        wordprob.h("option", { value: n }, `${title} (${n + 1} of ${this.items.length})`),
      ),
    );
  }

  // Scroll to the chosen text or item when all are shown.
  scrollToItem() {
    this.markChosenItem();
    this.itemBoxes[this.state.itemIndex].scrollIntoView({ block: "start" });
  }

  markChosenItem() {
    const { itemIndex } = this.state;
    this.chooser.value = itemIndex;
    this.steps[0].disabled = itemIndex === 0;
    this.steps[1].disabled = itemIndex === this.items.length - 1;
  }

  // Colour the words that are drawn.
  paint() {
    const { view, model, numbers } = this.state;
    this.words.classList.toggle("numbers", numbers);
    this.shown.forEach((words) => words.paint(view));
    this.legend.replaceChildren(...this.legendParts());
    this.distribution.replaceChildren(wordprob.sections.distribution(this.data, model, view));
  }

  legendParts() {
    const { h, short } = wordprob;
    const { view } = this.state;
    const [low, high] = this.data.range(view);
    const letter = view === "difference" ? "d" : "s";
    const swatches = Array.from({ length: wordprob.STEPS }, (_, n) => h("i", { class: letter + n }));
    const ends =
      view === "difference"
        ? [`≤ ${short(low)}`, "0", `≥ ${short(high, view)}`]
        : [short(low), short((low + high) / 2), `≥ ${short(high)}`];
    const quantity = view === "difference" ? "corrected − naive" : `surprisal, ${view}`;
    const meaning =
      view === "difference" ? "blue is less surprising, orange more" : "the stronger, the more surprising";
    const unit = this.data.unit || "unit not recorded";
    return [
      h("span", { class: "what" }, `${quantity} (${unit})`),
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

  // The words as a table, made when it is opened.
  fillTable() {
    const [summary] = this.asTable.children;
    this.asTable.replaceChildren(
      summary,
      ...(this.asTable.open ? this.shown.map((words) => this.wordTable(words)) : []),
    );
  }

  // The words of a text, or of its page that is shown, with all their numbers.
  wordTable(words) {
    return wordprob.sections.words(this.data, { id: words.text.id, rows: words.rows });
  }

  // Show word n of a text, and select it.
  jump(text, n) {
    const itemIndex = this.items.findIndex((item) => item.texts.includes(text));
    if (!this.shown.some((words) => words.text === text)) this.set({ itemIndex });
    const words = this.shown.find((candidate) => candidate.text === text);
    words.box.focus({ preventScroll: true });
    words.turnTo(n);
    words.spans[n].scrollIntoView({ block: "center" });
    words.select(n);
  }
};

wordprob.show = (root, payload, options) => new wordprob.View(root, payload, options);

// Light, dark, or as the system is set; the choice is stored if the browser allows it.
wordprob.theme = (button) => {
  const names = { auto: "as the system", light: "light", dark: "dark" };
  const stored = (value) => {
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
    stored(next);
    apply(next);
  });
  const lastChoice = stored();
  apply(order.includes(lastChoice) ? lastChoice : "auto");
};

document.addEventListener("keydown", (event) => event.key === "Escape" && wordprob.panel?.close());
document.addEventListener("click", (event) => event.target.closest(".words, .panel, .link") || wordprob.panel?.close());
if (document.getElementById("theme")) wordprob.theme(document.getElementById("theme"));
if (document.getElementById("data"))
  wordprob.show(document.getElementById("view"), JSON.parse(document.getElementById("data").textContent));
