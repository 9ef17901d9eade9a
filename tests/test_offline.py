"""The guard against sockets bites, here and in child processes; the runs that use it are in the tests of training."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request

import pytest
from offline import SocketRefused

_OPEN_ONE = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"


def test_a_socket_can_be_opened_without_the_guard() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()


@pytest.mark.usefixtures("no_sockets")
def test_the_guard_refuses_sockets_and_look_ups() -> None:
    with pytest.raises(SocketRefused):
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with pytest.raises(SocketRefused):
        socket.getaddrinfo("localhost", 80)
    with pytest.raises(SocketRefused):
        urllib.request.urlopen("http://127.0.0.1:9/")
    left, right = socket.socketpair()
    left.close()
    right.close()


@pytest.mark.usefixtures("no_sockets")
def test_the_guard_reaches_child_processes() -> None:
    child = subprocess.run([sys.executable, "-c", _OPEN_ONE], capture_output=True, text=True, check=False)
    assert child.returncode != 0
    assert "SocketRefused" in child.stderr


def test_the_guard_ends_with_its_test() -> None:
    assert subprocess.run([sys.executable, "-c", _OPEN_ONE], check=False).returncode == 0
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
