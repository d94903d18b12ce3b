"""The paths of `limits.py`: each runs a script with short settings, and makes rows of its table."""

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from limits_flops import (
    forward_flops,
    gradient_limit,
    hts_layers,
    learning_flops,
    networks,
    peak_flops,
)
from limits_page import Row
from limits_task import SCRIPTS, Task, row, spread
from printed_config import printed_config

sys.path.insert(0, str(SCRIPTS))
from hts import CASES, parts, update_speed, whole

CORES = os.cpu_count() or 1
HALFCHEETAH = {"goal_ratio": 1.35, "goal_share": 0.65}
DRIVER_MICROSECONDS = 20.0
"""The aim for what an episode may cost the driver."""


def es(env: str, goals: dict[str, float], longest: int) -> Callable[[Task], list[Row]]:
    def measure(task: Task) -> list[Row]:
        times = ["--seconds", task.seconds(3.0), "--rounds", task.times(2)]
        first = ["--longest", str(longest), "--processes", "1", "2"]
        found = task.run("es", "--raw", "--envs", env, *times, *first)
        physics = "the policy alone" if env == "CartPole-v1" else "raw mj_step and policy"
        rows = [
            row(
                f"es, {env}, {each['processes']} worker{'s' * (each['processes'] != '1')}",
                float(each["drumline_env_steps_per_second"]),
                "env steps/s",
                bound_kind="bare Gymnasium loop",
                bound=float(each["bare_env_steps_per_second"]),
                limit_kind=physics,
                limit=float(each["raw_env_steps_per_second"]),
                share=each["raw_share_median"],
                **spread(each, "ratio"),
                **goals,
            )
            for each in found
        ]
        scaling = row(
            f"es, {env}, 1 → 2 workers",
            float(found[1]["drumline_scaling_median"]),
            "times one worker",
            bound_kind="bare Gymnasium loop",
            bound=float(found[1]["bare_scaling_median"]),
            limit_kind="two cores",
            limit=2.0,
            share=float(found[1]["drumline_scaling_median"]) / 2.0,
            goal_ratio=0.97,
            **spread(found[1], "scaling_ratio"),
        )
        return [*rows, scaling]

    return measure


