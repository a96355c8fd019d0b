"""The page: an order on the left, simulations and what came of one on the right."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import PageVisit
from radixway.console.pages.simulate.outcome import draw_outcome
from radixway.console.pages.simulate.simulation_form import SimulationForm

_AGAIN_S = 1.0
_NOT_FOUND = 404
_LOOKS = {"done": "good", "failed": "bad", "cancelled": "warn"}
_OVER = ("done", "failed", "cancelled")


async def build_simulate_page(visit: PageVisit) -> None:
    """Build the page for `visit`, with the choices that the gateway offers."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"), ui.element("h1"):
        ui.label(say("simulate.title"))
    ui.label(say("simulate.hint")).classes("rw-muted")
    data = await visit.gateway.get_json("/simulate")
    page = _SimulationList(visit)
    with ui.element("div").classes("rw-sides"):
        SimulationForm(visit, data, page.show_simulation).draw_form()
        page.draw_empty()
    page.update_jobs(data)
    wanted: str | None = visit.request.query_params.get("job")
    if wanted is None and data["simulations"]:
        wanted = data["simulations"][0]["id"]
    if wanted:
        await page.show_simulation(wanted)
    visit.refresh_every(_AGAIN_S, page.reload_jobs)


class _SimulationList:
    """Those that the gateway remembers, and the one that is looked at."""

    def __init__(self, visit: PageVisit) -> None:
        self._visit = visit
        self._chosen: str | None = None
        self._shown: tuple[Any, ...] | None = None
        """The chosen one as it was drawn: id and state."""
        self._listed: list[tuple[Any, ...]] | None = None
        self._list: ui.element
        self._outcome: ui.element
        self._progress: ui.linear_progress | None = None
        self._percent: ui.label | None = None

    def draw_empty(self) -> None:
        """Both places, empty so far."""
        with ui.element("div").classes("rw-stack rw-side-wide"):
            with ui.element("section").classes("rw-card"):
                with ui.element("h2"):
                    ui.label(self._visit.say("simulate.jobs"))
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
        job = next((each for each in data["simulations"] if each["id"] == self._chosen), None)
        if job is None or self._chosen is None:
            self._clear_finished()
            return
        if (job["id"], job["state"]) != self._shown:
            try:
                whole = await self._visit.gateway.get_json(f"/simulate/{job['id']}")
            except CallRefusedError as error:
                if error.status != _NOT_FOUND:
                    raise
                self._clear_finished()
                return
            self._shown = (whole["id"], whole["state"])
            self._draw_outcome(whole)
        self._show_progress(job)

    def update_jobs(self, data: dict[str, Any]) -> None:
        """Draw the list of `data` again, where it has changed."""
        fresh = [(each["id"], each["state"], each["id"] == self._chosen) for each in data["simulations"]]
        if fresh == self._listed:
            return
        self._listed = fresh
        self._list.clear()
        with self._list:
            if not fresh:
                ui.label(self._visit.say("simulate.none")).classes("rw-muted")
            for each in data["simulations"]:
                self._draw_line(each)

    def _draw_line(self, job: dict[str, Any]) -> None:
        say, job_id, over = self._visit.say, job["id"], job["state"] in _OVER

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
            ui.label(
                say("simulate.of", policies=len(job["policies"]), workers=job["setting"]["workers"])
            ).classes("rw-muted rw-small")
            state = job["state"]
            ui.label(say(f"simulate.state.{state}")).classes(f"rw-chip {_LOOKS.get(state, '')}")
            ending = ui.button(icon="delete" if over else "stop", on_click=end).props("flat dense round")
            ending.props(f'aria-label="{say("simulate.forget" if over else "simulate.cancel")}"')

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
            with ui.element("section").classes("rw-card"):
                with ui.element("h2"):
                    ui.label(job["name"])
                if job["error"]:
                    ui.label(job["error"]).classes("rw-trouble")
                elif job["state"] == "cancelled":
                    ui.label(say("simulate.state.cancelled")).classes("rw-muted")
                else:
                    self._percent = ui.label().classes("rw-muted rw-small")
                    label = say("simulate.progress")
                    self._progress = ui.linear_progress(0, show_value=False).props(
                        f'rounded aria-label="{label}"'
                    )

    def _show_progress(self, job: dict[str, Any]) -> None:
        if self._progress is None or self._percent is None:
            return
        share = job["sent"] / job["total"] if job["total"] else 0.0
        self._progress.set_value(share)
        said = "simulate.sent" if job["total"] else f"simulate.state.{job['state']}"
        self._percent.set_text(self._visit.say(said, sent=job["sent"], total=job["total"]))
