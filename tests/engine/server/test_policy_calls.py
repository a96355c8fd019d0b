"""A trainer's calls over HTTP: new weights, versions, pauses; as SGLang's clients send them."""

import asyncio
import base64
import json
import pickle
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import pytest_asyncio
import safetensors.torch
import torch

from engine.server.conftest import serving_guide
from engine.server.test_generate import events
from radixway.engine.sampling_params import SamplingParams
from support.driving import answers as fresh_answers
from support.driving import tiny_core
from support.scripted_engine import GUIDE
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROMPT = list(range(300, 330))
GREEDY = {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}
UP = "model.layers.0.mlp.up_proj.weight"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[Served]:
    async with serving_guide(512) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="session")
async def guide(server: Served) -> AsyncIterator[Served]:
    """The bundled model with its own weights, not paused."""
    yield server
    await server.post("/continue_generation", {})
    body = {"model_path": "bundled", "weight_version": "default", "abort_all_requests": True}
    assert (await server.post("/update_weights_from_disk", body)).status_code == 200
    await server.idle()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model after some training."""
    path = tmp_path_factory.mktemp("trained") / "step-7"
    shutil.copytree(GUIDE, path)
    tensors = {}
    generator = torch.Generator().manual_seed(7)
    for file in path.glob("*.safetensors"):
        for name, tensor in safetensors.torch.load_file(file).items():
            noise = torch.randn(tensor.shape, generator=generator) * 0.05
            tensors[name] = (tensor.float() + noise).to(tensor.dtype).contiguous()
        file.unlink()
    (path / "model.safetensors.index.json").unlink(missing_ok=True)
    safetensors.torch.save_file(tensors, path / "model.safetensors")
    return path


async def ask(guide: Served, **body: Any) -> Any:
    response = await guide.post("/generate", {"input_ids": PROMPT, "sampling_params": GREEDY, **body})
    assert response.status_code == 200, response.text
    return response.json()


def expected(path: Path) -> list[int]:
    """What an engine that has just loaded the weights in `path` answers."""
    core = tiny_core(path, context_length=512)
    return fresh_answers(core, [PROMPT], SamplingParams(temperature=0, max_tokens=12, ignore_eos=True))[0]


async def test_weights_from_disk_answer_as_if_freshly_loaded(guide: Served, trained: Path) -> None:
    before = await ask(guide)
    body = {"model_path": str(trained), "load_format": None, "weight_version": 7, "token_step": 0}
    reply = (await guide.post("/update_weights_from_disk", body)).json()
    assert reply["success"] is True and reply["weight_version"] == "7"
    after = await ask(guide)
    assert before["output_ids"] == expected(GUIDE) != after["output_ids"] == expected(trained)
    assert after["meta_info"]["cached_tokens"] == 0
    assert after["meta_info"]["weight_versions"] == [{"version": "7", "start": 0, "end": 12}]
    for path in ("/get_model_info", "/server_info"):
        info = (await guide.http.get(path)).json()
        assert info["weight_version"] == "7" and info["model_path"] == str(trained)
        assert info["tokenizer_path"] == str(GUIDE)
    assert (await guide.http.get("/get_weight_version")).json() == {"weight_version": "7"}


async def test_weights_from_tensors_in_json_and_as_a_file(guide: Served, trained: Path) -> None:
    tensors = safetensors.torch.load_file(trained / "model.safetensors")
    names = sorted(tensors)
    one, two = (
        safetensors.torch.save({name: tensors[name] for name in part}) for part in (names[::2], names[1::2])
    )
    body = {
        "serialized_named_tensors": [base64.b64encode(one).decode()],
        "flush_cache": False,
        "weight_version": "half",
    }
    assert (await guide.post("/update_weights_from_tensor", body)).status_code == 200
    reply = await guide.http.post(
        "/update_weights_from_tensor?weight_version=8&flush_cache=true",
        content=two,
        headers={"content-type": "application/octet-stream"},
    )
    assert reply.json() == {"success": True, "message": "the weights are version 8", "weight_version": "8"}
    assert (await ask(guide))["output_ids"] == expected(trained)


async def test_weights_are_read_by_name(guide: Served) -> None:
    reference = tiny_core(GUIDE).runner.model.layers[0].gate_up.weight
    inner = reference.shape[0] // 2
    rows = (await guide.post("/get_weights_by_name", {"name": UP, "truncate_size": 3})).json()
    assert rows == reference[inner : inner + 3].tolist()
    query = f"/get_weights_by_name?name={UP}&truncate_size=2"
    assert (await guide.http.get(query)).json() == rows[:2]
    norm = (await guide.http.get("/get_weights_by_name?name=model.norm.weight")).json()
    assert len(norm) == 100 and all(isinstance(value, float) for value in norm)


async def streamed(guide: Served, **body: Any) -> list[Any]:
    body = {"input_ids": PROMPT, "sampling_params": {**GREEDY, "max_new_tokens": 300}, "stream": True, **body}
    return events((await guide.post("/generate", body)).text)


async def decoding(guide: Served) -> None:
    """Wait until somebody's tokens are being sampled."""
    before = (await guide.info())["stats"]["generated_tokens"]
    while (await guide.info())["stats"]["generated_tokens"] < before + 3:
        pass


