"""All that is known of one worker, beside the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nicegui import ui

from radixway.console.page import PageVisit
from radixway.console.worker_actions import WorkerActions
from radixway.core.telemetry.scrapes import MetricsScrape


class WorkerDetails:
    """A panel that opens at the side and follows what is read anew."""

    def __init__(self, visit: PageVisit, actions: WorkerActions) -> None:
        self._visit = visit
        self._actions = actions
        self._url: str | None = None
        self._shown: list[tuple[str, str]] = []
        self._state: str | None = None
        self._dialog = ui.dialog().props(
            "position=right full-height transition-show=fade transition-hide=fade"
        )
        with self._dialog, ui.card().classes("rw-side"):
            with ui.element("div").classes("rw-page-title"):
                with ui.element("h2").classes("rw-mono"):
                    self._title = ui.label()
                close = ui.button(icon="close", on_click=self._dialog.close).props("flat round dense")
                close.props(f'aria-label="{visit.say("frame.close")}"')
            self._buttons = ui.element("div").classes("rw-row")
            self._facts = ui.element("dl").classes("rw-facts")

    def open_worker(self, url: str) -> None:
        """Show the worker of `url`."""
        self._url, self._state, self._shown = url, None, []
        self.update_panel()
        self._dialog.open()

    def update_panel(self) -> None:
        """Show the latest reading; close the panel if the worker has left."""
        if self._url is None:
            return
        worker = next((each for each in self._visit.watch.workers if each["url"] == self._url), None)
        if worker is None:
            self._dialog.close()
            self._url = None
            return
        if worker["state"] != self._state:
            self._state = worker["state"]
            self._title.set_text(worker["name"])
            self._draw_buttons(worker)
        facts = list(self._worker_facts(worker))
        if facts != self._shown:
            self._shown = facts
            self._draw_facts(facts)

    def _draw_buttons(self, worker: Mapping[str, Any]) -> None:
        say = self._visit.say
        self._buttons.clear()
        rests = worker["state"] == "draining"
        with self._buttons:
            for what in ("resume" if rests else "drain", "remove"):
                button = ui.button(say(f"workers.{what}")).props("outline")
                button.on_click(lambda what=what: self._run_action(what))

    async def _run_action(self, what: str) -> None:
        worker = next((each for each in self._visit.watch.workers if each["url"] == self._url), None)
        if worker is not None:
            await self._actions.confirm_and_run(what, worker)

    def _draw_facts(self, facts: list[tuple[str, str]]) -> None:
        self._facts.clear()
        with self._facts:
            for label, value in facts:
                with ui.element("dt"):
                    ui.label(label)
                with ui.element("dd"):
                    ui.label(value)

    def _worker_facts(self, worker: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        say = self._visit.say

        def said(key: str, value: Any) -> tuple[str, str]:
            return say(f"workers.{key}"), str(value)

        yield said("address", worker["url"])
        yield said("state", say(f"workers.state.{worker['state']}"))
        yield said("models", ", ".join(worker["models"]) or "–")
        if worker["last_error"]:
            yield said("error", worker["last_error"])
        yield said("load", worker["in_flight"])
        if worker["in_flight_elsewhere"]:
            yield said("elsewhere", worker["in_flight_elsewhere"])
        yield said("answered", f"{worker['total']:,}")
        if worker["max_batch_size"]:
            yield said("batch", worker["max_batch_size"])
        if worker["kv_tokens"]:
            yield said("capacity", say("workers.capacity.tokens", count=f"{worker['kv_tokens']:,}"))
        yield from self._measured_facts(worker["name"])
        yield said("breaker", say(f"workers.breaker.{worker['breaker']}"))
        yield said("version", worker["weight_version"] or "–")
        yield said("role", worker["role"])
        if worker["pools"]:
            yield said("pools", ", ".join(worker["pools"]))
        yield said("sources", ", ".join(worker["sources"]) or "–")
        events = worker["kv_events"]
        reason = f" ({events['reason']})" if events["reason"] else ""
        yield said("events", f"{events['state']}{reason}")

    def _measured_facts(self, name: str) -> Iterator[tuple[str, str]]:
        say, watch = self._visit.say, self._visit.watch
        figures = watch.by_worker.get(name)
        if figures is not None:
            if figures.kv_usage is not None:
                yield say("workers.kv"), f"{figures.kv_usage:.0%}"
            if figures.reported_hits is not None:
                yield say("workers.hits"), f"{figures.reported_hits:.0%}"
            yield say("workers.tokens"), f"{figures.completion_tokens_per_s:.1f}"
        if watch.latest is not None:
            yield from self._own_metrics(name, watch.latest)

    def _own_metrics(self, name: str, latest: MetricsScrape) -> Iterator[tuple[str, str]]:
        """What its own metrics say, where it has any."""
        say = self._visit.say
        for key in ("running", "waiting"):
            value = latest.totals_by("worker", f"radixway_worker_{key}").get(name)
            if value is not None:
                yield say(f"workers.{key}"), f"{value:.0f}"
        most = latest.totals_by("tier", "radixway_worker_tier_tokens", worker=name)
        held = latest.totals_by("tier", "radixway_worker_tier_cached_tokens", worker=name)
        for tier, tokens in most.items():
            yield (
                say("workers.tier", tier=tier),
                say("workers.tier.of", held=f"{held.get(tier, 0):,.0f}", all=f"{tokens:,.0f}"),
            )
