#!/bin/bash
# pile-data: data_preparation. Written by trireme launch.

# The nodes.
#SBATCH --job-name=pile-data
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --array=0-2%2

# Slurm may start the job again.
#SBATCH --requeue

# A log of each task; log.txt beside them says which have started and ended.
#SBATCH --output=/results/pile/data_preparation/task-%5a.log
#SBATCH --open-mode=append

# What this task of the array does.
case $SLURM_ARRAY_TASK_ID in
  0) task=(--files 0) ;;
  1) task=(--files 1) ;;
  2) task=(--files 2) ;;
esac

# One attempt: srun starts the ranks, and a rank that fails ends them all.
step=(
  srun
  --nodes=1
  --ntasks=1
  --ntasks-per-node=1
  --cpus-per-task=96
  --kill-on-bad-exit=1
  --label
  --mpi=none
  /apps/trireme
  data
  run
  data/pile
  --output
  /data/pile
  "${task[@]}"
)

# The supervisor starts the attempt and keeps its result.
supervisor=(/apps/trireme launch slurm-supervise --folder /results/pile/data_preparation --task "$SLURM_ARRAY_TASK_ID")
if /apps/trireme --version > /dev/null; then exec "${supervisor[@]}" -- "${step[@]}"; fi
echo 'warning: /apps/trireme does not run on this node; a failure ends the job' >&2
exec "${step[@]}"
