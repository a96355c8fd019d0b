"""Examples in the help of each command: what one types most often."""

from collections.abc import Mapping

import typer

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "up": ("up", "up --small", "up --model Qwen/Qwen3-0.6B --port 31000"),
    "serve": ("serve --worker http://gpu1:8000 --worker http://gpu2:8000", "serve --config radixway.yaml"),
    "slime-router": ("slime-router --sglang-router-port 30000",),
    "engine": ("engine --model Qwen/Qwen3-0.6B --port 30001",),
    "ask": ('ask "What is a radix tree?"', 'ask --model qwen3 --max-tokens 50 "Say hello."'),
    "explain": ("explain 23c82ff2860b30280000000027201117",),
    "classify": ('classify "How do I reverse a list in Python?"',),
    "simulate": ("simulate trace.jsonl --workers 8 --policy expected_time,round_robin",),
    "record": ("record --out trace.jsonl --limit 1000",),
    "usage": ("usage --from 2026-11-01 --by tenant,model", "usage --csv usage.csv"),
    "erase": ("erase --tenant acme --user alice",),
    "console": ("console --gateway http://gateway:30000 --listen 127.0.0.1:30009",),
    "worker": ("worker --backend-url http://127.0.0.1:8000 --server ws://chat:30000 --api-key KEY",),
    "operator": ("operator --namespace llm",),
    "top": ("top http://127.0.0.1:30000",),
    "keys create": ("keys create --team acme --max-budget 50 --budget-duration 30d",),
    "keys list": ("keys list",),
    "keys show": ("keys show KEY_ID",),
    "keys rotate": ("keys rotate KEY_ID --grace 24h",),
    "keys block": ("keys block KEY_ID",),
    "keys unblock": ("keys unblock KEY_ID",),
    "keys delete": ("keys delete KEY_ID",),
    "teams create": ("teams create acme --model qwen3 --max-budget 500 --budget-duration 30d",),
    "teams list": ("teams list",),
    "teams delete": ("teams delete acme",),
    "users create": ("users create ann --email ann@example.com --max-budget 20",),
    "users list": ("users list",),
    "users delete": ("users delete ann",),
    "budget list": ("budget list",),
    "budget set": ("budget set team acme --soft-budget 400",),
    "import litellm": ("import litellm config.yaml --out radixway.yaml",),
    "version": ("version",),
    "completion": (
        "completion bash >> ~/.bashrc",
        "completion fish > ~/.config/fish/completions/radixway.fish",
    ),
    "workers add": ("workers add http://gpu3:8000",),
    "workers announce": ("workers announce http://gpu3:8000 --url http://gateway:30000 --model qwen3",),
    "workers drain": ("workers drain http://gpu3:8000",),
    "workers resume": ("workers resume http://gpu3:8000",),
    "workers remove": ("workers remove http://gpu3:8000",),
    "workers list": ("workers list --url http://gateway:30000",),
    "config show": ("config show --config radixway.yaml",),
    "config check": ("config check radixway.yaml",),
    "audit verify": ("audit verify",),
    "audit head": ("audit head",),
    "audit show": ("audit show --tenant acme --rule pii",),
    "chat root-token": ("chat root-token",),
    "chat export": ("chat export --user USER_ID --out alice.json",),
    "chat scrub": ("chat scrub",),
    "chat users list": ("chat users list",),
    "chat users create": ("chat users create alice",),
    "chat users role": ("chat users role USER_ID admin",),
    "chat users delete": ("chat users delete USER_ID --with-chats",),
    "chat keys list": ("chat keys list",),
    "chat keys create": ("chat keys create engine-1 --scope worker --expires-in 90d",),
    "chat keys rotate": ("chat keys rotate KEY_ID --overlap 24h",),
    "chat keys revoke": ("chat keys revoke KEY_ID",),
    "ray deploy": ("ray deploy",),
    "ray status": ("ray status",),
    "ray delete": ("ray delete",),
    "plan": ("plan",),
    "plan profile": ("plan profile http://gpu1:8000 --model qwen3",),
    "rules test": ("rules test cases.yaml",),
}
"""By command, without `radixway`."""


def add_examples(app: typer.Typer, group: str = "") -> None:
    """Write the examples of each command of `app` below its help. `group`: the names above it."""
    for command in app.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")  # type: ignore[union-attr]
        command.epilog = command.epilog or format_examples(f"{group}{name}")
    for each in app.registered_groups:
        assert each.typer_instance is not None and each.name is not None
        each.epilog = format_examples(f"{group}{each.name}")
        add_examples(each.typer_instance, f"{group}{each.name} ")


def format_examples(command: str) -> str | None:
    """Return the examples of `command` as a paragraph of help that is not wrapped, None if there is none."""
    found = EXAMPLES.get(command)
    return "\n".join(("\b", "Examples:", *(f"  radixway {each}" for each in found))) if found else None
