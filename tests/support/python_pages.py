"""A Python in which a page's blocks run one after the other, in one namespace; started as a script.

A line of JSON in, `{"code", "where"}`; a line out, `{"printed", "error"}`. `await` may stand at top level.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import sys
import traceback
from typing import Any


def main() -> None:
    told = sys.stdout
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            asked = json.loads(line)
            printed, error = io.StringIO(), None
            with contextlib.redirect_stdout(printed):
                try:
                    code = compile(asked["code"], asked["where"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                    if (waits := eval(code, namespace)) is not None:
                        runner.run(_wait(waits))
                except BaseException:  # noqa: BLE001 - whatever it is, the test tells of it
                    error = traceback.format_exc()
            print(json.dumps({"printed": printed.getvalue(), "error": error}), file=told, flush=True)


async def _wait(waits: Any) -> None:
    await waits


if __name__ == "__main__":
    main()
