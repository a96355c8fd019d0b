"""Files beside a question: their text is put into the message, up to a limit that the visitor is told."""

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nicegui import events, ui

from radixway.console.components import draw_icon_button
from radixway.console.page import PageVisit

MAX_FILE_BYTES = 10 * 2**20
MAX_CHARS = 20_000
"""Characters of all attached files together."""
_MAX_FILES = 8
_PDF_TIMEOUT_S = 20.0
_PDF_READER = "radixway.chat.plugins"
_PDF = b"%PDF-"


class UnreadableFileError(Exception):
    """The file holds no text that can be read; the argument is the key of the reason."""


@dataclass(frozen=True, slots=True)
class AttachedText:
    """The text of a file."""

    name: str
    text: str
    is_cut: bool = False


class AttachmentTray:
    """The files attached to the next question, drawn where it is made."""

    def __init__(self, visit: PageVisit) -> None:
        self._visit = visit
        self._files: list[AttachedText] = []
        say = visit.say
        self._chips = ui.element("div").classes("rw-row rw-tight").props('id="rw-attached" role=status')
        self._upload = ui.upload(
            max_file_size=MAX_FILE_BYTES,
            auto_upload=True,
            multiple=True,
            on_upload=self._attach_upload,
            on_rejected=lambda: ui.notify(
                say("chat.attach.too_large", most=MAX_FILE_BYTES // 2**20), type="warning"
            ),
        ).classes("rw-hidden")
        self._upload.on("finish", self._upload.reset)  # after all files

    def draw_button(self) -> None:
        """Draw the button that chooses files."""
        label = self._visit.say("chat.attach", characters=f"{MAX_CHARS:,}", most=MAX_FILE_BYTES // 2**20)
        button = draw_icon_button("attach_file", label, props="flat round dense")
        button.props(remove="color").tooltip(label)
        button.on_click(lambda: self._upload.run_method("pickFiles"))

    @property
    def is_empty(self) -> bool:
        """Tell if nothing is attached."""
        return not self._files

    def take_texts(self) -> list[AttachedText]:
        """Return what is attached, and attach nothing any more."""
        files, self._files = self._files, []
        self._draw_chips()
        return files

    def put_back(self, files: list[AttachedText]) -> None:
        """Attach `files` again, as they could not be sent."""
        self._files = [*files, *self._files]
        self._draw_chips()

    async def _attach_upload(self, event: events.UploadEventArguments) -> None:
        say, name = self._visit.say, event.file.name
        if len(self._files) >= _MAX_FILES:
            ui.notify(say("chat.attach.too_many", most=_MAX_FILES), type="warning")
            return
        try:
            text = await read_file_text(await event.file.read(), MAX_CHARS + 1)
        except UnreadableFileError as error:
            ui.notify(say(str(error), name=name), type="warning", multi_line=True)
            return
        left = MAX_CHARS - sum(len(file.text) for file in self._files)
        if left <= 0:
            ui.notify(say("chat.attach.full", name=name, characters=f"{MAX_CHARS:,}"), type="warning")
            return
        is_cut = len(text) > left
        if is_cut:
            ui.notify(say("chat.attach.cut", name=name, characters=f"{MAX_CHARS:,}"), type="warning")
        self._files.append(AttachedText(name, text[:left], is_cut))
        self._draw_chips()

    def _draw_chips(self) -> None:
        say = self._visit.say
        self._chips.clear()
        with self._chips:
            for file in self._files:
                key = "chat.attach.chip_cut" if file.is_cut else "chat.attach.chip"
                chip = ui.button(say(key, name=file.name, characters=f"{len(file.text):,}"))
                chip.props(f'flat dense no-caps icon-right=close aria-label="{say("chat.attach.remove")}"')
                chip.classes("rw-chip plain").on_click(lambda file=file: self._remove_file(file))

    def _remove_file(self, file: AttachedText) -> None:
        self._files.remove(file)
        self._draw_chips()


def join_attachments(files: list[AttachedText], text: str) -> str:
    """Return the message of `text` with the texts of `files` before it, each between lines that name it."""
    parts = [f"[{file.name}]\n{file.text.strip()}\n[/{file.name}]" for file in files]
    return "\n\n".join([*parts, text]).strip()


async def read_file_text(raw: bytes, max_chars: int) -> str:
    """Return at most `max_chars` of the text in `raw`, UTF-8 or a PDF. Raises UnreadableFileError."""
    if raw.lstrip()[: len(_PDF)] == _PDF:
        return await _read_pdf_text(raw, max_chars)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFileError("chat.attach.no_text") from None
    if "\0" in text or not text.strip():
        raise UnreadableFileError("chat.attach.no_text")
    return text[:max_chars]


async def _read_pdf_text(raw: bytes, max_chars: int) -> str:
    """Read a PDF in the process in which pages of strangers are read: little memory, little time."""
    found = find_spec(_PDF_READER)
    if found is None or found.origin is None or find_spec("pypdf") is None:
        raise UnreadableFileError("chat.attach.no_pdf")
    program = Path(found.origin).with_name("page_text.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(program), "pdf", str(max_chars)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PDF_TIMEOUT_S):
            text, _ = await process.communicate(raw)
    except TimeoutError:
        raise UnreadableFileError("chat.attach.bad_pdf") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise UnreadableFileError("chat.attach.bad_pdf")
    if not text.strip():
        raise UnreadableFileError("chat.attach.empty_pdf")
    return text.decode("utf-8", "replace").replace("\0", "")
