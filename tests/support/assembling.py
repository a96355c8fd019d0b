"""Clients that put streams together again, and complain of every event that is out of place."""

from __future__ import annotations

import json
from typing import Any


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream, `[DONE]` apart; a named event is named for its type."""
    assert stream.endswith(b"\n\n")
    events = []
    for written in stream.decode().removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in written.split("\n"))
        if fields["data"] != "[DONE]":
            events.append(json.loads(fields["data"]))
            assert fields.get("event") in (None, events[-1].get("type"))
    return events


def chat_message(events: list[dict[str, Any]]) -> tuple[dict[str, Any], str, list[Any], list[int]]:
    """The message, its finish reason, the log-probabilities and ids of its tokens."""
    message: dict[str, Any] = {"content": ""}
    finish, scores, ids = None, [], []
    for event in events:
        choice = event["choices"][0]
        assert finish is None
        finish = choice["finish_reason"]
        scores += (choice["logprobs"] or {"content": []})["content"]
        ids += choice.get("token_ids", [])
        for name, more in choice["delta"].items():
            if name == "tool_calls":
                _add_calls(message.setdefault("tool_calls", []), more)
            else:
                message[name] = message.get(name, "") + more
    if message.get("tool_calls") and not message["content"]:
        message["content"] = None
    return message, finish, scores, ids


def _add_calls(calls: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    for delta in more:
        index, function = delta["index"], delta["function"]
        if "id" in delta:
            assert index == len(calls)
            calls.append({"id": delta["id"], "type": delta["type"], "function": function})
        else:
            assert function["arguments"]
            calls[index]["function"]["arguments"] += function["arguments"]


def response_output(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The output items as their deltas add up, which is as `done` events and the last event tell them."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    output: list[dict[str, Any]] = []
    text, open_index = "", None
    for event in events[2:-1]:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert (event["output_index"], open_index) == (len(output), None)
            open_index, text = len(output), ""
            output.append(event["item"])
            continue
        assert event["output_index"] == open_index
        assert event.get("item_id", output[-1]["id"]) == output[-1]["id"]
        if kind.endswith(".delta"):
            assert event["delta"]
            text += event["delta"]
        elif kind.endswith(("text.done", "arguments.done")):
            assert event["arguments" if kind.startswith("function") else "text"] == text
        elif kind == "content_part.done":
            assert event["part"]["text"] == text
        elif kind == "output_item.done":
            output[-1] = event["item"]
            told = output[-1]["content"][0]["text"] if "content" in output[-1] else output[-1]["arguments"]
            assert told == text
            open_index = None
    assert open_index is None
    assert events[-1]["response"]["output"] == output
    return output


def anthropic_message(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message as its deltas add up."""
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    message = events[0]["message"]
    arguments, open_index = "", None
    for event in events[1:-2]:
        kind, index = event["type"], event["index"]
        if kind == "content_block_start":
            assert (index, open_index) == (len(message["content"]), None)
            message["content"].append(event["content_block"])
            open_index, arguments = index, ""
            continue
        assert index == open_index
        block = message["content"][index]
        if kind == "content_block_stop":
            open_index = None
            if block["type"] == "tool_use":
                block["input"] = json.loads(arguments)
            continue
        match event["delta"]:
            case {"type": "input_json_delta", "partial_json": text}:
                arguments += text
            case {"type": "signature_delta", "signature": text}:
                block["signature"] = text
            case {"type": "text_delta", "text": text}:
                block["text"] += text
            case {"type": "thinking_delta", "thinking": text}:
                block["thinking"] += text
    assert open_index is None
    message.update(events[-2]["delta"])
    message["usage"].update(events[-2]["usage"])
    return message
