// What stands below the words: the distribution, what the correction moves, what is missing, the texts, provenance.

wordprob.sections = {};

wordprob.section = (id, title, ...children) =>
  wordprob.h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    wordprob.h("h2", { id: `${id}-title` }, title),
    ...children,
  );

const TALL = 25; // tables with more rows scroll by themselves

// A table from a caption, headings and rows; numbers stand to the right.
wordprob.table = (caption, heads, rows) => {
  const { h } = wordprob;
  const side = (cell) => (typeof cell === "string" && /^[−+]?\d[\d.,]*$|^—$/.test(cell) ? "number" : null);
  const cell = (value, n) => h(n ? "td" : "th", { class: side(value), scope: n ? null : "row" }, value);
  const numbers = heads.map((_, n) => rows.length > 0 && rows.every((row) => side(row[n])));
  return h(
    "div",
    { class: rows.length > TALL ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head, n) => h("th", { scope: "col", class: numbers[n] ? "number" : null }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => h("tr", {}, row.map(cell))),
      ),
    ),
  );
};

const ROWS = 1000; // longer tables are whole when asked for

// The words of a text with all that is known about them.
wordprob.sections.words = (data, text, most = ROWS) => {
  const { h, number, count } = wordprob;
  const columns = [
    ["Surprisal", "surprisal", (i) => number(data.get("surprisal", i))],
    ["Naive", "surprisal_naive", (i) => number(data.get("surprisal_naive", i))],
    ["Before", "before", (i) => number(data.get("before", i))],
    ["After", "after", (i) => number(data.get("after", i))],
    ["Difference", "surprisal_naive", (i) => number(data.value("difference", i), "difference")],
    ["Tokens", "n_tokens", (i) => String(data.get("n_tokens", i) ?? "—")],
    ["Context", "context_tokens", (i) => String(data.get("context_tokens", i) ?? "—")],
    ["Note", "note", (i) => data.get("note", i)],
  ].filter(([, name]) => name in data.columns && (name !== "note" || text.rows.some((i) => data.get(name, i))));
  const table = wordprob.table(
    `${data.title(text)}${unitOf(data)}`,
    ["Word", ...columns.map(([head]) => head)],
    text.rows.slice(0, most).map((i) => [wordprob.bdi(data.columns.word[i]), ...columns.map(([, , cell]) => cell(i))]),
  );
  if (text.rows.length <= most) return table;
  const whole = () => part.replaceWith(wordprob.sections.words(data, text, Infinity));
  const more = h("button", { type: "button", onclick: whole }, `Show all ${count(text.rows.length, "word")}`);
  const part = h("div", {}, table, more);
  return part;
};

wordprob.sections.distribution = (data, model, view) => {
  const { h, number, mean, quantile } = wordprob;
  const rows = data.rows(model);
  const values = data.values(view, rows);
  const views = Object.keys(wordprob.VIEWS).filter((name) => name === "corrected" || data.hasNaive);
  const table = wordprob.table(
    `Surprisal of ${wordprob.count(rows.length, "word")}${unitOf(data)}`,
    ["Value", "Words", "Mean", "Median", "SD", "Lowest", "Highest"],
    views.map((name) => {
      const found = data.values(name, rows);
      const [low, median, high] = [0, 0.5, 1].map((share) => number(quantile(found, share), name));
      const count = found.length.toLocaleString("en");
      return [wordprob.VIEWS[name], count, number(mean(found), name), median, number(deviation(found)), low, high];
    }),
  );
  const title = `${wordprob.VIEWS[view]}: how many words have which value`;
  return wordprob.section(
    "distribution",
    "Distribution",
    values.length ? h("figure", {}, histogram(data, values, view), h("figcaption", {}, title)) : null,
    table,
  );
};

function deviation(values) {
  if (values.length < 2) return null;
  const middle = wordprob.mean(values);
  return Math.sqrt(values.reduce((sum, v) => sum + (v - middle) ** 2, 0) / (values.length - 1));
}

