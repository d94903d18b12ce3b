"""Names that `import drumline` gives."""

import subprocess
import sys

import pytest

import drumline
from drumline.recipes.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_methods_config_has_a_public_name(name: str):
    config = METHODS[name].config
    assert getattr(drumline, config.__name__) is config
    assert config.__name__ in drumline.__all__


def test_every_public_name_can_be_imported():
    for name in drumline.__all__:
        assert getattr(drumline, name) is not None


def test_importing_drumline_imports_nothing_heavy():
    heavy = "[name for name in ('numpy', 'torch', 'gymnasium') if name in sys.modules]"
    code = f"import sys, drumline; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_completion_shows_the_public_names_alone():
    import drumline

    assert dir(drumline) == sorted(drumline.__all__)
