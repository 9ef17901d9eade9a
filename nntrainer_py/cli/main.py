"""``nntrainer``: all commands under one name, ``nntrainer train model.ini``, and two of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from nntrainer_py.cli.command import EXIT_CODES, say
from nntrainer_py.errors import did_you_mean, printable
from nntrainer_py.version import __version__

#: verb -> what it does; each is a module of this folder with a function ``main(argv, prog)``
VERBS = {
    "train": "train the model of an INI file, or check it (--check)",
    "infer": "predict with a trained model, and evaluate it",
    "inspect": "show layers, planned memory and the peak",
    "report": "make one HTML page of a run",
    "describe": "explain the keywords of model files and their properties",
    "warm": "compile kernels ahead of the first run",
    "version": "show the version",
}


def usage() -> str:
    """The help text."""
    verbs = "\n".join(f"  {verb:<10}{what}" for verb, what in VERBS.items())
    return (
        f"usage: nntrainer VERB ...\n\nverbs:\n{verbs}\n\nnntrainer VERB --help tells more about one.\n\n"
        f"example:\n  nntrainer train examples/digits/model.ini\n\n{EXIT_CODES}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        say(usage())
        return 2
    verb, *rest = words
    if verb in ("-h", "--help", "help"):
        print(usage())
        return 0
    if verb in ("version", "--version"):
        print(f"nntrainer_py {__version__}")
        return 0
    if verb not in VERBS:
        say(f"nntrainer: unknown verb: {printable(verb)}{did_you_mean(verb, VERBS)}\n(see nntrainer --help)")
        return 2
    code: int = import_module(f"nntrainer_py.cli.{verb}").main(rest, prog=f"nntrainer {verb}")
    return code


if __name__ == "__main__":
    sys.exit(main())
