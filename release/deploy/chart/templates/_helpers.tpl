{{- define "rangekeeper.healthzPort" -}}
{{ .Values.healthzBindAddress | splitList ":" | last }}
{{- end }}
