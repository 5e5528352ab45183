"""Where the sentences come from: the installed packages, and the two kinds of message catalog inside them.

A translated program ships a *catalog* per language: English message -> translated message. Two formats are read:

* gettext's binary `.mo` (Django, Trac, JupyterLab language packs, ...): `<any folder>/fr/LC_MESSAGES/<domain>.mo`;
* JSON folders with one file a language, the same keys in each (Home Assistant): `translations/en.json`, `fr.json`.

importlib.metadata gives the files that a package lists in its RECORD; only these are read. No package is imported.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from pmd_lite.errors import UserError

# Order of WMT-6: head languages first. A locale counts if its name is listed here, in lower case and with "_" for "-".
LOCALES: dict[str, tuple[str, ...]] = {
    "fr": ("fr", "fr_fr"),
    "de": ("de", "de_de"),
    "zh": ("zh_hans", "zh_cn", "zh_hans_cn"),
    "et": ("et", "et_ee"),
    "ro": ("ro", "ro_ro"),
    "tr": ("tr", "tr_tr"),
}
LANGUAGES = tuple(LOCALES)


@dataclass(frozen=True)
class Source:
    """One package we know: its name and version on PyPI and its licence (SPDX)."""

    name: str
    version: str
    licence: str
    copyleft: bool = False

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"


# The permissive ones are the lines of requirements-realdata.txt (a test compares the two). Earlier sources win ties.
SOURCES: tuple[Source, ...] = (
    Source("Django", "5.2.19", "BSD-3-Clause"),
    Source("djangorestframework", "3.18.3", "BSD-3-Clause"),
    Source("django-allauth", "65.22.1", "MIT"),
    Source("django-cms", "5.1.3", "BSD-3-Clause"),
    Source("django-contrib-comments", "2.2.0", "BSD-3-Clause"),
    Source("django-filer", "3.6.0", "BSD-3-Clause"),
    Source("django-localflavor", "5.1", "BSD-3-Clause"),
    Source("django-oscar", "4.2.1", "BSD-3-Clause"),
    Source("Mezzanine", "6.1.1", "BSD-2-Clause"),
    Source("Sphinx", "9.0.4", "BSD-2-Clause"),
    Source("Trac", "1.6", "BSD-3-Clause"),
    Source("wagtail", "8.0.1", "BSD-3-Clause"),
    Source("WTForms", "3.3.2", "BSD-3-Clause"),
    Source("homeassistant", "2024.3.3", "Apache-2.0"),
    Source("jupyterlab-language-pack-fr-FR", "4.5.post3", "BSD-3-Clause"),
    Source("jupyterlab-language-pack-de-DE", "4.5.post3", "BSD-3-Clause"),
    Source("jupyterlab-language-pack-zh-CN", "4.5.post3", "BSD-3-Clause"),
    Source("jupyterlab-language-pack-et-EE", "4.5.post3", "BSD-3-Clause"),
    Source("jupyterlab-language-pack-ro-RO", "4.5.post3", "BSD-3-Clause"),
    Source("jupyterlab-language-pack-tr-TR", "4.5.post3", "BSD-3-Clause"),
    Source("weblate", "5.14.3", "GPL-3.0-or-later", copyleft=True),
    Source("plone.app.locales", "7.0.4", "GPL-2.0-only", copyleft=True),
    Source("pretix", "2026.8.0", "AGPL-3.0-only with additional terms", copyleft=True),
)


@dataclass(frozen=True)
class Package:
    """What was read from one installed package: `messages[lang]` lists (English, foreign), in a fixed order."""

    name: str
    version: str
    licence: str
    messages: dict[str, list[tuple[str, str]]]


def choose_sources(packages: list[str] | None, include_copyleft: bool) -> list[Source]:
    """The sources to read: the named `packages` (any package).

    Without names: all permissive ones, or all with `include_copyleft`.

    Raises UserError for a named package under a copyleft licence without `include_copyleft`, and for missing packages.
    """
    if packages is None:
        chosen = [source for source in SOURCES if include_copyleft or not source.copyleft]
    else:
        known = {_canonical(source.name): source for source in SOURCES}
        chosen = [known.get(_canonical(name)) or Source(name, "", "") for name in dict.fromkeys(packages)]
    missing = [source for source in chosen if not _installed(source.name)]
    if missing:
        raise UserError(_missing_message(missing))
    if not include_copyleft:
        for source in chosen:
            if source.copyleft or "GPL" in licence_of(source):
                raise UserError(
                    f"{source.name} is under a copyleft licence ({licence_of(source)}); the corpus would be too. "
                    "Pass --include-copyleft (include_copyleft=True) if you accept that."
                )
    return chosen


def licence_of(source: Source) -> str:
    """Our own note of the licence or, for a package we do not know, what its metadata says."""
    if source.licence:
        return source.licence
    fields = metadata.metadata(source.name)
    classifiers = [line.split(" :: ")[-1] for line in fields.get_all("Classifier", []) if line.startswith("License ::")]
    stated = [*fields.get_all("License-Expression", []), *classifiers, *fields.get_all("License", [])]
    return next((text.splitlines()[0] for text in stated if text), "licence not stated")


def read_package(source: Source) -> Package:
    """Every message of the six languages in one installed package, sorted by file, in the order of the file."""
    distribution = metadata.distribution(source.name)
    if distribution.files is None:
        raise UserError(f"The package {source.name} has no list of its files (RECORD); reinstall it with pip.")
    names = [str(file) for file in distribution.files]
    listed = {name: Path(str(distribution.locate_file(name))) for name in names if name.endswith((".mo", ".json"))}
    messages: dict[str, list[tuple[str, str]]] = {lang: [] for lang in LANGUAGES}
    for name in sorted(listed):
        found = _catalog_language(name)
        if found is None:
            continue
        if not name.endswith(".json"):
            messages[found].extend(read_mo(listed[name]))
        elif (english := str(PurePosixPath(name).with_name("en.json"))) in listed:
            messages[found].extend(read_json(listed[english], listed[name]))
    return Package(source.name, distribution.version, licence_of(source), messages)


def read_mo(path: Path) -> list[tuple[str, str]]:
    """(English, translation) of every message in a gettext `.mo` file; contexts are dropped, plurals give two pairs.

    A plural message has an English singular and plural, and one translation per plural form of the language. The first
    form is paired with the singular, the second with the plural. For a language with one form (Chinese), that form is
    paired with the plural.

    Raises UserError naming the file when it is missing, cut short or damaged.
    """
    data = _read_bytes(path)
    try:
        entries = list(_mo_entries(data))
        header = next((value for key, value in entries if key == b""), b"")
        stated = re.search(rb"charset=([A-Za-z0-9_-]+)", header)
        # "CHARSET" is the placeholder of a template that its translator did not fill in.
        charset = stated[1].decode("ascii") if stated and stated[1] != b"CHARSET" else "utf-8"
        texts = [(key.decode(charset), value.decode(charset)) for key, value in entries if key != b""]
    except (struct.error, ValueError, LookupError) as error:
        raise UserError(
            f"{path}: this message catalog is cut short or damaged ({error}); reinstall its package."
        ) from None
    pairs: list[tuple[str, str]] = []
    for key, value in texts:
        english = key.split("\x04")[-1].split("\0")
        foreign = value.split("\0")
        if len(english) == 2 and len(foreign) == 1:
            english = english[1:]
        pairs.extend((en, xx) for en, xx in zip(english, foreign, strict=False) if en and xx)
    return pairs


def read_json(english_path: Path, foreign_path: Path) -> list[tuple[str, str]]:
    """(English, translation) of every key that both JSON files hold as text, in the order of the English file."""
    english, foreign = (dict(_flatten(_load_json(path))) for path in (english_path, foreign_path))
    return [(text, foreign[key]) for key, text in english.items() if text and foreign.get(key)]


def _mo_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The raw (key, value) table of a `.mo` file, either byte order."""
    order = {0x950412DE: "<", 0xDE120495: ">"}.get(struct.unpack("<I", data[:4])[0])
    if order is None:
        raise ValueError("not a .mo file")
    _, count, keys_at, values_at = struct.unpack(f"{order}4I", data[4:20])
    for index in range(count):
        entry = []
        for table in (keys_at, values_at):
            length, start = struct.unpack(f"{order}2I", data[table + 8 * index : table + 8 * index + 8])
            if start + length > len(data):
                raise ValueError(f"message {index + 1} of {count} lies outside the file")
            entry.append(data[start : start + length])
        yield entry[0], entry[1]


