"""The files that start a run on Slurm and on Kubernetes: their form, and the commands in them."""

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="the extra `ray` is not installed")
FOLDER = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "rayjob.yaml").read_text())


def groups(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = manifest["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def test_the_manifest_asks_for_the_version_of_ray_that_is_tested(manifest: dict[str, Any]):
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayJob")
    version = manifest["spec"]["rayClusterSpec"]["rayVersion"]
    assert version == metadata.version("ray")


def test_every_pod_has_the_same_image_and_memory_for_the_object_store(manifest: dict[str, Any]):
    images: set[str] = set()
    for group in groups(manifest):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        images.add(container["image"])
        names = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= names
        assert any(mount["mountPath"] == "/dev/shm" for mount in container["volumeMounts"])
        assert container["resources"]["requests"] == container["resources"]["limits"]
    assert len(images) == 1


def test_the_commands_of_the_manifest_are_accepted(manifest: dict[str, Any], tmp_path: Path):
    shell = manifest["spec"]["entrypoint"]
    train = re.search(r"exec drumline (train .*?); fi", " ".join(shell.split()))
    assert train is not None
    accepted(train[1].replace("/runs/humanoid", str(tmp_path / "run")).split())
    assert "drumline resume /runs/humanoid --pool ray --ray-address auto" in shell


@pytest.mark.parametrize("exists", [False, True])
def test_the_slurm_script_trains_once_and_then_resumes(tmp_path: Path, exists: bool):
    """Slurm's and Ray's programs stand in as scripts that say what they were asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {"scontrol": "echo localhost", "srun": 'printf "%s\\n" "$@"', "ray": "exit 1"}
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    run = tmp_path / "run"
    if exists:
        run.mkdir()
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path), "RUN": str(run)}
    environ |= {"SLURM_JOB_NODELIST": "n", "SLURM_JOB_NUM_NODES": "4", "SLURM_CPUS_PER_TASK": "32"}
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, str(FOLDER / "slurm.sh")], env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    words = done.stdout.split("\n")[:-1]
    assert words[1:3] == ["ray", "symmetric-run"]
    assert words[words.index("--min-nodes") + 1] == "4"
    command = words[words.index("--") + 1 :]
    assert command[:2] == ["drumline", "resume" if exists else "train"]
    assert command[command.index("--ray-address") + 1] == "127.0.0.1:6379"
    if not exists:
        accepted(command[1:])


def accepted(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "drumline", *words, "--print-config"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert '"Humanoid-v5"' in done.stdout
