import pickle

import pytest

from drumline.envs.environment import EnvironmentSpec
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec
from drumline.protocols import PublishedLayout
from drumline.runtime.cluster.node_checks import answer_of
from drumline.runtime.inline_pool import InlinePool
from drumline.workers.proof import ProofSpec

SPEC = ProofSpec(
    EnvironmentSpec("CartPole-v1"), PolicySpec(4, Head("discrete", choices=2), (8,), bias=True)
)


def here(spec: ProofSpec) -> bytes:
    pool = InlinePool(spec, published=PublishedLayout({}))
    pool.submit([0, 1])
    answers = set()
    while done := pool.completed():
        answers |= {one.result for one in done}
    pool.close()
    (answer,) = answers
    return answer


def test_every_process_gives_the_same_answer():
    assert here(SPEC) == here(SPEC) == answer_of(pickle.dumps(SPEC), 60.0, 60.0)


@pytest.mark.parametrize(
    "other",
    [
        ProofSpec(EnvironmentSpec("CartPole-v1", frame_skip=2), SPEC.policy),
        ProofSpec(SPEC.environment, PolicySpec(4, Head("discrete", choices=2), (9,), bias=True)),
    ],
)
def test_another_environment_or_policy_has_another_answer(other: ProofSpec):
    assert here(other) != here(SPEC)
