"""A small proxy before PostgreSQL's socket that can swallow the answer to a COMMIT and cut the connection."""

from __future__ import annotations

import selectors
import shutil
import socket
import tempfile
import threading
from pathlib import Path

NAME = ".s.PGSQL.5432"


class CommitEater:
    """Passes everything on until told to eat: the server commits, the client never learns of it."""

    def __init__(self, server: Path) -> None:
        self._server = str(server / NAME)
        self.folder = Path(tempfile.mkdtemp(prefix="sfpx"))
        self.eaten = 0
        self._left: int | None = None
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The database as seen through the proxy."""
        return f"postgresql+psycopg://factory@/factory?host={self.folder}"

    def eat(self, *, after: int) -> None:
        """Let `after` COMMITs be answered, and lose the answer to the next."""
        self._left = after

    def __enter__(self) -> CommitEater:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / NAME))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        shutil.rmtree(self.folder)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        with client, server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while all(self._pass_on(key.fileobj, key.data, server) for key, _ in ready.select()):
                pass

    def _pass_on(self, source: socket.socket, target: socket.socket, server: socket.socket) -> bool:
        """Pass on what there is; False once the connection is over, whichever side closed it."""
        try:
            data = source.recv(65_536)
            target.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        if not data:
            return False
        if target is server and b"COMMIT" in data and self._is_eaten():
            server.recv(65_536)  # the server has committed; its answer ends here
            return False
        return True

    def _is_eaten(self) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            self.eaten += self._left < 0
            if self._left < 0:
                self._left = None
                return True
            return False
