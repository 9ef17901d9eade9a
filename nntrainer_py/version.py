"""The version of the package, in one place: setup.cfg, ``result.json`` and checkpoints read it from here."""

from __future__ import annotations

__version__ = "0.1.0"
