"""Vectors of tools: made once, kept between runs, bounded."""

import asyncio

import numpy as np
import pytest
from msgspec import Raw

from radixway.semantics.encoders import EncoderError, EncoderService
from radixway.semantics.tools import ToolDefinition, ToolProfileCache
from radixway.semantics.tools.client_tools import ClientToolIndexes


class Counting:
    """The real encoder, and what it was asked."""

    def __init__(self, encoder):
        self._encoder = encoder
        self.texts = []

    def __getattr__(self, name):
        return getattr(self._encoder, name)

    def encode_steps(self, text, *, layers=()):
        self.texts.append(text)
        return self._encoder.encode_steps(text, layers=layers)


@pytest.fixture
def counting(minilm):
    return Counting(minilm)


@pytest.fixture
async def service(counting):
    service = EncoderService(lambda: counting)
    yield service
    await service.aclose()


def tool(name, description="It does something", *examples):
    return ToolDefinition(name, Raw(b"{}"), description, examples=examples)


async def test_a_tool_is_read_once(service, counting):
    profiles = ToolProfileCache(service)
    first = await profiles.profiles_for([tool("f", "One. And two, three")])
    asked = list(counting.texts)
    assert asked == ["One. And two, three", "f", "And two", "three"]
    again = await profiles.profiles_for([tool("f", "One. And two, three")])
    assert counting.texts == asked and again[0] is first[0]
    profiles.check()


async def test_the_latest_used_are_kept(service, counting):
    profiles = ToolProfileCache(service, max_tools=2)
    await profiles.profiles_for([tool("a"), tool("b"), tool("a"), tool("c"), tool("a")])
    profiles.check()
    assert counting.texts.count("a") == 1
    await profiles.profiles_for([tool("b")])
    assert counting.texts.count("b") == 2


async def test_a_database_is_read_from_the_file_of_an_earlier_run(service, counting, tmp_path):
    tools = [tool("a", "Alpha. Beta gamma", "do a", "and a"), tool("b")]
    made = await ToolProfileCache(service, home=tmp_path).database_profiles(tools, tmp_path / "db.json")
    counting.texts.clear()
    found = await ToolProfileCache(service, home=tmp_path).database_profiles(tools, tmp_path / "db.json")
    assert counting.texts == []
    for one, other in zip(made, found, strict=True):
        assert np.array_equal(one.clauses, other.clauses) and np.array_equal(one.name, other.name)
    assert np.array_equal(made[0].examples, found[0].examples) and found[1].examples is None
    await ToolProfileCache(service, home=tmp_path).database_profiles(
        [*tools, tool("c")], tmp_path / "db.json"
    )
    assert set(counting.texts) == {"c", "It does something"}


async def test_a_file_that_is_broken_is_made_anew(service, counting, tmp_path, caplog):
    await ToolProfileCache(service, home=tmp_path).database_profiles([tool("a")], tmp_path / "db.json")
    file = next(tmp_path.glob("tools-*.npz"))
    file.write_bytes(file.read_bytes()[:-100])
    counting.texts.clear()
    await ToolProfileCache(service, home=tmp_path).database_profiles([tool("a")], tmp_path / "db.json")
    assert counting.texts and "rebuilding" in caplog.text


async def test_a_home_that_cannot_be_written_is_no_failure(service, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    found = await ToolProfileCache(service, home=tmp_path / "file").database_profiles(
        [tool("a")], tmp_path / "db.json"
    )
    assert len(found) == 1 and "again at every start" in caplog.text


async def test_lists_are_read_once_shared_by_who_waits_and_bounded(service, counting):
    lists = ClientToolIndexes(ToolProfileCache(service), max_tools=3)
    first, second = await asyncio.gather(*(lists.find_index([tool("a"), tool("b")], 60) for _ in range(2)))
    assert first is second and counting.texts.count("a") == 1
    await lists.find_index([tool("c"), tool("d")], 60)
    lists.check()
    assert await lists.find_index([tool("a"), tool("b")], 60) is not first
    assert await lists.find_index([tool(name) for name in "abcd"], 60) is None
    counting.texts.clear()
    assert await lists.find_index([tool("word " * 100_000)], 60) is None
    assert await lists.find_index([tool("e", "word " * 100_000)], 60) is None
    assert counting.texts == []
    await lists.cancel_builds()


async def test_a_list_whose_reading_fails_can_be_read_later(minilm):
    closed = EncoderService(lambda: minilm)
    closed.close()
    lists = ClientToolIndexes(ToolProfileCache(closed))
    for _ in range(2):
        with pytest.raises(EncoderError):
            await lists.find_index([tool("a")], 60)
    lists.check()
    await lists.cancel_builds()
