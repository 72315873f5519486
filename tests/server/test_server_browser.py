"""The page that ``wordprob serve`` shows, in a real browser, with a real server behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

import wordprob


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(max_characters=300, timeout=300)


@pytest.fixture
def page(open_page, server):
    opened = open_page(server)
    opened.wait_for_selector("#model option", state="attached")
    return opened


def score(page, **fields: str) -> None:
    for name, value in fields.items():
        page.fill(f"#text-{name}", value)
    page.click("#score")
    page.wait_for_selector("#result[aria-busy=false]", state="attached")


def words(page, n: int = 0):
    return page.locator("article").nth(n).locator(".w").all_text_contents()


def test_a_text_is_shown_in_colour_with_its_white_space(page, server):
    score(page, a="She saw\nthe  mark.")
    assert words(page) == ["She", "saw", "the", "mark."]
    assert page.locator(".words p").all_text_contents() == ["She saw", "the  mark."]
    page.select_option("#words-rule", "punctuation")
    page.select_option("#unit", "nats")
    page.select_option("#model", "exact:eow")
    score(page)
    assert words(page) == ["She", "saw", "the", "mark", "."]
    assert "exact:eow · words: punctuation · nats" in page.locator("p.about").inner_text()
    assert page.problems == []
    assert all(url.startswith(server) for url in page.requested_urls if not url.startswith("data:")), (
        "nothing from outside"
    )


def test_a_pattern_chooses_the_words(page):
    page.select_option("#words-rule", "regex:")
    page.fill("#pattern", "[a-z]+")
    score(page, a="the mark, the marker")
    assert words(page) == ["the", "mark", "the", "marker"]
    assert page.locator(".words").inner_text() == "the mark, the marker", "what lies between is shown too"


def test_choices_stay_for_the_next_text(page):
    score(page, a="She saw the mark")
    page.locator("input[value=difference]").check(force=True)
    page.get_by_label("Numbers", exact=True).check()
    score(page, a="the mark")
    assert page.locator("input[value=difference]").is_checked()
    assert page.locator(".numbers .w").last.get_attribute("data-value") == "+2.18", "log2 of 0.22"


def test_two_texts_side_by_side(page):
    assert page.locator("#text-b").is_hidden()
    page.get_by_label("Compare two texts").check()
    score(page, a="She saw the mark", b="the marker")
    assert (words(page, 0), words(page, 1)) == (["She", "saw", "the", "mark"], ["the", "marker"])
    left, right = (page.locator("article").nth(n).bounding_box() for n in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    assert page.locator("#texts tbody th").all_text_contents() == ["A", "B"]
    page.set_viewport_size({"width": 390, "height": 844})
    left, right = (page.locator("article").nth(n).bounding_box() for n in (0, 1))
    assert right["y"] > left["y"], "on a phone one below the other"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_two_texts_are_compared_word_by_word(page):
    page.get_by_label("Compare two texts").check()
    score(page, a="She saw the mark", b="She saw the marker")
    table = page.locator("#comparison tbody tr")
    assert [row.split("\t")[0] for row in table.all_inner_texts()] == ["She", "saw", "the", "mark", "All words"]
    assert table.nth(0).locator("td").all_inner_texts()[1] == "She"
    assert table.nth(0).locator("td").last.inner_text() == "0.00"
    last = [cell.replace("−", "-") for cell in table.last.locator("td").all_inner_texts()]
    assert float(last[3]) == pytest.approx(float(last[2]) - float(last[0]), abs=0.02)


def test_words_of_one_text_alone_have_no_partner(page):
    page.get_by_label("Compare two texts").check()
    score(page, a="She saw the mark", b="the mark")
    pairs = [row.locator("th, td").all_inner_texts() for row in page.locator("#comparison tbody tr").all()[:-1]]
    assert [(pair[0], pair[2]) for pair in pairs] == [("She", ""), ("saw", ""), ("the", "the"), ("mark", "mark")]


def test_an_example_is_scored_when_the_page_opens(page):
    page.wait_for_selector(".words .w")
    assert words(page)[:4] == ["She", "saw", "the", "mark"]
    assert "half the probability" in page.locator("main > p.lead").inner_text().replace("\n", " ")
    assert page.locator(".legend .ends span").all_text_contents() == ["0", "10", "≥ 20"], "the same for every text"
    assert page.problems == []


def test_a_file_goes_into_the_text_field(page, tmp_path):
    from playwright.sync_api import expect

    (tmp_path / "mine.txt").write_text("the naïve mark", encoding="utf-8")
    page.set_input_files("#file", tmp_path / "mine.txt")
    expect(page.locator("#text-a")).to_have_value("the naïve mark")
    (tmp_path / "latin.txt").write_bytes(b"na\xefve")
    page.set_input_files("#file", tmp_path / "latin.txt")
    page.get_by_text("latin.txt is not UTF-8 text").wait_for()
    score(page)
    assert words(page) == ["the", "naïve", "mark"]


def test_the_csv_is_what_the_command_would_write(page):
    score(page, a="She saw the mark")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "wordprob.csv"
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text == wordprob.load("exact:bow").score("She saw the mark").to_text("csv")


def test_the_report_can_be_downloaded(page, open_page, tmp_path):
    score(page, a="She saw the mark")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download report").click()
    download.value.save_as(tmp_path / "report.html")
    report = open_page((tmp_path / "report.html").as_uri())
    assert report.locator(".words .w").all_text_contents() == "She saw the mark".split()
    assert report.problems == []


def test_problems_are_shown_and_the_last_result_stays(page):
    score(page, a="She saw the mark")
    page.select_option("#words-rule", "regex:")
    page.fill("#pattern", "(")
    score(page)
    problem = page.get_by_role("alert")
    assert "is not a regular expression" in problem.inner_text()
    assert words(page) == "She saw the mark".split()
    page.select_option("#words-rule", "whitespace")
    score(page, a="x" * 301)
    assert "300 characters" in problem.inner_text()
    assert "over" in page.locator("#count").get_attribute("class")
    score(page, a="the mark")
    assert words(page) == ["the", "mark"]
    assert problem.is_hidden()


def test_a_server_that_does_not_answer_is_a_problem_on_the_page(page):
    page.route("**/api/score", lambda route: route.abort())
    score(page, a="the mark")
    assert "Is wordprob serve still running?" in page.get_by_role("alert").inner_text()


def test_what_is_pasted_cannot_become_markup(page):
    nasty = "<img/src=x/onerror=alert(1)> </script><script>alert(1)</script>"
    score(page, a=nasty)
    assert words(page) == nasty.split()
    assert page.locator("#result img, #result script").count() == 0
    assert page.problems == []


def test_the_page_can_be_used_without_a_mouse(page):
    from playwright.sync_api import expect

    page.locator("#text-a").focus()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("She saw the mark")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".words .w")).to_have_count(4)  # not those of the example any more
    page.locator(".words").focus()
    page.keyboard.press("End")
    assert page.locator(".panel h4").inner_text() == "mark"


def test_what_a_screen_reader_finds(page):
    tree = page.locator("body").aria_snapshot()
    for part in (
        'textbox "Text"',
        'combobox "Model"',
        'combobox "Words"',
        'combobox "Unit"',
        'button "Score"',
        "status",
    ):
        assert part in tree, part


def test_the_manual_of_the_route(open_page, server):
    page = open_page(f"{server}docs")
    assert f"{server}api/score" in page.locator("pre").inner_text()
    assert page.problems == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1100


def test_every_spelling_is_counted_on_request(page):
    page.get_by_label("Count every spelling").check()
    score(page, a="the mark")
    page.locator(".words .w").nth(1).hover()
    page.get_by_text("All spellings").first.wait_for()
    assert " to " in page.locator("dl div", has_text="All spellings").first.inner_text()
    assert page.problems == []


def between(page, n: int):
    """Click into the gap before word n of the first text."""
    before, after = (page.locator("article .w").nth(k).bounding_box() for k in (n - 1, n))
    page.mouse.click((before["x"] + before["width"] + after["x"]) / 2, before["y"] + before["height"] / 2)


def test_a_click_between_two_words_shows_what_could_have_come(page):
    score(page, a="She saw the mark")
    between(page, 3)
    page.wait_for_selector("#next tbody tr")
    assert page.locator("#next h2").inner_text() == "What could come after “She saw the”"
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator("#next tbody tr").all()]
    found = wordprob.load("exact:bow").next_words("She saw the", top=20)
    assert [row[0] for row in rows[:-2]] == [each.word for each in found.words]
    assert [float(row[1]) for row in rows[:-2]] == pytest.approx([each.probability for each in found.words], abs=1e-4)
    assert [row[0] for row in rows[-2:]] == ["the end of the text", "everything else"]
    page.get_by_role("button", name="Close").click()
    assert page.locator("#next").is_hidden()
    assert page.problems == []


def test_what_could_have_come_without_a_mouse_and_first(page):
    score(page, a="She saw the mark")
    page.locator(".words").focus()
    page.keyboard.press("Home")
    page.keyboard.press("n")
    page.wait_for_selector("#next tbody tr")
    assert page.locator("#next h2").inner_text() == "What could come first"
    assert page.locator("#next tbody th").first.inner_text() == "She"


def test_marks_right_after_a_word_are_told_from_words_after_a_space(page):
    page.select_option("#words-rule", "punctuation")
    score(page, a="She saw the mark ?")
    page.locator(".words").focus()
    page.keyboard.press("End")
    page.keyboard.press("n")
    page.wait_for_selector("#next tbody tr")
    shown = page.locator("#next tbody tr.word th").all_inner_texts()
    found = wordprob.load("exact:bow").next_words("She saw the mark", "punctuation", top=20)
    assert shown == [each.word if each.separator else f"{each.word} (no space before)" for each in found.words]
    assert any(text.endswith("(no space before)") for text in shown)
    assert page.problems == []


def test_what_could_have_come_is_not_listed_for_a_pattern(page):
    page.select_option("#words-rule", "regex:")
    page.fill("#pattern", "[a-z]+")
    score(page, a="the mark, the marker")
    between(page, 1)
    page.wait_for_selector("#next:not([hidden])")
    assert "cannot be listed" in page.locator("#next").inner_text()
