"""`--config FILE`: a config as `--print-config` prints it, or the config.json of a run."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, cast, get_type_hints

from drumline.commands.command_line import WrongUse
from drumline.recipes.families import Fields
from drumline.recipes.method import FOUND_HERE, Method
from drumline.recipes.methods import METHODS, with_late_settings
from drumline.runs.start_policy import own_start_at
from drumline.runs.strict_json import check_fields, parsed


def read_config_file(path: Path, method: str) -> Fields:
    """Return the fields in a file; WrongUse in one sentence if they cannot be read.

    The config.json of an older version's run gives the settings that this version calls the same.
    """
    fields = _fields_in(path, method)
    if method not in METHODS:
        return fields
    # A new run has the findings of the machine that it begins on.
    return {name: value for name, value in fields.items() if name != FOUND_HERE}


def _fields_in(path: Path, method: str) -> Fields:
    try:
        document = parsed(path.read_bytes())
    except OSError as error:
        raise WrongUse(f"cannot read --config {path}: {error.strerror}") from error
    except ValueError as error:
        raise WrongUse(
            f"--config {path} is no config ({error}): give what --print-config prints"
        ) from error
    inner = document.get("config")
    if not (isinstance(inner, dict) and "format" in document):
        return document
    if (made := document.get("method")) in METHODS and method in METHODS and made != method:
        raise WrongUse(f"--config {path} is of {made}, and this is {method}")
    if document.get("method") not in METHODS or not {"env", "seed"} <= set(inner):
        return inner
    fields = cast(Fields, with_late_settings(document)["config"])
    if isinstance(start := fields.get("start_from"), str) and path.name == "config.json":
        fields["start_from"] = own_start_at(path.parent, start)
    return fields


def refuse_foreign_fields(
    path: Path, fields: Fields, method: Method, others: Collection[Method]
) -> None:
    """Raise WrongUse for a field that the method does not have, or that has another type.

    A file whose fields are those of another of Drumline's methods is named as such.
    """
    known = get_type_hints(method.config)
    unknown = [name for name in fields if name not in method.fields]
    if unknown:
        whose = [other.name for other in others if other.fields.issuperset(fields)]
        if whose:
            raise WrongUse(f"--config {path} is of {whose[0]}, and this is {method.name}")
        raise WrongUse(
            f"--config {path} has {unknown[0]!r}, which {method.name} does not know: "
            "give what --print-config prints"
        )
    try:
        check_fields(fields, known)
    except ValueError as error:
        raise WrongUse(f"--config {path}: {error}") from error


def typed_fields(fields: Fields) -> dict[str, Any]:
    """Return fields with the tuples that JSON holds as lists."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
