"""The report in a real browser: what readers see, what a screen reader speaks, and what keys and mouse do."""

from __future__ import annotations

import pandas as pd
import pytest

import wordprob
from wordprob.render import colours, write_report
from wordprob.scoring.results import WordTable


def words(page):
    return page.locator(".words .w")


def box(page, selector):
    return page.locator(selector).bounding_box()


def simple_table(texts: dict[str, str], missing: str = "", **extra) -> WordTable:
    """Return a table of words with simple numbers: 1.5, 3, 4.5 … corrected, 1, 2, 3 … naive."""
    rows = []
    for text_id, text in texts.items():
        start = 0
        for n, word in enumerate(text.split(), start=1):
            start = text.index(word, start)
            value = None if word == missing else float(n)
            rows.append(
                {
                    "text_id": text_id,
                    "word": word,
                    "start": start,
                    "end": start + len(word),
                    "n_tokens": 2,
                    "context_tokens": n - 1,
                    "surprisal": value and 1.5 * value,
                    "surprisal_naive": value,
                    "before": 0.25,
                    "after": value and 0.25 + 0.5 * value,
                    "note": "a boundary lies inside a token" if value is None else "",
                    **extra,
                }
            )
            start += len(word)
    return WordTable(pd.DataFrame(rows), pd.DataFrame(), {"unit": "bits", "model": "toy", "words": "whitespace"})


@pytest.fixture
def show(open_page, tmp_path):
    """Write a report of a table and open it."""

    def opener(table, title="A report", outline=None, **options):
        path = write_report(table, tmp_path / "report.html", force=True, title=title, outline=outline)
        page = open_page(path.as_uri(), **options)
        assert page.problems == []
        return page

    return opener


@pytest.fixture(scope="module")
def exact():
    return wordprob.load("exact:bow").score(["She saw the mark.", "the marker"], "punctuation")


def test_every_word_has_its_colour_and_its_number(show, exact):
    page = show(exact)
    frame = exact.to_pandas()
    assert words(page).all_text_contents() == frame["word"].tolist()
    shown = [float(w.get_attribute("data-value")) for w in words(page).all()]
    assert shown == pytest.approx(frame["surprisal"], abs=0.005 + 1e-9)
    steps = [int(w.get_attribute("class").split()[1][1:]) for w in words(page).all()]
    order = frame["surprisal"].rank(method="dense").tolist()
    assert all(steps[i] <= steps[j] for i in range(7) for j in range(7) if order[i] < order[j])
    assert len(set(steps)) > 2
    seen = words(page).nth(3).evaluate("e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]")
    fill = colours.sequential("light")[steps[3]]
    assert [rgb(fill), rgb(colours.ink(fill))] == seen


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_switching_shows_naive_and_the_difference(show, exact):
    page = show(exact)
    mark = words(page).nth(3)
    seen = {}
    for view in ("corrected", "naive", "difference"):
        page.locator(f"input[value={view}]").check(force=True)
        background = mark.evaluate("e => getComputedStyle(e).backgroundColor")
        seen[view] = (mark.get_attribute("data-value"), background, page.locator(".legend").inner_text())
    assert [value for value, _, _ in seen.values()] == ["1.32", "0.00", "+1.32"], "log2 of 0.4, and of 1"
    assert len({background for _, background, _ in seen.values()}) == 3
    assert "surprisal, corrected (bits)" in seen["corrected"][2]
    assert "corrected − naive (bits)" in seen["difference"][2]
    assert page.locator("#distribution svg").get_attribute("aria-label").startswith("Histogram of 7 values, difference")


def test_the_numbers_of_a_word_by_mouse_tap_and_keys(show):
    page = show(simple_table({"0": "one two three"}))
    panel = page.locator(".panel")
    assert panel.is_hidden()
    words(page).nth(1).hover()
    text = panel.inner_text().replace("\n", " ")
    for part in (
        "two",
        "Surprisal 3.00 bits",
        "= naive 2.00",
        "+ after 1.25",
        "− before 0.25",
        "Tokens 2",
        "context 1",
    ):
        assert part in text
    page.mouse.move(5, 5)
    assert panel.is_hidden(), "gone with the mouse"
    words(page).nth(0).click()
    page.mouse.move(5, 5)
    assert panel.is_visible(), "a tapped word stays"
    page.locator("h1").click()
    assert panel.is_hidden()
    page.locator(".words").focus()
    spoken = page.locator("[role=status]")
    for key, word in (
        ("ArrowRight", "one"),
        ("ArrowRight", "two"),
        ("End", "three"),
        ("ArrowLeft", "two"),
        ("Home", "one"),
    ):
        page.keyboard.press(key)
        assert spoken.text_content().startswith(f"{word}: corrected")
    assert spoken.text_content() == "one: corrected 1.50, naive 1.00, difference +0.50 bits"
    assert page.locator(".w.at").text_content() == "one"
    page.keyboard.press("Escape")
    assert panel.is_hidden()


