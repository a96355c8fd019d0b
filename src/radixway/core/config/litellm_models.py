"""Where a model of a LiteLLM proxy is: the worker that serves it, and its name there."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from yarl import URL

from radixway.core.config.yaml_file import Place

LeaveOut = Callable[[Place, str], None]
"""Notes what stands at a place of the file and was not taken, and why."""
ENVIRONMENT = "os.environ/"
_OWN = frozenset(
    {"hosted_vllm", "vllm", "ollama", "ollama_chat", "llamafile", "lm_studio", "infinity", "xinference"}
)
"""Prefixes of models on own machines."""
_OLLAMA_URL = "http://localhost:11434"
_REGION = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)/")
"""Where a Bedrock model's name begins with one."""
_COMPATIBLE: Mapping[str, tuple[str, str]] = {
    "cerebras": ("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "deepinfra": ("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "fireworks_ai": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "nvidia_nim": ("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "perplexity": ("https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
    "together_ai": ("https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
}
"""Providers of OpenAI's API: address and usual variable."""
_PROVIDERS: Mapping[str, str] = {
    "openai": "openai",
    "text-completion-openai": "openai",
    "azure": "azure",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
}
_OPENAI_NAMES = ("gpt-", "o1", "o3", "o4", "chatgpt", "text-embedding-", "dall-e", "tts-", "whisper")


def locate_model(
    params: Mapping[str, Any], place: Place, leave_out: LeaveOut
) -> tuple[dict[str, Any], str] | None:
    """Return the worker of the model in `params`, and the model's name there; None: it cannot be served.

    `place`: where `params` stands in the file.
    """
    prefix, slash, rest = params["model"].partition("/")
    prefix, model = (prefix, rest) if slash else ("", prefix)
    prefix = str(params.get("custom_llm_provider") or prefix)
    base_url = params.get("api_base") or params.get("base_url")
    if isinstance(base_url, str) and base_url.startswith(ENVIRONMENT):
        leave_out((*place, "api_base"), "addresses are not read from the environment: write it out")
        return None
    if prefix in _OWN:
        return _locate_own(params, model, base_url, place, leave_out)
    if not slash and not params.get("custom_llm_provider"):
        prefix = "anthropic" if model.startswith("claude") else ""
        if not prefix and (model.startswith(_OPENAI_NAMES) or base_url):
            prefix = "openai"
    if prefix not in _PROVIDERS and prefix not in _COMPATIBLE:
        leave_out((*place, "model"), f"the provider of {params['model']!r} is not served")
        return None
    worker: dict[str, Any] = {"provider": _PROVIDERS.get(prefix, "openai-compatible")}
    if prefix in _COMPATIBLE:
        worker["base_url"], worker["api_key_env"] = _COMPATIBLE[prefix]
    if base_url:
        worker["base_url"] = str(base_url).rstrip("/")
        if prefix == "openai" and URL(worker["base_url"]).host != "api.openai.com":
            worker["provider"] = "openai-compatible"
    if prefix == "azure":
        if not base_url:
            leave_out(place, "azure needs its api_base")
            return None
        _add_text(worker, "api_version", params, "api_version", place, leave_out)
    if prefix == "bedrock":
        model = model.removeprefix("converse/").removeprefix("invoke/")
        if (region := _REGION.match(model)) is not None:
            worker["region"], model = region[1], model[region.end() :]
        _add_text(worker, "region", params, "region_name", place, leave_out)
        _add_text(worker, "region", params, "aws_region_name", place, leave_out)
        _add_text(worker, "profile", params, "aws_profile_name", place, leave_out)
    if "api_key" in params and not _add_key(worker, params["api_key"]):
        leave_out((*place, "api_key"), "must be a text")
    return worker, model


def _locate_own(
    params: Mapping[str, Any],
    model: str,
    base_url: Any,
    place: Place,
    leave_out: LeaveOut,
) -> tuple[dict[str, Any], str] | None:
    if base_url is None and str(params["model"]).startswith("ollama"):
        base_url = _OLLAMA_URL
    if not isinstance(base_url, str):
        leave_out(place, "a worker of one's own needs its api_base")
        return None
    worker: dict[str, Any] = {"url": base_url.rstrip("/").removesuffix("/v1")}
    key = params.get("api_key")
    if isinstance(key, str) and key.startswith(ENVIRONMENT):
        reason = "the key of a worker of one's own is not read from the environment: write it at its api_key"
        leave_out((*place, "api_key"), reason)
    elif isinstance(key, str) and key.lower() not in ("", "none", "empty", "fake-key", "no-key"):
        worker["api_key"] = key
    return worker, model


def _add_text(
    worker: dict[str, Any],
    name: str,
    params: Mapping[str, Any],
    theirs: str,
    place: Place,
    leave_out: LeaveOut,
) -> None:
    """Take the text `theirs` of `params` as `name`, if there is one."""
    value = params.get(theirs)
    if isinstance(value, str) and value.startswith(ENVIRONMENT):
        leave_out((*place, theirs), "is not read from the environment: write it out")
    elif value is not None:
        worker[name] = str(value)


def _add_key(worker: dict[str, Any], key: Any) -> bool:
    """Take `key`; return whether it is a text, or empty."""
    if not key:
        return True
    if not isinstance(key, str):
        return False
    worker.pop("api_key_env", None)
    if key.startswith(ENVIRONMENT):
        worker["api_key_env"] = key.removeprefix(ENVIRONMENT)
    else:
        worker["api_key"] = key
    return True
