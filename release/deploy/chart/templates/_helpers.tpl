{{- define "rangekeeper.healthzPort" -}}
{{ .Values.healthzBindAddress | splitList ":" | last }}
{{- end }}

{{- /* The address of healthzBindAddress, without brackets. */ -}}
{{- define "rangekeeper.healthzHost" -}}
{{ regexReplaceAll ":[0-9]+$" .Values.healthzBindAddress "" | trimAll "[]" }}
{{- end }}

{{- /* Where the kubelet finds it: an address for all is no address to connect to. */ -}}
{{- define "rangekeeper.probeHost" -}}
{{- $host := include "rangekeeper.healthzHost" . -}}
{{- if eq $host "0.0.0.0" -}}127.0.0.1{{- else if eq $host "::" -}}::1{{- else -}}{{ $host }}{{- end -}}
{{- end }}
