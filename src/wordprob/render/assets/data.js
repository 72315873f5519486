"use strict";
// The data: columns of equal length become models, texts and values. Nothing here touches the page.

const wordprob = {};

wordprob.STEPS = 33;
wordprob.VIEWS = {
  corrected: "Corrected",
  naive: "Naive",
  difference: "Difference",
};

// A payload is {unit, metadata, columns, sources?}; sources holds the texts themselves, by name, where they are known.
wordprob.Data = class {
  constructor(payload) {
    this.unit = payload.unit;
    this.metadata = payload.metadata;
    this.columns = payload.columns;
    this.size = payload.columns.word.length;
    this.sources = new Map(Object.entries(payload.sources || {}).map(([id, text]) => [id, Array.from(text)]));
    this.hasNaive = "surprisal_naive" in this.columns;
    this.models = [...new Set(this.columns.model || [""])];
    this.texts = this.group();
    this.top = nice(quantile(this.finite("corrected").concat(this.finite("naive")), 0.98) || 1);
    this.reach = nice(quantile(this.finite("difference").map(Math.abs), 0.98) || 1);
  }

  // The texts of each model: {id, rows}, in the order in which they come.
  group() {
    const found = new Map(this.models.map((model) => [model, new Map()]));
    for (let i = 0; i < this.size; i++) {
      const texts = found.get(this.columns.model ? this.columns.model[i] : "");
      const id = this.columns.text[i];
      if (!texts.has(id)) texts.set(id, { id, rows: [] });
      texts.get(id).rows.push(i);
    }
    return new Map([...found].map(([model, texts]) => [model, [...texts.values()]]));
  }

  get(column, i) {
    const values = this.columns[column];
    return values === undefined ? null : values[i];
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

  finite(view) {
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
    return view === "difference" ? [-this.reach, this.reach] : [0, this.top];
  }

  // The class that gives a value its colour.
  colour(view, value) {
    if (value === null) return "none";
    const [low, high] = this.range(view);
    const place = Math.min(Math.max((value - low) / (high - low), 0), 1);
    return (view === "difference" ? "d" : "s") + Math.round(place * (wordprob.STEPS - 1));
  }

  // What stands between a word and the one before it in its text: "", white space, or "¶" for a new paragraph.
  gap(text, n) {
    const spaced = this.get("space", text.rows[n - 1]);
    if (spaced !== null) return spaced ? " " : "";
    const before = this.get("end", text.rows[n - 1]);
    const after = this.get("start", text.rows[n]);
    if (before === null || after === null) return " ";
    const source = this.sources.get(text.id);
    if (source) {
      const between = source.slice(before, after).join("");
      return between.includes("\n") ? "¶" : between;
    }
    if (String(this.metadata.words).startsWith("regex:")) return after > before ? " " : "";
    return after > before + 1 ? "¶" : after > before ? " " : "";
  }

  title(text) {
    return text.id === "" ? "The text" : `Text ${text.id}`;
  }
};

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
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  return sorted[low] + (at - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

// The next round number that is not below.
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= value - 1e-12);
}
