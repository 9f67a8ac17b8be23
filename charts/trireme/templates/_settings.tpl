{{/*
What the templates render: the values of values.yaml, with those of gpu-recipes and of the LitGPT demo translated to them.
Use it as  {{- $s := include "trireme.settings" . | fromYaml }}
*/}}
{{- define "trireme.settings" -}}
{{- $v := .Values.AsMap -}}
{{- $s := dict "release" .Release.Name -}}
{{- include "trireme.size" (dict "v" $v "s" $s) -}}
{{- include "trireme.recipe" (dict "v" $v "s" $s) -}}
{{- include "trireme.run" (dict "v" $v "s" $s) -}}
{{- include "trireme.network" (dict "v" $v "s" $s "files" .Files) -}}
{{- include "trireme.require" (dict "v" $v "s" $s) -}}
{{- toYaml $s -}}
{{- end -}}

{{/* Pods, and GPUs and ranks of each. */}}
{{- define "trireme.size" -}}
{{- $v := .v -}}{{- $s := .s -}}
{{- $nodes := dig "nodes" 1 $v | default 1 | int -}}
{{- $gpus := dig "gpusPerNode" 0 $v | default 0 | int -}}
{{- $all := dig "workload" "gpus" 0 $v | default 0 | int -}}
{{- $litgpt := dig "cluster" "nNodes" 0 $v | default 0 | int -}}
{{- if $all -}}
  {{- if and (gt $all 8) (mod $all 8) -}}
    {{- fail (printf "workload.gpus=%d: use up to 8, or a multiple of 8" $all) -}}
  {{- end -}}
  {{- if and (ne $nodes 1) (ne $nodes (int (max 1 (div $all 8)))) -}}
    {{- fail (printf "nodes=%d and workload.gpus=%d disagree; give one of them" $nodes $all) -}}
  {{- end -}}
  {{- $nodes = max 1 (div $all 8) -}}
  {{- $gpus = min 8 $all -}}
{{- else if $litgpt -}}
  {{- if and (ne $nodes 1) (ne $nodes $litgpt) -}}
    {{- fail (printf "nodes=%d and cluster.nNodes=%d disagree; give one of them" $nodes $litgpt) -}}
  {{- end -}}
  {{- $nodes = $litgpt -}}
  {{- $gpus = 8 -}}
{{- end -}}
{{- $ranks := dig "ranksPerNode" 0 $v | default 0 | int -}}
{{- $tasks := dig "task" "list" list $v | default list -}}
{{- $_ := set $s "nodes" $nodes -}}
{{- $_ := set $s "gpus" $gpus -}}
{{- $_ := set $s "ranks" (default (max 1 $gpus) $ranks) -}}
{{- $_ := set $s "isTraining" (empty (dig "task" "command" list $v)) -}}
{{- $_ := set $s "pods" (ternary $nodes (max 1 (len $tasks)) $s.isTraining) -}}
{{- $atOnce := dig "task" "atOnce" 0 $v | default 0 | int -}}
{{- $_ := set $s "parallelism" (ternary (min $atOnce $s.pods) $s.pods (and (not $s.isTraining) (gt $atOnce 0))) -}}
{{- end -}}

{{/* The recipe and its overrides. */}}
{{- define "trireme.recipe" -}}
{{- $v := .v -}}{{- $s := .s -}}
{{- $text := coalesce (dig "recipe" "text" "" $v) (dig "workload_config" "" $v) (dig "nemo_config" "" $v) | default "" -}}
{{- $model := dig "workload" "modelName" "" $v | default "" -}}
{{- $_ := set $s "recipeText" $text -}}
{{- $_ := set $s "recipeName" (default (dig "recipe" "name" "demo" $v) $model) -}}
{{- $path := printf "%s/%s" (dig "workload" "configPath" "" $v | default "/etc/trireme" | trimSuffix "/") (dig "workload" "configFile" "" $v | default "recipe.yaml") -}}
{{- $_ := set $s "configFolder" (dir $path) -}}
{{- $_ := set $s "configFile" (base $path) -}}
{{- $_ := set $s "recipe" (ternary $path $s.recipeName (ne $text "")) -}}
{{- $arguments := list -}}
{{- if dig "workload" "microBatchSize" "" $v -}}
  {{- $arguments = append $arguments (printf "++model.micro_batch_size=%v" $v.workload.microBatchSize) -}}
{{- end -}}
{{- if dig "workload" "batchSize" "" $v -}}
  {{- $arguments = append $arguments (printf "++model.global_batch_size=%d" (mul $v.workload.batchSize $s.ranks $s.nodes)) -}}
{{- end -}}
{{- if dig "workload" "stepsPerEpoch" "" $v -}}
  {{- $arguments = append $arguments (printf "++trainer.max_steps=%d" (mul $v.workload.stepsPerEpoch (dig "workload" "numberOfEpochs" 1 $v))) -}}
{{- end -}}
{{- if dig "workload" "dataDir" "" $v -}}
  {{- $arguments = concat $arguments (list "++model.data.data_impl=flat" "++model.data.data_prefix=[/data]") -}}
{{- end -}}
{{- range concat (dig "workload" "defaultArguments" list $v | default list) (dig "workload" "arguments" list $v | default list) -}}
  {{- if not (or (contains "=" .) (hasPrefix "~" .)) -}}
    {{- fail (printf "workload.arguments: %q is not an override; write key=value, or ~key to remove one" .) -}}
  {{- end -}}
  {{- $arguments = append $arguments . -}}
{{- end -}}
{{- $_ := set $s "arguments" ($arguments | default list) -}}
{{- end -}}

