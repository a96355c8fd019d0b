"""The live page: Textual draws it, a `TopView` says what is on it."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import ClassVar

import yaml
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from radixway.cli.top.gateway_view import GatewayReader, PartUnavailable, SeenWorker, TopView
from radixway.cli.top.tables import (
    REQUEST_COLUMNS,
    TILES,
    UNKNOWN,
    WORKER_COLUMNS,
    request_row,
    sparkline,
    strip_control,
    worker_row,
)
from radixway.cli.top.text_frame import headline
from radixway.core.http.gateway_client import GatewayCallError


class TopApp(App[None]):
    """Shows a gateway's `view`, read every `interval_s`."""

    TITLE = "radixway top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layers: base; }
    #headline { height: 1; text-style: bold; }
    #tiles { height: 6; grid-size: 4 2; grid-rows: 3; grid-gutter: 0 1; }
    .about { height: 1; margin-top: 1; text-style: bold; }
    DataTable { background: transparent; scrollbar-size: 0 1; }
    #workers { height: auto; max-height: 45%; min-height: 3; }
    #requests { height: 1fr; }
    DataTable > .datatable--header { background: transparent; text-style: underline; }
    DataTable > .datatable--cursor { background: transparent; color: ansi_default; text-style: none; }
    DataTable:focus > .datatable--cursor { text-style: reverse; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    #filter.open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        Binding("p", "pause", "Pause"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("d", "drain", "Drain/resume"),
        Binding("enter", "open", "Explain", show=False),
        Binding("tab", "focus_next", "Next table", show=False),
        Binding("escape", "unfilter", "Show all", show=False),
    ]

    def __init__(self, reader: GatewayReader, interval_s: float = 2.0) -> None:
        super().__init__(ansi_color=True)  # the terminal's own colours, light or dark
        self.view = TopView(reader.url)
        self.paused = False
        self._reader = reader
        self._interval_s = interval_s
        self._looking = asyncio.Lock()
        """Serializes readings, so that the view sees them in order."""
        self._now = asyncio.Event()
        """Set to take the next reading at once."""
        self._words = ""
        self._notice = ""
        """Result of the last key, until the next reading."""

    def compose(self) -> ComposeResult:
        self._head = Static(id="headline", markup=False)
        self._tiles = [Static(markup=False) for _ in TILES]
        self._about_workers = Static(classes="about", markup=False)
        self._workers_table = _make_table("workers", WORKER_COLUMNS)
        self._about_requests = Static(classes="about", markup=False)
        self._requests_table = _make_table("requests", REQUEST_COLUMNS)
        self._filter = Input(id="filter", placeholder="words to look for; Escape shows all", compact=True)
        yield self._head
        yield Grid(*self._tiles, id="tiles")
        yield from (self._about_workers, self._workers_table, self._about_requests, self._requests_table)
        yield self._filter
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self._workers_table.focus()
        self.redraw()
        self.following = self.run_worker(self._poll_forever())

    def on_resize(self) -> None:
        self.call_after_refresh(self.redraw)

    async def _poll_forever(self) -> None:
        while True:
            self._now.clear()
            if not self.paused:
                await self.poll_gateway()
            try:
                async with asyncio.timeout(None if self.paused else self._interval_s):
                    await self._now.wait()
            except TimeoutError:
                continue

    async def poll_gateway(self) -> None:
        """Read once, and show the outcome, also of a failure."""
        async with self._looking:
            try:
                self.view.add_sample(await self._reader.read_sample())
            except GatewayCallError as error:
                self.view.mark_lost(str(error))
        self.redraw()

    def redraw(self) -> None:
        """Draw what the view holds."""
        view = self.view
        self._head.update(self.headline())
        for tile, widget in zip(TILES, self._tiles, strict=True):
            values = [None if past is None else tile.draws(past) for past in view.past]
            line = sparkline(values, widget.size.width)
            says = UNKNOWN if view.figures is None else tile.says(view.figures)
            widget.update(Text.assemble((tile.label, "dim"), "\n", (says, "bold"), f"\n{line}"))
        workers, requests = view.filter_workers(self._words), view.filter_requests(self._words)
        self._about_workers.update(self._table_title("Workers", len(workers), view.workers))
        self._about_requests.update(self._table_title("Latest requests", len(requests), view.requests))
        figures = view.worker_figures
        _fill_table(
            self._workers_table, {seen.url: worker_row(seen, figures.get(seen.name)) for seen in workers}
        )
        _fill_table(self._requests_table, {request.id: request_row(request) for request in requests})

    def headline(self) -> str:
        """Return the gateway's and the page's state."""
        state = "PAUSED  " if self.paused else ""
        gone = f"  for {monotonic() - self.view.away_since:.0f} s" if self.view.away is not None else ""
        return strip_control(
            f"{state}{headline(self.view)}{gone}{'  ' if self._notice else ''}{self._notice}"
        )

    def _table_title(self, what: str, shown: int, part: object) -> str:
        if isinstance(part, PartUnavailable):
            return strip_control(f"{what}: not shown: {part.why}")
        return strip_control(f"{what}: {shown}" + (f" with “{self._words}”" if self._words else ""))

    def action_pause(self) -> None:
        """Pause, or resume."""
        self.paused = not self.paused
        self._now.set()
        self.redraw()

    def action_filter(self) -> None:
        """Ask for words."""
        self._filter.add_class("open")
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._words = event.value
        self.redraw()

    def on_input_submitted(self) -> None:
        self._close_filter()

    def action_unfilter(self) -> None:
        """Show all again."""
        self._filter.value = ""
        self._close_filter()

    def _close_filter(self) -> None:
        self._filter.remove_class("open")
        self._workers_table.focus()

    def action_drain(self) -> None:
        """Ask whether the worker under the cursor is to get nothing new, or requests again."""
        key = _cursor_row_key(self._workers_table)
        worker = next((worker for worker in self.view.filter_workers(self._words) if worker.url == key), None)
        if worker is None:
            return
        draining = worker.state == "draining"
        question = (
            f"Send requests to {worker.name} again?"
            if draining
            else f"Drain {worker.name}? It gets nothing new and ends what it has."
        )

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._drain_worker(worker, back=draining))

        self.push_screen(ConfirmScreen(strip_control(question)), answered)

    async def _drain_worker(self, worker: SeenWorker, *, back: bool) -> None:
        try:
            await (self._reader.resume_worker if back else self._reader.drain_worker)(worker.url)
            self._notice = f"{worker.name} {'is back' if back else 'drains'}"
        except GatewayCallError as error:
            self._notice = str(error)
        await self.poll_gateway()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "requests" and event.row_key.value is not None:
            self.run_worker(self._show_explanation(event.row_key.value))

    async def _show_explanation(self, request_id: str) -> None:
        try:
            journal = await self._reader.fetch_explanation(request_id)
            text = yaml.safe_dump(journal, sort_keys=False, allow_unicode=True)
        except GatewayCallError as error:
            text = str(error)
        self.push_screen(TextScreen(text))


