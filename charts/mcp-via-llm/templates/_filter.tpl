{{/* Names of the product, as in package envoy. */}}
{{- define "mcp-via-llm.ownHeaders" -}}
- x-mcp-via-llm-hop
- x-mcp-via-llm
- x-mcp-servers
- x-mcp-session
{{- end -}}

{{- define "mcp-via-llm.attributes" -}}
- xds.route_name
- source.address
- request.id
- connection.uri_san_peer_certificate
{{- end -}}

{{/* The rules of a route to the LLM: without a timeout, which would cover the whole answer, and without what is for the
service alone. */}}
{{- define "mcp-via-llm.gatewayRules" -}}
{{- $own := include "mcp-via-llm.ownHeaders" . | fromYamlArray -}}
{{- range . }}
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