def test_arrows_go_from_line_to_line(show):
    page = show(simple_table({"0": " ".join(f"word{n}" for n in range(60))}))
    page.locator(".words").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    at = page.locator(".w.at")
    first, second = words(page).first.bounding_box(), at.bounding_box()
    assert second["y"] > first["y"]
    assert second["x"] == pytest.approx(first["x"], abs=1)
    page.keyboard.press("ArrowUp")
    assert at.text_content() == "word0"


def test_everything_can_be_reached_by_keys(show):
    page = show(simple_table({"a": "one two", "b": "three"}))
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        names.append(
            page.evaluate(
                "(document.activeElement.name || document.activeElement.className || document.activeElement.id)"
            )
        )
    assert {"view", "text", "all", "numbers", "words", "link", "quiet", "skip"} <= {
        str(n).split()[0] for n in names if n
    }


def test_white_space_and_paragraphs_are_as_in_the_text(show):
    page = show(wordprob.load("exact:bow").score("She saw  the mark.", "punctuation"))
    assert [p.text_content() for p in page.locator(".words p").all()] == ["She saw", "the mark."]


def test_a_pattern_leaves_no_false_paragraphs(show):
    page = show(wordprob.load("exact:bow").score("She saw, the mark", r"regex:[\w]+"))
    assert page.locator(".words p").all_text_contents() == ["She saw the mark"]


def test_missing_words_are_hatched_listed_and_explained(show):
    page = show(simple_table({"a": "one two three", "b": "two"}, missing="two"))
    hatched = words(page).nth(1)
    assert "none" in hatched.get_attribute("class")
    assert "repeating-linear-gradient" in hatched.evaluate("e => getComputedStyle(e).backgroundImage")
    section = page.locator("#missing")
    assert "a boundary lies inside a token: 2 words" in section.inner_text()
    section.get_by_role("button", name="two").first.click()
    assert page.locator(".panel").inner_text().endswith("a boundary lies inside a token")


def test_the_largest_corrections_come_first_and_lead_to_their_words(show):
    page = show(simple_table({f"t{n}": " ".join("abcdefghij"[: n + 1]) for n in range(10)}))
    rows = page.locator("#moved tbody tr")
    assert rows.first.inner_text().split() == ["j", "+5.00", "15.00", "10.00", "f", "g", "h", "i", "t9"]
    assert rows.count() == 20
    rows.first.get_by_role("button").click()
    assert page.locator(".panel h4").inner_text() == "j"
    assert page.evaluate("document.activeElement.className") == "words"


def test_many_texts_are_shown_one_at_a_time(show):
    page = show(simple_table({f"t{n}": "one two three four five" for n in range(300)}))
    title = page.locator("#words h2")
    assert title.all_text_contents() == ["Text t0"]
    assert page.get_by_role("button", name="Previous text").is_disabled()
    page.get_by_role("button", name="Next text").click()
    assert title.all_text_contents() == ["Text t1"]
    page.get_by_label("Text", exact=True).select_option("299")
    assert title.all_text_contents() == ["Text t299"]
    assert page.get_by_role("button", name="Next text").is_disabled()
    page.locator("#texts").get_by_role("button", name="t42", exact=True).click()
    assert title.all_text_contents() == ["Text t42"]
    page.get_by_label("All texts").check()
    assert title.count() == 300


def test_several_models_are_a_choice(show):
    frames = [
        simple_table({"a": "one two", "b": "two"}, model="A").to_pandas(),
        simple_table({"b": "two one"}, model="B").to_pandas(),
    ]
    frames[1][["surprisal", "surprisal_naive"]] *= 2
    page = show(WordTable(pd.concat(frames), pd.DataFrame(), {"unit": "bits"}))
    assert words(page).all_text_contents() == ["one", "two", "two"]
    page.get_by_label("Model").select_option("B")
    assert words(page).all_text_contents() == ["two", "one"]
    assert words(page).first.get_attribute("data-value") == "3.00"
    assert page.locator("#texts tbody tr").count() == 1


