{{/* What values.schema.json cannot say: what belongs together. */}}
{{- define "mcp-via-llm.check" -}}
{{- $v := .Values -}}
{{- if not (or $v.config.servers $v.mcpServers) -}}
{{- fail "no MCP server is given: set config.servers, such as config.servers.NAME.url, or mcpServers" -}}
{{- end -}}
{{- range $name := keys $v.mcpServers -}}
{{- if hasKey ($v.config.servers | default dict) $name -}}
{{- if hasKey (get $v.config.servers $name | default dict) "url" -}}
{{- fail (printf "mcpServers.%s and config.servers.%s.url: the chart sets the URL of its own servers; leave url out, or rename one" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $ports := dict "9002" "the service itself" "9003" "the service itself" "9004" "the service itself" -}}
{{- range $name, $s := $v.mcpServers -}}
{{- $port := toString (int $s.port) -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "mcpServers.%s.port: %s is that of %s, and they are in one pod" $name $port (get $ports $port)) -}}
{{- end -}}
{{- $_ := set $ports $port (printf "mcpServers.%s" $name) -}}
{{- end -}}
{{- if and $v.tls.enabled (not $v.tls.secretName) (not $v.tls.certManager.enabled) -}}
{{- fail "tls.enabled needs a certificate: set tls.secretName to a Secret with tls.crt, tls.key and ca.crt, or tls.certManager.enabled=true and its issuerRef (docs/envoy.md)" -}}
{{- end -}}
{{- if and (not $v.tls.enabled) (or $v.tls.mutual $v.tls.certManager.enabled $v.tls.secretName) -}}
{{- fail "tls.mutual, tls.certManager.enabled and tls.secretName do nothing without tls.enabled=true" -}}
{{- end -}}
{{- if and $v.tls.certManager.enabled (not $v.tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef must name the issuer, such as {name: internal-ca, kind: ClusterIssuer}" -}}
{{- end -}}
{{- include "mcp-via-llm.checkConfig" . -}}
{{- $shared := or $v.redis.bundled (dig "store" "redis" "url" "" $v.config) -}}
{{- if and (or (gt (int $v.replicas) 1) $v.autoscaling.enabled) (not $shared) -}}
{{- fail "replicas, autoscaling: several replicas need a shared store: set config.store.redis.url, or redis.bundled=true for a trial" -}}
{{- end -}}
{{- if and $v.redis.bundled (dig "store" "redis" "url" "" $v.config) -}}
{{- fail "redis.bundled and config.store.redis.url: keep one" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (not (or $v.autoscaling.cpu $v.autoscaling.openTurns)) -}}
{{- fail "autoscaling.cpu or autoscaling.openTurns must be set: by what shall it scale?" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled $v.autoscaling.cpu (not (dig "requests" "cpu" "" ($v.resources | default dict))) -}}
{{- fail "autoscaling.cpu is a share of resources.requests.cpu: set that, or autoscaling.cpu=0" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and $v.redis.passwordSecret.name (not $v.redis.bundled) -}}
{{- fail "redis.passwordSecret is that of the bundled Redis, and redis.bundled is false: give yours in config.store.redis.url, as ${REDIS_PASSWORD} with env" -}}
{{- end -}}
{{- if and $v.otlp.endpoint (not (regexMatch "^https?://[^/]+" $v.otlp.endpoint)) -}}
{{- fail (printf "otlp.endpoint: %s is no URL; write it as http://otel-collector.monitoring:4318" $v.otlp.endpoint) -}}
{{- end -}}
{{- if and $v.envoy.tracing (not (regexMatch "^[^/\\s]+:[0-9]+$" $v.envoy.tracing)) -}}
{{- fail (printf "envoy.tracing: %s is not host:port, such as otel-collector.monitoring:4317" $v.envoy.tracing) -}}
{{- end -}}
{{- if and (eq $v.integration "envoy") (semverCompare "<1.37-0" $v.envoy.version) -}}
{{- fail (printf "envoy.version: %s is too old: the filter needs an Envoy from 1.37 on (envoy.image, envoy.version)" $v.envoy.version) -}}
{{- end -}}
{{- if and (eq $v.integration "envoy") $v.envoy.failOpen (semverCompare "<1.40-0" $v.envoy.version) -}}
{{- fail "envoy.failOpen needs an Envoy of 1.40 or later (envoy.image, envoy.version): in static mode body bytes have left Envoy when the service fails" -}}
{{- end -}}
{{- if and $v.envoyGateway.failOpen (ne $v.envoyGateway.mode "override") -}}
{{- fail "envoyGateway.failOpen needs envoyGateway.mode=override: in static mode body bytes have left Envoy when the service fails" -}}
{{- end -}}
{{- if and $v.istio.failOpen (ne $v.istio.mode "override") -}}
{{- fail "istio.failOpen needs istio.mode=override: in static mode body bytes have left Envoy when the service fails" -}}
{{- end -}}
{{- if and (ne $v.integration "envoy-gateway") (or $v.envoyGateway.routes $v.envoyGateway.existingRoutes) -}}
{{- fail (printf "envoyGateway.routes and envoyGateway.existingRoutes do nothing with integration=%s: set integration=envoy-gateway, or leave them out" $v.integration) -}}
{{- end -}}
{{- if and (ne $v.integration "istio") $v.istio.routes -}}
{{- fail (printf "istio.routes does nothing with integration=%s: set integration=istio, or leave it out" $v.integration) -}}
{{- end -}}
{{- if and (eq $v.integration "envoy-gateway") (not (or $v.envoyGateway.routes $v.envoyGateway.existingRoutes)) -}}
{{- fail "envoyGateway.routes or envoyGateway.existingRoutes must name the routes that get the tools" -}}
{{- end -}}
{{- if and (eq $v.integration "istio") (not $v.istio.routes) -}}
{{- fail "istio.routes must name the routes that get the tools" -}}
{{- end -}}
{{- end -}}

{{/* What the service would refuse in its configuration, where only the log of a pod would tell. What ${VAR} or ${file:…}
stands for is not known here. */}}
{{- define "mcp-via-llm.checkConfig" -}}
{{- $v := .Values -}}
{{- $c := $v.config -}}
{{- $servers := concat (keys ($c.servers | default dict)) (keys $v.mcpServers) | uniq | sortAlpha -}}
{{- $clients := append (keys ($c.clients | default dict)) "default" | uniq | sortAlpha -}}
{{- range $name, $s := $c.servers -}}
{{- $s = $s | default dict -}}
{{- if and $s.url $s.command -}}
{{- fail (printf "config.servers.%s: url and command: keep one" $name) -}}
{{- end -}}
{{- if not (or $s.url $s.command (hasKey $v.mcpServers $name)) -}}
{{- fail (printf "config.servers.%s needs a url, or a server of this name in mcpServers" $name) -}}
{{- end -}}
{{- if and $s.command (hasKey $v.mcpServers $name) -}}
{{- fail (printf "mcpServers.%s and config.servers.%s.command: leave command out, or rename one" $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $client := $c.clients -}}
{{- range ($client | default dict).servers -}}
{{- if not (or (has . $servers) (contains "${" .)) -}}
{{- fail (printf "config.clients.%s.servers: there is no server %s in config.servers and mcpServers; there are: %s" $name . (join ", " $servers)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $v.routes -}}
{{- if not (or (has .client $clients) (contains "${" .client)) -}}
{{- fail (printf "routes: %s: there is no client %s in config.clients; there are: %s" .route .client (join ", " $clients)) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "base_url" "loop_url" -}}
{{- $url := dig "llm" $key "" $c | default "" -}}
{{- if and $url (not (contains "${" $url)) (not (regexMatch "^https?://[^/]+" $url)) -}}
{{- fail (printf "config.llm.%s: %s is no URL; it begins with http:// or https://" $key $url) -}}
{{- end -}}
{{- end -}}
{{- end -}}
