"""Checks `--model` before an engine is started, which takes seconds to say that there is none."""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from radixway.core.near_names import suggest_names

_HUB_TIMEOUT_S = 1.2
_SHIPPED = {"bundled": "radixway-guide", "smollm2": "SmolLM2-135M-Instruct"}
"""Names for `--model` of what needs no hub, and the names under which the engine serves it."""


class ModelUnavailableError(Exception):
    """There is no such model; the message names near ones."""


def check_model(model: str) -> None:
    """Return if an engine can be started with `model`, as far as is known without loading it.

    A hub that does not say so in time is no error: the engine asks it again. Raises ModelUnavailableError.
    """
    if model in _SHIPPED:
        return
    why = _explain_refusal(model)
    if why:
        near = suggest_names(model, _near_names(model))
        raise ModelUnavailableError(f"model not found: {model} ({why}){near}")


def _explain_refusal(model: str) -> str | None:
    try:
        path = Path(model).expanduser()
        if path.is_dir():
            has_model = (path / "config.json").exists() or any(path.glob("*.gguf"))
            return None if has_model else "the directory has no config.json"
        if path.is_file():
            return None if path.suffix == ".gguf" else "a file must be a GGUF file"
    except (OSError, RuntimeError):  # too long a name, the home of an unknown user
        return "no such directory"
    if path.is_absolute() or model.startswith(("./", "../", "~")) or model.count("/") != 1:
        return "no such directory or file, and a hub id is ORGANISATION/NAME"
    return _ask_hub(model)


def _ask_hub(model: str) -> str | None:
    """Return why the hub would not give `model`; None where it would, or does not answer in time."""
    try:
        from huggingface_hub import get_token
        from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE
    except ModuleNotFoundError:
        return None  # the engine says what is not installed
    if model in _cached_models():
        return None
    if HF_HUB_OFFLINE:
        return "no such directory, not in the hub's cache, and HF_HUB_OFFLINE forbids to ask for it"
    token = get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = Request(f"{ENDPOINT}/api/models/{model}", headers=headers, method="HEAD")
    found: list[str | None] = []

    def ask() -> None:
        try:
            with urlopen(request, timeout=_HUB_TIMEOUT_S):
                found.append(None)
        except HTTPError as error:
            error.close()
            unknown = error.code in (401, 403, 404)
            found.append(f"{ENDPOINT} has no such model for us: {error.code}" if unknown else None)
        except URLError as error:
            slow = isinstance(error.reason, TimeoutError)
            found.append(
                None if slow else f"no such directory, and {ENDPOINT} is out of reach: {error.reason}"
            )
        except OSError:
            found.append(None)

    # In a thread, as nothing limits how long a name is looked up.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_HUB_TIMEOUT_S)
    return found[0] if found else None


def _near_names(model: str) -> Iterable[str]:
    """Return the models that are there: those that ship, those in the hub's cache, directories beside it."""
    names = [*_SHIPPED, *_SHIPPED.values(), *_cached_models()]
    if os.sep in model:
        parent = Path(model).expanduser().parent
        with suppress(OSError):
            names += [str(parent / each.name) for each in parent.iterdir() if (each / "config.json").exists()]
    return names


def _cached_models() -> list[str]:
    """Return the hub ids in the hub's cache."""
    try:
        from huggingface_hub.constants import HF_HUB_CACHE
    except ModuleNotFoundError:
        return []
    found = Path(HF_HUB_CACHE).glob("models--*--*/snapshots")
    return ["/".join(each.parent.name.split("--")[1:]) for each in found]
