"""The table of short runs that same_bits.py makes at two commits."""

from collections.abc import Iterator
from typing import NamedTuple

PARTS = "same_bits_parts"
PICTURES = f"{PARTS}:pictures"
CART, PENDULUM, POLE = "CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5"
ATARI = "RoadRunner-v5"
"""The game whose episodes are shortest for a policy that has learned nothing: 60 to 600 steps."""

_ONE_LOSS = "losses are written once, in NumPy: autograd runs through the network alone"
_RAW = "nothing is learned from intervals that were acted with empty moments"
_DAMP = "ε of the archive's variance decays before it is added"
_ONEDNN = "large products are oneDNN's on processors with AVX-512 that are not Intel's (ADR 40)"
EXCUSED: dict[str, str] = {
    "td3-256-256": _ONEDNN,
    "td3-400-300": _ONEDNN,
    **{
        f"{method}-*{network}*": _ONE_LOSS
        for method in ("hts", "a2c", "ppo", "impala")
        for network in ("bf16", "nature-cnn", "impala-resnet", "own-network", "atari")
    },
    **{
        f"{method}-{moments}": _RAW
        for method in ("hts", "a2c", "ppo", "impala")
        for moments in ("processes", "scaled", "continuous")
    },
    **dict.fromkeys(("aes-variance-rank", "aes-ranks", "acem-rl-*"), _DAMP),
    "hts-ppo-truncated-is-*": "v0.1 called this correction decoupled",
    "hts-ppo-decoupled-*": "decoupled is the objective as published",
    "*-target-kl": "the step that is too far is not taken",
}
"""Pattern of cases' names → why their bits may differ from those of f5ebdd9, or of a later one."""


class Case(NamedTuple):
    """A short run, and how far it goes on after a resume."""

    name: str
    method: str
    env: str
    flags: tuple[str, ...]
    longer: int = 0
    """Env steps that a resume goes on to; 0: there is none."""
    timed: tuple[str, ...] = ()
    """Metrics that time decides here besides those that measure it."""

    def commands(self) -> list[list[str]]:
        """Return the words of each command, for a folder of the case's own."""
        shown = ["--quiet", "--no-tensorboard"]
        train = ["train", self.method, self.env, *self.flags, "--out", "run", *shown]
        if not self.longer:
            return [train]
        layout = [] if "process" in self.flags else ["--pool", "inline"]
        trust = ["--trust-code"] if any(PARTS in word for word in train) else []
        more = ["--total-steps", str(self.longer), *layout, *trust]
        return [train, ["resume", "run", *more, *shown]]


_SEARCH = (
    "--pool inline --total-steps 700 --population-size 8 --noise-table-size 20000 "
    "--evaluate-every 2 --evaluate-episodes 2"
)
_ES = f"{_SEARCH} --hidden 8 --obs-stat-probability 0.5"
_POPULATION = (
    "--pool inline --total-steps 300 --hidden 8 --warmup-steps 40 --replay-size 200 "
    "--batch-size 16 --evaluate-every 4 --evaluate-episodes 1"
)
_AES = (
    f"{_POPULATION} --concurrency 3 --mean-evaluations 2 --critic-batches 25 "
    "--initial-variance 0.1 --evaluate-every 15"
)
_GENERATIONS = (
    f"{_POPULATION} --population-size 6 --elites 3 --refined-members 2 "
    "--initial-variance 0.1 --damp 0.1"
)
_CEM = (
    "--pool inline --total-steps 600 --hidden 8 --population-size 6 --elites 3 "
    "--initial-variance 0.1 --damp 0.1 --evaluate-every 2 --evaluate-episodes 2"
)
_ERL = f"{_POPULATION} --population-size 4 --critic-hidden 8 6 --sync-every 2"
_TD3 = (
    "--pool inline --total-steps 400 --steps-per-update 80 --random-steps 60 --replay-size 300 "
    "--hidden 8 6 --batch-size 16 --evaluate-every 2 --evaluate-episodes 2"
)
_ACTOR_CRITIC = (
    "--pool inline --total-steps 384 --num-envs 4 --alpha 16 --hidden 8 "
    "--learning-rate 0.003 --evaluate-every 3 --evaluate-episodes 2"
)
_PPO = f"{_ACTOR_CRITIC} --epochs 2 --minibatches 4"
_DISCARDED = ("env_steps_discarded",)
"""Column of searches with several processes: when they are ready decides how often the first task
is repeated, and when they end how many blocks have begun."""
_BASE = {
    "es": _ES,
    "ars": _SEARCH,
    "aes": _AES,
    "one-plus-one": _AES,
    "acem-rl": _AES,
    "cem": _CEM,
    "cem-rl": _GENERATIONS,
    "p-cem-rl": f"{_GENERATIONS} --concurrency 3 --critic-batches 25",
    "erl": _ERL,
    "td3": _TD3,
    "hts": _PPO,
    "a2c": _ACTOR_CRITIC,
    "ppo": _PPO,
    "impala": f"{_ACTOR_CRITIC} --batch 2",
}
_CORRECTIONS = {
    "a2c": ("delayed", "none", "truncated-is", "vtrace"),
    "ppo": ("truncated-is", "decoupled", "ppo-ratio", "delayed", "vtrace", "none"),
}
_PROCESSES = "--pool process --workers 2"
_BF16 = "--precision bf16"
_FRAMES = (
    "--num-envs 2 --alpha 8 --total-steps 32 --evaluate-every 0 --evaluate-episodes 1 "
    "--inference-rows 0"
)


