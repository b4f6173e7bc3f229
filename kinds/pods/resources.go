package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"espalier.dev/kinds/rules"
)

// checkResources validates the requests and limits of a container or a pod. name validates the
// name of a resource; claims are the claims of the pod.
func (c *checker) checkResources(r *corev1.ResourceRequirements, name func(corev1.ResourceName,
	*field.Path) field.ErrorList, claims sets.Set[string], path *field.Path) {
	limits, requests := path.Child("limits"), path.Child("requests")
	compute, hugePages := false, false
	check := func(resource corev1.ResourceName, list corev1.ResourceList, at *field.Path) {
		c.add(name(resource, at)...)
		c.add(rules.ResourceQuantity(resource, list[resource], at)...)
		compute = compute || resource == corev1.ResourceCPU || resource == corev1.ResourceMemory
		hugePages = hugePages || rules.IsHugePages(resource)
	}
	checkHugePages := func(resource corev1.ResourceName, list corev1.ResourceList, at *field.Path) {
		if rules.IsHugePages(resource) && !c.hugePages {
			c.add(rules.HugePages(resource, list[resource], at)...)
		}
	}
	for _, resource := range rules.Keys(r.Limits) {
		at := limits.Key(string(resource))
		check(resource, r.Limits, at)
		checkHugePages(resource, r.Limits, at)
	}
	for _, resource := range rules.Keys(r.Requests) {
		at := requests.Key(string(resource))
		check(resource, r.Requests, at)
		request := r.Requests[resource]
		limit, limited := r.Limits[resource]
		switch overcommit := rules.IsOvercommitAllowed(resource); {
		case !limited && !overcommit:
			c.add(field.Required(limits, "Limit must be set for non overcommitable resources"))
		case limited && !overcommit && request.Cmp(limit) != 0:
			c.add(field.Invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", resource, limit.String())))
		case limited && request.Cmp(limit) > 0:
			c.add(field.Invalid(requests, request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", resource, limit.String())))
		}
		checkHugePages(resource, r.Requests, at)
	}
	if hugePages && !compute {
		c.add(field.Forbidden(path, "HugePages require cpu or memory"))
	}
	c.checkClaimNames(r.Claims, claims, path.Child("claims"))
}

// checkClaimNames validates the claims that a container uses. A container either uses a claim as
// a whole or some of its requests.
func (c *checker) checkClaimNames(list []corev1.ResourceClaim, claims sets.Set[string], path *field.Path) {
	used := sets.New[string]()
	for i, claim := range list {
		at := path.Index(i)
		if claim.Name == "" {
			c.add(field.Required(at, ""))
			continue
		}
		if used.Has(claim.Name) {
			c.add(field.Duplicate(at, claim.Name))
		} else {
			key := claim.Name
			if claim.Request != "" {
				c.add(rules.Label(claim.Request, at.Child("request"))...)
				key += "/" + claim.Request
			}
			if used.Has(key) {
				c.add(field.Duplicate(at, key))
			} else if claim.Request == "" {
				for other := range used {
					if before, _, ok := strings.Cut(other, "/"); ok && before == claim.Name {
						c.add(field.Duplicate(at, claim.Name))
					}
				}
			}
			used.Insert(key)
		}
		if !claims.Has(claim.Name) {
			err := field.NotFound(at, claim.Name)
			err.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(claims) == 0 {
				err.Detail += " which is empty"
			} else {
				err.Detail += ": " + strings.Join(sets.List(claims), ", ")
			}
			c.add(err)
		}
	}
}

// checkPodResources validates the resources of the pod as a whole.
func (c *checker) checkPodResources(path *field.Path) {
	r := c.spec.Resources
	if r == nil {
		return
	}
	if isWindows(c.spec) {
		c.add(field.Forbidden(path, "may not be set for a windows pod"))
		return
	}
	if r.Claims != nil {
		c.add(field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	c.checkResources(r, podResourceName, c.claims, path)

	pod := &corev1.Pod{Spec: *c.spec}
	requests := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range rules.Keys(requests) {
		sum := requests[name]
		if request, ok := r.Requests[name]; ok && sum.Cmp(request) > 0 {
			c.add(field.Invalid(path.Child("requests").Key(string(name)), request.String(),
				"must be greater than or equal to aggregate container requests of "+sum.String()))
		}
	}
	limits := resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range rules.Keys(limits) {
		sum := limits[name]
		if limit, ok := r.Limits[name]; ok && rules.IsHugePages(name) && sum.Cmp(limit) > 0 {
			c.add(field.Invalid(path.Child("limits").Key(string(name)), limit.String(),
				"must be greater than or equal to aggregate container limits of "+sum.String()))
		}
	}
	for i, container := range c.spec.Containers {
		for _, name := range rules.Keys(container.Resources.Limits) {
			limit := container.Resources.Limits[name]
			if most, ok := r.Limits[name]; ok && limit.Cmp(most) > 0 {
				c.add(field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
					"must be less than or equal to pod limits of "+most.String()))
			}
		}
	}
}

// podResourceName validates the name of a resource of the pod as a whole.
func podResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := rules.ResourceName(name, path); len(errs) > 0 {
		return errs
	}
	if !resourcehelper.IsSupportedPodLevelResource(name) {
		return field.ErrorList{field.NotSupported(path, name, sets.List(resourcehelper.SupportedPodLevelResources()))}
	}
	return nil
}
