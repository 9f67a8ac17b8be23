#!/bin/bash
# gpt3-175b16: training. Written by trireme launch.

# The nodes.
#SBATCH --job-name=gpt3-175b16
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=8

# Slurm must not start the job again.
#SBATCH --no-requeue
# 300 s before the time limit this script is told; the ranks save, and the job queues again.
#SBATCH --signal=B:USR1@300

# All attempts, also those after a requeue, append to one log. Ranks have logs of their own beside it.
#SBATCH --output=/results/gpt3-175b16/log.txt
#SBATCH --open-mode=append
#SBATCH --comment="two words"

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
  --mpi=pmix
  --container-image=/images/trireme.sqsh
  --container-mounts=/data:/data,/results/gpt3-175b16:/results/gpt3-175b16
  --no-container-mount-home
  --container-workdir=/results/gpt3-175b16
  --container-env=NCCL_DEBUG,NOTE
  --no-container-entrypoint
  trireme
  train
  gpt3/175b
  ++trainer.num_nodes=16
  'model.data.data_prefix=[0.5, a b]'
)

# The supervisor starts attempts until the run is done: after a failure with --resume, on spare nodes if
# some were lost. It gives up after attempts without a new checkpoint.
supervisor=(/apps/trireme launch slurm-supervise --folder /results/gpt3-175b16 --run-folder /results/gpt3-175b16/results --nodes 16 --max-restarts 3 --save-seconds 240)
if /apps/trireme --version > /dev/null; then exec "${supervisor[@]}" -- "${step[@]}"; fi
echo 'warning: /apps/trireme does not run on this node; a failure ends the job' >&2
exec "${step[@]}"
