package builtin

import (
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// errNoKubelet is the reason why a subresource is not available.
const errNoKubelet = "pods are data on this server, and nothing runs them: %s needs a cluster"

// withoutKubelet returns the handler of a subresource that a kubelet serves in a cluster. Requests
// for pods and containers that do not exist have the answers of kube-apiserver.
func (h *Handler) withoutKubelet(e *endpoint, info *apirequest.RequestInfo) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if e.resource.Group == "" && e.resource.Plural == "pods" && info.Subresource != "proxy" {
			obj, err := e.store.Get(apirequest.WithNamespace(req.Context(), info.Namespace), info.Name, &metav1.GetOptions{})
			if err != nil {
				h.fail(w, req, info, err)
				return
			}
			pod := obj.(*corev1.Pod)
			if info.Subresource != "portforward" {
				if err := checkContainer(pod, req.URL.Query().Get("container")); err != nil {
					h.fail(w, req, info, err)
					return
				}
			}
		}
		err := apierrors.NewGenericServerResponse(http.StatusNotImplemented, info.Verb, e.resource.GroupResource(), info.Name, "", 0, false)
		err.ErrStatus.Reason = "NotImplemented"
		err.ErrStatus.Message = fmt.Sprintf(errNoKubelet, info.Subresource)
		h.fail(w, req, info, err)
	}
}

// checkContainer checks the name of a container in a request. It can be omitted if the pod has
// only one.
func checkContainer(pod *corev1.Pod, name string) error {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	switch {
	case name != "" && !slices.Contains(names, name):
		return apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	case name == "" && len(pod.Spec.Containers) > 1:
		return apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
	}
	return nil
}
