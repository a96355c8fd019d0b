"""Speech, transcripts and pictures, in OpenAI's shapes. Answers are bytes of any kind."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from radixway.core.pipeline.endpoints.base import Endpoint, ParsedRequest, ReplyForm, RequestBody, named_user


class _MediaBody(RequestBody, kw_only=True):
    """The fields that all share."""

    user: Any = None
    safety_identifier: Any = None

    def _parse(self, *, stream: bool | None) -> ParsedRequest:
        user = named_user(self.user, self.safety_identifier)
        return ParsedRequest(self.model, bool(stream), self.priority, self.ttft_slo_ms, user=user)


class _StreamableBody(_MediaBody, kw_only=True):
    """Those whose answers are events where `stream` says so."""

    stream: bool | None = None

    def parse(self) -> ParsedRequest:
        return self._parse(stream=self.stream)


class SpeechBody(_MediaBody, kw_only=True):
    """The fields that the gateway reads of a text to be spoken."""

    input: str
    instructions: str | None = None
    speed: Annotated[float, Meta(gt=0)] | None = None
    response_format: str | None = None
    stream_format: Literal["audio", "sse"] | None = None

    def parse(self) -> ParsedRequest:
        return self._parse(stream=self.stream_format == "sse")  # audio itself is sent whole


class ImageBody(_StreamableBody, kw_only=True):
    """The fields that the gateway reads of a picture's description."""

    prompt: str
    negative_prompt: str | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    size: str | None = None
    response_format: str | None = None


class TranscriptionForm(_StreamableBody, kw_only=True):
    """The fields that the gateway reads of a form with a recording."""

    file: bool
    prompt: str | None = None
    language: str | None = None
    response_format: str | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None


class ImageEditForm(_StreamableBody, kw_only=True):
    """The fields that the gateway reads of a form with a picture and what is to become of it."""

    image: bool
    prompt: str
    negative_prompt: str | None = None
    n: Annotated[int, Meta(ge=1)] | None = None


SPEECH = Endpoint(
    path="/v1/audio/speech",
    name="openai.speech",
    description="A text as speech; the answer is audio.",
    body=SpeechBody,
    text_fields=("input", "instructions"),
    reply_form=ReplyForm.OPAQUE,
    salt_field="",
    operation="speech",
    by_surface=True,
)
IMAGE_GENERATIONS = Endpoint(
    path="/v1/images/generations",
    name="openai.images",
    description="Pictures of what a text describes.",
    body=ImageBody,
    text_fields=("prompt", "negative_prompt"),
    reply_form=ReplyForm.OPAQUE,
    salt_field="",
    operation="image_generation",
    by_surface=True,
)
TRANSCRIPTIONS, TRANSLATIONS = (
    Endpoint(
        path=f"/v1/audio/{name}s",
        name=f"openai.{name}s",
        description=description,
        body=TranscriptionForm,
        text_fields=("prompt",),
        reply_form=ReplyForm.OPAQUE,
        salt_field="",
        operation=name,
        by_surface=True,
        takes_forms=True,
    )
    for name, description in (
        ("transcription", "What is said in a recording."),
        ("translation", "What is said in a recording, in English."),
    )
)
IMAGE_EDITS = Endpoint(
    path="/v1/images/edits",
    name="openai.image_edits",
    description="A picture, changed as a text says.",
    body=ImageEditForm,
    text_fields=("prompt", "negative_prompt"),
    reply_form=ReplyForm.OPAQUE,
    salt_field="",
    operation="image_edit",
    by_surface=True,
    takes_forms=True,
)
