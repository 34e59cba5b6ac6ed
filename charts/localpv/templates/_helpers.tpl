{{/* What runs on the nodes: agent, or provisioner of a drop-in. */}}
{{- define "localpv.program" -}}{{ ternary "provisioner" "agent" .Values.dropIn }}{{- end }}

{{- define "localpv.base" -}}{{ default (default "localpv" .Values.nameOverride) .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "localpv.name" -}}{{ include "localpv.base" . }}-{{ include "localpv.program" . }}{{- end }}

{{- define "localpv.account" -}}{{ default (include "localpv.name" .) .Values.serviceAccount.name }}{{- end }}

{{- define "localpv.manager" -}}{{ include "localpv.base" . }}-manager{{- end }}

{{- define "localpv.config" -}}{{ include "localpv.base" . }}-config{{- end }}

{{/* Not empty where what runs on the nodes is installed: LocalStorages bring pods of their own. */}}
{{- define "localpv.agents" -}}{{ if or .Values.classes .Values.dropIn (not .Values.operator.enabled) }}yes{{ end }}{{- end }}

{{/* Of the pods that serve LocalStorages on nodes; the operator knows them by this name. */}}
{{- define "localpv.discoverer" -}}localpv-discoverer{{- end }}

{{/* What everybody should know who chooses a class. */}}
{{- define "localpv.risks" -}}Volumes of this class are disks of single nodes: a pod that uses one runs on that node only, and waits while the node is away. The data is as safe as that one disk: nobody copies it.{{- end }}

{{/* A probe that is given in the values takes the place of ours. */}}
{{- define "localpv.probes" -}}
livenessProbe:
  {{- with .Values.livenessProbe }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  httpGet: {path: /livez, port: metrics}
  timeoutSeconds: 5
  periodSeconds: 20
  failureThreshold: 6
  {{- end }}
readinessProbe:
  {{- with .Values.readinessProbe }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  httpGet: {path: /readyz, port: metrics}
  timeoutSeconds: 5
  periodSeconds: 10
  {{- end }}
{{- with .Values.startupProbe }}
startupProbe:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where plain Prometheus finds the metrics; with a PodMonitor they would be read twice. The argument is the root and
     the annotations that are given, which win. */}}
{{- define "localpv.annotations" -}}
{{- $scraped := dict "prometheus.io/scrape" "true" "prometheus.io/port" "8080" }}
{{- with merge (dict) (default dict .given) (ternary dict $scraped .root.Values.serviceMonitor.enabled) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* storageClassMap: what is about the StorageClass object stays out, and mountDir is hostDir unless it is given. */}}
{{- define "localpv.classMap" -}}
{{- $map := dict }}
{{- range .Values.classes }}
{{- $_ := set $map (required "each class needs a name" .name) (omit . "name" "storageClass" "allowedTopologies") }}
{{- end }}
{{- toYaml $map }}
{{- end }}

{{/* Not empty where a class has a pool. */}}
{{- define "localpv.pools" -}}
{{- range .Values.classes }}{{ if hasKey . "pool" }}{{ .name }}{{ end }}{{ end }}
{{- end }}

{{/* Where a class's directory is, without a slash at the end; the argument is the class. */}}
{{- define "localpv.mountDir" -}}{{ default (required "each class needs a hostDir" .hostDir) .mountDir | clean }}{{- end }}

{{/* Rights of an agent. */}}
{{- define "localpv.agentRules" -}}
- verbs: [get, list, watch, create, delete, patch, update]
  apiGroups: [localpv.dev]
  resources: [localdisks]
- verbs: [get, patch, update]
  apiGroups: [localpv.dev]
  resources: [localdisks/status]
- verbs: [get, list, watch, create, delete, patch, update]
  apiGroups: [localpv.dev]
  resources: [localpools]
- verbs: [get, patch, update]
  apiGroups: [localpv.dev]
  resources: [localpools/status, poolvolumes/status, poolsnapshots/status]
- verbs: [get, list, watch, patch, update]
  apiGroups: [localpv.dev]
  resources: [poolvolumes, poolsnapshots]
- verbs: [get]
  apiGroups: [""]
  resources: [nodes]
- verbs: [create, patch]
  apiGroups: ["", events.k8s.io]
  resources: [events]
- verbs: [get]
  apiGroups: [local.storage.openshift.com]
  resources: [localstorages]
{{- end }}
