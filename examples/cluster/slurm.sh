#!/usr/bin/env bash
# A run of Drumline on the nodes of a Slurm job: sbatch examples/cluster/slurm.sh
# Submitted again, it goes on from the run folder, which must lie on a file system that every node sees.
#SBATCH --job-name=drumline
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --exclusive
#SBATCH --time=08:00:00
#SBATCH --signal=TERM@120
set -euo pipefail

RUN=${RUN:-$HOME/runs/humanoid}
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
ADDRESS=$(getent ahostsv4 "$HEAD" | awk 'NR == 1 { print $1 }'):6379
CLUSTER=(--pool ray --ray-address "$ADDRESS" --workers 0)

# Everyone on these machines could use Ray's ports: the job has a token of its own.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN

if [ -d "$RUN" ]; then
  COMMAND=(drumline resume "$RUN" "${CLUSTER[@]}")
else
  COMMAND=(drumline train es Humanoid-v5 --out "$RUN" "${CLUSTER[@]}")
fi

# Every node starts Ray; the first one runs the command, and the cluster ends with it.
srun --kill-on-bad-exit=1 ray symmetric-run --address "$ADDRESS" \
  --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus "$SLURM_CPUS_PER_TASK" -- "${COMMAND[@]}"
