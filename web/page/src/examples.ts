// Cases to start from.

export interface Example {
  name: string;
  crds: string;
  object: string;
  old?: string;
  before?: string;
}

const crontab = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.example.com
spec:
  group: example.com
  scope: Namespaced
  names:
    kind: CronTab
    plural: crontabs
    singular: crontab
    shortNames: [ct]
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [schedule]
            properties:
              schedule:
                description: Cron schedule with five fields.
                type: string
                pattern: '^(\\S+ ){4}\\S+$'
              replicas:
                description: Number of concurrent runs.
                type: integer
                minimum: 1
                default: 1
              concurrencyPolicy:
                description: What happens if a run takes longer than the time to the next one.
                type: string
                enum: [Allow, Forbid, Replace]
                default: Allow
          status:
            type: object
            properties:
              lastRun:
                type: string
                format: date-time
`;

const volume = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumes.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Volume, plural: volumes}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - rule: self.size >= oldSelf.size
              message: a volume cannot shrink
            properties:
              size:
                description: Size in gigabytes.
                type: integer
                minimum: 1
              class:
                description: The storage class.
                type: string
                maxLength: 8
              mounts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [path]
                maxItems: 16
                items:
                  type: object
                  required: [path]
                  x-kubernetes-validations:
                  - rule: self.path.startsWith('/')
                    message: must be absolute
                  properties:
                    path: {type: string, maxLength: 256}
                    readOnly: {type: boolean, default: false}
`;

export const examples: Example[] = [
  {
    name: "Pruning, defaults and a typo",
    crds: crontab,
    object: `# Two mistakes: the schedule has four fields instead of five, and replica should be replicas.
apiVersion: example.com/v1
kind: CronTab
metadata:
  name: hourly
  namespace: default
spec:
  schedule: 0 * * *
  replica: 3
`,
    before: crontab.replace("              concurrencyPolicy:", "              timeZone: {type: string}\n              concurrencyPolicy:").replace("minimum: 1", "minimum: 0"),
  },
  {
    name: "Update: ratcheting and oldSelf",
    crds: volume,
    object: `apiVersion: example.com/v1
kind: Volume
metadata:
  name: data
  namespace: default
spec:
  size: 5
  class: legacy-class
  mounts:
  - path: data
`,
    old: `apiVersion: example.com/v1
kind: Volume
metadata:
  name: data
  namespace: default
spec:
  size: 10
  class: legacy-class
  mounts:
  - path: /data
`,
  },
  {
    name: "Where the two semantics differ",
    crds: `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: plugins.example.com
spec:
  group: example.com
  scope: Cluster
  names: {kind: Plugin, plural: plugins}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          config:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              options:
                type: object
`,
    object: `apiVersion: example.com/v1
kind: Plugin
metadata:
  name: demo
config:
  anything: is kept
  options:
    verbose: true
`,
  },
  {
    name: "A Deployment of Kubernetes itself",
    crds: "",
    object: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replica: 2
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: website
    spec:
      containers:
      - name: web
        image: nginx
        ports:
        - containerPort: 80800
`,
  },
];