class ConfirmScreen(ModalScreen[bool]):
    """Yes or no."""

    CSS = """
    ConfirmScreen { align: center middle; }
    ConfirmScreen Static { width: auto; border: solid; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,q", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(f"{self._question}\n\ny yes   n no", markup=False)


class TextScreen(ModalScreen[None]):
    """A text to scroll through."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Text(self._text))
        yield Footer(compact=True, show_command_palette=False)


def _make_table(name: str, columns: Sequence[str]) -> DataTable[Text]:
    table: DataTable[Text] = DataTable(id=name, cursor_type="row", cell_padding=0, zebra_stripes=False)
    for head in columns:
        table.add_column(f"{head} ", key=head)
    return table


def _fill_table(table: DataTable[Text], rows: dict[str, list[str]]) -> None:
    """Put these rows there, by key and in this order; cursor and scrolling stay where they were."""
    shown = [row.key.value for row in table.ordered_rows]
    if shown == list(rows):
        for key, words in rows.items():
            for column, word in zip(table.columns, words, strict=True):
                table.update_cell(key, column, Text(f"{word} "), update_width=True)
        return
    under, at = _cursor_row_key(table), table.scroll_y
    table.clear()
    for key, words in rows.items():
        table.add_row(*(Text(f"{word} ") for word in words), key=key)
    if under in rows:
        table.move_cursor(row=list(rows).index(under), scroll=False)
    table.scroll_to(y=at, animate=False)


def _cursor_row_key(table: DataTable[Text]) -> str | None:
    if not table.is_valid_row_index(table.cursor_row):
        return None
    return table.ordered_rows[table.cursor_row].key.value
