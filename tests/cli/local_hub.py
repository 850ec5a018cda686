"""A hub on this machine: repositories of files, as much of its protocol as downloads need."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c" * 40
Repositories = dict[str, dict[str, bytes]]
"""Files by name, by `models/OWNER/NAME` or `datasets/OWNER/NAME`."""


class Handler(BaseHTTPRequestHandler):
    repositories: Repositories
    served: list[str]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts[0] == "api":
            repository = "/".join(parts[1:4])
            self._about(repository, parts[4:])
        elif "resolve" in parts:
            place = parts.index("resolve")
            repository = "/".join(parts[:place])
            kind = "" if repository.startswith("datasets/") else "models/"
            self._file(kind + repository, "/".join(parts[place + 2 :]))
        else:
            self._answer(200, b"{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        asked = json.loads(body)["paths"] if body.startswith("{") else parse_qs(body)["paths"]
        parts = urlsplit(self.path).path.strip("/").split("/")
        files = self.repositories.get("/".join(parts[1:4]), {})
        self._json([entry(name, files[name]) for name in asked if name in files])

    def _about(self, repository: str, rest: list[str]) -> None:
        files = self.repositories.get(repository)
        if files is None:
            return self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if rest[:1] == ["tree"]:
            return self._json([entry(name, data) for name, data in files.items()])
        siblings = [{"rfilename": name} for name in files]
        name = repository.partition("/")[2]
        return self._json({"id": name, "sha": COMMIT, "siblings": siblings, "private": False})

    def _file(self, repository: str, name: str) -> None:
        data = self.repositories.get(repository, {}).get(name)
        if data is None:
            return self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        if self.command == "GET":
            self.served.append(name)
        etag = hashlib.sha256(data).hexdigest()
        return self._answer(200, data, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})

    def _json(self, value: object) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _answer(self, code: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def entry(name: str, data: bytes) -> dict[str, object]:
    return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


@contextmanager
def local_hub(repositories: Repositories) -> Iterator[tuple[str, list[str]]]:
    """Serve repositories; gives the address, and the names of the files that were fetched."""
    served: list[str] = []
    about = {"repositories": repositories, "served": served}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handling", (Handler,), about))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", served
    finally:
        server.shutdown()
        server.server_close()