function unitOf(data) {
  return data.unit ? `, in ${data.unit}` : "";
}

const BINS = 40;

function histogram(data, values, view) {
  const { h } = wordprob;
  const [low, high] = data.range(view);
  const counts = new Array(BINS).fill(0);
  for (const v of values) counts[Math.min(Math.max(Math.floor(((v - low) / (high - low)) * BINS), 0), BINS - 1)]++;
  const most = Math.max(...counts);
  const [width, height, left, foot] = [document.documentElement.clientWidth < 640 ? 360 : 640, 200, 44, 40];
  const step = (width - left - 8) / BINS;
  const bars = counts.map((count, n) => {
    const tall = (count / most) * (height - foot - 12);
    const [from, to] = [low + (n * (high - low)) / BINS, low + ((n + 1) * (high - low)) / BINS];
    const span = `${wordprob.number(from, view)} to ${wordprob.number(to, view)}`;
    const open = n === 0 ? " or less" : n === BINS - 1 ? " or more" : "";
    return h(
      "rect",
      {
        class: `bar ${data.colour(view, (from + to) / 2)}`,
        x: left + n * step + 0.5,
        y: height - foot - tall,
        width: step - 1,
        height: tall,
      },
      h("title", {}, `${span}${open}: ${wordprob.count(count, "word")}`),
    );
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) =>
    h(
      "text",
      { x: left + share * (width - left - 8), y: height - foot + 16, "text-anchor": share === 1 ? "end" : "middle" },
      `${share === 1 && view !== "difference" ? "≥ " : ""}${short(low + share * (high - low), view)}`,
    ),
  );
  const [lower, median, upper] = [0.25, 0.5, 0.75].map((s) => wordprob.number(wordprob.quantile(values, s), view));
  const label =
    `Histogram of ${wordprob.count(values.length, "value")}, ${view}${unitOf(data)}: ` +
    `median ${median}, half of them between ${lower} and ${upper}.`;
  return h(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    h("line", { class: "axis", x1: left, x2: width - 8, y1: height - foot, y2: height - foot }),
    bars,
    ticks,
    h("text", { x: left - 6, y: 18, "text-anchor": "end" }, most.toLocaleString("en")),
    h("text", { x: left - 6, y: height - foot, "text-anchor": "end" }, "0"),
    h(
      "text",
      { x: (width + left) / 2, y: height - 4, "text-anchor": "middle" },
      `${view === "difference" ? "corrected − naive" : `surprisal, ${view}`}${data.unit ? ` (${data.unit})` : ""}`,
    ),
  );
}

wordprob.short = short;

function short(value, view) {
  const text = String(Math.abs(Number(value.toPrecision(3))));
  return value < 0 ? "−" + text : view === "difference" && value > 0 ? "+" + text : text;
}

const MOVED = 20;

wordprob.sections.moved = (data, model, jump) => {
  const { h, number, count } = wordprob;
  const rows = data.texts
    .get(model)
    .flatMap((text) => text.rows.map((i, n) => ({ text, n, i, by: data.value("difference", i) })))
    .filter(({ by }) => by !== null);
  const mean = wordprob.mean(rows.map(({ by }) => Math.abs(by)));
  const far = rows.filter(({ by }) => Math.abs(by) > 1).length;
  const most = [...rows].sort((a, b) => Math.abs(b.by) - Math.abs(a.by)).slice(0, MOVED);
  const before = ({ text, n }) =>
    text.rows
      .slice(Math.max(0, n - 4), n)
      .map((i) => data.columns.word[i])
      .join(" ");
  return wordprob.section(
    "moved",
    "What the correction moves most",
    h(
      "p",
      {},
      `The correction changes ${count(rows.length, "word")} by ${number(mean)} ${data.unit} on average, `,
      `and ${far.toLocaleString("en")} of them by more than 1 ${data.unit.replace(/s$/, "")}.`.replace(" .", "."),
    ),
    wordprob.table(
      `The ${most.length} words that it moves most${unitOf(data)}`,
      ["Word", "Difference", "Corrected", "Naive", "Comes after", "Text"],
      most.map((row) => [
        link(data, row, jump),
        number(row.by, "difference"),
        number(data.value("corrected", row.i)),
        number(data.value("naive", row.i)),
        wordprob.bdi(before(row), "context"),
        wordprob.bdi(row.text.id),
      ]),
    ),
  );
};

