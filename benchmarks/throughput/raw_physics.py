"""Raw physics and policy: the least that any loop over episodes must compute, without a loop.

MuJoCo's substeps with recorded actions (`mj_step`, nothing read out), and the calls of the 64-64
policy on recorded observations. Episodes are those of perturbed policies, at most 250 steps long;
resets are not counted. Classic control has no physics of its own: there it is the policy alone.

Says "ready", reads the time to begin, and answers with env steps per second, as `es.py` has it:

    python benchmarks/throughput/raw_physics.py HalfCheetah-v5 5 0.02
"""

import sys
import time

import gymnasium
import numpy as np
from lean_steps import CLASSIC, Recorded, drawn, physics, record, spec_of

from drumline.policies.build import build_policy

POLICIES = 8


def main() -> None:
    env, seconds, std = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    environment = gymnasium.make(env).unwrapped
    spec, rng = spec_of(environment), np.random.default_rng(0)
    simulate = None if env in CLASSIC else physics(environment)
    pool = []
    for number in range(POLICIES):
        policy = build_policy(spec)
        policy.load_vector(drawn(spec, rng, std))
        pool += [(policy, episode) for episode in record(environment, policy, [number])]

    def spent(policy, episode: Recorded) -> float:
        environment.reset(seed=episode.seed)
        act, began = policy.act, time.perf_counter()
        for observation, action in zip(episode.observations, episode.actions, strict=True):
            act(observation)
            if simulate is not None:
                simulate(action)
        return time.perf_counter() - began

    for policy, episode in pool:
        spent(policy, episode)
    print("ready", flush=True)
    start = float(input())
    while time.perf_counter() < start:
        pass
    steps, counted, turn = 0, 0.0, 0
    while time.perf_counter() - start < seconds:
        policy, episode = pool[turn % POLICIES]
        counted += spent(policy, episode)
        steps += len(episode.actions)
        turn += 1
    print(steps / counted)


if __name__ == "__main__":
    main()
