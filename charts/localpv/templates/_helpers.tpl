{{/* What runs on the nodes: agent, or provisioner of a drop-in. */}}
{{- define "localpv.program" -}}{{ ternary "provisioner" "agent" .Values.dropIn }}{{- end }}

{{- define "localpv.base" -}}{{ default (default "localpv" .Values.nameOverride) .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "localpv.name" -}}{{ include "localpv.base" . }}-{{ include "localpv.program" . }}{{- end }}

{{- define "localpv.account" -}}{{ default (include "localpv.name" .) .Values.serviceAccount.name }}{{- end }}

{{- define "localpv.manager" -}}{{ include "localpv.base" . }}-manager{{- end }}

{{- define "localpv.config" -}}{{ include "localpv.base" . }}-config{{- end }}

{{- define "localpv.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  timeoutSeconds: 5
  periodSeconds: 20
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  timeoutSeconds: 5
  periodSeconds: 10
{{- end }}

{{/* storageClassMap: what is about the StorageClass object stays out, and mountDir is hostDir unless it is given. */}}
{{- define "localpv.classMap" -}}
{{- $map := dict }}
{{- range .Values.classes }}
{{- $_ := set $map (required "each class needs a name" .name) (omit . "name" "storageClass" "allowedTopologies") }}
{{- end }}
{{- toYaml $map }}
{{- end }}

{{/* Where a class's directory is, without a slash at the end; the argument is the class. */}}
{{- define "localpv.mountDir" -}}{{ default .hostDir .mountDir | clean }}{{- end }}