function link(data, { text, n, i }, jump) {
  return wordprob.h(
    "button",
    { type: "button", class: "link", dir: "auto", onclick: () => jump(text, n) },
    data.columns.word[i],
  );
}

const LISTED = 60;

wordprob.sections.missing = (data, model, jump) => {
  const { h, count } = wordprob;
  const rows = data.texts.get(model).flatMap((text) => text.rows.map((i, n) => ({ text, n, i })));
  const missing = rows.filter(({ i }) => data.value("corrected", i) === null);
  const noted = rows.filter(({ i }) => data.value("corrected", i) !== null && data.get("note", i));
  const lists = (found, none) =>
    [...byReason(data, found, none)].map(([reason, words]) => [
      h("h3", {}, `${reason}: ${count(words.length, "word")}`),
      h(
        "p",
        { class: "chips" },
        words.slice(0, LISTED).flatMap((row) => [link(data, row, jump), " "]),
        words.length > LISTED ? `and ${count(words.length - LISTED, "more word")}` : null,
      ),
    ]);
  return wordprob.section(
    "missing",
    "Words without a value",
    missing.length ? lists(missing, "No reason given") : h("p", {}, "None: every word has a surprisal."),
    noted.length ? [h("h3", { class: "rule" }, "Words with a value and a note"), lists(noted, "")] : null,
  );
};

// Rows by what their notes say, whatever the notes quote and count.
function byReason(data, rows, none) {
  const found = new Map();
  for (const row of rows) {
    const reason = (data.get("note", row.i) || none).replace(/'[^']*'/g, "‘…’").replace(/\d+%/g, "…%");
    if (!found.has(reason)) found.set(reason, []);
    found.get(reason).push(row);
  }
  return new Map([...found].sort((a, b) => b[1].length - a[1].length));
}

wordprob.sections.texts = (data, model, jump) => {
  const { h, number, mean } = wordprob;
  const texts = data.texts.get(model);
  const heads = ["Text", "Words", "Without a value", "Sum", "Mean", ...(data.hasNaive ? ["Mean, naive"] : [])];
  const row = (text) => {
    const corrected = data.values("corrected", text.rows);
    const name = h(
      "button",
      { type: "button", class: "link", dir: "auto", onclick: () => jump(text, 0) },
      text.id || "The text",
    );
    return [
      name,
      String(text.rows.length),
      String(text.rows.length - corrected.length),
      number(corrected.length ? corrected.reduce((a, b) => a + b, 0) : null),
      number(mean(corrected)),
      ...(data.hasNaive ? [number(mean(data.values("naive", text.rows)))] : []),
    ];
  };
  return wordprob.section(
    "texts",
    "Texts",
    wordprob.table(`${wordprob.count(texts.length, "text")}: surprisal${unitOf(data)}`, heads, texts.map(row)),
  );
};

wordprob.sections.provenance = (data, model) => {
  const { h } = wordprob;
  const { models, ...all } = data.metadata;
  const known = Object.entries({ ...all, ...(models || {})[model] }).filter(
    ([, value]) => value !== "" && value !== null,
  );
  const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  return wordprob.section(
    "provenance",
    "Where the numbers come from",
    known.length
      ? h(
          "dl",
          { class: "provenance" },
          known.map(([name, value]) =>
            h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", { dir: "auto" }, shown(value))),
          ),
        )
      : h("p", {}, "The table came without its metadata: the file NAME.meta.json that wordprob writes beside it."),
    h(
      "p",
      { class: "note" },
      "surprisal = naive + after − before: the sum of the tokens' surprisals, ",
      "and what the ends of the word and of the one before it add and take away.",
    ),
  );
};
