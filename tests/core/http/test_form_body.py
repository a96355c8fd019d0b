"""Forms: what is read of them, and that nothing else of them changes."""

from __future__ import annotations

from email.message import Message
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from radixway.core.http import BadBodyError, parse_form

KIND = b'multipart/form-data; boundary="b-1"'


def form(*parts: tuple[str, bytes], before: bytes = b"", after: bytes = b"\r\n") -> bytes:
    """Parts by what follows `name=`, quotes included, and their content."""
    pieces = [
        b"--b-1\r\nContent-Disposition: form-data; name=%b\r\n\r\n%b\r\n" % (name.encode(), content)
        for name, content in parts
    ]
    return before + b"".join(pieces) + b"--b-1--" + after


def read_by_the_standard_library(raw: bytes) -> list[tuple[str, bytes]]:
    message = BytesParser().parsebytes(b"content-type: " + KIND + b"\r\n\r\n" + raw)
    found = []
    for part in message.get_payload():
        assert isinstance(part, Message)
        content = part.get_payload(decode=True)
        found.append((str(part.get_param("name", header="content-disposition")), bytes(content)))
    return found


FILE = '"file"; filename="a.wav"'


def test_fields_are_texts_and_files_are_not_read() -> None:
    raw = form(('"model"', b"m"), (FILE, b"\xff\r\n--b-"), ('"prompt"', "größer".encode()), ("language", b""))
    fields = parse_form(raw, KIND).read_fields()
    assert fields == {"model": "m", "file": True, "prompt": "größer", "language": ""}
    assert parse_form(raw, KIND).find_file("file") == b"\xff\r\n--b-"
    assert parse_form(raw, KIND).text_bytes == 1 + len("größer".encode())


def test_a_name_that_comes_again_has_a_list() -> None:
    raw = form(('"tags[]"', b"a"), ('"tags[]"', b"b"), ('"prompt"', b"1"), ('"prompt"', b"2"))
    assert parse_form(raw, KIND).read_fields() == {"tags": ["a", "b"], "prompt": ["1", "2"]}


def test_a_file_of_texts_is_read_line_by_line() -> None:
    raw = form((FILE, b'{"a": 1}\nno JSON\n\n"text"'))
    assert parse_form(raw, KIND).read_fields(("file",)) == {"file": [{"a": 1}, "no JSON", "", '"text"']}
    changed = parse_form(raw, KIND).with_fields({"file": [{"a": 2}, "no JSON", "", '"text"']})
    assert changed.find_file("file") == b'{"a":2}\nno JSON\n\n"text"'


@pytest.mark.parametrize("before", [b"", b"preamble\r\n", b"\r\n"])
@pytest.mark.parametrize("after", [b"", b"\r\n", b"\r\nepilogue"])
def test_a_change_leaves_all_other_bytes_as_they_were(before: bytes, after: bytes) -> None:
    parts = [('"model"', b"alias"), (FILE, bytes(range(256))), ('"prompt"', b"hello")]
    raw = form(*parts, before=before, after=after)
    changed = parse_form(raw, KIND).with_fields({"model": "real"})
    parts[0] = ('"model"', b"real")
    assert changed.raw == form(*parts, before=before, after=after)
    added = changed.with_fields({"seed": 5, "prompt": UNSET, "gone": UNSET})
    assert added.raw == form(*parts[:2], ('"seed"', b"5"), before=before, after=after)
    assert added.read_fields() == {"model": "real", "file": True, "seed": "5"}


_CONTENTS = st.binary(max_size=60).filter(lambda content: b"--b-1" not in content)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "file"]), _CONTENTS), min_size=1, max_size=5))
def test_parts_are_those_that_the_standard_library_reads_before_and_after_a_change(parts) -> None:
    raw = form(*((f'"{name}"; filename="x"', content) for name, content in parts))
    form_body = parse_form(raw, KIND)
    assert form_body.raw == raw
    for name, content in reversed(parts):
        first = next(each for other, each in parts if other == name)
        assert form_body.find_file(name) == first
        assert content in raw
    changed = form_body.with_fields({"new": "text"})
    assert parse_form(changed.raw, KIND).read_fields()["new"] == "text"
    assert len(read_by_the_standard_library(changed.raw)) == len(parts) + 1


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", KIND),
        (b"{}", KIND),
        (b"{}", b"application/json"),
        (form(('"a"', b"b")), b"multipart/form-data"),
        (form(('"a"', b"b")), b'multipart/form-data; boundary="other"'),
        (form(('"a"', b"b")), b'multipart/mixed; boundary="b-1"'),
        (form(('"a"', b"b"))[:-6], KIND),
        (form(("", b"b")), KIND),
        (b"--b-1\r\nno-disposition: x\r\n\r\na\r\n--b-1--", KIND),
        (b"--b-1 x\r\nContent-Disposition: form-data; name=a\r\n\r\na\r\n--b-1--", KIND),
        (b"--b-1\r\n" + b"x: y\r\n" * 5000 + b"\r\na\r\n--b-1--", KIND),
        (form(*[('"a"', b"b")] * 1001), KIND),
        (form(('"a"\r\nContent-Disposition: form-data; name="b"', b"c")), KIND),
    ],
)
def test_what_is_no_form_is_refused(raw: bytes, kind: bytes) -> None:
    with pytest.raises(BadBodyError) as refused:
        parse_form(raw, kind)
    assert (refused.value.status, refused.value.code) == (400, "invalid_form")


def test_a_field_that_is_no_text_is_named() -> None:
    with pytest.raises(BadBodyError) as refused:
        parse_form(form(('"prompt"', b"\xff")), KIND).read_fields()
    assert refused.value.param == "prompt"
