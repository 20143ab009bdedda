{{- define "kscheduler.fullname" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "kscheduler.selectorLabels" -}}
app.kubernetes.io/name: kscheduler
app.kubernetes.io/component: scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kscheduler.labels" -}}
{{ include "kscheduler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The configuration as YAML: the one of files/, with the lease of this release, and on top the user's. */}}
{{- define "kscheduler.config" -}}
{{- $config := .Files.Get "files/scheduler.yaml" | fromYaml }}
{{- $lease := dict "resourceName" (include "kscheduler.fullname" .) "resourceNamespace" .Release.Namespace }}
{{- $_ := set $config "leaderElection" (mergeOverwrite $config.leaderElection $lease) }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) }}
{{- end }}
