"""A receiver of callbacks on this machine: TLS with a certificate of its own for `localhost`, answers as told."""

from __future__ import annotations

import ipaddress
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


class Receiver(NamedTuple):
    """Where it listens, what a client must trust, and what came: (path, headers, body)."""

    port: int
    context: ssl.SSLContext
    came: list[tuple[str, Any, bytes]]


def certificate(path: Path) -> None:
    """A self-signed certificate for `localhost` with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    signed = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(signed.public_bytes(Encoding.PEM) + private)


@contextmanager
def receiver(folder: Path, status: int = 200, body: bytes = b"ok", pause_s: float = 0.0) -> Iterator[Receiver]:
    """A receiver that answers `status` and, a byte after the other with pauses between, `body`."""
    came: list[tuple[str, Any, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name is http.server's
            content = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.path, self.headers, content))
            self.send_response(status)
            self.send_header("Location", "https://127.0.0.1:1/elsewhere")
            self.end_headers()
            pieces = [body[i : i + 1] for i in range(len(body))] if pause_s else [body]
            for piece in pieces:
                time.sleep(pause_s)
                self.wfile.write(piece)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return  # the client has gone, as some tests want

    pem = folder / "receiver.pem"
    certificate(pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield Receiver(server.server_address[1], ssl.create_default_context(cafile=str(pem)), came)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
