"""Search, tags and share links, in both databases."""

from __future__ import annotations

import pytest

from radixway.chat.chats import ChatStore, ChatTags
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.message_search import MessageSearch
from radixway.chat.share_links import ShareLinks
from support.chat_house import USER, House


@pytest.fixture
async def house(database: ChatDatabase) -> House:
    return await House(database).open()


async def found(house: House, query: str) -> list[str]:
    hits = await MessageSearch(house.database).search_messages(USER, query, limit=10)
    return [hit.message.content or "" for hit in hits]


async def test_words_are_found_in_any_language_and_case(house: House) -> None:
    texts = ["A Radix Tree keeps prefixes", "基数树保存前缀", "100% of 'quotes\" and under_scores"]
    for number, text in enumerate(texts):
        await house.messages.write_question(USER, await house.chat(f"chat-{number}"), None, text)
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
    job = await house.jobs.claim_job(["q"], "me")
    assert job is not None
    await house.jobs.save_partial_answers({answer.id: "half of the zebra"})
    assert await found(house, "zebra") == []
    await house.jobs.finish_job(job.attempt_id, "the whole zebra")
    assert await found(house, "zebra") == ["the whole zebra"] and await found(house, "half") == []
    await ChatStore(house.database, house.clock).delete_chat(USER, answer.chat_id)
    assert await found(house, "zebra") == []


async def test_nobody_elses_words_are_found(house: House) -> None:
    await house.messages.write_question(USER, await house.chat(), None, "secret zebra")
    assert await MessageSearch(house.database).search_messages("mallory", "zebra", limit=10) == []


async def test_chats_are_sorted_by_tags(house: House) -> None:
    tags, chats = ChatTags(house.database), ChatStore(house.database, house.clock)
    first, second = await house.chat("a"), await house.chat("b")
    await tags.set_tags(USER, first, ["work", "trees", "work"])
    await tags.set_tags(USER, second, ["work"])
    assert await tags.tags_of_chats([first, second]) == {first: ["trees", "work"], second: ["work"]}
    assert await tags.count_tags(USER) == {"trees": 1, "work": 2}
    assert [chat.id for chat in (await chats.list_chats(USER, tag="trees")).chats] == [first]
    await tags.set_tags(USER, first, [])
    assert await tags.count_tags(USER) == {"work": 1}
    with pytest.raises(ChatNotFoundError):
        await tags.set_tags("mallory", second, ["mine"])


async def test_a_link_shows_a_thread_as_it_was_until_it_ends(house: House) -> None:
    shares = ShareLinks(house.database, house.messages, house.clock)
    answer = await house.asked()
    job = await house.jobs.claim_job(["q"], "me")
    assert job is not None
    await house.jobs.finish_job(job.attempt_id, "A tree.")
    share, token = await shares.create_link(USER, answer.chat_id, None, 60)
    await house.messages.write_question(USER, answer.chat_id, answer.id, "What I did not share")
    _, thread = await shares.open_link(token)
    assert [message.content for message in thread] == ["What is a radix tree?", "A tree."]
    house.clock.now += 61
    assert await shares.list_links(USER, answer.chat_id) == []
    with pytest.raises(ChatNotFoundError):
        await shares.open_link(token)
    share, token = await shares.create_link(USER, answer.chat_id, answer.id, None)
    with pytest.raises(ChatNotFoundError):
        await shares.revoke_link("mallory", answer.chat_id, share.id)
    await shares.revoke_link(USER, answer.chat_id, share.id)
    with pytest.raises(ChatNotFoundError):
        await shares.open_link(token)
