"""A hub on this machine: what a download asks of the Hugging Face hub, over HTTP."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = hashlib.sha1(b"commit").hexdigest()


@contextmanager
def hub(repository: str, files: dict[str, bytes]) -> Iterator[str]:
    """The URL of a hub that has this repository and no other, while inside."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == f"/api/models/{repository}/revision/main":
                self.answer(json.dumps({"id": repository, "sha": COMMIT, "siblings": []}).encode())
            elif path.startswith(f"/api/models/{repository}/tree/"):
                entries = [
                    {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for name, data in files.items()
                ]
                self.answer(json.dumps(entries).encode())
            elif (name := path.rpartition(f"/{repository}/resolve/{COMMIT}/")[2]) in files:
                self.answer(files[name])
            else:
                self.answer(b'{"error": "Repository not found"}', status=404, code="RepoNotFound")

        def answer(self, data: bytes, *, status: int = 200, code: str = "") -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.send_header("etag", f'"{hashlib.sha1(data).hexdigest()}"')
            self.send_header("x-repo-commit", COMMIT)
            if code:
                self.send_header("x-error-code", code)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
