{{/* A container with an MCP server: it is started before the service and stopped after it. It has no probe: it may well
listen on 127.0.0.1 alone, and the service is not ready before the servers that are not optional. */}}
{{- define "mcp-via-llm.sidecar" -}}
{{- $root := index . 0 -}}
{{- $s := index . 1 -}}
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
  - {name: tmp, mountPath: /tmp}
  {{- with $s.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Where the service's pods run. */}}
{{- define "mcp-via-llm.placement" -}}
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
