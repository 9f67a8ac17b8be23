{{/* The network: which stack, its variables, and the images beside the ranks that it needs. */}}
{{- define "trireme.network" -}}
{{- $v := .v -}}{{- $s := .s -}}
{{- $daemon := coalesce (dig "network" "daemonVersion" "" $v) (dig "network" "rxdmContainer" "" $v) | default "" -}}
{{- $plugin := coalesce (dig "network" "pluginVersion" "" $v) (dig "network" "ncclPlugin" "" $v) | default "" -}}
{{- $stack := dig "network" "stack" "" $v | default "" -}}
{{- if and (not $stack) (eq (dig "network" "useTcpx" "no" $v) "yes") -}}{{- $stack = "tcpx" -}}{{- end -}}
{{- if not $stack -}}
  {{- if contains "tcpxo" $daemon -}}{{- $stack = "tcpxo" -}}{{- else if contains "tcpx" $daemon -}}{{- $stack = "tcpx" -}}{{- end -}}
{{- end -}}
{{- $images := dict
  "tcpxo" (list "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev" "v1.0.9" "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev" "v1.0.3")
  "tcpx" (list "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev" "v2.0.7" "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev" "v3.1.6_2023_10_06") -}}
{{- $_ := set $s "daemonImage" "" -}}
{{- $_ := set $s "pluginImage" "" -}}
{{- with get $images $stack -}}
  {{- $_ := set $s "daemonImage" (ternary $daemon (printf "%s:%s" (index . 0) (default (index . 1) $daemon)) (contains "/" $daemon)) -}}
  {{- $_ := set $s "pluginImage" (ternary $plugin (printf "%s:%s" (index . 2) (default (index . 3) $plugin)) (contains "/" $plugin)) -}}
{{- end -}}
{{- $hasDaemon := ne $s.daemonImage "" -}}
{{- $_ := set $s "stack" $stack -}}
{{- $host := dig "network" "hostNetwork" nil $v -}}
{{- $_ := set $s "hostNetwork" (ternary $hasDaemon $host (kindIs "invalid" $host)) -}}
{{- $_ := set $s "platform" (default (ternary "gke" "" $hasDaemon) (dig "targetPlatform" "" $v)) -}}
{{- $_ := set $s "privileged" (or (dig "workload" "privileged" false $v) (and $hasDaemon $s.hostNetwork)) -}}
{{- $env := list -}}
{{- if $stack -}}
  {{- $file := .files.Get (printf "networks/%s.yaml" $stack) -}}
  {{- if not $file -}}{{- fail (printf "network.stack=%s has no file networks/%s.yaml in this chart" $stack $stack) -}}{{- end -}}
  {{- $profile := fromYaml $file -}}
  {{- range $name := keys $profile.env | sortAlpha -}}
    {{- $env = append $env (dict "name" $name "value" (include "trireme.text" (get $profile.env $name))) -}}
  {{- end -}}
{{- end -}}
{{- with dig "network" "ncclIfnames" "" $v -}}{{- $env = append $env (dict "name" "NCCL_SOCKET_IFNAME" "value" .) -}}{{- end -}}
{{- $ack := dig "network" "tcpxForceAck" nil $v -}}
{{- if not (kindIs "invalid" $ack) -}}{{- $env = append $env (dict "name" "NCCL_GPUDIRECTTCPX_FORCE_ACK" "value" $ack) -}}{{- end -}}
{{- with dig "logging" "ncclDebugLevel" "" $v -}}{{- $env = append $env (dict "name" "NCCL_DEBUG" "value" .) -}}{{- end -}}
{{- $_ := set $s "keepsMtu" (ne (dig "network" "disablePmtu" "no" $v | default "no") "yes") -}}
{{- $env = concat $env (dig "network" "ncclSettings" list $v | default list) (dig "workload" "envs" list $v | default list) -}}
{{- $_ := set $s "env" ($env | default list) -}}
{{- end -}}