def lean(task: Task) -> list[Row]:
    names = ("HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "CartPole-v1")
    rows = []
    for found in task.run("lean_steps", "--rounds", task.times(5), "--envs", *names):
        policy = float(found["policy_microseconds"])
        ours = float(found["lean_microseconds"]) + policy
        limit = float(found["physics_microseconds"] or 0.0) + policy
        physics = "raw mj_step and policy" if found["physics_microseconds"] else "the policy alone"
        rows.append(
            row(
                f"lean step and policy, {found['environment']}",
                ours,
                "µs of a core",
                bound_kind="Gymnasium's step and policy",
                bound=float(found["wrapped_microseconds"]) + policy,
                limit_kind=physics,
                limit=limit,
                share=limit / ours,
                **spread(found, "loop_ratio"),
            )
        )
    return rows


def driver(task: Task) -> list[Row]:
    steps = str(int(300_000 * min(1.0, task.scale)) + 50_000)
    seeds = ["--seeds", *map(str, range(int(task.times(2))))]
    (found,) = task.run("es_leases", "--populations", "2000", "--steps", steps, *seeds)
    name = "driver_cpu_microseconds_per_episode"
    median, least, most = (float(found[f"{name}_{end}"]) for end in ("median", "min", "max"))
    aim = DRIVER_MICROSECONDS
    return [
        row(
            "es, driver, 16 workers, CartPole-v1",
            median,
            "µs an episode",
            bound_kind="the goal, not a measurement",
            bound=aim,
            ratio=aim / median,
            ratio_min=aim / most,
            ratio_max=aim / least,
            goal_ratio=1.0,
        )
    ]


def update(task: Task) -> list[Row]:
    size, threads = ["--parameters", "1000000", "--pairs", "1000"], str(CORES)
    (found,) = task.run("es_update", *size, "--threads", threads, "--rounds", task.times(3))
    noise = 4e-9 * int(found["parameters"]) * int(found["pairs"])
    reading = float(found["bandwidth_gb_per_second"])
    summed = float(found["reconstruction_gb_per_second"])
    whole = noise / float(found["tell_seconds"])
    limits: dict[str, object] = {"limit_kind": "memory bandwidth", "limit": reading}
    return [
        row(
            f"es, sum of noise, 10⁶ parameters, {threads} threads",
            summed,
            "GB/s",
            bound_kind="memory bandwidth",
            bound=reading,
            share=found["fraction_median"],
            goal_share=0.8,
            **spread(found, "fraction"),
            **limits,
        ),
        row(
            f"es, whole update, 10⁶ parameters, {threads} threads",
            whole,
            "GB/s",
            bound_kind="the sum of noise alone",
            bound=summed,
            ratio=whole / summed,
            share=whole / reading,
            **limits,
        ),
    ]


def images(task: Task) -> list[Row]:
    found, peak, rows = task.run("es_pixels", "--turns", task.times(3)), peak_flops(1), []
    for each in found:
        forward, torch = float(each["numpy_forward_us"]), float(each["torch_forward_us"])
        least = 1e6 * forward_flops(networks()[each["network"]]) / peak
        steps, bare = (float(each[f"{k}_steps_per_second"]) for k in ("episode", "bare"))
        environment = 1e6 / bare - forward
        limit = 1e6 / (environment + least)
        rows += [
            row(
                f"es on images, forward, {each['network']}",
                forward,
                "µs of a core",
                bound_kind="the same layers in torch",
                bound=torch,
                ratio=torch / forward,
                limit_kind="matrix products at the core's peak",
                limit=least,
                share=least / forward,
            ),
            row(
                f"es on images, episode, {each['network']}, {each['env']}",
                steps,
                "env steps/core s",
                bound_kind="bare loop of EnvPool and network",
                bound=bare,
                ratio=each["episode_share_of_bare"],
                limit_kind="environment, and products at the peak",
                limit=limit,
                share=steps / limit,
            ),
        ]
    return rows


def hts(case: str) -> Callable[[Task], list[Row]]:
    def measure(task: Task) -> list[Row]:
        times = ["--seconds", task.seconds(4.0), "--rounds", task.times(2)]
        (found,) = task.run("hts", "--cases", case, *times)
        config = printed_config("hts", CASES[case])
        passes = 1 if config["learner"] == "a2c" else config["epochs"]
        flops = sum(
            forward_flops(layers) + passes * learning_flops(layers) for layers in hts_layers(config)
        )
        environment = float(found["environment_env_steps_per_second"])
        limit = 1.0 / (1.0 / environment + flops / peak_flops(CORES))
        speed = float(found["hts_env_steps_per_second"])
        return [
            row(
                f"hts, {case}, {found['num_envs']} environments",
                speed,
                "env steps/s",
                bound_kind="sum bound of its parts",
                bound=float(found["sum_bound_env_steps_per_second"]),
                limit_kind="environment, and products at the peak",
                limit=limit,
                share=speed / limit,
                **spread(found, "ratio"),
            )
        ]

    return measure


def lock_step(task: Task) -> list[Row]:
    """Return lock-step PPO on images beside its parts one after the other."""
    words, seconds = [*CASES["Pong-v5 ppo"], "--precision=fp32"], float(task.seconds(4.0))
    config = printed_config("ppo", words)
    speeds = parts(config, seconds, "ppo")
    bound = speeds["bound"]
    steps = max(6 * config["num_envs"] * config["alpha"], int(2 * bound * seconds))
    speed = whole(words, steps, [], method="ppo")["speed"]
    (layers,) = hts_layers(config)
    flops = forward_flops(layers) + config["epochs"] * learning_flops(layers)
    limit = 1.0 / (1.0 / speeds["environment"] + flops / peak_flops(CORES))
    return [
        row(
            f"ppo, lock-step, Pong-v5, {config['num_envs']} environments",
            speed,
            "env steps/s",
            bound_kind="sum bound of its parts",
            bound=bound,
            ratio=speed / bound,
            limit_kind="environment, and products at the peak",
            limit=limit,
            share=speed / limit,
        )
    ]


def update_on_images(task: Task) -> list[Row]:
    """Return an update of PPO alone, on all cores, beside its matrix products at their peak."""
    from drumline.runs.machine import has_bf16

    rows, seconds = [], float(task.seconds(6.0))
    for precision in ("fp32", "bf16") if has_bf16() else ("fp32",):
        words = [*CASES["Pong-v5 ppo"], f"--precision={precision}"]
        config = printed_config("hts", words)
        speed = update_speed(config, seconds)
        flops = config["epochs"] * sum(map(learning_flops, hts_layers(config)))
        limit = peak_flops(CORES, precision=precision) / flops
        rows.append(
            row(
                f"hts, update alone, Pong-v5 ppo, {precision}",
                speed,
                "env steps/s",
                limit_kind=f"matrix products at the peak of {precision}",
                limit=limit,
                share=speed / limit,
                goal_share=0.8,
            )
        )
    return rows


def td3(task: Task) -> list[Row]:
    sizes = ["--precisions", "fp32", "--hidden", "256", "256"]
    times = ["--seconds", task.seconds(0.5), "--rounds", task.times(3)]
    found, peak = task.run("td3_steps", *sizes, *times), peak_flops(1)
    return [
        row(
            f"td3, {each['measured']}, 256-256",
            float(each["ours_per_second"]),
            "steps/s",
            bound_kind="plain PyTorch loop",
            bound=float(each["plain_per_second"]),
            limit_kind="matrix products at the core's peak",
            limit=(limit := gradient_limit(each["measured"].split()[0], (256, 256), peak)),
            share=float(each["ours_per_second"]) / limit,
            **spread(each, "ratio"),
        )
        for each in found
        if each["measured"] in ("actor step, frozen critic", "critic step")
    ]


def aes_steps(task: Task) -> list[Row]:
    times = ["--seconds", task.seconds(6.0), "--turns", str(max(3, int(task.times(4))))]
    words = ["--parts", "steps", "--precisions", "fp32", "--steps", "150"]
    found, peak = task.run("aes", *words, *times), peak_flops(1)
    return [
        row(
            f"aes, {each['measured']}, 400-300",
            float(each["ours"]),
            "steps/core s",
            bound_kind="plain PyTorch loop",
            bound=float(each["theirs"]),
            ratio=each["ratio"],
            limit_kind="matrix products at the core's peak",
            limit=(limit := gradient_limit(each["measured"].split()[0], (400, 300), peak)),
            share=float(each["ours"]) / limit,
        )
        for each in found
    ]


def aes_cores(task: Task) -> list[Row]:
    times = ["--seconds", task.seconds(5.0), "--turns", str(max(2, int(task.times(3))))]
    found = task.run("aes", "--parts", "cores", "--envs", "HalfCheetah-v5", *times)
    by_name = {(each["measured"], each["setting"]): each for each in found}
    setting = "HalfCheetah-v5 p_desired 0"
    clocks = by_name["env steps, virtual clock against wall clock", setting]
    busy = by_name["share of core time busy", f"{setting}, virtual clock"]
    return [
        row(
            f"aes, virtual clock, HalfCheetah-v5, {CORES} cores",
            float(clocks["ours"]),
            "env steps/s",
            bound_kind="wall clock",
            bound=float(clocks["theirs"]),
            ratio=clocks["ratio"],
            limit_kind="the cores' time, all of it busy",
            limit=float(clocks["ours"]) / float(busy["ours"]),
            share=busy["ours"],
        )
    ]


class Measured(NamedTuple):
    """The seconds that a path is meant to take of ten minutes, and its measurement."""

    seconds: float
    rows: Callable[[Task], list[Row]]


PATHS = {
    "es-halfcheetah": Measured(80, es("HalfCheetah-v5", HALFCHEETAH, 1000)),
    "es-hopper": Measured(60, es("Hopper-v5", {"goal_ratio": 1.2}, 100)),
    "es-humanoid": Measured(60, es("Humanoid-v5", {"goal_ratio": 1.05}, 100)),
    "es-cartpole": Measured(50, es("CartPole-v1", {"goal_ratio": 1.8}, 100)),
    "lean": Measured(20, lean),
    "driver": Measured(35, driver),
    "update": Measured(20, update),
    "images": Measured(20, images),
    "hts-halfcheetah": Measured(50, hts("HalfCheetah-v5 ppo gymnasium")),
    "hts-cartpole": Measured(45, hts("CartPole-v1 ppo")),
    "hts-pong": Measured(60, hts("Pong-v5 ppo")),
    "hts-pong-update": Measured(40, update_on_images),
    "hts-pong-a2c": Measured(60, hts("Pong-v5 a2c")),
    "ppo-pong": Measured(45, lock_step),
    "td3": Measured(15, td3),
    "aes-steps": Measured(50, aes_steps),
    "aes-cores": Measured(35, aes_cores),
}