def test_each_model_has_its_own_provenance(show):
    frame = pd.DataFrame({"word": ["a"], "surprisal_A": [1.0], "surprisal_B": [2.0]})
    about = {"unit": "bits", "model": "A, B", "models": {"A": {"model": "A", "dtype": "float32"}, "B": {"model": "B"}}}
    page = show(WordTable(frame, pd.DataFrame(), about))
    provenance = page.locator("#provenance")
    assert "float32" in provenance.inner_text()
    page.get_by_label("Model").select_option("B")
    assert words(page).first.get_attribute("data-value") == "2.00"
    assert "float32" not in provenance.inner_text()


def test_punctuation_on_a_row_of_its_own_touches_its_word(show):
    frame = pd.DataFrame({"word": ["the", "mark", "."], "surprisal": 1.0, "space": ["yes", "no", "yes"]})
    page = show(WordTable(frame, pd.DataFrame(), {"unit": "bits", "space_after": "space"}))
    assert page.locator(".words p").all_text_contents() == ["the mark."]


def test_nothing_is_loaded_from_the_network_and_the_policy_holds(show):
    page = show(simple_table({"0": "one"}))
    assert [url[:8] for url in page.requested_urls] == ["file:///"]
    page.evaluate("fetch('https://example.org').catch(() => 0)")
    page.evaluate("document.body.append(Object.assign(new Image(), {src: 'https://example.org/x.png'}))")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    for _ in range(10_000):  # the browser reports each of the three violations when it gets round to it
        violations = [problem for problem in page.problems if "Content Security Policy" in problem]
        if len(violations) >= 3:
            break
        page.wait_for_timeout(10)
    assert len(violations) >= 3
    assert page.evaluate("window.ran") is None, "no other script runs"


NASTY = (
    "</script><img/src=x/onerror=alert(1)> <script>alert(1)</script> <b>bold</b> &lt; javascript:alert(1) ${alert(1)}"
)


def test_words_that_look_like_code_are_words(show):
    table = simple_table({"<img src=x onerror=alert(1)>": NASTY}, missing="<b>bold</b>")
    table.metadata["model"] = "<script>alert(1)</script>"
    page = show(table, title="<img src=x onerror=alert(1)>")
    assert words(page).all_text_contents() == NASTY.split()
    words(page).first.click()
    page.locator("summary").click()
    assert page.locator("h1").text_content() == "<img src=x onerror=alert(1)>"
    assert page.locator("img, b, main script").count() == 0
    assert page.problems == []


def test_text_from_right_to_left(show):
    page = show(simple_table({"0": "مرحبا بالعالم هذا"}))
    first, second = (words(page).nth(n).bounding_box() for n in (0, 1))
    assert second["x"] < first["x"]
    page.locator(".words").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".w.at").text_content() == "بالعالم"


def test_a_phone_shows_it_without_scrolling_sideways(show):
    long = "one two " + "x" * 200 + " three " * 30
    page = show(simple_table({"a": long, "b": long}), width=390, has_touch=True)
    page.locator("summary").click()
    page.get_by_label("Numbers", exact=True).check()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    words(page).nth(1).tap()
    sheet = page.locator(".panel").bounding_box()
    assert (sheet["x"], sheet["width"]) == (0, 390), "at the foot of the screen, over its width"
    assert sheet["y"] + sheet["height"] == pytest.approx(844, abs=1)
    assert box(page, "#distribution rect.bar >> nth=0")["width"] > 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(show, scheme):
    page = show(simple_table({"0": "one two three"}), color_scheme=scheme)
    background = "getComputedStyle(document.body).backgroundColor"
    shown = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 29)"}
    assert page.evaluate(background) == shown[scheme]
    fill = words(page).last.evaluate("e => getComputedStyle(e).backgroundColor")
    assert fill in {rgb(c) for c in colours.sequential(scheme)}
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Colours: dark"
    assert page.evaluate(background) == shown["dark"], "the button has the last word"
    page.emulate_media(media="print")
    assert page.evaluate(background) == shown["light"], "paper is light"


def test_print_leaves_out_what_paper_cannot_do(show):
    page = show(simple_table({"0": "one two three"}))
    page.emulate_media(media="print")
    assert page.locator(".choices").is_hidden()
    assert page.locator("#theme").is_hidden()
    assert page.locator(".legend").is_visible()
    assert words(page).first.evaluate("e => getComputedStyle(e).printColorAdjust") == "exact"
    assert len(page.pdf()) > 1000


