"""*Cache*: answers that the semantic cache keeps, how often they are given, and forgetting one or all."""

from collections.abc import Mapping
from typing import Any

from nicegui import events, ui

from radixway.console.components import (
    ask_confirmation,
    draw_card,
    draw_empty,
    draw_facts,
    draw_how_to_enable,
    draw_page_title,
    draw_row_table,
    draw_tile,
    format_time,
    notify_done,
    table_columns,
)
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.texts import TEXTS, TextCatalog

_ENTRIES = 500
_REFRESH_S = 3.0
_COLUMNS = ("question", "tenant", "user", "model", "created", "expires", "forget")
_TILES = ("entries", "hit_rate", "hits", "misses")


async def build_cache_page(visit: PageVisit) -> None:
    """Build the page for `visit`: figures and thresholds above the kept answers."""
    say = visit.say
    with draw_page_title(say("cache.title")):
        forget_all = ui.button(say("cache.forget_all"), icon="delete_sweep").props("outline")
    ui.label(say("cache.hint")).classes("rw-muted")
    stats = await visit.gateway.find_json("/cache/stats")
    if stats is None:
        forget_all.delete()
        draw_how_to_enable(say, "cache")
        return
    with ui.element("div").classes("rw-tiles"):
        tiles = {name: draw_tile(say(f"cache.{name}")) for name in _TILES}
    with ui.element("div").classes("rw-grid wide"):
        with draw_card(say("cache.thresholds"), say("cache.thresholds.hint")):
            draw_facts(_threshold_rows(say, stats))
        with draw_card(say("cache.reasons")):
            passed = ui.element("div")
    columns = table_columns(say, "cache", _COLUMNS)
    table = draw_row_table(columns, "cache_row.html", pagination={"rowsPerPage": 50})
    table.classes("rw-single").props(
        f'flat dense aria-label="{say("cache.entries")}" no-data-label="{say("cache.none")}"'
    )
    ui.label(say("cache.kept.note", backend=stats["backend"])).classes("rw-muted rw-small")

    async def refresh() -> None:
        fresh = await visit.gateway.get_json("/cache/stats")
        kept = await visit.gateway.get_json("/cache/entries", limit=_ENTRIES)
        for name, text in _tile_texts(fresh).items():
            tiles[name].set_text(text)
        passed.clear()
        with passed:
            _draw_counts(say, fresh["counts"])
        rows = [_entry_cells(say, entry) for entry in kept["entries"]]
        if rows != table.rows:
            table.rows = rows

    async def forget(event: events.GenericEventArguments) -> None:
        async with visit.catch_call_errors():
            reply = await visit.gateway.post_json("/cache/purge", {"entry": str(event.args)})
            notify_done(visit, say("cache.forgotten", count=reply["removed"]))
            await refresh()

    async def flush() -> None:
        question = say("cache.forget_all.ask")
        if not await ask_confirmation(visit, question, say("cache.forget_all"), dangerous=True):
            return
        async with visit.catch_call_errors():
            reply = await visit.gateway.post_json("/cache/flush")
            notify_done(visit, say("cache.forgotten", count=reply["removed"]))
            await refresh()

    table.on("forget", forget)
    forget_all.on_click(flush)
    await refresh()
    visit.refresh_every(_REFRESH_S, refresh)


def _tile_texts(stats: Mapping[str, Any]) -> dict[str, str]:
    counts, rate = stats["counts"], stats["hit_rate"]
    return {
        "entries": f"{stats['entries']:,}",
        "hit_rate": "–" if rate is None else f"{rate:.0%}",
        "hits": f"{counts.get('hits', 0):,}",
        "misses": f"{counts.get('misses', 0):,}",
    }


def _threshold_rows(say: TextCatalog, stats: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the thresholds by what they are of; categories have their own names."""
    rows = []
    for name, share in stats["thresholds"].items():
        key = f"cache.threshold.{name}"
        rows.append((say(key) if key in TEXTS else name, f"{share:.2f}"))
    rows.append((say("cache.ttl"), say("cache.seconds", seconds=f"{stats['ttl_s']:,.0f}")))
    return [*rows, (say("cache.max_entries"), f"{stats['max_entries']:,}")]


def _draw_counts(say: TextCatalog, counts: Mapping[str, Any]) -> None:
    """Draw how many requests passed by, or had an answer that was not kept, by reason."""
    rows = [
        (say(f"cache.{kind}", reason=name.removeprefix(kind).strip("_").replace("_", " ")), f"{value:,}")
        for kind in ("passed", "not_kept")
        for name, value in counts.items()
        if name.startswith(f"{kind}_") and value
    ]
    if rows:
        draw_facts(rows)
    else:
        draw_empty(say("cache.reasons.none"))


def _entry_cells(say: TextCatalog, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return `entry` as the cells of `cache_row.html`."""
    expires = entry["expires_at"]
    return {
        "id": entry["id"],
        "question": entry["question"] or "",
        "short": entry["id"][:12],
        "tenant": entry["tenant"] or "–",
        "user": entry["user"] or "–",
        "model": entry["model"],
        "created": format_time(entry["created_at"], "%m-%d %H:%M:%S"),
        "expires": say("cache.never") if expires is None else format_time(expires, "%m-%d %H:%M:%S"),
        "forget": say("cache.forget"),
    }


PAGE = ConsolePage(name="cache", path="/cache", icon="cached", key="e", build=build_cache_page)