def _catalog_language(name: str) -> str | None:
    """The language of a file by its path, or None if the file is not a catalog of one of the six languages."""
    parts = PurePosixPath(name).parts
    if name.endswith(".mo") and len(parts) >= 3 and parts[-2] == "LC_MESSAGES":
        locale = parts[-3]
    elif name.endswith(".json") and len(parts) >= 2 and parts[-2] == "translations":
        locale = PurePosixPath(name).stem
    else:
        return None
    locale = locale.replace("-", "_").lower()
    return next((lang for lang, locales in LOCALES.items() if locale in locales), None)


def _flatten(node: object, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, str):
        yield key, node
    elif isinstance(node, dict):
        for name, child in node.items():
            yield from _flatten(child, (*key, str(name)))


def _load_json(path: Path) -> object:
    try:
        return json.loads(_read_bytes(path).decode("utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: this message catalog is damaged ({error}); reinstall its package.") from None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path}: cannot read this message catalog ({error.strerror}); reinstall its package."
        ) from None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return True


def _missing_message(missing: list[Source]) -> str:
    names = ", ".join(source.name for source in missing)
    what = " ".join(source.pin if source.version else source.name for source in missing)
    return f"Not installed: {names}. Run `pip install {what} --no-deps` (only their translation files are read)."
