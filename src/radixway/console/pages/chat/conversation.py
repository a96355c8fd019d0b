"""The chat that is open: its thread, what can be done with each message, and answers as they come."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from nicegui import background_tasks, ui

from radixway.console.components import (
    ask_confirmation,
    ask_for_text,
    draw_empty,
    draw_icon_button,
    draw_text,
)
from radixway.console.page import PageVisit
from radixway.console.pages.chat.attachments import join_attachments
from radixway.console.pages.chat.chat_service import OperatorAccount, follow_answer
from radixway.console.pages.chat.message import Message, MessageBubble
from radixway.console.pages.chat.sharing import open_share_dialog
from radixway.console.pages.chat.widgets import ChatList, MessageComposer

_TITLE_CHARS = 100
_TO_THE_END = "document.querySelector('.rw-thread article:last-child')?.scrollIntoView({block: 'end'})"


class ConversationView:
    """The thread of a chat above its input; implements `MessageActions`."""

    def __init__(
        self,
        visit: PageVisit,
        account: OperatorAccount,
        listing: ChatList,
        chat_id: str | None,
        models: Sequence[str],
        plugins: Sequence[Mapping[str, Any]],
    ) -> None:
        """Draw the chat `chat_id`; None: one that begins with the first text that is sent.

        `models` and `plugins` are those to choose from.
        """
        self._visit = visit
        self._account = account
        self._listing = listing
        self._id = chat_id
        self._chat: Mapping[str, Any] = {}
        self._following: asyncio.Task[None] | None = None
        self._under_way: str | None = None
        self._is_sending = False
        say = visit.say
        with ui.element("div").classes("rw-row rw-chat-head"):
            back = ui.element("a").props(f'href="{visit.link("/chat?list=1")}"')
            with back.classes("rw-narrow-only rw-back"):
                ui.icon("arrow_back").props(f'aria-label="{say("chat.back")}"')
            self._title = draw_text(say("chat.new"), "h2", "rw-grow rw-cut")
            self._tools = ui.element("div").classes("rw-row rw-tight")
            with self._tools:
                for icon, name, does in (
                    ("ios_share", "chat.share", self.share_chat),
                    ("drive_file_rename_outline", "chat.rename", self.rename_chat),
                    ("delete_outline", "chat.delete", self.delete_chat),
                ):
                    draw_icon_button(icon, say(name), does).tooltip(say(name)).props(remove="color")
        self._thread = ui.element("div").classes("rw-thread").props('role="log"')
        self._composer = MessageComposer(visit, models, plugins, self.send_text, self.stop_answer)
        self._client = ui.context.client
        self._client.on_delete(self._stop_following)

    async def draw_thread(self, through: str | None = None) -> None:
        """Draw the thread that is open; `through`: the newest one through that message."""
        self._stop_following()
        self._tools.set_visibility(self._id is not None)
        if self._id is None:
            with self._thread:
                draw_empty(self._visit.say("chat.hint"))
            return
        if through is not None:
            thread = await self._account.get_json(f"/v1/chats/{self._id}/thread", through=through)
            tail = {"tail_id": thread["tail_id"]}
            await self._account.send_request("PATCH", f"/v1/chats/{self._id}", body=tail)
        self._chat = await self._account.get_json(f"/v1/chats/{self._id}")
        self._title.text = self._chat["title"] or self._visit.say("chat.untitled")
        bubbles = self._draw_messages(_thread_to(self._chat["messages"], self._chat["tail_id"]))
        under_way = next((bubble for bubble in bubbles if bubble.is_in_progress), None)
        self._under_way = None if under_way is None else str(under_way.message["id"])
        self._composer.set_in_flight(under_way is not None)
        answers = [bubble for bubble in bubbles if bubble.message["model"]]
        if answers:
            self._composer.select_model(answers[-1].message["model"])
        if under_way is not None:
            self._following = background_tasks.create(self._follow_answer(under_way), name="chat-following")
        self._client.run_javascript(_TO_THE_END)

    def _draw_messages(self, thread: Sequence[Message]) -> list[MessageBubble]:
        self._thread.clear()
        with self._thread:
            return [MessageBubble(self._visit, message, self) for message in thread]

    async def _follow_answer(self, bubble: MessageBubble) -> None:
        with self._thread:
            async with self._visit.catch_call_errors():
                async for progress in follow_answer(self._account, str(self._id), str(bubble.message["id"])):
                    bubble.show_progress(progress)
                self._following = None
                await self.draw_thread()
                await self._listing.reload_chats()

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            self._following = None

    async def send_text(self, text: str) -> None:
        """Send `text` with the attached files, or put it back into the composer."""
        if not text.strip() and self._composer.attachments.is_empty:
            return
        if self._is_sending or self._under_way is not None:
            self._composer.put_back(text)
            return
        self._is_sending, is_sent = True, False
        files = self._composer.attachments.take_texts()
        try:
            async with self._action():
                if self._id is None:
                    self._id = str((await self._account.post_json("/v1/chats", {}))["id"])
                    ui.navigate.history.replace(self._visit.link(f"/chat/{self._id}"))
                    self._listing.mark_open(self._id)
                content = join_attachments(files, text)
                body = {"content": content, **self._composer.answer_options()}
                await self._account.post_json(f"/v1/chats/{self._id}/messages", body)
                is_sent = True
                await self.draw_thread()
                await self._listing.reload_chats()
        finally:
            self._is_sending = False
            if not is_sent:
                self._composer.put_back(text)
                self._composer.attachments.put_back(files)

    async def stop_answer(self) -> None:
        """End the answer in progress; its text stays."""
        if self._under_way is not None:
            await self._post_action(f"{self._under_way}/stop", None)

    async def show_branch(self, message_id: str) -> None:
        """Show the branch through the message `message_id`."""
        async with self._action():
            await self.draw_thread(message_id)

    async def regenerate_answer(self, message: Message) -> None:
        """Generate another answer beside `message`."""
        await self._post_action(f"{message['id']}/regenerate", self._composer.answer_options())

    async def resume_answer(self, message: Message) -> None:
        """Continue `message`, an answer that ended too soon."""
        await self._post_action(f"{message['id']}/continue", {"reply": "later"})

    async def edit_message(self, message: Message) -> None:
        """Replace the text of `message`, as a new branch."""
        text = await ask_for_text(self._visit, "chat.edit", message["content"] or "")
        if text.strip():
            await self._post_action(
                f"{message['id']}/edit", {"content": text, **self._composer.answer_options()}
            )

    async def vote_message(self, message: Message, score: int) -> None:
        """Set the vote of `message` to `score`: good, bad or neither."""
        async with self._action():
            path = f"/chats/{self._id}/messages/{message['id']}/votes"
            await self._account.post_json(path, {"score": score})
            await self.draw_thread()

    async def comment_message(self, message: Message) -> None:
        """Ask for a comment on `message`, and save it."""
        text = await ask_for_text(self._visit, "chat.comment", "")
        if not text.strip():
            return
        async with self._action():
            path = f"/chats/{self._id}/messages/{message['id']}/reports"
            await self._account.post_json(path, {"report_type": "feedback", "reason": text[:10_000]})
            ui.notify(self._visit.say("chat.thanks"), type="positive")

    async def rename_chat(self) -> None:
        """Ask for another title."""
        text = await ask_for_text(self._visit, "chat.rename", self._chat.get("title") or "", short=True)
        title = text.strip()[:_TITLE_CHARS]
        if not title:
            return
        async with self._action():
            await self._account.send_request("PATCH", f"/v1/chats/{self._id}", body={"title": title})
            self._title.text = title
            await self._listing.reload_chats()

    async def share_chat(self) -> None:
        """Open the dialog of the chat's share links."""
        if self._id is not None:
            async with self._action():
                await open_share_dialog(self._visit, self._account, self._id)

    async def delete_chat(self) -> None:
        """Delete the chat with all its messages, if the visitor is sure."""
        question, yes = self._visit.say("chat.delete.sure"), self._visit.say("chat.delete")
        if not await ask_confirmation(self._visit, question, yes, dangerous=True):
            return
        async with self._action():
            await self._account.send_request("DELETE", f"/v1/chats/{self._id}")
            ui.navigate.to("/chat")

    @asynccontextmanager
    async def _action(self) -> AsyncIterator[None]:
        with self._visit.around:
            async with self._visit.catch_call_errors():
                yield

    async def _post_action(self, path: str, body: Any) -> None:
        async with self._action():
            await self._account.post_json(f"/v1/chats/{self._id}/messages/{path}", body)
            await self.draw_thread()


def _thread_to(messages: Sequence[Message], tail: str | None) -> list[Message]:
    """Return the messages from the first one to `tail`."""
    by_id = {message["id"]: message for message in messages}
    found: list[Message] = []
    at = by_id.get(tail or "")
    while at is not None:
        found.append(at)
        at = by_id.get(at["parent_id"] or "")
    return found[::-1]
