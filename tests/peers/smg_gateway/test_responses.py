"""SMG's cases of responses and conversations: state, background, events, sampling, formats and tools."""

from __future__ import annotations

import json
import time

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
FOLDER = "e2e_test/responses"
STATE = f"{FOLDER}/test_state_management.py"
CRUD = f"{FOLDER}/test_basic_crud.py"
BACKGROUND = f"{FOLDER}/test_background.py"
EVENTS = f"{FOLDER}/test_streaming_events.py"
SAMPLING = f"{FOLDER}/test_sampling_params.py"
FORMAT = f"{FOLDER}/test_structured_output.py"
TOOLS = f"{FOLDER}/test_tools_call.py"
EFFORT = f"{FOLDER}/test_reasoning_effort.py"
VALIDATION = f"{FOLDER}/test_validation.py"
LOGPROBS = f"{FOLDER}/test_logprobs.py"
SHORT = {"model": MODEL, "max_output_tokens": 50}


def check_done(response) -> None:
    assert response.id and response.error is None
    assert response.status == "completed"
    assert response.output_text


@ported(STATE, "TestStateManagementLocal::test_basic_response_creation")
def test_a_response_is_whole(api: openai.OpenAI):
    response = api.responses.create(model=MODEL, input="What is 2+2?")
    check_done(response)
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@ported(STATE, "TestStateManagementLocal::test_streaming_response")
def test_a_streamed_response_is_created_and_completed(api: openai.OpenAI):
    kinds = [event.type for event in api.responses.create(**SHORT, input="What is 2+2?", stream=True)]
    assert kinds.count("response.created") == 1
    assert "response.completed" in kinds


@ported(STATE, "TestStateManagementLocal::test_previous_response_id_chaining")
def test_a_response_goes_on_from_another(api: openai.OpenAI):
    first = api.responses.create(model=MODEL, input="My name is Alice.")
    second = api.responses.create(model=MODEL, input="What is my name?", previous_response_id=first.id)
    third = api.responses.create(model=MODEL, input="What is my name?", previous_response_id=second.id)
    for response in (first, second, third):
        check_done(response)
    assert "Alice" in second.output_text and "Alice" in third.output_text
    sizes = [response.usage.input_tokens for response in (first, second, third)]
    assert sizes == sorted(set(sizes)), "each is asked with all that was said before"


@ported(STATE, "TestStateManagementLocal::test_previous_response_id_invalid")
def test_an_unknown_previous_response_is_refused(api: openai.OpenAI):
    with pytest.raises(openai.BadRequestError):
        api.responses.create(**SHORT, input="Test", previous_response_id="resp_invalid123")


@ported(STATE, "TestStateManagementLocal::test_store_false_not_retrievable")
def test_a_response_that_is_not_kept_cannot_be_read(api: openai.OpenAI):
    response = api.responses.create(model=MODEL, input="Hello", store=False)
    assert response.id and response.status == "completed"
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(response.id)


@ported(STATE, "TestStateManagementLocal::test_store_false_previous_response_id_rejected")
def test_nothing_goes_on_from_a_response_that_is_not_kept(api: openai.OpenAI):
    response = api.responses.create(model=MODEL, input="Hello", store=False)
    with pytest.raises(openai.BadRequestError):
        api.responses.create(model=MODEL, input="Hi", previous_response_id=response.id)


@ported(STATE, "TestStateManagementLocal::test_mutually_exclusive_parameters")
def test_a_conversation_and_a_previous_response_exclude_each_other(api: openai.OpenAI):
    first = api.responses.create(model=MODEL, input="Hello")
    with pytest.raises(openai.BadRequestError):
        api.responses.create(model=MODEL, input="Hi", previous_response_id=first.id, conversation="conv_123")


@ported(STATE, "TestStateManagementCloud::test_conversation_with_multiple_turns")
def test_a_conversation_has_its_turns(api: openai.OpenAI):
    conversation = api.conversations.create(metadata={"topic": "names"})
    assert conversation.id and conversation.created_at
    answers = [
        api.responses.create(model=MODEL, input=text, conversation=conversation.id)
        for text in ("My name is Alice.", "What is my name?", "What is my name?")
    ]
    for answer in answers:
        check_done(answer)
    assert all("Alice" in answer.output_text for answer in answers[1:])
    sizes = [answer.usage.input_tokens for answer in answers]
    assert sizes == sorted(set(sizes))
    assert len(api.conversations.items.list(conversation.id).data) >= 6


