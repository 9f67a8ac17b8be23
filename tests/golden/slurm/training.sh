#!/bin/bash
# gpt3-175b16: training. Written by trireme launch.

# 16 nodes for the run and 2 spare, which replace nodes that fail.
#SBATCH --job-name=team-gpt3-175b16
#SBATCH --partition=gpu
#SBATCH --account=team
#SBATCH --qos=high
#SBATCH --nodes=18
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --constraint=h100&ib
#SBATCH --exclude=n[7-9]
#SBATCH --reservation=night
#SBATCH --dependency=singleton

# Slurm may start the job again. It then continues from its newest checkpoint.
#SBATCH --time=1-00:00:00
#SBATCH --requeue
#SBATCH --no-kill
# 300 s before the time limit this script is told; the ranks save, and the job queues again.
#SBATCH --signal=B:USR1@300

# All attempts, also those after a requeue, append to one log. Ranks have logs of their own beside it.
#SBATCH --output=/results/gpt3-175b16/log.txt
#SBATCH --open-mode=append

# Variables of every rank.
export NCCL_DEBUG=WARN
export NOTE='it'\''s 5 o'\''clock $HOME `x` "y"'

# One attempt: srun starts the ranks, and a rank that fails ends them all.
step=(
  srun
  --nodes=16
  --ntasks=128
  --ntasks-per-node=8
  --cpus-per-task=12
  --kill-on-bad-exit=1
  --label
  --mpi=none
  --overlap
  /apps/trireme
  train
  /results/gpt3-175b16/gpt3-175b16_hydra.yaml
)

# The supervisor starts attempts until the run is done: after a failure with --resume, on spare nodes if
# some were lost. It gives up after attempts without a new checkpoint.
supervisor=(/apps/trireme launch slurm-supervise --folder /results/gpt3-175b16 --run-folder /results/gpt3-175b16/results --nodes 16 --max-restarts 3 --spares --requeue --save-seconds 240)
if /apps/trireme --version > /dev/null; then exec "${supervisor[@]}" -- "${step[@]}"; fi
echo 'warning: /apps/trireme does not run on this node; a failure ends the job' >&2
exec "${step[@]}"
