"""Put this folder on PYTHONPATH and a Python process, with all that it starts, refuses sockets from its first line."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("offline", Path(__file__).resolve().parent.parent / "offline.py")
if _spec is None or _spec.loader is None:
    raise ImportError("the guard against sockets is not beside its folder")
_offline = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_offline)
sys.addaudithook(_offline.refuse)
