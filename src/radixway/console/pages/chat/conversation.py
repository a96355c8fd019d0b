"""The chat that is open: its thread, what can be done with each message, and answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from nicegui import background_tasks, ui

from radixway.console.components import ask_confirmation, ask_for_text
from radixway.console.page import PageVisit
from radixway.console.pages.chat.account import OperatorAccount
from radixway.console.pages.chat.answer_stream import follow_answer
from radixway.console.pages.chat.chat_list import ChatList
from radixway.console.pages.chat.composer import MessageComposer
from radixway.console.pages.chat.message import Message, MessageBubble


class ConversationView:
    """Implements `message.Deeds`. `chat_id` None: one that begins with the first words said."""

    def __init__(
        self, visit: PageVisit, account: OperatorAccount, listing: ChatList, chat_id: str | None
    ) -> None:
        self._visit = visit
        self._account = account
        self._listing = listing
        self._id = chat_id
        self._chat: Mapping[str, Any] = {}
        self._hearing: asyncio.Task[None] | None = None
        self._under_way: str | None = None
        self._is_sending = False
        say = visit.say
        with ui.element("div").classes("rw-row rw-chat-head"):
            with (
                ui.element("a")
                .props(f'href="{visit.link("/chat?list=1")}"')
                .classes("rw-narrow-only rw-back")
            ):
                ui.icon("arrow_back").props(f'aria-label="{say("chat.back")}"')
            with ui.element("h2").classes("rw-grow rw-cut"):
                self._title = ui.label(say("chat.new"))
            self._tools = ui.element("div").classes("rw-row rw-tight")
            with self._tools:
                for icon, name, does in (
                    ("drive_file_rename_outline", "chat.rename", self.rename_chat),
                    ("delete_outline", "chat.delete", self.delete_chat),
                ):
                    button = ui.button(icon=icon, on_click=does, color=None).props("flat round dense")
                    button.props(f'aria-label="{say(name)}"').tooltip(say(name))
        self._thread = ui.element("div").classes("rw-thread").props('role="log"')
        self.composer: MessageComposer | None = None
        self._client = ui.context.client
        self._client.on_delete(self._stop_following)

    async def draw_thread(self, through: str | None = None) -> None:
        """Draw the thread that is open; `through`: the newest one through that message."""
        self._stop_following()
        self._tools.set_visibility(self._id is not None)
        if self._id is None:
            with self._thread:
                ui.label(self._visit.say("chat.hint")).classes("rw-empty")
            return
        if through is not None:
            thread = await self._account.get_json(f"/v1/chats/{self._id}/thread", through=through)
            await self._account.send_request(
                "PATCH", f"/v1/chats/{self._id}", body={"tail_id": thread["tail_id"]}
            )
        self._chat = await self._account.get_json(f"/v1/chats/{self._id}")
        self._title.text = self._chat["title"] or self._visit.say("chat.untitled")
        bubbles = self._draw_messages(_thread_to(self._chat["messages"], self._chat["tail_id"]))
        under_way = next((each for each in bubbles if each.is_under_way), None)
        self._under_way = None if under_way is None else str(under_way.message["id"])
        if self.composer is not None:
            self.composer.set_in_flight(under_way is not None)
            answers = [each for each in bubbles if each.message["model"]]
            if answers:
                self.composer.select_model(answers[-1].message["model"])
        if under_way is not None:
            self._hearing = background_tasks.create(self._follow_answer(under_way), name="chat-hearing")
        self._client.run_javascript(_TO_THE_END)

    def _draw_messages(self, thread: Sequence[Message]) -> list[MessageBubble]:
        self._thread.clear()
        with self._thread:
            return [MessageBubble(self._visit, message, self) for message in thread]

    async def _follow_answer(self, bubble: MessageBubble) -> None:
        with self._thread:
            async with self._visit.catch_call_errors():
                async for heard in follow_answer(self._account, str(self._id), str(bubble.message["id"])):
                    bubble.show_progress(heard)
                self._hearing = None
                await self.draw_thread()
                await self._listing.reload_chats()

    def _stop_following(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            self._hearing = None

    async def send_text(self, text: str) -> None:
        """Say `text`, or put it back into the composer."""
        composer = self.composer
        assert composer is not None
        if self._is_sending or self._under_way is not None:
            composer.put_back(text)
            return
        self._is_sending, is_said = True, False
        try:
            async with self._exclusive_action():
                if self._id is None:
                    self._id = str((await self._account.post_json("/v1/chats", {}))["id"])
                    ui.navigate.history.replace(self._visit.link(f"/chat/{self._id}"))
                    self._listing.mark_open(self._id)
                body = {"content": text, **composer.answer_options()}
                await self._account.post_json(f"/v1/chats/{self._id}/messages", body)
                is_said = True
                await self.draw_thread()
                await self._listing.reload_chats()
        finally:
            self._is_sending = False
            if not is_said:
                composer.put_back(text)

    async def stop_answer(self) -> None:
        """End the answer under way; its words stay."""
        if self._under_way is not None:
            await self._post_action(f"{self._under_way}/stop", None)

    async def show_branch(self, message_id: str) -> None:
        """Show the branch through the message `message_id`."""
        async with self._exclusive_action():
            await self.draw_thread(message_id)

    async def regenerate_answer(self, message: Message) -> None:
        """Generate another answer beside `message`."""
        await self._post_action(f"{message['id']}/regenerate", self._answer_options())

    async def resume_answer(self, message: Message) -> None:
        """Continue `message`, an answer that ended too soon."""
        await self._post_action(f"{message['id']}/continue", {"reply": "later"})

    async def edit_message(self, message: Message) -> None:
        """Replace the text of `message`, as a new branch."""
        text = await ask_for_text(self._visit, "chat.edit", message["content"] or "")
        if text is not None and text.strip():
            await self._post_action(f"{message['id']}/edit", {"content": text, **self._answer_options()})

    async def vote_message(self, message: Message, score: int) -> None:
        """Set the vote of `message` to `score`: good, bad or neither."""
        async with self._exclusive_action():
            path = f"/chats/{self._id}/messages/{message['id']}/votes"
            await self._account.post_json(path, {"score": score})
            await self.draw_thread()

    async def comment_message(self, message: Message) -> None:
        """Ask for a comment on `message`, and save it."""
        text = await ask_for_text(self._visit, "chat.comment", "")
        if text is None or not text.strip():
            return
        async with self._exclusive_action():
            path = f"/chats/{self._id}/messages/{message['id']}/reports"
            await self._account.post_json(path, {"report_type": "feedback", "reason": text[:10_000]})
            ui.notify(self._visit.say("chat.thanks"), type="positive")

    async def rename_chat(self) -> None:
        """Another title."""
        title = await ask_for_text(self._visit, "chat.rename", self._chat.get("title") or "", short=True)
        if title is None or not title.strip():
            return
        async with self._exclusive_action():
            await self._account.send_request(
                "PATCH", f"/v1/chats/{self._id}", body={"title": title.strip()[:100]}
            )
            self._title.text = title.strip()[:100]
            await self._listing.reload_chats()

    async def delete_chat(self) -> None:
        """With all that was said in it."""
        say = self._visit.say
        if not await ask_confirmation(
            self._visit, say("chat.delete.sure"), say("chat.delete"), dangerous=True
        ):
            return
        async with self._exclusive_action():
            await self._account.send_request("DELETE", f"/v1/chats/{self._id}")
            ui.navigate.to("/chat")

    @asynccontextmanager
    async def _exclusive_action(self) -> AsyncIterator[None]:
        with self._visit.around:
            async with self._visit.catch_call_errors():
                yield

    def _answer_options(self) -> dict[str, Any]:
        return {"reply": "later"} if self.composer is None else self.composer.answer_options()

    async def _post_action(self, path: str, body: Any) -> None:
        async with self._exclusive_action():
            await self._account.post_json(f"/v1/chats/{self._id}/messages/{path}", body)
            await self.draw_thread()


_TO_THE_END = "document.querySelector('.rw-thread article:last-child')?.scrollIntoView({block: 'end'})"


def _thread_to(messages: Sequence[Message], tail: str | None) -> list[Message]:
    """From the first message to that one."""
    by_id = {message["id"]: message for message in messages}
    found: list[Message] = []
    at = by_id.get(tail or "")
    while at is not None:
        found.append(at)
        at = by_id.get(at["parent_id"] or "")
    return found[::-1]
