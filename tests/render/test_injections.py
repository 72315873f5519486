"""Names and words that try to become code, in every place that a page shows: shown as they are, and none runs.

Every payload goes into every place, in a real browser. A script that runs sets ``window.injected`` or opens a dialog.
"""

from __future__ import annotations

import json
import urllib.request

import pandas as pd
import pytest

from wordprob.render import report, write_report
from wordprob.scoring.results import WordTable

PAYLOADS = {
    "script": "<script>window.injected=1</script>",
    "end-of-script": "</script><script>window.injected=1</script>",
    "end-of-style": "</style><style>body{display:none}</style>",
    "end-of-title": "</title></head><body onload=window.injected=1>",
    "attribute": '"><img src=x onerror=window.injected=1>',
    "single-quotes": "'><svg/onload=window.injected=1>",
    "handler": '" autofocus onfocus=alert(1) x="',
    "javascript-url": "javascript:window.injected=1",
    "link": '<a href="javascript:window.injected=1">x</a>',
    "entities": "&lt;script&gt;window.injected=1&lt;/script&gt;",
    "comment": "<!--<script>window.injected=1//-->",
    "line-separators": "a\u2028window.injected=1\u2029b",
    "css": "red;background:url(https://evil.example/x)",
    "json": '"}];window.injected=1;[{"a":"',
    "template": "${window.injected=1}{{window.injected=1}}$title$data",
    "prototype": "__proto__",
    "import": "@import url(https://evil.example/x);",
    "frame": "<iframe srcdoc='<script>parent.injected=1</script>'></iframe>",
}
"""What is written into every place of a page."""


def assert_nothing_ran(page):
    assert page.evaluate("window.injected") is None
    assert page.problems == [], "no dialog, no error, nothing refused"
    assert not [url for url in page.requested_urls if "evil.example" in url]
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    assert page.locator("iframe, svg[onload], img, [onerror], [onload], [onfocus], a[href^=javascript]").count() == 0


def shown_text(page):
    return page.evaluate("document.body.textContent")


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_report(payload, open_page, tmp_path):
    """In the title, the names of item, condition and model, the word, its note, the word rule and the column's name."""
    rows = [
        {"item": f"{payload} {n}", payload: f"{payload} {n}", "word": payload, "surprisal": 1.5, "note": f"{payload} n"}
        for n in range(2)
    ]
    frame = pd.concat([pd.DataFrame(rows).assign(model=name) for name in (f"{payload} m", "other")])
    frame.loc[frame["model"] == "other", "surprisal"] = 2.5
    metadata = {"unit": "bits", "model": payload, "words": payload, "source": payload}
    table = WordTable(frame, pd.DataFrame(), metadata)
    path = write_report(table, tmp_path / "report.html", title=payload, group_by=["item", payload])
    page = open_page(path.as_uri())
    assert page.locator("h1").text_content() == payload
    assert page.title() == " ".join(payload.split()) or page.title() == payload
    words = page.locator(".words .w")
    assert set(words.all_text_contents()) == {payload}
    words.first.click()
    text = shown_text(page)
    assert f"{payload} 0 · {payload} 0" in text, "the names of item and condition"
    assert f"{payload} m" in text, "the model"
    assert f"{payload} n" in page.locator(".panel").text_content(), "the note"
    assert_nothing_ran(page)


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(max_characters=2000, timeout=300)


@pytest.fixture(scope="module")
def server_page(browser, server):
    """One page for all payloads: what one leaves behind would show in the next."""
    page = browser.new_context().new_page()
    page.problems, page.requested_urls = [], []
    page.on("request", lambda request: page.requested_urls.append(request.url))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: (page.problems.append(dialog.message), dialog.dismiss()))
    page.goto(server)
    page.wait_for_selector("#model option", state="attached")
    return page


def press_score(page):
    page.click("#score")
    page.wait_for_selector("#result[aria-busy=false]", state="attached")


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_the_page(payload, server_page):
    """In the text, and in a pattern that is refused with a message that repeats it."""
    page = server_page
    page.select_option("#words-rule", "whitespace")
    page.fill("#text-a", f"the {payload}")
    press_score(page)
    shown = page.locator("article").first.locator(".w").all_text_contents()
    assert shown == ["the", *payload.split()]
    page.locator("article .w").last.click()
    page.select_option("#words-rule", "regex:")
    page.fill("#pattern", f"({payload}")
    press_score(page)
    assert page.get_by_role("alert").is_visible()
    assert_nothing_ran(page)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize("field", ["model", "words", "unit"])
def test_answers_are_never_html(payload, field, server):
    """A value that is refused comes back in the message; a browser that is led to it must not take it for a page."""
    body = json.dumps({"texts": ["the mark"], field: payload}).encode()
    request = urllib.request.Request(f"{server}/api/score", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    answer = refused.value
    assert 400 <= answer.code < 500
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    json.loads(answer.read())


def test_the_data_of_a_report_cannot_end_their_element():
    frame = pd.DataFrame({"word": list(PAYLOADS.values()), "surprisal": 1.0})
    page = report(WordTable(frame, pd.DataFrame(), {"unit": "bits", "model": "toy"}))
    assert page.count("</script>") == 2
    assert "\u2028" not in page.split('id="data">')[1].split("</script>")[0]