@ported(STATE, "TestStateManagementCloud::test_store_false_conversation_no_items")
def test_a_response_that_is_not_kept_adds_nothing_to_its_conversation(api: openai.OpenAI):
    conversation = api.conversations.create(metadata={"test": "store_false"})
    response = api.responses.create(model=MODEL, input="Hello", store=False, conversation=conversation.id)
    assert response.status == "completed"
    assert api.conversations.items.list(conversation.id).data == []


@ported(CRUD, "TestResponseCRUD::test_create_and_get_response")
def test_a_response_is_read_again(api: openai.OpenAI):
    made = api.responses.create(model=MODEL, input="Hello!")
    check_done(made)
    found = api.responses.retrieve(made.id)
    assert (found.id, found.status, found.error) == (made.id, "completed", None)
    assert api.responses.input_items.list(made.id).data


@ported(CRUD, "TestResponseCRUD::test_delete_response")
def test_a_deleted_response_is_gone(api: openai.OpenAI):
    made = api.responses.create(model=MODEL, input="Hello!")
    check_done(made)
    api.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(made.id)


@ported(CRUD, "TestConversationCRUD::test_create_and_get_conversation")
def test_a_conversation_is_read_again(api: openai.OpenAI):
    made = api.conversations.create(metadata={"user": "test_user"})
    found = api.conversations.retrieve(made.id)
    assert found.id == made.id and found.created_at
    assert made.metadata["user"] == found.metadata["user"] == "test_user"


@ported(CRUD, "TestConversationCRUD::test_update_conversation")
def test_a_conversations_metadata_is_changed(api: openai.OpenAI):
    made = api.conversations.create(metadata={"key1": "value1"})
    assert "key2" not in made.metadata
    both = {"key1": "value1", "key2": "value2"}
    assert api.conversations.update(made.id, metadata=both).metadata == both
    assert api.conversations.retrieve(made.id).metadata == both


@ported(CRUD, "TestConversationCRUD::test_delete_conversation")
def test_a_deleted_conversation_is_gone(api: openai.OpenAI):
    made = api.conversations.create()
    deleted = api.conversations.delete(made.id)
    assert deleted.id and deleted.deleted
    with pytest.raises(openai.NotFoundError):
        api.conversations.retrieve(made.id)


@ported(CRUD, "TestConversationCRUD::test_list_conversation_items")
def test_a_conversations_items_are_listed(api: openai.OpenAI):
    made = api.conversations.create()
    for text in ("Hello", "Hi"):
        assert api.responses.create(**SHORT, input=text, conversation=made.id).error is None
    assert len(api.conversations.items.list(made.id).data) >= 4


def poll(api: openai.OpenAI, response_id: str):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        response = api.responses.retrieve(response_id)
        assert response.id == response_id
        if response.status in ("completed", "incomplete", "failed", "cancelled"):
            return response
        time.sleep(0.1)
    raise TimeoutError(response_id)


STORY = "Tell me a long story about a dragon."


@ported(BACKGROUND, "TestBackgroundResponsesLocal::test_background_response_is_queued_then_completes")
def test_a_background_response_is_queued_and_then_there(api: openai.OpenAI):
    made = api.responses.create(model=MODEL, input=STORY, background=True, max_output_tokens=64)
    assert made.id and made.error is None
    assert made.status in ("queued", "in_progress") and made.background is True
    assert made.output == [] and made.usage is None
    final = poll(api, made.id)
    assert final.status in ("completed", "incomplete"), final.error
    assert final.background is True and final.output_text
    assert final.usage.output_tokens > 0 and final.completed_at > 0
    assert api.responses.input_items.list(made.id).data


def begin_long(api: openai.OpenAI):
    made = api.responses.create(
        model=MODEL,
        input=STORY,
        background=True,
        max_output_tokens=4096,
        extra_body={"ignore_eos": True},
    )
    assert made.status in ("queued", "in_progress")
    return made


