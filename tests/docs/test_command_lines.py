"""What looks at the pages' commands sees what is wrong with one."""

import pytest

from support.command_lines import address, commands, complaint, must_be_marked
from support.pages import Block
from support.reader import assert_shown


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("radixway sreve", "radixway has no 'sreve'"),
        ("radixway workers ad http://gpu1", "radixway workers has no 'ad'"),
        ("radixway serve --workers http://gpu1", "No such option"),
        (".venv/bin/python -m radixway serve --port", "requires an argument"),
        ("make upp", "the Makefile has no ['upp']"),
        ("pip install 'radixway[everything]'", "there is no extra ['everything']"),
        ("python tools/nothing.py", "there is no tools/nothing.py"),
        ("python benchmarks/gateway.py --slowly", "takes no --slowly"),
        ("python tools/evaluate.py domain --slowly", "No such option"),
        ("radixway eval domain", "radixway has no 'eval'"),
        ("python -m pytest tests/cli/test_commands.py -k no_such_test", "has no test no_such_test"),
        ("kubectl apply -k deploy/kubernetes/nowhere", "there is no deploy/kubernetes/nowhere"),
    ],
)
def test_a_wrong_command_is_complained_of(line, said):
    ((words),) = commands(line)
    assert said in complaint(words)


@pytest.mark.parametrize(
    "line",
    [
        "radixway serve --worker http://gpu1:8000 http://gpu2:8000 --port 1",
        "python tools/evaluate.py domain [--confusion] [--json FILE]",
        "FOO=1 exec .venv/bin/radixway up --model Qwen/Qwen3-0.6B   # a 'hub id'",
        'make up ARGS="--port 31000"',
        "python benchmarks/gateway.py --quick",
    ],
)
def test_a_right_one_is_not(line):
    ((words),) = commands(line)
    assert complaint(words) is None


@pytest.mark.parametrize(
    "line", ["radixway up", "make test", "pip install x", "python -m pip install x", "radixway top"]
)
def test_what_never_ends_or_installs_is_seen(line):
    ((words),) = commands(line)
    assert must_be_marked(words)


def test_commands_are_taken_apart_as_a_shell_does():
    script = """
    ID=$(curl -s localhost:30000/a -d '{"x": "#1; y"}' | jq -r .id)  # it's that one
    curl \\
      http://127.0.0.1:30000/b > out.txt && make up
    """
    found = [*commands(script)]
    assert ["curl", "-s", "localhost:30000/a", "-d", '{"x": "#1; y"}'] in found
    assert ["curl", "http://127.0.0.1:30000/b"] in found and ["make", "up"] in found
    assert {address(words) for words in found if words[0] == "curl"} == {("POST", "/a"), ("GET", "/b")}


def test_what_is_printed_is_held_against_what_is_shown():
    text = Block("page.md", 1, "text", "a …\nz", {})
    assert_shown(text, "a b c\n  z\n")
    with pytest.raises(AssertionError):
        assert_shown(text, "a b c")
    json = Block("page.md", 1, "json", '{"a": {"b": …}, "c": 1}', {})
    assert_shown(json, '{"a": {"b": "x", "d": 2}, "c": 3}')
    with pytest.raises(AssertionError, match="shows 'b'"):
        assert_shown(json, '{"a": {}, "c": 3}')
