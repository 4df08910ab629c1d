"""An HDFS of our own for the tests: WebHDFS's REST protocol on a port of this machine, files in memory.

Of what HDFS does it has what matters to who writes there: data goes to and from another address, to which the name node
redirects; a file that is being written is there, as far as it is written; a rename does not replace, and says so with
`false` and no error. (Apache Hadoop, WebHDFS REST API; the FileSystem specification, `rename`.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from time import time_ns
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import attrs
import pytest

NAMES, DATA = "/webhdfs/v1", "/data"
"""What the paths of the name node and of the data node begin with."""


@attrs.define(eq=False)
class WebHdfs:
    """The files: content by path; a folder has none."""

    files: dict[str, bytes | None] = attrs.field(factory=lambda: {"/": None})
    times: dict[str, int] = attrs.field(factory=dict)
    lock: RLock = attrs.field(factory=RLock)
    port: int = 0

    @property
    def uri(self) -> str:
        return f"webhdfs://127.0.0.1:{self.port}"

    def status(self, path: str, suffix: str = "") -> dict[str, Any]:
        content = self.files[path]
        kind = {"type": "DIRECTORY", "length": 0} if content is None else {"type": "FILE", "length": len(content)}
        return {**kind, "pathSuffix": suffix, "modificationTime": self.times.get(path, 0), "permission": "755"}

    def inside(self, path: str) -> list[dict[str, Any]]:
        """What LISTSTATUS tells of a folder, or of a file."""
        if self.files[path] is not None:
            return [self.status(path)]
        head = f"{path.rstrip('/')}/"
        names = (name.removeprefix(head) for name in self.files if name.startswith(head) and name != path)
        return [self.status(head + name, name) for name in sorted(names) if "/" not in name]

    def make_folders(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for end in range(1, len(parts) + 1):
            self.files.setdefault("/" + "/".join(parts[:end]), None)

    def write(self, path: str, content: bytes) -> None:
        self.make_folders(path.rpartition("/")[0])
        self.files[path] = content
        self.times[path] = time_ns() // 1_000_000

    def rename(self, path: str, to: str) -> bool:
        """False where HDFS does nothing: there is something, or no folder for it."""
        parent = to.rpartition("/")[0] or "/"
        if path not in self.files or to in self.files or self.files.get(parent, b"") is not None:
            return False
        for name in [name for name in self.files if name == path or name.startswith(path + "/")]:
            self.files[to + name.removeprefix(path)] = self.files.pop(name)
            self.times[to + name.removeprefix(path)] = self.times.pop(name, 0)
        return True

    def delete(self, path: str, recursive: bool) -> bool:
        """Raises OSError for a folder that is not empty, unless all below it is to go too."""
        below = [name for name in self.files if name.startswith(path.rstrip("/") + "/")]
        if below and not recursive:
            raise OSError(f"{path} is non empty")
        return [self.files.pop(name, b"") for name in (*below, path) if name in self.files] != []


class Server(ThreadingHTTPServer):
    """Both nodes on one port."""

    daemon_threads = True

    def __init__(self, hdfs: WebHdfs) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hdfs = hdfs
        hdfs.port = self.server_address[1]


class Handler(BaseHTTPRequestHandler):
    """The name node and the data node."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.respond()

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.options = {name.lower(): values[0] for name, values in parse_qs(url.query).items()}
        path = unquote(url.path.removeprefix(NAMES).removeprefix(DATA)).rstrip("/") or "/"
        task = f"{self.command} {self.options['op'].upper()}"
        with self.server.hdfs.lock:
            try:
                if url.path.startswith(DATA):
                    self.data(task, path, body)
                else:
                    self.names(task, path)
            except KeyError:
                self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")
            except OSError as error:
                self.refuse(403, "PathIsNotEmptyDirectoryException", str(error))

    def names(self, task: str, path: str) -> None:
        match task:
            case "GET GETFILESTATUS":
                self.say({"FileStatus": self.server.hdfs.status(path)})
            case "GET LISTSTATUS":
                self.say({"FileStatuses": {"FileStatus": self.server.hdfs.inside(path)}})
            case "PUT MKDIRS":
                self.server.hdfs.make_folders(path)
                self.say({"boolean": True})
            case "PUT RENAME":
                self.say({"boolean": self.server.hdfs.rename(path, self.options["destination"])})
            case "DELETE DELETE":
                self.say({"boolean": self.server.hdfs.delete(path, self.options.get("recursive") == "true")})
            case "GET OPEN" | "POST APPEND":
                if self.server.hdfs.files[path] is None:
                    raise KeyError(path)
                self.redirect(path)
            case "PUT CREATE":
                self.redirect(path)
            case _:
                self.refuse(400, "UnsupportedOperationException", f"{task} is not supported")

    def data(self, task: str, path: str, body: bytes) -> None:
        match task:
            case "GET OPEN":
                content, offset = self.server.hdfs.files[path] or b"", int(self.options.get("offset", 0))
                length = int(self.options.get("length", len(content)))
                self.send(200, content[offset : offset + length])
            case "PUT CREATE":
                self.server.hdfs.write(path, body)
                self.send(201)
            case "POST APPEND":
                self.server.hdfs.write(path, (self.server.hdfs.files[path] or b"") + body)
                self.send(200)

    def redirect(self, path: str) -> None:
        options = "&".join(f"{name}={quote(value)}" for name, value in self.options.items())
        self.send(307, Location=f"http://localhost:{self.server.hdfs.port}{DATA}{quote(path)}?{options}")

    def refuse(self, status: int, exception: str, message: str) -> None:
        told = {"exception": exception, "javaClassName": f"java.io.{exception}", "message": message}
        self.send(status, json.dumps({"RemoteException": told}).encode())

    def say(self, said: dict[str, Any]) -> None:
        self.send(200, json.dumps(said).encode())

    def send(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def hdfs() -> Iterator[WebHdfs]:
    """An HDFS without files, which all processes reach."""
    pytest.importorskip("fsspec")
    pytest.importorskip("requests")
    made = WebHdfs()
    server = Server(made)
    Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()