def cases() -> list[Case]:
    """Return the table; a name begins with its method."""
    parts = (
        *(_es(), _ars(), _aes(), _cem(), _cem_rl(), _p_cem_rl(), _erl(), _td3()),
        *(_hts(), _lockstep("a2c"), _lockstep("ppo"), _a2c(), _ppo(), _impala()),
    )
    table = [case for part in parts for case in part]
    names = [case.name for case in table]
    if len(set(names)) < len(names):
        raise ValueError(f"two cases have one name: {sorted(names)}")
    return table


def _case(method: str, name: str, env: str, flags: str = "", *, longer: int = 0) -> Case:
    """Return a case: its flags go before the method's own."""
    settled = {**_by_flag(_BASE[method]), **_by_flag(flags)}
    words = [word for flag, values in settled.items() for word in (flag, *values)]
    return Case(f"{method}-{name}", method, env, tuple(words), longer)


def _by_flag(flags: str) -> dict[str, list[str]]:
    """Return the values of each flag; `--noise=table` is not understood."""
    values: dict[str, list[str]] = {}
    for word in flags.split():
        if word.startswith("--"):
            flag = word
            values[flag] = []
        else:
            values[flag].append(word)
    return values


def _one_flag_each(method: str, env: str, variants: dict[str, str]) -> Iterator[Case]:
    for name, flags in variants.items():
        yield _case(method, name, env, flags)


def _es() -> Iterator[Case]:
    yield _case("es", "continuous", POLE, longer=900)
    yield _case("es", "discrete", CART, longer=1000)
    apart = _case("es", "processes", POLE, f"{_PROCESSES} --update-threads 2", longer=1000)
    yield apart._replace(timed=_DISCARDED)
    yield _case("es", "pendulum-bins", PENDULUM, "--total-steps 3200 --action-bins uniform:3")
    yield _case("es", "halfcheetah", "HalfCheetah-v5", "--total-steps 8000 --population-size 4")
    yield _case("es", "envpool-discrete", CART, "--engine envpool")
    yield _case("es", "envpool-continuous", "InvertedPendulum-v4", "--engine envpool", longer=900)
    blocks = f"--generation-env-steps 200 --total-steps 1000 {_PROCESSES}"
    yield _case("es", "blocks-processes", POLE, blocks)._replace(timed=_DISCARDED)
    yield from _one_flag_each(
        "es",
        POLE,
        {
            "counter-noise": "--noise counter",
            "sgd": "--optimizer sgd",
            "sign-rank": "--shaping sign-rank",
            "z-score": "--shaping z-score",
            "unshaped": "--shaping none",
            "std-decay": "--std-decay 0.9 --std-floor 0.03",
            "linear": "--policy linear",
            "torch-policy": f"--policy {PARTS}:Searched",
            "deep": "--hidden 16 12 8",
            "raw-observations": "--no-normalize",
            "custom-bins": "--action-bins custom:-1,-0.5,0,0.7,1",
            "mean-cap": "--episode-cap mean:2",
            "adaptive-cap": "--episode-cap adaptive:20,0.5,1.5",
            "frame-skip": "--frame-skip 2",
            "reward-shift": "--reward-shift 1",
            "perturbed-subset": "--subset perturb",
            "perturbed-subset-counter": "--subset perturb --noise counter",
            "used-subset": "--subset use --subset-fraction 0.5",
            "common-seeds": "--common-seeds",
            "blocks": "--generation-env-steps 200 --total-steps 1000",
            "without-promise": "--no-promise",
            "other-seed": "--seed 7 --weight-decay 0.1",
        },
    )


