"""The form of a simulation: a trace, policies, and what engines are like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import events, ui

from radixway.console.page import PageVisit

UPLOAD = "upload"
"""In place of a sample's name: a file of one's own."""
_USUAL = ("expected_time", "kv_aware", "prefix_affinity", "least_loaded", "round_robin")


class SimulationForm:
    """A form."""

    def __init__(
        self, visit: PageVisit, data: dict[str, Any], begun: Callable[[str], Awaitable[None]]
    ) -> None:
        """`data`: of `GET /simulate`. `begun`: told the id of each simulation that was asked for."""
        self._visit = visit
        self._data = data
        self._begun = begun
        self._body: bytes | None = None
        self._file = ""

    def draw_form(self) -> None:
        """Fields, and the button that begins."""
        say, data = self._visit.say, self._data
        with ui.element("section").classes("rw-card rw-order"):
            with ui.element("h2"):
                ui.label(say("simulate.order"))
            traces = {name: say(f"simulate.sample.{name}") for name in data["samples"]}
            first = next(name for name in data["samples"] if name != "recent")
            self._trace = ui.select(
                traces | {UPLOAD: say("simulate.sample.upload")},
                value=first,
                label=say("simulate.trace"),
                on_change=self._trace_chosen,
            ).props("outlined dense")
            self._upload = ui.upload(
                label=say("simulate.drop", most=data["limits"]["trace_bytes"] // 2**20),
                max_file_size=int(data["limits"]["trace_bytes"]),
                auto_upload=True,
                max_files=1,
                on_upload=self._store_upload,
                on_rejected=lambda: ui.notify(say("simulate.too_large"), type="negative"),
            ).props("flat bordered")
            self._upload.set_visibility(False)
            self._policies = ui.select(
                list(data["policies"]),
                value=[name for name in _USUAL if name in data["policies"]],
                multiple=True,
                label=say("simulate.policies"),
                new_value_mode="add-unique",
            ).props("outlined dense use-chips options-dense")
            ui.label(say("simulate.policies_hint")).classes("rw-muted rw-small")
            with ui.element("div").classes("rw-pairs"):
                most = int(data["limits"]["workers"])
                self._workers = ui.number(say("simulate.workers"), value=4, min=1, max=most, precision=0)
                self._kv_tokens = ui.number(say("simulate.kv_tokens"), value=200_000, min=1, precision=0)
                self._speedup = ui.number(say("simulate.speedup"), value=1, min=0.01)
                self._limit = ui.number(say("simulate.limit"), min=1, precision=0)
                for field in (self._workers, self._kv_tokens, self._speedup, self._limit):
                    field.props("outlined dense")
            self._events = ui.switch(say("simulate.events"), value=True)
            self._engine = ui.input(say("simulate.engine"), placeholder="prefill_s=0.0001,step_s=0.01")
            self._engine.props("outlined dense stack-label")
            ui.button(say("simulate.run"), icon="play_arrow", on_click=self._start_simulation)

    def _trace_chosen(self, event: Any) -> None:
        self._upload.set_visibility(event.value == UPLOAD)

    async def _store_upload(self, event: events.UploadEventArguments) -> None:
        self._body, self._file = await event.file.read(), event.file.name

    async def _start_simulation(self) -> None:
        say = self._visit.say
        uploads = self._trace.value == UPLOAD
        if uploads and not self._body:
            ui.notify(say("simulate.no_file"), type="warning")
            return
        if not self._policies.value:
            ui.notify(say("simulate.no_policy"), type="warning")
            return
        query = {
            "policies": ",".join(self._policies.value),
            "workers": _to_int(self._workers.value),
            "kv_tokens": _to_int(self._kv_tokens.value),
            "speedup": self._speedup.value,
            "limit": _to_int(self._limit.value),
            "events": "true" if self._events.value else "false",
            "engine": self._engine.value or None,
            "sample": None if uploads else self._trace.value,
            "name": self._file[-100:] if uploads else None,
        }
        async with self._visit.catch_call_errors():
            job = await self._visit.gateway.send_request(
                "POST", "/simulate", body=self._body if uploads else b"", query=query
            )
            await self._begun(job["id"])


def _to_int(value: float | None) -> int | None:
    return None if value is None else int(value)
