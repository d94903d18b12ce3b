"""Twenty faults, one for each mechanism, and the tests that are there for it."""

from typing import NamedTuple


class Edit(NamedTuple):
    """A text that a file has exactly once, and what it becomes."""

    file: str
    old: str
    new: str


class Fault(NamedTuple):
    """A broken mechanism."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    """Files or folders of tests; what they have in either scope is run."""


_BY_ARRIVAL = Edit(
    "src/drumline/schedules/generational.py",
    "return [self._training[member] for member in range(count)]",
    "return list(self._training.values())[:count]",
)

FAULTS = (
    Fault(
        "PPO's gradient is not clipped",
        (
            Edit(
                "src/drumline/algorithms/ppo.py",
                "clip_by_global_norm_(total, settings.max_gradient_norm)",
                "clip_by_global_norm_(total, float('inf'))",
            ),
        ),
        ("tests/algorithms/test_ppo.py",),
    ),
    Fault(
        "results are recorded by arrival",
        (_BY_ARRIVAL,),
        ("tests/schedules/test_generational.py", "tests/training/test_search_promise.py"),
    ),
    Fault(
        "moments are folded by arrival",
        (
            _BY_ARRIVAL,
            Edit(
                "src/drumline/algorithms/search_state.py",
                "return in_member_order(results, self.generation, members_per_key)",
                "return in_member_order(results, self.generation, members_per_key) and [*results]",
            ),
        ),
        ("tests/algorithms/test_search_state.py", "tests/training/test_search_promise.py"),
    ),
    Fault(
        "a checkpoint gets its name before its bytes are on the disk",
        (
            Edit(
                "src/drumline/runs/atomic_files.py",
                "            os.fsync(file.fileno())\n",
                "",
            ),
        ),
        ("tests/runs/test_run_checkpoint.py",),
    ),
    Fault(
        "a torn checkpoint is accepted",
        (
            Edit(
                "src/drumline/runs/checkpoint.py",
                "    verify_tensors(tensors, raw, manifest, stored_bytes)\n",
                "",
            ),
        ),
        ("tests/runs/test_run_checkpoint.py", "tests/commands/test_resume.py"),
    ),
    Fault(
        "a seed depends on the worker",
        (
            Edit(
                "src/drumline/workers/evaluator.py",
                "        episode = self._loop.run(\n            task.seed,",
                "        episode = self._loop.run(\n"
                "            task.seed + __import__('os').getpid() % 7,",
            ),
        ),
        ("tests/workers/test_evaluator.py", "tests/training/test_search_promise.py"),
    ),
    Fault(
        "a replaced executor gets no journal",
        (
            Edit(
                "src/drumline/training/rotation_crew.py",
                "self._course.history(environment, int(finished[environment]), storage.read)",
                "self._course.history(environment, 0, storage.read)",
            ),
        ),
        ("tests/training/test_rotation_promise.py",),
    ),
    Fault(
        "evaluations come one update late",
        (
            Edit(
                "src/drumline/schedules/evaluations.py",
                "update % every == 0",
                "update % every == 1 % every",
            ),
        ),
        ("tests/schedules/test_evaluations.py", "tests/training/test_search_promise.py"),
    ),
    Fault(
        "the noise table is read off its cache lines",
        (
            Edit(
                "src/drumline/functional/perturbation.py",
                "((raw % np.uint64(places)) * np.uint64(ALIGNMENT))",
                "(raw % np.uint64(places))",
            ),
        ),
        ("tests/functional/test_perturbation.py",),
    ),
    Fault(
        "a truncated episode counts as terminated",
        (
            Edit(
                "src/drumline/algorithms/rollout_preparation.py",
                "np.where(rollout.terminated, 0.0, self._discount)",
                "np.where(ended, 0.0, self._discount)",
            ),
        ),
        ("tests/algorithms/test_rollout_preparation.py", "tests/algorithms/test_a2c.py"),
    ),
    Fault(
        "the hash chain is not chained",
        (
            Edit(
                "src/drumline/runs/fingerprints.py",
                "{previous},{update},{','.join(hashes)}",
                "{update},{','.join(hashes)}",
            ),
        ),
        ("tests/runs/test_run_fingerprints.py",),
    ),
    Fault(
        "ties of the virtual clock go by arrival",
        (
            Edit(
                "src/drumline/schedules/event_order.py",
                "return known + self.env_steps * self.env_cost, self.worker",
                "return known + self.env_steps * self.env_cost, self.arrival",
            ),
        ),
        ("tests/schedules",),
    ),
    Fault(
        "a replay takes transitions before their turn",
        (
            Edit(
                "src/drumline/schedules/event_order.py",
                "first = min(flights, key=lambda flight: flight.earliest)\n"
                "        return first if first.done is not None else None",
                "done = [flight for flight in flights if flight.done is not None]\n"
                "        return min(done, key=lambda flight: flight.earliest, default=None)",
            ),
        ),
        ("tests/schedules", "tests/training/test_aes_promise.py"),
    ),
    Fault(
        "a signal stops a run in the middle of a change",
        (
            Edit(
                "src/drumline/training/stop_signals.py",
                "if self._armed or again:",
                "if self:",
            ),
        ),
        ("tests/training/test_signals.py",),
    ),
    Fault(
        "--std is not heeded",
        (
            Edit(
                "src/drumline/recipes/es.py",
                "decaying_std(self.std, self.std_decay, self.std_floor)",
                "decaying_std(0.1, self.std_decay, self.std_floor)",
            ),
        ),
        ("tests/recipes/test_presets.py",),
    ),
    Fault(
        "--critic-lag is not heeded",
        (
            Edit(
                "src/drumline/populations/aes.py",
                "self._critics.critic_steps == 0 or self._steps_behind() >= self._plan.critic_lag",
                "False",
            ),
        ),
        ("tests/populations", "tests/training/test_aes_promise.py"),
    ),
    Fault(
        "an episode that a renewal cuts goes on in the counts",
        (
            Edit(
                "src/drumline/training/episode_tally.py",
                "        if every and rollout.interval and rollout.interval % every == 0:\n"
                "            self._cut(slice(None))\n",
                "",
            ),
        ),
        ("tests/training/test_episode_tally.py",),
    ),
    Fault(
        "rows behind a checkpoint are not cut when it is resumed",
        (
            Edit(
                "src/drumline/runs/rewind.py",
                "            _cut(path, lengths[name])\n",
                "            continue\n",
            ),
        ),
        ("tests/runs/test_run_recorder.py", "tests/training/test_search_promise.py"),
    ),
    Fault(
        "a hung worker is never noticed",
        (
            Edit(
                "src/drumline/runtime/fleet.py",
                "if worker.stillness.seconds(mark, elapsed) < limit:",
                "if True:",
            ),
        ),
        ("tests/runtime/test_fault_matrix.py",),
    ),
    Fault(
        "a lease is lost with the worker that dies of it",
        (
            Edit(
                "src/drumline/runtime/process_pool.py",
                "        self._queue.push_front(loss.again, alone=worker.at_once > 1)\n",
                "        self.outstanding -= len(loss.again)\n",
            ),
        ),
        ("tests/runtime/test_fault_matrix.py", "tests/runtime/test_progress.py"),
    ),
)
