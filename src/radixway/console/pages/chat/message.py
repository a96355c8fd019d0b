"""One message: its text, which of its siblings it is, and what can be done with it.

A model's text is markdown: HTML in it is text, images are links, and links that would act are text.
markdown-it takes time in proportion to the text, whatever stands there; a converter made of patterns can be
made to fail, or to hold up every page, by an answer of nothing but brackets.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from html import escape
from time import perf_counter
from typing import Any, Protocol

from markdown_it import MarkdownIt
from nicegui import ui

from radixway.console.components import draw_chip, draw_icon_button, format_date
from radixway.console.page import PageVisit
from radixway.console.pages.chat.chat_service import AnswerProgress

_MAX_MARKDOWN_CHARS = 50_000
"""Characters of an answer that are rendered as markdown; more is shown as plain text."""

_markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


class SafeMarkdown(ui.markdown):
    """NiceGUI's element, which would take HTML as it is and leave all of it to the browser to clean."""

    def __init__(self, text: str) -> None:
        super().__init__(text, sanitize=True)

    def _handle_content_change(self, content: str) -> None:
        self.props["innerHTML"] = render_html(content)


class _PlainText(ui.label):
    """A label with markdown's interface."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.classes("rw-text")

    def set_content(self, text: str) -> None:
        """Show `text` in place of the one before."""
        self.text = text


def render_html(text: str) -> str:
    """Return `text`, which is markdown, as HTML that does nothing."""
    if len(text) > _MAX_MARKDOWN_CHARS:
        return f"<div class='rw-text'>{escape(text)}</div>"
    return str(_markdown.render(text))


_REDRAW_S = 0.1
_REDRAW_SHARE = 10
"""Pause between redraws as a multiple of the drawing time, so that a long answer blocks no other page."""
_OUT = "Out: "
"""Prefix of a model's words in a plugin's record."""
_UNFINISHED = ("pending", "in_progress")
_RESUMABLE = ("cancelled", "aborted_by_worker", "timeout")

Message = Mapping[str, Any]


class MessageActions(Protocol):
    """The actions of a message's buttons."""

    async def show_branch(self, message_id: str) -> None: ...
    async def edit_message(self, message: Message) -> None: ...
    async def regenerate_answer(self, message: Message) -> None: ...
    async def resume_answer(self, message: Message) -> None: ...
    async def vote_message(self, message: Message, score: int) -> None: ...
    async def comment_message(self, message: Message) -> None: ...


