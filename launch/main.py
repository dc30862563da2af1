"""The `dance` command. Heavy imports come after the arguments are known to be right.

Exit codes: 0 done - 1 a role or a check failed - 2 bad input - 130, 143 stopped by Ctrl-C or
SIGTERM, after saving.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

_EPILOG = """\
settings: KEY=VALUE, as in  dance run data.path=FOLDER train.steps=2000
          every key with its unit and default: dance settings
exit codes: 0 done; 1 a role failed; 2 bad input; 130 or 143 stopped by Ctrl-C or SIGTERM, saved
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.verb is None:
        parser.print_help()
        sys.exit(2)
    sys.exit(_guarded(given))


def _guarded(given: argparse.Namespace) -> int:
    """Bad input in one message; everything else unforeseen keeps its traceback."""
    from .prepare import Refused

    try:
        return _verb(given)
    except ValueError as error:
        from . import terminal

        terminal.fail(str(error))
        return 2
    except OSError as error:  # BrokenPipeError apart: a path that cannot be used
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone: `dance settings | head`
            sys.stdout = None
            return 1
        from . import terminal

        terminal.fail(f"{error.filename or 'files'}: {error.strerror or error}; choose a path that can be written")
        return 2
    except Refused as refused:
        return int(refused.args[0])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _verb(given: argparse.Namespace) -> int:
    match given.verb:
        case "run":
            from . import run

            return run.main(given.settings)
        case "prepare":
            from . import prepare

            return prepare.main(given.settings)
        case "evaluate":
            from .evaluate import main as evaluate

            return evaluate(given.settings)
        case "convert":
            from .convert import main as convert

            return convert(given.settings)
        case "status":
            from . import status

            return status.main(given.run)
        case "doctor":
            from . import doctor

            return doctor.main()
        case "settings":
            from . import settings

            return settings.main()
        case "keys":
            return _keys(given.folder)
    raise AssertionError(given.verb)


def _keys(folder: str) -> int:
    from pathlib import Path

    from dance.exchange.keys import make_keys

    from . import terminal

    made = make_keys(Path(folder).expanduser().resolve())
    terminal.show(f"{made}: copy the folder to every machine of the run and set exchange.keys={made.parent}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dance",
        description="Train dense retrievers on hard negatives mined from the whole corpus by the model in training.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for name, text in (
        ("run", "prepare, train and mine, report; experiment=smoke is the default"),
        ("prepare", "read and tokenise the text, make a run folder, show how to start the roles by hand"),
        ("evaluate", "score an encoder on a split: metrics and a TREC run file"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="see: dance settings")
    convert = verbs.add_parser("convert", help="public ANCE, DANCE and DPR checkpoints to encoders, and back")
    convert.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="from= to= layout= [export= model.path=]")
    status = verbs.add_parser("status", help="what both roles of a run are doing, or how it ended")
    status.add_argument("run", metavar="RUN", help="folder of the run")
    verbs.add_parser("doctor", help="versions, devices, Faiss, ports, disk: what will bite")
    verbs.add_parser("settings", help="every setting with its unit and default, and the experiments")
    keys = verbs.add_parser("keys", help="make the keys that let machines talk to each other")
    keys.add_argument("folder", metavar="FOLDER")
    return parser


if __name__ == "__main__":
    main()
