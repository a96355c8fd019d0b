"""Stands before a child's application: whichever child a connection comes to, all of them answer."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from radixway.api.authorization import PathAuthorization
from radixway.cluster.session_ownership import (
    HopSigner,
    OwnerProxy,
    build_ownership_keys,
)
from radixway.cluster.session_ownership.signed_hop import HEADER, read_hop_header
from radixway.core.component import CannotErase, Component, Subject
from radixway.core.config import Config
from radixway.core.erasure import ErasureService
from radixway.core.http import (
    App,
    BadBodyError,
    ClientDisconnectedError,
    HttpError,
    Receive,
    Scope,
    Send,
    read_body,
    replay_body,
    send_error,
)
from radixway.core.http.asgi import FORWARDER
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.telemetry import MetricsRegistry
from radixway.gateway.processes.collected_reply import JSON_HEADERS, CollectedReply, ReplyCollector
from radixway.gateway.processes.process_group import ProcessGroup, slot_url
from radixway.gateway.processes.reply_merging import RequestPages
from radixway.gateway.processes.sibling_calls import SiblingCalls, make_scope
from radixway.gateway.processes.sibling_connections import SiblingConnections
from radixway.gateway.processes.sibling_rules import SiblingRule, build_sibling_rules
from radixway.gateway.processes.sibling_streams import LineStreams
from radixway.gateway.processes.worker_state import WorkerStateCopy, decode_report, encode_report

log = logging.getLogger(__name__)

STATE_PATH = "/processes/state"
"""Of the private sockets alone, as the next: what calls have changed of a child's workers."""
ERASE_PATH = "/processes/erase"
"""Erases a subject in a child."""
_DEFAULT_PAGE_ROWS = 50
_RELOAD_RULES = "/config/semantic/reload"


