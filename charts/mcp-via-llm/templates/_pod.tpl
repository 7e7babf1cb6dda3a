{{/* A container with an MCP server: it is started before the service and stopped after it. It has no probe: it may well
listen on 127.0.0.1 alone, and the service is not ready before the servers that are not optional. */}}
{{- define "mcp-via-llm.sidecar" -}}
{{- $root := index . 0 -}}
{{- $s := index . 1 -}}
name: {{ index . 2 }}
image: {{ $s.image }}
{{- with $s.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
restartPolicy: Always
{{- with $s.command }}
command:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $s.args }}
args:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - {containerPort: {{ $s.port }}}
{{- with $s.env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $s.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $s.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- mergeOverwrite (include "mcp-via-llm.containerSecurity" $root | fromYaml) ($s.securityContext | default dict) | toYaml | nindent 2 }}
volumeMounts:
  - {name: tmp-{{ index . 2 }}, mountPath: /tmp} # of its own: not the service's, and no other server's
  {{- with $s.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Where all pods run. */}}
{{- define "mcp-via-llm.nodes" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.priorityClassName -}}
priorityClassName: {{ . }}
{{ end -}}
{{- with .Values.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- end -}}

{{/* Where the service's pods run, beyond that. */}}
{{- define "mcp-via-llm.placement" -}}
{{- with .Values.affinity -}}
affinity:
  {{- toYaml . | nindent 2 }}
{{ end -}}
topologySpreadConstraints:
{{- if .Values.topologySpreadConstraints }}
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
{{- else }}
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "mcp-via-llm.selector" (list $ "service") | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The variables of the service's container: what the operator names in env is not set here as well. */}}
{{- define "mcp-via-llm.env" -}}
{{- $v := .Values -}}
{{- $own := list (dict "name" "TMPDIR" "value" "/tmp") -}}
{{- with dig "limits" "memory" "" ($v.resources | default dict) -}}
{{- $limit := mulf (include "mcp-via-llm.bytes" . | float64) $v.goMemLimitPercent 0.01 | int64 | toString -}}
{{- $own = prepend $own (dict "name" "GOMEMLIMIT" "value" $limit) -}}
{{- end -}}
{{- with $v.redis.passwordSecret -}}
{{- if and $v.redis.bundled .name -}}
{{- $own = append $own (dict "name" "REDIS_PASSWORD" "valueFrom" (dict "secretKeyRef" .)) -}}
{{- end -}}
{{- end -}}
{{- if $v.otlp.endpoint -}}
{{- $own = concat $own (list
  (dict "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" $v.otlp.endpoint)
  (dict "name" "OTEL_EXPORTER_OTLP_PROTOCOL" "value" $v.otlp.protocol)
  (dict "name" "K8S_POD_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.name")))
  (dict "name" "OTEL_RESOURCE_ATTRIBUTES" "value" (printf "k8s.namespace.name=%s,k8s.pod.name=$(K8S_POD_NAME)" .Release.Namespace))) -}}
{{- end -}}
{{- $given := list -}}
{{- range $v.env -}}
{{- $given = append $given .name -}}
{{- end -}}
{{- $all := list -}}
{{- range $own -}}
{{- if not (has .name $given) -}}
{{- $all = append $all . -}}
{{- end -}}
{{- end -}}
{{- concat $all ($v.env | default list) | toYaml -}}
{{- end -}}
