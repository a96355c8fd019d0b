"""New weights for the running model, their version, and pauses around an update.

SGLang's calls, with safetensors, never pickle.
"""

import asyncio
import base64
import binascii
from typing import Annotated, Literal

import msgspec

from radixway.core.http import BadBodyError, decode_json, decode_query
from radixway.engine.engine import PauseMode
from radixway.engine.errors import (
    CheckpointError,
    InvalidWeightsError,
    ModelNotFoundError,
    UnsupportedArchitectureError,
)
from radixway.engine.server.engine_service import EngineService
from radixway.engine.server.http_exchange import HttpExchange, encode
from radixway.engine.weight_update import (
    DiskWeights,
    TensorWeights,
    WeightUpdate,
    merge_tensors,
    read_tensors,
)

_MAX_VERSION_CHARACTERS = 256
_JSON = "application/json"


class UpdateOptions(msgspec.Struct, kw_only=True):
    """The options of every update."""

    flush_cache: bool = True
    """False: running requests keep the KV that the old weights computed."""
    abort_all_requests: bool = False
    weight_version: str | int | None = None


class DiskUpdateBody(UpdateOptions, kw_only=True):
    """The body of /update_weights_from_disk."""

    model_path: str
    load_format: Literal["auto", "safetensors", "dummy"] | None = None


class TensorUpdateOptions(UpdateOptions, kw_only=True):
    """The query of /update_weights_from_tensor where the body is a safetensors file itself."""

    load_format: Literal["auto", "safetensors"] | None = None


class TensorUpdateBody(TensorUpdateOptions, kw_only=True):
    """The body of /update_weights_from_tensor where it is JSON."""

    serialized_named_tensors: str | list[str]
    """Safetensors files in base64."""


class WeightVersionBody(msgspec.Struct):
    """The body of /update_weight_version."""

    new_version: str | int
    abort_all_requests: bool = True


class WeightQueryBody(msgspec.Struct):
    """The body of /get_weights_by_name."""

    name: str
    truncate_size: Annotated[int, msgspec.Meta(ge=1)] = 100


class PauseBody(msgspec.Struct):
    """The body of /pause_generation; there need not be one."""

    mode: PauseMode = "abort"


_tensor_decoder = msgspec.json.Decoder(TensorUpdateBody)


async def update_from_disk(service: EngineService, exchange: HttpExchange, body: DiskUpdateBody) -> None:
    """Load the weights in a directory."""
    weights = DiskWeights(body.model_path, body.load_format or "auto")
    await _update_weights(service, exchange, weights, body, param="model_path")


async def update_from_tensor(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Take the tensors in the body: base64 in JSON, or a safetensors file with the options in the query."""
    param = "serialized_named_tensors"
    if exchange.get_header(b"content-type").partition(";")[0].strip() in ("", _JSON):
        body = decode_json(_tensor_decoder, raw)
        options: UpdateOptions = body
        given = body.serialized_named_tensors
        files = [_decode_base64(text, param) for text in ([given] if isinstance(given, str) else given)]
    else:
        options, files = decode_query(exchange.query, TensorUpdateOptions), [raw]
        param = "body"
    del raw
    try:
        tensors = await asyncio.to_thread(lambda: merge_tensors(map(read_tensors, files)))
    except InvalidWeightsError as error:
        raise BadBodyError(f"{param}: {error}", param=param) from None
    if not tensors:
        raise BadBodyError(f"{param}: there are no tensors in it", param=param)
    await _update_weights(service, exchange, TensorWeights(tensors), options, param=param)


async def update_version(service: EngineService, exchange: HttpExchange, body: WeightVersionBody) -> None:
    """Call the weights as they are another version. As in SGLang, all requests end unless it says not to."""
    version = _check_version(body.new_version, "new_version")
    await asyncio.to_thread(service.engine.set_weight_version, version, abort=body.abort_all_requests)
    message = f"the weights are version {version}"
    await exchange.send_json({"success": True, "message": message, "new_version": version})


async def version(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The version of the weights that tokens are sampled with now."""
    await exchange.send_json({"weight_version": service.engine.model_info.weight_version})


async def by_name(service: EngineService, exchange: HttpExchange, body: WeightQueryBody) -> None:
    """The first rows of a tensor, by its name in a checkpoint."""

    def read() -> msgspec.Raw | None:
        tensor = service.engine.find_weight(body.name)
        return None if tensor is None else msgspec.Raw(encode(tensor[: body.truncate_size].float().tolist()))

    rows = await asyncio.to_thread(read)
    if rows is None:
        raise BadBodyError(f"the model has no tensor {body.name}", param="name")
    await exchange.send_json(rows)


async def pause_generation(service: EngineService, exchange: HttpExchange, body: PauseBody) -> None:
    """Pause generation until it is continued; new requests wait."""
    await asyncio.to_thread(service.engine.pause_generation, body.mode)
    await exchange.send_json({"status": "ok", "message": "generation is paused"})


async def continue_generation(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Continue generation; does nothing if it is not paused."""
    await asyncio.to_thread(service.engine.resume_generation)
    await exchange.send_json({"status": "ok", "message": "generation goes on"})


async def _update_weights(
    service: EngineService,
    exchange: HttpExchange,
    weights: WeightUpdate,
    options: UpdateOptions,
    *,
    param: str,
) -> None:
    version = options.weight_version
    new_version = None if version is None else _check_version(version, "weight_version")
    try:
        await asyncio.to_thread(
            service.engine.update_weights,
            weights,
            version=new_version,
            keep_kv=not options.flush_cache,
            abort=options.abort_all_requests,
        )
    except (ModelNotFoundError, UnsupportedArchitectureError, CheckpointError, InvalidWeightsError) as error:
        raise BadBodyError(f"{param}: {error}", param=param) from None
    current = service.engine.model_info.weight_version
    message = f"the weights are version {current}"
    await exchange.send_json({"success": True, "message": message, "weight_version": current})


def _check_version(version: str | int, param: str) -> str:
    text = str(version)
    if not 0 < len(text) <= _MAX_VERSION_CHARACTERS:
        message = f"{param} has {len(text)} characters; give 1 to {_MAX_VERSION_CHARACTERS}"
        raise BadBodyError(message, param=param)
    return text


def _decode_base64(text: str, param: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadBodyError(f"{param} is not base64: {error}", param=param) from None
