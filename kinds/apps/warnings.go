package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/volumes"
)

func deploymentWarnings(d, old *appsv1.Deployment) []string {
	path := specPath.Child("template")
	switch {
	case old == nil:
		return append(pods.NameWarnings(d.Name), pods.TemplateWarnings(&d.Spec.Template, path)...)
	case d.Generation != old.Generation:
		return pods.TemplateWarnings(&d.Spec.Template, path)
	}
	return nil
}

func replicaSetWarnings(rs, old *appsv1.ReplicaSet) []string {
	path := specPath.Child("template")
	switch {
	case old == nil:
		return append(pods.NameWarnings(rs.Name), pods.TemplateWarnings(&rs.Spec.Template, path)...)
	case rs.Generation != old.Generation:
		return pods.TemplateWarnings(&rs.Spec.Template, path)
	}
	return nil
}

func statefulSetWarnings(set, old *appsv1.StatefulSet) (list []string) {
	if old == nil || set.Generation != old.Generation {
		list = pods.TemplateWarnings(&set.Spec.Template, specPath.Child("template"))
	}
	for i := range set.Spec.VolumeClaimTemplates {
		path := specPath.Child("volumeClaimTemplates").Index(i)
		if old != nil {
			path = path.Child("Spec")
		}
		list = append(list, volumes.ClaimSpecWarnings(&set.Spec.VolumeClaimTemplates[i].Spec, path)...)
	}
	if limit := set.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		list = append(list, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return list
}

func daemonSetWarnings(ds, old *appsv1.DaemonSet) []string {
	if old != nil && ds.Annotations[appsv1.DeprecatedTemplateGeneration] == old.Annotations[appsv1.DeprecatedTemplateGeneration] {
		return nil
	}
	return pods.TemplateWarnings(&ds.Spec.Template, specPath.Child("template"))
}
