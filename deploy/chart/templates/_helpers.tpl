{{- define "espalier.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "espalier.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "espalier.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "espalier.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "espalier.selector" -}}
app.kubernetes.io/name: {{ include "espalier.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "espalier.labels" -}}
{{ include "espalier.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "espalier.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "espalier.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "espalier.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "espalier.url" -}}
https://{{ include "espalier.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}

{{/* The flags of espalier kubeconfig that name the certificates of the server. */}}
{{- define "espalier.certificateFlags" -}}
--data-dir=/var/lib/espalier/data
{{- if .Values.ca.secretName }} --ca-cert-file=/etc/espalier/ca/tls.crt --ca-key-file=/etc/espalier/ca/tls.key{{ end }}
{{- if .Values.tls.secretName }} --tls-cert-file=/etc/espalier/tls/tls.crt --tls-private-key-file=/etc/espalier/tls/tls.key{{ end }}
{{- end -}}

{{/* Rules that a schema cannot state. */}}
{{- define "espalier.check" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if not .Values.etcd.servers -}}
{{- fail "replicas: more than 1 needs an external etcd that the servers share: set etcd.servers" -}}
{{- end -}}
{{- if not .Values.ca.secretName -}}
{{- fail "replicas: more than 1 needs a CA that the servers share: set ca.secretName to a Secret with tls.crt and tls.key" -}}
{{- end -}}
{{- if not .Values.authentication.serviceAccountKeySecretName -}}
{{- fail "replicas: more than 1 needs a key for the tokens of service accounts that the servers share: set authentication.serviceAccountKeySecretName to a Secret with tls.key" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") -}}
{{- fail "service.nodePort is for other types of services: set service.type to NodePort or LoadBalancer" -}}
{{- end -}}
{{- if and .Values.etcd.tls.secretName (not .Values.etcd.servers) -}}
{{- fail "etcd.tls.secretName is for an external etcd: set etcd.servers" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.serviceMonitor.secretName) -}}
{{- fail "metrics.serviceMonitor.enabled: Prometheus needs a client certificate: set metrics.serviceMonitor.secretName to a Secret with ca.crt, tls.crt and tls.key" -}}
{{- end -}}
{{- end -}}
