// Package fairness divides the requests that a server works on at the same time among its users, as
// the flow schemas and priority levels that it stores tell: API priority and fairness. The queues are
// those of k8s.io/apiserver. This package gives them the stored objects, writes the conditions of flow
// schemas, keeps the flow schemas and priority levels that every server has, and estimates what a list
// costs.
package fairness
