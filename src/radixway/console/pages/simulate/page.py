"""*Simulate*: an order on the left, simulations and what came of one on the right."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from nicegui import events, ui

from radixway.console.components import draw_card, draw_icon_button, draw_page_title, on_single_click
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.simulate.outcome import draw_outcome

_UPLOAD = "upload"
"""In place of a sample's name: a file of one's own."""
_DEFAULT_POLICIES = ("expected_time", "kv_aware", "prefix_affinity", "least_loaded", "round_robin")
_REFRESH_S = 1.0
_MOODS = {"done": "good", "failed": "bad", "cancelled": "warn"}
"""Of states in which nothing goes on."""


async def build_simulate_page(visit: PageVisit) -> None:
    """Build the page for `visit`, with the choices that the gateway offers."""
    say = visit.say
    draw_page_title(say("simulate.title"))
    ui.label(say("simulate.hint")).classes("rw-muted")
    data = await visit.gateway.get_json("/simulate")
    with ui.element("div").classes("rw-sides"):
        _SimulationForm(visit, data, lambda job_id: page.show_simulation(job_id))
        page = _SimulationList(visit)
    page.update_jobs(data)
    wanted: str | None = visit.request.query_params.get("job")
    if wanted is None and data["simulations"]:
        wanted = data["simulations"][0]["id"]
    if wanted:
        await page.show_simulation(wanted)
    visit.refresh_every(_REFRESH_S, page.reload_jobs)


class _SimulationList:
    """The simulations that the gateway remembers, and the one that is looked at."""

    def __init__(self, visit: PageVisit) -> None:
        self._visit = visit
        self._chosen: str | None = None
        self._shown: tuple[Any, ...] | None = None
        """Id and state of the chosen simulation as drawn."""
        self._listed: list[tuple[Any, ...]] | None = None
        self._progress: ui.linear_progress | None = None
        self._percent: ui.label | None = None
        with ui.element("div").classes("rw-stack rw-side-wide"):
            with draw_card(visit.say("simulate.jobs")):
                self._list = ui.element("div").classes("rw-stack")
            self._outcome = ui.element("div").classes("rw-stack").props("aria-live=polite")

    async def show_simulation(self, job_id: str) -> None:
        """Show the simulation `job_id` from now on."""
        self._chosen = job_id
        ui.navigate.history.replace(f"{self._visit.link('/simulate')}?{urlencode({'job': job_id})}")
        await self.reload_jobs()

    async def reload_jobs(self) -> None:
        """Reload the progress of all simulations."""
        data = await self._visit.gateway.get_json("/simulate")
        self.update_jobs(data)
        job = next((job for job in data["simulations"] if job["id"] == self._chosen), None)
        if job is None or self._chosen is None:
            self._clear_finished()
            return
        if (job["id"], job["state"]) != self._shown:
            details = await self._visit.gateway.find_json(f"/simulate/{job['id']}")
            if details is None:
                self._clear_finished()
                return
            self._shown = (details["id"], details["state"])
            self._draw_outcome(details)
        self._show_progress(job)

    def update_jobs(self, data: dict[str, Any]) -> None:
        """Draw the list of `data` again, where it has changed."""
        fresh = [(job["id"], job["state"], job["id"] == self._chosen) for job in data["simulations"]]
        if fresh == self._listed:
            return
        self._listed = fresh
        self._list.clear()
        with self._list:
            if not fresh:
                ui.label(self._visit.say("simulate.none")).classes("rw-muted")
            for job in data["simulations"]:
                self._draw_line(job)

    def _draw_line(self, job: dict[str, Any]) -> None:
        say, job_id = self._visit.say, job["id"]

        async def show() -> None:
            async with self._visit.catch_call_errors():
                await self.show_simulation(job_id)

        async def end() -> None:
            async with self._visit.catch_call_errors():
                await self._visit.gateway.send_request("DELETE", f"/simulate/{job_id}")
                await self.reload_jobs()

        with ui.element("div").classes("rw-row rw-job"):
            button = ui.button(job["name"], on_click=show).props("flat dense no-caps align=left")
            button.classes("rw-fill")
            if job_id == self._chosen:
                button.props("aria-current=true")
            size = say("simulate.of", policies=len(job["policies"]), workers=job["setting"]["workers"])
            ui.label(size).classes("rw-muted rw-small")
            state = job["state"]
            ui.label(say(f"simulate.state.{state}")).classes(f"rw-chip {_MOODS.get(state, '')}")
            if state in _MOODS:
                draw_icon_button("delete", say("simulate.forget"), end)
            else:
                draw_icon_button("stop", say("simulate.cancel"), end)

    def _clear_finished(self) -> None:
        if self._shown is not None:
            self._shown = None
            self._outcome.clear()

    def _draw_outcome(self, job: dict[str, Any]) -> None:
        say = self._visit.say
        self._outcome.clear()
        self._progress = self._percent = None
        with self._outcome:
            if job["state"] == "done":
                draw_outcome(say, job)
                return
            with draw_card(job["name"]):
                if job["error"]:
                    ui.label(job["error"]).classes("rw-trouble")
                elif job["state"] == "cancelled":
                    ui.label(say("simulate.state.cancelled")).classes("rw-muted")
                else:
                    self._percent = ui.label().classes("rw-muted rw-small")
                    self._progress = ui.linear_progress(0, show_value=False)
                    self._progress.props(f'rounded aria-label="{say("simulate.progress")}"')

    def _show_progress(self, job: dict[str, Any]) -> None:
        if self._progress is None or self._percent is None:
            return
        share = job["sent"] / job["total"] if job["total"] else 0.0
        self._progress.set_value(share)
        key = "simulate.sent" if job["total"] else f"simulate.state.{job['state']}"
        self._percent.set_text(self._visit.say(key, sent=job["sent"], total=job["total"]))


class _SimulationForm:
    """A trace, policies, what engines are like, and the button that begins."""

    def __init__(
        self, visit: PageVisit, data: dict[str, Any], on_start: Callable[[str], Awaitable[None]]
    ) -> None:
        """Draw the form of `data`, that of `GET /simulate`; `on_start` gets each new simulation's id."""
        self._visit = visit
        self._on_start = on_start
        self._body: bytes | None = None
        self._file = ""
        say = visit.say
        with draw_card(say("simulate.order")).classes("rw-order"):
            traces = {name: say(f"simulate.sample.{name}") for name in data["samples"]}
            first = next(name for name in data["samples"] if name != "recent")
            self._trace = ui.select(
                traces | {_UPLOAD: say("simulate.sample.upload")},
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
                value=[name for name in _DEFAULT_POLICIES if name in data["policies"]],
                multiple=True,
                label=say("simulate.policies"),
                new_value_mode="add-unique",
            ).props("outlined dense use-chips options-dense")
            ui.label(say("simulate.policies_hint")).classes("rw-muted rw-small")
            with ui.element("div").classes("rw-pairs"):
                limit = int(data["limits"]["workers"])
                self._workers = ui.number(say("simulate.workers"), value=4, min=1, max=limit, precision=0)
                self._kv_tokens = ui.number(say("simulate.kv_tokens"), value=200_000, min=1, precision=0)
                self._speedup = ui.number(say("simulate.speedup"), value=1, min=0.01)
                self._limit = ui.number(say("simulate.limit"), min=1, precision=0)
                for field in (self._workers, self._kv_tokens, self._speedup, self._limit):
                    field.props("outlined dense")
            self._events = ui.switch(say("simulate.events"), value=True)
            self._engine = ui.input(say("simulate.engine"), placeholder="prefill_s=0.0001,step_s=0.01")
            self._engine.props("outlined dense stack-label")
            on_single_click(ui.button(say("simulate.run"), icon="play_arrow"), self._start_simulation)

    def _trace_chosen(self, event: Any) -> None:
        self._upload.set_visibility(event.value == _UPLOAD)

    async def _store_upload(self, event: events.UploadEventArguments) -> None:
        self._body, self._file = await event.file.read(), event.file.name

    async def _start_simulation(self) -> None:
        say = self._visit.say
        uploads = self._trace.value == _UPLOAD
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
            await self._on_start(job["id"])


def _to_int(value: float | None) -> int | None:
    return None if value is None else int(value)


PAGE = ConsolePage(name="simulate", path="/simulate", icon="science", key="s", build=build_simulate_page)
