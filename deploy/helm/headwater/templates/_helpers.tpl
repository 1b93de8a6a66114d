{{/* The prefix of all names. */}}
{{- define "headwater.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 32 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 32 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 32 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The labels of an object. Takes `root` and `component`. */}}
{{- define "headwater.labels" -}}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: headwater
{{ include "headwater.selectorLabels" . }}
{{- end }}

{{/* The labels by which the Pods of a component are selected. Takes `root` and `component`. */}}
{{- define "headwater.selectorLabels" -}}
app.kubernetes.io/name: headwater
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "headwater.image" -}}
{{- $repository := required "Set image.repository to the name of Headwater's image (deploy/Containerfile builds it)." .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- define "headwater.workerNamespace" -}}
{{- .Values.workers.namespace | default .Release.Namespace -}}
{{- end }}

{{/* A seccomp profile from RuntimeDefault, Unconfined or Localhost:FILE. */}}
{{- define "headwater.seccompProfile" -}}
{{- $parts := splitn ":" 2 . -}}
type: {{ $parts._0 }}
{{- with $parts._1 }}
localhostProfile: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "headwater.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/*
The secret files of a component, as a JSON array. `variable` names the file to the process.
Takes `root` and `kind`: api, controller, prices or ingest.
*/}}
{{- define "headwater.secretFiles" -}}
{{- $values := .root.Values -}}
{{- $kafka := $values.kafka -}}
{{- $needsPassword := and (hasPrefix "SASL" $kafka.securityProtocol) (not (has $kafka.saslMechanism (list "OAUTHBEARER" "AWS_MSK_IAM"))) -}}
{{- if $needsPassword -}}
{{- $_ := required "Set kafka.existingSecret to the Secret with the password of Headwater's Kafka user." $kafka.existingSecret -}}
{{- end -}}
{{- $stores := list
  (dict "variable" "HEADWATER_DATABASE_URL_FILE" "secret" (required "Set postgresql.existingSecret to the Secret with the URL of your PostgreSQL." $values.postgresql.existingSecret) "key" $values.postgresql.urlKey)
  (dict "variable" "HEADWATER_SECRET_KEY_FILE" "secret" (required "Set secretKey.existingSecret to the Secret with the secret key." $values.secretKey.existingSecret) "key" $values.secretKey.key)
  (dict "variable" "HEADWATER_OLD_SECRET_KEY_FILE" "secret" $values.secretKey.existingSecret "key" $values.secretKey.oldKey)
-}}
{{- $redis := list
  (dict "variable" "HEADWATER_REDIS_URL_FILE" "secret" (required "Set redis.existingSecret to the Secret with the URL of your Valkey." $values.redis.existingSecret) "key" $values.redis.urlKey)
-}}
{{- $broker := list
  (dict "variable" "HEADWATER_KAFKA_PASSWORD_FILE" "secret" $kafka.existingSecret "key" (ternary $kafka.passwordKey "" $needsPassword))
  (dict "variable" "HEADWATER_KAFKA_KEY_PASSWORD_FILE" "secret" $kafka.existingSecret "key" $kafka.keyPasswordKey)
  (dict "variable" "HEADWATER_KAFKA_OAUTH_CLIENT_SECRET_FILE" "secret" $kafka.existingSecret "key" $kafka.oauthClientSecretKey)
  (dict "variable" "HEADWATER_KAFKA_CA_FILE" "secret" $kafka.tls.existingSecret "key" $kafka.tls.caKey)
  (dict "variable" "HEADWATER_KAFKA_CERTIFICATE_FILE" "secret" $kafka.tls.existingSecret "key" $kafka.tls.certificateKey)
  (dict "variable" "HEADWATER_KAFKA_KEY_FILE" "secret" $kafka.tls.existingSecret "key" $kafka.tls.keyKey)
  (dict "variable" "HEADWATER_KAFKA_OAUTH_CA_FILE" "secret" $kafka.tls.existingSecret "key" $kafka.tls.oauthCaKey)
-}}
{{- $reader := list
  (dict "variable" "HEADWATER_KAFKA_READER_PASSWORD_FILE" "secret" $kafka.existingSecret "key" $kafka.readerPasswordKey)
-}}
{{- $byKind := dict
  "api" (concat $stores $redis $broker $reader)
  "controller" (concat $stores $redis $broker)
  "prices" (concat $redis $broker)
  "ingest" $broker
-}}
{{- $files := list -}}
{{- range get $byKind .kind -}}
{{- if and .secret .key -}}
{{- $files = append $files . -}}
{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end }}

