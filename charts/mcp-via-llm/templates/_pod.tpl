{{/* A container with an MCP server: it runs before the service starts and until it has ended. */}}
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
# A bridge may have to fetch its server first. The service does not wait for it: a server comes when it can.
readinessProbe:
  tcpSocket: {port: {{ $s.port }}}
  periodSeconds: 5
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