{{/* What runs before and beside the ranks of tcpx and tcpxo. */}}
{{- define "trireme.networkContainers" -}}
{{- $s := .s -}}
{{- if $s.daemonImage }}
- name: nccl-plugin-installer
  image: {{ $s.pluginImage | quote }}
  imagePullPolicy: IfNotPresent
  command: [/bin/sh, -ec]
  args:
    - |
      {{- if eq $s.stack "tcpxo" }}
      chmod 755 /scripts/container_entry.sh
      /scripts/container_entry.sh install --install-nccl{{ with .v.network.ncclBuildType }} --nccl-buildtype={{ int . }}{{ end }}
      cp -r /var/lib/tcpxo/. /usr/local/nccl-plugin/
      {{- else }}
      /scripts/container_entry.sh install --install-nccl
      cp -r /var/lib/tcpx/. /usr/local/nccl-plugin/
      {{- end }}
  volumeMounts:
    - {name: nccl-plugin, mountPath: /usr/local/nccl-plugin}
# A sidecar that Kubernetes ends after the ranks.
- name: receive-daemon
  image: {{ $s.daemonImage | quote }}
  imagePullPolicy: IfNotPresent
  restartPolicy: Always
  securityContext:
    {{- if $s.hostNetwork }}
    privileged: true
    {{- end }}
    capabilities:
      add: [NET_ADMIN, NET_BIND_SERVICE]
  env:
    - {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
  command: [/bin/sh, -c]
  args:
    - |
      {{- if eq $s.stack "tcpxo" }}
      chmod 755 /fts/entrypoint_rxdm_container.sh
      /fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid= --alsologtostderr &
      {{- else }}
      /tcpgpudmarxd/build/app/tcpgpudmarxd --gpu_nic_preset a3vm --gpu_shmem_type fd --setup_param "--verbose 128 2 0" &
      {{- end }}
      daemon=$!
      trap 'kill -TERM $daemon; exit 0' TERM
      wait $daemon
  volumeMounts:
    - {name: nvidia, mountPath: /usr/local/nvidia}
    {{- if eq $s.stack "tcpxo" }}
    - {name: sys, mountPath: /hostsysfs}
    - {name: proc-sys, mountPath: /hostprocsysfs}
    {{- else }}
    - {name: tcpx-socket, mountPath: /tmp}
    {{- end }}
{{- end }}
{{- end -}}

{{/* The interfaces of pods that do not share the network of their node: GKE's annotations. */}}
{{- define "trireme.networkAnnotations" -}}
{{- $s := .s -}}
{{- $names := dig "network" "subnetworks" list .v | default list -}}
{{- $hasDaemon := ne $s.daemonImage "" -}}
{{- if and $hasDaemon (not $s.hostNetwork) (not $names) -}}
  {{- $names = list "default" -}}
  {{- range $i := until (ternary 8 4 (eq $s.stack "tcpxo") | int) -}}{{- $names = append $names (printf "vpc%d" (add 1 $i)) -}}{{- end -}}
{{- end -}}
{{- if and $names (not $s.hostNetwork) }}
networking.gke.io/default-interface: eth0
{{- $interfaces := list -}}
{{- range $i, $name := $names -}}{{- $interfaces = append $interfaces (dict "interfaceName" (printf "eth%d" $i) "network" $name) -}}{{- end }}
networking.gke.io/interfaces: {{ toJson $interfaces | quote }}
{{- end }}
{{- if and $hasDaemon (not $s.hostNetwork) }}
devices.gke.io/container.receive-daemon: |
  {{- range $i := until 8 }}
  - path: /dev/nvidia{{ $i }}
  {{- end }}
  - path: /dev/nvidiactl
  - path: /dev/nvidia-uvm
  {{- if eq $s.stack "tcpxo" }}
  - path: /dev/dmabuf_import_helper
  {{- end }}
{{- end }}
{{- end -}}