{{/* Folders of the run in the pods, where it is copied to, and what it downloads. */}}
{{- define "trireme.run" -}}
{{- $v := .v -}}{{- $s := .s -}}
{{- $envs := dict -}}
{{- range dig "workload" "envs" list $v | default list -}}{{- $_ := set $envs .name (.value | default "" | toString) -}}{{- end -}}
{{- $to := dig "run" "copyTo" "" $v | default "" -}}
{{- $bucket := coalesce (dig "workload" "gcsExperimentBucket" "" $v) (dig "logging" "gcsExperimentBucket" "" $v) | default "" -}}
{{- $experiment := coalesce (dig "workload" "experimentDir" "" $v) (dig "logging" "experimentDir" "" $v) | default "" -}}
{{- $fuse := dig "workload" "gcsBucketForDataCataPath" "" $v | default "" -}}
{{- if and $bucket (not $to) -}}{{- $to = printf "gs://%s/%s" $bucket $experiment | trimSuffix "/" -}}{{- end -}}
{{- if and $fuse (not $to) -}}{{- $to = "/gcs/nemo-experiments" -}}{{- end -}}
{{- if and (get $envs "EXPERIMENT_ROOT_DIR") (not $to) -}}
  {{- $to = printf "%s/%s" (get $envs "EXPERIMENT_ROOT_DIR") (get $envs "EXPERIMENT_NAME") | trimSuffix "/" -}}
{{- end -}}
{{- $_ := set $s "copyTo" $to -}}
{{- $stamp := coalesce (dig "workload" "jobTimestamp" "" $v) (dig "logging" "jobTimestamp" "" $v) | default "" -}}
{{- $folder := dig "run" "folder" "" $v | default "" -}}
{{- $_ := set $s "folder" (ternary (printf "%s-%s" $s.release (include "trireme.text" $stamp)) $folder (and (empty $folder) (not (empty $stamp)))) -}}
{{- $results := dig "run" "results" "/results" $v | trimSuffix "/" -}}
{{- $_ := set $s "results" $results -}}
{{- $claims := dig "volumes" "pvcMounts" list $v | default list -}}
{{- $buckets := dig "volumes" "gcsMounts" list $v | default list -}}
{{- if $fuse -}}{{- $buckets = append $buckets (dict "bucketName" $fuse "mountPath" "/gcs") -}}{{- end -}}
{{- $_ := set $s "claims" $claims -}}
{{- $_ := set $s "buckets" $buckets -}}
{{- $shared := false -}}
{{- range concat $claims (dig "volumes" "hostMounts" list $v | default list) -}}
  {{- if hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) (printf "%s/" $results) -}}{{- $shared = true -}}{{- end -}}
{{- end -}}
{{- $_ := set $s "isShared" $shared -}}
{{- $options := dig "run" "options" list $v | default list -}}
{{- $_ := set $s "options" $options -}}
{{- $_ := set $s "profiles" (eq (dig "logging" "collectNsysProfile" "no" $v) "yes") -}}
{{- $data := dig "workload" "dataDir" "" $v | default "" -}}
{{- $_ := set $s "downloadFrom" (dig "gcsDownload" "source" "" $v | default "") -}}
{{- $_ := set $s "downloadTo" (dig "gcsDownload" "target" "" $v | default "") -}}
{{- if $data -}}
  {{- $_ := set $s "downloadFrom" (printf "gs://%s/%s" (dig "workload" "gcsDataBucket" "" $v) $data) -}}
  {{- $_ := set $s "downloadTo" "/data" -}}
{{- end -}}
{{- end -}}

{{/* Mistakes that the schema cannot see. */}}
{{- define "trireme.require" -}}
{{- $v := .v -}}{{- $s := .s -}}
{{- $longest := 63 -}}
{{- $pod := ternary (printf "%s-workers-0-%d-xxxxx" $s.release (sub $s.pods 1)) (printf "%s-%d" $s.release (sub $s.pods 1)) (eq $v.mode "jobset") -}}
{{- if gt (len $pod) $longest -}}
  {{- fail (printf "the release name %s is too long: pod %s would have %d characters, and Kubernetes takes %d" $s.release $pod (len $pod) $longest) -}}
{{- end -}}
{{- range $i, $mount := $s.buckets -}}
  {{- if not $mount.bucketName -}}
    {{- fail (printf "volumes.gcsMounts[%d] has no bucketName; add --set volumes.gcsMounts[%d].bucketName=BUCKET" $i $i) -}}
  {{- end -}}
{{- end -}}
{{- range $i, $mount := $s.claims -}}
  {{- if not (coalesce $mount.claimName $mount.name) -}}
    {{- fail (printf "volumes.pvcMounts[%d] has no claimName" $i) -}}
  {{- end -}}
{{- end -}}
{{- if and $s.isTraining (not (dig "run" "supervisor" true $v)) (gt (int $s.ranks) 1) -}}
  {{- fail (printf "run.supervisor=false starts one rank per pod, and ranksPerNode is %d; set run.supervisor=true, or one GPU per pod" (int $s.ranks)) -}}
{{- end -}}
{{- if and $s.downloadFrom (not $s.downloadTo) -}}{{- fail "gcsDownload.source needs gcsDownload.target, a folder in the pods" -}}{{- end -}}
{{- if and (dig "task" "list" list $v) $s.isTraining -}}{{- fail "task.list needs task.command, the command that each list is appended to" -}}{{- end -}}
{{- end -}}
