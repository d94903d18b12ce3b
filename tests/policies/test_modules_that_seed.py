"""A user's file that seeds torch when it is imported: what its class draws follows our seeds."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import build_network, initial_parameters
from drumline.policies.heads import Head
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.searched_module import SearchedModule
from drumline.policies.spec import PolicySpec
from drumline.policies.torch_module import build_module, initial_vector

FILE = """
import numpy as np, torch
from torch import nn

torch.manual_seed(11)
np.random.rand()


class Net(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.features = torch.randn(3)
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs):
        return self.layer(inputs)


class Both(Net):
    def forward(self, inputs):
        return self.layer(inputs), inputs[:, 0]
"""
HEAD = Head("discrete", choices=2)
POLICY = PolicySpec(4, HEAD, module="seeds_itself:Net")
NETWORK = NetworkSpec((4,), "<f4", ActionHead("categorical", (2,)), "seeds_itself:Both")


def of_module(module: Any) -> list[Any]:
    return [module.features.tolist(), module.layer.weight.tolist()]


MADE: dict[str, Callable[[], Any]] = {
    "a searched module": lambda: SearchedModule("seeds_itself:Net", 5).vector().tolist(),
    "buffers of a searched module": lambda: of_module(SearchedModule("seeds_itself:Net", 5).module),
    "a policy": lambda: of_module(build_module(POLICY)),
    "a policy's first parameters": lambda: initial_vector(
        POLICY, np.random.default_rng(3)
    ).tolist(),
    "a network": lambda: of_module(build_network(NETWORK)),
    "a network's first parameters": lambda: initial_parameters(NETWORK, 3).tolist(),
}


@pytest.mark.parametrize("name", MADE)
def test_the_first_import_in_a_process_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "seeds_itself.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "seeds_itself", raising=False)
    before = torch.get_rng_state()
    first = MADE[name]()
    assert "seeds_itself" in sys.modules
    assert torch.equal(torch.get_rng_state(), before)
    again = MADE[name]()
    monkeypatch.delitem(sys.modules, "seeds_itself")
    assert first == again
