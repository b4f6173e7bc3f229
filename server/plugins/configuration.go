package plugins

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// configure reads the configuration of a plugin, unless it is empty.
func configure(data []byte, apiVersion string, into any) error {
	if len(data) == 0 {
		return nil
	}
	var t metav1.TypeMeta
	if err := yaml.Unmarshal(data, &t); err != nil {
		return err
	}
	if t.APIVersion != apiVersion || t.Kind != "Configuration" {
		return fmt.Errorf("the configuration is %q %q: must be %q %q", t.APIVersion, t.Kind, apiVersion, "Configuration")
	}
	return yaml.Unmarshal(data, into)
}
