{{- define "mcp-via-llm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Room is left for the longest suffix that a resource of this chart has. */}}
{{- define "mcp-via-llm.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else if contains (include "mcp-via-llm.name" .) .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "mcp-via-llm.name" .) | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that a Service selects by. Arguments: the root, the component. */}}
{{- define "mcp-via-llm.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "mcp-via-llm.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "mcp-via-llm.labels" -}}
{{- $root := index . 0 -}}
{{ include "mcp-via-llm.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Metadata of a resource. Arguments: the root, the component, the suffix of its name. */}}
{{- define "mcp-via-llm.meta" -}}
{{- $root := index . 0 -}}
name: {{ include "mcp-via-llm.fullname" $root }}{{ index . 2 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "mcp-via-llm.labels" . | nindent 2 }}
{{- end -}}

{{- define "mcp-via-llm.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "mcp-via-llm.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "mcp-via-llm.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "mcp-via-llm.tlsSecret" -}}
{{ .Values.tls.secretName | default (printf "%s-tls" (include "mcp-via-llm.fullname" .)) }}
{{- end -}}

{{/* What Pod Security "restricted" wants of every pod and container here. */}}
{{- define "mcp-via-llm.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "mcp-via-llm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* A memory quantity in bytes. */}}
{{- define "mcp-via-llm.bytes" -}}
{{- $units := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- $unit := regexFind "[A-Za-z]*$" (toString .) -}}
{{- if not (hasKey $units $unit) -}}
{{- fail (printf "resources.limits.memory: %v is no quantity of memory, such as 512Mi" .) -}}
{{- end -}}
{{- mulf (float64 (trimSuffix $unit (toString .))) (get $units $unit) | int64 -}}
{{- end -}}

{{/* Seconds of a duration such as 5m or 1m30s. */}}
{{- define "mcp-via-llm.seconds" -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" (toString .) -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (float64 (trimSuffix $unit .)) (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit)) -}}
{{- end -}}
{{- ceil $sum | int64 -}}
{{- end -}}