@pytest.mark.parametrize("mode", ["retract", "in_place"])
async def test_a_paused_answer_goes_on_where_it_was(guide: Served, mode: str) -> None:
    uninterrupted = (await streamed(guide))[-1]
    asking = asyncio.create_task(streamed(guide))
    await decoding(guide)
    reply = await guide.post("/pause_generation", {"mode": mode})
    assert reply.status_code == 200 and reply.json()["status"] == "ok"
    info = await guide.info()
    assert info["paused"] is True and info["running"] + info["waiting"] == 1
    assert info["running"] == (mode == "in_place")
    later = asyncio.create_task(ask(guide))
    while (await guide.info())["waiting"] + (await guide.info())["running"] < 2:
        pass
    assert (await guide.info())["stats"]["generated_tokens"] == info["stats"]["generated_tokens"]
    assert (await guide.http.get("/health_generate")).json() == {"status": "paused"}
    flushed = await guide.http.get("/flush_cache")
    assert flushed.status_code == (200 if mode == "retract" else 400)
    assert not asking.done() and not later.done()
    assert (await guide.http.post("/continue_generation")).status_code == 200
    assert (await asking)[-1]["output_ids"] == uninterrupted["output_ids"]
    assert (await later)["output_ids"] == uninterrupted["output_ids"][:12]


async def test_a_pause_that_aborts_ends_all_and_lets_later_ones_wait(guide: Served) -> None:
    asking = asyncio.create_task(streamed(guide))
    await decoding(guide)
    assert (await guide.http.post("/pause_generation?mode=odd")).status_code == 200  # abort, as in SGLang
    last = (await asking)[-1]
    assert last["meta_info"]["finish_reason"]["type"] == "abort" and 0 < len(last["output_ids"]) < 300
    later = asyncio.create_task(ask(guide, rid="late"))
    while not (await guide.info())["waiting"]:
        pass
    another = asyncio.create_task(ask(guide, rid="aborted"))
    while (await guide.info())["waiting"] < 2:
        pass
    assert (await guide.post("/abort_request", {"rid": "aborted", "abort_all": False})).json()["aborted"] == 1
    assert (await another)["meta_info"]["finish_reason"]["type"] == "abort"
    assert (await another)["meta_info"]["weight_versions"] == [{"version": "default", "start": 0, "end": 0}]
    assert not later.done()
    await guide.post("/continue_generation", {"torch_empty_cache": True})
    assert len((await later)["output_ids"]) == 12


async def test_an_answer_that_spans_an_update_says_which_version_made_what(
    guide: Served, trained: Path
) -> None:
    whole = (await streamed(guide))[-1]["output_ids"]
    asking = asyncio.create_task(streamed(guide))
    await decoding(guide)
    await guide.post("/update_weights_from_disk", {"model_path": str(trained), "weight_version": "7"})
    last = (await asking)[-1]
    meta, ids = last["meta_info"], last["output_ids"]
    first, second = meta["weight_versions"]
    assert (first["version"], first["start"]) == ("default", 0)
    assert (second["version"], second["end"]) == ("7", 300) and first["end"] == second["start"]
    assert meta["weight_version"] == "7"
    assert ids[: first["end"]] == whole[: first["end"]]
    again = await ask(guide, input_ids=PROMPT + ids[: second["start"]])
    assert ids[second["start"] :][:12] == again["output_ids"][: 300 - second["start"]]


async def test_a_version_can_be_given_alone(guide: Served) -> None:
    asking = asyncio.create_task(streamed(guide))
    await decoding(guide)
    body = {"new_version": "10", "abort_all_requests": False}
    reply = (await guide.post("/update_weight_version", body)).json()
    assert reply["success"] is True and reply["new_version"] == "10"
    assert [span["version"] for span in (await asking)[-1]["meta_info"]["weight_versions"]] == [
        "default",
        "10",
    ]
    asking = asyncio.create_task(streamed(guide))
    await decoding(guide)
    await guide.post("/update_weight_version", {"new_version": "11"})
    assert (await asking)[-1]["meta_info"]["finish_reason"]["type"] == "abort"


