// The sections below the words: distribution, largest corrections, missing values, texts, provenance.

wordprob.sections = {};

wordprob.section = (id, title, ...children) =>
  wordprob.h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    wordprob.h("h2", { id: `${id}-title` }, title),
    ...children,
  );

const MAX_ROWS_WITHOUT_SCROLLING = 25; // longer tables get a scroll bar of their own

// A table from a caption, headings and rows; numbers are aligned to the right.
wordprob.table = (caption, heads, rows) => {
  const { h } = wordprob;
  const numberClass = (cell) => (typeof cell === "string" && /^[−+]?\d[\d.,]*$|^—$/.test(cell) ? "number" : null);
  const cell = (value, n) => h(n ? "td" : "th", { class: numberClass(value), scope: n ? null : "row" }, value);
  const numbers = heads.map((_, n) => rows.length > 0 && rows.every((row) => numberClass(row[n])));
  return h(
    "div",
    {
      class: rows.length > MAX_ROWS_WITHOUT_SCROLLING ? "scroll tall" : "scroll",
      tabindex: "0",
      role: "region",
      "aria-label": caption,
    },
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

const FIRST_ROWS = 1000; // a button shows the next rows of a longer table

// A table of items, of which a button shows more; rows are made when they are shown.
wordprob.longTable = (caption, heads, items, row, noun, maxRows = FIRST_ROWS) => {
  const { h, count } = wordprob;
  const table = wordprob.table(caption, heads, items.slice(0, maxRows).map(row));
  if (items.length <= maxRows) return table;
  const more = () =>
    firstRows.replaceWith(wordprob.longTable(caption, heads, items, row, noun, maxRows + 10 * FIRST_ROWS));
  const label = `Show more of ${count(items.length, noun)}`;
  const firstRows = h("div", {}, table, h("button", { type: "button", onclick: more }, label));
  return firstRows;
};

// The words of a text with all their numbers.
wordprob.sections.words = (data, text) => {
  const { number } = wordprob;
  const columns = [
    ["Surprisal", "surprisal", (i) => number(data.get("surprisal", i))],
    ["Naive", "surprisal_naive", (i) => number(data.get("surprisal_naive", i))],
    ["Before", "before", (i) => number(data.get("before", i))],
    ["After", "after", (i) => number(data.get("after", i))],
    ["Difference", "surprisal_naive", (i) => number(data.value("difference", i), "difference")],
    ["All spellings", "surprisal_all", (i) => data.interval(i) ?? "—"],
    ["Tokens", "n_tokens", (i) => String(data.get("n_tokens", i) ?? "—")],
    ["Context", "context_tokens", (i) => String(data.get("context_tokens", i) ?? "—")],
    ["Note", "note", (i) => data.get("note", i)],
  ].filter(([, name]) => name in data.columns && (name !== "note" || text.rows.some((i) => data.get(name, i))));
  return wordprob.longTable(
    `${data.title(text)}${unitOf(data)}`,
    ["Word", ...columns.map(([head]) => head)],
    text.rows,
    (i) => [wordprob.bdi(data.columns.word[i]), ...columns.map(([, , cell]) => cell(i))],
    "word",
  );
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
      const numbers = data.values(name, rows);
      const [low, median, high] = [0, 0.5, 1].map((share) => number(quantile(numbers, share), name));
      const count = numbers.length.toLocaleString("en");
      const average = number(mean(numbers), name);
      return [wordprob.VIEWS[name], count, average, median, number(standardDeviation(numbers)), low, high];
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

function standardDeviation(values) {
  if (values.length < 2) return null;
  const average = wordprob.mean(values);
  return Math.sqrt(values.reduce((sum, v) => sum + (v - average) ** 2, 0) / (values.length - 1));
}

function unitOf(data) {
  return data.unit ? `, in ${data.unit}` : "";
}

const BINS = 40;

// A histogram over the range of the colour scale; the first and last bar include all values beyond it.
function histogram(data, values, view) {
  const { h } = wordprob;
  const [low, high] = data.range(view);
  const counts = new Array(BINS).fill(0);
  for (const v of values) counts[Math.min(Math.max(Math.floor(((v - low) / (high - low)) * BINS), 0), BINS - 1)]++;
  const maxCount = Math.max(...counts);
  const [width, height, left, bottom] = [document.documentElement.clientWidth < 640 ? 360 : 640, 200, 44, 40];
  const step = (width - left - 8) / BINS;
  const bars = counts.map((count, n) => {
    const barHeight = (count / maxCount) * (height - bottom - 12);
    const [from, to] = [low + (n * (high - low)) / BINS, low + ((n + 1) * (high - low)) / BINS];
    const span = `${wordprob.number(from, view)} to ${wordprob.number(to, view)}`;
    const open = n === 0 ? " or less" : n === BINS - 1 ? " or more" : "";
    return h(
      "rect",
      {
        class: `bar ${data.colour(view, (from + to) / 2)}`,
        x: left + n * step + 0.5,
        y: height - bottom - barHeight,
        width: step - 1,
        height: barHeight,
      },
      h("title", {}, `${span}${open}: ${wordprob.count(count, "word")}`),
    );
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) =>
    h(
      "text",
      { x: left + share * (width - left - 8), y: height - bottom + 16, "text-anchor": share === 1 ? "end" : "middle" },
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
    h("line", { class: "axis", x1: left, x2: width - 8, y1: height - bottom, y2: height - bottom }),
    bars,
    ticks,
    h("text", { x: left - 6, y: 18, "text-anchor": "end" }, maxCount.toLocaleString("en")),
    h("text", { x: left - 6, y: height - bottom, "text-anchor": "end" }, "0"),
    h(
      "text",
      { x: (width + left) / 2, y: height - 4, "text-anchor": "middle" },
      `${view === "difference" ? "corrected − naive" : `surprisal, ${view}`}${data.unit ? ` (${data.unit})` : ""}`,
    ),
  );
}

// A number with three digits, for the ends of a scale.
wordprob.short = short;

function short(value, view) {
  const text = String(Math.abs(Number(value.toPrecision(3))));
  return value < 0 ? "−" + text : view === "difference" && value > 0 ? "+" + text : text;
}

const MAX_MOVED_WORDS = 20;

// The words that the correction changes most; `jump` shows one in its text.
wordprob.sections.moved = (data, model, jump) => {
  const { h, number, count } = wordprob;
  const rows = data.texts
    .get(model)
    .flatMap((text) => text.rows.map((i, n) => ({ text, n, i, difference: data.value("difference", i) })))
    .filter(({ difference }) => difference !== null);
  const mean = wordprob.mean(rows.map(({ difference }) => Math.abs(difference)));
  const unit = data.unit.replace(/s$/, ""); // 1 bit, not 1 bits
  const moreThanOne = rows.filter(({ difference }) => Math.abs(difference) > 1).length;
  const mostMoved = [...rows]
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference))
    .slice(0, MAX_MOVED_WORDS);
  const wordsBefore = ({ text, n }) =>
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
      `and ${moreThanOne.toLocaleString("en")} of them by more than 1 ${unit}.`.replace(" .", "."),
    ),
    wordprob.table(
      `The ${mostMoved.length} words that it moves most${unitOf(data)}`,
      ["Word", "Difference", "Corrected", "Naive", "Comes after", "Text"],
      mostMoved.map((row) => [
        link(data, row, jump),
        number(row.difference, "difference"),
        number(data.value("corrected", row.i)),
        number(data.value("naive", row.i)),
        wordprob.bdi(wordsBefore(row), "context"),
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

const MAX_LISTED_WORDS = 60;

// The words without a value and those with a note, by reason.
wordprob.sections.missing = (data, model, jump) => {
  const { h, count } = wordprob;
  const rows = data.texts.get(model).flatMap((text) => text.rows.map((i, n) => ({ text, n, i })));
  const missing = rows.filter(({ i }) => data.value("corrected", i) === null);
  const noted = rows.filter(({ i }) => data.value("corrected", i) !== null && data.get("note", i));
  const lists = (listed, noReason) =>
    [...byReason(data, listed, noReason)].map(([reason, words]) => [
      h("h3", {}, `${reason}: ${count(words.length, "word")}`),
      h(
        "p",
        { class: "chips" },
        words.slice(0, MAX_LISTED_WORDS).flatMap((row) => [link(data, row, jump), " "]),
        words.length > MAX_LISTED_WORDS ? `and ${count(words.length - MAX_LISTED_WORDS, "more word")}` : null,
      ),
    ]);
  return wordprob.section(
    "missing",
    "Words without a value",
    missing.length ? lists(missing, "No reason given") : h("p", {}, "None: every word has a surprisal."),
    noted.length ? [h("h3", { class: "rule" }, "Words with a value and a note"), lists(noted, "")] : null,
  );
};

// Rows by their notes, most frequent first; what a note quotes and its percentages make no difference.
function byReason(data, rows, noReason) {
  const groups = new Map();
  for (const row of rows) {
    const reason = (data.get("note", row.i) || noReason).replace(/'[^']*'/g, "‘…’").replace(/\d+%/g, "…%");
    if (!groups.has(reason)) groups.set(reason, []);
    groups.get(reason).push(row);
  }
  return new Map([...groups].sort((a, b) => b[1].length - a[1].length));
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
    wordprob.longTable(`${wordprob.count(texts.length, "text")}: surprisal${unitOf(data)}`, heads, texts, row, "text"),
  );
};

// Two texts word by word: equal words stand beside each other, and the last row has the totals.
wordprob.sections.comparison = (data, first, second) => {
  const { number, bdi } = wordprob;
  const total = (text) => {
    const values = data.values("corrected", text.rows);
    return values.length ? values.reduce((sum, value) => sum + value, 0) : null;
  };
  const value = (i) => (i === null ? null : data.value("corrected", i));
  const word = (i) => (i === null ? "" : bdi(data.columns.word[i]));
  const difference = (a, b) => number(a === null || b === null ? null : b - a, "difference");
  const rows = alignWords(data, first, second).map(([a, b]) => [
    word(a),
    a === null ? "" : number(value(a)),
    word(b),
    b === null ? "" : number(value(b)),
    difference(value(a), value(b)),
  ]);
  const totals = ["All words", number(total(first)), "", number(total(second)), difference(total(first), total(second))];
  return wordprob.section(
    "comparison",
    "Word by word",
    wordprob.table(
      `Surprisal${unitOf(data)}; the difference is ${second.id} minus ${first.id}`,
      [first.id, "Surprisal", second.id, "Surprisal", "Difference"],
      [...rows, totals],
    ),
  );
};

const MAX_ALIGNED = 1_000_000; // pairs of words that are compared; of longer texts, words are paired by their number

// Pairs of rows of two texts, null where a text has no such word: as many equal words as possible are paired, and words
// between them in their order.
function alignWords(data, first, second) {
  const [a, b] = [first.rows, second.rows];
  const equal = (i, j) => data.columns.word[a[i]] === data.columns.word[b[j]];
  const matches = a.length * b.length > MAX_ALIGNED ? [] : longestCommon(a.length, b.length, equal);
  const pairs = [];
  let [i, j] = [0, 0];
  for (const [nextI, nextJ] of [...matches, [a.length, b.length]]) {
    while (i < nextI || j < nextJ) pairs.push([i < nextI ? a[i++] : null, j < nextJ ? b[j++] : null]);
    if (nextI < a.length) pairs.push([a[i++], b[j++]]);
  }
  return pairs;
}

// The longest common subsequence of two sequences, as pairs of positions.
function longestCommon(n, m, equal) {
  const lengths = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1));
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--)
      lengths[i][j] = equal(i, j) ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const pairs = [];
  for (let [i, j] = [0, 0]; i < n && j < m; ) {
    if (equal(i, j)) pairs.push([i++, j++]);
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return pairs;
}

wordprob.sections.provenance = (data, model) => {
  const { h } = wordprob;
  const { models, ...shared } = data.metadata;
  const entries = Object.entries({ ...shared, ...(models || {})[model] }).filter(
    ([, value]) => value !== "" && value !== null,
  );
  const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  return wordprob.section(
    "provenance",
    "Where the numbers come from",
    entries.length
      ? h(
          "dl",
          { class: "provenance" },
          entries.map(([name, value]) =>
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
