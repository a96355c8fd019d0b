"""Options that take several values at a time, `--paths a b`, as argparse has them and Slime's users write.

Options that several commands take, and the configuration that comes of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from radixway.cli.terminal import exit_with_error
from radixway.core.config import Config, ConfigError, load_config


class SeveralValues(TyperCommand):
    """A command without arguments whose repeatable options take values up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {
            name for param in self.params if getattr(param, "multiple", False) for name in param.opts
        }
        return super().parse_args(ctx, list(repeat_options(args, repeatable)))


def repeat_options(args: Iterable[str], repeatable: Collection[str]) -> Iterator[str]:
    """Return `args` with `--paths a b` of `repeatable` options written as `--paths a --paths b`."""
    option, values = "", 0
    for arg in args:
        if arg.startswith("-"):
            option, values = arg, 0
        else:
            values += 1
            if values > 1 and option in repeatable:
                yield option
        yield arg


GATEWAY = "http://127.0.0.1:30000"
_DEFAULT_FILE = Path("radixway.yaml")

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Default: ./radixway.yaml if there is one.", metavar="FILE"),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on.", min=0, max=65535)]
Insecure = Annotated[
    bool | None, typer.Option("--insecure", help="Listen where others reach it though no key is needed.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(help="A key that clients must send; or in RADIXWAY__ENGINE__API_KEY.", metavar="KEY"),
]
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
DisaggregationMode = Annotated[
    str | None,
    typer.Option(help="Prefill for other engines, or have them prefill.", metavar="null|prefill|decode"),
]
BootstrapPort = Annotated[
    int | None,
    typer.Option(help="Where a prefill engine's KV is fetched; 0 takes a free port.", metavar="PORT"),
]
Workers = Annotated[
    list[str] | None, typer.Option("--worker", help="A worker's URL; repeatable.", metavar="URL")
]
MiddlewarePaths = Annotated[
    list[str] | None,
    typer.Option(
        help="Middlewares by dotted path, several values; the first is innermost.", metavar="a.b.Class …"
    ),
]
Trajectories = Annotated[
    bool | None, typer.Option("--trajectories", help="Record the exact tokens of what passes /generate.")
]
ExtProcPort = Annotated[
    int | None,
    typer.Option(help="Decide for Envoy too, as its external processor on this port.", min=0, max=65535),
]
GatewayUrl = Annotated[str, typer.Option(help="The gateway.", envvar="RADIXWAY_URL", metavar="URL")]
AdminKey = Annotated[str | None, typer.Option(help="The gateway's admin key.", envvar="RADIXWAY_ADMIN_KEY")]
TenantKey = Annotated[
    str | None, typer.Option(help="A key, where the gateway's tenants have keys.", envvar="RADIXWAY_KEY")
]


def load_options(
    path: Path | None,
    overrides: Mapping[str, Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    middleware_paths: Sequence[str] = (),
) -> Config:
    """The configuration of `path` or ./radixway.yaml, with what the command line says on top.

    A mistake ends the command. `base`: in place of defaults. `middleware_paths`: as in Slime the first is
    innermost; all stand outside of those configured.
    """
    if path is None and _DEFAULT_FILE.exists():
        path = _DEFAULT_FILE
    try:
        settings = load_config(path, overrides, base=base)
    except ConfigError as error:
        exit_with_error(str(error))
    return _add_middlewares(settings, middleware_paths) if middleware_paths else settings


def gateway_overrides(
    host: str | None,
    port: int | None,
    workers: Sequence[str] | None,
    served: str | None = None,
    *,
    insecure: bool | None = None,
) -> dict[str, Any]:
    """Return what a gateway's common options override; its workers serve the models `served`."""
    overrides: dict[str, Any] = {"gateway": drop_unset(host=host, port=port, insecure=insecure)}
    if workers:
        models = [served] if served else []
        overrides["workers"] = [{"url": url, "models": models} for url in workers]
    return overrides


def ext_proc_overrides(port: int | None) -> dict[str, Any]:
    """Return what `--ext-proc-port` overrides; nothing where `port` is None."""
    return {} if port is None else {"enabled": True, "port": port}


def drop_unset(**values: Any) -> dict[str, Any]:
    """Return the `values` that the command line gives, by name."""
    return {name: value for name, value in values.items() if value is not None}


def _add_middlewares(settings: Config, paths: Sequence[str]) -> Config:
    from radixway.core.pipeline import RADIX_TREE, resolve_slime_path

    middlewares = (*reversed(paths), *settings.pipeline.middlewares)
    changed: dict[str, Any] = {"pipeline": settings.pipeline.model_copy(update={"middlewares": middlewares})}
    if any(resolve_slime_path(path) == RADIX_TREE for path in paths):
        changed["trajectories"] = settings.trajectories.model_copy(update={"enabled": True})
    return settings.model_copy(update=changed)
