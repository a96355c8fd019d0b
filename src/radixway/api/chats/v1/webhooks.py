"""`/v1/webhooks`: addresses that are notified of events in a user's chats."""

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.bodies import StrictRequestBody
from radixway.api.chats.v1.chats import Id
from radixway.api.chats.v1.shapes import RecordRead
from radixway.chat import webhooks
from radixway.chat.service import ChatService
from radixway.chat.webhooks import WebhookEventType
from radixway.core.http import LazyRouter

_Url = Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^[^\x00]*$")]
_Events = Annotated[list[WebhookEventType], Field(max_length=32)]


class NewWebhook(StrictRequestBody):
    """An address, and the events that it is notified of."""

    url: _Url
    events: _Events = Field(default=[])
    """Empty: all."""


class WebhookChange(StrictRequestBody):
    """A change of a webhook; what is not named stays."""

    url: _Url | None = None
    events: _Events | None = None
    enabled: bool | None = None


class WebhookRead(RecordRead):
    """An address, without the secret that what it is sent is signed with."""

    id: str
    url: str
    events: list[str]
    enabled: bool
    created_at: datetime
    delivered_at: datetime | None
    """Time of the last delivery."""
    failed_at: datetime | None


class WebhookWithSecret(WebhookRead):
    """A webhook with its secret, which is shown this once."""

    secret: str


class WebhookDeliveryRead(BaseModel):
    """A delivery that has not arrived, or not yet."""

    id: str
    """Its `webhook-id`."""
    type: str
    chat_id: str | None
    state: Literal["waiting", "given_up"]
    created_at: datetime
    next_attempt_at: datetime | None
    attempts: int
    last_status: int | None
    """HTTP status of the last answer; null: none."""
    last_error: str | None

    @classmethod
    def from_record(cls, row: webhooks.UndeliveredEvent) -> Self:
        """Build it from `row`."""
        waits = row.state == "waiting"
        return cls(
            id=row.id,
            type=row.type,
            chat_id=row.chat_id or None,
            state="waiting" if waits else "given_up",
            created_at=datetime.fromtimestamp(row.created_at, UTC),
            next_attempt_at=_optional_utc_time(row.available_at if waits else None),
            attempts=row.attempts,
            last_status=row.last_status,
            last_error=row.last_error,
        )


def webhook_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build webhooks of `service`, and their failed deliveries."""
    router = LazyRouter(prefix="/v1/webhooks", tags=["v1 webhooks"])
    User = Annotated[str, Depends(auth.require_user)]
    hooks = service.webhook_service.webhooks

    @router.post("", status_code=201)
    async def add(user: User, body: NewWebhook) -> WebhookWithSecret:
        """Create a webhook; its secret is shown once."""
        hook, secret = await hooks.add(user, body.url, body.events)
        return WebhookWithSecret(**dict(WebhookRead.model_validate(hook)), secret=secret)

    @router.get("")
    async def listed(user: User) -> list[WebhookRead]:
        """List all webhooks of the user."""
        return [WebhookRead.model_validate(hook) for hook in await hooks.of(user)]

    @router.get("/{webhook_id}")
    async def one(webhook_id: Id, user: User) -> WebhookRead:
        """Return `webhook_id`."""
        return WebhookRead.model_validate(await hooks.find(user, webhook_id))

    @router.patch("/{webhook_id}")
    async def change(webhook_id: Id, user: User, body: WebhookChange) -> WebhookRead:
        """Change the given fields of `webhook_id`."""
        given = body.model_dump(exclude_none=True)
        return WebhookRead.model_validate(await hooks.change(user, webhook_id, **given))

    @router.delete("/{webhook_id}", status_code=204)
    async def remove(webhook_id: Id, user: User) -> Response:
        """Delete `webhook_id` with the deliveries that wait for it."""
        await hooks.remove(user, webhook_id)
        return Response(status_code=204)

    @router.post("/{webhook_id}/rotate")
    async def rotate(webhook_id: Id, user: User) -> WebhookWithSecret:
        """Replace the secret of `webhook_id`; for a day deliveries are signed with the one before, too."""
        hook, secret = await hooks.rotate(user, webhook_id)
        return WebhookWithSecret(**dict(WebhookRead.model_validate(hook)), secret=secret)

    @router.post("/{webhook_id}/test", status_code=202)
    async def test(webhook_id: Id, user: User) -> Response:
        """Send it `webhook.test`."""
        await hooks.test(user, webhook_id)
        return Response(status_code=202)

    @router.get("/{webhook_id}/deliveries")
    async def deliveries(webhook_id: Id, user: User) -> list[WebhookDeliveryRead]:
        """The latest hundred that have not arrived: those that wait, and those that were given up."""
        return [WebhookDeliveryRead.from_record(row) for row in await hooks.undelivered(user, webhook_id)]

    @router.post("/{webhook_id}/deliveries/{delivery_id}/retry", status_code=202)
    async def retry(webhook_id: Id, delivery_id: Id, user: User) -> Response:
        """Retry `delivery_id`, which was given up."""
        await hooks.retry(user, webhook_id, delivery_id)
        return Response(status_code=202)

    return router


def _optional_utc_time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