@ported(BACKGROUND, "TestBackgroundResponsesLocal::test_cancel_stops_a_running_background_response")
def test_a_background_response_is_cancelled(api: openai.OpenAI):
    made = begin_long(api)
    cancelled = api.responses.cancel(made.id)
    assert (cancelled.id, cancelled.status, cancelled.background) == (made.id, "cancelled", True)
    assert cancelled.completed_at is not None and cancelled.completed_at > 0
    assert api.responses.retrieve(made.id).status == "cancelled"
    assert api.responses.cancel(made.id).status == "cancelled"


@ported(BACKGROUND, "TestBackgroundResponsesLocal::test_background_stream_starts_with_queued")
def test_a_background_stream_begins_with_queued(api: openai.OpenAI):
    events = list(
        api.responses.create(
            model=MODEL, input="Count from 1 to 20.", background=True, stream=True, max_output_tokens=32
        )
    )
    kinds = [event.type for event in events]
    assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert events[0].response.status == "queued" and events[0].response.background is True
    assert kinds[-1] in ("response.completed", "response.incomplete")
    made, final = events[0].response, events[-1].response
    assert final.id == made.id
    kept = api.responses.retrieve(made.id)
    assert kept.status == final.status and kept.background is True


@ported(BACKGROUND, "TestBackgroundResponsesRawLocal::test_background_requires_store")
def test_a_background_response_has_to_be_kept(wire: httpx.Client):
    body = {"model": MODEL, "input": "hi", "background": True, "store": False}
    answer = wire.post("/v1/responses", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "store" in answer.json()["error"]["message"]


@ported(BACKGROUND, "TestBackgroundResponsesRawLocal::test_cancel_of_a_finished_response_is_refused")
def test_a_finished_response_cannot_be_cancelled(wire: httpx.Client):
    made = wire.post("/v1/responses", json={"model": MODEL, "input": "hi", "max_output_tokens": 16}).json()
    assert made["status"] in ("completed", "incomplete") and made["background"] is False
    refused = wire.post(f"/v1/responses/{made['id']}/cancel", json={})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "response_already_completed"


@ported(EVENTS, "TestStreamingEventsLocal::test_output_item_event_emitted")
def test_output_items_are_numbered_from_zero(api: openai.OpenAI):
    events = list(api.responses.create(**SHORT, input="Hello!", stream=True))
    added = [event for event in events if event.type == "response.output_item.added"]
    assert [event.output_index for event in added] == list(range(len(added))) and added
    done = [event for event in events if event.type == "response.output_item.done"]
    assert done and all(event.item.type and event.output_index is not None for event in done)
    (completed,) = [event for event in events if event.type == "response.completed"]
    assert len(completed.response.output) == len(added)
    assert all(item.type for item in completed.response.output)


EVERYTHING = {
    "top_k": 40,
    "min_p": 0.05,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.3,
    "repetition_penalty": 1.1,
}


def check_sampled(response) -> None:
    assert response.status == "completed" and response.error is None
    assert response.output and response.usage.output_tokens > 0
    assert response.temperature == pytest.approx(0.5)
    assert response.top_p == pytest.approx(0.9, abs=1e-4)


@ported(SAMPLING, "TestSamplingParamsLocal::test_all_sampling_params_accepted")
def test_sampling_parameters_are_taken_and_told(api: openai.OpenAI):
    response = api.responses.create(
        model=MODEL,
        input="What is 2+2?",
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=256,
        extra_body=EVERYTHING,
    )
    check_sampled(response)
    assert response.max_output_tokens == 256


@ported(SAMPLING, "TestSamplingParamsLocal::test_temperature_zero_is_deterministic")
def test_without_temperature_an_answer_is_always_the_same(api: openai.OpenAI):
    fields = {"model": MODEL, "input": "Hello!", "temperature": 0, "max_output_tokens": 32}
    first, second = api.responses.create(**fields), api.responses.create(**fields)
    assert first.status == second.status == "completed"
    assert first.output_text == second.output_text


@ported(SAMPLING, "TestSamplingParamsLocal::test_sampling_params_streaming")
def test_sampling_parameters_are_taken_in_a_stream(api: openai.OpenAI):
    stream = api.responses.create(
        model=MODEL,
        input="Say hello.",
        stream=True,
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=256,
        extra_body=EVERYTHING,
    )
    (completed,) = [event for event in stream if event.type == "response.completed"]
    check_sampled(completed.response)


@ported(FORMAT, "TestSimpleSchemaStructuredOutput::test_structured_output_json_schema")
def test_a_schema_is_followed_and_told(api: openai.OpenAI):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    form = {"type": "json_schema", "name": "math_answer", "schema": schema}
    messages = [
        {"role": "system", "content": "Return only a JSON object that matches the schema."},
        {"role": "user", "content": "What is 1 + 1?"},
    ]
    response = api.responses.create(model=MODEL, input=messages, text={"format": form})
    assert response.id and response.error is None
    told = response.text.format
    assert (told.type, told.name) == ("json_schema", "math_answer") and told.schema_ is not None
    assert json.loads(response.output_text)["answer"]


@ported(FORMAT, "TestStructuredOutputHarmony::test_structured_output_json_schema")
def test_a_nested_schema_is_followed_and_told(api: openai.OpenAI):
    text = {"type": "string"}
    step = {
        "type": "object",
        "properties": {"explanation": text, "output": text},
        "required": ["explanation", "output"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {"steps": {"type": "array", "items": step, "minItems": 1}, "final_answer": text},
        "required": ["steps", "final_answer"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "name": "math_reasoning", "schema": schema, "strict": True}
    response = api.responses.create(
        model=MODEL, input="how can I solve 8x + 7 = -23", text={"format": form}, temperature=0.8
    )
    assert response.id and response.error is None
    told = response.text.format
    assert (told.type, told.name, told.strict) == ("json_schema", "math_reasoning", True) and told.schema_
    answer = json.loads(response.output_text)
    assert answer["steps"] and "final_answer" in answer
    assert all({"explanation", "output"} <= set(each) for each in answer["steps"])


def function(name: str, argument: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "name": name, "description": f"Use {name}.", "parameters": schema}


WEATHER, SEARCH = function("get_weather", "location"), function("search_web", "query")
PLACE = "What is the weather in San Francisco, CA?"


def calls_of(response):
    assert response.id and response.error is None
    return [item for item in response.output if item.type == "function_call"]


@ported(TOOLS, "TestToolChoiceLocal::test_tool_choice_auto")
def test_the_model_may_call_a_function(api: openai.OpenAI):
    assert calls_of(api.responses.create(model=MODEL, input=PLACE, tools=[WEATHER], tool_choice="auto"))


@ported(TOOLS, "TestToolChoiceLocal::test_tool_choice_required")
def test_the_model_must_call_a_function(api: openai.OpenAI):
    tools = [function("calculate", "expression")]
    asked = {"model": MODEL, "input": "What is 15 * 23?", "tools": tools, "tool_choice": "required"}
    assert calls_of(api.responses.create(**asked))


@ported(TOOLS, "TestToolChoiceLocal::test_tool_choice_specific_function")
def test_the_model_must_call_one_function(api: openai.OpenAI):
    response = api.responses.create(
        model=MODEL,
        input="What's happening in the news today?",
        tools=[SEARCH, WEATHER],
        tool_choice={"type": "function", "function": {"name": "search_web"}},
    )
    assert calls_of(response)[0].name == "search_web"


@ported(TOOLS, "TestToolCallingHarmony::test_basic_function_call")
def test_a_functions_output_is_answered(api: openai.OpenAI):
    asked = [{"role": "system", "content": "Call functions."}, {"role": "user", "content": PLACE}]
    first = api.responses.create(model=MODEL, input=asked, tools=[WEATHER], temperature=0)
    assert first.status == "completed"
    call = calls_of(first)[0]
    assert call.call_id and call.name == "get_weather"
    assert "san francisco" in json.loads(call.arguments)["location"].lower()
    output = {"type": "function_call_output", "call_id": call.call_id, "output": '{"weather": "fog"}'}
    second = api.responses.create(
        model=MODEL, input=[*asked, call, output], instructions="Say what it said.", tools=[WEATHER]
    )
    check_done(second)
    assert any(item.type == "message" for item in second.output)


@ported(TOOLS, "TestToolCallingHarmony::test_tool_choice_streaming")
def test_a_call_that_must_be_made_is_streamed(api: openai.OpenAI):
    stream = api.responses.create(
        model=MODEL, input=PLACE, tools=[WEATHER], tool_choice="required", stream=True
    )
    events = list(stream)
    assert "response.function_call_arguments.delta" in {event.type for event in events}
    (completed,) = [event for event in events if event.type == "response.completed"]
    assert calls_of(completed.response)


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
@ported(EFFORT, "TestReasoningEffortTiers::test_tier_is_accepted")
def test_every_effort_is_taken(api: openai.OpenAI, effort: str):
    response = api.responses.create(
        model=MODEL, input="What is 2+2?", reasoning={"effort": effort}, max_output_tokens=512
    )
    assert {"reasoning", "message"} & {item.type for item in response.output}


@ported(EFFORT, "TestReasoningEffortTiers::test_unknown_tier_is_rejected")
def test_an_unknown_effort_is_refused(api: openai.OpenAI):
    with pytest.raises(openai.APIStatusError) as refused:
        api.responses.create(
            model=MODEL, input="Hello", reasoning={"effort": "extreme"}, max_output_tokens=32
        )
    assert refused.value.status_code in (400, 422)


def post_parts(wire: httpx.Client, *parts: dict[str, object]) -> httpx.Response:
    body = {"model": MODEL, "input": [{"role": "user", "content": list(parts)}], "max_output_tokens": 16}
    return wire.post("/v1/responses", json=body)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(
            [{"type": "input_video", "text": "please watch this"}],
            marks=ported(
                VALIDATION, "TestResponsesInputValidation::test_unknown_content_part_type_rejected_400"
            ),
        ),
        pytest.param(
            [{"type": "input_text", "text": "hello"}, {"type": ""}],
            marks=ported(
                VALIDATION,
                "TestResponsesInputValidation::test_content_part_array_with_empty_type_rejected_400",
            ),
        ),
    ],
    ids=["unknown", "empty"],
)
def test_an_unknown_part_is_refused(wire: httpx.Client, parts: list[dict[str, object]]):
    answer = post_parts(wire, *parts)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "json_parse_error")
    assert "input" in error["message"].lower()


