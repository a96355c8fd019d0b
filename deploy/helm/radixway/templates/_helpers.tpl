{{- define "radixway.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "radixway.selector" -}}
app.kubernetes.io/name: radixway
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "radixway.labels" -}}
{{ include "radixway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "radixway.demo.selector" -}}
app: vllm-worker
app.kubernetes.io/instance: {{ .Release.Name }}
model: demo
{{- end }}

{{- define "radixway.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "radixway.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "radixway.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "gateway" (merge (default dict $config.gateway) (dict "port" 30000)) }}
{{- if .Values.rules }}
{{- $_ := set $config "semantic" (merge (dict "config" "/etc/radixway/rules/rules.yaml") (default dict $config.semantic)) }}
{{- end }}
{{- $_ := set $config "encoders" (merge (default dict $config.encoders) (dict "home" "/models/encoders")) }}
{{- toYaml $config }}
{{- end }}

{{- define "radixway.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "radixway.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
