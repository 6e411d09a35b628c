"""A TURN relay: Debian's coturn, with a certificate of its own making."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.network.namespace import Namespace
from tests.waiting import eventually

SECRET = "between the relay and the server"
PORT, TLS_PORT = 3478, 443
PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Relay:
    """Where it is, and the SHA-256 of its public key, by which Chromium may be told to trust it."""

    address: str
    spki: str

    def url(self, way: str) -> str:
        """Over "udp", "tcp" or "tls"."""
        return {
            "udp": f"turn:{self.address}:{PORT}?transport=udp",
            "tcp": f"turn:{self.address}:{PORT}?transport=tcp",
            "tls": f"turns:{self.address}:{TLS_PORT}?transport=tcp",
        }[way]


@contextmanager
def relaying(machine: Namespace, address: str, folder: Path) -> Iterator[Relay]:
    """The relay, from ready to stopped. Skips where it is not installed."""
    if not shutil.which("turnserver"):
        pytest.skip("no TURN relay: install it (Debian: apt install coturn)")
    spki = _certify(address, folder)
    options = {
        "static-auth-secret": SECRET,
        "realm": "test",
        "listening-ip": address,
        "relay-ip": address,
        "listening-port": PORT,
        "tls-listening-port": TLS_PORT,
        "cert": folder / "certificate.pem",
        "pkey": folder / "key.pem",
        "userdb": folder / "users",
        "pidfile": folder / "pid",
        "log-file": "stdout",
    }
    words = ["-n", "--lt-cred-mech", "--use-auth-secret", "--no-cli", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log.txt").open("wb") as log, machine.inside():
        relay = subprocess.Popen(["turnserver", *words], stdout=log, stderr=log)
    try:
        _await(machine, address)
        yield Relay(address, spki)
    finally:
        relay.terminate()
        relay.wait(10)


def _await(machine: Namespace, address: str) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((address, TLS_PORT)) == 0

    with machine.inside():
        eventually(listens)


def _certify(address: str, folder: Path) -> str:
    """A key and a certificate for that address, in that folder; the key's SHA-256."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    tomorrow = now + datetime.timedelta(days=1)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, tomorrow)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "key.pem").write_bytes(private)
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(PEM))
    return base64.b64encode(hashlib.sha256(public).digest()).decode()
