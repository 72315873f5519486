"use strict";
// The page of wordprob serve: sends texts to the JSON route, and gives the answer to the view that reports use too.

const byId = (id) => document.getElementById(id);
const SCALES = { bits: 20, nats: 14 }; // where the colours end, so that one text can be compared with the next
const NO_ANSWER = "the server does not answer. Is wordprob serve still running?";

let server = null; // what /api/models says: models and limits
let scoredRequest = null; // the request whose result is shown
let view = null; // the view that shows it
let running = null; // the AbortController of the request that is not answered yet

function requestFromForm() {
  const rule = byId("words-rule").value;
  const two = byId("two").checked;
  return {
    texts: two ? [byId("text-a").value, byId("text-b").value] : [byId("text-a").value],
    ids: two ? ["A", "B"] : null,
    model: byId("model").value,
    words: rule === "regex:" ? rule + byId("pattern").value : rule,
    unit: byId("unit").value,
    spellings: byId("all-spellings").checked ? "all" : "own",
  };
}

async function post(request, signal, route = "/api/score") {
  const response = await fetch(route, {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => null);
  throw new Error(problem ? problem.error : `the server answered with status ${response.status}.`);
}

async function score(event) {
  event?.preventDefault();
  running?.abort();
  const controller = (running = new AbortController());
  const request = requestFromForm();
  showStatus("Scoring…");
  byId("next").hidden = true;
  byId("result").ariaBusy = "true";
  try {
    const answer = await (await post(request, controller.signal)).json();
    const { view: chosenView, numbers } = view?.state ?? {}; // what the reader chose stays for the next text
    const options = { compare: request.ids !== null, view: chosenView, numbers };
    view = wordprob.show(byId("result"), payload(answer, request), options);
    scoredRequest = request;
    showStatus(`${answer.words.length} words scored`);
  } catch (error) {
    if (controller.signal.aborted) return; // a newer request has taken over
    showProblem(error instanceof TypeError ? NO_ANSWER : error.message);
  }
  byId("csv").hidden = byId("html").hidden = scoredRequest === null;
  byId("result").ariaBusy = "false";
}

// Turn the rows of an answer into the columns that the view takes.
function payload(answer, request) {
  const column = (name) => answer.words.map((row) => row[name]);
  const names = [
    "word",
    "start",
    "end",
    "n_tokens",
    "context_tokens",
    "surprisal",
    "surprisal_naive",
    "before",
    "after",
    "note",
    ...(request.spellings === "all" ? ["surprisal_all", "surprisal_all_low"] : []),
  ];
  const columns = Object.fromEntries(names.map((name) => [name, column(name)]));
  const single = request.ids === null; // one text has no name
  columns.text = column("text_id").map((id) => (single ? "" : String(id)));
  const sources = Object.fromEntries(request.texts.map((text, n) => [single ? "" : request.ids[n], text]));
  return { unit: answer.unit, metadata: answer.metadata, columns, sources, scale: SCALES[answer.unit] };
}

// The number of the word that comes after a click between words; as many as there are words after the last one.
function wordAfter(words, event) {
  const isBefore = (span) => {
    const box = span.getBoundingClientRect();
    if (box.bottom <= event.clientY) return true;
    if (box.top > event.clientY) return false;
    const rightToLeft = getComputedStyle(span.parentNode).direction === "rtl";
    return rightToLeft ? box.left >= event.clientX : box.right <= event.clientX;
  };
  const drawn = words.spans.filter(Boolean);
  const next = drawn.find((span) => !isBefore(span));
  return next ? next.wordIndex : drawn[drawn.length - 1].wordIndex + 1;
}

// What stands before word n, with the words that could have come there.
async function showNext(words, n) {
  const { ids, texts, model, unit, words: rule } = scoredRequest;
  const text = texts[ids === null ? 0 : ids.indexOf(words.text.id)];
  const end = n > 0 ? view.data.columns.end[words.text.rows[n - 1]] : 0;
  const context = Array.from(text).slice(0, end).join("");
  const box = byId("next");
  box.hidden = false;
  if (rule.startsWith("regex:")) {
    box.replaceChildren("What could have come cannot be listed for words that a pattern finds.");
    return;
  }
  box.replaceChildren("Searching…");
  try {
    const answer = await (await post({ context, model, unit, words: rule }, undefined, "/api/next")).json();
    drawNext(box, answer);
  } catch (error) {
    box.hidden = true;
    showProblem(error instanceof TypeError ? NO_ANSWER : error.message);
  }
}

// What stands before a word, where it is not one space: "." and " ." are two words.
function separatorRemark(separator) {
  if (separator === "") return "(no space before)";
  return `(after ${separator.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥")})`;
}

function drawNext(box, answer) {
  const { h } = wordprob;
  const names = { end: "the end of the text", rest: "everything else" };
  const isFirst = !answer.context.trim();
  const row = ({ kind, separator, word, probability, surprisal, certain }) =>
    h(
      "tr",
      { class: kind },
      h(
        "th",
        { scope: "row", dir: "auto" },
        names[kind] ?? word,
        certain ? "" : " ?",
        kind === "word" && !isFirst && separator !== " " ? h("small", {}, ` ${separatorRemark(separator)}`) : "",
      ),
      h("td", {}, probability.toFixed(4)),
      h("td", {}, surprisal === null ? "" : surprisal.toFixed(2)),
    );
  const shown = Array.from(answer.context).slice(-60).join("");
  const heading = answer.context ? `What could come after “${shown}”` : "What could come first";
  box.replaceChildren(
    h("h2", { dir: "auto" }, heading),
    h("button", { type: "button", class: "quiet", onclick: () => (box.hidden = true) }, "Close"),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["word", "probability", answer.unit].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, answer.rows.map(row)),
    ),
  );
}