class MessageBubble:
    """A message, drawn where it is made."""

    def __init__(self, visit: PageVisit, message: Message, actions: MessageActions) -> None:
        self._visit = visit
        self.message = message
        self._draw_from = 0.0
        self._drawn_steps = 0
        say = visit.say
        self._is_answer = message["role"] == "assistant"
        kind = "answer" if self._is_answer else "question"
        with ui.element("article").classes(f"rw-message {kind}").props(f'data-state="{message["state"]}"'):
            with ui.element("div").classes("rw-row rw-small rw-muted"):
                author = message["model"] or say("chat.assistant") if self._is_answer else say("chat.you")
                ui.label(author).classes("rw-who")
                if message["created_at"]:
                    ui.label(format_date(message["created_at"])).classes("rw-number")
                if message["state"] in _RESUMABLE:
                    draw_chip(say(f"chat.state.{message['state']}"), "warn")
                self._queue_place = ui.label()
            self._steps = ui.element("div").classes("rw-stack")
            self._text = self._draw_text(message["content"] or "")
            if message["error"]:
                with ui.element("div").classes("rw-trouble"):
                    ui.label(message["error"])
            self._actions = ui.element("div").classes("rw-row rw-actions")
        for step in _plugin_steps(message):
            self._draw_step(step)
        if message["state"] not in _UNFINISHED:
            with self._actions:
                self._draw_actions(actions)

    @property
    def is_in_progress(self) -> bool:
        """Tell if there is more to come."""
        return self.message["state"] in _UNFINISHED

    def show_progress(self, progress: AnswerProgress) -> None:
        """Show the answer as far as `progress` has it."""
        for step in progress.plugin_steps[self._drawn_steps :]:
            self._draw_step(step)
        self._drawn_steps = len(progress.plugin_steps)
        if progress.queue_place is not None:
            position, size = progress.queue_place
            self._queue_place.text = self._visit.say("chat.waiting", position=position + 1, size=size)
        elif self._queue_place.text:
            self._queue_place.text = ""
        now = perf_counter()
        if progress.over or now >= self._draw_from:
            self._text.set_content(progress.text)
            took_s = perf_counter() - now
            self._draw_from = now + max(_REDRAW_S, _REDRAW_SHARE * took_s)

    def _draw_text(self, content: str) -> SafeMarkdown | _PlainText:
        """Draw answers as markdown without active content, and users' text as it is."""
        if self._is_answer:
            return SafeMarkdown(content).classes("rw-markdown")
        return _PlainText(content)

    def _draw_step(self, step: Mapping[str, Any]) -> None:
        say = self._visit.say
        with self._steps, ui.expansion(say("chat.step", tool=step["current_plugin_action_taken"])) as box:
            box.props("dense").classes("rw-more rw-step")
            for name in ("thought", "action_input", "action_response"):
                text = step.get(f"current_plugin_{name}")
                if text:
                    ui.label(say(f"chat.step.{name}")).classes("rw-label")
                    ui.label(str(text)).classes("rw-text rw-mono")

    def _draw_actions(self, actions: MessageActions) -> None:
        message, say = self.message, self._visit.say
        family: Sequence[str] = message["siblings"] or [message["id"]]
        if len(family) > 1:
            at = family.index(message["id"])
            self._draw_button(
                "chevron_left", "chat.branch.before", lambda: actions.show_branch(family[at - 1]), at > 0
            )
            ui.label(say("chat.branch", at=at + 1, count=len(family))).classes("rw-number rw-small rw-muted")
            after = at + 1 < len(family)
            self._draw_button(
                "chevron_right", "chat.branch.after", lambda: actions.show_branch(family[at + 1]), after
            )
        copy = self._draw_button("content_copy", "chat.copy", None)
        copy.on_click(lambda: ui.clipboard.write(message["content"] or ""))
        if not self._is_answer:
            self._draw_button("edit", "chat.edit", lambda: actions.edit_message(message))
            return
        self._draw_button("refresh", "chat.regenerate", lambda: actions.regenerate_answer(message))
        if message["state"] in _RESUMABLE or message["finish_reason"] == "length":
            self._draw_button("play_arrow", "chat.continue", lambda: actions.resume_answer(message))
        for score, icon, name in ((1, "thumb_up", "chat.good"), (-1, "thumb_down", "chat.bad")):
            given = message["score"] == score
            wanted = 0 if given else score
            button = self._draw_button(icon, name, partial(actions.vote_message, message, wanted))
            button.props(f"aria-pressed={'true' if given else 'false'}")
            if given:
                button.classes("rw-pressed")
        self._draw_button("rate_review", "chat.comment", lambda: actions.comment_message(message))
        took, usage = message["took_s"], message["usage"] or {}
        if took is not None and usage.get("completion_tokens"):
            caption = say("chat.took", seconds=f"{took:.1f}", tokens=usage["completion_tokens"])
            ui.label(caption).classes("rw-small rw-muted rw-number")

    def _draw_button(
        self, icon: str, name: str, does: Callable[[], Awaitable[None]] | None, enabled: bool = True
    ) -> ui.button:
        label = self._visit.say(name)
        button = draw_icon_button(icon, label, does, props="flat round dense size=sm")
        button.props(remove="color").tooltip(label).set_enabled(enabled)
        return button


def _plugin_steps(message: Message) -> Sequence[Mapping[str, Any]]:
    """Return the plugin steps of an answer in the shape of events."""
    used = message["used_plugin"]
    if not used:
        return []
    details = used.get("execution_details") or {}
    monologue = [str(line) for line in details.get("inner_monologue") or ()]
    thoughts = [line.removeprefix(_OUT) for line in monologue if line.startswith(_OUT)]  # not the input
    step = {
        "current_plugin_action_taken": used.get("name") or "",
        "current_plugin_thought": "\n".join(thoughts),
        "current_plugin_action_response": details.get("final_tool_output"),
    }
    return [step]
