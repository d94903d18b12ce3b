"""Environments that misbehave in named ways, importable by worker processes."""

import ctypes
import os
import random
import sys
import time

import gymnasium
import numpy as np


class Counting(gymnasium.Env):
    """Observation = (step, seed-drawn constant); ends after five steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.constant = float(self.np_random.standard_normal())
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        reward = float(action[0]) * self.constant
        return self.observe(), reward, self.steps == 5, False, {}

    def observe(self):
        return np.array([self.steps, self.constant], np.float32)


class HiddenState(Counting):
    """Remembers how many episodes it has run: `reset(seed=…)` does not reset it."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        return super().reset(seed=seed)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward + self.episodes, terminated, truncated, info


class OnlyOne(Counting):
    """Steps in the first instance that was stepped, and raises in all others."""

    instance: "OnlyOne | None" = None

    def step(self, action):
        OnlyOne.instance = OnlyOne.instance or self
        if OnlyOne.instance is not self:
            raise OSError("the port is in use")
        return super().step(action)


class NaNObservation(Counting):
    """Its third observation is NaN."""

    def observe(self):
        return np.full(2, np.nan, np.float32) if self.steps == 3 else super().observe()


class NaNReward(Counting):
    """Its third reward is NaN."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, float("nan") if self.steps == 3 else reward, terminated, truncated, info


class Raising(Counting):
    """Its constructor raises."""

    def __init__(self):
        raise OSError("no licence file")


class DictObservations(Counting):
    """Dict observations, which no policy here can serve."""

    observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Box(0, 1, (1,), np.float32)})


class InfiniteReward(Counting):
    """Its third reward is infinite."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, float("inf") if self.steps == 3 else reward, terminated, truncated, info


class InfiniteObservation(Counting):
    """Its third observation is infinite, which normalisation clips: only the moments would see."""

    def observe(self):
        return np.full(2, np.inf, np.float32) if self.steps == 3 else super().observe()


class Hanging(Counting):
    """Its third step never returns on episode seed $HANG_SEED; with a path in $HANG_ONCE, once."""

    def reset(self, *, seed=None, options=None):
        self.hangs = os.environ.get("HANG_SEED") == str(seed)
        return super().reset(seed=seed)

    def step(self, action):
        if self.hangs and self.steps == 2 and self.first_time():
            while True:
                time.sleep(3600)
        return super().step(action)

    def first_time(self):
        flag = os.environ.get("HANG_ONCE")
        if flag is None:
            return True
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Endless(Counting):
    """Never ends by itself."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, False, truncated, info


def limited(**options):
    """A factory with a time limit of its own, below another wrapper."""
    limited = gymnasium.wrappers.TimeLimit(Endless(**options), max_episode_steps=10)
    return gymnasium.wrappers.TransformReward(limited, lambda reward: reward)


def registered(**options):
    """A factory that returns an environment as Gymnasium makes it, with all its wrappers."""
    return gymnasium.make("Pendulum-v1", **options)


class Collapsing(Counting):
    """Raises at its fourth step; with $COLLAPSE_SEED, in the episode of that seed alone."""

    def reset(self, *, seed=None, options=None):
        self.collapses = os.environ.get("COLLAPSE_SEED", str(seed)) == str(seed)
        return super().reset(seed=seed)

    def step(self, action):
        if self.collapses and self.steps == 3:
            raise RuntimeError("the cart fell off the table")
        return super().step(action)


class Silent(Exception):
    """An exception without words: its `__str__` raises."""

    def __str__(self):
        raise ZeroDivisionError


class Mute(Counting):
    """Raises an exception without words at its fourth step."""

    def step(self, action):
        if self.steps == 3:
            raise Silent
        return super().step(action)


class Leaving(Counting):
    """Ends the program it runs in, at its fourth step."""

    def step(self, action):
        if self.steps == 3:
            sys.exit(0)
        return super().step(action)


class LostAtReset(Counting):
    """Cannot begin an episode."""

    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no start in sight")


class Drawn(Counting):
    """Has pictures, and a window that writes what it shows."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 25}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def step(self, action):
        result = super().step(action)
        if self.render_mode == "human":
            print(f"a window shows step {self.steps}")
        return result

    def render(self):
        return np.full((48, 64, 3), 40 * self.steps, np.uint8)


class Marked(Counting):
    """Writes a line into $MARKS when it is made, first reset and closed."""

    def __init__(self):
        self.name = f"{os.getpid()} {time.monotonic_ns()}"
        self.used = False
        self.mark("made")

    def reset(self, *, seed=None, options=None):
        if not self.used:
            self.used = True
            self.mark("used")
        return super().reset(seed=seed)

    def close(self):
        self.mark("closed")

    def mark(self, word):
        with open(os.environ["MARKS"], "a") as file:
            file.write(f"{word} {self.name}\n")


