"""The guard that refuses sockets: an audit hook, which also sees sockets opened from C or by a kept reference."""

from __future__ import annotations

import socket

# Everything that reaches out of the process. A socket of the family AF_UNIX may exist (socketpair serves event
# loops within one process), but it may not be connected or bound either.
_REACHING_OUT = {
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyaddr",
    "socket.gethostbyname",
    "socket.getnameinfo",
    "socket.getservbyname",
    "socket.sendmsg",
    "socket.sendto",
}


class SocketRefused(BaseException):
    """Raised where guarded code asks for a socket. Not an Exception, so that no ``except Exception`` hides it."""


def refuse(event: str, args: tuple[object, ...]) -> None:
    """Audit hook: raise SocketRefused where ``event`` is a socket that leaves the process."""
    if event == "socket.__new__" and args[1] != socket.AF_UNIX:
        raise SocketRefused(f"this code must not open a socket (family {args[1]!r})")
    if event in _REACHING_OUT:
        raise SocketRefused(f"this code must not use the network ({event})")