// A click between two words of a text that is shown.
function clickBetween(event) {
  const words = view?.shown.find((candidate) => candidate.box.contains(event.target));
  if (words && event.target.wordIndex === undefined) showNext(words, wordAfter(words, event));
}

// The same without a mouse: n, when a word is chosen.
function keyBetween(event) {
  const words = view?.shown.find((candidate) => candidate.box.contains(event.target));
  if (event.key === "n" && words && words.current >= 0) showNext(words, words.current);
}

async function download(format) {
  try {
    const blob = await (await post({ ...scoredRequest, format })).blob();
    const link = wordprob.h("a", { href: URL.createObjectURL(blob), download: `wordprob.${format}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    showProblem(error.message);
  }
}

function showStatus(message) {
  byId("status").textContent = message;
  byId("problem").hidden = true;
}

function showProblem(message) {
  byId("status").textContent = "";
  byId("problem").textContent = message;
  byId("problem").hidden = false;
}

function showCharacterCount() {
  const used = requestFromForm().texts.reduce((sum, text) => sum + Array.from(text).length, 0);
  const allowed = server ? server.max_characters : Infinity;
  const count = `${used.toLocaleString("en")} of ${allowed.toLocaleString("en")} characters`;
  byId("count").textContent = server ? count : "";
  byId("count").classList.toggle("over", used > allowed);
}

// Show the fields that the choices need.
function updateForm() {
  byId("second").hidden = !byId("two").checked;
  byId("name-a").textContent = byId("two").checked ? "Text A" : "Text";
  byId("pattern-label").hidden = byId("words-rule").value !== "regex:";
  showCharacterCount();
}

// Put a file into the first text field; it is read here and goes nowhere until it is scored.
async function openFile() {
  const [file] = byId("file").files;
  if (!file) return;
  try {
    byId("text-a").value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    showStatus(`${file.name} is in the text field`);
  } catch {
    showProblem(`${file.name} is not UTF-8 text; save it as UTF-8 and try again.`);
  }
  updateForm();
}

async function start() {
  try {
    server = await (await fetch("/api/models")).json();
    byId("model").replaceChildren(...server.models.map((name) => wordprob.h("option", {}, name)));
    if (!running) score(); // the text that is in the field as an example
  } catch {
    showProblem(NO_ANSWER);
  }
  updateForm();
}

byId("ask").addEventListener("submit", score);
byId("result").addEventListener("click", clickBetween);
byId("result").addEventListener("keydown", keyBetween);
byId("file").addEventListener("change", openFile);
byId("ask").addEventListener("input", updateForm);
byId("ask").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
});
for (const format of ["csv", "html"]) byId(format).addEventListener("click", () => download(format));
start();