def test_what_a_screen_reader_finds(show):
    page = show(simple_table({"a": "one two three", "b": "four"}))
    tree = page.locator("body").aria_snapshot()
    for part in (
        'heading "A report" [level=1]',
        'group "Which value"',
        'radio "Corrected" [checked]',
        'combobox "Text"',
        'group "Text a, 3 words. Arrow keys go from word to word."',
        'img "Colour scale from 0 to ≥',
        'img "Histogram of 4 values, corrected, in bits',
        'region "The 4 words that it moves most, in bits"',
        'heading "Words without a value" [level=2]',
        'columnheader "Difference"',
        "one two three",
    ):
        assert part in tree, part
    page.locator("summary").click()
    rows = page.locator(".astable table").first.locator("tr")
    assert rows.nth(0).inner_text().split() == "Word Surprisal Naive Before After Difference Tokens Context".split()
    assert rows.nth(2).inner_text().split() == "two 3.00 2.00 0.25 1.25 +1.00 2 1".split()
    assert page.locator("html").get_attribute("lang") == "en"


def test_numbers_under_the_words(show):
    page = show(simple_table({"0": "one two"}))
    page.get_by_label("Numbers", exact=True).check()
    assert words(page).nth(1).evaluate("e => getComputedStyle(e, '::after').content") == '"3.00"'


def test_ten_thousand_words(show):
    frame = simple_table({"0": " ".join(["word"] * 40)}).to_pandas()
    many = pd.concat([frame.assign(text_id=n) for n in range(250)], ignore_index=True)
    page = show(WordTable(many, pd.DataFrame(), {"unit": "bits"}))
    assert "10,000 words · 250 texts" in page.locator(".about").inner_text()
    page.get_by_label("All texts").check()
    assert words(page).count() == 10_000
    page.locator("input[value=difference]").check(force=True)
    assert words(page).last.get_attribute("data-value") == "+20.00"
    whole = show(WordTable(many.drop(columns="text_id"), pd.DataFrame(), {"unit": "bits"}))
    assert words(whole).count() == 1500, "one long text: its first page"
    rows = whole.locator(".astable tbody tr")
    whole.locator("summary").click()
    whole.get_by_role("button", name="Show more of 1,500 words").wait_for()
    assert rows.count() == 1000
    whole.get_by_role("button", name="Show more of 1,500 words").click()
    assert rows.count() == 1500


def long_text(n_words: int) -> WordTable:
    frame = pd.DataFrame(
        {"word": [f"w{n}" for n in range(n_words)], "surprisal": [n % 20 + 0.5 for n in range(n_words)]}
    )
    return WordTable(frame.assign(text_id="novel"), pd.DataFrame(), {"unit": "bits"})


def test_a_long_text_has_pages(show):
    page = show(long_text(4000))
    assert words(page).first.inner_text() == "w0"
    assert page.locator("select[name=page] option").all_text_contents() == [f"Page {n} of 3" for n in (1, 2, 3)]
    page.get_by_label("Next page").click()
    assert (words(page).first.inner_text(), words(page).count()) == ("w1500", 1500)
    assert words(page).first.get_attribute("data-value") == "0.50"
    page.locator("select[name=page]").select_option("2")
    assert (words(page).first.inner_text(), words(page).last.inner_text()) == ("w3000", "w3999")
    assert page.get_by_label("Next page").is_disabled()
    page.get_by_label("Previous page").click()
    page.locator(".words").focus()
    page.keyboard.press("ArrowRight")
    assert "w1500" in page.locator(".panel").inner_text(), "keys begin on the page that is shown"
    page.keyboard.press("ArrowLeft")
    assert "w1499" in page.locator(".panel").inner_text()
    assert words(page).last.inner_text() == "w1499", "and turn it"
    page.keyboard.press("End")
    assert "w3999" in page.locator(".panel").inner_text()
    assert page.problems == []


def test_a_word_is_found_on_any_page(show):
    page = show(long_text(4000))
    page.get_by_label("Find a word").fill("w3210")
    page.keyboard.press("Enter")
    assert page.locator(".w.at").inner_text() == "w3210"
    assert page.locator("select[name=page]").input_value() == "2"
    page.get_by_label("Find a word").fill("399")
    for expected in ("w3399", "w3990", "w3991"):
        page.keyboard.press("Enter")
        assert page.locator(".w.at").inner_text() == expected
    page.get_by_label("Find a word").fill("absent")
    page.keyboard.press("Enter")
    assert "not found" in page.locator(".found").inner_text()
    assert page.problems == []