def tensor_body(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {"serialized_named_tensors": [base64.b64encode(safetensors.torch.save(tensors)).decode()]}


def with_header(header: bytes) -> str:
    """A safetensors file of nothing but this header, in base64."""
    return base64.b64encode(len(header).to_bytes(8, "little") + header).decode()


ENDLESS = with_header(b'{"x": {"dtype": "F32", "shape": [0, 9223372036854775808], "data_offsets": [0, 0]}}')
PICKLE = base64.b64encode(pickle.dumps({UP: [1.0]})).decode()


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/update_weights_from_disk", {}, "model_path"),
        ("/update_weights_from_disk", {"model_path": 5}, "model_path"),
        ("/update_weights_from_disk", {"model_path": "/nowhere"}, "model_path"),
        ("/update_weights_from_disk", {"model_path": ""}, "model_path"),
        ("/update_weights_from_disk", {"model_path": "\0"}, "model_path"),
        ("/update_weights_from_disk", {"model_path": "/etc"}, "model_path"),
        ("/update_weights_from_disk", {"model_path": "a" * 5000}, "model_path"),
        ("/update_weights_from_disk", {"model_path": "~nobody-has-this-name/x"}, "model_path"),
        ("/update_weights_from_disk", {"model_path": "bundled", "load_format": "npcache"}, "load_format"),
        ("/update_weights_from_disk", {"model_path": "bundled", "flush_cache": "no"}, "flush_cache"),
        ("/update_weights_from_disk", {"model_path": "bundled", "weight_version": ""}, "weight_version"),
        (
            "/update_weights_from_disk",
            {"model_path": "bundled", "weight_version": "v" * 257},
            "weight_version",
        ),
        ("/update_weights_from_tensor", {}, "serialized_named_tensors"),
        ("/update_weights_from_tensor", {"serialized_named_tensors": "%%"}, "serialized_named_tensors"),
        ("/update_weights_from_tensor", {"serialized_named_tensors": [PICKLE]}, "serialized_named_tensors"),
        ("/update_weights_from_tensor", {"serialized_named_tensors": []}, "serialized_named_tensors"),
        ("/update_weights_from_tensor", tensor_body({}), "serialized_named_tensors"),
        ("/update_weights_from_tensor", tensor_body({UP: torch.ones(3, 3)}), "serialized_named_tensors"),
        ("/update_weights_from_tensor", tensor_body({"x": torch.ones(3)}), "serialized_named_tensors"),
        ("/update_weights_from_tensor", {"serialized_named_tensors": ENDLESS}, "serialized_named_tensors"),
        (
            "/update_weights_from_tensor",
            tensor_body({UP: torch.ones(4), UP.removeprefix("model."): torch.ones(4)}),
            "serialized_named_tensors",
        ),
        ("/update_weight_version", {}, "new_version"),
        ("/update_weight_version", {"new_version": ""}, "new_version"),
        ("/get_weights_by_name", {"name": "x"}, "name"),
        ("/get_weights_by_name", {"name": UP, "truncate_size": 0}, "truncate_size"),
        ("/pause_generation", {"mode": "sideways"}, "mode"),
        ("/pause_generation", {"mode": None}, "mode"),
    ],
)
async def test_what_cannot_be_done_names_its_field_and_changes_nothing(
    guide: Served, path: str, body: dict[str, Any], param: str
) -> None:
    before = await ask(guide)
    response = await guide.post(path, body)
    assert response.status_code == 400, response.text
    told = response.json()
    assert told["error"]["param"] == param, response.text
    if path.startswith("/update_weight"):
        assert told["success"] is False and told["message"] == told["error"]["message"], "as SGLang says it"
    after = await ask(guide)
    assert after["output_ids"] == before["output_ids"]
    assert after["meta_info"]["weight_version"] == "default"


async def test_bodies_that_are_no_weights_are_refused(guide: Served) -> None:
    path, headers = "/update_weights_from_tensor", {"content-type": "application/octet-stream"}
    for content in (b"", b"junk", b"\xff" * 64, json.dumps(tensor_body({})).encode()):
        response = await guide.http.post(path, content=content, headers=headers)
        assert response.status_code == 400 and response.json()["error"]["param"] == "body"
    for field in ("flush_cache", "load_format"):
        response = await guide.http.post(f"{path}?{field}=perhaps", content=b"", headers=headers)
        assert response.json()["error"]["param"] == field
    for raw in (b"{", b"[]", b"5"):
        assert (await guide.http.post(path, content=raw)).status_code == 400
        assert (await guide.http.post("/pause_generation", content=raw)).status_code == 400
    assert (await guide.http.get("/get_weights_by_name")).json()["error"]["param"] == "name"


async def test_a_body_larger_than_weights_can_be_is_a_413(guide: Served) -> None:
    size = 12 * guide.app.service.engine.model_info.parameters + 1
    url = httpx.URL(guide.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST /update_weights_from_tensor HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n"
    writer.write(f"{head}expect: 100-continue\r\n\r\n".encode())
    assert b" 413 " in await reader.readline()
    told = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(told.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    assert json.loads(await reader.readexactly(length))["success"] is False
    writer.close()
    await writer.wait_closed()