def _ars() -> Iterator[Case]:
    yield _case("ars", "continuous", POLE, longer=900)
    yield _case("ars", "discrete", CART, longer=900)
    yield _case("ars", "processes", POLE, _PROCESSES)._replace(timed=_DISCARDED)
    yield _case("ars", "envpool", CART, "--engine envpool")
    yield from _one_flag_each(
        "ars",
        POLE,
        {
            "top-directions": "--top-directions 2",
            "raw-observations": "--no-normalize",
            "reward-shift": "--reward-shift 1",
            "counter-noise": "--noise counter",
            "bins": "--action-bins uniform:5",
            "mean-cap": "--episode-cap mean:2",
            "frame-skip": "--frame-skip 2",
        },
    )


def _aes() -> Iterator[Case]:
    yield _case("aes", "continuous", POLE, longer=400)
    yield _case("aes", "discrete", CART, longer=500)
    yield _case("aes", "pendulum", PENDULUM, "--total-steps 1600 --warmup-steps 400", longer=2000)
    yield _case("aes", "processes", POLE, _PROCESSES)
    yield _case("aes", "envpool", PENDULUM, "--total-steps 1400 --engine envpool")
    for strategy in (
        *("snes", "openai-es", "cma", "sep-cma"),
        *("nevergrad:OnePlusOne", "nevergrad:DE", f"{PARTS}:HillClimber"),
    ):
        name = f"strategy-{strategy.removeprefix(f'{PARTS}:')}"
        yield _case("aes", name, POLE, f"--strategy {strategy} --strategy-budget 40", longer=360)
    for rule, number in (
        ("absolute", "--fitness-baseline -10"),
        *(("linear", "--fitness-range 40"), ("sigmoid", "--fitness-range 40")),
        ("full-move", ""),
    ):
        yield _case("aes", f"mean-{rule}", POLE, f"--mean-rule {rule} {number}")
    for rule in ("welford-fixed", "one-fifth", "rank"):
        yield _case("aes", f"variance-{rule}", POLE, f"--variance-rule {rule}")
    yield from _one_flag_each(
        "aes",
        POLE,
        {
            "ranks": "--mean-rule rank --variance-rule rank",
            "negative-linear": "--mean-rule linear --negative-ratio 0.5 --fitness-range 40",
            "strict-welford": "--strict-welford",
            "kl-bound": "--kl-bound 0.1",
            "generations": "--schedule sync",
            "generations-snes": "--schedule sync --strategy snes",
            "bf16": _BF16,
            "linear": "--policy linear",
            "only-es": "--p-desired 0",
            "only-rl": "--p-desired 1 --rl-probability fixed",
            "refined-from-newest": "--refined-from newest",
            "confirmed-move": "--mean-rule confirmed-move --variance-rule one-fifth",
            "fixed-actor-steps": "--actor-steps fixed --fixed-actor-steps 20",
            "averaged-fitness": "--mean-evaluations 0",
            "unthrottled": "--critic-lag 0",
            "throttled": "--critic-lag 40",
            "one-worker": "--concurrency 1",
            "step-costs": "--actor-step-cost 400000 --critic-step-cost 900000",
            "frame-skip": "--frame-skip 2",
            "without-promise": "--no-promise",
        },
    )
    for method in ("one-plus-one", "acem-rl"):
        yield _case(method, "continuous", POLE, longer=400)
        yield _case(method, "discrete", CART)
        yield _case(method, "bf16", POLE, _BF16)


def _cem() -> Iterator[Case]:
    yield _case("cem", "continuous", POLE, longer=900)
    yield _case("cem", "discrete", CART)
    yield _case("cem", "processes", POLE, _PROCESSES)._replace(timed=_DISCARDED)
    yield _case("cem", "envpool", CART, "--engine envpool")
    yield from _one_flag_each(
        "cem",
        POLE,
        {
            "independent": "--no-antithetic",
            "undivided": "--no-divide-by-elites",
            "relu": "--activation relu --hidden 8 6",
            "frame-skip": "--frame-skip 2",
        },
    )


