"""A TLS server with its own certificate, whose handshakes break as a test wants."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

Break = Literal["reset", "closed", "cut", "silent", "plain"]
_ABORT = struct.pack("ii", 1, 0)  # a close that resets the connection


def certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that nobody else vouches for, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(here, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = builder.sign(key, hashes.SHA256())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(pem))
    paths[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return paths


class BreakingTls:
    """Passes what comes by TLS on to a port of this machine, or breaks a connection.

    Attributes:
        port: where it listens.
        breaks: how the next connections' handshakes break, the first one's first.
        broken: how many it has broken.
    """

    def __init__(self, to: int, paths: tuple[Path, Path]) -> None:
        self._to = to
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*paths)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.breaks: list[Break] = []
        self.broken = 0
        self.closed = threading.Event()

    def listen(self) -> None:
        """Take connections until the server is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self.closed.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self.breaks:
                self.broken += 1
                self._break(client, self.breaks.pop(0))
                return
            with (
                self._context.wrap_socket(client, server_side=True) as secure,
                socket.create_connection(("127.0.0.1", self._to)) as store,
            ):
                back = threading.Thread(target=_pass, args=(store, secure), daemon=True)
                back.start()
                _pass(secure, store)
                back.join()

    def _break(self, client: socket.socket, how: Break) -> None:
        client.recv(1 << 14)
        if how == "silent":
            self.closed.wait()
        if how == "cut":
            client.sendall(b"\x16\x03\x03\x40\x00\x02")  # the beginning of an answer
        if how == "plain":
            client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)


def _pass(source: Any, sink: Any) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def breaking_tls(to: int, paths: tuple[Path, Path]) -> Iterator[BreakingTls]:
    """Such a server, while the body runs."""
    server = BreakingTls(to, paths)
    threading.Thread(target=server.listen, daemon=True).start()
    try:
        yield server
    finally:
        server.close()
