"use strict";
// The data of a page: columns of equal length, seen as models, texts and values. Nothing here touches the page.

const wordprob = {};

wordprob.STEPS = 33; // colours of a scale, as in colours.py
wordprob.PAGE_WORDS = 1500; // a text with more words is divided into pages of about so many
wordprob.PAGE_SLACK_WORDS = 300; // how far a page may go on to end where a paragraph does
wordprob.MAX_SIDE_BY_SIDE = 6; // an item with more texts shows them one below the other
wordprob.VIEWS = {
  corrected: "Corrected",
  naive: "Naive",
  difference: "Difference",
};

// A payload is {unit, metadata, columns, sources?}; sources holds the full texts by name, if they are known.
wordprob.Data = class {
  constructor(payload) {
    this.unit = payload.unit;
    this.metadata = payload.metadata;
    this.columns = payload.columns;
    this.groups = payload.groups || [];
    this.size = payload.columns.word.length;
    this.sources = new Map(Object.entries(payload.sources || {}).map(([id, text]) => [id, Array.from(text)]));
    this.hasNaive = "surprisal_naive" in this.columns;
    this.models = [...new Set(this.columns.model || [""])];
    this.texts = this.textsByModel();
    // The ends of the colour scales: a few extreme words must not make all others look alike.
    const surprisals = this.allValues("corrected").concat(this.allValues("naive"));
    this.maxSurprisal = payload.scale || roundUp(quantile(surprisals, 0.98) || 1);
    this.maxDifference = roundUp(quantile(this.allValues("difference").map(Math.abs), 0.98) || 1);
  }

  // The texts of each model as {id, rows}, in the order of the table.
  textsByModel() {
    const byModel = new Map(this.models.map((model) => [model, new Map()]));
    for (let i = 0; i < this.size; i++) {
      const texts = byModel.get(this.columns.model ? this.columns.model[i] : "");
      const id = this.columns.text[i];
      if (!texts.has(id)) texts.set(id, { id, rows: [] });
      texts.get(id).rows.push(i);
    }
    return new Map([...byModel].map(([model, texts]) => [model, [...texts.values()]]));
  }

  // A cell of the table; null if there is no such column.
  get(column, i) {
    const values = this.columns[column];
    return values === undefined ? null : values[i];
  }

  // The surprisal of a word with every spelling, as the interval that it is in; null if there is none.
  interval(i) {
    const high = this.get("surprisal_all", i);
    const low = this.get("surprisal_all_low", i);
    if (high === null || low === null) return null;
    return `${wordprob.number(low)} to ${wordprob.number(high)}`;
  }

  // The number that a view shows for a word, or null.
  value(view, i) {
    const corrected = this.get("surprisal", i);
    if (view === "corrected") return corrected;
    const naive = this.get("surprisal_naive", i);
    if (view === "naive") return naive;
    return corrected === null || naive === null ? null : corrected - naive;
  }

  values(view, rows) {
    return rows.map((i) => this.value(view, i)).filter((v) => v !== null);
  }

  allValues(view) {
    return this.values(
      view,
      Array.from({ length: this.size }, (_, i) => i),
    );
  }

  rows(model) {
    return this.texts.get(model).flatMap((text) => text.rows);
  }

  // The ends of a view's colour scale.
  range(view) {
    return view === "difference" ? [-this.maxDifference, this.maxDifference] : [0, this.maxSurprisal];
  }

  // The CSS class that gives a value its colour.
  colour(view, value) {
    if (value === null) return "none";
    const [low, high] = this.range(view);
    const share = Math.min(Math.max((value - low) / (high - low), 0), 1);
    return (view === "difference" ? "d" : "s") + Math.round(share * (wordprob.STEPS - 1));
  }

  // What is between word n of a text and the word before it: "", white space, or "¶" for a new paragraph.
  gap(text, n) {
    const spaceAfter = this.get("space", text.rows[n - 1]);
    if (spaceAfter !== null) return spaceAfter ? " " : "";
    const end = this.get("end", text.rows[n - 1]);
    const start = this.get("start", text.rows[n]);
    if (end === null || start === null) return " ";
    const source = this.sources.get(text.id);
    if (source) {
      const between = source.slice(end, start).join("");
      return between.includes("\n") ? "¶" : between;
    }
    // A pattern may leave out text between two words, so a wide gap is no sign of a paragraph.
    if (String(this.metadata.words).startsWith("regex:")) return start > end ? " " : "";
    return start > end + 1 ? "¶" : start > end ? " " : "";
  }

  // Where the pages of a text begin. A page ends with a paragraph if one ends near; the last page is never a scrap.
  pages(text) {
    const starts = [0];
    const size = text.rows.length;
    let start = 0;
    while (size - start > wordprob.PAGE_WORDS + wordprob.PAGE_SLACK_WORDS) {
      start += wordprob.PAGE_WORDS;
      let n = start;
      while (n < start + wordprob.PAGE_SLACK_WORDS && this.gap(text, n) !== "¶") n++;
      if (n < start + wordprob.PAGE_SLACK_WORDS) start = n;
      starts.push(start);
    }
    return starts;
  }

  // Which of the groups is the item, whose texts are its conditions: one called item…, or the first of two; -1 for none.
  get itemGroup() {
    const named = this.groups.findIndex((name) => /^item/i.test(name));
    if (this.groups.length < 2) return -1;
    return named >= 0 ? named : this.groups.length === 2 ? 0 : -1;
  }

  // The texts of a model as {title, texts}: the conditions of an item together, or every text by itself.
  items(model) {
    const texts = this.texts.get(model);
    const alone = texts.map((text) => ({ title: this.title(text), texts: [text] }));
    const group = this.itemGroup;
    const values = texts.map((text) => text.id.split(" · "));
    if (group < 0 || values.some((parts) => parts.length !== this.groups.length)) return alone;
    const items = new Map();
    texts.forEach((text, n) => {
      const name = values[n][group];
      if (!items.has(name)) items.set(name, { title: `${this.groups[group]} ${name}`, texts: [] });
      items.get(name).texts.push(text);
    });
    const sizes = [...items.values()].map((item) => item.texts.length);
    const fits = sizes.every((size) => size <= wordprob.MAX_SIDE_BY_SIDE) && sizes.some((size) => size > 1);
    return fits ? [...items.values()] : alone;
  }

  // What tells a text from the others of its item: "condition a".
  conditionTitle(text) {
    const values = text.id.split(" · ");
    const parts = this.groups.map((name, n) => (n === this.itemGroup ? null : `${name} ${values[n]}`));
    return parts.filter(Boolean).join(" · ");
  }

  // A text by what tells it from others: "item 3 · condition a", or its number.
  title(text) {
    if (text.id === "") return "The text";
    const values = text.id.split(" · ");
    if (!this.groups.length || this.groups.length !== values.length) return `Text ${text.id}`;
    return this.groups.map((name, n) => `${name} ${values[n]}`).join(" · ");
  }
};

// A number with two decimals; differences with their sign.
wordprob.number = (value, view) => {
  if (value === null || value === undefined) return "—";
  const text = Math.abs(value).toFixed(2);
  if (value < 0 && text !== "0.00") return "−" + text;
  return view === "difference" && text !== "0.00" ? "+" + text : text;
};

wordprob.count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

wordprob.mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);

wordprob.quantile = quantile;

function quantile(values, share) {
  if (!values.length) return null;
  const sorted = Float64Array.from(values).sort();
  const position = share * (sorted.length - 1);
  const low = Math.floor(position);
  return sorted[low] + (position - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

// The smallest round number that is at least the value.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= value - 1e-12);
}