{{/* The settings that are not secret, as a JSON object. */}}
{{- define "headwater.settings" -}}
{{- $kafka := .Values.kafka -}}
{{- $derived := dict
  "HEADWATER_KAFKA_BOOTSTRAP_SERVERS" (required "Set kafka.bootstrapServers to the addresses of your Kafka, host:port,host:port." $kafka.bootstrapServers)
  "HEADWATER_KAFKA_SECURITY_PROTOCOL" $kafka.securityProtocol
  "HEADWATER_KAFKA_SASL_MECHANISM" $kafka.saslMechanism
  "HEADWATER_KAFKA_USERNAME" $kafka.username
  "HEADWATER_KAFKA_CREDENTIALS" $kafka.credentials
  "HEADWATER_KAFKA_REPLICATION" (toString $kafka.replication)
  "HEADWATER_KAFKA_OAUTH_TOKEN_ENDPOINT_URL" $kafka.oauth.tokenEndpointUrl
  "HEADWATER_KAFKA_OAUTH_CLIENT_ID" $kafka.oauth.clientId
  "HEADWATER_KAFKA_OAUTH_SCOPE" $kafka.oauth.scope
  "HEADWATER_KAFKA_OAUTH_EXTENSIONS" $kafka.oauth.extensions
  "HEADWATER_KAFKA_AWS_REGION" $kafka.awsRegion
  "HEADWATER_KAFKA_READER_BOOTSTRAP_SERVERS" $kafka.reader.bootstrapServers
  "HEADWATER_KAFKA_READER_SECURITY_PROTOCOL" $kafka.reader.securityProtocol
  "HEADWATER_KAFKA_READER_SASL_MECHANISM" $kafka.reader.saslMechanism
  "HEADWATER_KAFKA_READER_USERNAME" $kafka.reader.username
  "HEADWATER_HOST" "0.0.0.0"
  "HEADWATER_METRICS_HOST" "0.0.0.0"
-}}
{{- if .Values.streamBindings.bindings -}}
{{- $_ := set $derived "HEADWATER_STREAM_BINDINGS" "/etc/headwater/streams/bindings.json" -}}
{{- end -}}
{{- $given := dict -}}
{{- range $name, $value := $derived -}}
{{- if $value -}}
{{- $_ := set $given $name $value -}}
{{- end -}}
{{- end -}}
{{- toJson (mergeOverwrite $given .Values.settings) -}}
{{- end }}

{{/* The settings of the controller alone: how it makes the Pods of workers, as a JSON object. */}}
{{- define "headwater.workerSettings" -}}
{{- $workers := .Values.workers -}}
{{- $settings := dict
  "HEADWATER_ORCHESTRATOR" "kubernetes"
  "HEADWATER_KUBERNETES_NAMESPACE" (include "headwater.workerNamespace" .)
  "HEADWATER_KUBERNETES_INSTANCE" .Release.Name
  "HEADWATER_METRICS_PORT" (toString .Values.controller.metricsPort)
  "HEADWATER_WORKER_IMAGE" (include "headwater.image" .)
  "HEADWATER_WORKER_IMAGE_PULL_POLICY" .Values.image.pullPolicy
  "HEADWATER_WORKER_IMAGE_PULL_SECRETS" (join "," .Values.image.pullSecrets)
  "HEADWATER_WORKER_MEMORY_MB" (toString $workers.memoryMb)
  "HEADWATER_WORKER_CPU_REQUEST" $workers.cpuRequest
  "HEADWATER_WORKER_CPU_LIMIT" $workers.cpuLimit
  "HEADWATER_WORKER_SERVICE_ACCOUNT" (printf "%s-workers" (include "headwater.fullname" .))
  "HEADWATER_WORKER_PRIORITY_CLASS" $workers.priorityClass
  "HEADWATER_WORKER_NODE_SELECTOR" (ternary (toJson $workers.nodeSelector) "" (not (empty $workers.nodeSelector)))
  "HEADWATER_WORKER_TOLERATIONS" (ternary (toJson $workers.tolerations) "" (not (empty $workers.tolerations)))
  "HEADWATER_WORKER_SECCOMP_PROFILE" .Values.sandbox.seccompProfile
-}}
{{- toJson $settings -}}
{{- end }}

