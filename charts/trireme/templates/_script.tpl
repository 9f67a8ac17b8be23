{{/* The entry point of every pod. `run.sh check` is what helm test runs. */}}
{{- define "trireme.script" -}}
{{- $s := .s -}}{{- $run := .v.run -}}
#!/bin/sh
set -eu
index=${JOB_COMPLETION_INDEX:-0}
job=${JOB_UID:-none}
{{- if $s.folder }}
name={{ include "trireme.word" $s.folder }}
{{- else }}
# The id of the run is the job's, so all its pods know it, and the next job has another one.
name={{ include "trireme.word" $s.release }}-$(printf %.8s "$job")
{{- end }}
folder={{ include "trireme.word" $s.results }}/$name
export TRIREME_JOB_ID={{ include "trireme.word" $s.release }}-$job
{{- if $s.daemonImage }}
export LD_LIBRARY_PATH="/usr/local/nccl-plugin/lib64:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
{{- else if eq $s.platform "gke" }}
export LD_LIBRARY_PATH="/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
{{- end }}
{{- if not $s.keepsMtu }}
echo 0 > /proc/sys/net/ipv4/tcp_mtu_probing || echo "run.sh: tcp_mtu_probing cannot be changed; set workload.privileged=true" >&2
{{- end }}
if [ "${1:-}" = check ]; then
  trireme --version
  {{- if $s.isTraining }}
  trireme config {{ include "trireme.word" $s.recipe }}{{ range $s.arguments }} {{ include "trireme.word" . }}{{ end }} > /dev/null
  echo "recipe  ok"
  {{- end }}
  mkdir -p {{ include "trireme.word" $s.results }}
  touch {{ include "trireme.word" $s.results }}/.trireme-check
  rm {{ include "trireme.word" $s.results }}/.trireme-check
  echo "results ok: "{{ include "trireme.word" $s.results }}
  exit 0
fi
echo "pod $index of {{ int $s.pods }} on $(hostname): $folder" >&2
{{- if $s.downloadFrom }}
trireme data fetch {{ include "trireme.word" $s.downloadFrom }} --output {{ include "trireme.word" $s.downloadTo }}
{{- end }}
{{- if $s.isTraining }}
{{- if $run.supervisor }}
# All pods have the same name, which is in the recipe that ranks compare, and each its own folder for the supervisor's files.
# A pod that replaces another one continues the run: --resume.
set -- trireme launch local {{ include "trireme.word" $s.recipe }} \
  --nodes {{ int $s.nodes }} --ranks {{ int $s.ranks }} --max-restarts {{ int $run.maxRestarts }} \
  --name {{ $s.release | replace "." "-" | trunc 48 | trimSuffix "-" }} --results "$folder/pods/pod-$index" --resume{{ if $s.profiles }} --nsys{{ end }}
{{- else }}
# A pod that replaces another one continues the run.
set -- trireme train {{ include "trireme.word" $s.recipe }} ++trainer.num_nodes={{ int $s.nodes }} ++trainer.devices=1 \
  ++exp_manager.resume_if_exists=true ++exp_manager.resume_ignore_no_checkpoint=true
{{- end }}
{{- if or $run.options $s.arguments }}
set -- "$@"{{ range concat $run.options $s.arguments }} {{ include "trireme.word" . }}{{ end }}
{{- end }}
set -- "$@" ++exp_manager.explicit_log_dir="$folder/results"
{{- else }}
set --{{ range .v.task.command }} {{ include "trireme.word" . }}{{ end }}
{{- if .v.task.list }}
case $index in
  {{- range $i, $words := .v.task.list }}
  {{ $i }}) set -- "$@"{{ range $words }} {{ include "trireme.word" . }}{{ end }} ;;
  {{- end }}
  *) echo "run.sh: there is no task $index" >&2; exit 2 ;;
esac
{{- end }}
{{- end }}
{{- if $s.copyTo }}
copy={{ include "trireme.word" $s.copyTo }}/$name
{{- if $s.isShared }}
# All pods share the folder, so one of them copies it.
if [ "$index" != 0 ]; then exec "$@"; fi
{{- end }}
{{- if $run.restore }}
trireme launch copy-results "$copy" "$folder"
{{- end }}
set -- trireme launch copy-results --every {{ int $run.copySeconds }} "$folder" "$copy" -- "$@"
{{- end }}
exec "$@"
{{- end -}}