def _cem_rl() -> Iterator[Case]:
    yield _case("cem-rl", "continuous", POLE, longer=450)
    yield _case("cem-rl", "discrete", CART)
    yield _case("cem-rl", "pendulum", PENDULUM, "--total-steps 2600 --warmup-steps 900")
    yield _case("cem-rl", "processes", POLE, _PROCESSES)
    yield _case("cem-rl", "envpool", CART, "--engine envpool")
    yield from _one_flag_each(
        "cem-rl",
        POLE,
        {
            "random-warmup": "--warmup random",
            "mean-evaluations": "--mean-evaluations 2",
            "none-refined": "--refined-members 0",
            "all-refined": "--refined-members 6",
            "bf16": _BF16,
            "scaled-steps": "--actor-steps-scale 0.5 --critic-steps-scale 2",
            "independent": "--no-antithetic --no-divide-by-elites",
        },
    )


def _p_cem_rl() -> Iterator[Case]:
    yield _case("p-cem-rl", "serial", POLE, longer=450)
    yield _case("p-cem-rl", "parallel", POLE, "--critic parallel", longer=450)
    yield _case("p-cem-rl", "discrete", CART)
    yield _case("p-cem-rl", "processes", POLE, f"--critic parallel {_PROCESSES}")
    yield from _one_flag_each(
        "p-cem-rl",
        POLE,
        {
            "parallel-throttled": "--critic parallel --throttle-critic",
            "parallel-bf16": f"--critic parallel {_BF16}",
            "serial-bf16": _BF16,
            "population-warmup": "--warmup population",
            "parallel-population-warmup": "--critic parallel --warmup population",
            "unevaluated-mean": "--mean-evaluations 0",
            "concurrency": "--concurrency 6",
        },
    )


def _erl() -> Iterator[Case]:
    yield _case("erl", "continuous", POLE, longer=450)
    yield _case("erl", "pendulum", PENDULUM, "--total-steps 2200 --warmup-steps 900", longer=3000)
    yield _case("erl", "processes", POLE, _PROCESSES)
    yield _case("erl", "envpool", PENDULUM, "--total-steps 2200 --engine envpool")
    yield from _one_flag_each(
        "erl",
        POLE,
        {
            "bf16": _BF16,
            "two-episodes": "--episodes-per-member 2",
            "champion": "--mean-evaluations 2",
            "elites": "--elite-fraction 0.5 --tournament-size 2 --population-size 6",
            "sync-each": "--sync-every 1 --gradient-steps-scale 0.5",
            "noise": "--noise-theta 0.3 --noise-std 0.4 --noise-scale 0.5",
        },
    )


def _td3() -> Iterator[Case]:
    yield _case("td3", "continuous", POLE, longer=700)
    yield _case("td3", "discrete", CART, longer=700)
    yield _case("td3", "pendulum", PENDULUM, "--total-steps 640")
    yield _case("td3", "processes", POLE, _PROCESSES)
    yield _case("td3", "envpool", PENDULUM, "--engine envpool --total-steps 640")
    yield _case("td3", "halfcheetah", "HalfCheetah-v5", "--hidden 64 64 --evaluate-episodes 1")
    yield from _one_flag_each(
        "td3",
        POLE,
        {
            "bf16": _BF16,
            "ddpg": "--critics 1 --target-noise 0 --policy-delay 1",
            "tanh": "--activation tanh --critic-activation tanh",
            "leaky-relu": "--critic-activation leaky-relu",
            "slow-actor": "--policy-delay 3",
            "unscaled-noise": "--no-scale-target-noise",
            "two-threads": "--learner-threads 2 --hidden 32 --total-steps 160",
            "400-300": "--hidden 400 300 --batch-size 64 --total-steps 160",
            "256-256": "--hidden 256 256 --batch-size 64 --total-steps 160",
            "one-layer": "--hidden 16",
            "frame-skip": "--frame-skip 2",
        },
    )


