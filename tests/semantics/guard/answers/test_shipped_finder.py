"""Names in answers, found by what ships as their sentences end."""

from __future__ import annotations

import pytest

from support.guarded_answers import chat_stream, guard_of, guarded_stream, request_of, said_in

pytest.importorskip("onnxruntime")

TEXT = "Thank you for waiting. The invoice was signed by Margaret Thornton in March. It was paid at once."


@pytest.fixture
async def finder(one_encoder):
    from radixway.semantics.encoders import EncoderService
    from radixway.semantics.guard.pii.finder import DefaultPersonalDataFinder

    service = EncoderService(lambda: one_encoder)
    yield DefaultPersonalDataFinder(service)
    await service.aclose()


async def test_a_name_is_masked_however_the_answer_is_divided(finder):
    section = {"pii": {"action": "mask", "types": ["PERSON"], "mask": "type"}}
    for size in (1, 7, len(TEXT)):
        pieces = [TEXT[at : at + size] for at in range(0, len(TEXT), size)]
        got, _ = await guarded_stream(guard_of(section, finder=finder), request_of(), chat_stream(pieces))
        assert said_in(got)[0]["content"] == TEXT.replace("Margaret Thornton", "<PERSON>")


async def test_an_answer_that_names_nobody_is_not_touched(finder):
    text = "Blend the basil with the nuts. Add oil until it is smooth, then the cheese. Salt to taste."
    chunks = chat_stream([word + " " for word in text.split()])
    got, _ = await guarded_stream(guard_of({"pii": {"action": "mask"}}, finder=finder), request_of(), chunks)
    assert b"".join(got) == b"".join(chunks)


async def test_a_name_is_not_masked_where_nobody_named_its_type(finder):
    text = "It was signed by Margaret Thornton in March. Write to margaret@example.org today."
    section = {"pii": {"action": "mask"}}
    got, _ = await guarded_stream(guard_of(section, finder=finder), request_of(), chat_stream([text]))
    assert said_in(got)[0]["content"] == text.replace("margaret@example.org", "*****")
