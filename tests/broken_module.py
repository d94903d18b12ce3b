"""A module that cannot be imported."""

_ABSENT = {}["absent"]
