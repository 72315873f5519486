"""Which rows make a text: what is guessed, and what in the data makes a guess an error."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

from wordprob.errors import InputError
from wordprob.stimuli.stimulus_reading import read_stimuli
from wordprob.stimuli.table_scoring import score_table

SENTENCES = ["She saw the mark.", "The boy saw the marker.", "Nobody saw the old mark.", "The girl marked it."]


def words_on_rows(*, sentences=SENTENCES, **columns) -> pd.DataFrame:
    """Return sentences with a word on each row; each further column has a value for each sentence."""
    rows = []
    for n, sentence in enumerate(sentences):
        for position, word in enumerate(sentence.split(), start=1):
            own = {name: values[n] for name, values in columns.items()}
            rows.append({**own, "pos": position, "word": word})
    return pd.DataFrame(rows)


def error_of(table: pd.DataFrame, **options) -> str:
    with pytest.raises(InputError) as error:
        read_stimuli(table, **options)
    return str(error.value)


PAIRS = {"item": [1, 1, 2, 2], "type": ["a", "b", "a", "b"]}


def test_a_position_that_starts_again_inside_a_guessed_text_is_an_error():
    message = error_of(words_on_rows(**PAIRS))
    assert "row 5: 'pos' starts again (4, then 1) inside a text" in message
    assert "specify `group_by` 'item,type'" in message
    assert "`group_by` 'item'" in message, "it may be meant"


def test_a_column_that_changes_in_long_stretches_is_an_error():
    message = error_of(words_on_rows(**PAIRS).drop(columns="pos"))
    assert "row 5: 'type' changes from 'a' to 'b' inside a text" in message
    assert "specify `group_by` 'item,type'" in message


@pytest.mark.parametrize("with_positions", [True, False])
def test_a_design_with_two_factors(with_positions):
    table = words_on_rows(item=[1] * 4, gender=["m", "m", "f", "f"], number=["sg", "pl", "sg", "pl"])
    message = error_of(table if with_positions else table.drop(columns="pos"))
    assert "specify `group_by` 'item,gender,number'" in message


def test_a_column_that_says_the_same_as_another_is_not_suggested():
    table = words_on_rows(**PAIRS, code=["x", "y", "x", "y"], date=["Monday"] * 4)
    assert "specify `group_by` 'item,type'" in error_of(table)


@pytest.mark.parametrize("name", ["Bedingung", "version", "ppt", "VP", "Condition", "subject_id"])
def test_usual_names_are_recognised(name):
    table = words_on_rows(item=[1, 1, 2, 2], **{name: ["a", "b", "a", "b"]})
    assert set(read_stimuli(table).layout.group_by) == {"item", name}
    assert read_stimuli(table).layout.texts == SENTENCES


def test_readings_of_a_participant_with_another_name():
    table = words_on_rows(
        sentences=[*SENTENCES[:2], *SENTENCES[:2]], reader=["p1", "p1", "p2", "p2"], item=[1, 2, 1, 2]
    )
    message = error_of(table)
    assert "item = 1 comes again" in message
    assert "specify `group_by` 'item,reader'" in message
    by_item = table.sort_values(["item", "reader"], kind="stable", ignore_index=True)
    assert "specify `group_by` 'item,reader'" in error_of(by_item)
    assert "specify `group_by` 'item,reader'" in error_of(by_item.drop(columns="pos"))


def test_readings_sorted_by_word():
    table = words_on_rows(sentences=SENTENCES[:1] * 2, item=[1, 1], reader=["p1", "p2"])
    by_word = table.sort_values("pos", kind="stable", ignore_index=True)
    assert "'pos' is the same again (1, then 1)" in error_of(by_word)
    assert "the word 'She' is on the row before too" in error_of(by_word.drop(columns="pos"))


def test_two_texts_that_no_column_tells_apart():
    message = error_of(words_on_rows(item=[1, 1, 2, 2]))
    assert "'pos' starts again" in message
    assert "No other column tells texts apart" in message
    repeated = words_on_rows(sentences=SENTENCES[:1] * 2, item=[1, 1]).drop(columns="pos")
    assert "the same 4 words come again" in error_of(repeated)
    regions = words_on_rows(item=[1, 1, 2, 2]).drop(columns="pos").assign(region=[*"abcc", *"aabcc", *"abbcc", *"abbc"])
    assert "'region' starts again with 'a'" in error_of(regions)


def test_regions_do_not_speak_against_a_guess():
    table = words_on_rows(sentences=SENTENCES[:2], item=[1, 2]).drop(columns="pos")
    assert len(read_stimuli(table.assign(region=[*"abbb", *"aaabb"])).layout.texts) == 2
    three_words = pd.DataFrame({"item": 1, "word": "She saw the old mark again".split(), "part": [*"aaabbb"]})
    assert "'part' changes from 'a' to 'b'" in error_of(three_words)
    assert len(read_stimuli(three_words, sum_by="part").layout.texts) == 1, "it is said what the column is"


def test_words_numbered_through_a_text_confirm_it():
    """As in the Provo corpus: the sentence changes inside a text, and the words are counted on."""
    table = words_on_rows(Text_ID=[1, 1, 2, 2], Sentence_Number=[1, 2, 1, 2])
    table["pos"] = table.groupby("Text_ID").cumcount() + 1
    assert read_stimuli(table).layout.group_by == ("Text_ID",)
    both = table.assign(in_sentence=table.groupby(["Text_ID", "Sentence_Number"]).cumcount() + 1)
    assert read_stimuli(both).layout.group_by == ("Text_ID",)


def test_words_numbered_through_a_text_speak_against_its_sentences():
    table = words_on_rows(story=["a", "a", "b", "b"], sentence_id=[1, 2, 1, 2])
    table["pos"] = table.groupby("story").cumcount() + 1
    assert "'pos' goes on from one text to the next with 5" in error_of(table)


def test_the_number_of_the_row_says_nothing():
    table = words_on_rows(sentences=SENTENCES[:2], item=[1, 2]).drop(columns="pos")
    assert len(read_stimuli(table.assign(row=range(1, len(table) + 1))).layout.texts) == 2


def test_a_suggestion_is_never_the_number_of_the_word():
    message = error_of(words_on_rows(block=[1, 1, 2, 2], stim=["a", "b", "c", "d"]))
    assert "`group_by` 'stim'" in message
    message = error_of(words_on_rows())
    assert "No column of it tells texts apart" in message
    assert "'pos'" not in message


def test_what_is_specified_is_done_with_a_warning():
    table = words_on_rows(**PAIRS)
    stimuli = read_stimuli(table, group_by="item")
    assert len(stimuli.layout.texts) == 2
    assert "'pos' starts again (4, then 1) inside a text" in stimuli.warnings()[0]
    assert read_stimuli(table, group_by="item,type").warnings() == []
    story = words_on_rows(story=["a", "a", "b", "b"])
    with_position_in_story = story.assign(pos=story.groupby("story").cumcount(), in_sentence=story["pos"])
    assert read_stimuli(with_position_in_story, group_by="story").warnings() == []


def test_a_column_called_stimulus_that_holds_single_words():
    table = words_on_rows(item=[1, 2, 3, 4]).rename(columns={"word": "stimulus"})
    message = error_of(table)
    assert "column 'stimulus' holds one word on every row" in message
    assert "`word_column` 'stimulus'" in message
    assert len(read_stimuli(table, text_column="stimulus").layout.texts) == len(table)
    assert read_stimuli(table, word_column="stimulus").layout.texts == SENTENCES
    chinese = pd.DataFrame({"sentence": ["我喜欢这本书。", "他看见了标记。"]})
    assert len(read_stimuli(chinese).layout.texts) == 2


def test_a_column_of_numbers_is_no_text():
    table = words_on_rows(sentence=[1, 2, 3, 4]).rename(columns={"word": "form"})
    assert "cannot tell which column" in error_of(table)
    assert read_stimuli(table, word_column="form").layout.texts == SENTENCES


def test_python_is_told_about_guesses_too():
    table = words_on_rows(item=[1, 2, 3, 4])
    with pytest.warns(UserWarning, match="4 texts by item.*names of columns: `word_column` word `group_by` item"):
        score_table(table, "exact:bow")
    with pytest.warns(UserWarning, match="'pos' starts again"):
        score_table(words_on_rows(**PAIRS), "exact:bow", word_column="word", group_by="item")


def test_what_is_specified_in_full_gives_no_warning(recwarn):
    score_table(words_on_rows(item=[1, 2, 3, 4]), "exact:bow", word_column="word", group_by="item")
    assert not [warning for warning in recwarn if issubclass(warning.category, UserWarning)]


def test_a_long_table_is_checked_quickly():
    import time

    texts = [f"w{n} x{n} y{n} z{n}" for n in range(20_000)]
    table = words_on_rows(
        sentences=texts, item=range(20_000), kind=list(itertools.islice(itertools.cycle("ab"), 20_000))
    )
    begin = time.monotonic()
    read_stimuli(table)
    assert time.monotonic() - begin < 20