def test_a_hundred_thousand_words_in_one_text(show):
    page = show(long_text(100_000))
    assert words(page).count() == 1500, "what is drawn does not grow with the text"
    assert "100,000 words · 1 text" in page.locator(".about").inner_text()
    timing = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    assert timing < 30_000, "two seconds on a machine with nothing else to do"


def test_a_region_is_outlined(show):
    frame = pd.DataFrame({"word": ["She", "saw"], "surprisal": [1.0, 2.0], "region": ["start", "critical"]})
    page = show(WordTable(frame, pd.DataFrame(), {"unit": "bits"}), outline=("region", "critical"))
    assert page.locator(".words .outlined").all_text_contents() == ["saw"]
    page.locator("input[name=numbers]").check()
    assert page.locator(".words .outlined").all_text_contents() == ["saw"], "painting again keeps it"


def test_texts_are_named_by_what_tells_them_apart(show):
    frame = pd.DataFrame({"item": [1, 2], "condition": ["a", "b"], "word": ["She", "saw"], "surprisal": [1.0, 2.0]})
    page = show(WordTable(frame, pd.DataFrame(), {"unit": "bits", "group_by": "item,condition"}))
    assert page.locator("article h2").all_text_contents() == ["item 1 · condition a", "item 2 · condition b"]


def test_a_table_with_surprisal_alone(show):
    page = show(WordTable(pd.DataFrame({"word": ["a", "b"], "surprisal": [1.0, 2.0]}), pd.DataFrame(), {}))
    assert words(page).all_text_contents() == ["a", "b"]
    assert page.locator("input[name=view]").count() == 0
    assert page.locator("#moved").count() == 0
    assert "unit not recorded" in page.locator(".legend").inner_text()
    assert "came without its metadata" in page.locator("#provenance").inner_text()


# --- conditions of an item ---


def design(items=2, conditions=("a", "b"), names=("item", "condition")) -> WordTable:
    """Return the words of an experiment: each item in each condition."""
    texts = {
        (str(item), condition): f"Word{item} in condition {condition}"
        for item in range(items)
        for condition in conditions
    }
    table = simple_table({f"{item}/{condition}": text for (item, condition), text in texts.items()})
    frame = table.to_pandas()
    keys = frame["text_id"].str.split("/", expand=True)
    frame = frame.drop(columns="text_id").assign(**{names[0]: keys[0], names[1]: keys[1]})
    return WordTable(frame, pd.DataFrame(), {**table.metadata, "group_by": ",".join(names)})


def test_conditions_of_an_item_stand_side_by_side(show):
    page = show(design())
    assert page.locator("#words h2").all_text_contents() == ["item 0", "item 1"]
    assert page.locator("#words h3").all_text_contents() == ["condition a", "condition b"] * 2
    left, right, below = (page.locator("article").nth(n).bounding_box() for n in range(3))
    assert left["y"] == right["y"]
    assert right["x"] > left["x"] + left["width"] - 1
    assert below["y"] > left["y"] + left["height"] - 1


def test_items_are_chosen_as_a_whole(show):
    page = show(design())
    page.get_by_label("All items").uncheck()
    assert page.locator("#words h3").all_text_contents() == ["condition a", "condition b"]
    page.get_by_label("Next item").click()
    assert page.locator("#words h2").all_text_contents() == ["item 1"]
    assert words(page).first.text_content() == "Word1"
    assert page.get_by_label("Next item").is_disabled()
    page.get_by_label("Find a word").fill("Word0")
    page.get_by_label("Find a word").press("Enter")
    assert page.locator("#words h2").all_text_contents() == ["item 0"], "a word that is found brings its item"


def test_on_a_phone_conditions_stand_one_below_the_other(show):
    page = show(design(), width=390)
    first, second = (page.locator("article").nth(n).bounding_box() for n in range(2))
    assert second["y"] > first["y"] + first["height"] - 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    "table",
    [design(conditions=tuple("abcdefgh")), design(conditions=("a",)), simple_table({"0": "She saw", "1": "the mark"})],
    ids=["many conditions", "one condition", "texts"],
)
def test_other_texts_stand_by_themselves(show, table):
    page = show(table)
    assert page.locator(".item").count() == 0
    assert page.locator("#words article h2").count() == page.locator("article").count() > 1
    assert page.get_by_label("All texts").count() == 1
