"use strict";
// The page: asks the JSON route, and hands what comes back to the view that the report uses too.

const at = (id) => document.getElementById(id);
let offered = null; // what the server has to offer
let scored = null; // the request whose result is shown
let shown = null; // and the view that shows it
let under = null; // the request under way

function request() {
  const rule = at("words-rule").value;
  const two = at("two").checked;
  return {
    texts: two ? [at("text-a").value, at("text-b").value] : [at("text-a").value],
    ids: two ? ["A", "B"] : null,
    model: at("model").value,
    words: rule === "regex:" ? rule + at("pattern").value : rule,
    unit: at("unit").value,
  };
}

async function ask(body, signal) {
  const answer = await fetch("/api/score", {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => null);
  throw new Error(told ? told.error : `the server answered with status ${answer.status}.`);
}

async function score(event) {
  event.preventDefault();
  under?.abort();
  const mine = (under = new AbortController());
  const body = request();
  say("Scoring…");
  at("result").ariaBusy = "true";
  try {
    const found = await (await ask(body, mine.signal)).json();
    const { view, numbers } = shown?.state ?? {};
    shown = wordprob.show(at("result"), payload(found, body), { compare: body.ids !== null, view, numbers });
    scored = body;
    say(`${found.words.length} words scored`);
  } catch (error) {
    if (mine.signal.aborted) return;
    fail(error instanceof TypeError ? "the server does not answer. Is wordprob serve still running?" : error.message);
  }
  at("csv").hidden = at("html").hidden = scored === null;
  at("result").ariaBusy = "false";
}

// The answer's rows as the view's columns.
function payload(found, body) {
  const column = (name) => found.words.map((row) => row[name]);
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
  ];
  const columns = Object.fromEntries(names.map((name) => [name, column(name)]));
  const id = (text) => (body.ids === null ? "" : String(text));
  columns.text = column("text_id").map(id);
  const sources = Object.fromEntries(body.texts.map((text, n) => [body.ids === null ? "" : body.ids[n], text]));
  return { unit: found.unit, metadata: found.metadata, columns, sources };
}

async function download(format) {
  try {
    const blob = await (await ask({ ...scored, format })).blob();
    const link = wordprob.h("a", { href: URL.createObjectURL(blob), download: `wordprob.${format}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    fail(error.message);
  }
}

function say(message) {
  at("status").textContent = message;
  at("problem").hidden = true;
}

function fail(message) {
  at("status").textContent = "";
  at("problem").textContent = message;
  at("problem").hidden = false;
}

function count() {
  const used = request().texts.reduce((sum, text) => sum + Array.from(text).length, 0);
  const most = offered ? offered.max_characters : Infinity;
  at("count").textContent = offered ? `${used.toLocaleString("en")} of ${most.toLocaleString("en")} characters` : "";
  at("count").classList.toggle("over", used > most);
}

function arrange() {
  at("second").hidden = !at("two").checked;
  at("name-a").textContent = at("two").checked ? "Text A" : "Text";
  at("pattern-label").hidden = at("words-rule").value !== "regex:";
  count();
}

async function start() {
  try {
    offered = await (await fetch("/api/models")).json();
    at("model").replaceChildren(...offered.models.map((name) => wordprob.h("option", {}, name)));
  } catch {
    fail("the server does not answer. Is wordprob serve still running?");
  }
  arrange();
}

at("ask").addEventListener("submit", score);
at("ask").addEventListener("input", arrange);
at("ask").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit();
});
for (const format of ["csv", "html"]) at(format).addEventListener("click", () => download(format));
start();