@ported(VALIDATION, "TestResponsesInputValidation::test_input_file_with_unknown_field_accepted")
def test_an_unknown_field_of_a_part_is_no_error_of_the_body(wire: httpx.Client):
    answer = post_parts(
        wire,
        {"type": "input_text", "text": "hi"},
        {"type": "input_file", "file_id": "file-doesnotexist", "unknown": 1},
    )
    assert answer.status_code < 500
    assert answer.is_success or answer.json()["error"]["code"] != "json_parse_error"


@ported(VALIDATION, "TestResponsesInputValidation::test_message_with_invalid_role_rejected_400")
def test_an_unknown_role_is_refused(wire: httpx.Client):
    item = {"type": "message", "role": "martian", "content": "hello"}
    answer = wire.post("/v1/responses", json={"model": MODEL, "input": [item], "max_output_tokens": 16})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "martian" in answer.json()["error"]["message"]


def text_part(response):
    message = next(item for item in response.output if item.type == "message")
    return next(part for part in message.content if part.type == "output_text")


def check_logprobs(found, count: int) -> None:
    assert found
    assert isinstance(found[0].token, str) and isinstance(found[0].logprob, float)
    assert found[0].bytes is not None
    assert len(found[0].top_logprobs) == count
    assert all(isinstance(top.token, str) and isinstance(top.logprob, float) for top in found[0].top_logprobs)


@ported(LOGPROBS, "TestLogprobsGptOss::test_responses_with_logprobs")
def test_a_response_has_logprobs_on_request(api: openai.OpenAI):
    response = api.responses.create(
        **SHORT, input="What is 2+2?", top_logprobs=5, include=["message.output_text.logprobs"]
    )
    check_done(response)
    check_logprobs(text_part(response).logprobs, 5)


@ported(LOGPROBS, "TestLogprobsGptOss::test_responses_without_logprobs")
def test_a_response_has_no_logprobs_unasked(api: openai.OpenAI):
    response = api.responses.create(**SHORT, input="What is 2+2?")
    assert response.status == "completed"
    assert not text_part(response).logprobs


@ported(LOGPROBS, "TestLogprobsGptOss::test_responses_stream_with_logprobs")
def test_a_streamed_response_has_logprobs_in_the_end(api: openai.OpenAI):
    stream = api.responses.create(
        **SHORT, input="What is 2+2?", top_logprobs=3, include=["message.output_text.logprobs"], stream=True
    )
    (completed,) = [event for event in stream if event.type == "response.completed"]
    check_logprobs(text_part(completed.response).logprobs, 3)
