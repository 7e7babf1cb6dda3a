{{/* Where segments 2 and later of a turn go: the loop listener of the integration. */}}
{{- define "mcp-via-llm.loopURL" -}}
{{- $v := .Values -}}
{{- $given := dig "llm" "loop_url" "" $v.config -}}
{{- if $given -}}
{{ $given }}
{{- else if eq $v.integration "envoy" -}}
http://{{ include "mcp-via-llm.fullname" . }}-envoy-internal.{{ .Release.Namespace }}.svc:10001
{{- else if and (eq $v.integration "envoy-gateway") $v.envoyGateway.loop.create -}}
http://{{ include "mcp-via-llm.gatewayLoop" . }}.{{ $v.envoyGateway.loop.controllerNamespace }}.svc:10001
{{- else if and (eq $v.integration "istio") $v.istio.loop.create -}}
http://{{ include "mcp-via-llm.fullname" . }}-loop.{{ $v.istio.gateway.namespace }}.svc:{{ $v.istio.loop.port }}
{{- else -}}
{{- fail "config.llm.loop_url must be set: the address of your Envoy's loop listener, such as http://envoy-loop.envoy:10001 (docs/envoy.md)" -}}
{{- end -}}
{{- end -}}

{{/* The Service that Envoy Gateway makes for the loop Gateway: in the controller's namespace, so with ours in its name. */}}
{{- define "mcp-via-llm.gatewayLoop" -}}
{{- printf "%s-%s-loop" .Release.Namespace (include "mcp-via-llm.fullname" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "mcp-via-llm.redisURL" -}}
redis://{{ if .Values.redis.passwordSecret.name }}:${REDIS_PASSWORD}@{{ end }}{{ include "mcp-via-llm.fullname" . }}-redis.{{ .Release.Namespace }}.svc:6379/0
{{- end -}}

{{/* Seconds of the longest turn that a client's profile allows. */}}
{{- define "mcp-via-llm.longestTurn" -}}
{{- $longest := 0 -}}
{{- range $client := merge (dict) (.Values.config.clients | default dict) (dict "default" dict) -}}
{{- $limit := ($client | default dict).loop_timeout | default "5m" -}}
{{- $longest = max $longest (include "mcp-via-llm.seconds" (contains "$" $limit | ternary "5m" $limit) | int) -}}
{{- end -}}
{{- $longest -}}
{{- end -}}

{{/* How long running turns go on in a pod that is to stop. */}}
{{- define "mcp-via-llm.drainTimeout" -}}
{{- $given := .Values.config.drain_timeout | default (printf "%ss" (include "mcp-via-llm.longestTurn" .)) -}}
{{- if contains "$" $given -}}
{{- fail "config.drain_timeout must be a duration, such as 5m: how long Kubernetes leaves a pod to stop follows from it" -}}
{{- end -}}
{{- $given -}}
{{- end -}}

{{/* How long nothing may happen on a stream, where it is not given: the service's own limit comes first. In seconds. */}}
{{- define "mcp-via-llm.idleTimeout" -}}
{{ add (include "mcp-via-llm.longestTurn" .) 60 }}s
{{- end -}}

{{/* What the service listens on. */}}
{{- define "mcp-via-llm.listen" -}}
ext_proc: {{ printf "%s:9002" .Values.bindAddress | quote }}
admin: 127.0.0.1:9003
metrics: {{ printf "%s:9004" .Values.bindAddress | quote }}
{{- if .Values.tls.enabled }}
tls:
  cert: /etc/mcp-via-llm/tls/tls.crt
  key: /etc/mcp-via-llm/tls/tls.key
  {{- if .Values.tls.mutual }}
  client_ca: /etc/mcp-via-llm/tls/ca.crt
  {{- end }}
{{- end }}
{{- end -}}

{{/* The configuration file, as YAML. */}}
{{- define "mcp-via-llm.config" -}}
{{- include "mcp-via-llm.check" . -}}
{{- $c := deepCopy .Values.config -}}
{{- $_ := set $c "listen" (include "mcp-via-llm.listen" . | fromYaml) -}}
{{- $_ := set $c "llm" (merge (dict "loop_url" (include "mcp-via-llm.loopURL" .)) ($c.llm | default dict)) -}}
{{- $_ := set $c "drain_timeout" (include "mcp-via-llm.drainTimeout" .) -}}
{{- if .Values.redis.bundled -}}
{{- $_ := set $c "store" (mergeOverwrite (deepCopy ($c.store | default dict)) (dict "redis" (dict "url" (include "mcp-via-llm.redisURL" .)))) -}}
{{- end -}}
{{- $servers := $c.servers | default dict -}}
{{- $egress := and (eq .Values.integration "envoy") .Values.envoy.mcpEgress -}}
{{- range $name, $s := .Values.mcpServers -}}
{{- /* A new pod gets no turns before it has their tools. */ -}}
{{- $own := dict "url" (printf "http://127.0.0.1:%d%s" (int $s.port) ($s.path | default "/mcp")) "optional" false -}}
{{- if $egress -}}
{{- $_ := set $own "egress" false -}}
{{- end -}}
{{- $_ := set $servers $name (mergeOverwrite $own (get $servers $name | default dict)) -}}
{{- end -}}
{{- $_ := set $c "servers" $servers -}}
{{- if $egress -}}
{{- $listener := printf "%s-envoy-internal.%s.svc:10002" (include "mcp-via-llm.fullname" .) .Release.Namespace -}}
{{- $_ := set $c "envoy" (dict "use_mcp_egress" true "mcp_egress" $listener) -}}
{{- end -}}
{{- toYaml $c }}
{{- with .Values.routes }}
routes:
  {{- range . }}
  {{ .route | quote }}: {{ .client | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The parts of the configuration that a running service does not take up. */}}
{{- define "mcp-via-llm.restart" -}}
{{- $c := include "mcp-via-llm.config" . | fromYaml -}}
{{- pick $c "listen" "store" "log" "envoy" | toJson | sha256sum -}}
{{- end -}}

{{/* The configuration from which the bundled Envoy's bootstrap is made, without the secrets of the service's own. */}}
{{- define "mcp-via-llm.envoyConfig" -}}
{{- $c := include "mcp-via-llm.config" . | fromYaml -}}
{{- $service := printf "%s-replicas.%s.svc:9002" (include "mcp-via-llm.fullname" .) .Release.Namespace -}}
{{- $envoy := dict "main" (printf "%s:10000" .Values.bindAddress) "loop" (printf "%s:10001" .Values.bindAddress) "mcp_egress" (printf "%s:10002" .Values.bindAddress) "admin" "127.0.0.1:9901" "service" $service "version" .Values.envoy.version "max_connection_duration" "15s" "failure_mode_allow" .Values.envoy.failOpen -}}
{{- if .Values.tls.enabled -}}
{{- $files := dict "ca" "/etc/envoy-tls/ca.crt" -}}
{{- if .Values.tls.mutual -}}
{{- $_ := merge $files (dict "cert" "/etc/envoy-tls/tls.crt" "key" "/etc/envoy-tls/tls.key") -}}
{{- end -}}
{{- $_ := set $envoy "service_tls" $files -}}
{{- end -}}
{{- with .Values.envoy.tracing -}}
{{- $_ := set $envoy "tracing" (dict "collector" .) -}}
{{- end -}}
{{- /* Of the clients it needs the longest turn alone: a new profile replaces no Envoy. */ -}}
{{- $clients := dict "default" (dict "loop_timeout" (printf "%ss" (include "mcp-via-llm.longestTurn" .))) -}}
{{- $servers := dict -}}
{{- if .Values.envoy.mcpEgress -}}
{{- range $name, $server := $c.servers -}}
{{- if and $server.tls (dig "egress" true $server) -}}
{{- fail (printf "envoy.mcpEgress: the bundled Envoy has no files for config.servers.%s.tls; set config.servers.%s.egress to false" $name $name) -}}
{{- end -}}
{{- if and $server.url (dig "egress" true $server) -}}
{{- $_ := set $servers $name (pick $server "url") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with include "mcp-via-llm.privateHeaders" . | fromYamlArray -}}
{{- /* A server that nobody calls, for the names of its headers. */ -}}
{{- $_ := set $servers "headers-for-the-service-alone" (dict "url" "http://127.0.0.1:9" "egress" false "forward_headers" .) -}}
{{- end -}}
{{- toYaml (dict "llm" (pick $c.llm "base_url") "envoy" $envoy "clients" $clients "servers" $servers) -}}
{{- end -}}
