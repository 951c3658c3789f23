"""An issuer of OpenID Connect on this machine: discovery, keys, and tokens as a test wants them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = "spyre-factory"


class Issuer:
    """What it says of whoever logs in is `claims`; what was sent for a code is in `asked`."""

    def __init__(self, url: str) -> None:
        self.url, self.key = url, RSAKey.generate_key(2048, parameters={"kid": "one"})
        self.signing_key = self.key
        self.claims: dict[str, Any] = {}
        self.asked: dict[str, list[str]] = {}

    def answer(self, path: str) -> dict[str, Any]:
        """The document at a path."""
        if path == "/.well-known/openid-configuration":
            named = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            return {"issuer": self.url, **{name: f"{self.url}/{end}" for name, end in named.items()}}
        if path == "/keys":
            return {"keys": [self.key.as_dict(private=False)]}
        now = int(time.time())
        standing = {"iss": self.url, "aud": CLIENT, "sub": "u-1", "iat": now, "exp": now + 60}
        token = jwt.encode({"alg": "RS256", "kid": "one"}, {**standing, **self.claims}, self.signing_key)
        return {"access_token": "a", "token_type": "Bearer", "id_token": token}


@contextmanager
def issuer() -> Iterator[Issuer]:
    """A running issuer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(found.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            found.asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Issuer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