class FailingToClose(Marked):
    """Its `close` raises once it has left its mark."""

    def close(self):
        super().close()
        raise OSError("the simulator does not answer")


class ClosingSlowly(Marked):
    """Its `close` takes longer than a worker with work to do is given to leave."""

    def close(self):
        time.sleep(0.6)
        super().close()


class NeverClosing(Marked):
    """Its `close` never returns, except in process $CLOSES_IN."""

    def close(self):
        while os.getpid() != int(os.environ["CLOSES_IN"]):
            time.sleep(3600)
        super().close()


class SetOrder(Counting):
    """Starts where a word stands in a set of words, whose order follows Python's string hashes."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.constant += 0.1 * list({"left", "right", "up", "down", "fire"}).index("left")
        return self.observe(), {}


class HugeReward(Counting):
    """Its third reward is a number that float32 does not hold."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 1e39 if self.steps == 3 else reward, terminated, truncated, info


class Dying(Counting):
    """Its third step ends the process."""

    def step(self, action):
        if self.steps == 2:
            os._exit(7)
        return super().step(action)


class Compiling(Counting):
    """The first reset and the first step of each instance take COMPILE_SECONDS."""

    begun = stepped = False

    def reset(self, *, seed=None, options=None):
        if not self.begun:
            self.begun = True
            time.sleep(float(os.environ.get("COMPILE_SECONDS", "0")))
        return super().reset(seed=seed)

    def step(self, action):
        if not self.stepped:
            self.stepped = True
            time.sleep(float(os.environ.get("COMPILE_SECONDS", "0")))
        return super().step(action)


class SlowResets(Counting):
    """Every reset takes RESET_SECONDS, and every step STEP_SECONDS."""

    def reset(self, *, seed=None, options=None):
        time.sleep(float(os.environ.get("RESET_SECONDS", "0")))
        return super().reset(seed=seed)

    def step(self, action):
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))
        return super().step(action)


class EndlessAndSlow(Counting):
    """Its episodes never end; a step takes STEP_SECONDS."""

    def step(self, action):
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, False, truncated, info


class EndsItsProcess(Counting):
    """At its step ENDS_AT in any one process, it does as ENDS_BY says."""

    made = 0

    def step(self, action):
        EndsItsProcess.made += 1
        if EndsItsProcess.made == int(os.environ.get("ENDS_AT", "0")):
            match os.environ["ENDS_BY"]:
                case "exit":
                    os._exit(0)
                case "hang":
                    time.sleep(600.0)
                case "crash":
                    ctypes.string_at(0)
                case "native exit":
                    ctypes.CDLL(None).exit(0)
                case "native _exit":
                    ctypes.CDLL(None)._exit(9)
                case "native exit, locked":
                    ctypes.PyDLL(None).exit(0)
        return super().step(action)


class Parts(Counting):
    """Counting's observation and the time of day, nested in parts; Discrete ones in the middle."""

    observation_space = gymnasium.spaces.Dict(
        {
            "count": Counting.observation_space,
            "more": gymnasium.spaces.Tuple(
                (
                    gymnasium.spaces.Discrete(3),
                    gymnasium.spaces.Dict({"half": gymnasium.spaces.Box(0, 9, (2,), np.float32)}),
                )
            ),
        }
    )

    def observe(self):
        half = np.full(2, self.steps / 2, np.float32)
        return {"count": super().observe(), "more": (self.steps % 3, {"half": half})}


class OtherParts(Parts):
    """Its steps lack a part that the space has."""

    def observe(self):
        return {"count": super().observe()["count"]}


class Sentences(Counting):
    observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(3))


class SmallRewards(Counting):
    """Rewards of np.float32(0.1) in an episode of 3,000 steps."""

    def step(self, action):
        observation, _, _, truncated, info = super().step(action)
        return observation, np.float32(0.1), self.steps == 3_000, truncated, info


class SeedsGlobals(Counting):
    """Its reset seeds NumPy's global generator, and its steps draw from it, as older code does."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed)
        return super().reset(seed=seed)

    def observe(self):
        return np.array([self.steps, np.random.standard_normal()], np.float32)


class GlobalNoise(Counting):
    """Observations from the global generators of NumPy and Python."""

    def observe(self):
        return np.array([np.random.standard_normal(), random.random()], np.float32)