def _hts() -> Iterator[Case]:
    for learner, corrections in _CORRECTIONS.items():
        for correction in corrections:
            for lag in (0, 1):
                flags = f"--learner {learner} --correction {correction} --lag {lag}"
                yield _case("hts", f"{learner}-{correction}-lag-{lag}", CART, flags)
    yield _case("hts", "ppo", CART, longer=512)
    yield _case("hts", "a2c", CART, "--learner a2c", longer=512)
    yield _case("hts", "pendulum", PENDULUM, "--engine gymnasium")
    yield _case("hts", "gymnasium-discrete", CART, "--engine gymnasium")
    yield _case("hts", "gymnasium-continuous", POLE, "--engine gymnasium", longer=512)
    yield _case("hts", "processes", CART, f"--pool process --executors 2 {_SCALED}", longer=512)
    flags = "--learner a2c --barrier hard --pool process --executors 2 --actors 1"
    yield _case("hts", "a2c-processes", CART, flags)
    yield from _actor_critic_variants("hts")
    yield from _one_flag_each("hts", CART, _PPO_VARIANTS)
    yield from _one_flag_each(
        "hts",
        CART,
        {
            "a2c-unroll": "--learner a2c --unroll 5",
            "a2c-two-learners": "--learner a2c --learners 2",
            "a2c-bf16": f"--learner a2c {_BF16}",
            "a2c-two-threads": "--learner a2c --learner-threads 2",
            "step-time": "--step-time exponential:0.2ms",
        },
    )
    split = f"--network nature-cnn {_FRAMES} --learners 2 --learner-threads 2"
    yield _case("hts", "nature-cnn-split", PICTURES, split, longer=48)
    yield _case("hts", "nature-cnn-bf16", PICTURES, f"--network nature-cnn {_FRAMES} {_BF16}")
    yield _case("hts", "impala-resnet", PICTURES, f"--network impala-resnet {_FRAMES}")
    # All that a preset of Atari decides, which this game had none of before.
    game = "--clip 0.2 --no-clip-values --entropy-coefficient 0.0 --no-clip-rewards "
    game += "--learner-threads 1 --no-evaluate-sample --renew-intervals 2"
    yield _case("hts", "atari", ATARI, f"--network nature-cnn {_FRAMES} {game}")


_SCALED = "--normalize-observations --scale-rewards"
_PPO_VARIANTS = {
    "clipped-values": "--clip-values",
    "raw-advantages": "--no-normalize-advantages",
    "annealed-clip": "--anneal-clip",
    "target-kl": "--target-kl 0.001 --learning-rate 0.03",
    "one-minibatch": "--minibatches 1 --epochs 3",
}


def _actor_critic_variants(method: str) -> Iterator[Case]:
    """Settings of every actor-critic method."""
    yield from _one_flag_each(
        method,
        CART,
        {
            "two-learners": "--learners 2",
            "two-threads": "--learner-threads 2",
            "adam": "--optimizer adam",
            "rmsprop": "--optimizer rmsprop",
            "steady-rate": "--no-anneal",
            "entropy": "--entropy-coefficient 0.05 --final-entropy-coefficient 0.01",
            "scaled": _SCALED,
            "clipped-rewards": "--clip-rewards",
            "bf16": f"{_BF16} --hidden 16 16",
            "deep": "--hidden 16 12 8 --max-gradient-norm 0.1",
            "renewed": "--renew-intervals 2",
        },
    )
    yield _case(method, "continuous", "InvertedPendulum-v4", _SCALED)
    yield _case(method, "continuous-bf16", "InvertedPendulum-v4", _BF16)
    yield _case(method, "time-limits", PENDULUM, "--alpha 220 --num-envs 2 --total-steps 1760")
    yield _case(method, "nature-cnn", PICTURES, f"--network nature-cnn {_FRAMES}")
    yield _case(method, "own-network", CART, f"--network {PARTS}:ActorCritic")


def _lockstep(method: str) -> Iterator[Case]:
    yield _case(method, "discrete", CART, longer=512)
    yield _case(method, "gymnasium", POLE, "--engine gymnasium", longer=512)
    halves = {"a2c": "", "ppo": "--halves 2"}[method]
    flags = f"--pool process --executors 2 {halves} {_SCALED}"
    yield _case(method, "processes", CART, flags)
    yield from _actor_critic_variants(method)
    split = f"--network nature-cnn {_FRAMES} --learners 2 --learner-threads 2"
    yield _case(method, "nature-cnn-split", PICTURES, split)


def _a2c() -> Iterator[Case]:
    yield _case("a2c", "gae", CART, "--unroll 0 --gae-lambda 0.9")
    yield _case("a2c", "gae-two-learners", CART, "--unroll 0 --learners 2")


def _ppo() -> Iterator[Case]:
    yield from _one_flag_each("ppo", CART, _PPO_VARIANTS)


def _impala() -> Iterator[Case]:
    """Inline runs alone: with processes it is time that decides what IMPALA learns from."""
    yield _case("impala", "discrete", CART, longer=512)
    yield _case("impala", "gymnasium", POLE, "--engine gymnasium")
    yield _case("impala", "whole-batch", CART, "--batch 4")
    yield from _actor_critic_variants("impala")
