"""`radixway worker`: fetch the jobs of a chat server and answer them with an engine."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from radixway.cli.terminal import on_stop_signal, out


def _read_env_file(context: typer.Context, path: Path | None) -> Path | None:
    """Read variables from the file `path` as defaults of the options that name them."""
    if path is not None:
        from radixway.core.config import ConfigError
        from radixway.core.config.chat_env import read_env_file

        try:
            given = read_env_file(path)
        except ConfigError as error:
            raise typer.BadParameter(str(error).removeprefix("chat.env_file: ")) from None
        options = {str(option.envvar): option.name for option in context.command.params if option.envvar}
        defaults = {options[name]: value.text for name, value in given.items() if name in options}
        context.default_map = {**(context.default_map or {}), **defaults}
    return path


def worker(
    backend_url: Annotated[
        str, Option(envvar="INFERENCE_SERVER_URL", help="The engine: TGI, vLLM, SGLang, …")
    ],
    server: Annotated[str, Option(envvar="BACKEND_URL", help="The chat server, ws://HOST:PORT")],
    api_key: Annotated[str, Option(envvar="API_KEY", help="This worker's key at the server")],
    model_config_name: Annotated[
        str | None, Option(envvar="MODEL_CONFIG_NAME", help="One of the published models")
    ] = None,
    model_id: Annotated[str | None, Option(help="By default what the engine says")] = None,
    max_input_length: Annotated[int | None, Option(min=1, help="Tokens")] = None,
    max_total_length: Annotated[int | None, Option(min=2, help="Tokens, answer included")] = None,
    max_parallel_requests: Annotated[int, Option(envvar="MAX_PARALLEL_REQUESTS", min=1)] = 4,
    engine: Annotated[Literal["auto", "tgi", "openai"], Option(help="The engine's protocol")] = "auto",
    prompt_format: Annotated[
        Literal["auto", "v2", "chatml", "engine"], Option(envvar="MODEL_PROMPT_FORMAT")
    ] = "auto",
    enable_safety: Annotated[bool, Option(envvar="ENABLE_SAFETY")] = False,
    safety_url: Annotated[str, Option(envvar="SAFETY_SERVICE_URL")] = "http://127.0.0.1:8002",
    replicas: Annotated[int, Option(envvar="REPLICAS", min=1, help="Connections; each is a worker")] = 1,
    env_file: Annotated[
        Path | None,
        Option(
            callback=_read_env_file,
            is_eager=True,
            help="Lines KEY=value of these variables; the environment overrides them",
        ),
    ] = None,
) -> None:
    """Answer a chat server's jobs with an engine."""
    given = {name: value for name, value in locals().items() if name != "env_file"}
    from radixway.chat.worker import ServerRejectedError, UpstreamEngineError

    try:
        asyncio.run(_run_replicas(**given))
    except (UpstreamEngineError, ServerRejectedError, ValueError) as error:
        out.print(str(error), style="red")
        raise typer.Exit(1) from None


async def _run_replicas(
    *,
    backend_url: str,
    server: str,
    api_key: str,
    engine: Literal["auto", "tgi", "openai"],
    prompt_format: Literal["auto", "v2", "chatml", "engine"],
    enable_safety: bool,
    safety_url: str,
    replicas: int,
    **served: Any,
) -> None:
    import aiohttp

    from radixway.chat.plugins import PluginAnswers, PluginRegistry
    from radixway.chat.worker import ChatWorker, WorkerSafetyClient, detect_engine
    from radixway.core.config.chat import ChatPluginsConfig
    from radixway.core.net.task_cancellation import cancel_tasks

    section = ChatPluginsConfig()
    plugins = PluginRegistry(section, {}, time.time)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(timeout=timeout) as session, plugins.running():
        found = await detect_engine(session, backend_url, engine)
        form = None if prompt_format == "auto" else prompt_format
        if form is not None and form not in found.formats:
            raise ValueError(f"--prompt-format {form}: the engine takes {', '.join(found.formats)}")
        serves = _served_model(found.serving, **served)
        safety = WorkerSafetyClient(session, safety_url) if enable_safety else None
        chains = PluginAnswers(plugins, section)
        workers = [
            ChatWorker(session, server, api_key, found, serves, form=form, safety=safety, plugins=chains)
            for _ in range(replicas)
        ]

        def drain() -> None:
            for worker in workers:
                worker.drain()

        on_stop_signal(drain)
        out.print(f"{serves.model_id}: {serves.max_input_length} of {serves.max_total_length} tokens in")
        running = [asyncio.create_task(worker.run_until_drained()) for worker in workers]
        try:
            await asyncio.gather(*running)
        finally:
            await cancel_tasks(running)


def _served_model(
    serving: Any,
    *,
    model_config_name: str | None,
    model_id: str | None,
    max_input_length: int | None,
    max_total_length: int | None,
    max_parallel_requests: int,
) -> Any:
    """Return the model: options come before the published model, and that before what the engine says."""
    from radixway.chat.model_configs import load_published
    from radixway.chat.worker import ServedModel

    known = next((model for model in load_published()[0] if model.name == model_config_name), None)
    if model_config_name is not None and known is None and model_id is None:
        raise ValueError(f"--model-config-name {model_config_name}: no published model has that name")
    if known is not None:
        model_id = model_id or known.model_id
        max_input_length = max_input_length or known.max_input_length
        max_total_length = max_total_length or known.max_total_length
    total = max_total_length or serving.longest_total or 4096
    longest = max_input_length or serving.longest_input or max(total * 3 // 4, 1)
    quantized = known is not None and known.quantized
    return ServedModel(model_id or serving.model, longest, total, quantized, max_parallel_requests)
