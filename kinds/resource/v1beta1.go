package resource

// exact are the fields of a request that are in its field exactly in v1, and in the request itself
// in v1beta1.
var exact = []string{"deviceClassName", "selectors", "allocationMode", "count", "adminAccess",
	"tolerations", "capacity", "derivedAttributes"}

// FromV1beta1 changes an object of version v1beta1, as JSON, to one of v1.
func FromV1beta1(obj map[string]any) {
	forEach(obj, func(request map[string]any) {
		exactly := map[string]any{}
		for _, name := range exact {
			if value, ok := request[name]; ok && value != "" {
				exactly[name] = value
			}
			delete(request, name)
		}
		if len(exactly) > 0 {
			request["exactly"] = exactly
		}
	}, func(device map[string]any) {
		basic, _ := device["basic"].(map[string]any)
		delete(device, "basic")
		for name, value := range basic {
			device[name] = value
		}
	})
}

// ToV1beta1 changes an object of version v1, as JSON, to one of v1beta1.
func ToV1beta1(obj map[string]any) {
	forEach(obj, func(request map[string]any) {
		exactly, _ := request["exactly"].(map[string]any)
		delete(request, "exactly")
		for name, value := range exactly {
			request[name] = value
		}
	}, func(device map[string]any) {
		basic := map[string]any{}
		for name, value := range device {
			if name != "name" {
				basic[name] = value
				delete(device, name)
			}
		}
		device["basic"] = basic
	})
}

// forEach calls functions for each request for devices in an object, or the objects of a list, and
// for each device.
func forEach(obj map[string]any, request, device func(map[string]any)) {
	for _, item := range objects(obj["items"]) {
		forEach(item, request, device)
	}
	spec, _ := obj["spec"].(map[string]any)
	for _, d := range objects(spec["devices"]) { // of a slice
		device(d)
	}
	if template, ok := spec["spec"].(map[string]any); ok { // of a template
		spec = template
	}
	claim, _ := spec["devices"].(map[string]any)
	for _, r := range objects(claim["requests"]) {
		request(r)
	}
}

// objects returns the objects in a list.
func objects(list any) []map[string]any {
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
