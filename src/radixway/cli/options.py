"""Options that several commands take, and the configuration that comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from radixway.cli.terminal import fail
from radixway.config import Config, ConfigError, load_config

GATEWAY = "http://127.0.0.1:30000"
_DEFAULT_FILE = Path("radixway.yaml")

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Default: ./radixway.yaml if there is one.", metavar="FILE"),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on.", min=0, max=65535)]
Model = Annotated[str | None, typer.Option(help="Model directory or hub id.", metavar="PATH_OR_ID")]
Eviction = Annotated[
    str | None,
    typer.Option(help="Cached prefixes that go first: lru, lfu, slru or priority.", metavar="ORDER"),
]
KVCacheDtype = Annotated[
    str | None, typer.Option(help="Keys and values as computed, or in 8 bits.", metavar="auto|fp8|int8")
]
Quantization = Annotated[
    str | None, typer.Option(help="Weights in full, or in 8 or 4 bits.", metavar="none|int8wo|int4wo")
]
HostCache = Annotated[
    float | None, typer.Option(help="Memory for cached KV that the device has no room for.", metavar="GB")
]
DiskCacheDir = Annotated[
    Path | None, typer.Option(help="Keep cached KV here too, also for the next start.", metavar="DIR")
]
DiskCache = Annotated[float | None, typer.Option(help="Most that the disk cache takes.", metavar="GB")]
KVEventsEndpoint = Annotated[
    str | None,
    typer.Option(help="Publish KV events here: tcp://*:5557 binds, tcp://host:5557 connects.", metavar="ZMQ"),
]
KVEventsReplay = Annotated[str | None, typer.Option(help="Replay missed KV events here.", metavar="ZMQ")]
KVEventsTopic = Annotated[str | None, typer.Option(help="First frame of every KV event message.")]
KVEventsFormat = Annotated[
    str | None,
    typer.Option(help="KV events as vLLM 0.24 and later has them, or before.", metavar="map|array"),
]
Workers = Annotated[
    list[str] | None, typer.Option("--worker", help="A worker's URL; repeatable.", metavar="URL")
]
GatewayUrl = Annotated[str, typer.Option(help="The gateway.", envvar="RADIXWAY_URL", metavar="URL")]
AdminKey = Annotated[str | None, typer.Option(help="The gateway's admin key.", envvar="RADIXWAY_ADMIN_KEY")]


def load(
    path: Path | None,
    host: str | None,
    port: int | None,
    workers: list[str] | None,
    model: str | None,
    served: str | None = None,
    engine: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of `path` or ./radixway.yaml, with what the command line says on top."""
    if path is None and _DEFAULT_FILE.exists():
        path = _DEFAULT_FILE
    overrides: dict[str, Any] = {"gateway": {}, "engine": {}}
    if host is not None:
        overrides["gateway"]["host"] = host
    if port is not None:
        overrides["gateway"]["port"] = port
    if model is not None:
        overrides["engine"]["model"] = model
    overrides["engine"] |= {key: value for key, value in (engine or {}).items() if value is not None}
    if workers:
        models = [served] if served else []
        overrides["workers"] = [{"url": url, "models": models} for url in workers]
    try:
        return load_config(path, overrides)
    except ConfigError as error:
        fail(str(error))