{{/*
A Deployment. Takes:
  root
  name        of the Deployment
  component   the label app.kubernetes.io/component
  kind        api, controller, prices or ingest: decides the secrets
  values      of the component
  args        of the command `headwater`
  account     the service account
*/}}
{{- define "headwater.deployment" -}}
{{- $values := .values -}}
{{- $root := .root -}}
{{- $files := include "headwater.secretFiles" . | fromJsonArray -}}
{{- $bindings := and $root.Values.streamBindings.bindings (ne .kind "prices") -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "headwater.labels" . | nindent 4 }}
spec:
  {{- if eq .kind "ingest" }}
  replicas: 1
  {{- else if not (and (eq .kind "api") $values.autoscaling.enabled) }}
  replicas: {{ $values.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "headwater.selectorLabels" . | nindent 6 }}
  strategy:
    {{- if eq .kind "ingest" }}
    # Two processes of one ingest fence each other.
    type: Recreate
    {{- else }}
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
    {{- end }}
  template:
    metadata:
      labels:
        {{- include "headwater.labels" . | nindent 8 }}
        {{- if ne .kind "api" }}
        headwater/metrics: "true"
        {{- end }}
      annotations:
        checksum/settings: {{ include "headwater.settings" $root | sha256sum }}
        {{- if eq .kind "controller" }}
        checksum/worker-settings: {{ include "headwater.workerSettings" $root | sha256sum }}
        {{- end }}
        {{- if $bindings }}
        checksum/bindings: {{ toJson $root.Values.streamBindings.bindings | sha256sum }}
        {{- end }}
        {{- if eq .kind "ingest" }}
        checksum/ingest: {{ toJson $values.config | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      automountServiceAccountToken: {{ eq .kind "controller" }}
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile:
          {{- include "headwater.seccompProfile" (ternary $root.Values.sandbox.seccompProfile "RuntimeDefault" (eq .kind "api")) | nindent 10 }}
      containers:
        - name: headwater
          image: {{ include "headwater.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ toJson .args }}
          envFrom:
            - configMapRef:
                name: {{ include "headwater.fullname" $root }}
            {{- if eq .kind "controller" }}
            - configMapRef:
                name: {{ .name }}
            {{- end }}
            {{- if and (eq .kind "ingest") $values.existingSecret }}
            - secretRef:
                name: {{ $values.existingSecret }}
            {{- end }}
          {{- if or $files $root.Values.extraEnv (has .kind (list "prices" "ingest")) }}
          env:
            {{- range $files }}
            - name: {{ .variable }}
              value: /etc/headwater/secrets/{{ .variable }}
            {{- end }}
            {{- if eq .kind "prices" }}
            - name: HEADWATER_PRICES_METRICS_PORT
              value: {{ $values.metricsPort | quote }}
            {{- end }}
            {{- if eq .kind "ingest" }}
            - name: HEADWATER_INGESTS
              value: /etc/headwater/ingests/ingests.json
            {{- end }}
            {{- with $root.Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
          ports:
            {{- if eq .kind "api" }}
            - name: http
              containerPort: 8080
            {{- else }}
            - name: metrics
              containerPort: {{ $values.metricsPort }}
            {{- end }}
          {{- if eq .kind "api" }}
          startupProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: {{ $values.readinessPath }}, port: http}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- if $values.preStopSeconds }}
          lifecycle:
            preStop:
              sleep:
                seconds: {{ $values.preStopSeconds }}
          {{- end }}
          {{- else }}
          # A process opens this port when it is ready, and ends by itself when it can't work any more.
          readinessProbe:
            tcpSocket: {port: metrics}
            periodSeconds: 5
          {{- end }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- include "headwater.containerSecurityContext" . | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
          volumeMounts:
            - name: data
              mountPath: /var/lib/headwater
            - name: tmp
              mountPath: /tmp
            {{- if $files }}
            - name: secrets
              mountPath: /etc/headwater/secrets
              readOnly: true
            {{- end }}
            {{- if $bindings }}
            - name: streams
              mountPath: /etc/headwater/streams
              readOnly: true
            {{- end }}
            {{- if eq .kind "ingest" }}
            - name: ingests
              mountPath: /etc/headwater/ingests
              readOnly: true
            {{- end }}
            {{- with concat $root.Values.extraVolumeMounts ($values.extraVolumeMounts | default list) }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: data
          emptyDir: {}
        - name: tmp
          emptyDir: {}
        {{- if $files }}
        - name: secrets
          projected:
            defaultMode: 0440
            sources:
              {{- range $files }}
              - secret:
                  name: {{ .secret }}
                  items:
                    - key: {{ .key }}
                      path: {{ .variable }}
              {{- end }}
        {{- end }}
        {{- if $bindings }}
        - name: streams
          projected:
            defaultMode: 0440
            sources:
              - configMap:
                  name: {{ include "headwater.fullname" $root }}-streams
              {{- with $root.Values.streamBindings.filesSecret }}
              - secret:
                  name: {{ . }}
              {{- end }}
        {{- end }}
        {{- if eq .kind "ingest" }}
        - name: ingests
          configMap:
            name: {{ .name }}
        {{- end }}
        {{- with concat $root.Values.extraVolumes ($values.extraVolumes | default list) }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if ne .kind "ingest" }}
      topologySpreadConstraints:
        {{- $selector := include "headwater.selectorLabels" . | fromYaml }}
        {{- range $root.Values.topologySpreadConstraints }}
        {{- list (merge (dict "labelSelector" (dict "matchLabels" $selector)) .) | toYaml | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}

{{/* A PodDisruptionBudget. Takes `root`, `name`, `component` and `values`. */}}
{{- define "headwater.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "headwater.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "headwater.selectorLabels" . | nindent 6 }}
{{- end }}

{{/* Egress rules. Takes a list of services, each with `ports` and `to`. DNS (port 53) also uses UDP. */}}
{{- define "headwater.egress" -}}
{{- range . }}
- ports:
    {{- range .ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- if eq (int .) 53 }}
    - {port: 53, protocol: UDP}
    {{- end }}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The ingress rule for the port `metrics`. */}}
{{- define "headwater.metricsIngress" -}}
- ports: [{port: metrics}]
  {{- with .Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
