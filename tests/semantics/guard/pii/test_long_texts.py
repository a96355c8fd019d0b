"""Long texts, of which the encoder reads only what leaves doubt."""

import asyncio

import pytest

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.encoders import EncoderService, encode_once
from radixway.semantics.guard.pii.finder import DefaultPersonalDataFinder, HeadFinder
from radixway.semantics.guard.pii.pii_head import (
    LAYERS,
    MAX_READ_STRETCHES,
    PII_HEAD,
    STRETCH,
    most_doubtful_stretches,
)

pytestmark = pytest.mark.asyncio

FILLER = "The meeting was moved because the room is too small for the whole group.\n"
LONG = f"{FILLER * 40}Please call my colleague Maria Lopez about it.\n{FILLER * 40}"
FROM = 2000


@pytest.fixture
async def encoders(one_encoder):
    service = EncoderService(lambda: one_encoder)
    yield service
    await service.aclose()


@pytest.fixture
def windows(one_encoder, monkeypatch):
    """Ids of every window that the encoder reads."""
    read = []
    run = type(one_encoder._backbone).run_window

    def noting(self, ids, layers):
        read.append(len(ids))
        return run(self, ids, layers)

    monkeypatch.setattr(type(one_encoder._backbone), "run_window", noting)
    return read


def people(found, text):
    sure = [each for each in found if each.type == "PERSON" and each.confidence >= 0.7]
    return [text[each.begin : each.end] for each in sure]


async def test_a_name_in_a_long_text_is_found_without_reading_all_of_it(encoders, windows):
    found = await DefaultPersonalDataFinder(encoders, in_part_from=FROM).find(LONG)
    assert people(found, LONG) == ["Maria Lopez"]
    assert len(windows) <= 2


async def test_no_more_is_read_however_many_doubts_there_are(encoders, windows):
    doubts = "The Green House wanted Grace, Hope and May to march in Reading, Nice and Mobile.\n" * 300
    await DefaultPersonalDataFinder(encoders, in_part_from=FROM).find(doubts)
    assert len(windows) <= MAX_READ_STRETCHES


async def test_short_texts_are_read_whole_as_before(encoders, windows):
    text = "I'm Maria Lopez, mail me at maria.lopez@example.com"
    assert list(await DefaultPersonalDataFinder(encoders, in_part_from=FROM).find(text)) == list(
        await DefaultPersonalDataFinder(encoders).find(text)
    )
    assert len(windows) == 2


async def test_where_others_have_all_of_it_read_already_that_is_shared(encoders, windows):
    with encode_once(encoders, LAYERS):
        await encoders.encode(LONG)
        before = len(windows)
        found = await DefaultPersonalDataFinder(encoders, in_part_from=FROM).find(LONG)
    assert people(found, LONG) == ["Maria Lopez"]
    assert len(windows) == before


async def test_others_go_on_between_the_windows_of_a_long_text(encoders):
    finder = DefaultPersonalDataFinder(encoders, in_part_from=FROM)
    await finder.find(LONG)
    ended = []

    async def find(text):
        await finder.find(text)
        ended.append(text)

    text, short = LONG * 3, "I am Anna Kowalska"
    await asyncio.gather(find(text), find(short))
    assert ended == [short, text]


async def test_positions_are_those_in_the_text_where_it_is_read_in_parts(encoders, monkeypatch):
    monkeypatch.setattr("radixway.semantics.guard.pii.finder.SHARED_CHARACTERS", 1000)
    found = await DefaultPersonalDataFinder(encoders, in_part_from=FROM).find(LONG)
    assert people(found, LONG) == ["Maria Lopez"]


async def test_a_damaged_head_of_words_leaves_the_whole_pass_and_is_told_once(encoders, tmp_path, caplog):
    (tmp_path / "damaged.npz").write_bytes(b"nothing")
    finder = HeadFinder(encoders, PII_HEAD, in_part_from=FROM, words_path=tmp_path / "damaged.npz")
    for _ in range(2):
        assert people(await finder.find_soft_types(LONG), LONG) == ["Maria Lopez"]
    assert sum("long texts are encoded in full" in record.message for record in caplog.records) == 1


async def test_the_stretches_with_most_doubt_are_read(one_encoder):
    text = "word " * 4000
    (pieces,) = [_run(one_encoder.split_pieces(text))]
    at = [pieces.offsets[stretch * STRETCH + 5, 0] for stretch in range(16)]
    found = [PersonalDataSpan("PERSON", int(begin), int(begin) + 4, 0.99) for begin in at]
    assert most_doubtful_stretches(found, pieces) == []
    found[3] = PersonalDataSpan("PERSON", int(at[3]), int(at[3]) + 4, 0.5)
    assert most_doubtful_stretches(found, pieces) == [3]
    unsure = [PersonalDataSpan("PERSON", int(begin), int(begin) + 4, 0.6) for begin in at]
    assert len(most_doubtful_stretches(unsure, pieces)) == MAX_READ_STRETCHES
    assert most_doubtful_stretches([], pieces) == []


def _run(steps):
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
