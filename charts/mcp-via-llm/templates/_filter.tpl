{{/* What callers send for MCP servers: it is not for the provider. A header that usually carries the LLM credential is. */}}
{{- define "mcp-via-llm.privateHeaders" -}}
{{- $all := list -}}
{{- range $server := .Values.config.servers -}}
{{- $all = concat $all (dig "forward_headers" list ($server | default dict) | default list) -}}
{{- $all = append $all (dig "auth" "token_exchange" "subject_header" "" ($server | default dict)) -}}
{{- end -}}
{{- $names := list -}}
{{- range $all -}}
{{- if not (has (lower .) (list "" "authorization" "api-key" "x-api-key" "x-goog-api-key" "ocp-apim-subscription-key" "x-litellm-api-key" "cf-aig-authorization" "x-portkey-api-key" "x-portkey-virtual-key" "helicone-auth" "x-amz-security-token" "proxy-authorization")) -}}
{{- $names = append $names (lower .) -}}
{{- end -}}
{{- end -}}
{{- sortAlpha $names | uniq | toYaml -}}
{{- end -}}

{{/* The headers that Envoy's routes take away, after all filters: what is for the service alone, as package envoy has it. */}}
{{- define "mcp-via-llm.removedHeaders" -}}
- x-mcp-via-llm-hop
- x-mcp-via-llm
- x-mcp-servers
- x-mcp-session
{{- with include "mcp-via-llm.privateHeaders" . | fromYamlArray }}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- define "mcp-via-llm.attributes" -}}
- xds.route_name
- source.address
- request.id
- connection.uri_san_peer_certificate
{{- end -}}

{{/* The rules of a route to the LLM: without a timeout, which would cover the whole answer, and without what is for the
service alone. Arguments: the root, the rules. */}}
{{- define "mcp-via-llm.gatewayRules" -}}
{{- $own := include "mcp-via-llm.removedHeaders" (index . 0) | fromYamlArray -}}
{{- range index . 1 }}
{{- $rule := deepCopy . }}
{{- $filters := list }}
{{- $found := false }}
{{- range $rule.filters }}
{{- if eq .type "RequestHeaderModifier" }}
{{- $found = true }}
{{- $modifier := .requestHeaderModifier | default dict }}
{{- $filters = append $filters (dict "type" .type "requestHeaderModifier" (mergeOverwrite $modifier (dict "remove" (concat ($modifier.remove | default list) $own | uniq)))) }}
{{- else }}
{{- $filters = append $filters . }}
{{- end }}
{{- end }}
{{- if not $found }}
{{- $filters = append $filters (dict "type" "RequestHeaderModifier" "requestHeaderModifier" (dict "remove" $own)) }}
{{- end }}
{{- $_ := set $rule "filters" $filters }}
{{- $_ := set $rule "timeouts" ($rule.timeouts | default (dict "request" "0s")) }}
- {{ toYaml $rule | nindent 2 | trim }}
{{- end }}
{{- end -}}