class SiblingProxy(Component):
    """An ASGI application around a child's. What one child passes to another is signed and passed once."""

    name = "processes"
    erasable_by = frozenset({"tenant", "user", "session", "request"})

    def __init__(
        self,
        config: Config,
        app: App,
        group: ProcessGroup,
        metrics: MetricsRegistry,
        authorization: PathAuthorization,
        erasure: ErasureService,
        worker_state: WorkerStateCopy,
        *,
        records: bool,
    ) -> None:
        """`authorization`: knows whose bodies are read. `records`: whether trajectories are recorded."""
        self._app = app
        self._group = group
        self._signer = HopSigner(group.key, time)
        self._worker_state = worker_state
        self._max_body_bytes = config.gateway.max_body_bytes
        self._find_rule = build_sibling_rules(config)
        self._connections = SiblingConnections(group)
        self._ownership_keys = build_ownership_keys(config, records=records)
        self._owners = OwnerProxy(
            app,
            group.fleet,
            self._ownership_keys,
            self._signer,
            metrics,
            authorization.has_valid_key,
            self._max_body_bytes,
            self._connections,
            counted_as="radixway_passed_to_process",
        )
        self._calls = SiblingCalls(group, self._owners, self._connections, self._signer, self._max_body_bytes)
        self._serving: dict[int, Path | None] = {}
        """By slot, the socket of the sibling that serves there, as of the latest change."""
        self._sharing_lock = asyncio.Lock()
        self._sharing: set[asyncio.Task[None]] = set()
        self._erasure = erasure
        self._asked_to_erase: Counter[Subject] = Counter()
        """By siblings, who ask all others too."""
        self.address: tuple[str, int] = ("", 0)
        """The address at which clients reach all children."""

    async def start(self) -> None:
        """Hold connections to the siblings from now on, and report workers that leave to them."""
        await self._owners.start()
        self._group.on_change.append(self._follow_successors)
        if self._group.is_first:
            self._worker_state.on_remove(self._share_soon)

    async def stop(self) -> None:
        """Let go of the siblings."""
        self._group.on_change.remove(self._follow_successors)
        await cancel_tasks(list(self._sharing))
        await self._owners.stop()

    async def erase(self, subject: Subject) -> int:
        """Erase `subject` in all siblings; return how many entries there were. Raises CannotErase."""
        if self._asked_to_erase[subject]:
            return 0
        body = msgspec.json.encode(replace(subject, workers=False))
        slots = [slot for slot in range(self._group.count) if slot != self._group.slot]
        replies = [await self._calls.ask_slot(slot, make_scope("POST", ERASE_PATH), body) for slot in slots]
        entries = 0
        for slot, reply in zip(slots, replies, strict=True):
            if reply is None or reply.status != 200:
                raise CannotErase(f"process {slot} does not answer")
            outcome = msgspec.json.decode(reply.body)
            if not outcome["complete"]:
                raise CannotErase(f"process {slot} could not erase all of it")
            entries += sum(each["entries"] for each in outcome["rooms"].values())
        return entries

    def describe(self) -> dict[str, Any]:
        """Return the report for `/health`."""
        members = [
            {"slot": each.slot, "name": each.name, "state": each.state} for each in self._group.members
        ]
        return {"self": self._group.name, "pid": self._group.pid, "of": self._group.count, "members": members}

    def answers_here(self, scope: Scope) -> bool:
        """Return whether the request of `scope`, which is for a declared endpoint, needs no other child."""
        return self._owners.answers_here(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a client."""
        if scope["type"] not in ("http", "websocket") or FORWARDER in scope:
            await self._app(scope, receive, send)
            return
        rule = self._find_rule(scope)
        try:
            if scope["type"] == "websocket":
                if rule is not None and rule.first and not self._group.is_first:
                    await self._calls.forward_websocket_to_first(scope, receive, send)
                else:
                    await self._app(scope, receive, send)
            elif scope["path"] == "/requests" and scope["method"] == "GET":
                await self._merge_requests(scope, receive, send)
            elif rule is None:
                await self._owners(scope, receive, send)
            else:
                await self._apply_rule(rule, scope, receive, send)
        except HttpError as error:
            await send_error(scope, send, error)
        except ClientDisconnectedError:
            pass

    async def answer_sibling(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what a sibling passes on, and only that; the private socket's application."""
        hop = read_hop_header(scope)
        try:
            if hop is None and scope["path"] != "/ready":
                raise HttpError("this socket is for the gateway's own processes", status=403, code="private")
            client = None if hop is None else self._signer.verify_hop(scope, hop)
            headers = [header for header in scope["headers"] if header[0] != HEADER]
            scope = {**scope, "client": client, "server": self.address, "headers": headers}
            if scope["path"] == STATE_PATH:
                await self._answer_state(scope, receive, send)
            elif scope["path"] == ERASE_PATH:
                await self._answer_erasure(scope, receive, send)
            else:
                rule = self._find_rule(scope)
                if rule is not None and rule.first and self._group.is_first and scope["type"] == "http":
                    await self._apply_rule(rule, scope, receive, send)
                else:
                    await self._app(scope, receive, send)
        except HttpError as error:
            await send_error(scope, send, error)
        except ClientDisconnectedError:
            pass

    async def copy_state(self) -> None:
        """Take over what calls have changed of the workers, from the first sibling that answers."""
        for slot in self._group.other_slots():
            reply = await self._calls.ask_slot(slot, make_scope("GET", STATE_PATH), b"")
            if reply is not None and reply.status == 200:
                report = decode_report(reply.body)
                await self._worker_state.apply_report(report, takes_leases=self._group.is_first)
                return

    async def share_state(self) -> None:
        """Send all siblings what calls have changed of the workers, and wait until it is in force there."""
        async with self._sharing_lock:
            report = encode_report(self._worker_state.make_report())
            scope = make_scope("PUT", STATE_PATH)
            await asyncio.gather(
                *(self._calls.send_to_name(name, scope, report) for name in self._group.other_names())
            )

    def _follow_successors(self) -> None:
        """Believe of a successor that it answers, whatever probes of its predecessor have found."""
        for slot in self._group.other_slots():
            path = self._group.path_of_slot(slot)
            if path != self._serving.get(slot):
                self._serving[slot] = path
                self._owners.reset_heartbeat(slot_url(slot))

    def _share_soon(self) -> None:
        """Report a change to the siblings that no call has made: a registration that has ended."""
        task = asyncio.get_running_loop().create_task(self.share_state(), name="state of workers")
        self._sharing.add(task)
        task.add_done_callback(self._sharing.discard)

    async def _apply_rule(self, rule: SiblingRule, scope: Scope, receive: Receive, send: Send) -> None:
        if rule.first and not self._group.is_first:
            await self._calls.forward_to_first(scope, receive, send)
            return
        if rule.then == "nothing":
            await self._app(scope, receive, send)
            return
        if rule.then in ("concatenate", "interleave"):
            await self._join_streams(rule, scope, receive, send)
            return
        raw = await read_body(scope, receive, self._max_body_bytes)
        if (
            self._ownership_keys.may_be_owned(scope)
            and self._ownership_keys.find_owned(scope, raw) is not None
        ):
            await self._owners(scope, replay_body(raw, receive), send)
            return
        own = await self._answer_here(scope, raw, receive)
        await (await self._complete_reply(rule, own, scope, raw)).send_to(send)

    async def _complete_reply(
        self, rule: SiblingRule, own: CollectedReply, scope: Scope, raw: bytes
    ) -> CollectedReply:
        """Do what `rule` wants after this child's `own` answer; return the answer of all."""
        if rule.then == "find":
            if own.status != 404:
                return own
            for slot in self._group.other_slots():
                found = await self._calls.ask_slot(slot, scope, raw)
                if found is not None and found.status != 404:
                    return found
            return own
        if 400 <= own.status < 500 and not (rule.then == "ask_newest" and own.status == 404):
            return own
        if rule.then == "share_state":
            await self.share_state()
            return own
        if rule.then == "reload_rules":
            scope, raw = {**scope, "method": "POST", "path": _RELOAD_RULES, "query_string": b""}, b""
        replies = await self._calls.ask_others(scope, raw)
        if rule.then == "ask_newest":
            explained = [reply for reply in (own, *replies) if reply.is_json]
            return max(explained, key=_began_at) if explained else own
        if rule.then != "ask_others":
            _log_differences(scope, own, replies)
        if rule.merge is None or not own.is_json:
            return own
        merged = [own, *(reply for reply in replies if reply.is_json)]
        own.status = max(reply.status for reply in merged)
        return own.with_json(rule.merge([msgspec.json.decode(reply.body) for reply in merged]))

    async def _join_streams(self, rule: SiblingRule, scope: Scope, receive: Receive, send: Send) -> None:
        streams = LineStreams(self._app, self._owners, self._group.other_slots())
        if rule.then == "interleave":
            await streams.interleave(scope, receive, send)
        elif b"format=arrow" in scope["query_string"]:
            message = "format: jsonl, where several processes answer; one session's samples come as arrow too"
            raise BadBodyError(message, param="format")
        else:
            await streams.concatenate(scope, receive, send)

    async def _merge_requests(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `/requests` with the newest of all children's."""
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        try:
            pages = RequestPages(self._group.count, query.pop("cursor", None))
        except ValueError:
            raise BadBodyError("cursor: the `next` of the page before", param="cursor") from None
        found: dict[int, Any] = {}
        own: CollectedReply | None = None
        for slot in (self._group.slot, *self._group.other_slots()):
            cursor = pages.cursors[slot]
            if pages.is_over(slot) and slot != self._group.slot:
                continue
            given = query if cursor is None or pages.is_over(slot) else query | {"cursor": cursor}
            part = {**scope, "query_string": urlencode(given).encode()}
            reply: CollectedReply | None
            if slot == self._group.slot:
                own = reply = await self._answer_here(part, b"", receive)
                if not own.is_json:
                    await own.send_to(send)
                    return
                if pages.is_over(slot):
                    continue
            else:
                reply = await self._calls.ask_slot(slot, part, b"")
            if reply is not None and reply.is_json:
                found[slot] = msgspec.json.decode(reply.body)
        assert own is not None
        limit = int(query.get("limit", _DEFAULT_PAGE_ROWS))
        await own.with_json(pages.merge_pages(found, limit)).send_to(send)

    async def _answer_here(self, scope: Scope, raw: bytes, receive: Receive) -> CollectedReply:
        collector = ReplyCollector()
        await self._app(scope, replay_body(raw, receive), collector)
        collector.reply.body = b"".join(collector.parts)
        return collector.reply

    async def _answer_state(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "PUT":
            report = decode_report(await read_body(scope, receive, self._max_body_bytes))
            await self._worker_state.apply_report(report, takes_leases=False)
            body = b"{}"
        else:
            body = encode_report(self._worker_state.make_report())
        await CollectedReply(200, [*JSON_HEADERS, (b"content-length", b"%d" % len(body))], body).send_to(send)

    async def _answer_erasure(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive, self._max_body_bytes)
        subject = msgspec.json.decode(body, type=Subject)
        self._asked_to_erase[subject] += 1
        try:
            outcome = await self._erasure.erase_everywhere(subject)
        finally:
            self._asked_to_erase -= Counter([subject])  # which keeps no name whose count is 0
        await CollectedReply(200, list(JSON_HEADERS)).with_json(outcome.to_dict()).send_to(send)


def _began_at(reply: CollectedReply) -> float:
    """Return when the request began whose journal is `reply`."""
    return float(msgspec.json.decode(reply.body)["began_at"])


def _log_differences(scope: Scope, own: CollectedReply, replies: list[CollectedReply]) -> None:
    for reply in replies:
        if reply.status >= 400 and own.status < 400:
            log.error("%s was done here, but not in every process: %d", scope["path"], reply.status)
