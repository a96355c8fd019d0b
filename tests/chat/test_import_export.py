"""Chats as JSON lines: out of a database and in again."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from radixway.chat.chats import ChatStore, ChatTags
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import InvalidFieldError
from radixway.chat.import_export import (
    ChatImporter,
    ChatLine,
    MessageLine,
    PortableChat,
    encode_chat,
    parse_chats,
    to_portable_chat,
)
from radixway.chat.limits import ChatLimits
from support.chat_house import USER, House

CHAT: dict[str, Any] = {"type": "chat", "id": "c", "created_at": 1.0, "modified_at": 2.0}
ASKED = {
    "type": "message",
    "id": "1",
    "role": "prompter",
    "state": "manual",
    "content": "hi",
    "created_at": 1.0,
}
ANSWERED = {"type": "message", "id": "2", "parent_id": "1", "role": "assistant", "state": "complete"}
ANSWERED |= {"content": "ho", "created_at": 1.5}


def random_chat(random: Random) -> PortableChat:
    """A tree of messages with odd texts."""
    messages: dict[str, MessageLine] = {}
    for number in range(random.randrange(12)):
        parents = [None, *messages] if random.random() < 0.3 else [*messages][-2:] or [None]
        parent = random.choice(parents)
        by_user = parent is None or messages[parent].role == "assistant"
        state = "manual" if by_user else random.choice(["complete", "cancelled", "timeout"])
        messages[f"m{number}"] = MessageLine(
            id=f"m{number}",
            parent_id=parent,
            role="prompter" if by_user else "assistant",
            state=state,
            content="".join(random.choices('aé树\n\r\t"\\\u2028🦓 ', k=random.randrange(1, 9))),
            created_at=random.random() * 1e9,
            score=random.randrange(-1, 2),
            usage=None if by_user else {"completion_tokens": number},
        )
    tail = random.choice([None, *messages])
    tags = sorted({random.choice("abc") for _ in range(random.randrange(3))})
    return PortableChat(
        ChatLine(id="c", title="标题", created_at=1.5, modified_at=2.5, tags=tags, tail_id=tail), messages
    )


def without_ids(chat: PortableChat) -> list[Any]:
    """What has the same place in the file has the same name."""
    names = {message_id: place for place, message_id in enumerate(chat.messages)}
    lines = [json.loads(line) for line in encode_chat(chat).splitlines()]
    for line in lines:
        line["id"] = names.get(line["id"])
        for field in ("parent_id", "tail_id"):
            if line.get(field) is not None:
                line[field] = names[line[field]]
    return lines


async def test_what_is_taken_in_comes_out_as_it_was(database: ChatDatabase) -> None:
    house, random = await House(database).open(), Random(7)
    given = [random_chat(random) for _ in range(25)]
    ids = await ChatImporter(database, ChatLimits()).import_chats(
        USER, b"".join(encode_chat(chat) for chat in given)
    )
    tags = await ChatTags(database).tags_of_chats(ids)
    for chat_id, before in zip(ids, given, strict=True):
        chat = await ChatStore(database, house.clock).find_chat(USER, chat_id)
        after = to_portable_chat(chat, tags[chat_id], await house.messages.list_messages(USER, chat_id))
        assert without_ids(after) == without_ids(before)
        assert not set(after.messages) & set(before.messages)


async def test_an_answer_under_way_is_not_taken_along(database: ChatDatabase) -> None:
    house = await House(database).open()
    answer = await house.asked()
    chat = await ChatStore(database, house.clock).find_chat(USER, answer.chat_id)
    taken = to_portable_chat(chat, [], await house.messages.list_messages(USER, chat.id))
    assert [message.role for message in taken.messages.values()] == ["prompter"]
    assert taken.chat.tail_id is None


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ([ASKED], "line 1"),
        ([CHAT, ASKED | {"role": "system"}], "line 2.role"),
        ([CHAT, ASKED | {"state": "pending"}], "line 2.state"),
        ([CHAT, ASKED | {"state": "complete"}], "line 2.state"),
        ([CHAT, ASKED | {"content": None}], "line 2.content"),
        ([CHAT, ASKED | {"usage": {"tokens": float("nan")}}], "line 2.usage"),
        ([CHAT, ASKED | {"content": "a\x00b"}], "line 2"),
        ([CHAT, ASKED | {"content": "12345678901"}], "line 2.content"),
        ([CHAT, ANSWERED], "line 2.parent_id"),
        ([CHAT, ANSWERED | {"parent_id": None}], "line 2.parent_id"),
        ([CHAT, ASKED, ASKED], "line 3.id"),
        ([CHAT, ASKED, ASKED | {"id": "2", "parent_id": "1"}], "line 3.parent_id"),
        ([CHAT, ASKED, ANSWERED, ASKED | {"id": "3", "parent_id": "2"}], "line 4"),
        ([CHAT | {"tail_id": "9"}, ASKED], "tail_id"),
        ([{"type": "other"}], "line 1"),
    ],
)
def test_what_cannot_be_taken_in_names_its_line(lines: list[Any], field: str) -> None:
    data = "\n".join(json.dumps(line) for line in lines).encode()
    with pytest.raises(InvalidFieldError) as refused:
        parse_chats(data, ChatLimits(characters=10, messages=3), max_messages=2)
    assert refused.value.field == field


def test_text_that_tells_of_a_nul_character_is_none() -> None:
    spelt = ASKED | {"content": r"In JSON it is written \u0000."}
    lines = b"\n".join(json.dumps(line).encode() for line in (CHAT, spelt))
    (chat,) = parse_chats(lines, ChatLimits(), max_messages=9)
    assert parse_chats(encode_chat(chat), ChatLimits(), max_messages=9) == [chat]
    for odd in (ASKED | {"content": "\0"}, ASKED | {"usage": {"a": ["\0"]}}, ASKED | {"usage": {"\0": 1}}):
        with pytest.raises(InvalidFieldError, match="NUL"):
            parse_chats(
                b"\n".join(json.dumps(line).encode() for line in (CHAT, odd)), ChatLimits(), max_messages=9
            )
