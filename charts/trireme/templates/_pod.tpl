{{/* A word for a shell. */}}
{{- define "trireme.word" -}}
{{- if regexMatch "^[A-Za-z0-9_./:=,@%+-]+$" (toString .) }}{{ . }}{{ else }}'{{ . | toString | replace "'" "'\\''" }}'{{ end -}}
{{- end -}}

{{/* A value as text. Helm reads every number as a float, and would write 8388608 as 8.388608e+06. */}}
{{- define "trireme.text" -}}
{{- if kindIs "float64" . -}}
  {{- if eq (. | int64 | float64) . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else if not (kindIs "invalid" .) }}{{ . }}{{ end -}}
{{- end -}}

{{- define "trireme.labels" -}}
app.kubernetes.io/name: trireme
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "trireme.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: workload
{{- end -}}

{{/* The variables of the ranks. A name that is given again keeps its place and has the later value. */}}
{{- define "trireme.env" -}}
{{- $s := .s -}}
{{- $env := list
  (dict "name" "POD_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.name")))
  (dict "name" "JOB_UID" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.labels['batch.kubernetes.io/controller-uid']"))) -}}
{{- if $s.isTraining -}}
  {{- $env = concat $env (list
    (dict "name" "NNODES" "value" ($s.nodes | int | toString))
    (dict "name" "GPUS_PER_NODE" "value" ($s.ranks | int | toString))
    (dict "name" "MASTER_ADDR" "value" .master)
    (dict "name" "MASTER_PORT" "value" (.v.network.port | int | toString))) -}}
{{- end -}}
{{- if eq $s.stack "tcpxo" -}}
  {{- $env = append $env (dict "name" "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY" "value" "/dev/aperture_devices") -}}
{{- end -}}
{{- with .v.volumes.ssdMountPath -}}{{- $env = append $env (dict "name" "SSD_MOUNT_PATH" "value" .) -}}{{- end -}}
{{- $names := list -}}
{{- $last := dict -}}
{{- range concat $env $s.env -}}
  {{- if not (hasKey $last .name) -}}{{- $names = append $names .name -}}{{- end -}}
  {{- $_ := set $last .name . -}}
{{- end -}}
{{- range $names }}
{{- $one := get $last . }}
- name: {{ . }}
  {{- if $one.valueFrom }}
  valueFrom: {{ toJson $one.valueFrom }}
  {{- else }}
  value: {{ include "trireme.text" $one.value | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "trireme.volumes" -}}
{{- $s := .s -}}
- name: configuration
  configMap: {name: {{ $s.release | quote }}}
- name: shared-memory
  emptyDir: {medium: Memory, sizeLimit: {{ .v.volumes.sharedMemorySize | quote }}}
- name: results
  emptyDir: {}
{{- range $i, $claim := $s.claims }}
- name: claim-{{ $i }}
  persistentVolumeClaim: {claimName: {{ coalesce $claim.claimName $claim.name | quote }}}
{{- end }}
{{- range $i, $bucket := $s.buckets }}
- name: bucket-{{ $i }}
  csi:
    driver: gcsfuse.csi.storage.gke.io
    volumeAttributes:
      bucketName: {{ $bucket.bucketName | quote }}
      {{- with $bucket.mountOptions }}
      mountOptions: {{ . | quote }}
      {{- end }}
{{- end }}
{{- range $i, $host := .v.volumes.hostMounts }}
- name: host-{{ $i }}
  hostPath: {path: {{ $host.hostPath | quote }}}
{{- end }}
{{- if .v.volumes.ssdMountPath }}
- name: local-ssd
  hostPath: {path: {{ .v.volumes.ssdHostPath | quote }}}
{{- end }}
{{- if .v.volumes.mtcMountPath }}
- name: multi-tier-checkpoints
  csi: {driver: multitier-checkpoint.csi.storage.gke.io}
{{- end }}
{{- if eq $s.platform "gke" }}
- name: nvidia
  hostPath: {path: /home/kubernetes/bin/nvidia}
{{- end }}
{{- if $s.daemonImage }}
- name: nccl-plugin
  emptyDir: {}
{{- if eq $s.stack "tcpxo" }}
- name: sys
  hostPath: {path: /sys}
- name: proc-sys
  hostPath: {path: /proc/sys}
- name: aperture-devices
  hostPath: {path: /dev/aperture_devices}
{{- else }}
- name: tcpx-socket
  emptyDir: {}
{{- end }}
{{- end }}
{{- end -}}

{{/* Mounts of the workload. The folder of results is a volume of its own unless it is on another one. */}}
{{- define "trireme.mounts" -}}
{{- $s := .s -}}
- {name: configuration, mountPath: {{ $s.configFolder | quote }}}
- {name: shared-memory, mountPath: /dev/shm}
{{- $taken := list }}
{{- range $i, $claim := $s.claims }}
{{- $taken = append $taken (trimSuffix "/" $claim.mountPath) }}
- {name: claim-{{ $i }}, mountPath: {{ $claim.mountPath | quote }}}
{{- end }}
{{- range $i, $bucket := $s.buckets }}
- {name: bucket-{{ $i }}, mountPath: {{ $bucket.mountPath | quote }}}
{{- end }}
{{- range $i, $host := .v.volumes.hostMounts }}
{{- $taken = append $taken (trimSuffix "/" $host.mountPath) }}
- {name: host-{{ $i }}, mountPath: {{ $host.mountPath | quote }}}
{{- end }}
{{- if not (has $s.results $taken) }}
{{- if not $s.isShared }}
- {name: results, mountPath: {{ $s.results | quote }}}
{{- end }}
{{- end }}
{{- with .v.volumes.ssdMountPath }}
- {name: local-ssd, mountPath: {{ . | quote }}}
{{- end }}
{{- with .v.volumes.mtcMountPath }}
- {name: multi-tier-checkpoints, mountPath: {{ . | quote }}}
{{- end }}
{{- if eq $s.platform "gke" }}
- {name: nvidia, mountPath: /usr/local/nvidia}
{{- end }}
{{- if $s.daemonImage }}
- {name: nccl-plugin, mountPath: /usr/local/nccl-plugin}
{{- if eq $s.stack "tcpxo" }}
- {name: aperture-devices, mountPath: /dev/aperture_devices}
{{- else }}
- {name: tcpx-socket, mountPath: /tmp}
{{- end }}
{{- end }}
{{- end -}}

{{- define "trireme.podAnnotations" -}}
{{- $s := .s -}}
kubectl.kubernetes.io/default-container: workload
{{- if $s.buckets }}
gke-gcsfuse/volumes: "true"
{{- end }}
{{- if .v.volumes.psVolumes }}
gke-parallelstore/volumes: "true"
{{- end }}
{{- if .v.queue }}
{{- if .v.tasSettings.topologyRequest }}
{{- range $key, $value := .v.tasSettings.topologyRequest }}
{{ $key }}: {{ include "trireme.text" $value | quote }}
{{- end }}
{{- else if .v.topology }}
kueue.x-k8s.io/podset-preferred-topology: {{ .v.topology | quote }}
{{- end }}
{{- with dig "dwsSettings" "maxRunDurationSeconds" 0 .v }}
provreq.kueue.x-k8s.io/maxRunDurationSeconds: {{ int . | quote }}
{{- end }}
{{- end }}
{{- include "trireme.networkAnnotations" (dict "v" .v "s" $s) }}
{{- range $key, $value := .v.workload.annotations }}
{{ $key }}: {{ include "trireme.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* Where pods may run. Without Kueue, topology is a preference of the scheduler. */}}
{{- define "trireme.placement" -}}
{{- $s := .s -}}
{{- $selector := dict -}}
{{- with dig "cluster" "nodePool" "" .v -}}{{- $_ := set $selector "cloud.google.com/gke-nodepool" . -}}{{- end -}}
{{- $selector = merge $selector .v.nodeSelector -}}
{{- with $selector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- $near := and .v.topology (not .v.queue) }}
{{- if or .v.targetNodes $near }}
affinity:
  {{- with .v.targetNodes }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            - {key: kubernetes.io/hostname, operator: In, values: {{ toJson . }}}
  {{- end }}
  {{- if $near }}
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: {{ .v.topology | quote }}
          labelSelector:
            matchLabels:
              {{- include "trireme.selector" .root | nindent 14 }}
  {{- end }}
{{- end }}
{{- $tolerations := .v.tolerations }}
{{- if gt (int $s.gpus) 0 }}
{{- $tolerations = concat (list (dict "key" "nvidia.com/gpu" "operator" "Exists") (dict "key" "cloud.google.com/impending-node-termination" "operator" "Exists")) $tolerations }}
{{- end }}
{{- with $tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .v.serviceAccount }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- if .v.workload.imagePullSecrets }}
imagePullSecrets:
  {{- range .v.workload.imagePullSecrets }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "trireme.resources" -}}
{{- $resources := deepCopy .v.workload.resources -}}
{{- if gt (int .s.gpus) 0 -}}
  {{- $limits := merge (dict .v.gpuResource (int .s.gpus)) (dig "limits" dict $resources) -}}
  {{- $_ := set $resources "limits" $limits -}}
{{- end -}}
{{- with $resources }}
resources: {{ toJson . }}
{{- end }}
{{- end -}}

{{- define "trireme.pod" -}}
{{- $s := .s -}}
metadata:
  labels:
    {{- include "trireme.labels" .root | nindent 4 }}
    app.kubernetes.io/component: workload
  annotations:
    {{- include "trireme.podAnnotations" (dict "v" .v "s" $s) | nindent 4 }}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: {{ .v.terminationGracePeriodSeconds | int }}
  {{- with .subdomain }}
  subdomain: {{ . | quote }}
  {{- end }}
  {{- if $s.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- if .v.schedulingGates }}
  schedulingGates:
    {{- range .v.schedulingGates }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- with include "trireme.placement" (dict "v" .v "s" $s "root" .root) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  volumes:
    {{- include "trireme.volumes" (dict "v" .v "s" $s) | nindent 4 }}
  {{- with include "trireme.networkContainers" (dict "v" .v "s" $s) }}
  initContainers:
    {{- . | trim | nindent 4 }}
  {{- end }}
  containers:
    {{- if dig "workload" "gcsSidecarImage" "" .v }}
    - name: gke-gcsfuse-sidecar
      image: {{ .v.workload.gcsSidecarImage | quote }}
    {{- end }}
    {{- if dig "workload" "psSidecarImage" "" .v }}
    - name: gke-parallelstore-sidecar
      image: {{ .v.workload.psSidecarImage | quote }}
    {{- end }}
    - name: workload
      image: {{ .v.workload.image | quote }}
      imagePullPolicy: {{ .v.workload.imagePullPolicy }}
      command: [/bin/sh, {{ printf "%s/run.sh" $s.configFolder | quote }}]
      {{- if $s.privileged }}
      securityContext: {privileged: true}
      {{- else if has $s.stack (list "efa" "ib" "azure-ib" "roce") }}
      securityContext: {capabilities: {add: [IPC_LOCK]}}
      {{- end }}
      env:
        {{- include "trireme.env" (dict "v" .v "s" $s "master" .master) | trim | nindent 8 }}
      volumeMounts:
        {{- include "trireme.mounts" (dict "v" .v "s" $s) | nindent 8 }}
      {{- with include "trireme.resources" (dict "v" .v "s" $s) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
{{- end -}}

{{/* The spec of the indexed job, also inside a JobSet. */}}
{{- define "trireme.job" }}
parallelism: {{ int .s.parallelism }}
completions: {{ int .s.pods }}
completionMode: Indexed
backoffLimit: {{ int .v.backoffLimit }}
{{- with .v.ttlSecondsAfterFinished }}
ttlSecondsAfterFinished: {{ int . }}
{{- end }}
podFailurePolicy:
  rules:
    # A mistake of the user (2), or no progress in several attempts (93): starting again would not help.
    - action: FailJob
      onExitCodes: {containerName: workload, operator: In, values: [2, 93]}
    # A drained or lost node does not count.
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget, status: "True"}]
template:
  {{- include "trireme.pod" . | nindent 2 }}
{{- end }}
