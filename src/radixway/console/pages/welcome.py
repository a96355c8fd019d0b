"""*Welcome*: three things to do first: ask a question, look at a decision, compare policies."""

from urllib.parse import quote

from nicegui import ui

from radixway.console.components import draw_card, draw_page_title, to_json
from radixway.console.page import ConsolePage, PageVisit

_EXAMPLES = 3


async def build_welcome_page(visit: PageVisit) -> None:
    """Build the page for `visit`: whether workers are ready, and three cards."""
    say = visit.say
    with draw_page_title(say("welcome.title")):
        status = ui.label().classes("rw-muted").props("role=status")
    ui.label(say("welcome.lead")).classes("rw-muted")
    with ui.element("div").classes("rw-grid rw-welcome"):
        with _draw_step(visit, 1, "ask"):
            question = ui.textarea(value=say("welcome.ask.example.1")).props("outlined autogrow rows=1")
            question.props(f'aria-label="{say("welcome.ask.question")}"')

            def ask(text: str | None = None) -> None:
                if wanted := (text or question.value or "").strip():
                    ui.run_javascript(f"radixway.ask({to_json(wanted)})")

            ui.button(say("welcome.ask.go"), icon="play_arrow", on_click=lambda: ask()).props("unelevated")
            for number in range(2, _EXAMPLES + 1):
                example = say(f"welcome.ask.example.{number}")
                button = ui.button(example, on_click=lambda example=example: ask(example))
                button.props("flat dense no-caps align=left")
        with _draw_step(visit, 2, "decision"):
            latest = await visit.gateway.get_json("/requests", limit=1)
            if latest["requests"]:
                request_id = quote(latest["requests"][0]["id"], safe="")
                _draw_link(visit, "welcome.decision.latest", f"/requests/{request_id}")
            _draw_link(visit, "welcome.decision.look", "/playground")
        with _draw_step(visit, 3, "compare"):
            _draw_link(visit, "welcome.compare.go", "/simulate")

    def show() -> None:
        workers = visit.watch.workers
        ready = [worker for worker in workers if worker["state"] == "ready"]
        models = sorted({model for worker in ready for model in worker["models"]})
        key = "welcome.status" if ready else "welcome.status.none"
        status.set_text(say(key, ready=len(ready), count=len(workers), models=", ".join(models) or "–"))

    visit.on_new_sample(show)


def _draw_step(visit: PageVisit, number: int, name: str) -> ui.element:
    """Draw the card of step `number`; what is drawn within it follows."""
    return draw_card(f"{number} · {visit.say(f'welcome.{name}')}", visit.say(f"welcome.{name}.why"))


def _draw_link(visit: PageVisit, key: str, path: str) -> None:
    with ui.element("a").props(f'href="{visit.link(path)}"').classes("rw-return"):
        ui.label(visit.say(key))
        ui.icon("east").props("aria-hidden=true")


PAGE = ConsolePage(name="welcome", path="/welcome", icon="home", key="h", build=build_welcome_page)
