"""Options that several commands take, and the configuration that comes of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option
from typer.core import TyperCommand

from radixway.cli.terminal import exit_on
from radixway.core.config import Config, ConfigError, load_config


class SeveralValues(TyperCommand):
    """A command without arguments whose repeatable options take values up to the next option, `--paths a b`,
    as argparse has them and Slime's users write.
    """

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
    Option("--config", "-c", help="Default: ./radixway.yaml if there is one.", metavar="FILE"),
]
Host = Annotated[str | None, Option(help="Address to listen on.")]
Port = Annotated[int | None, Option(help="Port to listen on.", min=0, max=65535)]
Insecure = Annotated[
    bool | None,
    Option("--insecure", help="Listen on an address that others reach although no key is needed."),
]
Model = Annotated[str | None, Option(help="Model directory, GGUF file or hub id.", metavar="PATH_OR_ID")]
Workers = Annotated[list[str] | None, Option("--worker", help="A worker's URL; repeatable.", metavar="URL")]
MiddlewarePaths = Annotated[
    list[str] | None,
    Option(help="Middlewares by dotted path, several values; the first is innermost.", metavar="a.b.Class …"),
]
Trajectories = Annotated[
    bool | None, Option("--trajectories", help="Record the exact tokens of what passes /generate.")
]
GatewayUrl = Annotated[str, Option(help="The gateway.", envvar="RADIXWAY_URL", metavar="URL")]
AdminKey = Annotated[str | None, Option(help="The gateway's admin key.", envvar="RADIXWAY_ADMIN_KEY")]
TenantKey = Annotated[
    str | None, Option(help="A key, where the gateway's tenants have keys.", envvar="RADIXWAY_KEY")
]


def load_options(
    path: Path | None,
    overrides: Mapping[str, Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    middleware_paths: Sequence[str] = (),
) -> Config:
    """Return what `read_config` does; a mistake ends the command."""
    with exit_on(ConfigError):
        return read_config(path, overrides, base=base, middleware_paths=middleware_paths)


def read_config(
    path: Path | None,
    overrides: Mapping[str, Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    middleware_paths: Sequence[str] = (),
) -> Config:
    """Return the configuration of `path` or ./radixway.yaml, with `overrides` of the command line on top.

    `base`: in place of defaults. `middleware_paths`: as in Slime the first is innermost; all stand outside of
    those configured. Raises ConfigError.
    """
    if path is None and _DEFAULT_FILE.exists():
        path = _DEFAULT_FILE
    settings = load_config(path, overrides, base=base)
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
