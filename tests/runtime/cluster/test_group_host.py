"""The host of a group on a node: the process that it starts, without a cluster."""

import os

import pytest

from drumline.runtime.cluster.group_host import GroupHost
from drumline.runtime.cluster.group_messages import GroupSpec
from drumline.runtime.cluster.node_checks import arithmetic_variables, set_arithmetic_variables

NO_HEAD = "127.0.0.1", 9
"""An address at which nothing listens."""


def spec(variables: tuple[tuple[str, str], ...]) -> GroupSpec:
    return GroupSpec(
        search_path=[],
        index=1,
        host="127.0.0.1",
        head=NO_HEAD,
        token=b"",
        packages=[],
        variables=variables,
        factory=b"",
        probe_factory=None,
    )


def test_a_group_on_a_node_has_the_heads_variables_of_arithmetic(monkeypatch: pytest.MonkeyPatch):
    before = arithmetic_variables()
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    try:
        host = GroupHost(spec((("MKL_CBWR", "COMPATIBLE"),)))
        assert host.ended() == "exit code 1"  # it reached no head
        assert os.environ["MKL_CBWR"] == "COMPATIBLE"
        assert "ATEN_CPU_CAPABILITY" not in os.environ
    finally:
        set_arithmetic_variables(before)
