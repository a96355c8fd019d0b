"""Search, tags and share links, in both databases."""

from __future__ import annotations

import pytest

from chat_house import USER, House
from radixway.chat.chats import Chats
from radixway.chat.database import Database
from radixway.chat.errors import NotFound
from radixway.chat.search import Search
from radixway.chat.shares import Shares
from radixway.chat.tags import Tags


@pytest.fixture
async def house(database: Database) -> House:
    return await House(database).open()


async def found(house: House, query: str) -> list[str]:
    hits = await Search(house.database).find(USER, query, limit=10)
    return [hit.message.content or "" for hit in hits]


async def test_words_are_found_in_any_language_and_case(house: House) -> None:
    texts = ["A Radix Tree keeps prefixes", "基数树保存前缀", "100% of 'quotes\" and under_scores"]
    for number, text in enumerate(texts):
        await house.messages.ask(USER, await house.chat(f"chat-{number}"), None, text)
    for query, expected in (
        ("radix", texts[:1]),
        ("prefixes tree", texts[:1]),
        ("refix", texts[:1]),
        ("前缀", texts[1:2]),
        ("基数树", texts[1:2]),
        ("树", texts[1:2]),
        ("100%", texts[2:]),
        ("'quotes\"", texts[2:]),
        ("r_s", texts[2:]),
        ("x_e", []),
        ("radix 前缀", []),
        ("NEAR(", []),
    ):
        assert await found(house, query) == expected, query


async def test_an_answer_is_found_when_it_has_ended_and_not_when_it_is_gone(house: House) -> None:
    answer = await house.asked()
    job = await house.jobs.claim(["q"], "me")
    assert job is not None
    await house.jobs.keep({answer.id: "half of the zebra"})
    assert await found(house, "zebra") == []
    await house.jobs.finish(job.attempt_id, "the whole zebra")
    assert await found(house, "zebra") == ["the whole zebra"] and await found(house, "half") == []
    await Chats(house.database, house.clock).delete(USER, answer.chat_id)
    assert await found(house, "zebra") == []


async def test_nobody_elses_words_are_found(house: House) -> None:
    await house.messages.ask(USER, await house.chat(), None, "secret zebra")
    assert await Search(house.database).find("mallory", "zebra", limit=10) == []


async def test_chats_are_sorted_by_tags(house: House) -> None:
    tags, chats = Tags(house.database), Chats(house.database, house.clock)
    first, second = await house.chat("a"), await house.chat("b")
    await tags.put(USER, first, ["work", "trees", "work"])
    await tags.put(USER, second, ["work"])
    assert await tags.of([first, second]) == {first: ["trees", "work"], second: ["work"]}
    assert await tags.counts(USER) == {"trees": 1, "work": 2}
    assert [chat.id for chat in (await chats.page(USER, tag="trees")).chats] == [first]
    await tags.put(USER, first, [])
    assert await tags.counts(USER) == {"work": 1}
    with pytest.raises(NotFound):
        await tags.put("mallory", second, ["mine"])


async def test_a_link_shows_a_thread_as_it_was_until_it_ends(house: House) -> None:
    shares = Shares(house.database, house.messages, house.clock)
    answer = await house.asked()
    job = await house.jobs.claim(["q"], "me")
    assert job is not None
    await house.jobs.finish(job.attempt_id, "A tree.")
    share, token = await shares.share(USER, answer.chat_id, None, 60)
    await house.messages.ask(USER, answer.chat_id, answer.id, "What I did not share")
    _, thread = await shares.open(token)
    assert [message.content for message in thread] == ["What is a radix tree?", "A tree."]
    house.clock.now += 61
    assert await shares.of_chat(USER, answer.chat_id) == []
    with pytest.raises(NotFound):
        await shares.open(token)
    share, token = await shares.share(USER, answer.chat_id, answer.id, None)
    with pytest.raises(NotFound):
        await shares.revoke("mallory", answer.chat_id, share.id)
    await shares.revoke(USER, answer.chat_id, share.id)
    with pytest.raises(NotFound):
        await shares.open(token)
