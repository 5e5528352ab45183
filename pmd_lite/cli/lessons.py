"""The command lessons: the notebooks out of the installed package, for those who have no checkout."""

from importlib.util import find_spec
from pathlib import Path

from tyro.conf import Positional

from pmd_lite.disk import explained, place, write_bytes
from pmd_lite.errors import UserError


def lessons(directory: Positional[Path]) -> None:
    """Copy the lessons into a directory, with their solutions and stored results, to be opened in Jupyter.

    A file that is there already stays. If it differs from ours, the command copies nothing. The lessons need
    pip install "pmd_lite[lessons]".

    Args:
        directory: where to, a new directory or one of an earlier call.
    """
    out, found = place(directory), _lessons()
    with explained(out):
        changed = [name for name, path in found.items()
                   if (out / name).exists() and (out / name).read_bytes() != path.read_bytes()]  # fmt: skip
        if changed:
            raise UserError(f"{out / changed[0]}: {len(changed)} files there differ from ours: your work, or another "
                            "version. Nothing was copied. Name another directory")  # fmt: skip
        for name, path in found.items():
            if not (out / name).exists():
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                write_bytes(out / name, path.read_bytes())
    print(f"{len(found)} files in {out}. Open them: jupyter lab {out / '00_the_whole_story.ipynb'}")


def _lessons() -> dict[str, Path]:
    """{place below the lessons: file}, in a checkout or as the wheel installed them (share/pmd_lite/lessons)."""
    from importlib.metadata import PackageNotFoundError, files

    kit = find_spec("pmd_kit")
    beside = Path(*kit.submodule_search_locations).parent if kit and kit.submodule_search_locations else Path()
    if (beside / "pmd_kit").is_dir() and list(beside.glob("0*.ipynb")):
        kept = [*beside.glob("*.ipynb"), *beside.glob("solutions/*.ipynb"), *beside.rglob("results/**/*.json")]
        return {path.relative_to(beside).as_posix(): path for path in sorted(kept)}
    try:
        listed = {str(file).partition("share/pmd_lite/lessons/")[2]: Path(str(file.locate()))
                  for file in files("pmd_lite") or ()}  # fmt: skip
    except PackageNotFoundError:
        listed = {}
    if not (found := {name: path for name, path in listed.items() if name}):
        raise UserError("this installation has no lessons. Install pmd_lite from its wheel, or use a checkout")
    return found
