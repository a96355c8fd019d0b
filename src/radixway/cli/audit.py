"""`radixway audit`: verify the audit log, print its end and its entries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from radixway.cli.options import ConfigFile, load_options
from radixway.cli.terminal import exit_on, exit_with_error, format_json, out
from radixway.core.config import ConfigError

if TYPE_CHECKING:
    from radixway.semantics.guard.audit import ChainHead, ChainVerdict, EntryHasher, Fields

audit_app = typer.Typer(help="The audit log of the guard.", no_args_is_help=True)

Log = Annotated[
    Path | None, Argument(help="The log's directory; by default the configured one.", metavar="PATH")
]
KeyFile = Annotated[
    Path | None,
    Option(help="The key it is sealed with; by default the configured one.", metavar="FILE"),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]


@audit_app.command()
def verify(
    path: Log = None,
    config: ConfigFile = None,
    key_file: KeyFile = None,
    expect: Annotated[str | None, Option(help="A head that was kept elsewhere.", metavar="SEQ:HASH")] = None,
    as_json: AsJson = False,
) -> None:
    """Check every entry of the log.

    Exit code 1 where one was changed, removed, reordered, or the end cut off.
    """
    from radixway.semantics.guard.audit import verify_log

    directory, seal = _audit_directory(path, config, key_file)
    wanted = None if expect is None else _parse_head(expect)
    with _exit_if_unreadable(directory):
        verdict = verify_log(directory, seal, wanted)
    if verdict.holds and not verdict.entries:
        exit_with_error(f"{directory} holds no audit log")
    if as_json:
        out.print(format_json(_verdict_json(verdict)))
    else:
        _show_verdict(verdict, seal)
    raise SystemExit(0 if verdict.holds else 1)


@audit_app.command()
def head(path: Log = None, config: ConfigFile = None, key_file: KeyFile = None) -> None:
    """Print where the log ends, as SEQ:HASH.

    Keep it elsewhere, for `verify --expect`.
    """
    from radixway.semantics.guard.audit import verify_log

    directory, seal = _audit_directory(path, config, key_file)
    with _exit_if_unreadable(directory):
        verdict = verify_log(directory, seal)
    if not verdict.holds or verdict.head is None:
        exit_with_error(f"{directory} has no head to keep: see `radixway audit verify`")
    out.print(str(verdict.head))


@audit_app.command()
def show(
    path: Log = None,
    config: ConfigFile = None,
    tenant: Annotated[str | None, Option(help="Only this tenant's.")] = None,
    user: Annotated[str | None, Option(help="Only this user's, by name; needs --tenant.")] = None,
    rule: Annotated[str | None, Option(help="Only this rule's: pii, jailbreak, answers …")] = None,
    request: Annotated[str | None, Option(help="Only this request's, by its id.")] = None,
    since: Annotated[
        datetime | None,
        Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="From then on, UTC.", metavar="DATE"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print entries, the oldest first.

    With --json as they stand in the files.
    """
    from radixway.semantics.guard.audit import encode_entry, search_entries

    directory, _ = _audit_directory(path, config, None)
    after = None if since is None else since.replace(tzinfo=UTC).timestamp()
    whose = None if user is None else _require_pseudonym(directory, tenant, user)
    with _exit_if_unreadable(directory):
        for entry in search_entries(
            directory, tenant=tenant, user=whose, rule=rule, request=request, since=after
        ):
            out.print(encode_entry(entry).decode() if as_json else _format_entry(entry))


@contextmanager
def _exit_if_unreadable(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        exit_with_error(f"{directory} cannot be read: {error.strerror or error}")


def _audit_directory(
    path: Path | None, config: Path | None, key_file: Path | None
) -> tuple[Path, EntryHasher]:
    """Return the log's directory, and how its entries are sealed."""
    from radixway.semantics.guard.audit import directory_of, seal_of

    section = load_options(config).guard.audit
    if key_file is not None:
        section = section.model_copy(update={"key_file": key_file, "key_env": None})
    with exit_on(ConfigError):
        return path or directory_of(section), seal_of(section)


def _parse_head(text: str) -> ChainHead:
    from radixway.semantics.guard.audit import ChainHead

    seq, _, digest = text.partition(":")
    if not (seq.isdecimal() and len(digest) == 64):
        exit_with_error(f"--expect takes SEQ:HASH as `radixway audit head` prints it, not {text!r}")
    return ChainHead(int(seq), digest.lower())


def _require_pseudonym(directory: Path, tenant: str | None, user: str) -> str:
    from radixway.semantics.guard.audit import find_pseudonym

    if tenant is None:
        exit_with_error("--user needs --tenant")
    found = find_pseudonym(directory, tenant, user)
    if found is None:
        exit_with_error(f"the log knows no user {user!r} of {tenant!r}, or does not any more")
    return found


def _show_verdict(verdict: ChainVerdict, seal: EntryHasher) -> None:
    for gap in verdict.gone:
        out.print(f"entries {gap['first']} to {gap['last']} are gone: older than they may be")
    if verdict.torn:
        out.print(f"cut off by crashes, and noted in the log: {verdict.torn}")
    if verdict.torn_end:
        out.print("the last line is cut off: by a crash, or because it is being written")
    broken = verdict.broken
    if broken is None:
        completeness = "whole" if verdict.is_end_known else "whole as far as they go"
        out.print(f"{verdict.entries} entries in {seal.name}, {completeness}: {verdict.head}")
        if verdict.kept is None:
            out.print(
                "nothing here says where the log ends, so entries cut off there cannot be detected"
                " without a head that was kept elsewhere (--expect)"
            )
        elif verdict.head is not None and verdict.kept.seq < verdict.head.seq:
            newer = verdict.head.seq - verdict.kept.seq
            out.print(f"the last {newer} are newer than the kept head: a crash, or they are being written")
        return
    where = f" ({broken.file}, line {broken.line})" if broken.file else ""
    out.print(f"entry {broken.seq} was {broken.what}{where}: {broken.detail}")
    if broken.what == "changed" and not verdict.entries:
        out.print("or it was sealed with another key: --key-file, or guard.audit in the configuration")


def _verdict_json(verdict: ChainVerdict) -> dict[str, Any]:
    broken, head = verdict.broken, verdict.head
    fault = ("seq", "what", "detail", "file", "line")
    return {
        "holds": verdict.holds,
        "entries": verdict.entries,
        "first": verdict.first,
        "head": None if head is None else {"seq": head.seq, "hash": head.hash},
        "removed": verdict.gone,
        "torn": verdict.torn,
        "torn_end": verdict.torn_end,
        "end_known": verdict.is_end_known,
        "broken": None if broken is None else {name: getattr(broken, name) for name in fault},
    }


def _format_entry(entry: Fields) -> str:
    whose = " ".join(str(entry[name]) for name in ("tenant", "user", "model") if entry.get(name))
    what = " ".join(str(entry[name]) for name in ("rule", "action") if entry.get(name)) or entry.get("kind")
    found = ", ".join(
        f"{span['type']} at {span['where']} {span['begin']}–{span['end']} ({span['confidence']})"
        for span in entry.get("findings", ())
    )
    parts = (entry["seq"], entry.get("time"), what, whose, entry.get("request", ""), found)
    return "  ".join(str(part) for part in parts if part != "")
