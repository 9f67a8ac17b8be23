#!/bin/bash
# A small real Slurm cluster on this machine, for tests. Needs root and the packages slurm-wlm and munge.
#
#   slurm_cluster.sh up FOLDER NODES [LINE...]   starts it; lines are added to slurm.conf, and PLUGIN, if set, is srun's
#   slurm_cluster.sh fail FOLDER NODE...         a node loses power: its daemon and everything it started
#   slurm_cluster.sh start FOLDER NODE           starts a node
#   slurm_cluster.sh shm FOLDER NODE SIZE        the size of a node's /dev/shm from now on, as in 10m
#   slurm_cluster.sh down FOLDER                 ends everything that was started here
#
# Nodes n1, n2, ... have 8 CPUs and 4 GPUs each, on paper. Every daemon listens at 127.0.0.1. A node is a slurmd with a host name,
# an /etc/hosts and a /dev/shm of its own: srun finds nodes by their names, and Open MPI's shared memory must not be shared.
# FOLDER/environment holds what programs need to talk to it.
set -eu
command=$1 folder=$(realpath -m "$2")

die() { echo "slurm_cluster.sh: $*" >&2; exit 1; }

await() {  # seconds, command...
  local until=$((SECONDS + $1)); shift
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.05
  done
}

# Daemons, and slurmstepd of every job, have the mark in their environment; what a job runs has that of its user and is found as a
# descendant.
descendants() {
  local child
  for child in $(cat /proc/"$1"/task/*/children 2> /dev/null); do echo "$child"; descendants "$child"; done
}
marked() {  # a node, or nothing for all
  local file process
  for file in $(grep -lsz "^TRIREME_TEST_NODE=$folder:${1:+$1\$}" /proc/[0-9]*/environ); do
    process=${file#/proc/}; process=${process%/environ}
    echo "$process"; descendants "$process"
  done
}

start_node() {
  TRIREME_TEST_NODE="$folder:$1" SLURM_CONF="$folder/slurm.conf" setsid unshare --uts --mount --propagation private /bin/sh -ec '
    hostname "$1"
    mount --bind "$2/hosts" /etc/hosts
    mount -t tmpfs -o mode=1777 shm /dev/shm
    ulimit -c 0
    exec slurmd -D -N "$1"' node "$1" "$folder" < /dev/null > "$folder/slurmd.$1.out" 2>&1 &
}

write_configuration() {
  local nodes=$1 host port node; shift
  host=$(hostname -s)
  port=$((RANDOM % 2000 + 30100))  # between the ports of ranks and those that Linux gives out
  while [ -n "$(ss -Hltn "sport >= :$port and sport <= :$((port + nodes))" 2> /dev/null)" ]; do port=$((port + 100)); done
  mkdir "$folder/state" "$folder/gpus"
  for node in 0 1 2 3; do mknod "$folder/gpus/gpu$node" c 1 3; done
  cat > "$folder/slurm.conf" << CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmdSpoolDir=$folder/spool.%n
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
TmpFS=$folder/tmp.%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
MessageTimeout=5
TCPTimeout=2
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PropagateResourceLimitsExcept=ALL
MailProg=/bin/true
PlugStackConfig=$folder/plugstack.conf
CONF
  echo "${PLUGIN:+required $PLUGIN}" > "$folder/plugstack.conf"
  : > "$folder/gres.conf"
  echo CgroupAutomount=no > "$folder/cgroup.conf"
  echo "127.0.0.1 localhost $host" > "$folder/hosts"
  for node in $(seq 1 "$nodes"); do
    mkdir "$folder/spool.n$node" "$folder/tmp.n$node"
    echo "127.0.0.1 n$node" >> "$folder/hosts"
    echo "NodeName=n$node Name=gpu File=$folder/gpus/gpu[0-3]" >> "$folder/gres.conf"
    echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + node)) CPUs=8 RealMemory=8192 Gres=gpu:4" \
      >> "$folder/slurm.conf"
  done
  echo "PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=1-00:00:00 State=UP" >> "$folder/slurm.conf"
  [ $# -eq 0 ] || printf '%s\n' "$@" >> "$folder/slurm.conf"
  # Ranks that MPI starts must not look for each other through the interfaces of the machine.
  cat > "$folder/environment" << ENVIRONMENT
export SLURM_CONF=$folder/slurm.conf OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo
ENVIRONMENT
}

up() {
  local nodes=$1 node; shift
  mkdir -p "$folder"
  [ -z "$(ls -A "$folder")" ] || die "$folder is not empty"
  write_configuration "$nodes" "$@"
  export SLURM_CONF="$folder/slurm.conf"
  head -c 1024 /dev/urandom > "$folder/key"
  chmod 400 "$folder/key"
  TRIREME_TEST_NODE="$folder:head" setsid munged --force --foreground --key-file="$folder/key" --socket="$folder/munge.socket" --pid-file="$folder/munge.pid" \
    --log-file="$folder/munge.log" --seed-file="$folder/munge.seed" < /dev/null > "$folder/munge.out" 2>&1 &
  await 20 test -S "$folder/munge.socket" || die "munged did not start: $(tail -n 3 "$folder/munge.out")"
  TRIREME_TEST_NODE="$folder:head" setsid slurmctld -D < /dev/null > "$folder/slurmctld.out" 2>&1 &
  for node in $(seq 1 "$nodes"); do start_node "n$node"; done
  all_idle() { [ "$(timeout 5 sinfo -h -t idle -o %D)" = "$nodes" ]; }
  await 60 all_idle || die "the nodes did not start: $(tail -n 3 "$folder/slurmctld.log")"
}

down() {
  local round
  for round in 1 2 3 4 5; do
    local left
    left=$(marked)
    [ -n "$left" ] || break
    # shellcheck disable=SC2086
    kill -$([ "$round" = 1 ] && echo TERM || echo KILL) $left 2> /dev/null || true
    [ "$round" = 1 ] && sleep 0.3
  done
  rm -rf --one-file-system "$folder"
}

PATH=$PATH:/usr/sbin:/sbin
case $command in
  up) shift 2; up "$@" ;;
  fail)
    shift 2
    # shellcheck disable=SC2046
    for node in "$@"; do kill -KILL $(marked "$node") 2> /dev/null || true; done ;;
  start) start_node "$3" ;;
  shm) nsenter --mount --target "$(marked "$3" | head -n 1)" mount -o "remount,size=$4" /dev/shm ;;
  down) down ;;
  *) die "up, fail, start, shm or down" ;;
esac
