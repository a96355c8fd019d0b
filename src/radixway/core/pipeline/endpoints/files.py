"""Files that workers keep, and batches of requests that they answer later, in OpenAI's shapes."""

from typing import Annotated, Any

from msgspec import Meta

from radixway.core.pipeline.endpoints.base import Endpoint, ParsedRequest, ReplyForm, RequestBody

_FileId = Annotated[str, Meta(min_length=1, max_length=256)]


class FileForm(RequestBody, kw_only=True):
    """The fields that the gateway reads of a form with a file."""

    file: bool
    purpose: str

    def parse(self) -> ParsedRequest:
        return ParsedRequest(None, False, self.priority, self.ttft_slo_ms)


class BatchBody(RequestBody, kw_only=True):
    """The fields that the gateway reads of a batch."""

    input_file_id: _FileId
    endpoint: str
    completion_window: Any = None

    def parse(self) -> ParsedRequest:
        return ParsedRequest(None, False, self.priority, self.ttft_slo_ms)


FILES = Endpoint(
    path="/v1/files",
    name="openai.files",
    description="A file for a worker to keep: the lines of a batch, or something to work on.",
    body=FileForm,
    text_fields=("file",),
    reply_form=ReplyForm.OPAQUE,
    salt_field="",
    operation="create_file",
    by_surface=True,
    takes_forms=True,
)
BATCHES = Endpoint(
    path="/v1/batches",
    name="openai.batches",
    description="A batch of requests, to be answered later by the worker that has the file of them.",
    body=BatchBody,
    text_fields=(),
    guarded=False,
    exempt_reason="it names a file, whose lines were read when the file came",
    reply_form=ReplyForm.OPAQUE,
    salt_field="",
    operation="create_batch",
    by_surface=True,
)
